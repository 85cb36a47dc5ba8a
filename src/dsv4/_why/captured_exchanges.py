"""Requests with their responses: HAR files of browsers and proxies, and lines of logs."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from dsv4._why.captured_answers import read_answer, read_events
from dsv4._why.pasted_kinds import (
    NotUnderstood,
    PastedAnswer,
    PastedError,
    PastedExchange,
    PastedExchanges,
    PastedRequest,
)
from dsv4.api.request_fields import maybe_json

_REQUESTS = ("request", "body", "request_body", "input")
_REPLIES = ("response", "response_body", "output", "error")


def is_har(value: Mapping[str, Any]) -> bool:
    log = value.get("log")
    return isinstance(log, dict) and isinstance(log.get("entries"), list)


def read_har(value: Mapping[str, Any]) -> PastedExchanges | NotUnderstood:
    """The requests to models in a HAR file. All other requests of the browser are left out."""
    entries = [entry for entry in value["log"]["entries"] if isinstance(entry, dict)]
    found = [_har_exchange(entry, f"entry {n}") for n, entry in enumerate(entries, 1)]
    exchanges = tuple(each for each in found if each is not None)
    if not exchanges:
        hint = "None of its entries is a request to a model. Save it again with its contents."
        return NotUnderstood(f"a HAR file with {len(entries)} entries", hint)
    return PastedExchanges(exchanges, "a HAR file")


def _har_exchange(entry: Mapping[str, Any], place: str) -> PastedExchange | None:
    request, response = _dict(entry.get("request")), _dict(entry.get("response"))
    body = maybe_json(str(_dict(request.get("postData")).get("text") or ""))
    if not is_request_body(body):
        return None
    asked = PastedRequest(body, str(request.get("url") or ""))
    return PastedExchange(asked, _har_reply(response), place)


def _har_reply(response: Mapping[str, Any]) -> PastedAnswer | PastedError | None:
    content, status = _dict(response.get("content")), response.get("status")
    text = str(content.get("text") or "")
    if content.get("encoding") == "base64":
        try:
            text = base64.b64decode(text).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            text = ""
    return reply_of(text, status if isinstance(status, int) else None)


# The status of an error, a message of curl, and the page of a proxy.
_FAILED = re.compile(r"HTTP/\S+ [45]\d\d|curl: \(\d+\)|\s*<(?:!doctype\s+)?html", re.IGNORECASE)


def reply_of(reply: object, status: int | None = None) -> PastedAnswer | PastedError | None:
    """The answer or the error in a reply, which is text or JSON; None if it cannot be read."""
    text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    value = maybe_json(body if head.startswith("HTTP/") else text)
    if (status is not None and status >= 400) or is_error_body(value) or _FAILED.match(text):
        return PastedError(text, status)
    answer = read_answer(value) or read_events(text)
    return None if isinstance(answer, NotUnderstood) else answer


def is_request_body(value: object) -> bool:
    """Whether a value is the body of a request to a model."""
    if not isinstance(value, dict) or "choices" in value:
        return False
    is_response = "input" in value and ("model" in value or "instructions" in value)
    return isinstance(value.get("messages"), list) or (is_response and "output" not in value)


def is_error_body(value: object) -> bool:
    """Whether a value is the body of an error, which a server sent instead of an answer."""
    if not isinstance(value, dict) or any(
        name in value for name in ("choices", "messages", "output", "content")
    ):
        return False
    if value.get("error") or value.get("object") == "error" or value.get("type") == "error":
        return True
    return "detail" in value or {"code", "message"} <= set(value) or "error_msg" in value


def read_logged(row: Mapping[str, Any], place: str) -> PastedExchange | None:
    """The exchange in a line of a log; None if the line has no request."""
    held = [(name, _unpacked(row.get(name))) for name in _REQUESTS]
    body = next((value for _, value in held if is_request_body(value)), None)
    if body is None:
        return None
    url = str(row.get("url") or row.get("path") or "")
    replies = (_unpacked(row.get(name)) for name in _REPLIES)
    reply = next((value for value in replies if isinstance(value, (dict, str)) and value), None)
    status = row.get("status") or row.get("status_code")
    code = status if isinstance(status, int) else None
    return PastedExchange(
        PastedRequest(body, url), None if reply is None else reply_of(reply, code), place
    )


def _unpacked(value: object) -> Any:
    """The value of a field of a log, which may be JSON as text."""
    read = maybe_json(value) if isinstance(value, str) else value
    return value if read is None else read


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_RECORDED = {"protocol", "request", "prompt", "completion"}


def is_record(value: object) -> bool:
    """Whether a value is a line of `dsv4 serve --record`."""
    return isinstance(value, dict) and set(value) >= _RECORDED
