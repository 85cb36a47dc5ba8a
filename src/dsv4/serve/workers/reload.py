"""What is reloaded while the server runs: keys, and the engines that the settings' file names.

A file that cannot be used changes nothing: the old state stays, and the log says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from dsv4.serve.backend import BackendError
from dsv4.serve.backends import engine_of
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import logger
from dsv4.serve.served_model import UNNAMED
from dsv4.serve.settings import SettingError, upstreams_in
from dsv4.serve.upstreams.engine_pool import Engine


async def reload(server: GatewayState) -> None:
    """Reloads everything, each part for itself."""
    try:
        if server.access.reload():
            logger.info("reloaded keys=%s", len(server.access.keys))
    except SettingError as error:
        logger.error("the keys stay as they were: %s", error)
    await reload_engines(server)


async def reload_engines(server: GatewayState) -> None:
    """Takes the engines that the file names now. A worker that starts later has those of the others
    in this way."""
    try:
        await _follow_file(server)
    except SettingError as error:
        logger.error("the engines stay as they were: %s", error)


async def _follow_file(server: GatewayState) -> None:
    settings = server.settings
    urls = upstreams_in(settings.config) if settings.config else None
    if urls is None or not server.follows_file or urls == server.engines.addresses:
        return
    # All checks of a start, on what the file says now.
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
    logger.info("reloaded engines=%s", len(usable))


def _engines_at(server: GatewayState, urls: Sequence[str]) -> list[Engine]:
    engines = {engine.address: engine for engine in server.engines.engines}
    alone = [(url, replace(server.settings, upstream=(url,))) for url in urls]
    return [engines.get(url) or engine_of(each, server.tokenizer) for url, each in alone]


async def check_models(server: GatewayState, engines: list[Engine]) -> None:
    """Raises a `SettingError` for an engine that serves another model than the others do, or than
    is asked for. One that does not answer is down, and will be asked again."""
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
