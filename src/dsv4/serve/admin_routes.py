"""Routes for the gateway's operator: its engines, and a restart of its workers."""

from __future__ import annotations

import os
import signal

from starlette.routing import BaseRoute

from dsv4.api import ApiError
from dsv4.api.errors import wrong
from dsv4.api.request_fields import JsonObject, json_body
from dsv4.serve.access.api_keys import Key
from dsv4.serve.asgi import Scope
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.plain_routes import json_route
from dsv4.serve.workers.reload import drain_engine


class AdminRoutes:
    """The functions of the routes. They need a key of an administrator; without keys, they serve
    this machine only."""

    def __init__(self, server: GatewayState) -> None:
        self._server = server

    async def engines(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        """The engines and their state."""
        self._server.access.check_administrator(key)
        if scope["method"] == "POST":
            self._drain(json_body(data))
        return {
            "engines": [
                {
                    "url": engine.url,
                    "up": engine.is_up,
                    "draining": engine.is_draining,
                    "streams": engine.running,
                    "reported": None if engine.load is None else engine.load._asdict(),
                }
                for engine in self._server.engines.engines
            ]
        }

    def _drain(self, body: JsonObject) -> None:
        url, is_draining = body.get("url"), body.get("draining")
        if not isinstance(url, str):
            raise wrong(url, "the URL of an engine", "url")
        if not isinstance(is_draining, bool):
            raise wrong(is_draining, "true or false", "draining")
        if not drain_engine(self._server, url, is_draining):
            urls = ", ".join(engine.url for engine in self._server.engines.engines)
            raise ApiError(f"found {url!r}, expected one of {urls}", path="url", status=404)

    async def restart(self, scope: Scope, key: Key, data: bytes) -> JsonObject:
        """Restarts the workers, one after the other."""
        self._server.access.check_administrator(key)
        if self._server.metrics.shared_folder is None:
            raise ApiError("There is one worker alone: restart the program.", status=409)
        os.kill(os.getppid(), signal.SIGUSR2)
        return {"status": "restarting"}


def admin_routes(server: GatewayState) -> list[BaseRoute]:
    """The routes, as they are served."""
    routes = AdminRoutes(server)
    return [
        json_route(server, "/admin/upstreams", "GET POST", routes.engines),
        json_route(server, "/admin/restart", "POST", routes.restart),
    ]
