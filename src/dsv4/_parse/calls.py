"""A call: its parameters, and what stands between them (recovery.md, rules 2, 3, 8 to 11, 14, 18,
28 and 30).
"""

from __future__ import annotations

from dsv4._parse.after_calls import read_after
from dsv4._parse.call_arguments import begins_with_object, object_text, typed_value
from dsv4._parse.events import DiagnosticKind
from dsv4._parse.limits import LONGEST_REMARK
from dsv4._parse.open_call import Call
from dsv4._parse.patterns import pattern
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.steps import Steps
from dsv4._parse.tag import TOKENS, PartialTag, Tag
from dsv4._parse.values import JsonBody, ParameterValue

_JSON_LINE = pattern(r"\n[ \t\r]*(?=\{)")
_OPEN_LINE = pattern(r"\n[ \t\r]*\Z")


def begin_call(reading: Reading, tag: Tag | None, is_quoted: bool = False) -> Steps[None]:
    """Begins a call, at its tag if it has one."""
    reading.enter(ParserState.INVOKE)
    name = None if tag is None else reading.rules.tool_called(tag)
    hidden: DiagnosticKind | None = "dropped_call"
    if not is_quoted:
        hidden = yield from _why_hidden(reading, tag, name)
    reading.call = Call(reading, tag, name, hidden)


def _why_hidden(
    reading: Reading, tag: Tag | None, name: str | None
) -> Steps[DiagnosticKind | None]:
    if reading.rules.is_example(name):
        return "prompt_example"
    if tag is None or name is None or (yield from _begins_nameless(reading, tag)):
        return "dropped_call"
    if reading.is_quoted_in_json(tag):
        return "dropped_call"
    if reading.is_beyond_limits(name):
        reading.report("limit", tag.start, tag.raw)
        return "dropped_call"
    return "forbidden_call" if reading.settings.forbidden else None


def _begins_nameless(reading: Reading, tag: Tag) -> Steps[bool]:
    """Whether the first parameter has no name: then the call does not even begin (rule 9)."""
    rules, tool = reading.rules, reading.rules.tool_called(tag) or ""
    if tag.self_closed:
        return False
    first = yield from rules.look_ahead(tag.end)
    if not rules.opens(first, "parameter", tool):
        return False
    return not rules.is_container(first, tool) and rules.key(first, tool) is None


def read_call(reading: Reading) -> Steps[None]:
    """Reads the open call to its end."""
    call = reading.call
    assert call is not None
    while reading.call is call:
        reading.enter(ParserState.INVOKE)
        if call.closed:
            call.complete()
        elif not (yield from reading.skip_space()):
            call.end()
        else:
            yield from _read_part(reading, call)
    if reading.block is None:
        yield from read_after(reading, unwrapped=not call.was_cut)


def _read_part(reading: Reading, call: Call) -> Steps[None]:
    """Reads what comes next in a call: a parameter, a body, a close, or a remark."""
    buffer = reading.buffer
    if buffer.at(reading.pos) == "{" and (
        call.may_have_body or (yield from _is_object(reading, call))
    ):
        return (yield from JsonBody(reading, call).read(as_json=True))
    tag = (yield from buffer.tag(reading.pos)) if buffer.is_mark(reading.pos) else None
    if isinstance(tag, PartialTag):
        call.end()
    elif tag is None or not call.acts(tag):
        yield from _read_remark(reading, call)
    elif tag.broken:
        if reading.rules.kind(tag) == "invoke":
            return call.complete_implied()
        call.drop("unreadable")
        yield from _read_remark(reading, call)
    else:
        yield from _read_tag(reading, call, tag)


def _is_object(reading: Reading, call: Call) -> Steps[bool]:
    """Whether a JSON object stands behind parameters, before any tag (rule 30).

    So it is if the text ends in it: cut JSON is never complete.
    """
    if call.hidden == "dropped_call":  # whatever it gives
        return False
    buffer, start = reading.buffer, reading.pos
    tag = yield from buffer.next_marked(start)
    return tag is None or begins_with_object(buffer.slice(start, tag.start))


def _read_tag(reading: Reading, call: Call, tag: Tag) -> Steps[None]:
    rules, name = reading.rules, call.name
    in_block, kind = reading.block is not None, reading.rules.kind(tag, call.name)
    if rules.is_container(tag, name):
        return call.skip(tag)
    if call.is_parameter(tag):
        key, lone = call.prepare_parameter(tag)
        if tag.self_closed:
            return call.give(key, tag.start, tag.raw, call.own_value(tag, key))
        value = ParameterValue(reading, call, key, tag, lone)
        if not (yield from _read_nested(reading, call, value)):
            yield from value.read(as_json=tag.string == "false")
        return
    if tag.kind in TOKENS or kind == "wrapper":
        return call.complete_implied()
    if kind == "invoke" and not tag.closing:
        if call.is_stutter(tag):
            return call.skip(tag)
        closes = rules.is_odd_close(tag, "invoke", name)  # a close without its slash
        if closes and (yield from rules.closes_in_run(tag.end, "invoke", name, in_block)):
            return call.close(tag)
        return call.complete_implied()
    if kind == "invoke" or tag.label == name:
        return call.close(tag)
    odd = kind != "parameter"
    if odd and (yield from rules.closes_in_run(tag.end, "invoke", name, in_block)):
        return call.close(tag)
    if tag.closing:
        reading.note_surplus(tag.end)
    call.skip(tag)


def _read_nested(reading: Reading, call: Call, value: ParameterValue) -> Steps[bool]:
    """Parameters in the value of a parameter: an object (rule 32). False: there are none.

    A value that begins so and is anything else makes the call incomplete.
    """
    rules, tool, at = reading.rules, call.name, reading.pos
    may_nest = value.types & {"array", "object"} and "string" not in value.types
    if not may_nest or value.tag.string == "true":
        return False
    ahead = yield from rules.look_past(at)
    if not ahead.marked or ahead.closing:
        return False
    reading.enter(ParserState.NESTED)
    members: dict[str, str] = {}
    while ahead.marked and not ahead.closing:
        key, close = rules.key(ahead, tool), (yield from reading.buffer.next_marked(ahead.end))
        is_new = key is not None and key not in members and key not in reading.tools.keys(tool)
        if close is None or ahead.kind != "parameter" or not is_new or key is None:
            break
        if not rules.closes(close, "parameter"):
            break
        text = reading.buffer.slice(ahead.end, close.start)
        members[key] = typed_value(text, ahead.string, frozenset())
        at = close.end
        ahead = yield from rules.look_past(at)
    closed = rules.closes(ahead, "parameter", tool)
    if not closed and not rules.closes(ahead, "invoke", tool):
        call.drop("unreadable")
        return False
    text = object_text(members)
    reading.report_span("nested_parameters", value.start, ahead.start)
    call.give(
        *(value.key, value.start, reading.buffer.slice(value.start, ahead.start)),
        text if "object" in value.types else f"[{text}]",
    )
    reading.advance(ahead.end if closed else ahead.start)
    if closed:
        reading.check_spelling(ahead)
    else:
        reading.report("implied_close", ahead.start, "")
    return True


def _read_remark(reading: Reading, call: Call) -> Steps[None]:
    """Text between parameters. Short text is removed; longer text makes the call incomplete."""
    reading.enter(ParserState.REMARK)
    buffer, start = reading.buffer, reading.pos
    at = start + 1
    while True:
        mark = buffer.next_mark(at)
        found = buffer.search(_JSON_LINE, at - 1, mark)
        if found is not None:
            at, found = buffer.place(found.end()), None
            break
        if mark < buffer.end:
            tag = buffer.tag_at(mark)
            if isinstance(tag, Tag) and call.acts(tag):
                at = mark
                break
            if not isinstance(tag, PartialTag):
                at = mark + 1
                continue
        pending = buffer.search(_OPEN_LINE, at - 1, mark)
        at = mark if pending is None else buffer.place(pending.start()) + 1
        pending = None
        if at - 1 - start > LONGEST_REMARK and call.writer.visible:
            call.drop("unreadable")  # whatever it was, the call was not understood
        if not (yield from buffer.more()):
            reading.end_inside()
            at = buffer.end
            break
    if at - start > LONGEST_REMARK and call.writer.visible:
        call.drop("unreadable")
    call.remark(start, buffer.slice(start, at))
    reading.advance(at)
