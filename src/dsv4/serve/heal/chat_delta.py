"""What a delta of a chat server says, in whatever form: its reasoning, its text, its calls; and the
calls of an answer, put together from its deltas.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError, read_object

# Whether a text is reasoning, and the text.
SpokenText: TypeAlias = tuple[bool, str]

# Servers that send both of them send the same text in both.
_REASONING = ("reasoning_content", "reasoning", "thinking")
# What a part of a list calls its text, by its type, and whether that is reasoning.
_PARTS = {
    "text": ("text", False),
    "output_text": ("text", False),
    "refusal": ("refusal", False),
    "thinking": ("thinking", True),
    "reasoning": ("text", True),
}


def spoken_texts(delta: Mapping[str, Any]) -> Iterator[SpokenText]:
    """The texts of a delta, in the order of its fields. Raises a `BackendError` for what is no
    text: nothing that a server says is passed over."""
    for name in _REASONING:
        if value := delta.get(name):
            yield from ((True, text) for _, text in _texts(value, name))
            break
    # No protocol here has another place for a refusal.
    for name in ("content", "refusal"):
        if value := delta.get(name):
            yield from _texts(value, name)


def _texts(value: object, place: str) -> Iterator[SpokenText]:
    if isinstance(value, str):
        yield False, value
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from _part_texts(part, f"{place}[{n}]")
    else:
        raise _garbage(value, place)


def _part_texts(part: object, place: str) -> Iterator[SpokenText]:
    if isinstance(part, str):
        yield False, part
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in _PARTS:
        raise _garbage(part, place)
    name, is_reasoning = _PARTS[kind]
    for inner, text in _texts(part.get(name) or "", f"{place}.{name}"):
        yield inner or is_reasoning, text


def call_pieces(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The pieces of calls in a delta. Raises a `BackendError` for what is none."""
    pieces = delta.get("tool_calls")
    if isinstance(pieces, dict):
        pieces = [pieces]
    if pieces is not None and not isinstance(pieces, list):
        raise _garbage(pieces, "tool_calls")
    for n, piece in enumerate(pieces or ()):
        if not isinstance(piece, dict):
            raise _garbage(piece, f"tool_calls[{n}]")
        if not isinstance(piece.get("function"), (dict, type(None))):
            raise _garbage(piece["function"], f"tool_calls[{n}].function")
        yield piece
    if isinstance(old := delta.get("function_call"), dict):  # of servers from before tools
        yield {"index": 0, "function": old}


def _garbage(value: object, place: str) -> BackendError:
    problem = f"the backend sent another {place} of a delta than is known"
    return BackendError(problem, quoted=short_repr(value, 40))


# The calls that a server has read itself, put together from pieces.
#
# Servers disagree about how pieces belong together: Ollama and older routers number every call 0,
# some number none, some send a name in pieces, some give two calls one id.


class UpstreamCall:
    """A call as far as it has come."""

    def __init__(self, id: str, before: UpstreamCall | None) -> None:
        """`before` is the call before it, if it begins with that one's name."""
        self.id = id
        self._before = before
        self.name = ""
        self._pieces: list[str] = []

    def add(self, arguments: str) -> None:
        self._pieces.append(arguments)

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    @property
    def is_echo(self) -> bool:
        """Whether it is the call before it, once more: servers that repeat the name with every
        piece do so again at the end, and no arguments follow; some repeat the whole call."""
        before = self._before
        if before is None or not self.arguments:
            return before is not None
        return bool(self.id) and (self.id, self.arguments) == (before.id, before.arguments)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can follow its arguments."""
        return read_object(self.arguments) is not None

    def delta(self, index: int) -> dict[str, Any]:
        """The call in one piece, as a server sends it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": index, "id": self.id, "function": function}


class UpstreamCalls:
    """The calls of one answer."""

    def __init__(self, tool_names: Collection[str]) -> None:
        """`tool_names` are the names of the request's tools."""
        self._tool_names = tool_names
        self._calls: list[UpstreamCall] = []
        self._current: dict[object, UpstreamCall] = {}  # by the server's own number

    def __iter__(self) -> Iterator[UpstreamCall]:
        return (call for call in self._calls if not call.is_echo)

    def add(self, piece: Mapping[str, Any]) -> None:
        """Takes a piece of a call."""
        function = piece.get("function")
        fields = function if isinstance(function, dict) else piece  # some leave out a level
        name, arguments = fields.get("name"), fields.get("arguments")
        name = name if isinstance(name, str) else ""
        # Some write an object where its text belongs.
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        call = self._call_of(piece.get("index"), str(piece.get("id") or ""), name)
        call.name = self._joined(call.name, name)
        call.add(arguments)

    def _call_of(self, index: object, id: str, name: str) -> UpstreamCall:
        """The call that a piece belongs to: the last of its number, or a new one."""
        number = index if isinstance(index, (int, str)) else None  # some number nothing
        call = self._current.get(number)
        if not name and (earlier := self._continued(call, number, id)):
            call = earlier
        elif call is None or self._begins(call, id, name):
            is_same = call is not None and name == call.name and id in ("", call.id)
            call = self._current[number] = UpstreamCall(id, call if is_same else None)
            self._calls.append(call)
        call.id = call.id or id
        return call

    def _continued(self, call: UpstreamCall | None, number: object, id: str) -> UpstreamCall | None:
        """The call that a piece without a name is more of, unless that is `call`, the last of its
        number: some number or name only a call's first piece, or give each piece another id."""
        if id:
            same = [other for other in self._calls if other.id == id]
            candidate = same[-1] if same and call not in same else call
            return candidate if same or (candidate and not candidate.is_complete) else None
        last = self._calls[-1] if self._calls and number is None else None
        return last if call is None and last and not last.is_complete else None

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
        could_be = any(tool.startswith(name + piece) for tool in self._tool_names)
        return name + piece if could_be and name not in self._tool_names else name
