"""The strict grammar (format.md, section 8): what a well-formed completion is, and nothing else.

The tolerant machine cannot be this: in the strict grammar a value ends at the first close,
whatever follows it. A handful of searches read a whole completion.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dsv4.errors import ParseError
from dsv4.format import tokens
from dsv4.format.dialects import NAME_END, Tags
from dsv4.parsing.json_values import quoted

_FORBIDDEN = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
_PARAMETER = re.compile(r'(.*?)" string="(true|false)">(.*)', re.DOTALL)


class StrictMessage(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    block: str  # the text of the calls


def read_strictly(text: str, thinking: bool, tags: Tags) -> StrictMessage:
    """A whole completion. Raises a `ParseError` where it leaves the grammar."""
    reasoning, at = "", 0
    if thinking:
        end = text.find(tokens.THINK_END)
        if end < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.THINK_END}")
        reasoning, at = _clean(text, 0, end), end + len(tokens.THINK_END)
    block, eos = text.find(tags.block_open, at), text.find(tokens.EOS, at)
    if block < 0 or 0 <= eos < block:
        if eos < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.EOS}")
        content, end = _clean(text, at, eos), eos + len(tokens.EOS)
        calls: list[tuple[str, str]] = []
        written = ""
    else:
        content = _clean(text, at, block)
        end, calls = read_calls(text, block + len(tags.block_open), tags)
        written = text[block:end]
        end += len(tokens.EOS) if text.startswith(tokens.EOS, end) else 0
    if end != len(text):
        raise ParseError(end, f"found {text[end : end + 20]!r}, expected the end")
    return StrictMessage(reasoning, content, calls, written)


def _clean(text: str, start: int, end: int) -> str:
    """Reasoning or content, which hold no token of the format."""
    found = [(at, token) for token in _FORBIDDEN if (at := text.find(token, start, end)) >= 0]
    if found:
        at, token = min(found)
        raise ParseError(at, f"found {token}, expected text")
    return text[start:end]


def read_calls(text: str, at: int, tags: Tags) -> tuple[int, list[tuple[str, str]]]:
    """The calls of a block from behind its opening tag's newline on. Returns where it ends."""
    close = tags.block_close[1:]
    calls = []
    while not text.startswith(close, at):
        at = _expect(text, at, tags.invoke_open)
        line_end = text.find("\n", at)
        if line_end < 0 or not text.startswith(NAME_END, line_end - 2):
            raise ParseError(at, f"found no {NAME_END!r} in the line, expected it behind the name")
        name = text[at : line_end - 2]
        at, arguments = _read_parameters(text, line_end + 1, tags)
        calls.append((name, arguments))
    return at + len(close), calls


def _read_parameters(text: str, at: int, tags: Tags) -> tuple[int, str]:
    members: dict[str, str] = {}
    close_start = tags.parameter_close[:-1]
    while text.startswith(tags.parameter_open, at):
        start = at + len(tags.parameter_open)
        end = text.find(close_start, start)
        if end < 0:
            raise ParseError(len(text), f"found the end, expected {tags.parameter_close}")
        parts = _PARAMETER.match(text, start, end)
        if parts is None:
            raise ParseError(start, 'found no string="true" or string="false" behind the name')
        key, string, value = parts.groups()
        if key in members:
            raise ParseError(start, f"found the parameter {key!r} twice, expected it once")
        members[key] = quoted(value) if string == "true" else value
        at = _expect(text, end, tags.parameter_close + "\n")
    if not members and text.startswith("\n", at):
        at += 1  # as the encoder writes a call without parameters
    at = _expect(text, at, tags.invoke_close[1:] + "\n")
    return at, arguments_text(members)


def arguments_text(members: dict[str, str]) -> str:
    """A JSON object from keys and the JSON texts of their values."""
    return "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in members.items()) + "}"


def _expect(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        found = text[at : at + len(expected)]
        raise ParseError(at, f"found {found!r}, expected {str(expected)!r}")
    return at + len(expected)
