"""Completions that no rule of recovery.md could read in another way than the strict grammar."""

from __future__ import annotations

import re
from functools import cache

from dsv4._completion.declared import DeclaredTools
from dsv4._completion.json_text import json_string, object_text, read_json
from dsv4._completion.limits import LONGEST_NAME, MOST_CALLS, MOST_PARAMETERS
from dsv4._completion.strict import StrictMessage
from dsv4._format import tokens
from dsv4._format.dialects import Tags
from dsv4._format.spellings import FENCE_LENGTH, FENCES, HOLDS_ALL, MARKS


def read_plainly(
    text: str, thinking: bool, tags: Tags, tools: DeclaredTools
) -> StrictMessage | None:
    """A whole completion of that kind.

    None for any other, well-formed or not: one with a mark in its prose or in a value, for example.
    """
    thought = text.find(tokens.THINK_END) if thinking else 0
    if thought < 0:
        return None
    at = thought + len(tokens.THINK_END) if thinking else 0
    has_eos = text.endswith(tokens.EOS)
    end = len(text) - len(tokens.EOS) if has_eos else len(text)
    block = text.find(tags.block_open, at)
    reasoning, content = text[:thought], text[at : end if block < 0 else block]
    if _has_mark(reasoning) or _has_mark(content):
        return None
    calls: list[tuple[str, str]] | None = []
    if block >= 0:
        if any(fence * FENCE_LENGTH in content for fence in FENCES):
            return None
        calls = _plain_calls(text[block + len(tags.block_open) : end], tags, tools)
    return None if calls is None else StrictMessage(reasoning, content, calls, "", has_eos)


def _plain_calls(text: str, tags: Tags, tools: DeclaredTools) -> list[tuple[str, str]] | None:
    """The calls of a block: a bracket in it begins a tag, and nothing else."""
    before, *tags_and_values = text.split("<")
    opening, parameter = _plain_tags(tags)
    calls: list[tuple[str, str]] = []
    rest = iter(tags_and_values)
    for piece in rest:
        invoke = opening.fullmatch(piece)
        if invoke is None:
            is_last = piece == tags.block_close[2:] and next(rest, None) is None
            return calls if is_last and not before and 0 < len(calls) <= MOST_CALLS else None
        members: dict[str, str] = {}
        while (piece := next(rest, "")) != f"{tags.invoke_close[2:]}\n":
            match = parameter.match(piece)
            if match is None or match[1] in members or match[1] in HOLDS_ALL or invoke[2]:
                return None
            value = _plain_json(piece[match.end() :], match[2] == "true")
            if value is None or next(rest, "") != f"{tags.parameter_close[1:]}\n":
                return None
            members[match[1]] = value
        if len(members) > MOST_PARAMETERS or not tools.may_be_tool(invoke[1]):
            return None
        calls.append((invoke[1], object_text(members)))
    return None


@cache
def _plain_tags(tags: Tags) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The openings of a call and of a parameter, with names that the tolerant reading takes, too.

    An empty line behind a call's is there if it has no parameters.
    """
    name = rf'name="([\w-]{{1,{LONGEST_NAME}}})"'
    invoke, parameter = f"{tokens.DSML}{tags.invoke}", f"{tokens.DSML}{tags.parameter}"
    return (
        re.compile(rf"{invoke}\s*{name}>\n(\n?)"),
        re.compile(rf'{parameter} {name} string="(true|false)">'),
    )


def _plain_json(value: str, is_string: bool) -> str | None:
    if is_string or _has_mark(value):
        return None if _has_mark(value) else json_string(value)
    reading = read_json(value)
    return None if reading is None or reading.repaired else reading.text


def _has_mark(text: str) -> bool:
    return any(mark in text for mark in MARKS)
