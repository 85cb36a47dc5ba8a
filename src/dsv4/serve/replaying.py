"""A recorded exchange, read once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.parsing.message import assemble
from dsv4.serve.answering import PROTOCOLS

_IDS = ("id",)


def difference(exchange: Mapping[str, Any]) -> str:
    """What today's parser reads otherwise, in words. Empty if nothing."""
    module = PROTOCOLS[exchange["protocol"]]
    try:
        call = module.read(exchange["request"], dialect=exchange["dialect"])
    except ValueError as error:
        return f"the request is refused now: {error}"
    prompt = call.request.encode().text
    parser = call.parser()
    finish = exchange.get("engine_finish")
    message = assemble([*parser.feed(exchange["completion"]), *parser.finish(finish)])
    found = [
        *_changed("prompt", exchange["prompt"], prompt),
        *_changed("finish", exchange["finish"], message.finish),
        *_changed("message", _without_ids(exchange["message"]), _without_ids(message.to_dict())),
        *_changed(
            "repairs",
            [diagnostic["kind"] for diagnostic in exchange["diagnostics"]],
            [diagnostic.kind for diagnostic in message.diagnostics],
        ),
    ]
    return "; ".join(found)


def _changed(name: str, before: Any, now: Any) -> list[str]:
    return [] if before == now else [f"{name}: {_short(before)} -> {_short(now)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k not in _IDS}
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    return value
