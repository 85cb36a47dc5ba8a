"""The common part of all routes: a request is traced, counted and logged, and a failure is reported
as its client's protocol writes it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager

from dsv4.api import ApiError
from dsv4.api.errors import as_api_error
from dsv4.api.request_fields import JsonObject
from dsv4.serve.access.stream_gate import Busy
from dsv4.serve.asgi import ClientGone, Receive, Scope, Send, headers_of, send_json
from dsv4.serve.backend import BackendError
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.observe.logs import CLIENT_GONE, RequestReport, by_itself, request_id_of
from dsv4.serve.storage.turn_stores import StoreFailure


class BrokenOff(Exception):
    """A fault of the gateway's in the middle of a stream: the client got an error, and no end."""


def client_error(error: Exception) -> ApiError:
    """Any failure of a request as an error that a protocol can write."""
    if isinstance(error, BackendError):
        status = error.status if error.status in (400, 402, 404, 429, 503, 504) else 502
        api_error = ApiError(error.message, status=status)
        api_error.__cause__ = error  # the cause has the details that may be logged
        return api_error
    if isinstance(error, Busy):
        return ApiError("The server is busy: all streams are taken.", status=429)
    if isinstance(error, StoreFailure):
        return ApiError("The store cannot be read at the moment: try again.", status=503)
    return as_api_error(error)


def unknown_model(name: str, names: Iterable[str]) -> ApiError:
    """The error for a model that is not served."""
    message = f"found {name!r}, expected {' or '.join(map(repr, names))}"
    return ApiError(message, path="model", status=404, code="model_not_found")


def is_expected(error: Exception) -> bool:
    """Whether a failure is the client's or the backend's, and not the gateway's own."""
    return isinstance(error, (ValueError, BackendError, Busy, StoreFailure))


def retry_headers(status: int, error: Exception) -> dict[str, str]:
    """The headers that tell a client whether, and when, to try again."""
    may_retry = status in (429, 502, 503, 504) and not getattr(error, "final", False)
    headers = {"x-should-retry": "true" if may_retry else "false"}
    if status in (429, 503):
        # Some clients give up immediately without it, and others if it is long.
        headers["retry-after"] = str(math.ceil(getattr(error, "retry_after", None) or 1))
    return headers


class ReportedRoute(ABC):
    """A route. A subclass answers."""

    def __init__(self, server: GatewayState, label: str) -> None:
        """`label` is the name under which its requests are counted and logged."""
        self._server = server
        self._label = label

    @abstractmethod
    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, report: RequestReport
    ) -> int:
        """Answers a request, and returns the status. An exception is reported to the client, so
        nothing may have been sent then."""

    @abstractmethod
    def _error_body(self, scope: Scope, error: ApiError) -> tuple[int, JsonObject]:
        """An error as the client's protocol writes it, with its status."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given_id = request_id_of(headers_of(scope))
        report = RequestReport(self._label, scope["path"], given_id)
        with self._traced(scope, report):
            try:
                report.status = await self._answer(scope, receive, send, report)
            except ClientGone:
                report.status = CLIENT_GONE
                report.fail(ClientGone("the client went away"))
                self._server.metrics.count("clients_gone")
            except BrokenOff as error:
                report.fail(error)
                raise  # the client has been told
            except Exception as error:
                report.status = await self._refuse(scope, send, error, report)
                if not is_expected(error):
                    raise
            finally:
                await self._note_end(report)

    def _traced(self, scope: Scope, report: RequestReport) -> AbstractContextManager[None]:
        return self._server.traced(headers_of(scope), report)

    async def _note_end(self, report: RequestReport) -> None:
        """Counts and logs a request that has ended."""
        key, usage, access = report.key, report.usage, self._server.access
        with by_itself("counting the request"):
            self._server.metrics.count("requests", report.protocol, str(report.status))
            if key is not None and access.keys.asks:
                self._server.metrics.count_key(key.name, report.status, usage)
        with by_itself("charging the key"):
            if key is not None and usage is not None:
                await access.meter.count_tokens(key.name, key.limits, usage.total)
        with by_itself("logging the request"):
            report.log()

    async def _refuse(
        self, scope: Scope, send: Send, error: Exception, report: RequestReport
    ) -> int:
        """Answers with an error before the first byte."""
        self._server.metrics.count_failure(error)
        api_error = client_error(error)
        report.fail(api_error)
        status, body = self._error_body(scope, api_error)
        headers = {"x-request-id": report.id, **retry_headers(status, error)}
        await send_json(send, status, body, headers)
        return status
