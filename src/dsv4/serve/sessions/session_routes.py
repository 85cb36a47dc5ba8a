"""The routes for training: sessions are created, rewarded, closed, read and deleted.

POST   /sessions                     makes a session, and says how clients reach it
GET    /sessions?group=…&closed=1    lists sessions, by pages
GET    /sessions/{id}                what is known of one
POST   /sessions/{id}/reward         says what it, or one of its calls, is worth
POST   /sessions/{id}/close          ends it: no more calls are taken
GET    /sessions/{id}/trajectories   what its calls come to
GET    /sessions/{id}/images/{name}  the bytes of a picture in it, as base64
DELETE /sessions/{id}                deletes it
POST   /admin/weights                says which weights the engine has from now on

Where there are keys these need one that is marked `admin` in the file of keys.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import BaseRoute

from dsv4.api import ApiError, request_fields
from dsv4.api.errors import wrong
from dsv4.api.request_fields import JsonObject, is_number
from dsv4.errors import mismatch
from dsv4.serve.access.api_keys import ANONYMOUS, Key
from dsv4.serve.asgi import Scope, headers_of, query_of
from dsv4.serve.body_limits import read_json
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.plain_routes import RouteBody, RouteFunction, json_route
from dsv4.serve.sessions import SessionStore
from dsv4.serve.sessions.session_calls import checked_session_id, session_error
from dsv4.serve.storage.turn_stores import StoreFailure
from dsv4.trajectories.recorded_calls import RecordedCall
from dsv4.trajectories.session_file import SessionRecord, SessionRefused, new_session_id
from dsv4.trajectories.trajectory_export import built_session

PAGE = 100
MOST_PER_PAGE = 1000
# Names of groups and versions are for people, and stored in every row.
LONGEST_NAME = 256


def session_routes(server: GatewayState) -> list[BaseRoute]:
    """The routes, where sessions are recorded."""
    if server.sessions.store is None:
        return []
    routes = SessionRoutes(server, server.sessions.store)
    one = "/sessions/{session}"
    return [
        *(routes.route("/sessions", "POST", routes.create),),
        *(routes.route("/sessions", "GET", routes.list),),
        *(routes.route(one, "GET", routes.get), routes.route(one, "DELETE", routes.delete)),
        *(routes.route(f"{one}/reward", "POST", routes.reward),),
        *(routes.route(f"{one}/close", "POST", routes.close),),
        *(routes.route(f"{one}/trajectories", "GET", routes.trajectories),),
        *(routes.route(f"{one}/images/{{name}}", "GET", routes.image),),
        *(routes.route("/admin/weights", "POST", routes.weights),),
    ]


class SessionRoutes:
    """The functions of the routes."""

    def __init__(self, server: GatewayState, store: SessionStore) -> None:
        self._server = server
        self._store = store

    def route(self, path: str, method: str, handle: RouteFunction) -> BaseRoute:
        async def guarded(scope: Scope, key: Key, data: bytes) -> JsonObject | RouteBody:
            self._server.access.check_admin(key)
            try:
                return await handle(scope, key, data)
            except SessionRefused as refusal:
                raise session_error(refusal) from None
            except StoreFailure as failure:
                message = f"The store of sessions does not answer: {failure}"
                raise ApiError(message, status=503) from None

        return json_route(self._server, path, method, guarded)

    async def create(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        record = await self._store.create(self._new_record(_body(data, *_FIELDS), key))
        return {**record.to_json(), "urls": session_urls(scope, record.id)}

    def _new_record(self, body: JsonObject, key: Key) -> SessionRecord:
        id = body.get("id")
        values = {name: body[name] for name in _OPTIONS if body.get(name) is not None}
        options = {name: _OPTIONS[name](value, name) for name, value in values.items()}
        if options.get("routed_experts") and not self._server.settings.routed_experts:
            problem = "found it, expected none: this server was started without"
            raise ApiError(f"{problem} `--routed-experts`", path="routed_experts")
        return SessionRecord(
            id=new_session_id() if id is None else checked_session_id(id, "id"),
            owner=self._owner(body.get("owner"), key),
            group=_name(body.get("group"), "group"),
            metadata=body.get("metadata"),
            options=options,
        )

    def _owner(self, owner: object, key: Key) -> str:
        if owner is None:
            return key.name
        if not self._server.access.keys.asks:
            raise wrong(owner, "none: no keys are asked for here", "owner")
        if not isinstance(owner, str) or owner == ANONYMOUS:
            raise wrong(owner, "the name of a key", "owner")
        return owner

    async def list(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        query = query_of(scope)
        states = {None: None, "1": True, "true": True, "0": False, "false": False}
        if query.get("closed") not in states:
            raise wrong(query["closed"], "1 or 0", "closed")
        limit = _whole(query.get("limit", str(PAGE)), "limit", MOST_PER_PAGE)
        after = _whole(query.get("after", "0"), "after", 2**62)
        group, is_closed = query.get("group"), states[query.get("closed")]
        records = await self._store.sessions(
            group=group, closed=is_closed, after=after, limit=limit
        )
        following = records[-1].number if len(records) == limit else None
        return {"data": [record.to_json() for record in records], "next": following}

    async def get(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        record = await self._existing_record(scope)
        return {**record.to_json(), "urls": session_urls(scope, record.id)}

    async def reward(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        body = _body(data, "reward", "call", "metadata")
        reward, call = _number(body.get("reward"), "reward"), body.get("call")
        id = (await self._existing_record(scope)).id
        if call is not None and call not in {each.id for each in await self._store.calls(id)}:
            raise ApiError(f"found {call!r}, expected the id of a call", path="call", status=404)

        def change(record: SessionRecord) -> dict[str, Any]:
            if call is not None:
                return {"rewards": {**record.rewards, call: reward}}
            return {"reward": reward, "reward_metadata": body.get("metadata")}

        await self._store.update(id, change)
        return {"id": id, "reward": reward}

    async def close(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        return (await self._store.close_session((await self._existing_record(scope)).id)).to_json()

    async def delete(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        id = (await self._existing_record(scope)).id
        return {"id": id, "deleted": await self._store.delete(id)}

    async def trajectories(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        query = query_of(scope)
        record, calls = await self._existing_session(scope)
        return await asyncio.to_thread(
            built_session,
            record,
            calls,
            shared=query.get("shared", "once"),  # type: ignore[arg-type]
            include=[name for name in query.get("include", "").split(",") if name],
            tokenizer=self._server.tokenizer,
        )

    async def image(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        name = scope["path_params"]["name"]
        picture = await self._store.picture((await self._existing_record(scope)).id, name)
        if picture is None:
            problem = mismatch(name, "the name of a picture in this session")
            raise ApiError(f"{problem} whose bytes were sent", path="name", status=404)
        return {"name": name, "data": base64.b64encode(picture).decode()}

    async def weights(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        version = _body(data, "version").get("version")
        is_text = isinstance(version, str) and 0 < len(version) <= LONGEST_NAME
        if not is_text and not is_number(version):
            raise wrong(version, "a text or a number", "version")
        await self._store.set_weights(version)
        return {"version": version}

    async def _existing_record(self, scope: Scope) -> SessionRecord:
        id = checked_session_id(scope["path_params"]["session"])
        record = await self._store.session(id)
        if record is None:
            raise SessionRefused("unknown")
        return record

    async def _existing_session(self, scope: Scope) -> tuple[SessionRecord, Sequence[RecordedCall]]:
        """A session and the calls that its seal is for. They are read again if a call that ran when
        the session was closed has ended in between."""
        record = await self._existing_record(scope)
        while True:
            calls = await self._store.calls(record.id)
            again = await self._existing_record(scope)
            if again.seal == record.seal:
                return record, calls
            record = again


def session_urls(scope: Scope, id: str) -> dict[str, str]:
    """The base URLs of a session, for clients."""
    host = headers_of(scope).get("host", "localhost")
    base = f"{scope.get('scheme', 'http')}://{host}/sessions/{id}"
    return {"openai": f"{base}/v1", "anthropic": base}


# Fields of the bodies.


def _body(data: bytes, *names: str) -> JsonObject:
    """A body with no other fields than these."""
    body = read_json(data or b"{}")
    _check_names(body, names, None)
    return body


def _name(value: object, path: str) -> str | None:
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= LONGEST_NAME):
        raise wrong(value, f"a text of 1 to {LONGEST_NAME} characters", path)
    return value


def _number(value: object, path: str) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise wrong(value, "a number", path)
    return float(value)


def _whole(text: str, path: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > most:
        raise wrong(text, f"a whole number up to {most}", path)
    return int(text)


Check = Callable[[object, str], Any]
_POSITIVE = request_fields.whole_number(1)


_SAMPLING: dict[str, Check] = {
    "temperature": request_fields.number(0, 2),
    "top_p": request_fields.number(0, 1),
    "max_tokens": _POSITIVE,
    "seed": request_fields.whole_number(0),
}
_LIMITS: dict[str, Check] = {"turns": _POSITIVE, "tokens": _POSITIVE}


def _members(checks: dict[str, Check]) -> Check:
    def check(value: object, path: str) -> dict[str, Any]:
        members = request_fields.json_object(value, path)
        _check_names(members, tuple(checks), path)
        return {
            name: checks[name](member, f"{path}.{name}")
            for name, member in members.items()
            if member is not None
        }

    return check


def _experts(value: object, path: str) -> bool | int:
    """Whether experts are recorded; or how many a token takes, for engines that do not report
    it."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, int) or value < 1:
        raise wrong(value, "true, false, or how many experts a token takes", path)
    return value


_OPTIONS: dict[str, Check] = {
    "sampling": _members(_SAMPLING),
    "limits": _members(_LIMITS),
    "drop_thinking": request_fields.boolean,
    "routed_experts": _experts,
}
_FIELDS = ("id", "group", "metadata", "owner", *_OPTIONS)


def _check_names(body: JsonObject, names: tuple[str, ...], path: str | None) -> None:
    for name in body:
        if name not in names:
            place = name if path is None else f"{path}.{name}"
            raise ApiError(f"found it, expected one of {', '.join(names)}", path=place)
