"""Reloads keys, and the engines that the settings' file names, while the server runs.

A file that cannot be used changes nothing: the old state stays, and the log says why. A worker that
replaces another must use the same engines, so they are written to a file for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dsv4.serve.backend import BackendError
from dsv4.serve.backends import engine_of
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import logger
from dsv4.serve.served_model import UNNAMED
from dsv4.serve.settings import SettingError, upstreams_in
from dsv4.serve.upstreams.engine_pool import Engine

# Files by which workers tell each other which engines there are since the settings' file was last
# read, and which of them drain.
_UPSTREAMS, _DRAINING = "upstreams.json", "draining.json"


async def reload(server: GatewayState) -> None:
    """Reloads everything, each part independently."""
    try:
        if server.access.reload():
            logger.info("reloaded keys=%s", len(server.access.keys))
    except SettingError as error:
        logger.error("the keys stay as they were: %s", error)
    try:
        await _reload_engines(server)
    except SettingError as error:
        logger.error("the engines stay as they were: %s", error)
    _read_draining(server)


async def _reload_engines(server: GatewayState) -> None:
    settings = server.settings
    urls = upstreams_in(settings.config) if settings.config else None
    if urls is None or not server.follows_file or urls == server.engines.addresses:
        return
    # All checks of a start, with the current content of the file.
    new_settings = replace(settings, upstream=urls)
    engines = _engines_at(server, new_settings.upstream)
    new = [engine for engine in engines if engine not in server.engines.engines]
    await check_models(server, new)
    usable = [engine for engine in engines if engine.is_up or engine not in new]
    for engine in (engine for engine in new if not engine.is_up):
        await engine.aclose()
        logger.warning("engine %s is not added: it does not answer", engine.url)
    if not usable:
        raise SettingError("upstream", "found no engine that answers")
    # An engine that is missing is asked again at the next signal: the list differs from the file.
    server.engines.replace(usable)
    _tell_workers(server, _UPSTREAMS, server.engines.addresses)
    logger.info("reloaded engines=%s", len(usable))


def _engines_at(server: GatewayState, urls: Sequence[str]) -> list[Engine]:
    engines = {engine.address: engine for engine in server.engines.engines}
    alone = [(url, replace(server.settings, upstream=(url,))) for url in urls]
    return [engines.get(url) or engine_of(each, server.tokenizer) for url, each in alone]


def catch_up(server: GatewayState) -> None:
    """Gives a worker that has just started the same engines as the others have."""
    upstreams = _last_message(server, _UPSTREAMS)
    if upstreams is not None:
        server.engines.replace(_engines_at(server, upstreams))
    _read_draining(server)


async def check_models(server: GatewayState, engines: list[Engine]) -> None:
    """Raises a `SettingError` for an engine that serves another model than the others, or than the
    settings ask for. An engine that does not answer counts as down, and will be asked again."""
    expected = server.settings.upstream_model or server.model.engine_model.name
    listings = await asyncio.gather(*(_names(server, engine) for engine in engines))
    for engine, names in zip(engines, listings, strict=True):
        if names and expected not in names:
            problem = f"{engine.url}: found the model {', '.join(names)}, expected {expected}"
            raise SettingError("upstream", problem)
        if names is None:
            engine.set_up(False, "it does not answer")


async def _names(server: GatewayState, engine: Engine) -> list[str] | None:
    try:
        seconds = server.settings.connect_timeout
        models = await asyncio.wait_for(engine.backend.models(), seconds)
    except (BackendError, asyncio.TimeoutError):
        return None
    return [model.name for model in models if model.name not in UNNAMED]


# Draining an engine. The request reaches one worker, and all workers must know.


def drain_engine(server: GatewayState, url: str, is_draining: bool) -> bool:
    """Makes an engine take no more requests, or take them again, in every worker. Returns False
    where none has the address."""
    if not server.engines.drain(url, is_draining):
        return False
    states = {engine.url: engine.is_draining for engine in server.engines.engines}
    if _tell_workers(server, _DRAINING, states):
        os.kill(os.getppid(), signal.SIGHUP)
    return True


def _read_draining(server: GatewayState) -> None:
    for url, is_draining in (_last_message(server, _DRAINING) or {}).items():
        server.engines.drain(url, is_draining)


def _tell_workers(server: GatewayState, name: str, value: object) -> bool:
    """Writes a file for the other workers, in one step, so that none reads half of it. Returns
    False where there are no others."""
    folder = server.metrics.shared_folder
    if folder is None:
        return False
    draft = folder / f"{name}.{os.getpid()}"
    draft.write_text(json.dumps(value), "utf-8")
    draft.replace(folder / name)
    return True


def _last_message(server: GatewayState, name: str) -> Any:
    """The last message to the workers; None if there was none."""
    folder = server.metrics.shared_folder
    if folder is None or not (folder / name).exists():
        return None
    return json.loads((folder / name).read_text("utf-8"))
