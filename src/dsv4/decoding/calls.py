"""Blocks of calls, read back where they are written exactly as the format writes them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from dsv4.encoding.json_text import FAILURES, to_json
from dsv4.format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Tags

# A text may spell the opening of a block without being one. After this many it is no longer looked
# for, so that the work stays in proportion to the text.
ATTEMPTS = 64

_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class Blocks:
    """The blocks of calls in a text: where each one starts, where it ends, and its calls."""

    def __init__(self, text: str, tags: Tags) -> None:
        self._text = text
        self._block_open, self._block_close = str(tags.block_open), str(tags.block_close)
        self._invoke_open, self._invoke_close = str(tags.invoke_open), str(tags.invoke_close)
        self._open, self._close = str(tags.parameter_open), str(tags.parameter_close)
        # What a parameter's value ends with: the call goes on, or ends.
        self._goes_on = f"{self._close}\n{self._open}"
        self._ends = self._close + self._invoke_close
        self.found: dict[int, tuple[int, list[Any]]] = dict(self._all())
        self._starts = list(self.found)

    def _all(self) -> Iterator[tuple[int, tuple[int, list[Any]]]]:
        attempts, at = ATTEMPTS, 0
        while attempts and (start := self._text.find(self._block_open, at)) >= 0:
            try:
                end, calls = self._block(start + len(self._block_open))
            except ValueError:
                attempts, at = attempts - 1, start + 1
            else:
                yield start, (end, calls)
                at = end

    def ending_at(self, start: int, end: int) -> tuple[int, list[Any]] | None:
        """The block that ends a stretch of text: where it starts, and its calls."""
        if not self._text.endswith(self._block_close, start, end):
            return None
        index = bisect_left(self._starts, start)
        for at in self._starts[index : index + ATTEMPTS]:
            stop, calls = self.found[at]
            if stop >= end:
                return (at, calls) if stop == end else None
        return None

    def next_in(self, start: int, end: int) -> int | None:
        """Where the first block in a stretch of text starts."""
        index = bisect_left(self._starts, start)
        if index == len(self._starts):
            return None
        at = self._starts[index]
        return at if self.found[at][0] <= end else None

    def _block(self, at: int) -> tuple[int, list[Any]]:
        text = self._text
        calls: list[Any] = []
        while True:
            at, name, arguments = self._call(at)
            function = {"name": name, "arguments": arguments}
            calls.append({"id": f"call_{len(calls)}", "type": "function", "function": function})
            if text.startswith(self._block_close, at):
                return at + len(self._block_close), calls
            at = self._past("\n", at)

    def _call(self, at: int) -> tuple[int, str, str]:
        """A call: where it ends, the tool's name, and its arguments as JSON."""
        text = self._text
        start = self._past(self._invoke_open, at)
        stop = text.find(NAME_END, start)
        if stop < 0 or text.find("\n", start, stop) >= 0:
            raise ValueError
        at = stop + len(NAME_END)
        arguments: dict[str, str] = {}
        if not text.startswith(self._invoke_close, at):
            at = self._parameters(self._past(self._open, at), arguments)
        written = ", ".join([f"{to_json(key)}: {value}" for key, value in arguments.items()])
        return at + len(self._invoke_close), text[start:stop], f"{{{written}}}"

    def _parameters(self, at: int, arguments: dict[str, str]) -> int:
        """Reads parameters from the name of the first on. Returns where the last one ends."""
        text = self._text
        while True:
            key_end, is_text = self._key_end(at)
            key = text[at:key_end]
            start = key_end + len(STRING_TRUE if is_text else STRING_FALSE)
            end, goes_on = self._value_end(start)
            if key in arguments:
                raise ValueError
            value = text[start:end]
            arguments[key] = to_json(value) if is_text else _checked(value)
            if not goes_on:
                return end + len(self._close)
            at = end + len(self._goes_on)

    def _key_end(self, start: int) -> tuple[int, bool]:
        """Where a name ends, and whether its value is text. It is all in one line."""
        text = self._text
        line_end = text.find("\n", start)
        as_text = text.find(STRING_TRUE, start, line_end)
        as_json = text.find(STRING_FALSE, start, line_end if as_text < 0 else as_text)
        if as_json >= 0:
            return as_json, False
        if as_text < 0:
            raise ValueError
        return as_text, True

    def _value_end(self, start: int) -> tuple[int, bool]:
        """Where a value ends: at a closing tag after which the call goes on, or ends."""
        text = self._text
        end = text.find(self._close, start)
        while end >= 0:
            if text.startswith(self._ends, end):
                return end, False
            if text.startswith(self._goes_on, end):
                return end, True
            end = text.find(self._close, end + 1)
        raise ValueError

    def _past(self, wanted: str, at: int) -> int:
        if not self._text.startswith(wanted, at):
            raise ValueError
        return at + len(wanted)


def _checked(text: str) -> str:
    """A value that is no string, written as the format writes it; else a `ValueError`."""
    try:
        value, end = _scan(text, 0)
        if end == len(text) and value.__class__ is not str and to_json(value) == text:
            return text
    except (StopIteration, *FAILURES):
        pass
    raise ValueError
