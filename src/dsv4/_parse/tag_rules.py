"""What a tag means where it stands: odd closing tags (recovery.md, rule 13), and calls without the
DSML token (rules 1, 13 and 14).

An odd closing tag does not properly say what it closes: it has no name or an unknown one, no DSML
token, or no slash. It closes only in a run: nothing but white space stands between it and the
close of the next outer level, odd or not, and so on to a proper close, EOS, or the end with
everything closed; or it stands before what begins the next of its kind.
"""

from __future__ import annotations

from dsv4._format.spellings import (
    JSON_WRAPPERS,
    PLAIN_INVOKES,
    PLAIN_WRAPPER_END,
    PLAIN_WRAPPER_PREFIXES,
)
from dsv4._parse.machine import Lookahead, Machine
from dsv4._parse.source import LONGEST_SPACE, TOKENS, Tag, pattern

# Odd closing tags, which close only in a run (recovery.md, rule 13).
#
# An odd closing tag does not properly say what it closes: it has no name or an unknown one, no
# DSML token, or no slash. It is one where nothing but white space stands between it and the close
# of the next outer level, odd or not, and so on to a proper close, EOS, or the end with
# everything closed; or before what begins the next of its kind.


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


def closes_in_run(machine: Machine, at: int, level: str, tool: str) -> bool | None:
    """Whether closes follow each other from `at`, after one of `level`. None: not known yet."""
    ahead = machine.follow(at)
    if not isinstance(ahead, Tag):
        if ahead is not Lookahead.END:
            return None if ahead is Lookahead.MORE else False
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
    return closes_in_run(machine, ahead.end, outer, tool)


def _goes_on(machine: Machine, tag: Tag, level: str, tool: str) -> bool:
    """Whether a proper tag closes an outer level, or opens the next of this one."""
    kind = machine.kind(tag, tool)
    if tag.closing:
        return kind in ("invoke", "wrapper")
    if kind == "invoke":
        return machine.called(tag) is not None
    return level == kind == "parameter" and machine.key(tag, tool) is not None


# Calls without the DSML token, and JSON calls: whether they are likely to be meant.
#
# recovery.md, rules 1, 13 and 14.


# How a list of calls begins, or one call.
_JSON_CALLS = pattern(rf'\[\s{{0,{LONGEST_SPACE}}}\{{|\{{\s{{0,{LONGEST_SPACE}}}"')


def is_plain_label(label: str) -> bool:
    """Whether a tag without the DSML token may mean anything in prose."""
    return label.rpartition(":")[2] in PLAIN_INVOKES or is_plain_wrapper(label)


def is_plain_wrapper(label: str) -> bool:
    label = label.rpartition(":")[2].lower()
    return label.startswith(PLAIN_WRAPPER_PREFIXES) or label.endswith(PLAIN_WRAPPER_END)


def is_plain_invoke(machine: Machine, tag: Tag) -> bool:
    """Whether a tag opens a call of a declared tool without the DSML token."""
    opens = not tag.marked and not tag.closing and not tag.self_closed
    if not opens or tag.label.rpartition(":")[2] not in PLAIN_INVOKES:
        return False
    name = machine.tools.as_declared(tag.attributes.get("name"))
    return name is not None and machine.tools.declares(name)


def opens_json_calls(machine: Machine, tag: Tag) -> bool | None:
    """Whether a tag opens JSON calls without the DSML token (rule 13). None: not known yet."""
    if tag.marked or tag.closing or tag.attributes or tag.label not in JSON_WRAPPERS:
        return False
    ahead = machine.follow(tag.end)
    return None if ahead is Lookahead.MORE else ahead is Lookahead.BRACE and not tag.self_closed


def plain_call_follows(machine: Machine, tag: Tag) -> bool | None:
    """Whether what must follow a plain invoke does (rule 1). None: not known yet."""
    tool = machine.tools.as_declared(tag.attributes.get("name")) or ""
    ahead = machine.follow(tag.end)
    if ahead is Lookahead.MORE:
        return None
    if ahead is Lookahead.BRACE:
        return machine.source.at(machine.source.past_space(tag.end)) == "{"
    if not isinstance(ahead, Tag) or ahead.marked:
        return False
    if ahead.closing:
        return ahead.label == tag.label or ahead.kind == "invoke"
    return machine.is_element(ahead, tool) or machine.is_plain_parameter(ahead, tool)


def begins_json_calls(machine: Machine, at: int) -> bool | None:
    """Whether JSON at `at` begins as calls do. None: not known yet."""
    source = machine.source
    if source.match(_JSON_CALLS, at):
        return True
    rest = source.slice(at + 1, at + 2 + LONGEST_SPACE)
    waits = len(rest) <= LONGEST_SPACE and not rest.strip() and not source.final
    return None if waits else False
