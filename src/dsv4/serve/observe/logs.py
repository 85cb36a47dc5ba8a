"""The log: one line for each request and each thing that happens to the server, as text or JSON.

No line has a text of a request, nor a key.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from dsv4.serve.settings import Settings

logger = logging.getLogger("dsv4.serve")

# Where a record has what a line says besides its message.
_FIELDS = "dsv4_fields"
# What uvicorn says of a stream that has no end. It has none by design where a backend breaks off,
# and the line of the request says why.
_BROKEN_OFF = "ASGI callable returned without completing response"


class TextFormatter(logging.Formatter):
    """Lines for people: `2026-01-31 12:00:00 INFO request status=200 seconds=1.2`."""

    default_msec_format = None

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        return " ".join([super().formatMessage(record), *(_pair(*item) for item in fields.items())])


def _pair(name: str, value: object) -> str:
    text = str(value)
    is_plain = text and all(c.isprintable() and c not in ' ="' for c in text)
    return f"{name}={text if is_plain else json.dumps(text, ensure_ascii=False)}"


class JsonFormatter(logging.Formatter):
    """Lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_fields(level: int, message: str, fields: Mapping[str, Any]) -> None:
    """Logs a message with fields, those aside that are None."""
    given = {name: value for name, value in fields.items() if value is not None}
    logger.log(level, message, extra={_FIELDS: given})


def configure_logs(settings: Settings) -> None:
    """Sends the lines of this process to its standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    level = settings.log_level.upper()
    of_uvicorn = logging.getLogger("uvicorn")
    # What it says at "info" is said here already, in other words.
    of_uvicorn.setLevel("WARNING" if level == "INFO" else level)
    logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)
    logger.setLevel(level)
    for each in (logger, of_uvicorn):
        each.handlers = [handler]
        each.propagate = False


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return _BROKEN_OFF not in record.getMessage()
