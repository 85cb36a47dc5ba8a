"""Completions that every rule of recovery.md reads in the same way as the strict grammar."""

from __future__ import annotations

import re
from functools import cache

from dsv4._completion.declared import DeclaredTools
from dsv4._completion.json_text import json_string, object_text, read_json
from dsv4._completion.limits import LONGEST_NAME, MOST_CALLS, MOST_PARAMETERS
from dsv4._completion.strict import StrictMessage
from dsv4._format import tokens
from dsv4._format.dialects import Tags
from dsv4._format.spellings import BAR, BRACKET, FENCE_LENGTH, FENCES, HOLDS_ALL, WIDE_BRACKET


def read_plainly(
    text: str, thinking: bool, tags: Tags, tools: DeclaredTools
) -> StrictMessage | None:
    """The message of a whole completion of that kind.

    None for any other, well-formed or not: one with a mark in its prose or in a value, for example.
    """
    reasoning, ends, rest = text.partition(tokens.THINK_END) if thinking else ("", "", text)
    answer = rest.removesuffix(tokens.EOS)
    content, opens, block = answer.partition(tags.block_open)
    is_fenced = opens and any(fence * FENCE_LENGTH in content for fence in FENCES)
    if (thinking and not ends) or _has_mark(reasoning) or _has_mark(content) or is_fenced:
        return None
    calls = _plain_calls(block, tags, tools) if opens else []
    return None if calls is None else StrictMessage(reasoning, content, calls, "", answer != rest)


def _plain_calls(text: str, tags: Tags, tools: DeclaredTools) -> list[tuple[str, str]] | None:
    """The calls of a block: a bracket in it begins a tag, and nothing else."""
    opening, parameter = _plain_tags(tags)
    close, at = f"{tags.invoke_close[1:]}\n", 0
    calls: list[tuple[str, str]] = []
    while (invoke := opening.match(text, at)) is not None:
        at, members = invoke.end(), dict[str, str]()
        while (match := parameter.match(text, at)) is not None:
            key, value = match[1], _plain_json(match[3], match[2] == "true")
            if value is None or key in members or key in HOLDS_ALL or invoke[2]:
                return None
            members[key], at = value, match.end()
        is_whole = text.startswith(close, at) and len(members) <= MOST_PARAMETERS
        required = tools.requires(invoke[1])
        lacks = required is not None and not required <= members.keys()
        if not is_whole or lacks or not tools.may_be_tool(invoke[1]):
            return None
        calls.append((invoke[1], object_text(members)))
        at += len(close)
    return calls if text[at:] == tags.block_close[1:] and 0 < len(calls) <= MOST_CALLS else None


@cache
def _plain_tags(tags: Tags) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns for the opening of a call and for a parameter, with names that the tolerant reading
    takes too.

    The opening of a call without parameters has an empty line behind it.
    """
    name = rf'name="([\w-]{{1,{LONGEST_NAME}}})"'
    invoke, parameter = f"{tokens.DSML}{tags.invoke}", f"{tokens.DSML}{tags.parameter}"
    return (
        re.compile(rf"<{invoke}\s*{name}>\n(\n?)"),
        re.compile(rf'<{parameter} {name} string="(true|false)">([^<]*){tags.parameter_close}\n'),
    )


def _plain_json(value: str, is_string: bool) -> str | None:
    # The end of its tag may be there twice (rule 37).
    if _has_mark(value) or value.startswith((">", '">')):
        return None
    if is_string:
        return json_string(value)
    reading = read_json(value)
    return None if reading is None or reading.repaired else reading.text


def _has_mark(text: str) -> bool:
    return BRACKET in text or BAR in text or WIDE_BRACKET in text
