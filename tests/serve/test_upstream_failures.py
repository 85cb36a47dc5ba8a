"""What a backend's failures become: whose they are, and what clients are told."""

from __future__ import annotations

import gzip
import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from aiohttp import web
from gateway import Gateway, gateway, run
from standins import DONE, ChatServer, CompletionsServer, VllmServer, event

from dsv4.serve.reported_route import client_error
from dsv4.serve.upstreams.upstream_failures import LONGEST_WAIT, failure, waiting_time
from dsv4.tokens import Tokenizer

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
PATHS = {"/v1/chat/completions": CHAT, "/v1/messages": CHAT, "/v1/responses": {"input": "Hi"}}
OVERFLOWS = [
    (
        '{"error": {"message": "This model\'s maximum context length is 4096 tokens. However, you '
        'requested 5000 tokens (4950 in the messages, 50 in the completion)."}}'
    ),
    (
        '{"object": "error", "message": "The input (5000 tokens) is longer than the model\'s '
        'context length (4096 tokens).", "type": "BadRequestError", "code": 400}'
    ),
    (
        '{"error": {"code": 400, "message": "the request exceeds the available context size", '
        '"type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096}}'
    ),
]


async def failing(
    status: int,
    body: str,
    path: str,
    *,
    given: dict[str, str] | None = None,
    retries: int = 2,
    settings: dict[str, Any] | None = None,
    **headers: str,
) -> tuple[Any, Any, Any, int]:
    """What the gateway answers where its backend fails, and how often that was asked."""
    backend = ChatServer(Tokenizer.load(), "[]")
    backend.fault = lambda request, number: web.Response(
        status=status, text=body, content_type="application/json", headers=given
    )
    more = {"upstream": "", "settings_backend": "chat", "retries": retries, **(settings or {})}
    async with backend.running() as url, gateway(**{**more, "upstream": url}) as g:
        answered, got, shown = await g.post(path, PATHS[path], **headers)
        return answered, got, shown, len(backend.requests)


@pytest.mark.parametrize("body", OVERFLOWS, ids=["vllm", "sglang", "llamacpp"])
def test_a_context_that_only_the_backend_knows_is_told_in_each_protocols_words(body: str) -> None:
    async def scenario() -> None:
        status, _, shown, _ = await failing(400, body, "/v1/messages")
        assert status == 400
        assert shown["error"]["message"] == "prompt is too long: 5000 tokens > 4096 maximum"
        status, _, shown, _ = await failing(400, body, "/v1/chat/completions")
        assert (status, shown["error"]["code"]) == (400, "context_length_exceeded")
        assert "maximum context length is 4096 tokens" in shown["error"]["message"]

    run(scenario())


def test_codex_is_told_of_the_backends_context_in_a_stream(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        backend = ChatServer(tokenizer, "[]")
        backend.fault = lambda request, number: web.Response(status=400, text=OVERFLOWS[0])
        async with backend.running() as url, gateway(upstream=url, settings_backend="chat") as g:
            events = await g.stream("/v1/responses", {"input": "Hi"}, originator="codex_exec")
            assert events[-1]["type"] == "response.failed"
            assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"

    run(scenario())


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404])
def test_what_is_between_gateway_and_backend_is_not_tried_again_nor_quoted(
    status: int, tmp_path: Any
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-secret")
    body = '{"error": {"message": "Incorrect API key provided: sk-secret"}}'

    async def scenario() -> None:
        answered, headers, shown, requests = await failing(
            status,
            body,
            "/v1/chat/completions",
            given={"location": "http://elsewhere/"},
            settings={"upstream_key_file": str(key)},
        )
        assert (answered, headers["x-should-retry"], requests) == (502, "false", 1)
        message = shown["error"]["message"]
        assert "sk-secret" not in message
        assert f"(status {status})" in message
        assert "upstream" in message

    run(scenario())


def test_the_gateways_key_is_in_no_message_of_a_backend(tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_text("sk-secret")

    async def scenario() -> None:
        _, _, shown, _ = await failing(
            500,
            '{"error": "cannot look up sk-secret"}',
            "/v1/chat/completions",
            retries=0,
            settings={"upstream_key_file": str(key)},
        )
        assert shown["error"]["message"] == "the backend answered 500: cannot look up …"

    run(scenario())


def test_a_wait_is_a_number_or_a_date_and_never_long() -> None:
    assert waiting_time("7") == 7
    assert waiting_time("86400") == LONGEST_WAIT
    assert 5 <= (waiting_time(formatdate(time.time() + 10, usegmt=True)) or 0) <= 10
    assert waiting_time(formatdate(time.time() - 10, usegmt=True)) == 0
    assert waiting_time("soon") is None

    async def scenario() -> None:
        _, headers, _, _ = await failing(
            429, "{}", "/v1/chat/completions", given={"retry-after": "3600"}
        )
        assert headers["retry-after"] == "60"

    run(scenario())


def completions(url: str) -> dict[str, Any]:
    return {"upstream": url, "settings_backend": "completions"}


def streamed(data: bytes) -> Any:
    return lambda request, number: web.Response(body=data, content_type="text/event-stream")


async def said(g: Gateway, path: str = "/v1/chat/completions") -> tuple[int, Any]:
    status, _, body = await g.post(path, PATHS[path])
    return status, body


@pytest.mark.parametrize(
    "wrong",
    [
        {"choices": [{"text": 5}]},
        {"choices": [{"text": ["a"], "finish_reason": "stop"}]},
        {"choices": {"text": "a"}},
        {"choices": ["a"]},
        {"choices": "a"},
    ],
    ids=str,
)
def test_a_completion_of_wrong_types_is_the_backends_fault(
    wrong: Any, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        backend = CompletionsServer(tokenizer, "")
        data = event(wrong) + DONE
        backend.fault = streamed(data)
        async with backend.running() as url, gateway(**completions(url)) as g:
            status, body = await said(g)
            assert status == 502
            assert body["error"]["message"].startswith("the backend sent an event of another")
            assert "object has no attribute" not in str(body)

    run(scenario())


@pytest.mark.parametrize(
    "delta", ["abc", 5, {"tool_calls": 5}, {"tool_calls": [{"function": "f"}]}], ids=str
)
def test_a_delta_of_wrong_types_is_the_backends_fault(delta: Any, tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        backend = ChatServer(tokenizer, "[]")
        data = event({"choices": [{"delta": delta, "finish_reason": "stop"}]}) + DONE
        backend.fault = streamed(data)
        async with backend.running() as url, gateway(upstream=url, settings_backend="chat") as g:
            for path in PATHS:
                status, body = await said(g, path)
                assert status == 502
                assert body["error"]["message"].startswith("the backend ")
                for python in ("Error", "object", "NoneType", "KeyError"):
                    assert python not in body["error"]["message"]

    run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_halves_of_a_pair_in_two_events_are_one_character(
    stream: bool, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        backend = CompletionsServer(tokenizer, "")
        texts = ["Hm.</think>", "a\ud83d", "\ude00b", "c\ud83d", "d"]
        events = [{"choices": [{"text": text}]} for text in texts]
        data = b"".join(
            b'data: {"choices": [{"text": "%s"}]}\n\n' % _escaped(e["choices"][0]["text"])
            for e in events
        )
        data += event({"choices": [{"text": "", "finish_reason": "stop"}]}) + DONE
        backend.fault = streamed(data)
        async with backend.running() as url, gateway(**completions(url)) as g:
            if stream:
                chunks = await g.stream("/v1/chat/completions", CHAT)
                deltas = [c["choices"][0]["delta"] for c in chunks[:-1] if c["choices"]]
                text = "".join(delta.get("content") or "" for delta in deltas)
            else:
                status, body = await said(g)
                assert status == 200
                text = body["choices"][0]["message"]["content"]
            assert text == "a😀bc\ufffdd"

    run(scenario())


def _escaped(text: str) -> bytes:
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text).encode()


def test_an_end_with_nothing_before_it_is_no_answer(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        backend = VllmServer(tokenizer, "")
        backend.fault = streamed(DONE)
        async with backend.running() as url, gateway(upstream=url, settings_backend="vllm") as g:
            status, body = await said(g)
            assert (status, body["error"]["message"]) == (502, "the backend sent an empty answer")

    run(scenario())


def test_a_list_of_models_and_an_error_may_come_compressed(tokenizer: Tokenizer) -> None:
    packed = {"content-encoding": "gzip"}

    class Compressing(ChatServer):
        async def list_models(self, request: web.Request) -> web.Response:
            body = gzip.compress(b'{"data": [{"id": "deepseek-v4"}]}')
            return web.Response(body=body, headers=packed, content_type="application/json")

    async def scenario() -> None:
        backend = Compressing(tokenizer, "[]")
        body = gzip.compress(b'{"error": {"message": "no such effort"}}')
        backend.fault = lambda request, number: web.Response(
            status=400, body=body, headers=packed, content_type="application/json"
        )
        async with backend.running() as url, gateway(upstream=url, settings_backend="chat") as g:
            assert (await g.get("/ready"))[1]["model"] == "deepseek-v4"
            status, body_of_error = await said(g)
            assert status == 400
            assert "no such effort" in body_of_error["error"]["message"]

    run(scenario())


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "The model `x` does not exist."), (402, "Insufficient Balance")],
)
def test_what_is_about_the_clients_model_or_purse_goes_through(status: int, message: str) -> None:
    error = failure(status, {}, json.dumps({"error": {"message": message}}), None)
    assert client_error(error).status == status
    assert message in client_error(error).message


def test_a_404_without_words_about_a_model_is_about_the_route() -> None:
    for body in ("", "Not Found", '{"detail": "Not Found"}', "<html>model</html>"):
        assert client_error(failure(404, {}, body, None)).status == 502
