"""Odd closing tags, which close only in a run (recovery.md, rule 13).

An odd closing tag does not properly say what it closes: it has no name or an unknown one, no DSML
token, or no slash. It is one where nothing but white space stands between it and the close of the
next outer level, odd or not, and so on to a proper close, EOS, or the end with everything closed;
or before what begins the next of its kind.
"""

from __future__ import annotations

from dsv4.parsing.machine import Ahead, Machine
from dsv4.parsing.tags import TOKENS, Tag

CALL_TAGS = frozenset({"wrapper", "invoke", "parameter"})
_OUTER = {"parameter": "invoke", "invoke": "wrapper"}


def is_odd_close(machine: Machine, tag: Tag, level: str, tool: str, key: str | None = None) -> bool:
    """Whether a tag may be meant to close this level, though it does not properly say so."""
    if tag.kind in TOKENS or tag.broken or tag.self_closed:
        return False
    kind = machine.kind(tag, tool)
    if not tag.marked:
        return tag.closing and (kind == level or (key is not None and tag.label == key))
    if tag.bare:
        return kind == level and machine.source.opens_line(tag.start)
    if not tag.closing:
        return kind == level and not tag.attributes and tag.kind != "named"
    return kind not in CALL_TAGS


def runs_out(machine: Machine, at: int, level: str, tool: str) -> bool | None:
    """Whether closes follow each other from `at`, after one of `level`. None: not known yet."""
    ahead = machine.follow(at)
    if not isinstance(ahead, Tag):
        if ahead is not Ahead.END:
            return None if ahead is Ahead.MORE else False
        # Where the model ended the text, as if EOS stood there.
        return machine.source.stopped or level == (
            "wrapper" if machine.block is not None else "invoke"
        )
    if ahead.kind == "eos":
        return True
    outer = _OUTER.get(level)
    if outer is None:
        return False
    if ahead.marked and not ahead.bare and _goes_on(machine, ahead, level, tool):
        return True
    if not is_odd_close(machine, ahead, outer, tool):
        return False
    return runs_out(machine, ahead.end, outer, tool)


def _goes_on(machine: Machine, tag: Tag, level: str, tool: str) -> bool:
    """Whether a proper tag closes an outer level, or opens the next of this one."""
    kind = machine.kind(tag, tool)
    if tag.closing:
        return kind in ("invoke", "wrapper")
    if kind == "invoke":
        return machine.called(tag) is not None
    return level == kind == "parameter" and machine.key(tag, tool) is not None
