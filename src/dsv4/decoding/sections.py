"""The tools section and the response format at the end of a system or developer text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsv4.encoding.json_text import FAILURES, to_json
from dsv4.format.dialects import RESPONSE_FORMAT, Dialect

BLANK_LINE = "\n\n"
_FORMAT_START = BLANK_LINE + RESPONSE_FORMAT
_decoder = json.JSONDecoder()


@dataclass(frozen=True)
class Section:
    """A tools section, a response format, or one after the other, at `start` to `end`."""

    start: int
    end: int
    tools: list[Any] | None
    response_format: Any


def sections(text: str, dialect: Dialect, start: int = 0, end: int | None = None) -> list[Section]:
    """Every section in a stretch of text that is written exactly as the format writes it."""
    end = len(text) if end is None else end
    return list(_sections(text, BLANK_LINE + dialect.tools_open, dialect.tools_close, start, end))


def _sections(text: str, opening: str, closing: str, at: int, end: int) -> Iterator[Section]:
    next_tools, next_format = _find(text, opening, at, end), _find(text, _FORMAT_START, at, end)
    while min(next_tools, next_format) < end:
        if next_tools < next_format:
            found = _tools_at(text, next_tools, opening, closing, end)
            at = found.end if found else next_tools + 1
            next_tools = _find(text, opening, at, end)
            if found and (format := _format_at(text, at, end)):
                found = Section(found.start, format.end, found.tools, format.response_format)
                at = found.end
        else:
            found = _format_at(text, next_format, end)
            at = found.end if found else next_format + 1
        next_format = _find(text, _FORMAT_START, at, end)
        if found:
            yield found


def _find(text: str, wanted: str, at: int, end: int) -> int:
    found = text.find(wanted, at, end)
    return end if found < 0 else found


def _tools_at(text: str, at: int, opening: str, closing: str, end: int) -> Section | None:
    # A line break in a JSON string is written as an escape: the first closing text is the one.
    start = at + len(opening)
    stop = text.find(closing, start, end)
    if stop < 0:
        return None
    try:
        functions = [_same_json(line) for line in text[start:stop].split("\n")]
    except ValueError:
        return None
    if not all(_is_function(function) for function in functions):
        return None
    tools = [{"type": "function", "function": function} for function in functions]
    return Section(at, stop + len(closing), tools, None)


def _is_function(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and bool(value["name"])


def _format_at(text: str, at: int, end: int) -> Section | None:
    if not text.startswith(_FORMAT_START, at, end):
        return None
    start = at + len(_FORMAT_START)
    try:
        line = text[start : _find(text, "\n", start, end)]  # as JSON is written, it is in one
        value, length = _decoder.raw_decode(line)
        same = to_json(value) == line[:length]
    except FAILURES:
        return None
    return Section(at, start + length, None, value) if same and value else None


def _same_json(text: str) -> Any:
    """The value of JSON that is written as the format writes it; else a `ValueError`."""
    try:
        value = json.loads(text)
        if to_json(value) == text:
            return value
    except FAILURES:
        pass
    raise ValueError(text)
