"""Calls without the DSML token: held until their close comes, else text (recovery.md, rule 1)."""

from __future__ import annotations

from dsv4.format.spellings import PLAIN_INVOKES, PLAIN_WRAPPERS
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.blocks import enter_calls
from dsv4.parsing.invokes import whole_call
from dsv4.parsing.json_values import plain_arguments
from dsv4.parsing.machine import Ahead, Machine
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag


def read_plain_tag(m: Machine, tag: Tag) -> bool | None:
    """Enters such a call, or waits. None: the tag is text."""
    if tag.closing or m.prose.lines.fenced:
        return None
    if _is_declared(m, tag):
        _start(m, tag)
        return True
    if tag.label not in PLAIN_WRAPPERS or tag.attributes:
        return None
    ahead = m.follow(tag.end)
    if ahead is Ahead.MORE:
        return False
    if not isinstance(ahead, Tag) or not _is_declared(m, ahead):
        return None
    _start(m, ahead)
    return True


def _is_declared(m: Machine, tag: Tag) -> bool:
    opens = tag.plain and not tag.closing and not tag.self_closed and tag.label in PLAIN_INVOKES
    return opens and tag.name is not None and m.tools.declares(tag.name)


def _start(m: Machine, tag: Tag) -> None:
    """Takes everything up to the end of the tag: a wrapper before it goes with it."""
    m.start_holding()
    m.plain_inner = tag.end - m.pos
    m.hold(tag.end)
    m.plain_tag = tag
    m.state = State.PLAIN


def read_plain(m: Machine) -> bool:
    for tag in m.tags_ahead():
        if isinstance(tag, Partial):
            m.hold(m.cut_at)  # what is cut off here is for prose to judge
            break
        if _closes(m, tag):
            m.hold(tag.start)
            _end(m, tag)
            return True
        if _gives_up(tag):
            m.hold(tag.start)
            _release(m)
            return True
    else:
        m.hold(len(m.text))
    if m.final:
        _release(m)
    return m.final


def _closes(m: Machine, tag: Tag) -> bool:
    opening = m.plain_tag
    same = opening is not None and tag.label == opening.label
    return tag.plain and tag.closing and (same or tag.kind == "invoke")


def _gives_up(tag: Tag) -> bool:
    again = tag.label in PLAIN_INVOKES and not tag.closing and tag.name is not None
    return not tag.plain or again


def _release(m: Machine) -> None:
    m.state = State.PROSE
    m.say_text(m.release())


def _end(m: Machine, tag: Tag) -> None:
    opening = m.plain_tag
    assert opening is not None and opening.name is not None
    inner = "".join(m.held)[m.plain_inner :]
    enter_calls(m, tag)
    m.hold(tag.end)
    kind = kinds.FORBIDDEN_CALL if m.forbidden else kinds.PLAIN_MARKUP
    m.report_held(kind, m.held_start, m.release())
    m.plain_wrapper = True
    m.state = State.AFTER
    if not m.forbidden:
        types = m.tools.parameters.get(opening.name, {})
        whole_call(m, opening.name, plain_arguments(inner, types))
