"""The headers of a client's request that go to the backend with it: its trace, and its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

# The headers, and the values allowed in each. All others are dropped.
PASSED_HEADERS: Mapping[str, re.Pattern[str]] = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    # Only characters allowed in a header, and no more than the standard asks to keep.
    "tracestate": re.compile(r"[\x20-\x7e]{1,512}"),
    # The client's name for its request: it is in the gateway's log and in the backend's.
    "x-request-id": re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII),
}
# Headers that mean nothing without another.
_BELONGS_TO = {"tracestate": "traceparent"}

_passed_on: ContextVar[str] = ContextVar("dsv4_passed_headers", default="")


def client_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The client's headers that are passed on, where their values are valid."""
    found = {
        name: headers[name]
        for name, pattern in PASSED_HEADERS.items()
        if pattern.fullmatch(headers.get(name, ""))
    }
    return {name: found[name] for name in found if _BELONGS_TO.get(name, name) in found}


def passed_headers() -> str:
    """The header lines that the current client's request adds to requests to the backend."""
    return _passed_on.get()


@contextmanager
def passing_on(headers: Mapping[str, str]) -> Iterator[None]:
    """Adds these headers to requests to the backend, beside those that are already added."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    token = _passed_on.set(_passed_on.get() + lines)
    try:
        yield
    finally:
        _passed_on.reset(token)
