"""Turns are remembered when they end, and stand in later prompts as they were sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dsv4._encode.sampled_turns import Sampled
from dsv4.api.ids import marked_id
from dsv4.api.request import ApiRequest
from dsv4.serve.replay.seal import Seal
from dsv4.serve.replay.store import Store
from dsv4.serve.replay.turns import Turn, place_of, says_the_same


class Memory:
    """What was sampled, by owner. Without a store or a seal it remembers nothing."""

    def __init__(self, store: Store | None, seal: Seal | None) -> None:
        self.store = store
        self._seal = seal

    @property
    def seals(self) -> bool:
        """Whether turns travel with the client."""
        return self._seal is not None

    async def remember(self, owner: str, before: Sequence[Mapping[str, Any]], turn: Turn) -> None:
        """Keeps a turn, under every name that it may be asked for by."""
        if self.store is None:
            return
        names = [turn.id, *(call.id for call in turn.calls)]
        if not turn.calls:
            names.append(place_of(before, turn.content))
        await self.store.put(owner, names, turn.to_bytes())

    def sealed(self, owner: str, turn: Turn) -> str | None:
        """The turn as a text for the client to give back."""
        return None if self._seal is None else self._seal.close(owner, turn.to_bytes())

    async def recalled(self, owner: str, call: ApiRequest) -> tuple[ApiRequest, int]:
        """The request with its turns as they were sampled, and how many of them were found."""
        if self.store is None and self._seal is None:
            return call, 0
        messages = list(call.request.messages)
        spoken = [n for n, message in enumerate(messages) if _is_spoken(message)]
        turns = await asyncio.gather(*(self._turn(owner, call, messages, n) for n in spoken))
        found = 0
        for n, turn in zip(spoken, turns, strict=True):
            if turn is not None:
                # The rules must see the reasoning, which the client may have left out.
                message = {**messages[n], "reasoning_content": turn.reasoning}
                messages[n] = Sampled(message, text=turn.text, ids=turn.ids)
                found += 1
        if not found:
            return call, 0
        return replace(call, request=replace(call.request, messages=messages)), found

    async def _turn(
        self, owner: str, call: ApiRequest, messages: Sequence[Any], n: int
    ) -> Turn | None:
        message = messages[n]
        for mark in call.marks.get(n, ()):
            turn = self._opened(owner, mark)
            if turn is not None and says_the_same(turn, message):
                return turn
        if self.store is None:
            return None
        for name in _names(call, messages, n):
            data = await self.store.get(owner, name)
            turn = None if data is None else Turn.from_bytes(data)
            if turn is not None and says_the_same(turn, message):
                return turn
        return None

    def _opened(self, owner: str, mark: str) -> Turn | None:
        if self._seal is None:
            return None
        data = self._seal.open(owner, mark)
        return None if data is None else Turn.from_bytes(data)


def _is_spoken(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _names(call: ApiRequest, messages: Sequence[Any], n: int) -> list[str]:
    """What a turn may be kept under, the surest first."""
    message = messages[n]
    calls = message.get("tool_calls") or ()
    names = [str(given["id"]) for given in calls[:1] if given.get("id")]
    names += [name for mark in call.marks.get(n, ()) if (name := marked_id(mark))]
    if not calls and isinstance(message.get("content"), str):
        names.append(place_of(messages[:n], message["content"]))
    return names
