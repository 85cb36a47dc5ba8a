"""Reasoning and content, and what stands between them and calls (recovery.md, rules 5, 6 and 9)."""

from __future__ import annotations

import re

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.blocks import enter_calls, open_block
from dsv4.parsing.invokes import begin_call
from dsv4.parsing.lines import Lines
from dsv4.parsing.machine import Ahead, Machine
from dsv4.parsing.marks import next_mark
from dsv4.parsing.plain import read_plain_tag
from dsv4.parsing.states import State
from dsv4.parsing.tags import LONGEST_SPACE, Partial, Tag, end_of_word, read_tag

# Between two of these a tag is only talked about.
_QUOTING = "`\"'“”‘’"
# How a list of calls begins, or one call.
_JSON_CALLS = re.compile(rf'\[\s{{0,{LONGEST_SPACE}}}\{{|\{{\s{{0,{LONGEST_SPACE}}}"')


def read_prose(m: Machine) -> bool:
    text = m.text
    at = m.pos
    plain = bool(m.tools.parameters)
    bracket = -1
    while True:
        at, bracket = next_mark(text, at, bracket)
        if at == len(text):
            m.say(at)
            return False
        tag = read_tag(text, at, plain)
        if tag is None:
            at = _pass_untagged(m, at)
            if m.state is State.HALTED:
                return True
            continue
        m.say(at)
        if isinstance(tag, Tag):
            return m.state is State.HALTED or _read_tag(m, tag)
        if m.final:
            _end_in_tag(m, tag)
        return False


def _pass_untagged(m: Machine, at: int) -> int:
    """Goes past a `<` or a bar that begins no tag; reports it where it spells the DSML token."""
    end = end_of_word(m.text, at)
    if end is None:
        return at + 1
    m.say(at)
    if m.state is not State.HALTED:
        m.report(kinds.MARKUP_AS_TEXT, at, end)
    return end


def _end_in_tag(m: Machine, tag: Partial) -> None:
    """The text ends inside what may be a tag: text, unless the DSML token is there (rule 10)."""
    if tag is Partial.MAYBE or m.prose.lines.fenced or m.tools.none_declared:
        _pass_untagged(m, m.pos)
        m.say(len(m.text))
    else:
        m.cut = not m.rest.startswith("</")
        m.end_in_markup()


def _read_tag(m: Machine, tag: Tag) -> bool:
    if tag.kind == "eos":
        return _read_eos(m, tag)
    if tag.kind == "bos":
        return _remove(m, kinds.STRAY_TOKEN, tag)
    if tag.kind == "think":
        return _read_think_end(m, tag) if tag.closing else _read_think_start(m, tag)
    if tag.plain:
        entered = read_plain_tag(m, tag)
        return _leave_as_text(m, tag) if entered is None else entered
    kind = m.kind(tag)
    if kind is None or tag.bare or m.prose.lines.fenced:
        return _leave_as_text(m, tag)
    if tag.closing:
        return _read_closer(m, tag)
    if m.tools.none_declared:
        return _read_undeclared(m, tag, kind)
    if kind == "wrapper":
        return _read_wrapper(m, tag)
    return _read_invoke(m, tag) if kind == "invoke" else _leave_as_text(m, tag)


def _leave_as_text(m: Machine, tag: Tag) -> bool:
    if not tag.plain:
        m.report(kinds.MARKUP_AS_TEXT, tag.start, tag.end)
        m.prose.openers = max(m.prose.openers + (-1 if tag.closing else 1), 0)
    m.say(tag.end)
    return True


def _remove(m: Machine, kind: str, tag: Tag) -> bool:
    m.flush_newlines()
    m.report(kind, tag.start, tag.end)
    m.advance(tag.end)
    return True


def _read_eos(m: Machine, tag: Tag) -> bool:
    if tag.end < len(m.text):
        return _remove(m, kinds.STRAY_TOKEN, tag)
    if m.final:
        m.eos = True
        m.advance(tag.end)
    return False


# Thinking (rule 6).


def _read_think_end(m: Machine, tag: Tag) -> bool:
    if not m.prose.reasoning:
        quoted = _is_quoted(m, tag)
        if quoted is None:
            return False
        return _say_tag(m, tag) if quoted else _remove(m, kinds.STRAY_THINK, tag)
    m.flush_newlines()
    m.flush_stops()
    m.advance(tag.end)
    m.prose.reasoning = m.prose.unclosed = False
    m.prose.lines = Lines()
    return True


def _read_think_start(m: Machine, tag: Tag) -> bool:
    prose = m.prose
    if prose.reasoning:
        if not prose.said_reasoning:  # the prompt's own, written once more
            return _remove(m, kinds.STRAY_THINK, tag)
        m.report(kinds.STRAY_THINK, tag.start, tag.end)
        return _say_tag(m, tag)
    quoted = _is_quoted(m, tag)
    if quoted is None:
        return False
    if quoted:
        return _say_tag(m, tag)
    _remove(m, kinds.THINK_IN_CONTENT, tag)
    m.flush_stops()
    prose.reasoning = prose.unclosed = prose.joining = True
    prose.lines = Lines()
    return True


def _say_tag(m: Machine, tag: Tag) -> bool:
    m.say(tag.end)
    return True


def _is_quoted(m: Machine, tag: Tag) -> bool | None:
    """Whether a tag stands in a fence, or between quotes or backticks. None: not known yet."""
    if m.prose.lines.fenced:
        return True
    before = m.prose.before[-1:]
    if not before or before not in _QUOTING:
        return False
    if tag.end == len(m.text):
        return False if m.final else None
    return m.text[tag.end] in _QUOTING


# Blocks and calls (rules 2 and 5).


def _read_wrapper(m: Machine, tag: Tag) -> bool:
    certain = True if m.prose.lines.blank else _holds_calls(m, tag)
    if certain is None and not m.final:
        return False
    if certain is False:
        return _leave_as_text(m, tag)
    open_block(m, tag)
    return True


def _holds_calls(m: Machine, tag: Tag) -> bool | None:
    """Whether a wrapper in the middle of a line is more than talked about. None: not known yet."""
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE or ahead is Ahead.END:
        return None
    if ahead is Ahead.BRACE:
        return _begins_json_calls(m.text, m.past_space(tag.end))
    if isinstance(ahead, Tag) and m.opens(ahead, "invoke"):
        return m.is_certain(ahead, wrapped=True)
    return False


def _begins_json_calls(text: str, at: int) -> bool | None:
    """Whether JSON at `at` begins as calls do. None: not known yet."""
    if _JSON_CALLS.match(text, at):
        return True
    inside = text[at + 1 :]
    return None if len(inside) <= LONGEST_SPACE and not inside.strip() else False


def _read_undeclared(m: Machine, tag: Tag, kind: str) -> bool:
    """Where no tool is declared a block is text, but for one that holds no call."""
    ahead = m.follow(tag.end) if kind == "wrapper" and m.prose.lines.blank else Ahead.TEXT
    if ahead is Ahead.MORE:
        return False
    if m.closes(ahead, "wrapper"):
        open_block(m, tag)
        return True
    return _leave_as_text(m, tag)


def _read_invoke(m: Machine, tag: Tag) -> bool:
    """A call without a wrapper: only of a declared tool, and only when it is certain."""
    name = m.called(tag)
    if name is None or not m.tools.told or not m.tools.declares(name):
        return _leave_as_text(m, tag)
    certain = m.is_certain(tag, wrapped=False)
    if certain is None and not m.final:
        return False
    if certain is False:
        return _leave_as_text(m, tag)
    enter_calls(m, tag)
    m.report(kinds.MISSING_WRAPPER, tag.start, tag.start)
    begin_call(m, tag)
    return True


# Closing tags in prose (rule 9).


def _read_closer(m: Machine, tag: Tag) -> bool:
    if m.prose.openers:
        return _leave_as_text(m, tag)
    m.flush_newlines()
    m.start_holding()
    m.hold(tag.end)
    m.state = State.ORPHANS
    return True


def read_orphans(m: Machine) -> bool:
    ahead = m.follow(m.pos)
    if ahead is Ahead.MORE:
        return False
    if isinstance(ahead, Tag) and ahead.closing and not ahead.plain and m.kind(ahead) in _CALL_TAGS:
        m.hold(ahead.end)
        return True
    m.state = State.PROSE
    start = m.held_start
    held = m.release()
    if ahead is Ahead.END or (isinstance(ahead, Tag) and not ahead.plain):
        m.report_held(kinds.ORPHAN_CLOSER, start, held)
        m.advance(m.past_space(m.pos))
        m.prose.lines = Lines()
        m.prose.before = ""
    else:
        m.report_held(kinds.MARKUP_AS_TEXT, start, held)
        m.say_text(held)
    return True


_CALL_TAGS = ("wrapper", "invoke", "parameter")


def read_after(m: Machine) -> bool:
    """Behind a block: closing tags go; white space stays only before text."""
    at = m.past_space(m.pos)
    spaced = at - m.pos <= LONGEST_SPACE
    if at == len(m.text) and spaced:
        if m.final:
            m.advance(at)
        return False
    tag = m.tag_at(at) if spaced else None
    if isinstance(tag, Partial) and not m.final:
        return False
    if isinstance(tag, Tag):
        kind = m.kind(tag)
        if tag.closing and kind in _CALL_TAGS and (not tag.plain or _ends_plain(m, kind)):
            m.report(kinds.ORPHAN_CLOSER, at, tag.end)
            m.plain_wrapper = False
            m.advance(tag.end)
            return True
        if kind in ("eos", "think") or (kind in ("wrapper", "invoke") and not tag.closing):
            m.advance(at)
            m.prose.lines = Lines()
            m.state = State.PROSE
            return True
    m.prose.lines = Lines()
    m.prose.lines.follow("the block, on this line")
    m.report(kinds.TEXT_AFTER_BLOCK, m.pos, m.pos)
    m.state = State.PROSE
    return True


def _ends_plain(m: Machine, kind: str) -> bool:
    return m.plain_wrapper and kind == "wrapper"
