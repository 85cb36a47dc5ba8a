"""The calls that a chat server has read itself, put together from pieces.

Servers disagree about how pieces belong together: Ollama and older routers number every call 0,
some number none, some send a name in pieces, some give two calls one id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any


class UpstreamCall:
    """A call as far as it has come."""

    def __init__(self, id: str, is_echo: bool) -> None:
        """`is_echo` says that it begins with the name of the call before it: servers that repeat
        the name with every piece do so once more at the end, and no arguments follow."""
        self.id = id
        self.is_echo = is_echo
        self.name = ""
        self._pieces: list[str] = []

    def add(self, arguments: str) -> None:
        self._pieces.append(arguments)

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can follow its arguments."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False

    def delta(self, index: int) -> dict[str, Any]:
        """The call in one piece, as a server sends it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": index, "id": self.id, "function": function}


class UpstreamCalls:
    """The calls of one answer."""

    def __init__(self, declared: Collection[str]) -> None:
        """`declared` are the names of the request's tools."""
        self._declared = declared
        self._calls: list[UpstreamCall] = []
        self._current: dict[object, UpstreamCall] = {}  # by the server's own number

    def __iter__(self) -> Iterator[UpstreamCall]:
        return (call for call in self._calls if not (call.is_echo and not call.arguments))

    def add(self, piece: Mapping[str, Any]) -> None:
        """Takes a piece of a call."""
        function = piece.get("function")
        given = function if isinstance(function, dict) else piece  # some leave out a level
        name, arguments = given.get("name"), given.get("arguments")
        name = name if isinstance(name, str) else ""
        # Some write an object where its text belongs.
        text = arguments if isinstance(arguments, str) else _json_text(arguments)
        call = self._call_of(piece.get("index"), str(piece.get("id") or ""), name)
        call.name = self._joined(call.name, name)
        call.add(text)

    def _call_of(self, index: object, id: str, name: str) -> UpstreamCall:
        """The call that a piece belongs to: the last of its number, or a new one."""
        number = index if isinstance(index, (int, str)) else None  # some number nothing
        call = self._current.get(number)
        if call is None or self._begins(call, id, name):
            is_echo = call is not None and name == call.name and id in ("", call.id)
            call = self._current[number] = UpstreamCall(id, is_echo)
            self._calls.append(call)
        call.id = call.id or id
        return call

    def _begins(self, call: UpstreamCall, id: str, name: str) -> bool:
        """Whether a piece begins another call than the last one of its number: by another id, by a
        name behind whole arguments, or by a name that is no more of the last one."""
        if id and call.id and id != call.id:
            return True
        if not name or not call.name:
            return False
        is_other = name != call.name and self._joined(call.name, name) == call.name
        return is_other or call.is_complete

    def _joined(self, name: str, piece: str) -> str:
        """A name with a piece behind it: while no tool has the name, and one has both together."""
        if not name:
            return piece
        could_be = any(known.startswith(name + piece) for known in self._declared)
        return name + piece if could_be and name not in self._declared else name


def _json_text(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
