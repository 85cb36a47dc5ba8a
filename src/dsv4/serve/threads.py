"""Threads of Messages: conversations that are kept here, so that a turn sends what is new."""

from __future__ import annotations

import json
from typing import Any

from dsv4.api import ApiError, fields
from dsv4.serve.replay.store import Store

# What a turn takes over from the one that it continues: it may repeat it, and not change it.
FIXED = ("system", "tools")
TYPES = ("create", "continue")


class Threads:
    """The threads of all owners, each kept under the id of its last message."""

    def __init__(self, store: Store | None) -> None:
        self._store = store

    def holds(self, body: dict[str, Any]) -> bool:
        """Whether a body is a turn of a thread, and threads are kept."""
        return self._store is not None and body.get("thread") is not None

    async def continued(self, owner: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a turn with the whole conversation, and no thread."""
        previous = _previous(body["thread"])
        turn = {name: value for name, value in body.items() if name != "thread"}
        if previous is None:
            return turn
        kept = await self._found(owner, previous)
        new = fields.listed(turn.get("messages"), "messages")
        for name in FIXED:
            if turn.get(name) is not None and turn[name] != kept.get(name):
                raise _changed(name)
        return {**turn, **kept, "messages": [*kept["messages"], *new]}

    async def keep(self, owner: str, body: dict[str, Any], message: dict[str, Any]) -> None:
        """Keeps a conversation, `body` as `continued` gave it, with the message that answers it."""
        assert self._store is not None
        answer = {"role": "assistant", "content": message["content"]}
        kept = {name: body[name] for name in FIXED if body.get(name) is not None}
        kept["messages"] = [*body["messages"], answer]
        # What a client sent may hold half a character.
        data = json.dumps({"thread": kept}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        await self._store.put(owner, [message["id"]], data)

    async def _found(self, owner: str, id: str) -> dict[str, Any]:
        assert self._store is not None
        data = await self._store.get(owner, id)
        try:
            kept = None if data is None else json.loads(data)
        except ValueError:
            kept = None
        if not isinstance(kept, dict) or "thread" not in kept:
            raise _unknown(id)
        thread: dict[str, Any] = kept["thread"]
        return thread


def _previous(thread: Any) -> str | None:
    """The message that a turn continues. None if it is the first."""
    kind = fields.table(thread, "thread").get("type")
    if fields.one_of(*TYPES)(kind, "thread.type") == "create":
        return None
    return fields.name_at(thread, "thread", "previous_message_id")


def _unknown(id: str) -> ApiError:
    # The SDK then sends the whole conversation. It knows the error by its code, and gives it the
    # class of a status of 404.
    return ApiError(
        f"found {id!r}, expected the id of a message whose thread is kept here",
        path="thread.previous_message_id",
        status=404,
        details={"error_code": "thread_not_found"},
    )


def _changed(name: str) -> ApiError:
    return ApiError(
        "found another value than the one that the thread began with, expected the same or none",
        path=name,
        details={"error_code": "thread_fingerprint_mismatch"},
    )
