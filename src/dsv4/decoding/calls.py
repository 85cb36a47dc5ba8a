"""Blocks of calls, read back where they are written exactly as the format writes them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from dsv4.encoding.json_text import FAILURES, to_json
from dsv4.format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Tags

# A text may spell the opening of a block without being one. After so many it is not looked for any
# more, so that the work stays in proportion to the text.
ATTEMPTS = 64


class Blocks:
    """The blocks of calls in a text: where each one starts, where it ends, and its calls."""

    def __init__(self, text: str, tags: Tags) -> None:
        self._text = text
        self._tags = tags
        self.found: dict[int, tuple[int, list[Any]]] = dict(self._all())
        self._starts = list(self.found)

    def _all(self) -> Iterator[tuple[int, tuple[int, list[Any]]]]:
        opening, attempts, at = str(self._tags.block_open), ATTEMPTS, 0
        while attempts and (start := self._text.find(opening, at)) >= 0:
            try:
                end, calls = self._block(start)
            except ValueError:
                attempts, at = attempts - 1, start + 1
            else:
                yield start, (end, calls)
                at = end

    def ending_at(self, start: int, end: int) -> tuple[int, list[Any]] | None:
        """The block that ends a stretch of text: where it starts, and its calls."""
        opening, at = str(self._tags.block_open), start
        if not self._text.endswith(self._tags.block_close, start, end):
            return None
        while (at := self._text.find(opening, at, end)) >= 0:
            stop, calls = self.found.get(at, (-1, []))
            if stop == end:
                return at, calls
            at = max(stop, at + 1)
        return None

    def next_in(self, start: int, end: int) -> int | None:
        """Where the first block in a stretch of text starts."""
        index = bisect_left(self._starts, start)
        if index == len(self._starts):
            return None
        at = self._starts[index]
        return at if self.found[at][0] <= end else None

    def _block(self, start: int) -> tuple[int, list[Any]]:
        tags, text = self._tags, self._text
        at = start + len(tags.block_open)
        calls: list[Any] = []
        while True:
            at, name, arguments = self._call(at)
            function = {"name": name, "arguments": to_json(arguments)}
            calls.append({"id": f"call_{len(calls)}", "type": "function", "function": function})
            if text.startswith(tags.block_close, at):
                return at + len(tags.block_close), calls
            at = self._past("\n", at)

    def _call(self, at: int) -> tuple[int, str, dict[str, Any]]:
        tags, text = self._tags, self._text
        start = self._past(tags.invoke_open, at)
        stop = text.find(NAME_END, start)
        if stop < 0 or "\n" in text[start:stop]:
            raise ValueError
        name, at = text[start:stop], stop + len(NAME_END)
        arguments: dict[str, Any] = {}
        while not text.startswith(tags.invoke_close, at):
            if arguments:
                at = self._past("\n", at)
            at, key, value = self._parameter(at)
            if key in arguments:
                raise ValueError
            arguments[key] = value
        return at + len(tags.invoke_close), name, arguments

    def _parameter(self, at: int) -> tuple[int, str, Any]:
        text, closing = self._text, self._tags.parameter_close
        start = self._past(self._tags.parameter_open, at)
        line_end = text.find("\n", start)
        key_end, typed = min(
            (place, typed)
            for typed in (STRING_TRUE, STRING_FALSE)
            if (place := text.find(typed, start, line_end)) >= 0
        )
        value_start = key_end + len(typed)
        value_end = self._value_end(value_start)
        value: Any = text[value_start:value_end]
        if typed == STRING_FALSE:
            value = _value(value)
        return value_end + len(closing), text[start:key_end], value

    def _value_end(self, start: int) -> int:
        """Where a value ends: at a closing tag after which the call goes on, or ends."""
        tags, text = self._tags, self._text
        followers = (f"\n{tags.parameter_open}", str(tags.invoke_close))
        end = text.find(tags.parameter_close, start)
        while end >= 0:
            if text.startswith(followers, end + len(tags.parameter_close)):
                return end
            end = text.find(tags.parameter_close, end + 1)
        raise ValueError

    def _past(self, wanted: str, at: int) -> int:
        if not self._text.startswith(wanted, at):
            raise ValueError
        return at + len(wanted)


def _value(text: str) -> Any:
    """A value that is no string, written as the format writes it; else a `ValueError`."""
    try:
        value = json.loads(text)
        if not isinstance(value, str) and to_json(value) == text:
            return value
    except FAILURES:
        pass
    raise ValueError
