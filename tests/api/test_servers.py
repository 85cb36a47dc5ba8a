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


@pytest.mark.usefixtures("examples")
def test_vllm_completes() -> None:
    import httpx
    import vllm_completions

    asked: list[dict[str, Any]] = []

    def complete(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        pieces = ("Hm.", "</think>", "Yes")
        lines = [f"data: {json.dumps({'choices': [{'text': piece}]})}\n\n" for piece in pieces]
        return httpx.Response(200, text="".join([*lines, "data: [DONE]\n\n"]))

    vllm_completions.client = httpx.AsyncClient(
        transport=httpx.MockTransport(complete), base_url="http://vllm"
    )
    body = {**BODIES["/v1/messages"], "model": "m", "temperature": 0.5}
    answer = TestClient(vllm_completions.app).post("/v1/messages", json=body).json()
    assert [block["type"] for block in answer["content"]] == ["thinking", "text"]
    assert asked[0]["prompt"].endswith("<think>")
    assert (asked[0]["max_tokens"], asked[0]["temperature"]) == (9, 0.5)
    assert asked[0]["skip_special_tokens"] is False
