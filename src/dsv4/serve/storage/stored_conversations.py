"""Conversations that clients continue by an id alone: Responses by `previous_response_id`, Messages
by thread.
"""

from __future__ import annotations

import json
from typing import Any

from dsv4.api import ApiError, request_fields
from dsv4.api.request_fields import clean
from dsv4.serve.storage.turn_store import TurnStore

# Responses that are stored: read again by their ids, and continued by `previous_response_id`.


class StoredResponses:
    """The stored responses of all owners."""

    def __init__(self, store: TurnStore | None) -> None:
        self._store = store

    async def keep(self, owner: str, body: dict[str, Any], response: dict[str, Any]) -> None:
        """Keeps a response with what it answers, unless the request forbids it."""
        if not self._stores(body):
            return
        assert self._store is not None
        kept = {"input": _items(body.get("input")), "response": response}
        names = [response["id"], *(item["id"] for item in response["output"] if item.get("id"))]
        # What a client sent may hold half a character.
        data = json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")
        await self._store.put(owner, names, data)

    def _stores(self, body: dict[str, Any]) -> bool:
        return self._store is not None and body.get("store") is not False

    def echo(self, body: dict[str, Any]) -> dict[str, Any]:
        """What the response to a request says of storing."""
        previous = body.get("previous_response_id")
        previous = clean(previous) if isinstance(previous, str) else None
        return {"previous_response_id": previous, "store": self._stores(body)}

    async def found(self, owner: str, id: str) -> dict[str, Any] | None:
        """What was kept under the id of a response or of one of its items."""
        data = None if self._store is None else await self._store.get(owner, id)
        try:
            kept = None if data is None else json.loads(data)
        except ValueError:
            return None
        return kept if isinstance(kept, dict) and "response" in kept else None

    async def forget(self, owner: str, id: str) -> None:
        """Forgets a response."""
        if self._store is not None:
            await self._store.delete(owner, id)

    async def continued(self, owner: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body with all that it refers to written out."""
        items: list[Any] = []
        previous = body.get("previous_response_id")
        if isinstance(previous, str):
            previous = clean(previous)
            kept = await self.found(owner, previous)
            if kept is None:
                message = f"found {previous!r}, expected the id of a response that is stored here"
                raise ApiError(message, path="previous_response_id", status=404)
            items += [*kept["input"], *kept["response"]["output"]]
        given = body.get("input")
        refers = isinstance(given, list) and any(_is_reference(item) for item in given)
        if not items and not refers:
            return body
        for n, item in enumerate(_items(given)):
            items.append(await self._resolved(owner, item, n) if _is_reference(item) else item)
        rest = {name: v for name, v in body.items() if name != "previous_response_id"}
        return {**rest, "input": items}

    async def _resolved(self, owner: str, reference: dict[str, Any], n: int) -> Any:
        id = clean(str(reference.get("id")))
        kept = await self.found(owner, id)
        known = [] if kept is None else [*kept["response"]["output"], *kept["input"]]
        for item in known:
            if isinstance(item, dict) and item.get("id") == id:
                return item
        message = f"found {id!r}, expected the id of an item that is stored here"
        raise ApiError(message, path=f"input[{n}].id", status=404)


def _items(given: Any) -> list[Any]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(given) if isinstance(given, list) else []


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


# Threads of Messages: conversations that are kept here, so that a turn sends what is new.


# What a turn takes over from the one that it continues: it may repeat it, and not change it.
FIXED_THREAD_FIELDS = ("system", "tools")
THREAD_TYPES = ("create", "continue")


class StoredThreads:
    """The threads of all owners, each kept under the id of its last message."""

    def __init__(self, store: TurnStore | None) -> None:
        self._store = store

    def holds(self, body: dict[str, Any]) -> bool:
        """Whether a body is a turn of a thread, and threads are kept."""
        return self._store is not None and body.get("thread") is not None

    async def continued(self, owner: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a turn with the whole conversation, and no thread."""
        previous = _previous_message_id(body["thread"])
        turn = {name: value for name, value in body.items() if name != "thread"}
        if previous is None:
            return turn
        kept = await self._found(owner, previous)
        new = request_fields.json_list(turn.get("messages"), "messages")
        for name in FIXED_THREAD_FIELDS:
            if turn.get(name) is not None and turn[name] != kept.get(name):
                raise _changed_field(name)
        return {**turn, **kept, "messages": [*kept["messages"], *new]}

    async def keep(self, owner: str, body: dict[str, Any], message: dict[str, Any]) -> None:
        """Keeps a conversation, `body` as `continued` gave it, with the message that answers it."""
        assert self._store is not None
        answer = {"role": "assistant", "content": message["content"]}
        kept = {name: body[name] for name in FIXED_THREAD_FIELDS if body.get(name) is not None}
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
            raise _unknown_thread(id)
        thread: dict[str, Any] = kept["thread"]
        return thread


def _previous_message_id(thread: Any) -> str | None:
    """The message that a turn continues. None if it is the first."""
    kind = request_fields.json_object(thread, "thread").get("type")
    if request_fields.one_of(*THREAD_TYPES)(kind, "thread.type") == "create":
        return None
    return request_fields.name_at(thread, "thread", "previous_message_id")


def _unknown_thread(id: str) -> ApiError:
    # The SDK then sends the whole conversation. It knows the error by its code, and gives it the
    # class of a status of 404.
    return ApiError(
        f"found {id!r}, expected the id of a message whose thread is kept here",
        path="thread.previous_message_id",
        status=404,
        details={"error_code": "thread_not_found"},
    )


def _changed_field(name: str) -> ApiError:
    return ApiError(
        "found another value than the one that the thread began with, expected the same or none",
        path=name,
        details={"error_code": "thread_fingerprint_mismatch"},
    )
