"""The routes of Responses that generate nothing: stored responses, whole or as the events that
they were, what they answer, token counts; and clear words where something is not served.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.routing import BaseRoute

from dsv4.api import ApiError, responses
from dsv4.api.errors import wrong
from dsv4.api.request_fields import JsonObject
from dsv4.serve.access.api_keys import Key
from dsv4.serve.asgi import Scope, query_of
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.plain_routes import PlainRoutes, RouteBody, RouteFunction, json_route, worker_route
from dsv4.serve.storage.stored_conversations import StoredResponse

_MOST_ITEMS = 100
# What a response can have ended as.
_ENDS = ("completed", "incomplete", "failed")
# What the events of a call are called, and the field that they write.
_WRITTEN = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}


class ResponseRoutes:
    """The functions of the routes."""

    def __init__(self, server: GatewayState) -> None:
        self._server = server

    async def _stored_response(self, scope: Scope, key: Key) -> StoredResponse:
        """The stored response that a path names."""
        id = scope["path_params"]["id"]
        entry = await self._server.storage.responses.find(key.name, id)
        if entry is None or entry.response["id"] != id:
            expected = "the id of a response that is stored here"
            raise ApiError(f"found {id!r}, expected {expected}", status=404)
        return entry

    async def response(self, scope: Scope, key: Key, data: bytes) -> JsonObject | RouteBody:
        """A stored response: whole, or with `stream=true` as the events that it was."""
        response, query = (await self._stored_response(scope, key)).response, query_of(scope)
        if scope["method"] == "DELETE":
            await self._server.storage.responses.forget(key.name, response["id"])
            return {"id": response["id"], "object": "response", "deleted": True}
        if scope["method"] != "GET" or query.get("stream") != "true":
            return response
        after = query.get("starting_after", "")
        first = int(after) + 1 if after.isdecimal() else 0
        events = [event for event in _events(response) if event["sequence_number"] >= first]
        return responses.frames(events), "text/event-stream; charset=utf-8"

    async def input_items(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        """What a response answers, a page at a time."""
        entry = await self._stored_response(scope, key)
        query = query_of(scope)
        items = [_as_item(item, n, entry) for n, item in enumerate(entry.input)]
        if query.get("order", "desc") != "asc":
            items.reverse()
        after = [n for n, item in enumerate(items) if item["id"] == query.get("after")]
        items = items[after[0] + 1 :] if after else items
        limit = query.get("limit", "20")
        if not limit.isdecimal() or not 1 <= int(limit) <= _MOST_ITEMS:
            raise wrong(limit, f"a number from 1 to {_MOST_ITEMS}", "limit")
        page = items[: int(limit)]
        ids = [item["id"] for item in page] or [None]
        ends = {"first_id": ids[0], "last_id": ids[-1]}
        return {"object": "list", "data": page, "has_more": len(page) < len(items), **ends}

    async def cancel(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        await self._stored_response(scope, key)
        raise ApiError("Only a response with `background` can be cancelled, and this one is over.")

    async def compact(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        message = "Responses are not compacted here: ask the model for a summary instead."
        raise ApiError(message, code="unsupported")

    async def conversations(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        message = "Conversations are not stored here: use `previous_response_id`."
        raise ApiError(message, status=404, code="unsupported")


def _as_item(item: Any, n: int, entry: StoredResponse) -> JsonObject:
    """An item of a request as the API lists it: with an id and its content in parts."""
    fields = item if isinstance(item, dict) else {}
    id = fields.get("id") or f"{entry.response['id'].replace('resp_', 'msg_')}_{n}"
    if fields.get("type", "message") != "message":
        return {**fields, "id": id, "status": fields.get("status") or "completed"}
    content, role = fields.get("content"), fields.get("role", "user")
    kind = "output_text" if role == "assistant" else "input_text"
    if not isinstance(content, list):
        content = [_text_part(kind, str(content or ""))]
    common = {"id": id, "type": "message", "role": role, "status": "completed"}
    return {**fields, **common, "content": content}


def _text_part(kind: str, text: str) -> JsonObject:
    more: JsonObject = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, "text": text, **more}


# A stored response as events.


def _events(response: JsonObject) -> Iterator[JsonObject]:
    """The events of a response that is over, each text in one piece."""
    start = {**response, "status": "in_progress", "output": [], "usage": None}
    start["incomplete_details"] = start["error"] = None
    events: list[JsonObject] = [
        {"type": "response.created", "response": start},
        {"type": "response.in_progress", "response": start},
    ]
    for n, item in enumerate(response["output"]):
        events += _item_events(item, n)
    end = response["status"] if response.get("status") in _ENDS else "completed"
    events.append({"type": f"response.{end}", "response": response})
    for n, event in enumerate(events):
        yield {**event, "sequence_number": n}


def _item_events(item: JsonObject, n: int) -> Iterator[JsonObject]:
    place = {"item_id": item["id"], "output_index": n}
    empty: JsonObject = {"content": [], "arguments": "", "input": ""}
    parts = {name: value for name, value in empty.items() if name in item}
    start = {**item, **parts, "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": n, "item": start}
    for index, part in enumerate(item.get("content") or ()):
        yield from _part_events(part, {**place, "content_index": index})
    if item["type"] in _WRITTEN:
        event, field = _WRITTEN[item["type"]]
        more = {"name": item["name"]} if field == "arguments" else {}
        yield {"type": f"response.{event}.delta", **place, "delta": item[field]}
        yield {"type": f"response.{event}.done", **place, **more, field: item[field]}
    yield {"type": "response.output_item.done", "output_index": n, "item": item}


def _part_events(part: JsonObject, place: JsonObject) -> Iterator[JsonObject]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    if (kind := part.get("type")) in ("output_text", "reasoning_text"):
        more: JsonObject = {"logprobs": []} if kind == "output_text" else {}
        yield {"type": f"response.{kind}.delta", **place, "delta": part["text"], **more}
        yield {"type": f"response.{kind}.done", **place, "text": part["text"], **more}
    yield {"type": "response.content_part.done", **place, "part": part}


def response_routes(server: GatewayState, plain: PlainRoutes, prefix: str) -> list[BaseRoute]:
    """The routes, under a prefix. Those with fixed names come first."""
    own = ResponseRoutes(server)
    counting = f"{prefix}/responses/input_tokens"
    table: list[tuple[str, str, RouteFunction]] = [
        ("responses/compact", "POST", own.compact),
        ("responses/{id}", "GET DELETE", own.response),
        ("responses/{id}/input_items", "GET", own.input_items),
        ("responses/{id}/cancel", "POST", own.cancel),
        ("conversations", "GET POST DELETE", own.conversations),
        ("conversations/{rest:path}", "GET POST DELETE", own.conversations),
    ]
    return [
        worker_route(server, counting, plain.count_input_tokens, protocol="responses"),
        *(
            json_route(server, f"{prefix}/{path}", methods, handle, protocol="responses")
            for path, methods, handle in table
        ),
    ]
