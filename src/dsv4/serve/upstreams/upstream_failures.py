"""The meaning of a backend's answer that is a failure: whose fault it is, whether another try may
help, and the error for the client.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import BackendError, BackendOverflow, read_digits, read_number, read_object

# Clients give up if they are told to wait for long, and a backend may name any time.
LONGEST_WAIT = 60.0

# Problems between the gateway and its backend, by status. A client can do nothing about them, and
# the backend's own message may quote the gateway's key.
_MISCONFIGURED = {
    401: "the backend refuses the gateway's key: see `upstream_key_file`",
    403: "the backend refuses the gateway's key: see `upstream_key_file`",
    404: "the backend does not have this route: see `upstream` and `backend`",
    405: "the backend does not have this route: see `upstream` and `backend`",
    407: "a proxy before the backend asks for a password: see `upstream`",
}
_REDIRECTED = "the backend redirects to another address: see `upstream`"
# The client can wait for load to pass. A request that the backend refuses is the client's fault;
# everything else is the gateway's or the backend's.
_STATUSES = {429: 429, 503: 503, 529: 503, 400: 400, 402: 402, 413: 400, 422: 400}
# The message of a 404 that is about the client's model, and not about a route.
_NO_MODEL = re.compile(r"\bmodels?\b", re.IGNORECASE)
_LOAD_WORDS = {"rate_limit": 429, "overloaded": 503}

# The errors for a prompt that is too long: of OpenAI, DeepSeek and vLLM, SGLang, llama.cpp.
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error")
_OVERFLOW = re.compile(
    r"maximum context length|context[ _](?:length|size|window)|maximum input length"
    r"|prompt is too long|too many tokens|longer than the (?:maximum )?model",
    re.IGNORECASE,
)
# The limit, and the length of the prompt: by name, or by its place in the sentence.
_LIMIT = re.compile(
    r"(?:context[ _](?:length|size|window)|max_model_len|maximum input length|maximum)"
    r"\D{0,30}?(\d[\d,]*)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d[\d,]*")


# On other routes a server may use these for the route, or for an object in it.
_MAY_BE_MISSING = (404, 405)


def is_misconfigured(status: int) -> bool:
    """Whether an answer on any route is a problem of the gateway's, and not of its client's
    request."""
    is_refused = status in _MISCONFIGURED and status not in _MAY_BE_MISSING
    return 300 <= status < 400 or is_refused


def failure(status: int, headers: Mapping[str, str], body: str, key: str | None) -> BackendError:
    """The error for an answer with this status. `key` is the gateway's own, which is never
    shown."""
    if 300 <= status < 400:
        return BackendError(f"{_REDIRECTED} (status {status})", final=True)
    error = _error_object(body)
    text = without_key(error_text(error.get("message", body)), key)
    if status == 404 and error and _NO_MODEL.search(text):
        return BackendError("the backend answered 404", 404, quoted=text, final=True)
    if status in _MISCONFIGURED:
        return BackendError(f"{_MISCONFIGURED[status]} (status {status})", final=True)
    own_status = _STATUSES.get(status, 502)
    if own_status == 400 and (overflow := overflow_of(error, text)):
        return overflow
    wait = waiting_time(headers.get("retry-after", ""))
    return BackendError(f"the backend answered {status}", own_status, wait, quoted=text)


def overflow_of(fields: JsonObject, text: str) -> BackendOverflow | None:
    """The error for a prompt that is too long for the backend, if the answer says so."""
    kinds = (fields.get("code"), fields.get("type"), fields.get("error_type"))
    if not (any(kind in _OVERFLOW_CODES for kind in kinds) or _OVERFLOW.search(text)):
        return None
    match = _LIMIT.search(text)
    limit = read_number(fields.get("n_ctx")) or (_value(match[1]) if match else None)
    tokens = read_number(fields.get("n_prompt_tokens"))
    if tokens is None and limit is not None:
        numbers = [_value(number) for number in _NUMBER.findall(text)]
        tokens = max((number for number in numbers if number > limit), default=None)
    return BackendOverflow(text, tokens, limit)


def _value(number: str) -> int:
    return int(number.replace(",", ""))


def told_failure(value: object, key: str | None) -> BackendError:
    """The error for a failure that a server reports in an answer that began normally."""
    text = without_key(error_text(value), key)
    fields = value if isinstance(value, dict) else {}
    if overflow := overflow_of(fields, text):
        return overflow
    return BackendError("the backend failed", _told_status(fields), quoted=text)


def _told_status(fields: JsonObject) -> int:
    """The status to answer with: servers report theirs in various fields, or as a word."""
    for name in ("code", "status", "status_code"):
        code = read_digits(fields.get(name))
        if code in _STATUSES:
            return _STATUSES[code]
    words = f"{fields.get('type')} {fields.get('code')}"
    return next((status for word, status in _LOAD_WORDS.items() if word in words), 502)


def without_key(text: str, key: str | None) -> str:
    """A text of the backend's without the gateway's key, which is never shown."""
    return text.replace(key, "…") if key else text


def _error_object(body: str) -> JsonObject:
    """The error in a body, under the names of any server."""
    fields = read_object(body)
    if fields is None:
        return {}
    error = fields.get("error", fields.get("detail", fields))
    return error if isinstance(error, dict) else {"message": error}


# Fields of an error that may hold its message, the most informative first.
_WORDS = ("message", "detail", "msg", "error", "errors", "response", "type", "code")


def error_text(error: object) -> str:
    """The message of an error, shortened: a text, or from the fields of any server."""
    text = error
    while isinstance(text, (dict, list)):
        inner = text[:1] if isinstance(text, list) else [text[n] for n in _WORDS if text.get(n)]
        if not inner:
            break
        text = inner[0]
    return str(error if text is None else text)[:500]


def waiting_time(text: str) -> float | None:
    """The seconds to wait by a `Retry-After`, which has a number or a date. None for anything else,
    and never longer than clients wait."""
    try:
        is_number = text.strip().isdecimal()
        moment = None if is_number else parsedate_to_datetime(text).timestamp()
        seconds = float(text) if moment is None else moment - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT)
