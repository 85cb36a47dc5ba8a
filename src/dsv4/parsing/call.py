"""A tool call while it is read: its arguments, written as JSON fragments."""

from __future__ import annotations

from collections.abc import Callable

from dsv4.parsing.declared import Tools
from dsv4.parsing.events import (
    Event,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
    arguments_delta,
)
from dsv4.parsing.json_values import escaped, object_text, quoted


class Call:
    """One call. What it writes goes to `emit`; a call that is not shown writes nothing."""

    __slots__ = ("_emit", "_keys", "_lone", "index", "name", "shown", "tools")

    def __init__(
        self, name: str, index: int, tools: Tools, emit: Callable[[Event], None], shown: bool
    ) -> None:
        self.name = name
        self.index = index
        self.tools = tools
        self.shown = shown
        self._emit = emit
        self._keys: set[str] = set()
        # A first parameter that may turn out to hold all arguments: key, JSON, and raw text.
        self._lone: tuple[str, str, str] | None = None
        if shown:
            emit(ToolCallStart(index, name))

    @property
    def parameters(self) -> int:
        return len(self._keys)

    def has(self, key: str) -> bool:
        return key in self._keys

    def may_hold_all(self, key: str) -> bool:
        return not self._keys and self.tools.may_unwrap(self.name, key)

    def open_string(self, key: str) -> None:
        self._write(self._separator(key) + quoted(key) + ': "')

    def write_string(self, text: str) -> None:
        self._write(escaped(text))

    def close_string(self) -> None:
        self._write('"')

    def add(self, key: str, json_text: str) -> None:
        self._write(f"{self._separator(key)}{quoted(key)}: {json_text}")

    def add_lone(self, key: str, json_text: str, raw: str) -> None:
        """A first parameter that may hold all arguments. It waits for what follows it."""
        self._lone = (key, json_text, raw)
        self._keys.add(key)

    def settle(self) -> None:
        """Another parameter comes: the one that waited is one of several."""
        if self._lone is not None:
            key, json_text, _ = self._lone
            self._lone = None
            self._keys.clear()
            self.add(key, json_text)

    def end(self, body: str | None = None) -> bool:
        """Completes the call, whose arguments may come as one JSON object. Says if it unwrapped."""
        unwrapped = object_text(self._lone[2]) if self._lone is not None else None
        if unwrapped is not None:
            self._write(unwrapped)
        elif body is not None:
            self._write(body)
        else:
            self.settle()
            self._write("}" if self._keys else "{}")
        if self.shown:
            self._emit(ToolCallEnd(self.index))
        return unwrapped is not None

    def abort(self, in_string: bool = False, body: str | None = None) -> None:
        """Gives the call up. What it wrote is closed to a JSON object, if it is not one whole."""
        self.settle()
        if body is not None:
            self._write(body)
        else:
            self._write(('"}' if in_string else "}") if self._keys else "{}")
        if self.shown:
            self._emit(ToolCallAborted(self.index))
        self.shown = False

    def _separator(self, key: str) -> str:
        first = not self._keys
        self._keys.add(key)
        return "{" if first else ", "

    def _write(self, text: str) -> None:
        if self.shown and text:
            self._emit(arguments_delta(self.index, text))
