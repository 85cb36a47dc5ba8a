"""The routes that generate nothing: models, token counts, health, and prompts and completions
to look at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from types import ModuleType
from typing import Any, TypeAlias

from dsv4._encode.prompt import Prompt
from dsv4._parse.events import Event
from dsv4._parse.parse import assemble
from dsv4._parse.parser import StreamParser
from dsv4.api import ApiError, request_fields
from dsv4.errors import ParseError
from dsv4.serve.access import Key
from dsv4.serve.asgi import (
    ClientGone,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_bytes,
    send_json,
)
from dsv4.serve.backend import BackendError
from dsv4.serve.completion_route import PROTOCOLS, encode_prompt, read_json
from dsv4.serve.completion_run import as_answerable
from dsv4.serve.observe.metrics import CONTENT_TYPE
from dsv4.serve.server import GatewayState
from dsv4.tokens import IdParser

RouteFunction: TypeAlias = Callable[[Scope, Key, bytes], Awaitable[Any]]


def protocol_module(headers: Mapping[str, str], otherwise: str = "chat") -> ModuleType:
    """The protocol of a client, on a path that several have: Anthropic's clients send a version."""
    return PROTOCOLS["messages" if "anthropic-version" in headers else otherwise]


class JsonRoute:
    """A route that answers with JSON what a function returns."""

    def __init__(
        self,
        server: GatewayState,
        handle: RouteFunction,
        *,
        protocol: str = "chat",
        is_open: bool = False,
    ) -> None:
        """`is_open` routes ask for no key; errors have the form of `protocol`, unless the client
        shows that it speaks another."""
        self._server = server
        self._handle = handle
        self._protocol = protocol
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        try:
            key = self._server.keys.owner(headers)
            if key is None and not self._is_open:
                raise ApiError("The API key is missing or not known here.", status=401)
            data = await read_body(scope, receive, self._server.settings)
            body = await self._handle(scope, key or Key("-", b""), data)
        except ClientGone:
            return
        except Exception as error:
            status, shown = protocol_module(headers, self._protocol).error(as_answerable(error))
            await send_json(send, status, shown)
            if not isinstance(error, ValueError):
                raise
            return
        if isinstance(body, bytes):
            await send_bytes(send, 200, body, CONTENT_TYPE)
        elif scope["method"] == "HEAD":
            await send_bytes(send, 200, b"", "application/json")
        else:
            await send_json(send, 200, body)


class PlainRoutes:
    """What those routes do."""

    def __init__(self, server: GatewayState) -> None:
        self._server = server

    async def hello(self, scope: Scope, key: Key, data: bytes) -> Any:
        return {"name": "dsv4", "model": self._server.model.name}

    async def health(self, scope: Scope, key: Key, data: bytes) -> Any:
        return {"status": "ok"}

    async def ready(self, scope: Scope, key: Key, data: bytes) -> Any:
        if not await self._server.is_ready():
            raise ApiError("The backend does not answer.", status=503)
        return {"status": "ready"}

    async def metrics(self, scope: Scope, key: Key, data: bytes) -> Any:
        return self._server.metrics.text()

    async def models(self, scope: Scope, key: Key, data: bytes) -> Any:
        """One body that the SDKs of both vendors read."""
        with suppress(BackendError):
            await self._server.meet_backend()
        model = self._model(self._server.model.name)
        ends = {"first_id": model["id"], "last_id": model["id"]}
        return {"object": "list", "data": [model], "has_more": False, **ends}

    async def model(self, scope: Scope, key: Key, data: bytes) -> Any:
        name = scope["path_params"]["model"]
        if self._server.settings.strict_models and name != self._server.model.name:
            raise ApiError(f"found {name!r}, expected {self._server.model.name!r}", status=404)
        return self._model(name)

    def _model(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "dsv4",
            "type": "model",
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
            "max_model_len": self._server.context,
        }

    async def count_tokens(self, scope: Scope, key: Key, data: bytes) -> Any:
        prompt, ids = await self._encoded("messages", data)
        # Without a vocabulary: about four characters make a token.
        return {"input_tokens": len(prompt.text) // 4 if ids is None else len(ids)}

    async def response(self, scope: Scope, key: Key, data: bytes) -> Any:
        id, conversations = scope["path_params"]["id"], self._server.conversations
        kept = await conversations.found(key.name, id)
        if kept is None or kept["response"]["id"] != id:
            raise ApiError(
                f"found {id!r}, expected the id of a response that is stored here", status=404
            )
        if scope["method"] == "DELETE":
            await conversations.forget(key.name, id)
            return {"id": id, "object": "response", "deleted": True}
        return kept["response"]

    # A look inside.

    async def tokenize(self, scope: Scope, key: Key, data: bytes) -> Any:
        """The ids of a text, or of a request's prompt."""
        body = read_json(data, self._server.settings.max_depth)
        tokenizer = self._server.tokenizer
        if tokenizer is None:
            raise ApiError("Ids need the extra `tokens`, which is not installed.", status=501)
        if isinstance(body.get("text"), str):
            ids = tokenizer.encode_text(body["text"])
        else:
            ids = (await self._encoded(_protocol_of(body), data))[1] or []
        return {"ids": ids, "count": len(ids)}

    async def render(self, scope: Scope, key: Key, data: bytes) -> Any:
        """A request of any protocol as the prompt that it becomes, with the origin of each part."""
        body = read_json(data, self._server.settings.max_depth)
        prompt, ids = await self._encoded(_protocol_of(body), data)
        spans = []
        at = 0
        for piece in prompt.pieces:
            spans.append({"start": at, "end": at + len(piece.text), **_piece_fields(piece)})
            at += len(piece.text)
        return {"prompt": prompt.text, "ids": ids, "spans": spans}

    async def parse(self, scope: Scope, key: Key, data: bytes) -> Any:
        """A completion, as text or ids, as the message that it is read as."""
        body = read_json(data, self._server.settings.max_depth)
        parser = StreamParser(
            thinking=body.get("thinking", True),
            tools=body.get("tools"),
            dialect=body.get("dialect", self._server.dialect),
            strict=body.get("strict", False),
        )
        try:
            events = self._events(parser, body)
        except ParseError as error:  # a strict reader was asked for
            raise ApiError(str(error), path="ids" if "ids" in body else "text") from None
        message = assemble(events)
        return {
            "message": message.to_dict(),
            "finish": message.finish,
            "events": [{"type": type(event).__name__, **asdict(event)} for event in events],
            "diagnostics": [asdict(diagnostic) for diagnostic in message.diagnostics],
        }

    def _events(self, parser: StreamParser, body: dict[str, Any]) -> list[Event]:
        if isinstance(body.get("ids"), list):
            if self._server.tokenizer is None:
                raise ApiError("Ids need the extra `tokens`, which is not installed.", status=501)
            for n, id in enumerate(body["ids"]):
                request_fields.whole_number(0)(id, f"ids[{n}]")
            by_ids = IdParser(self._server.tokenizer, parser)
            return [*by_ids.feed_ids(body["ids"]), *by_ids.finish()]
        if not isinstance(body.get("text"), str):
            raise ApiError("found neither text nor ids, expected one of them", path="text")
        return [*parser.feed(body["text"]), *parser.finish()]

    async def _encoded(self, protocol: str, data: bytes) -> tuple[Prompt, list[int] | None]:
        """The prompt of a request, and its ids. Streams go on while a long one is made."""
        server = self._server
        body = read_json(data, server.settings.max_depth)
        with suppress(BackendError):
            await server.meet_backend()
        read = PROTOCOLS[protocol].read
        call = read(body, dialect=server.dialect, settings=server.api_settings)
        return await encode_prompt(call, server, len(data))


def _piece_fields(piece: Any) -> dict[str, Any]:
    names = ("special", "origin", "message", "field")
    return {name: getattr(piece, name) for name in names}


def _protocol_of(body: dict[str, Any]) -> str:
    """Which protocol a body speaks: by what only that one has."""
    if "input" in body or "instructions" in body:
        return "responses"
    tools = body.get("tools") or [{}]
    first = tools[0] if isinstance(tools, list) and tools else {}
    is_messages = "system" in body or (isinstance(first, dict) and "input_schema" in first)
    return "messages" if is_messages else "chat"
