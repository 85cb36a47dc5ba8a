"""The log: one line for each request, as text or JSON, with no text of anybody's."""

from __future__ import annotations

import json
import logging
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import gateway, gateway_before, run
from standins import ChatServer, Scripted, lower

from dsv4.serve import Chunk
from dsv4.serve.observe.logs import JsonFormatter, TextFormatter
from dsv4.serve.upstreams.passed_headers import PASSED_HEADERS
from dsv4.tokens import Tokenizer
from loading import ROOT

SECRET = "a text of the user's"
BODY = {"messages": [{"role": "user", "content": SECRET}], "model": "my model"}


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    form = JsonFormatter()
    return [json.loads(form.format(record)) for record in caplog.records]


def test_a_request_is_one_line_with_what_an_operator_asks(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("ann:secret-key\n")
    keys.chmod(0o600)

    async def scenario() -> Any:
        async with gateway(api_key_file=str(keys)) as g:
            key, wrong = {"x-api-key": "secret-key"}, {"x-api-key": "wrong-key"}
            _, headers, _ = await g.post("/v1/chat/completions", BODY, **key)
            await g.post("/v1/messages", {**BODY, "messages": [{"role": SECRET}]}, **key)
            await g.post("/v1/responses", {"input": "Hi"}, **wrong)
            return headers

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        headers = run(scenario())
    answered, refused, unknown = lines(caplog)
    assert answered["message"] == "request"
    assert answered["id"] == headers["x-request-id"]
    assert (answered["key"], answered["protocol"], answered["status"]) == ("ann", "chat", 200)
    assert answered["model"] == "my model"
    assert answered["prompt_tokens"] > 0
    assert answered["completion_tokens"] > 0
    assert answered["repairs"] == 0
    assert answered["seconds"] >= 0
    assert "error" not in answered
    assert (refused["protocol"], refused["status"], refused["key"]) == ("messages", 400, "ann")
    assert refused["error"] == "invalid_request_error at messages[0].role"
    assert unknown["status"] == 401
    assert "key" not in unknown
    for word in (SECRET, "secret-key", "wrong-key"):
        assert word not in caplog.text + json.dumps(lines(caplog))


def test_a_stream_that_breaks_off_says_why_and_nothing_else_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with gateway(Scripted("Hm", 0.05, ValueError("deep inside"))) as g:
            with pytest.raises(aiohttp.ClientPayloadError):
                await g.stream("/v1/chat/completions", BODY)

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    broken = lines(caplog)[-1]
    assert (broken["level"], broken["status"]) == ("warning", 200)
    assert broken["error"] == "the backend failed, or sent what cannot be read"
    # What it was is in a line of its own.
    assert "deep inside" in lines(caplog)[0]["exception"]


def test_what_no_route_answers_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            await g.post("/v1/chat/completions", BODY, host="elsewhere")
            await g.post("/v1/chat/completions", BODY, origin="http://elsewhere")
            await g.get("/v1/nothing")
            await g.get("/v1/chat/completions")
            await g.get("/health")
            await g.post("/v1/chat/completions", BODY)
            g.server.drain.begin()
            await g.post("/v1/chat/completions", BODY)

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    statuses = [line["status"] for line in lines(caplog)]
    assert statuses == [421, 403, 404, 405, 200, 503]
    assert lines(caplog)[2]["path"] == "/v1/nothing"


def test_what_a_backend_says_is_told_to_its_client_alone(
    caplog: pytest.LogCaptureFixture, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        backend = ChatServer(tokenizer, "[]")
        words = json.dumps({"error": {"message": f"I do not like {SECRET}"}})
        backend.fault = lambda request, number: web.Response(status=422, text=words)
        async with backend.running() as url, gateway(upstream=url, settings_backend="chat") as g:
            _, _, answer = await g.post("/v1/chat/completions", BODY)
            assert SECRET in answer["error"]["message"]

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    assert lines(caplog)[0]["error"] == "the backend answered 422"
    assert SECRET not in json.dumps(lines(caplog))


def test_text_is_for_people_and_stays_on_one_line() -> None:
    record = logging.LogRecord("dsv4.serve", logging.INFO, "", 0, "request", (), None)
    record.dsv4_fields = {"status": 200, "model": "a b", "error": 'two\nlines="x"'}
    text = TextFormatter().format(record)
    assert text.endswith(' INFO request status=200 model="a b" error="two\\nlines=\\"x\\""')
    assert "\n" not in text


@pytest.mark.parametrize("stream", [True, False])
def test_the_clients_name_for_a_request_is_used_passed_on_and_returned(
    stream: bool, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"x-request-id": "req-7:a/b"}

    async def scenario() -> None:
        delta = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
        upstream = ChatServer(tokenizer, json.dumps([{"choices": [delta]}]))
        async with gateway_before(upstream.running()) as g:
            for body, status in (({**BODY, "stream": stream}, 200), ({"messages": 5}, 400)):
                found, headers, _ = await g.post("/v1/chat/completions", body, **given)
                assert (found, headers["x-request-id"]) == (status, given["x-request-id"])
            assert lower(upstream.headers[0])["x-request-id"] == given["x-request-id"]
            for wrong in ("with a space", "x" * 200, "é", ""):
                _, headers, _ = await g.post(
                    "/v1/chat/completions", BODY, **{"x-request-id": wrong}
                )
                assert headers["x-request-id"].startswith("turn_")
                assert "x-request-id" not in lower(upstream.headers[-1])

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    requests = [line for line in lines(caplog) if line["message"] == "request"]
    assert [line["id"] for line in requests[:2]] == [given["x-request-id"]] * 2


def test_the_answer_of_an_engine_has_the_clients_name_too() -> None:
    async def scenario() -> None:
        async with gateway(Scripted("Hi", Chunk(finish="eos"))) as g:
            _, headers, _ = await g.post("/v1/chat/completions", BODY, **{"x-request-id": "mine"})
            assert headers["x-request-id"] == "mine"

    run(scenario())


def test_every_answer_has_the_name_of_its_request(caplog: pytest.LogCaptureFixture) -> None:
    """Also of routes that generate nothing, and of what no route answers."""
    routes = [
        ("GET", "/health", 200, False),
        ("GET", "/metrics", 200, True),
        ("GET", "/v1/models", 200, True),
        ("POST", "/tokenize", 200, True),
        ("POST", "/parse", 400, True),
        ("GET", "/v1/responses/none", 404, True),
        ("GET", "/nowhere", 404, True),
    ]

    async def scenario() -> None:
        async with gateway() as g:
            for n, (method, path, expected, is_logged) in enumerate(routes):
                for given in ({"x-request-id": f"mine-{n}"}, {"x-request-id": "not one"}, {}):
                    caplog.clear()
                    data = json.dumps({"messages": BODY["messages"]}).encode()
                    asked = g.client.request(method, g.url + path, data=data, headers=given)
                    async with asked as answer:
                        await answer.read()
                    assert answer.status == expected, path
                    id = answer.headers["x-request-id"]
                    assert id == f"mine-{n}" if f"mine-{n}" in given.values() else len(id) > 20
                    if is_logged:
                        assert lines(caplog)[-1]["id"] == id

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())


def test_each_header_that_is_passed_on_is_documented() -> None:
    told = (ROOT / "docs" / "gateway-operations.md").read_text("utf-8")
    assert [name for name in PASSED_HEADERS if f"`{name}`" not in told] == []
