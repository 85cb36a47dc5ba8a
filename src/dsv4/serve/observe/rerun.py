"""Reads a recorded exchange again, in the way that the gateway reads, and lists what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4._parse.parse import assemble
from dsv4.api import ApiRequest
from dsv4.api.api_request import ApiSettings
from dsv4.api.protocols import PROTOCOLS, ApiProtocol
from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.choice_reader import ChoiceReader, CompletionReader
from dsv4.serve.healing_reader import HealingReader
from dsv4.serve.observe.recorder import Exchange
from dsv4.tokens import Tokenizer

# Of a difference between two texts, as much before it and after it is shown.
_BEFORE, _AFTER = 20, 60


def differences(exchange: Exchange, tokenizer: Tokenizer | None) -> list[str]:
    """What is read otherwise today, in words: nothing where all is as it was.

    `tokenizer` is that of the server, where ids were recorded. Raises a `ValueError` for an
    exchange that no server wrote.
    """
    api = _api(exchange)
    if exchange.ids is not None and tokenizer is None:
        raise ValueError("ids: they can be read only with the extra `tokens`")
    settings = _settings(exchange)
    try:
        call = api.read(exchange.request, dialect=exchange.dialect, settings=settings)
        prompt = call.request.encode()
    except ValueError as error:
        return [f"the request is refused: {error}"]
    try:
        reader = _reader(exchange, call, prompt, tokenizer)
    except (AttributeError, OverflowError, TypeError) as error:  # no backend sent that
        raise ValueError(f"ids, deltas: {error}") from None
    except BackendError as error:
        raise ValueError(f"stopped: {error.message}") from None
    message = assemble(reader.events)
    kinds = [diagnostic.get("kind") for diagnostic in exchange.diagnostics]
    return [
        # A prompt in which turns stand as they were sampled cannot be made from the request.
        *([] if exchange.recalled else _changed("prompt", exchange.prompt, prompt.text)),
        *_changed_members(exchange.message, message.to_dict()),
        *_changed("finish", exchange.finish, message.finish),
        *_changed("repairs", kinds, [diagnostic.kind for diagnostic in message.diagnostics]),
    ]


def _api(exchange: Exchange) -> ApiProtocol:
    for name, api in PROTOCOLS.items():
        if name == exchange.protocol:
            return api
    expected = ", ".join(PROTOCOLS)
    raise ValueError(f"protocol: found {exchange.protocol!r}, expected one of {expected}")


def _settings(exchange: Exchange) -> ApiSettings:
    known = {each.name for each in fields(ApiSettings)} - {"loads"}
    given = {name: value for name, value in exchange.settings.items() if name in known}
    for name, value in given.items():
        if not isinstance(value, (str, int, type(None))):
            raise ValueError(f"settings.{name}: found {short_repr(value)}, expected no such value")
    return ApiSettings(**given)


def _reader(
    exchange: Exchange, call: ApiRequest, prompt: Prompt, tokenizer: Tokenizer | None
) -> ChoiceReader:
    reader: ChoiceReader
    if exchange.deltas is not None:
        reader = HealingReader(call)
        chunks = [Chunk(delta=delta) for delta in exchange.deltas]
    else:
        reader = CompletionReader(call, prompt, tokenizer)
        chunks = [Chunk(text=exchange.completion, ids=exchange.ids)]
    for chunk in chunks:
        reader.feed(chunk)
    reader.feed(Chunk(finish=exchange.stopped))
    reader.end()
    return reader


def _changed_members(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        yield from _changed(name, _without_ids(before.get(name)), _without_ids(now.get(name)))


def _changed(name: str, before: object, now: object) -> list[str]:
    if before == now:
        return []
    if isinstance(before, str) and isinstance(now, str) and max(len(before), len(now)) > _AFTER:
        pairs = enumerate(zip(before, now, strict=False))
        at = next((n for n, (a, b) in pairs if a != b), min(len(before), len(now)))
        start = max(at - _BEFORE, 0)
        before, now = before[start : at + _AFTER], now[start : at + _AFTER]
        name = f"{name} from character {at} on"
    return [f"{name}: {short_repr(before, 120)} -> {short_repr(now, 120)}"]


def _without_ids(value: object) -> object:
    """A value without the ids of calls, which are new each time."""
    if isinstance(value, dict):
        return {name: _without_ids(item) for name, item in value.items() if name != "id"}
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    return value
