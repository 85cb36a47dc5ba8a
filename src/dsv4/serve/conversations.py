"""Responses that are stored: read again by their ids, and continued by `previous_response_id`."""

from __future__ import annotations

import json
from typing import Any

from dsv4.api import ApiError
from dsv4.api.bodies import clean
from dsv4.serve.replay.store import Store


class Conversations:
    """The stored responses of all owners."""

    def __init__(self, store: Store | None) -> None:
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
