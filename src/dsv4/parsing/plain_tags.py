"""Calls without the DSML token, and JSON calls: whether they are likely to be meant.

recovery.md, rules 1, 13 and 14.
"""

from __future__ import annotations

from dsv4._format.spellings import (
    JSON_WRAPPERS,
    PLAIN_INVOKES,
    PLAIN_WRAPPER_END,
    PLAIN_WRAPPER_PREFIXES,
)
from dsv4.parsing.limits import LONGEST_SPACE
from dsv4.parsing.machine import Ahead, Machine
from dsv4.parsing.patterns import pattern
from dsv4.parsing.tags import Tag

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


def holds_json(machine: Machine, tag: Tag) -> bool | None:
    """Whether a tag opens JSON calls without the DSML token (rule 13). None: not known yet."""
    if tag.marked or tag.closing or tag.attributes or tag.label not in JSON_WRAPPERS:
        return False
    ahead = machine.follow(tag.end)
    return None if ahead is Ahead.MORE else ahead is Ahead.BRACE and not tag.self_closed


def plain_follows(machine: Machine, tag: Tag) -> bool | None:
    """Whether what must follow a plain invoke does (rule 1). None: not known yet."""
    tool = machine.tools.as_declared(tag.attributes.get("name")) or ""
    ahead = machine.follow(tag.end)
    if ahead is Ahead.MORE:
        return None
    if ahead is Ahead.BRACE:
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
