"""Calls and their parameters (recovery.md, rules 2, 3, 7, 8, 9 and 10)."""

from __future__ import annotations

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.call import Call
from dsv4.parsing.json_values import NOT_JSON, declared_json, json_value, only_member, quoted
from dsv4.parsing.machine import Ahead, Machine, Value
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag
from dsv4.parsing.verdicts import judge_in_body, judge_in_value

# Limits that nobody meets by accident.
MOST_CALLS = 1024
MOST_PARAMETERS = 1024
LONGEST_NAME = 512

# Under which arguments stand that are no JSON object.
RAW_PARAMETER = "arguments"


def begin_call(m: Machine, tag: Tag) -> None:
    """Enters a call whose invoke is certain."""
    name = m.called(tag)
    dropped = name is None or _begins_nameless(m, tag)
    if _beyond_limits(m, name or ""):
        m.report(kinds.LIMIT, tag.start, tag.end)
        dropped = True
    if not dropped:  # else its text is reported as a whole
        m.check_spelling(tag)
        _check_declared(m, name or "", tag.start, tag.end)
    hidden = dropped or m.forbidden
    m.call_start = m.base + tag.start
    m.call_dropped = dropped
    m.recorded = [] if hidden else None
    m.call = Call(name or "", m.calls_begun, m.tools, m.emit, shown=not hidden)
    m.calls_seen += 1
    m.calls_begun += not hidden
    m.advance(tag.end)
    m.state = State.INVOKE
    if tag.self_closed:
        end_call(m)


def _begins_nameless(m: Machine, tag: Tag) -> bool:
    """Whether the first parameter has no name: then the call does not even begin (rule 9)."""
    first, tool = m.follow(tag.end), m.called(tag)
    if tag.self_closed or not isinstance(first, Tag) or first.closing:
        return False
    return m.kind(first, tool) == "parameter" and m.key(first, tool) is None


def _beyond_limits(m: Machine, name: str) -> bool:
    return m.calls_seen >= MOST_CALLS or len(name) > LONGEST_NAME


def _check_declared(m: Machine, name: str, start: int, end: int) -> None:
    if m.tools.told and not m.tools.declares(name):
        m.report(kinds.UNDECLARED_TOOL, start, end)


def whole_call(m: Machine, name: str, arguments: str) -> None:
    """A call that was held until it was complete."""
    if _beyond_limits(m, name):
        m.report(kinds.LIMIT, m.pos, m.pos)
        return
    if m.state is not State.STRICT:
        _check_declared(m, name, m.pos, m.pos)
    Call(name, m.calls_begun, m.tools, m.emit, shown=True).end(arguments)
    m.calls_seen += 1
    m.calls_begun += 1
    m.calls_completed += 1


def end_call(m: Machine, body: str | None = None) -> None:
    call = m.call
    assert call is not None
    if m.recorded is not None:
        _report_hidden(m)
    else:
        if call.end(body):
            m.report(kinds.UNWRAPPED_ARGUMENTS, m.pos, m.pos)
        m.calls_completed += 1
    m.call = None
    m.state = State.BLOCK if m.wrapped else State.AFTER


def cut_call(m: Machine) -> None:
    """The text ended inside a call, without EOS (rule 10)."""
    call, value = m.call, m.value
    assert call is not None
    body = None
    if value is not None:
        keep_newline(m, value)
        if value.key is None and isinstance(json_value(value.raw), dict):
            body = value.raw.rstrip()
        elif not value.streams:
            call.settle()
            call.add(RAW_PARAMETER if value.key is None else value.key, quoted(value.raw))
    call.abort(value is not None and value.streams, body)
    if m.recorded is not None:
        _report_hidden(m)
    m.report(kinds.CUT_SHORT, m.pos, m.pos)
    m.cut = True
    m.call = m.value = None


def _drop_call(m: Machine) -> None:
    """Gives up the call, which goes on unseen."""
    call = m.call
    assert call is not None
    if call.shown:
        call.abort()
    if m.recorded is None:
        m.recorded = []
        m.call_start = m.base + m.pos
    m.call_dropped = True


def _report_hidden(m: Machine) -> None:
    """A call that is not shown: its text is in the diagnostic."""
    raw = "".join(m.recorded or ())
    m.recorded = None
    m.report_held(kinds.DROPPED_CALL if m.call_dropped else kinds.FORBIDDEN_CALL, m.call_start, raw)


# Between parameters.


def read_invoke(m: Machine) -> bool:
    call = m.call
    assert call is not None
    if not m.skip_space():
        return False
    if m.text[m.pos] == "{" and not call.parameters:
        m.report(kinds.JSON_BODY, m.pos, m.pos)
        m.value = Value(m.base + m.pos, judge_in_body, end_body)
        m.state = State.JSON
        return True
    tag = m.tag_at(m.pos)
    if isinstance(tag, Partial):
        return m.end_in_markup()
    kind = None if tag is None else m.kind(tag)
    if tag is None or kind is None:
        m.start_holding()
        m.hold(m.pos + 1)
        m.state = State.STRAY
    elif kind == "parameter" and not tag.closing:
        _begin_parameter(m, tag)
    elif kind == "invoke" and tag.closing:
        m.check_spelling(tag)
        m.advance(tag.end)
        end_call(m)
    elif kind in ("invoke", "wrapper", "eos", "think"):
        m.report(kinds.IMPLIED_CLOSE, tag.start, tag.start)
        end_call(m)
    else:
        m.report(kinds.UNEXPECTED_TAG, tag.start, tag.end)
        m.advance(tag.end)
    return True


def read_stray(m: Machine) -> bool:
    for tag in m.tags_ahead():
        if isinstance(tag, Partial):
            m.hold(m.cut_at)
            break
        if m.kind(tag) is not None:
            m.hold(tag.start)
            _end_stray(m)
            return True
    else:
        m.hold(len(m.text))
    if m.final:
        m.hold(len(m.text))
        _end_stray(m)
    return m.final


def _end_stray(m: Machine) -> None:
    m.report_held(kinds.UNEXPECTED_TEXT, m.held_start, m.release())
    m.state = State.INVOKE


# Parameters.


def _begin_parameter(m: Machine, tag: Tag) -> None:
    call = m.call
    assert call is not None
    key = m.key(tag)
    if key is None:
        _drop_call(m)
        key = ""
    elif call.has(key):
        m.report(kinds.DUPLICATE_PARAMETER, tag.start, tag.end)
    if call.parameters >= MOST_PARAMETERS and call.shown:
        m.report(kinds.LIMIT, tag.start, tag.end)
        _drop_call(m)
    string = tag.attributes.get("string")
    if m.call_dropped and m.recorded is not None:
        pass  # its text is reported as a whole
    elif string in ("true", "false") or tag.self_closed:
        m.check_spelling(tag)
    else:
        m.report(kinds.UNTYPED_PARAMETER, tag.start, tag.end)
    lone = call.may_hold_all(key)
    call.settle()
    m.advance(tag.end)
    if tag.self_closed:
        call.add(key, declared_json(string or "", m.tools.types_of(call.name, key)))
        return
    value = m.value = Value(m.base + m.pos, judge_in_value, _end_parameter, key, tag)
    value.lone = lone
    value.streams = string == "true" and not lone
    if value.streams:
        call.open_string(key)
    m.state = State.JSON if string == "false" else State.VALUE


def _end_parameter(m: Machine, value: Value) -> None:
    call = m.call
    assert call is not None and value.key is not None and value.tag is not None
    m.value = None
    m.state = State.INVOKE
    if value.streams:
        call.close_string()
        return
    raw = value.raw
    if m.tags.parameter_close[:-1] in raw:
        m.report_held(kinds.QUOTED_MARKUP, value.start, raw)
    json_text = _typed(m, value, raw)
    if value.lone:
        call.add_lone(value.key, json_text, raw)
    else:
        call.add(value.key, json_text)


def _typed(m: Machine, value: Value, raw: str) -> str:
    """A parameter's text as JSON (rule 7)."""
    string = value.tag.attributes.get("string") if value.tag is not None else None
    if string == "true":
        return quoted(raw)
    if string == "false":
        if json_value(raw) is not NOT_JSON:
            return raw
        m.report_held(kinds.INVALID_JSON, value.start, raw)
        return quoted(raw)
    name = m.call.name if m.call is not None else ""
    return declared_json(raw, m.tools.types_of(name, value.key or ""))


def keep_newline(m: Machine, value: Value) -> None:
    """The newline at the end is the value's own."""
    newline, value.newline = value.newline, ""
    keep_in_value(m, value, newline)


def keep_in_value(m: Machine, value: Value, text: str) -> None:
    if not text:
        return
    if value.streams and m.call is not None:
        m.call.write_string(text)
    else:
        value.held.append(text)


# A JSON body (rule 8).


def end_body(m: Machine, value: Value) -> None:
    raw, m.value = value.raw, None
    m.body = _body_object(m, value, raw)
    m.state = State.BODY_END


def _body_object(m: Machine, value: Value, raw: str) -> str:
    members = json_value(raw)
    if not isinstance(members, dict):
        m.report_held(kinds.INVALID_JSON, value.start, raw)
        return f"{{{quoted(RAW_PARAMETER)}: {quoted(raw.rstrip())}}}"
    name = m.call.name if m.call is not None else ""
    inner = only_member(raw, members)
    if inner is None or not m.tools.may_unwrap(name, next(iter(members))):
        return raw.rstrip()
    m.report(kinds.UNWRAPPED_ARGUMENTS, m.pos, m.pos)
    return inner


def read_body_end(m: Machine) -> bool:
    ahead = m.follow(m.pos)
    if ahead is Ahead.MORE:
        return False
    m.skip_space()
    if isinstance(ahead, Tag) and m.closes(ahead, "invoke"):
        m.check_spelling(ahead)
        m.advance(ahead.end)
    else:
        m.report(kinds.IMPLIED_CLOSE, m.pos, m.pos)
    end_call(m, m.body)
    return True
