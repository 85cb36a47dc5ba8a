"""A record of every exchange, as JSON lines: the request, the prompt, what was generated.

It is off unless a file is named. Keys and headers are never written. A line has everything needed
to read the completion again: see `rerun.py`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.serve.settings import SettingError

VERSION = 1

_log = logging.getLogger("dsv4.serve")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One completion and how it came about.

    - `protocol`, `request`, `dialect`, `settings`: what was asked, and what the server decided
      where the request said nothing.
    - `prompt`, `recalled`: the prompt as text, and how many turns of it were as they were sampled,
      and not as the request has them.
    - `completion`, `ids`, `deltas`: what was generated, as text, and as ids or as a chat server's
      deltas where it came so.
    - `stopped`: why generation ended, as the backend said.
    - `finish`, `message`, `diagnostics`: what was read.
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
    ids: list[int] | None = None
    deltas: list[dict[str, Any]] | None = None
    stopped: str | None = None
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    version: int = VERSION


# A class, or several, for `isinstance`.
Kind: TypeAlias = type | tuple[type, ...]
# What each field of a line must be, and in words.
_OPTIONAL_LIST = ((list, type(None)), "a list or null")
_EXPECTED: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(("protocol", "dialect", "prompt", "completion", "finish"), (str, "text")),
    **dict.fromkeys(("request", "message", "settings"), (dict, "an object")),
    **dict.fromkeys(("ids", "deltas"), _OPTIONAL_LIST),
    "diagnostics": (list, "a list"),
    "stopped": ((str, type(None)), "text or null"),
    **dict.fromkeys(("recalled", "version"), (int, "a whole number")),
    "seconds": ((int, float), "a number"),
}
_ITEMS: dict[str, tuple[Kind, str]] = {
    "ids": (int, "a token's id"),
    "deltas": (dict, "an object"),
    "diagnostics": (dict, "an object"),
}


def read_exchange(value: object) -> Exchange:
    """An exchange from its line's JSON. Raises a `ValueError` that says what is wrong."""
    if not isinstance(value, dict):
        raise ValueError(f"found {short_repr(value)}, expected an exchange: an object")
    if isinstance(version := value.get("version"), int) and version > VERSION:
        raise ValueError(f"version: found {version}, expected {VERSION}: a newer dsv4 wrote this")
    given = {}
    for each in fields(Exchange):
        if each.name in value:
            given[each.name] = _checked(each.name, value[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{each.name}: missing, expected {_EXPECTED[each.name][1]}")
    return Exchange(**given)


def _checked(name: str, value: object) -> Any:
    kind, words = _EXPECTED[name]
    if not isinstance(value, kind):
        raise ValueError(f"{name}: found {short_repr(value)}, expected {words}")
    if name in _ITEMS and isinstance(value, list):
        kind, words = _ITEMS[name]
        for at, item in enumerate(value):
            if not isinstance(item, kind):
                raise ValueError(f"{name}[{at}]: found {short_repr(item)}, expected {words}")
    return value


class Recorder:
    """Appends exchanges to a file. Whole lines are written, so workers can share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            # What clients said is nobody else's to read.
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise SettingError("record", f"{path}: {error.strerror}") from None

    def write(self, exchange: Exchange) -> None:
        """Adds one exchange. What cannot be written is logged: no client is to suffer for it."""
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
