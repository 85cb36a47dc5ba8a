"""A turn of the model as it was sampled, and whether a turn that comes back says the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a turn: the id that the client got, the name in the prompt, the arguments."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What was sampled, raw, and how it was read."""

    id: str
    text: str
    ids: tuple[int, ...] | None
    content: str
    reasoning: str
    calls: tuple[Call, ...] = ()

    def to_bytes(self) -> bytes:
        # Not `asdict(self)`, which would make a copy of every id.
        kept = {name: getattr(self, name) for name in self.__slots__}
        kept["calls"] = [asdict(call) for call in self.calls]
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes) -> Turn | None:
        """A turn that was kept. None if it is none: kept by another version, or damaged."""
        try:
            read = json.loads(data.decode("utf-8", "surrogatepass"))
            calls = tuple(Call(**call) for call in read.pop("calls"))
            ids = read.pop("ids")
            return cls(**read, ids=None if ids is None else tuple(ids), calls=calls)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def says_the_same(turn: Turn, message: Mapping[str, Any]) -> bool:
    """Whether a client's assistant message is the turn, changed only as clients change turns.

    The same calls by id and name, each sampled argument there with an equal value (agents reorder
    keys and fill in defaults); the same content up to white space at its ends; reasoning equal or
    missing.
    """
    calls = message.get("tool_calls") or ()
    if len(calls) != len(turn.calls):
        return False
    if not all(_is_call(theirs, ours) for theirs, ours in zip(calls, turn.calls, strict=True)):
        return False
    content = message.get("content") or ""
    if not isinstance(content, str) or content.strip() != turn.content.strip():
        return False
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return not reasoning.strip() or reasoning.strip() == turn.reasoning.strip()


def _is_call(theirs: Mapping[str, Any], ours: Call) -> bool:
    function = theirs.get("function") or {}
    if theirs.get("id") != ours.id or function.get("name") != ours.name:
        return False
    given, sampled = _object(function.get("arguments")), _object(ours.arguments)
    if given is None or sampled is None:
        return False
    missing = object()
    return all(_equal(given.get(key, missing), value) for key, value in sampled.items())


def _object(arguments: Any) -> dict[str, Any] | None:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None


def _equal(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 is 1.0, and true is neither. Members of objects may be added."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return b.keys() <= a.keys() and all(_equal(a[key], value) for key, value in b.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def place_of(before: Sequence[Mapping[str, Any]], content: str) -> str:
    """A name for a turn without calls: what was said before it, and what it says.

    White space at the ends, reasoning and the spelling of arguments do not count, because clients
    change them; the ids of calls do.
    """
    digest = hashlib.sha256()
    for message in before:
        for part in _said(message):
            digest.update(part.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
    digest.update(b"\1" + content.strip().encode("utf-8", "surrogatepass"))
    return f"place_{digest.hexdigest()}"


def _said(message: Mapping[str, Any]) -> Iterable[str]:
    yield str(message.get("role"))
    content = message.get("content")
    if isinstance(content, str):
        yield content.strip()
    elif content:
        yield json.dumps(content, ensure_ascii=False, default=str)
    for call in message.get("tool_calls") or ():
        yield str(call.get("id"))
    if message.get("tool_call_id"):
        yield str(message["tool_call_id"])
