"""The routes that generate nothing: models, stored responses, token counts, health, and prompts and
completions to look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

from starlette.routing import Route

from dsv4._completion.events import Event
from dsv4._completion.message import assemble
from dsv4._parse.parser import StreamParser
from dsv4.api import ApiError, request_fields
from dsv4.api.api_request import ProtocolName
from dsv4.api.body_reader import recognise
from dsv4.api.protocols import protocol_of_client
from dsv4.api.request_fields import JsonObject
from dsv4.errors import ParseError
from dsv4.serve import asgi
from dsv4.serve.access.api_keys import ANONYMOUS, Key
from dsv4.serve.backend import BackendError
from dsv4.serve.body_limits import check_counts, read_json
from dsv4.serve.choice_reader import joined_events
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.observe.metrics import CONTENT_TYPE
from dsv4.serve.prepared_request import EncodedPrompt
from dsv4.serve.prompt_encoding import encoded_now
from dsv4.serve.reported_route import ReportedRoute, unknown_model
from dsv4.serve.worker_threads import Cancellation
from dsv4.tokens import IdParser

# The body of a response, and its type.
RouteBody: TypeAlias = tuple[bytes, str]
RouteFunction: TypeAlias = Callable[[asgi.Scope, Key, bytes], Awaitable[JsonObject | RouteBody]]
WorkerFunction: TypeAlias = Callable[[bytes, Cancellation], JsonObject]
T = TypeVar("T", str, list[int])

JSON = "application/json"
# Characters or ids that are parsed between two checks that the client is still connected.
_PIECE = 1024
# Fields of a part of a prompt that clients get.
_SPAN_FIELDS = ("special", "origin", "message", "field")


class PlainRoute(ReportedRoute):
    """A route that answers with a whole body. It generates nothing, so it is only logged."""

    def __init__(
        self,
        server: GatewayState,
        make_body: Callable[[asgi.Scope, asgi.Receive, Key, bytes], Awaitable[RouteBody]],
        *,
        protocol: ProtocolName = "chat",
        is_open: bool = False,
    ) -> None:
        """`is_open` routes ask for no key; errors have the form of `protocol`, unless the client
        shows that it speaks another."""
        super().__init__(server, protocol)
        self._make_body = make_body
        self._protocol: ProtocolName = protocol
        self._is_open = is_open

    async def _answer(
        self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send, report: RequestReport
    ) -> int:
        if not self._is_open:
            report.key = await self._server.access.authenticated(scope)
        data = await asgi.read_body(scope, receive, self._server.settings)
        key = report.key or Key(ANONYMOUS, b"")
        body, kind = await self._make_body(scope, receive, key, data)
        body = b"" if scope["method"] == "HEAD" else body
        await asgi.send_bytes(send, 200, body, kind, {"x-request-id": report.id})
        return 200

    def _error_body(self, scope: asgi.Scope, error: ApiError) -> tuple[int, JsonObject]:
        return protocol_of_client(asgi.headers_of(scope), self._protocol).error(error)

    def _traced(self, scope: asgi.Scope, report: RequestReport) -> AbstractContextManager[None]:
        return nullcontext()

    async def _note_end(self, report: RequestReport) -> None:
        if not self._is_open:
            report.log()


def json_route(
    server: GatewayState, path: str, methods: str, handle: RouteFunction, **options: Any
) -> Route:
    """A route that answers with the result of a function, with the options of a `PlainRoute`."""

    async def make_body(
        scope: asgi.Scope, receive: asgi.Receive, key: Key, data: bytes
    ) -> RouteBody:
        body = await handle(scope, key, data)
        return body if isinstance(body, tuple) else (asgi.json_bytes(body), JSON)

    endpoint = PlainRoute(server, make_body, **options)
    return Route(path, endpoint=endpoint, methods=methods.split())


def worker_route(server: GatewayState, path: str, work: WorkerFunction, **options: Any) -> Route:
    """A route whose function takes long: it runs in a thread, within the limits."""

    async def make_body(
        scope: asgi.Scope, receive: asgi.Receive, key: Key, data: bytes
    ) -> RouteBody:
        with suppress(BackendError):
            await server.behind.meet()
        return await server.workers.run(lambda c: asgi.json_bytes(work(data, c)), receive), JSON

    return Route(path, endpoint=PlainRoute(server, make_body, **options), methods=["POST"])


class PlainRoutes:
    """The functions of the routes."""

    def __init__(self, server: GatewayState) -> None:
        self._server = server

    async def hello(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        return {"name": "dsv4", "model": self._server.model.name}

    async def health(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        return {"status": "ok"}

    async def ready(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        server = self._server
        if not await server.behind.is_ready():
            raise ApiError("The backend does not answer.", status=503)
        with suppress(BackendError):
            await server.behind.meet()
        if server.model.guesses_dialect:
            raise ApiError(
                f"The server cannot make prompts: {server.model.dialect_problem}.", status=503
            )
        failures = {"replay": server.storage.failure, "limits": server.access.meter.table.failure}
        away = {name: f"unavailable: {why}" for name, why in failures.items() if why is not None}
        stores = {"stores": away} if away else {}
        behind = {"chat_server": server.healer.to_dict()} if server.heals else {}
        facts = asdict(server.model.facts)
        images = {} if server.heals else {"images": await self._image_facts()}
        details = {**facts, **images, **behind, **stores}
        return {"status": "ready", "model": server.model.name, **details}

    async def _image_facts(self) -> JsonObject:
        """Whether the engines are sent images. Engines that were restarted are asked again."""
        await self._server.behind.check_images()
        support = self._server.behind.image_support
        if support.reads:
            return {"sent": True, "urls": self._server.settings.image_urls}
        return {"sent": False, "why": support.why}

    async def metrics(self, scope: asgi.Scope, key: Key, data: bytes) -> RouteBody:
        access = self._server.access
        of_all_keys = key.admin or not access.keys.asks
        return self._server.metrics.text(of_all_keys), CONTENT_TYPE

    async def models(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        """The models, in one body that the SDKs of both vendors can read."""
        names = await self._model_names(key)
        ends = {"first_id": names[0], "last_id": names[-1]}
        models = [self._model(name) for name in names]
        return {"object": "list", "data": models, "has_more": False, **ends}

    async def model(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        """One of those models. Requests may name any other model too, unless `strict_models` is
        set; but this route must not show models that do not exist."""
        name, names = scope["path_params"]["model"], await self._model_names(key)
        if name not in names:
            raise unknown_model(name, names)
        return self._model(name)

    async def _model_names(self, key: Key) -> tuple[str, ...]:
        with suppress(BackendError):
            await self._server.behind.meet()
        return key.limits.models or self._server.model.names

    def _model(self, name: str) -> JsonObject:
        return {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "dsv4" if self._server.settings.stand_in is None else "deepseek",
            "type": "model",
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
            "max_model_len": self._server.model.context,
        }

    async def response(self, scope: asgi.Scope, key: Key, data: bytes) -> JsonObject:
        """A stored response, or the confirmation that it was deleted."""
        id, responses = scope["path_params"]["id"], self._server.storage.responses
        entry = await responses.find(key.name, id)
        if entry is None or entry.response["id"] != id:
            expected = "the id of a response that is stored here"
            raise ApiError(f"found {id!r}, expected {expected}", status=404)
        if scope["method"] != "DELETE":
            return entry.response
        await responses.forget(key.name, id)
        return {"id": id, "object": "response", "deleted": True}

    # In threads.

    def count_tokens(self, data: bytes, cancellation: Cancellation) -> JsonObject:
        return {"input_tokens": self._length(self._body(data), "messages")}

    def count_input_tokens(self, data: bytes, cancellation: Cancellation) -> JsonObject:
        count = self._length(self._body(data), "responses")
        return {"object": "response.input_tokens", "input_tokens": count}

    def _length(self, body: JsonObject, protocol: ProtocolName) -> int:
        """The number of tokens in the prompt of a request, as its server writes it if that is
        known."""
        server = self._server
        length = self._encoded(body, protocol).tokens
        if not server.heals:
            return length
        theirs = server.healer.prompt_length(body, protocol, server.tokenizer)
        return length if theirs is None else theirs

    def tokenize(self, data: bytes, cancellation: Cancellation) -> JsonObject:
        """The ids of a text, or of a request's prompt."""
        body = self._body(data)
        tokenizer = self._server.needed_tokenizer
        if isinstance(body.get("text"), str):
            ids = tokenizer.encode_text(body["text"])
        else:
            ids = self._encoded(body, recognise(body).protocol).ids or []
        return {"ids": ids, "count": len(ids)}

    def render(self, data: bytes, cancellation: Cancellation) -> JsonObject:
        """The prompt of a request of any protocol, with the origin of each part."""
        body = self._body(data)
        prompt, ids, *_ = self._encoded(body, recognise(body).protocol)
        spans = []
        at = 0
        for piece in cancellation.checked(prompt.pieces):
            fields = {name: getattr(piece, name) for name in _SPAN_FIELDS}
            spans.append({"start": at, "end": at + len(piece.text), **fields})
            at += len(piece.text)
        return {"prompt": prompt.text, "ids": ids, "spans": spans}

    def parse(self, data: bytes, cancellation: Cancellation) -> JsonObject:
        """The message in a completion, which is given as text or ids."""
        body = self._body(data)
        parser = StreamParser(
            thinking=body.get("thinking", True),
            tools=body.get("tools"),
            dialect=body.get("dialect", self._server.model.dialect),
            strict=body.get("strict", False),
        )
        try:
            events = joined_events(self._events(parser, body, cancellation))
        except ParseError as error:  # in strict mode
            raise ApiError(str(error), path="ids" if "ids" in body else "text") from None
        message = assemble(events)
        return {
            "message": message.to_dict(),
            "finish": message.finish,
            "events": [{"type": type(event).__name__, **asdict(event)} for event in events],
            "diagnostics": [asdict(diagnostic) for diagnostic in message.diagnostics],
        }

    def _events(
        self, parser: StreamParser, body: JsonObject, cancellation: Cancellation
    ) -> Iterator[Event]:
        """The events of a completion. It is read in pieces, which does not change them."""
        if isinstance(body.get("ids"), list):
            tokenizer = self._server.needed_tokenizer
            for n, id in enumerate(body["ids"]):
                request_fields.whole_number(0)(id, f"ids[{n}]")
            by_ids = IdParser(tokenizer, parser)
            for ids in cancellation.checked(_pieces(body["ids"])):
                yield from by_ids.feed_ids(ids)
            yield from by_ids.finish()
            return
        if not isinstance(body.get("text"), str):
            raise ApiError("found neither text nor ids, expected one of them", path="text")
        for text in cancellation.checked(_pieces(body["text"])):
            yield from parser.feed(text)
        yield from parser.finish()

    def _body(self, data: bytes) -> JsonObject:
        body = read_json(data)
        check_counts(body)
        return body

    def _encoded(self, body: JsonObject, protocol: ProtocolName) -> EncodedPrompt:
        """The prompt of a request, and its ids."""
        server = self._server
        call = server.model.read(body, protocol)
        if call.images and not server.heals:  # this thread has no loop of its own
            call = asyncio.run(server.images.settled(call, server.behind.image_support))
        return encoded_now(call, body, server)


def _pieces(whole: T) -> Iterator[T]:
    """A text, or a list of ids, in pieces that each take little time to read."""
    return (whole[n : n + _PIECE] for n in range(0, len(whole), _PIECE))
