"""The headers of a client's request that go to the backend with it: its trace, and its name.

To pass on another one, add it where `passing_on` is called (`observe/tracing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_passed_on: ContextVar[str] = ContextVar("dsv4_passed_headers", default="")


def passed_headers() -> str:
    """The lines of a request's head that the request of a client adds."""
    return _passed_on.get()


@contextmanager
def passing_on(headers: Mapping[str, str]) -> Iterator[None]:
    """Lets requests to the backend have these headers."""
    token = _passed_on.set("".join(f"{name}: {value}\r\n" for name, value in headers.items()))
    try:
        yield
    finally:
        _passed_on.reset(token)
