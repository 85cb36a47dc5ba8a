"""Turns of the model as they were sampled: kept when they end, recognised when a client sends them
back, and placed in later prompts exactly as sampled. A store keeps them, or the client does, in
sealed form.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from dsv4.api.api_request import ApiRequest
from dsv4.api.neutral_request import marked_id
from dsv4.serve.backend import read_object
from dsv4.serve.settings import SettingError
from dsv4.serve.storage.turn_stores import MemoryTurnStore, StoreFailure, TurnStore
from dsv4.types import AssistantMessageParam, Sampled

_TAG_BYTES = 16
# A model's output is never longer; a blob that claims to be was made to fill memory.
MAX_SEALED = 16 * 1024 * 1024


class TurnSeal:
    """Compresses and signs turns that travel with the client, and takes back only those it signed.

    Raw text may contain control tokens, so nothing else is trusted. The client can read it; it has
    nothing that the client did not receive.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def close(self, owner: str, value: bytes) -> str:
        """A value as text that only this key opens again, and only for this owner."""
        packed = zlib.compress(value, 6)
        return base64.urlsafe_b64encode(self._tag(owner, packed) + packed).decode().rstrip("=")

    def open(self, owner: str, sealed: str) -> bytes | None:
        """The value of a sealed text. None if it was not sealed with this key for this owner."""
        try:
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        tag, packed = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(owner, packed)):
            return None
        unpacking = zlib.decompressobj()
        value = unpacking.decompress(packed, MAX_SEALED)
        return None if unpacking.unconsumed_tail else value

    def _tag(self, owner: str, packed: bytes) -> bytes:
        name = hashlib.sha256(owner.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(self._key, name + packed, hashlib.sha256).digest()[:_TAG_BYTES]


def read_seal(path: str) -> TurnSeal:
    """The seal with the key of a file: at least 16 bytes, white space at the ends aside."""
    try:
        with open(path, "rb") as file:
            key = file.read().strip()
    except OSError as error:
        raise SettingError("seal_key_file", f"{path}: {error.strerror}") from None
    if len(key) < 16:
        raise SettingError("seal_key_file", f"{path}: found {len(key)} bytes, expected 16 or more")
    return TurnSeal(key)


@dataclass(frozen=True, slots=True)
class SampledCall:
    """A call of a turn: the id that the client got, the name in the prompt, the sampled arguments,
    and the fitted ones that the client got instead, if any."""

    id: str
    name: str
    arguments: str
    fitted: str | None = None


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """A turn as it was sampled, as it was read, and the engine that wrote it, if there are
    several."""

    id: str
    text: str
    ids: tuple[int, ...] | None
    content: str
    reasoning: str
    calls: tuple[SampledCall, ...] = ()
    engine: str | None = None

    def to_bytes(self) -> bytes:
        # `asdict(self)` would copy every id.
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["calls"] = [asdict(call) for call in self.calls]
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes | None) -> SampledTurn | None:
        """A turn that was stored. None if it cannot be read: stored by another version, or
        damaged."""
        if not data:
            return None
        try:
            fields = json.loads(data.decode("utf-8", "surrogatepass"))
            calls = tuple(SampledCall(**call) for call in fields.pop("calls"))
            ids = fields.pop("ids")
            return cls(**fields, ids=None if ids is None else tuple(ids), calls=calls)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def says_the_same(turn: SampledTurn, message: Mapping[str, Any]) -> bool:
    """Whether a client's assistant message is the turn, changed only as clients change turns.

    The same calls by id and name, each sampled argument there with an equal value (agents reorder
    keys and fill in defaults); the same content up to white space at its ends; reasoning equal or
    missing.
    """
    calls = message.get("tool_calls") or ()
    if len(calls) != len(turn.calls):
        return False
    if not all(_is_same_call(theirs, ours) for theirs, ours in zip(calls, turn.calls, strict=True)):
        return False
    content = message.get("content") or ""
    if not isinstance(content, str) or content.strip() != turn.content.strip():
        return False
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return not reasoning.strip() or reasoning.strip() == turn.reasoning.strip()


def _is_same_call(theirs: Mapping[str, Any], ours: SampledCall) -> bool:
    function = theirs.get("function") or {}
    if theirs.get("id") != ours.id or function.get("name") != ours.name:
        return False
    arguments, sampled = (
        _arguments_object(function.get("arguments")),
        _arguments_object(ours.fitted or ours.arguments),
    )
    if arguments is None or sampled is None:
        return False
    missing = object()
    return all(_json_equal(arguments.get(key, missing), value) for key, value in sampled.items())


def _arguments_object(arguments: object) -> dict[str, Any] | None:
    if isinstance(arguments, str):
        return read_object(arguments or "{}")
    return arguments if isinstance(arguments, dict) else None


def _json_equal(a: object, b: object) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0, but not true. Objects in `a` may have
    more members."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return b.keys() <= a.keys() and all(_json_equal(a[key], value) for key, value in b.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_json_equal, a, b))
    return bool(a == b)


# A turn without calls is named by the texts before it and its own text. White space at the ends,
# reasoning and the spelling of arguments do not count, because clients change them; the ids of
# calls do. A conversation is hashed only once, however many turns it has.


def turn_key(before: Iterable[Mapping[str, Any]], content: str) -> str:
    """The name of a turn without calls whose text is `content`, after these messages."""
    digest = hashlib.sha256()
    for message in before:
        digest.update(_compared_bytes(message))
    return _key_after(digest, content)


def turn_keys(messages: Sequence[Mapping[str, Any]], *, with_calls: bool = False) -> dict[int, str]:
    """The names of all turns without calls in a conversation, by their index; `with_calls`, of all
    its turns."""
    digest, names = hashlib.sha256(), {}
    for n, message in enumerate(messages):
        content = message.get("content")
        if content is None and with_calls:
            content = ""
        is_turn = message.get("role") == "assistant" and (
            with_calls or not message.get("tool_calls")
        )
        if is_turn and isinstance(content, str):
            names[n] = _key_after(digest, content)
        digest.update(_compared_bytes(message))
    return names


def _key_after(digest: hashlib._Hash, content: str) -> str:
    own = digest.copy()
    own.update(b"\1" + content.strip().encode("utf-8", "surrogatepass"))
    return f"place_{own.hexdigest()}"


def _compared_bytes(message: Mapping[str, Any]) -> bytes:
    return "\0".join([*_compared_parts(message), ""]).encode("utf-8", "surrogatepass")


def _compared_parts(message: Mapping[str, Any]) -> list[str]:
    parts, content = [str(message.get("role"))], message.get("content")
    if isinstance(content, str):
        parts.append(content.strip())
    elif content:
        parts.append(json.dumps(content, ensure_ascii=False, default=str))
    parts += [str(call.get("id")) for call in message.get("tool_calls") or ()]
    return [*parts, str(message["tool_call_id"])] if message.get("tool_call_id") else parts


# Hashing this many messages takes longer than going to a thread and back.
_LONG = 200


class SampledTurns:
    """The sampled turns of all owners. Without a store or a seal, nothing is kept."""

    def __init__(self, store: TurnStore | None, seal: TurnSeal | None) -> None:
        self.store = store
        self.seal = seal

    async def remember(
        self,
        owner: str,
        before: Sequence[Mapping[str, Any]],
        turn: SampledTurn,
        *,
        by_place: bool = False,
    ) -> None:
        """Keeps a turn, under every name by which it may be looked up. `by_place` says that the ids
        of its calls are another server's, and may repeat."""
        if self.store is None:
            return
        names = [turn.id, *(call.id for call in turn.calls)]
        if by_place or not turn.calls:
            names.append(turn_key(before, turn.content))
        await self.store.put(owner, names, turn.to_bytes())

    def sealed(self, owner: str, turn: SampledTurn) -> str | None:
        """The turn as a text for the client to send back."""
        if self.seal is None:
            return None
        # Clients must not see the addresses of engines.
        return self.seal.close(owner, replace(turn, engine=None).to_bytes())

    async def recalled(self, owner: str, call: ApiRequest) -> tuple[ApiRequest, int, str | None]:
        """The request with its turns as they were sampled, the number of those turns, and the
        engine that wrote the last one, if that is known."""
        messages: list[Any] = list(call.request.messages)
        turns = await self.turns_in(owner, messages, call.marks)
        for n, turn in turns.items():
            # The rules of the format need the reasoning, which the client may have left out.
            message: AssistantMessageParam = messages[n].copy()
            message["reasoning_content"] = turn.reasoning
            messages[n] = Sampled(message, text=turn.text, ids=turn.ids)
        if not turns:
            return call, 0, None
        request = replace(call.request, messages=messages)
        return replace(call, request=request), len(turns), turns[max(turns)].engine

    async def turns_in(
        self,
        owner: str,
        messages: Sequence[Mapping[str, Any]],
        marks: Mapping[int, Sequence[str]],
        fits: Callable[[SampledTurn, Mapping[str, Any]], bool] = says_the_same,
        *,
        in_parts: bool = False,
    ) -> dict[int, SampledTurn]:
        """The turns of a conversation that are sealed in its marks or stored, by the index of the
        message that each `fits`. `in_parts` says that a message may have some of a turn's calls."""
        if self.store is None and self.seal is None:
            return {}
        keys: dict[int, str] = {}
        if self.store is not None:
            # Other streams must not wait while a long history is hashed.
            is_long = len(messages) >= _LONG
            make = partial(turn_keys, messages, with_calls=in_parts)
            keys = await asyncio.to_thread(make) if is_long else make()

        async def turn_of(n: int) -> SampledTurn | None:
            message, own_marks = messages[n], marks.get(n, ())
            for mark in own_marks:
                if (turn := self._sealed_in(owner, mark)) and fits(turn, message):
                    return turn
            calls = message.get("tool_calls") or ()
            ids = [call.get("id") for call in (calls if in_parts else calls[:1])]
            # The most certain first.
            for name in filter(None, (*ids, *map(marked_id, own_marks), keys.get(n))):
                if (turn := await self._stored_as(owner, str(name))) and fits(turn, message):
                    return turn
            return None

        places = [n for n, message in enumerate(messages) if message.get("role") == "assistant"]
        if isinstance(self.store, MemoryTurnStore):  # it needs no waiting
            turns = [await turn_of(n) for n in places]
        else:
            turns = await asyncio.gather(*map(turn_of, places))
        return {n: turn for n, turn in zip(places, turns, strict=True) if turn is not None}

    def _sealed_in(self, owner: str, mark: str) -> SampledTurn | None:
        return SampledTurn.from_bytes(None if self.seal is None else self.seal.open(owner, mark))

    async def _stored_as(self, owner: str, name: str) -> SampledTurn | None:
        try:
            data = None if self.store is None else await self.store.get(owner, name)
        except StoreFailure:  # the turn is used as the client sent it
            return None
        return SampledTurn.from_bytes(data)
