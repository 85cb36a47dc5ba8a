"""A tool call that is being read: its arguments, written as JSON fragments."""

from __future__ import annotations

from collections.abc import Callable

from dsv4._completion.events import (
    AbortReason,
    ArgumentsDelta,
    Event,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._completion.json_text import json_string, list_text, member_text, without_duplicates


class CallWriter:
    """One call. Its events are passed to `emit`; a call that is not visible has none.

    A call that is delivered whole writes nothing before its end, and nothing at all if it is given
    up.
    """

    def __init__(
        self, start: ToolCallStart, emit: Callable[[Event], None], visible: bool, whole: bool
    ) -> None:
        self.visible = visible
        self._start = start
        self.index = start.index
        self._emit = emit
        self.keys: set[str] = set()  # of the parameters that were written
        self._in_string = False
        self._repeats = False  # a key was written twice
        self._lists: dict[str, list[str]] = {}  # of values that came one by one
        self._waiting: list[str] | None = [] if whole else None
        self._is_closed = False
        self.begun = visible and not whole
        if self.begun:
            emit(start)

    @property
    def streams(self) -> bool:
        """Whether each fragment is emitted immediately."""
        return self.visible and self._waiting is None

    # Arguments.

    def open_string(self, key: str) -> None:
        self._in_string = True
        self._write(self._separator(key) + json_string(key) + ': "')

    def write_string(self, text: str) -> None:
        self._write(json_string(text)[1:-1])

    def close_string(self) -> None:
        self._in_string = False
        self._write('"')

    def add(self, key: str, json_text: str) -> None:
        self._lists.pop(key, None)
        self._write(self._separator(key) + member_text(key, json_text))

    def add_item(self, key: str, first: str, item: str) -> None:
        """Adds a value to a list whose `first` was written by itself. The list comes at the end."""
        self._repeats = True
        self._lists.setdefault(key, [first]).append(item)

    # The end.

    def close(self, body: str | None = None) -> None:
        """Completes the arguments, which may come as one JSON object."""
        self._write(self._closing("") if body is None else body)
        self._is_closed = True

    def end(self) -> None:
        """Completes the call."""
        if not self.visible:
            return
        if self._waiting is not None:
            arguments = "".join(self._waiting)
            whole = without_duplicates(arguments) if self._repeats else arguments
            self._emit(self._start)
            self._emit(ArgumentsDelta(self.index, whole))
        self._emit(ToolCallEnd(self.index))

    def abort(self, reason: AbortReason, rest: str = "") -> None:
        """Gives the call up. `rest` is a member of the arguments that was not written."""
        if self.streams:
            self._emit(ToolCallAborted(self.index, reason, self._closing(rest)))
        self.visible = False

    def _closing(self, rest: str) -> str:
        """The text that closes the arguments: lists of values that came one by one, and `rest`."""
        if self._is_closed:
            return ""
        members = [member_text(key, list_text(items)) for key, items in self._lists.items()]
        members += [rest] if rest else []
        if not self.keys:
            return "{" + rest + "}"
        return ('"' if self._in_string else "") + "".join(f", {m}" for m in members) + "}"

    def _separator(self, key: str) -> str:
        first = not self.keys
        self._repeats = self._repeats or key in self.keys
        self.keys.add(key)
        return "{" if first else ", "

    def _write(self, text: str) -> None:
        if not self.visible or not text:
            return
        if self._waiting is not None:
            self._waiting.append(text)
        else:
            self._emit(ArgumentsDelta(self.index, text))
