"""`dsv4 heal` before the stand-in for the official API: what clients send is taken."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web
from gateway import Gateway, gateway, gateway_before, run
from standins import ChatServer

from dsv4.tokens import Tokenizer

REQUESTS = Path(__file__).parent / "dsh"  # made from its public source, not recorded
DSH = sorted(REQUESTS.glob("dsh-*.json"))
RECORDED = sorted((REQUESTS.parent.parent / "api/requests").glob("*.json"))
USER = {"role": "user", "content": "hi"}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SCHEMA = {"name": "n", "schema": {"type": "object"}}
SEARCHED = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    {"type": "text", "text": "found"},
]


@asynccontextmanager
async def healed() -> AsyncIterator[Gateway]:
    async with (
        gateway(stand_in="deepseek-api") as api,
        gateway(settings_backend="chat", upstream=api.url, adapt_for="deepseek-api") as heal,
    ):
        yield heal


@pytest.mark.parametrize("path", DSH, ids=lambda path: path.stem)
def test_requests_of_dsh(path: Path) -> None:
    """DeepSeek's own agent, straight to the stand-in and through heal."""
    asked = json.loads(path.read_text("utf-8"))

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as api:
            assert (await api.post(asked["path"], asked["body"]))[0] == 200
        async with healed() as heal:
            status, headers, answer = await heal.post(asked["path"], asked["body"])
            assert (status, headers.get("x-dsv4-adapted")) == (200, None), answer

    assert DSH
    run(scenario())


@pytest.mark.parametrize("model", ["deepseek-flash", "deepseek-v4-pro"])
def test_requests_of_other_clients(model: str) -> None:
    """Claude Code, Codex, opencode and others, as they were recorded: none is refused."""

    async def scenario() -> None:
        async with healed() as heal:
            for path in RECORDED:
                asked = json.loads(path.read_text("utf-8"))
                body = {**asked["body"], "model": model}
                status, _, answer = await heal.post(asked["path"], body)
                text = json.dumps(answer)
                failed = '"type": "error"' in text or '\\"error\\": {' in text
                assert (status, failed) == (200, False), (path.stem, answer)

    assert len(RECORDED) > 25
    run(scenario())


@pytest.mark.parametrize(
    ("protocol", "body", "adapted"),
    [
        ("chat", {"messages": [USER, {"role": "assistant", "content": "H", "prefix": True}]}, None),
        (
            "chat",  # calls whose results are lost, and an answer to continue
            {
                "messages": [
                    *(USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}),
                    {"role": "assistant", "content": "H", "prefix": True},
                ]
            },
            "results,continuation,missing-reasoning",
        ),
        (
            "chat",
            {"messages": [USER], "response_format": {"type": "json_schema", "json_schema": SCHEMA}},
            "response-format",
        ),
        ("chat", {"messages": [USER], "tools": [{"type": "deepseek_web_search"}]}, None),
        (
            "chat",
            {"messages": [{"role": "latest_reminder", "content": "2026-11-09,Monday"}, USER]},
            None,
        ),
        ("chat", {"messages": [USER], "safety_check": {"level": "low"}}, None),
        ("messages", {"model": "claude-opus-5", "messages": [USER]}, "model-name"),
        (
            "messages",
            {"model": "deepseek-flash[1m]", "max_tokens": 500_000, "messages": [USER]},
            "model-name,limits",
        ),
        (
            "messages",
            {"messages": [USER, {"role": "assistant", "content": SEARCHED}, USER]},
            None,
        ),
        ("responses", {"input": "hi", "safety_check": {"level": "high"}}, None),
    ],
)
def test_what_the_api_would_refuse_or_lose(
    protocol: str, body: dict[str, Any], adapted: str | None
) -> None:
    async def scenario() -> None:
        async with healed() as heal:
            sent = {"model": "deepseek-flash", **body}
            if protocol == "messages":
                sent.setdefault("max_tokens", 64)
            status, headers, answer = await heal.post(PATHS[protocol], sent)
            assert (status, headers.get("x-dsv4-adapted")) == (200, adapted), answer

    run(scenario())


class ApiWithFim(ChatServer):
    """The API's routes for the middle of a text and for files, which the stand-in does not have."""

    routes: ClassVar[dict[str, str]] = {
        **ChatServer.routes,
        "/beta/completions": "fill",
        "/files": "upload",
    }

    async def fill(self, request: web.Request) -> web.Response:
        return web.json_response({"asked": await request.json()})

    async def upload(self, request: web.Request) -> web.Response:
        kinds = request.headers.getall("content-type")
        fields = {name: str(value) for name, value in (await request.post()).items()}
        return web.json_response({"kinds": kinds, "fields": fields})


FILE = {"type": "file", "file_id": "file-api-1"}


@pytest.mark.parametrize(
    ("protocol", "body", "passed_to"),
    [
        (
            "messages",
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "/anthropic/v1/messages",
        ),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image", "source": FILE}]}]},
            "/anthropic/v1/messages",
        ),
        (
            "messages",
            {"messages": [{"role": "latest_reminder", "content": "2026-11-09,Monday"}, USER]},
            "/anthropic/v1/messages",
        ),
        ("responses", {"tools": [{"type": "deepseek_web_search"}]}, "/responses"),
        (
            "responses",
            {"text": {"format": {"type": "json_schema", **SCHEMA}}, "store": False},
            "/responses",
        ),
        # A format that can be told to the model is no reason where the response is to be kept, and
        # nothing may be lost on the way: an answer that is not read has the API's names of tools.
        ("responses", {"text": {"format": {"type": "json_schema", **SCHEMA}}}, None),
        ("responses", {"tools": [{"type": "web_search"}, {"type": "custom", "name": "x"}]}, None),
        ("messages", {}, None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_only_the_apis_own_route_knows(
    protocol: str, body: dict[str, Any], passed_to: str | None, stream: bool
) -> None:
    usual = (
        {"messages": [USER], "max_tokens": 500_000} if protocol == "messages" else {"input": "h"}
    )

    async def scenario() -> None:
        async with healed() as heal:
            hosted = {tool["type"] for tool in body.get("tools", ())} & {"web_search"}
            left_out = "tools.web_search" if hosted and passed_to is None else None
            for stream in (False, True):
                sent = {"model": "deepseek-flash[1m]", **usual, **body, "stream": stream}
                status, headers, _ = await heal.post(PATHS[protocol], sent)
                assert (status, headers.get("x-dsv4-passed-to")) == (200, passed_to)
                assert headers.get("x-dsv4-ignored") == left_out

    run(scenario())


def test_fim_goes_to_the_apis_own_route(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        api = ApiWithFim(tokenizer, "[]")
        async with gateway_before(api.running(), adapt_for="deepseek-api") as heal:
            body = {"model": "deepseek-flash", "prompt": "a", "suffix": "c", "max_tokens": 4}
            status, _, answer = await heal.post("/beta/completions", body)
            assert (status, answer) == (200, {"asked": body})
            assert (await heal.post("/beta/embeddings", body))[0] == 404

    run(scenario())


def test_a_file_is_sent_up_as_the_form_that_it_is(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        api = ApiWithFim(tokenizer, "[]")
        async with gateway_before(api.running(), adapt_for="deepseek-api") as heal:
            kind = "multipart/form-data; boundary=x"
            head = b'Content-Disposition: form-data; name="purpose"'
            form = b"\r\n".join([b"--x", head, b"", b"user_data", b"--x--", b""])
            sent = {"content-type": kind}
            status, _, answer = await heal.post("/files", form, **sent)
            assert (status, answer) == (200, {"kinds": [kind], "fields": {"purpose": "user_data"}})
            assert (await heal.post("/beta/completions", form, **sent))[0] == 415

    run(scenario())
