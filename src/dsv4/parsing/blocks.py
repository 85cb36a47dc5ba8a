"""Inside a wrapper (recovery.md, rules 2 and 5)."""

from __future__ import annotations

import re

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.invokes import begin_call, whole_call
from dsv4.parsing.json_values import calls_in
from dsv4.parsing.lines import Lines
from dsv4.parsing.machine import Machine, Value
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag
from dsv4.parsing.verdicts import judge_in_list

_BLANK_LINE = re.compile(r"\n[ \t]*\n")


def enter_calls(m: Machine, tag: Tag) -> None:
    """Leaves prose for a block, or for a call without one."""
    m.block_strict = m.prose.newlines == "\n\n"
    if m.block_strict:
        m.prose.newlines = ""
        m.prose.told = 0
    m.flush_newlines()
    m.flush_stops()
    if m.prose.reasoning:
        m.report(kinds.CALL_IN_REASONING, tag.start, tag.start)
    if m.blocks:
        m.report(kinds.SECOND_BLOCK, tag.start, tag.start)
    m.blocks += 1


def open_block(m: Machine, tag: Tag) -> None:
    enter_calls(m, tag)
    m.check_spelling(tag)
    m.block_strict = m.block_strict and tag.raw == tag.canonical(m.tags.calls)
    m.block_used = False
    m.wrapped = True
    m.advance(tag.end)
    m.state = State.BLOCK


def read_block(m: Machine) -> bool:
    if not m.skip_space():
        if m.final:
            m.cut = not m.block_used
            _close_implied(m)
        return m.final
    at = m.pos
    if m.text[at] in "{[" and not m.block_used:
        m.block_used = True
        m.value = Value(m.base + at, judge_in_list, end_list)
        m.state = State.JSON
        return True
    tag = m.tag_at(at)
    if isinstance(tag, Partial):
        return m.end_in_markup()
    return _start_junk(m) if tag is None else _read_tag(m, tag)


def _read_tag(m: Machine, tag: Tag) -> bool:
    kind = m.kind(tag)
    if kind == "wrapper" and tag.closing:
        return _close(m, tag)
    if kind in ("eos", "bos", "think") or (kind == "wrapper" and m.block_used):
        _close_implied(m)
        return True
    if kind == "invoke" and not tag.closing:
        return _read_invoke(m, tag)
    if kind is None:
        return _start_junk(m)
    m.report(kinds.UNEXPECTED_TAG, tag.start, tag.end)
    m.advance(tag.end)
    return True


def _read_invoke(m: Machine, tag: Tag) -> bool:
    certain = m.is_certain(tag, wrapped=True)
    if certain is None and not m.final:
        return False
    if certain is False:
        return _start_junk(m)
    m.block_used = True
    begin_call(m, tag)
    return True


def _close(m: Machine, tag: Tag) -> bool:
    m.check_spelling(tag)
    if not m.block_used and not m.block_strict:
        m.report(kinds.EMPTY_BLOCK, tag.start, tag.end)
    m.advance(tag.end)
    _leave(m)
    return True


def _close_implied(m: Machine) -> None:
    m.report(kinds.IMPLIED_CLOSE, m.pos, m.pos)
    _leave(m)


def _leave(m: Machine) -> None:
    m.wrapped = False
    m.state = State.AFTER


# Text that is no call: removed up to the wrapper's close, or to a blank line where none comes.


def _start_junk(m: Machine) -> bool:
    m.block_used = True
    m.start_holding()
    m.hold(m.pos + 1)
    m.state = State.JUNK
    return True


def read_junk(m: Machine) -> bool:
    for tag in m.tags_ahead():
        if isinstance(tag, Partial):
            m.hold(m.cut_at)
            break
        ends = _ends_junk(m, tag)
        if ends is not False:
            m.hold(tag.start)
        if ends is None:
            return False
        if ends:
            _end_junk(m, closed=m.closes(tag, "wrapper") or m.opens(tag, "invoke"))
            return True
    else:
        m.hold(len(m.text))
    if m.final:
        m.hold(len(m.text))
        _end_junk(m, closed=False)
    return m.final


def _ends_junk(m: Machine, tag: Tag) -> bool | None:
    """Whether a tag ends such text. None: not known yet."""
    if m.opens(tag, "invoke") and not tag.plain:
        certain = m.is_certain(tag, wrapped=True)
        return None if certain is None and not m.final else certain is not False
    return m.kind(tag) in ("wrapper", "think", "eos")


def _end_junk(m: Machine, closed: bool) -> None:
    start, held = m.held_start, m.release()
    blank = None if closed else _BLANK_LINE.search(held)
    cut = len(held) if blank is None else blank.end()
    m.report_held(kinds.UNEXPECTED_TEXT, start, held[:cut])
    if closed:
        m.state = State.BLOCK
        return
    m.wrapped = False
    m.state = State.PROSE
    m.prose.lines = Lines()
    if held[cut:]:
        m.say_text(held[cut:])


# A JSON list in place of calls.


def end_list(m: Machine, value: Value) -> None:
    m.value = None
    m.state = State.BLOCK
    calls = calls_in(value.raw)
    if calls is None:
        m.report_held(kinds.UNEXPECTED_TEXT, value.start, value.raw)
        return
    kind = kinds.FORBIDDEN_CALL if m.forbidden else kinds.JSON_CALLS
    m.report_held(kind, value.start, value.raw)
    for name, arguments in () if m.forbidden else calls:
        whole_call(m, name, arguments)
