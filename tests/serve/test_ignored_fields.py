"""Fields that were not read: named in a header, and counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from gateway import gateway, gateway_before, run
from standins import ChatServer
from test_healing import answer
from test_metrics import counts

from dsv4.serve.observe.logs import TextFormatter

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
HEADER = "x-dsv4-ignored"


USER = {"role": "user", "content": "Hi"}


def body(protocol: str, **fields: Any) -> dict[str, Any]:
    said = {"input": "Hi"} if protocol == "responses" else {"messages": [USER], "max_tokens": 9}
    return {**said, **fields}


def headers_of(protocol: str, *bodies: dict[str, Any]) -> tuple[list[Any], dict[str, float]]:
    """The header of each answer, and what was counted."""

    async def scenario() -> tuple[list[Any], dict[str, float]]:
        found = []
        async with gateway() as g:
            for each in bodies:
                _, headers, _ = await g.post(PATHS[protocol], each)
                found.append(headers.get(HEADER))
            _, text = await g.get("/metrics")
        return found, counts(text)

    found: tuple[list[Any], dict[str, float]] = run(scenario())
    return found


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("protocol", PATHS)
def test_they_are_named_and_counted(protocol: str, stream: bool) -> None:
    unread = body(protocol, service_tier="auto", future=1, stream=stream)
    (named, none), counted = headers_of(protocol, unread, body(protocol, stream=stream))
    assert named == "service_tier, future"
    assert none is None
    name = f'dsv4_ignored_fields_total{{field="%s",protocol="{protocol}"}}'
    assert counted[name % "service_tier"] == 1
    assert counted[name % "other"] == 1
    assert name % "future" not in counted


def test_a_name_cannot_add_a_header_or_make_one_too_long() -> None:
    hostile = body("chat", **{"a\r\nset-cookie: b=c": 1, "ü\ud800": 1, "x" * 10_000: 1})
    many = body("chat", **{f"f{n}": n for n in range(100)})
    (first, second), _ = headers_of("chat", hostile, many)
    assert first == f"a%0D%0Aset-cookie%3A%20b%3Dc, %C3%BC%5Cud800, {'x' * 64}"
    assert second.startswith("f0, f1, ")
    assert second.endswith(", f19, +80")


def test_a_stored_response_is_continued_by_a_field_that_is_read() -> None:
    async def scenario() -> Any:
        async with gateway() as g:
            _, _, first = await g.post("/v1/responses", body("responses"))
            more = body("responses", previous_response_id=first["id"], store=True)
            _, headers, _ = await g.post("/v1/responses", more)
            return headers.get(HEADER)

    assert run(scenario()) is None


def test_a_chat_server_behind_gets_all_fields_and_none_is_called_ignored(tokenizer: Any) -> None:
    extra = {"web_search_options": {}, "documents": [{"text": "A"}], "future": 1}

    async def scenario() -> tuple[Any, Any]:
        server = ChatServer(tokenizer, answer({"content": "Hello."}))
        async with gateway_before(server.running()) as g:
            status, headers, _ = await g.post(PATHS["chat"], body("chat", **extra))
            assert status == 200
            return headers.get(HEADER), server.requests[-1]

    named, sent = run(scenario())
    assert named is None
    assert {name: sent[name] for name in extra} == extra


def test_the_log_has_them_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dsv4.serve"):
        headers_of("chat", body("chat", service_tier="auto", future=1), body("chat"))
    lines = [TextFormatter().format(record) for record in caplog.records]
    requests = [line for line in lines if "/v1/chat/completions" in line]
    assert 'ignored="service_tier, future"' in requests[0]
    assert "ignored" not in requests[1]
