"""The ASGI app: every route, and the middleware around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from dsv4.api import ApiError
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import protocol_of_client
from dsv4.serve.access.site_guard import SiteGuard
from dsv4.serve.admin_routes import admin_routes
from dsv4.serve.asgi import AsgiApp, DoorApp, GatewayApp
from dsv4.serve.backend import AnyBackend, BackendError, PassingBackend
from dsv4.serve.backends import engines_of
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.heal.healing_route import HealingRoute
from dsv4.serve.heal.passed_routes import PassedRoute
from dsv4.serve.observe.logs import RefusalLog
from dsv4.serve.official_route import BETA_PREFIX, OfficialRoute
from dsv4.serve.plain_routes import PlainRoutes, json_route, worker_route
from dsv4.serve.playground_routes import FrontDoor, page_routes
from dsv4.serve.prompt_route import PromptRoute
from dsv4.serve.sessions.session_routes import session_routes
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.engine_pool import Engine
from dsv4.serve.workers.reload import catch_up
from dsv4.tokens import Tokenizer
from dsv4.tokens.vocabulary import TokensNotInstalled

# Clients put one of these before their paths; some put none.
PREFIXES = ("", "/v1", "/anthropic", "/anthropic/v1")
SESSION_PREFIXES = tuple(f"/sessions/{{session}}{prefix}" for prefix in PREFIXES)


def build_app(settings: Settings | None, backend: AnyBackend | None) -> Starlette:
    """Builds the app that `dsv4.serve.app` returns."""
    settings = settings or Settings()
    tokenizer = load_tokenizer(settings)
    engines = engines_of(settings, tokenizer) if backend is None else [Engine("program", backend)]
    server = GatewayState(settings, engines, tokenizer)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, GatewayState]]:
        if tokenizer is not None:
            await asyncio.to_thread(_make_ready, tokenizer)
        # The backend may start later: `/ready` says whether it is there.
        with suppress(BackendError):
            await server.behind.meet()
        catch_up(server)
        storage = server.storage.look_after(partial(server.metrics.set, "store_bytes"))
        limits = server.access.meter.table.look_after()
        probes = (server.behind.look_after(), server.engines.watch_loads())
        looked_after = (*probes, storage, limits, server.metrics.watch_memory())
        looking = [asyncio.create_task(work) for work in looked_after]
        try:
            yield {"gateway": server}
        finally:
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
            await server.aclose()

    app = GatewayApp(
        routes=routes(server),
        middleware=_middleware(server),
        exception_handlers={404: _no_route, 405: _no_route},
        lifespan=lifespan,
    )
    app.state.server = server
    return app


def _make_ready(tokenizer: Tokenizer) -> None:
    """Uses a tokenizer for the first time. That takes a second, for which no client should wait."""
    tokenizer.decode(tokenizer.encode_text("ready"))


async def _no_route(request: Request, error: Exception) -> Response:
    """The error for an unknown route, as the client's protocol writes it."""
    assert isinstance(error, HTTPException)
    method, path = request.method, request.url.path
    problem = ApiError(f"found {method} {path}, which is not served here", status=error.status_code)
    status, body = protocol_of_client(request.headers).error(problem)
    return JSONResponse(body, status, {**(error.headers or {}), "x-should-retry": "false"})


def load_tokenizer(settings: Settings) -> Tokenizer | None:
    """The tokenizer, where the extra is installed. One that the settings name must be there."""
    try:
        return Tokenizer.load(settings.tokenizer)
    except TokensNotInstalled:
        if settings.tokenizer is not None:
            raise
        return None


def _middleware(server: GatewayState) -> list[Middleware]:
    origins = server.settings.cors_origins
    # Where keys are required, no page of another site has one.
    checks = [] if server.access.keys.asks else [SiteGuard(server.settings, origins).check]
    max_header = server.settings.max_header
    layers = [
        Middleware(RefusalLog),
        Middleware(DoorApp, max_header=max_header, drain=server.drain, checks=checks),
    ]
    if origins:
        allowed, every = list(origins), ["*"]
        layers.append(
            Middleware(
                CORSMiddleware, allow_origins=allowed, allow_methods=every, allow_headers=every
            )
        )
    return layers


def routes(server: GatewayState) -> list[BaseRoute]:
    """Every route, under every prefix."""
    plain = PlainRoutes(server)
    stands_in = server.settings.stand_in is not None
    prefixes = (*PREFIXES, BETA_PREFIX) if stands_in else PREFIXES
    completion = HealingRoute if server.heals else PromptRoute
    generating: dict[str, ProtocolName] = {
        "chat/completions": "chat",
        "responses": "responses",
        "messages": "messages",
    }
    table: list[BaseRoute] = []
    for prefix in prefixes if server.sessions.store is None else (*prefixes, *SESSION_PREFIXES):
        for path, protocol in generating.items():
            route = (
                OfficialRoute(server, protocol, is_beta=prefix == BETA_PREFIX)
                if stands_in
                else completion(server, protocol)
            )
            table.append(_route(f"{prefix}/{path}", route))
        counting, asking = f"{prefix}/messages/count_tokens", f"{prefix}/responses/input_tokens"
        response = f"{prefix}/responses/{{id}}"
        table += [
            worker_route(server, counting, plain.count_tokens, protocol="messages"),
            worker_route(server, asking, plain.count_input_tokens, protocol="responses"),
            json_route(server, response, "GET DELETE", plain.response, protocol="responses"),
            json_route(server, f"{prefix}/models", "GET", plain.models),
            json_route(server, f"{prefix}/models/{{model:path}}", "GET", plain.model),
            worker_route(server, f"{prefix}/tokenize", plain.tokenize),
            worker_route(server, f"{prefix}/render", plain.render),
            worker_route(server, f"{prefix}/parse", plain.parse),
        ]
    front = json_route(server, "/", "GET", plain.hello, is_open=True)
    if server.settings.playground:
        front.app = FrontDoor(front.app)
    table.append(front)
    for path, handle in (
        ("/api/hello", plain.hello),
        ("/health", plain.health),
        ("/ready", plain.ready),
    ):
        table.append(json_route(server, path, "GET", handle, is_open=True))
    if server.settings.metrics_port is None:
        table.append(json_route(server, "/metrics", "GET", plain.metrics))
    table += [*session_routes(server), *admin_routes(server), *page_routes(server)]
    if isinstance(server.backend, PassingBackend):
        table.append(Route("/{path:path}", endpoint=PassedRoute(server)))
    return table


def _route(path: str, endpoint: AsgiApp) -> Route:
    return Route(path, endpoint=endpoint, methods=["POST"])
