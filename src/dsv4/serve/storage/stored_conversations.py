"""Conversations that clients continue by an id: Responses by `previous_response_id`, Messages by
thread.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeGuard

from dsv4.api import ApiError, request_fields
from dsv4.api.request_fields import JsonObject, clean
from dsv4.serve.backend import read_object
from dsv4.serve.storage.turn_stores import TurnStore


class StoredResponse(NamedTuple):
    """A response, and the items that it answers."""

    input: list[Any]
    response: JsonObject

    @property
    def items(self) -> list[Any]:
        """The conversation so far."""
        return [*self.input, *self.response["output"]]


class StoredResponses:
    """The stored responses of all owners: read again by their ids, and continued by
    `previous_response_id`."""

    def __init__(self, store: TurnStore | None) -> None:
        self._store = store

    async def keep(self, owner: str, body: JsonObject, response: JsonObject) -> None:
        """Keeps a response with what it answers, unless the request forbids it."""
        if not self._stores(body):
            return
        assert self._store is not None
        value = StoredResponse(_items(body.get("input")), response)
        names = [response["id"], *(item["id"] for item in response["output"] if item.get("id"))]
        await self._store.put(owner, names, _stored_json(value._asdict()))

    def _stores(self, body: JsonObject) -> bool:
        return self._store is not None and body.get("store") is not False

    def echo(self, body: JsonObject) -> JsonObject:
        """What the response to a request says of storing."""
        previous = body.get("previous_response_id")
        previous = clean(previous) if isinstance(previous, str) else None
        return {"previous_response_id": previous, "store": self._stores(body)}

    async def find(self, owner: str, id: str) -> StoredResponse | None:
        """What is stored under the id of a response or of one of its items."""
        value = await _stored_object(self._store, owner, id)
        return StoredResponse(value["input"], value["response"]) if "response" in value else None

    async def forget(self, owner: str, id: str) -> None:
        """Forgets a response."""
        if self._store is not None:
            await self._store.delete(owner, id)

    async def continued(self, owner: str, body: JsonObject) -> JsonObject:
        """The body with all that it refers to written out."""
        items: list[Any] = []
        previous = body.get("previous_response_id")
        if isinstance(previous, str):
            previous = clean(previous)
            response = await self.find(owner, previous)
            if response is None:
                message = f"found {previous!r}, expected the id of a response that is stored here"
                raise ApiError(message, path="previous_response_id", status=404)
            items += response.items
        new = body.get("input")
        refers = isinstance(new, list) and any(_is_reference(item) for item in new)
        if not items and not refers:
            return body
        for n, item in enumerate(_items(new)):
            items.append(await self._resolved(owner, item, n) if _is_reference(item) else item)
        rest = {name: v for name, v in body.items() if name != "previous_response_id"}
        return {**rest, "input": items}

    async def _resolved(self, owner: str, reference: JsonObject, n: int) -> JsonObject:
        id = clean(str(reference.get("id")))
        response = await self.find(owner, id)
        items = [] if response is None else [*response.response["output"], *response.input]
        for item in items:
            if isinstance(item, dict) and item.get("id") == id:
                return item
        message = f"found {id!r}, expected the id of an item that is stored here"
        raise ApiError(message, path=f"input[{n}].id", status=404)


def _items(value: object) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return list(value) if isinstance(value, list) else []


def _is_reference(item: object) -> TypeGuard[JsonObject]:
    return isinstance(item, dict) and item.get("type") == "item_reference"


# What a turn takes over from the one that it continues: it may repeat it, and not change it.
FIXED_THREAD_FIELDS = ("system", "tools")
THREAD_TYPES = ("create", "continue")


class StoredThreads:
    """The threads of Messages of all owners, each stored under the id of its last message, so that
    a client sends only what is new."""

    def __init__(self, store: TurnStore | None) -> None:
        self._store = store

    def holds(self, body: JsonObject) -> bool:
        """Whether a body is a turn of a thread, and threads are stored."""
        return self._store is not None and body.get("thread") is not None

    async def continued(self, owner: str, body: JsonObject) -> JsonObject:
        """The body of a turn with the whole conversation, and no thread."""
        previous = _previous_message_id(body["thread"])
        turn = {name: value for name, value in body.items() if name != "thread"}
        if previous is None:
            return turn
        thread = await self._existing_thread(owner, previous)
        new = request_fields.json_list(turn.get("messages"), "messages")
        for name in FIXED_THREAD_FIELDS:
            if turn.get(name) is not None and turn[name] != thread.get(name):
                problem = "found another value than the one that the thread began with"
                details = {"error_code": "thread_fingerprint_mismatch"}
                raise ApiError(f"{problem}, expected the same or none", path=name, details=details)
        return {**turn, **thread, "messages": [*thread["messages"], *new]}

    async def keep(self, owner: str, body: JsonObject, message: JsonObject) -> None:
        """Keeps a conversation, `body` as `continued` gave it, with the message that answers it."""
        assert self._store is not None
        answer = {"role": "assistant", "content": message["content"]}
        thread = {name: body[name] for name in FIXED_THREAD_FIELDS if body.get(name) is not None}
        thread["messages"] = [*body["messages"], answer]
        await self._store.put(owner, [message["id"]], _stored_json({"thread": thread}))

    async def _existing_thread(self, owner: str, id: str) -> JsonObject:
        value = await _stored_object(self._store, owner, id)
        if "thread" not in value:
            # The SDK then sends the whole conversation. It knows the error by its code, and gives
            # it the class of a status of 404.
            raise ApiError(
                f"found {id!r}, expected the id of a message whose thread is kept here",
                path="thread.previous_message_id",
                status=404,
                details={"error_code": "thread_not_found"},
            )
        thread: JsonObject = value["thread"]
        return thread


def _stored_json(value: JsonObject) -> bytes:
    # What a client sent may hold half a character.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


async def _stored_object(store: TurnStore | None, owner: str, name: str) -> JsonObject:
    """The object that is stored under a name; an empty one where there is none."""
    return read_object(None if store is None else await store.get(owner, name)) or {}


def _previous_message_id(value: object) -> str | None:
    """The message that a turn continues. None if it is the first."""
    thread = request_fields.json_object(value, "thread")
    kind = request_fields.one_of(*THREAD_TYPES)(thread.get("type"), "thread.type")
    if kind == "create":
        return None
    return request_fields.name_at(thread, "thread", "previous_message_id")
