"""The W3C trace context of the request that is being answered, for the one to its backend."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_passed_on: ContextVar[str] = ContextVar("dsv4_trace_headers", default="")

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
# Only what may stand in a header, and no more than the standard asks to keep.
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_headers() -> str:
    """The lines of a request's head that tell the backend which trace it belongs to."""
    return _passed_on.get()


def read_trace_context(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace context that a client has sent, if it is one."""
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    if not _TRACEPARENT.fullmatch(parent):
        return {}
    context = {"traceparent": parent}
    return {**context, "tracestate": state} if _TRACESTATE.fullmatch(state) else context


@contextmanager
def passing_on(context: Mapping[str, str]) -> Iterator[None]:
    """Lets requests to the backend belong to a trace."""
    token = _passed_on.set("".join(f"{name}: {value}\r\n" for name, value in context.items()))
    try:
        yield
    finally:
        _passed_on.reset(token)
