"""The example servers, run with the SDKs that people use."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

fastapi = pytest.importorskip("fastapi")
pytest.importorskip("httpx")
from fastapi.testclient import TestClient  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples" / "servers"
QUESTION = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"messages": QUESTION},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 9},
}


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("fastapi_app", "vllm_completions"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("path", BODIES)
def test_the_app_answers(path: str) -> None:
    import fastapi_app

    client = TestClient(fastapi_app.app)
    whole = client.post(path, json=BODIES[path])
    assert whole.status_code == 200
    assert "characters." in whole.text
    assert "I count." in whole.text
    streamed = client.post(path, json={**BODIES[path], "stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert "characters." in streamed.text
    refused = client.post(path, json={"messages": 5, "input": 5})
    assert refused.status_code == 400
    assert "expected" in refused.json()["error"]["message"]


@pytest.fixture
def vllm(examples: None) -> Any:
    """The example in front of a vLLM with a context of 100 tokens, and what that was asked."""
    import httpx
    import vllm_completions

    asked: list[dict[str, Any]] = []
    pieces = ("Hm.", "</think>", "Yes")
    events: list[Any] = [{"choices": [{"text": piece}]} for piece in pieces]
    events.append({"choices": [{"text": "", "finish_reason": "length"}]})
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    events.append({"choices": [], "usage": usage})

    def complete(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/tokenize":
            count = 200 if "long" in body["prompt"] else 95
            return httpx.Response(200, json={"count": count, "max_model_len": 100})
        if "refuse" in body["prompt"]:
            return httpx.Response(429, json={"error": {"message": "too busy"}})
        asked.append(body)
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        return httpx.Response(200, text="".join([*lines, "data: [DONE]\n\n"]))

    vllm_completions.client = httpx.AsyncClient(
        transport=httpx.MockTransport(complete), base_url="http://vllm"
    )
    return TestClient(vllm_completions.app), asked


def test_vllm_completes(vllm: Any) -> None:
    client, asked = vllm
    body = {**BODIES["/v1/messages"], "model": "m", "temperature": 0.5}
    answer = client.post("/v1/messages", json=body).json()
    assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
    assert answer["stop_reason"] == "max_tokens"
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (7, 3)
    assert asked[0]["prompt"].endswith("<think>")
    # The context leaves five of the nine.
    assert (asked[0]["max_tokens"], asked[0]["temperature"]) == (5, 0.5)
    assert asked[0]["skip_special_tokens"] is False


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("text", "status", "words"),
    [("refuse", 429, "too busy"), ("a long one", 400, "prompt is too long: 200 tokens > 100")],
)
def test_errors_of_vllm_are_passed_on(
    text: str, status: int, words: str, streamed: bool, vllm: Any
) -> None:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 9, "stream": streamed}
    answer = vllm[0].post("/v1/messages", json=body)
    assert (answer.status_code, answer.json()["type"]) == (status, "error")
    assert words in answer.json()["error"]["message"]
