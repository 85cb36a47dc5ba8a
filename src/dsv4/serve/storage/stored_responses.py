"""Responses that are stored, so that clients continue them by `previous_response_id`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeGuard

from dsv4.api import ApiError
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
        """Keeps a response with the items that it answers, unless the request forbids it."""
        if not self._stores(body):
            return
        assert self._store is not None
        value = StoredResponse(_items(body.get("input")), response)
        names = [response["id"], *(item["id"] for item in response["output"] if item.get("id"))]
        # A client may have sent half of a character.
        data = json.dumps(value._asdict(), ensure_ascii=False).encode("utf-8", "surrogatepass")
        await self._store.put(owner, names, data)

    def _stores(self, body: JsonObject) -> bool:
        return self._store is not None and body.get("store") is not False

    def echo(self, body: JsonObject) -> JsonObject:
        """The fields about storage in the response to a request."""
        previous = body.get("previous_response_id")
        previous = clean(previous) if isinstance(previous, str) else None
        return {"previous_response_id": previous, "store": self._stores(body)}

    async def find(self, owner: str, id: str) -> StoredResponse | None:
        """The response stored under its own id, or under the id of one of its items."""
        value = read_object(None if self._store is None else await self._store.get(owner, id)) or {}
        return StoredResponse(value["input"], value["response"]) if "response" in value else None

    async def forget(self, owner: str, id: str) -> None:
        """Forgets a response."""
        if self._store is not None:
            await self._store.delete(owner, id)

    async def continued(self, owner: str, body: JsonObject) -> JsonObject:
        """The body with everything that it refers to inserted."""
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
