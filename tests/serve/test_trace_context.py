"""The trace context of a request, which is passed on to the backend."""

from __future__ import annotations

from typing import Any

import pytest
from gateway import gateway, run
from standins import EOS, THINK_END, VllmServer

from dsv4.tokens import Tokenizer

BODY: dict[str, Any] = {
    "messages": [{"role": "user", "content": "a text of the user's"}],
    "model": "mine",
    "temperature": 0.5,
    "max_tokens": 40,
}
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (CONTEXT, CONTEXT),
        ({"traceparent": "nonsense", "tracestate": "vendor=1"}, {}),
        ({"traceparent": CONTEXT["traceparent"]}, {"traceparent": CONTEXT["traceparent"]}),
    ],
    ids=["whole", "nonsense", "no state"],
)
def test_the_context_is_passed_on_as_it_is(
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
