"""A tool call while it is read: its arguments, written as JSON fragments."""

from __future__ import annotations

from collections.abc import Callable

from dsv4.parsing.declared import Tools
from dsv4.parsing.events import (
    AbortReason,
    ArgumentsDelta,
    Event,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parsing.json_values import escaped, object_in, quoted


class Call:
    """One call. What it writes goes to `emit`; a call that is not shown writes nothing.

    A call that is to be seen whole writes nothing before its end, and nothing at all where it is
    given up.
    """

    __slots__ = (
        "_emit",
        "_keys",
        "_lone",
        "_start",
        "_waiting",
        "_written",
        "begun",
        "name",
        "shown",
        "tools",
    )

    def __init__(
        self,
        name: str,
        start: ToolCallStart,
        tools: Tools,
        emit: Callable[[Event], None],
        shown: bool = True,
        whole: bool = False,
    ) -> None:
        self.name = name
        self.tools = tools
        self.shown = shown
        self._start = start
        self._emit = emit
        self._keys: set[str] = set()
        # A first parameter that may turn out to hold all arguments: key, JSON, and raw text.
        self._lone: tuple[str, str, str] | None = None
        self._waiting: list[str] | None = [] if whole else None
        self._written = False  # some of the arguments
        self.begun = shown and not whole
        if self.begun:
            emit(start)

    @property
    def index(self) -> int:
        return self._start.index

    @property
    def streams(self) -> bool:
        """Whether what is written is seen at once."""
        return self.shown and self._waiting is None

    @property
    def parameters(self) -> int:
        return len(self._keys)

    def has(self, key: str) -> bool:
        return key in self._keys

    def may_hold_all(self, key: str) -> bool:
        return not self._keys and self.tools.may_unwrap(self.name, key)

    # Arguments.

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

    # The end.

    def end(self, body: str | None = None) -> bool:
        """Completes the call, whose arguments may come as one JSON object. Says if it unwrapped."""
        unwrapped = object_in(self._lone[2]) if self._lone is not None else None
        if unwrapped is not None:
            self._write(unwrapped.text)
        elif body is not None:
            self._write(body)
        else:
            self.settle()
            self._write("}" if self._keys else "{}")
        if self.shown:
            if self._waiting is not None:
                self._emit(self._start)
                self._emit(ArgumentsDelta(self.index, "".join(self._waiting)))
            self._emit(ToolCallEnd(self.index))
        return unwrapped is not None

    def abort(self, reason: AbortReason, in_string: bool = False, rest: str = "") -> None:
        """Gives the call up. `rest` is what is known of the arguments and was not written."""
        if self._lone is not None:
            key, json_text, _ = self._lone
            rest = f"{{{quoted(key)}: {json_text}{', ' + rest if rest else ''}"
        elif rest:
            rest = (", " if self._keys else "{") + rest
        if in_string:
            closing = '"}'
        elif self._keys or rest:
            closing = rest + "}"
        else:
            closing = "{}"
        if self.streams:
            self._emit(ToolCallAborted(self.index, reason, closing))
        self.shown = False

    def _separator(self, key: str) -> str:
        first = not self._keys
        self._keys.add(key)
        return "{" if first else ", "

    def _write(self, text: str) -> None:
        if not self.shown or not text:
            return
        if self._waiting is not None:
            self._waiting.append(text)
        else:
            self._emit(ArgumentsDelta(self._start.index, text))
