"""Traces: what a span says of a request, and the context that is taken and passed on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway import gateway, run
from standins import EOS, THINK_END, ChatServer, Scripted, VllmServer

from dsv4.tokens import Tokenizer

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402, after the question
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)

BODY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "a text of the user's"}],
    "model": "mine",
    "temperature": 0.5,
    "max_tokens": 40,
}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


@pytest.fixture(scope="module")
def exporter() -> Any:
    """One for all tests: a program has one provider."""
    made = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


def test_a_span_says_what_the_conventions_ask_for(exporter: Any, tokenizer: Tokenizer) -> None:
    exporter.clear()

    async def scenario() -> VllmServer:
        backend = VllmServer(tokenizer, f"Hm.{THINK_END}Hello.{EOS}")
        settings: Any = {"settings_backend": "vllm", "otel": True}
        async with backend.running() as url, gateway(upstream=url, **settings) as g:
            await g.post("/v1/messages", BODY, **CONTEXT)
        return backend

    backend = run(scenario())
    (span,) = exporter.get_finished_spans()
    assert span.name == "chat mine"
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == SPAN
    said = dict(span.attributes)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.request.model"] == "mine"
    assert said["gen_ai.request.temperature"] == 0.5
    assert said["gen_ai.request.max_tokens"] == 40
    assert said["gen_ai.usage.output_tokens"] == len(backend.ids(backend.completions[0]))
    assert said["gen_ai.usage.input_tokens"] > said["gen_ai.usage.cache_read.input_tokens"] > 0
    assert said["dsv4.protocol"] == "messages"
    assert said["dsv4.repairs"] == 0
    assert said["dsv4.prefix_shared_tokens"] == 0
    assert said["http.response.status_code"] == 200
    assert "a text" not in str(said)
    # The backend belongs to the same trace, below this span.
    passed = backend.headers[0]
    assert passed["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert passed["tracestate"] == "vendor=1"


def test_a_span_says_what_was_adapted_and_what_was_repaired(
    exporter: Any, tokenizer: Tokenizer
) -> None:
    exporter.clear()
    leaked = f"Hm.{THINK_END}Hello."
    deltas = [{"choices": [{"index": 0, "delta": {"content": leaked}, "finish_reason": "stop"}]}]

    async def scenario() -> str:
        backend = ChatServer(tokenizer, json.dumps(deltas))
        settings: Any = {"settings_backend": "chat", "adapt_for": "deepseek-api", "otel": True}
        async with backend.running() as url, gateway(upstream=url, **settings) as g:
            messages = [{"role": "developer", "content": "Be brief."}, *BODY["messages"]]
            _, headers, _ = await g.post("/v1/chat/completions", {**BODY, "messages": messages})
            return str(headers["x-dsv4-adapted"])

    adapted = run(scenario())
    (span,) = exporter.get_finished_spans()
    assert ",".join(span.attributes["dsv4.adaptations"]) == adapted
    assert span.attributes["dsv4.repairs"] > 0


def test_a_fault_is_an_error_and_a_bad_request_is_not(exporter: Any) -> None:
    exporter.clear()

    async def scenario() -> None:
        async with gateway(Scripted(RuntimeError("boom")), otel=True) as g:
            await g.post("/v1/chat/completions", BODY)
            await g.post("/v1/chat/completions", {"messages": 5})

    run(scenario())
    failed, refused = exporter.get_finished_spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.attributes["error.type"] == "502"
    assert refused.status.status_code is trace.StatusCode.UNSET
    assert refused.attributes["http.response.status_code"] == 400


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (CONTEXT, CONTEXT),
        ({"traceparent": "nonsense", "tracestate": "vendor=1"}, {}),
        ({"traceparent": CONTEXT["traceparent"]}, {"traceparent": CONTEXT["traceparent"]}),
    ],
    ids=["whole", "nonsense", "no state"],
)
def test_without_spans_the_context_is_passed_on_as_it_is(
    given: dict[str, str], passed: dict[str, str], tokenizer: Tokenizer
) -> None:
    async def scenario() -> Any:
        backend = VllmServer(tokenizer, f"Hm.{THINK_END}Hello.{EOS}")
        async with backend.running() as url, gateway(upstream=url, settings_backend="vllm") as g:
            await g.post("/v1/chat/completions", BODY, **given)
        return backend.headers[0]

    headers = run(scenario())
    found = {name.lower(): value for name, value in headers.items()}
    assert {name: found[name] for name in CONTEXT if name in found} == passed
