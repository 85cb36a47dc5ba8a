"""A call: its parameters, and the text between them (recovery.md, rules 2, 3, 8 to 11, 14, 18, 28
and 30).
"""

from __future__ import annotations

import re
from dataclasses import replace

from dsv4._completion.events import DiagnosticKind
from dsv4._completion.json_text import begins_with_object
from dsv4._completion.limits import LONGEST_REMARK
from dsv4._completion.patterns import pattern
from dsv4._format.spellings import CLOSING_BRACKETS
from dsv4._parse.after_calls import read_after
from dsv4._parse.call import Call
from dsv4._parse.reading import INVOKE, ParserState, Reading
from dsv4._parse.tag import MAYBE_TAG, TOKENS, PartialTag, Tag
from dsv4._parse.text_buffer import Steps, TextBuffer
from dsv4._parse.values import JsonBody, ParameterValue

_JSON_LINE = pattern(r"\n[ \t\r]*(?=\{)")
_OPEN_LINE = pattern(r"\n[ \t\r]*\Z")


def begin_call(reading: Reading, tag: Tag | None, is_quoted: bool = False) -> Steps[None]:
    """Begins a call, at its tag if there is one."""
    rules = reading.rules
    name = None if tag is None else rules.tool_called(tag)
    if tag is not None and name is not None and tag.self_closed and reading.block is not None:
        first = yield from rules.look_ahead(tag.end)
        if rules.role(first, name) == "parameter" and not rules.carries_arguments(tag):
            # `name="f" />` and then parameters: one slash too many (rule 30).
            tag = replace(tag, self_closed=False)
    hidden = yield from _why_hidden(reading, tag, name, is_quoted)
    reading.enter(INVOKE)
    reading.call = Call(reading, tag, name, hidden)


def _why_hidden(
    reading: Reading, tag: Tag | None, name: str | None, is_quoted: bool
) -> Steps[DiagnosticKind | None]:
    rules = reading.rules
    if rules.is_example(name) and not is_quoted:
        return "prompt_example"
    if tag is None or name is None or is_quoted:
        return "dropped_call"
    if not tag.self_closed:
        first = yield from rules.look_ahead(tag.end)
        # If the first parameter has no name, the call does not even begin (rule 9):
        # `<D parameter string="true">ls`.
        nameless = rules.key(first, name) is None and not rules.is_container(first, name)
        if nameless and rules.role(first, name) == "parameter":
            return "dropped_call"
    if reading.is_quoted_in_json(tag):
        return "dropped_call"
    if reading.is_beyond_limits(name):
        reading.report("limit", tag.start, tag.raw)
        return "dropped_call"
    return "forbidden_call" if reading.settings.forbidden else None


class CallReader:
    """Reads the open call to its end."""

    def __init__(self, reading: Reading) -> None:
        assert isinstance(reading.call, Call)
        self._reading = reading
        self._buffer = reading.buffer
        self._rules = reading.rules
        self._call = reading.call

    def read(self) -> Steps[None]:
        reading, call = self._reading, self._call
        while reading.call is call:
            reading.enter(INVOKE)
            if call.closed:
                call.complete()
            elif not (yield from reading.skip_space()):
                call.end()
            else:
                yield from self._read_part()
        if reading.block is None:
            yield from read_after(reading, unwrapped=not call.was_cut)

    def _read_part(self) -> Steps[None]:
        """Reads the next part of a call: a parameter, a body, a close, or a remark."""
        at = self._reading.pos
        if self._buffer.at(at) == "{" and (yield from self._is_object(at)):
            return (yield from JsonBody(self._reading, self._call).read(as_json=True))
        tag = yield from self._buffer.tag(at)
        if isinstance(tag, PartialTag):
            return self._call.end()
        word = "text" if tag is None else self._call.meaning(tag)
        yield from getattr(self, f"_read_{word}")(tag or Tag("text", at, "")) or ()

    def _is_object(self, start: int) -> Steps[bool]:
        """Whether JSON is a body; behind parameters only an object before any tag (rule 30).

        JSON in which the text ends is one too: cut JSON is never complete.
        """
        call, buffer = self._call, self._buffer
        if call.may_have_body or call.hidden == "dropped_call":
            return call.may_have_body
        tag = yield from buffer.next_marked(start)
        return tag is None or begins_with_object(buffer.slice(start, tag.start))

    # Tags.

    def _read_container(self, tag: Tag) -> None:
        self._call.skip(tag)

    def _read_parameter(self, tag: Tag) -> Steps[None]:
        if tag.raw[-1] not in CLOSING_BRACKETS and (yield from self._is_stutter(tag)):
            return self._call.skip(tag)
        call, key = self._call, self._call.prepare_parameter(tag)
        if tag.self_closed and not (yield from self._has_text(tag)):
            return call.give(key, tag.start, tag.raw, call.own_value(tag, key))
        value = ParameterValue(self._reading, call, key, tag)
        nested = yield from value.read_nested()
        return None if nested else (yield from value.read(as_json=tag.string == "false"))

    def _is_stutter(self, tag: Tag) -> Steps[bool]:
        """Whether an opening without its bracket stands directly before itself (rule 38)."""
        ahead = yield from self._buffer.tag(tag.end)
        return isinstance(ahead, Tag) and ahead.raw.rstrip(CLOSING_BRACKETS) == tag.raw

    def _has_text(self, tag: Tag) -> Steps[bool]:
        """Whether a parameter's tag has one slash too many, and its value follows."""
        if "value" in tag.attributes or tag.string not in ("true", "false"):
            return False
        ahead = yield from self._rules.look_past(tag.end)
        return self._rules.role(ahead) in ("text", "brace", "/parameter")

    def _read_over(self, tag: Tag) -> Steps[None]:
        call = self._call
        if self._rules.role(tag) == "wrapper":
            ahead = yield from self._rules.look_past(tag.end)
            if call.is_opened_by(ahead):  # a stutter is seen through a wrapper (rule 42)
                if call.is_bare:
                    return call.skip(tag)
                call.drop("unreadable")  # the model begins its block anew
        if tag.kind in TOKENS and call.is_bare:
            call.drop("cut_short")
        return call.complete_implied()

    def _read_next(self, tag: Tag) -> Steps[None]:
        call = self._call
        # Once more, with nothing between (rule 28): `<D invoke name="ls"><D invoke name="ls">`.
        if call.is_opened_by(tag) and call.is_bare and not call.has_lost_value:
            return call.skip(tag)
        closes = self._rules.is_odd_close(tag, "invoke", call.name)  # a close without its slash
        if closes and (yield from self._ends_run(tag)):
            return call.close(tag)
        return call.complete_implied()

    def _read_close(self, tag: Tag) -> None:
        self._call.close(tag)

    def _read_odd(self, tag: Tag) -> Steps[None]:
        if (yield from self._ends_run(tag)):
            return self._call.close(tag)
        self._reading.note_surplus(tag.end)
        return self._call.skip(tag)

    def _ends_run(self, tag: Tag) -> Steps[bool]:
        in_block = self._reading.block is not None
        return self._rules.closes_in_run(tag.end, "invoke", self._call.name, in_block)

    def _read_surplus(self, tag: Tag) -> None:
        self._reading.note_surplus(tag.end)
        self._call.has_lost_value = True
        if self._call.remarked_to == tag.start:  # a value without its opening
            self._call.drop("unreadable")
        self._call.skip(tag)

    def _read_broken(self, tag: Tag) -> Steps[None]:
        self._call.drop("unreadable")
        return self._read_text(tag)

    def _read_text(self, tag: Tag) -> Steps[None]:
        """Text between parameters. Short text is dropped; longer text makes the call incomplete."""
        reading, call, buffer, start = self._reading, self._call, self._buffer, tag.start
        reading.enter(ParserState.REMARK)
        part = yield from next_part(buffer, start + 1, _JSON_LINE, _OPEN_LINE)
        while isinstance(part, Tag) and call.meaning(part) == "text":
            part = yield from next_part(buffer, part.start + 1, _JSON_LINE, _OPEN_LINE)
        if part is None:
            reading.end_inside()
        to = buffer.end if part is None else part.start if isinstance(part, Tag) else part[1]
        if to - start > LONGEST_REMARK and call.writer.visible:
            call.drop("unreadable")  # whatever it was, the call was not understood
        call.remark(start, buffer.slice(start, to))
        reading.advance(to)


def next_part(
    buffer: TextBuffer, at: int, wanted: re.Pattern[str], pending: re.Pattern[str]
) -> Steps[Tag | tuple[int, int] | None]:
    """The next tag behind text, or the span of a match of `wanted` before it.

    `pending` matches text that may become `wanted` with more. None: the text ends.
    """
    while True:
        mark = buffer.next_mark(at)
        match = buffer.search(wanted, at, mark)
        if match is not None:
            (start, end), match = map(buffer.place, match.span()), None
            if end == buffer.end and (yield from buffer.more()):
                at = start
                continue
            return start, end
        tag = buffer.tag_at(mark) if mark < buffer.end else MAYBE_TAG
        if isinstance(tag, Tag):
            return tag
        if tag is None:
            at = mark + 1
            continue
        match = buffer.search(pending, at, mark)
        at, match = mark if match is None else buffer.place(match.start()), None
        if not (yield from buffer.more()):
            return None
