"""Failures as a client learns of them: as errors of its protocol, and whether to try again."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dsv4.api import ApiError
from dsv4.api.errors import as_api_error
from dsv4.serve.access.stream_gate import Busy
from dsv4.serve.backend import BackendError
from dsv4.serve.storage.turn_stores import StoreFailure


class BrokenOff(Exception):
    """A fault of ours in the middle of a stream: the client got an error, and no end."""


def client_error(error: Exception) -> ApiError:
    """Any failure of a request as an error that a protocol can write."""
    if isinstance(error, BackendError):
        status = error.status if error.status in (400, 402, 404, 429, 503, 504) else 502
        api_error = ApiError(error.message, status=status)
        api_error.__cause__ = error  # which has what may be logged
        return api_error
    if isinstance(error, Busy):
        return ApiError("The server is busy: all streams are taken.", status=429)
    if isinstance(error, StoreFailure):
        return ApiError("What is stored here cannot be read now: try again.", status=503)
    return as_api_error(error)


def unknown_model(name: str, names: Iterable[str]) -> ApiError:
    """The error for a model that is not served."""
    message = f"found {name!r}, expected {' or '.join(map(repr, names))}"
    return ApiError(message, path="model", status=404, code="model_not_found")


def is_expected(error: Exception) -> bool:
    """Whether a failure is the client's or the backend's, and no fault of ours."""
    return isinstance(error, (ValueError, BackendError, Busy, StoreFailure))


def retry_headers(status: int, error: Exception) -> dict[str, str]:
    """What tells a client whether, and when, to try again."""
    may_retry = status in (429, 502, 503, 504) and not getattr(error, "final", False)
    headers = {"x-should-retry": "true" if may_retry else "false"}
    if status in (429, 503):
        # Some clients give up immediately without it, and others when it is long.
        headers["retry-after"] = str(math.ceil(getattr(error, "retry_after", None) or 1))
    return headers
