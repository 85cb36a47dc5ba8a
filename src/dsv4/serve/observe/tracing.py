"""OpenTelemetry spans of requests, with the GenAI conventions (extra `otel`). Without it the
W3C trace context of a request is passed on to its backend as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from dsv4.serve.observe.logs import RequestReport
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.upstreams.passed_headers import client_headers, passing_on

if TYPE_CHECKING:
    from opentelemetry.trace import Span


# The gateway's own traces.


# Wraps the answer to a request with these headers.
Traced: TypeAlias = Callable[[Mapping[str, str], RequestReport], AbstractContextManager[None]]


def passed_on(headers: Mapping[str, str], report: RequestReport) -> AbstractContextManager[None]:
    """Passes a trace context on, where the gateway itself does not trace."""
    return passing_on(client_headers(headers))


class OpenTelemetryTraces:
    """A span for each request, with the facts of its log line."""

    def __init__(self) -> None:
        from opentelemetry.trace import get_tracer
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = get_tracer("dsv4")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def traced(self, headers: Mapping[str, str], report: RequestReport) -> Iterator[None]:
        from opentelemetry.trace import SpanKind, set_span_in_context

        given = client_headers(headers)
        before = self._propagator.extract(given)
        span = self._tracer.start_span("chat", context=before, kind=SpanKind.SERVER)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context=set_span_in_context(span))
        try:
            with passing_on({**given, **carrier}):
                yield
        finally:
            _describe(span, report)
            span.end()


def _describe(span: Span, report: RequestReport) -> None:
    """Sets the results of a request, under the names of the GenAI conventions where they exist."""
    from opentelemetry.trace import Status, StatusCode

    usage, prepared = report.usage, report.prepared
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "deepseek",
        "gen_ai.response.id": report.id,
        "url.path": report.path,
        "http.response.status_code": report.status,
        "dsv4.protocol": report.protocol,
        "dsv4.key": None if report.key is None else report.key.name,
        "dsv4.repairs": report.repairs,
        "dsv4.adaptations": report.adaptations,
        "gen_ai.usage.input_tokens": getattr(usage, "prompt", None),
        "gen_ai.usage.output_tokens": getattr(usage, "completion", None),
        "gen_ai.usage.cache_read.input_tokens": getattr(usage, "cached", None),
        "error.type": None if report.failure is None else str(report.status),
    }
    if prepared is not None:
        attributes["gen_ai.request.model"] = prepared.call.model
        attributes["gen_ai.request.max_tokens"] = prepared.options.max_tokens
        attributes["gen_ai.request.temperature"] = prepared.options.temperature
        attributes["dsv4.prefix_shared_tokens"] = prepared.shared
        span.update_name(f"chat {prepared.call.model}")
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})
    if report.is_fault:
        span.set_status(Status(StatusCode.ERROR, report.failure))


def tracing_for(settings: Settings) -> Traced:
    """The tracing that the settings ask for. Raises a `SettingError` where the extra is missing."""
    if not settings.otel:
        return passed_on
    try:
        return OpenTelemetryTraces().traced
    except ImportError:
        raise SettingError("otel", "needs the extra `otel`, which is not installed") from None


def export_traces(settings: Settings) -> None:
    """Sends the spans of this process to the place that the variables `OTEL_…` name."""
    if not settings.otel:
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingError("otel", "needs the extra `otel`, which is not installed") from None
    own = {} if "OTEL_SERVICE_NAME" in os.environ else {SERVICE_NAME: "dsv4"}
    provider = TracerProvider(resource=Resource.create(own))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
