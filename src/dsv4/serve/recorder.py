"""A record of every exchange, as JSON lines: what was asked, the prompt, the raw completion.

It is off unless a file is named. Keys and headers are never written.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, field
from typing import Any

from dsv4.serve.settings import SettingError

VERSION = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One generation, whole."""

    protocol: str
    request: Any
    dialect: str
    prompt: str
    completion: str
    finish: str
    message: dict[str, Any]
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    version: int = VERSION


class Recorder:
    """Appends exchanges to a file. Whole lines are written at once, so workers can share it."""

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
        """Adds one exchange."""
        line = json.dumps(asdict(exchange), ensure_ascii=False, default=str) + "\n"
        data = line.encode("utf-8", "replace")
        with self._lock:
            os.write(self._file, data)

    def close(self) -> None:
        os.close(self._file)
