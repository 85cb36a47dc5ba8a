"""A record of every exchange, as JSON lines (the request, the prompt, the output), and the
comparison of a recorded exchange with a new reading of it.

Records are off unless a file is named. Keys and headers are never written. A line has everything
needed to read the completion again.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from typing import Any

from dsv4._completion.message import assemble
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import dialect_named
from dsv4.api import ApiRequest
from dsv4.api.api_request import ApiSettings
from dsv4.api.protocols import PROTOCOLS, ApiProtocol
from dsv4.errors import mismatch, short_repr
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.call_fitter import call_fitter
from dsv4.serve.choice_reader import ChoiceReader, CompletionReader
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.settings import SettingError
from dsv4.tokens import Tokenizer
from dsv4.tokens.coder import common_prefix_length

VERSION = 1
# The protocol of exchanges that were passed on to a chat server without being read here.
PASSED = "passed"

_log = logging.getLogger("dsv4.serve")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One completion, with the request and the settings that led to it.

    - `protocol`, `request`, `dialect`, `settings`: the request, and the server's values where the
      request named none.
    - `prompt`, `recalled`: the prompt as text, and the number of its turns that stand as they were
      sampled, and not as the request has them.
    - `adapted`: the ids of the adaptations of the request for a chat server.
    - `completion`, `ids`, `deltas`: the output as text, and as ids or as a chat server's deltas
      where it came in that form.
    - `stopped`: the backend's reason for the end of generation.
    - `finish`, `message`, `diagnostics`: the result of reading the output.
    """

    protocol: str
    request: dict[str, Any]
    dialect: str
    prompt: str
    completion: str
    finish: str
    message: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    recalled: int = 0
    adapted: list[str] = field(default_factory=list)
    ids: list[int] | None = None
    deltas: list[dict[str, Any]] | None = None
    stopped: str | None = None
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    version: int = VERSION


# The type that a line must have for a field of each type, and for the items of a list; each with
# its name.
_OBJECT: tuple[Any, str] = (dict, "an object")
_FORMS: dict[str, tuple[tuple[Any, str], tuple[Any, str] | None]] = {
    "str": ((str, "text"), None),
    "str | None": ((str | None, "text or null"), None),
    "int": ((int, "a whole number"), None),
    "float": ((int | float, "a number"), None),
    "dict[str, Any]": (_OBJECT, None),
    "list[str]": ((list, "a list"), (str, "the id of an adaptation")),
    "list[int] | None": ((list | None, "a list or null"), (int, "a token's id")),
    "list[dict[str, Any]]": ((list, "a list"), _OBJECT),
    "list[dict[str, Any]] | None": ((list | None, "a list or null"), _OBJECT),
}


def read_exchange(value: object) -> Exchange:
    """An exchange from its line's JSON. Raises a `ValueError` that says what is wrong."""
    if not isinstance(value, dict):
        raise ValueError(mismatch(value, "an exchange: an object"))
    if isinstance(version := value.get("version"), int) and version > VERSION:
        raise ValueError(f"version: found {version}, expected {VERSION}: a newer dsv4 wrote this")
    values = {}
    for each in fields(Exchange):
        if each.name in value:
            values[each.name] = _checked(each, value[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name}: missing, expected {_FORMS[str(each.type)][0][1]}")
    return Exchange(**values)


def _checked(field: Field[Any], value: Any) -> Any:
    form, of_items = _FORMS[str(field.type)]
    items = enumerate(value) if of_items is not None and isinstance(value, list) else ()
    places = [(field.name, value, form)]
    places += [(f"{field.name}[{at}]", item, of_items or form) for at, item in items]
    for place, item, (kind, words) in places:
        if not isinstance(item, kind):
            raise ValueError(f"{place}: found {short_repr(item)}, expected {words}")
    return value


class Recorder:
    """Appends exchanges to a file. Whole lines are written, so workers can share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            # Other users must not read the clients' texts.
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise SettingError("record", f"{path}: {error.strerror}") from None

    def write(self, exchange: Exchange) -> None:
        """Adds one exchange. A failure to write is logged, and no client notices it."""
        try:
            line = json.dumps(asdict(exchange), ensure_ascii=False, default=str) + "\n"
            data = line.encode("utf-8", "replace")
            with self._lock:
                while data:
                    data = data[os.write(self._file, data) :]
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("%s: an exchange was not recorded: %s", self._path, error)

    def close(self) -> None:
        os.close(self._file)


# Reads a recorded exchange again, in the same way as the gateway, and lists the differences.


# The characters that are shown before and after a difference between two texts.
_BEFORE, _AFTER = 20, 60


def differences(exchange: Exchange, tokenizer: Tokenizer | None) -> list[str]:
    """The differences in today's reading, as text; empty where there are none.

    `tokenizer` is that of the server, where ids were recorded. Raises a `ValueError` for an
    exchange that no server wrote.
    """
    if exchange.protocol == PASSED:
        return []
    api = _api(exchange)
    if exchange.ids is not None and tokenizer is None:
        raise ValueError("ids: they can be read only with the extra `tokens`")
    settings = _settings(exchange)
    try:
        dialect = dialect_named(exchange.dialect)
        call = api.read(exchange.request, dialect=dialect, settings=settings)
        prompt = call.request.encode()
    except ValueError as error:
        return [f"the request is refused: {error}"]
    try:
        reader = _reader(exchange, call, prompt, tokenizer)
    except (AttributeError, OverflowError, TypeError) as error:  # no backend sent such values
        raise ValueError(f"ids, deltas: {error}") from None
    except BackendError as error:
        raise ValueError(f"stopped, deltas: {error.message}") from None
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
    names = {each.name for each in fields(ApiSettings)}
    values = {name: value for name, value in exchange.settings.items() if name in names}
    for name, value in values.items():
        if not isinstance(value, (str, int, type(None))):
            raise ValueError(f"settings.{name}: found {short_repr(value)}, expected no such value")
    return ApiSettings(**values)


def _reader(
    exchange: Exchange, call: ApiRequest, prompt: Prompt, tokenizer: Tokenizer | None
) -> ChoiceReader:
    reader: ChoiceReader
    if exchange.deltas is not None:
        reader = HealingReader(replace(call, stream=False))  # the whole answer is known
        reader.fitter = call_fitter(call)
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
        at = common_prefix_length(before, now)
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
