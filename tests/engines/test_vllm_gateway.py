"""The gateway in front of a real vLLM that has no parsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from corpus_rows import Row, rows
from gateway_process import RunningGateway, running_gateway
from protocol_clients import (
    Body,
    chat_body,
    chat_reading,
    chat_stream_reading,
    limit,
    messages_body,
    messages_reading,
    messages_stream_reading,
    posted,
    responses_body,
    responses_reading,
    responses_stream_reading,
    together,
)
from vllm_process import RunningVllm, TinyModel

ROWS = rows()


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served("--enable-prompt-tokens-details") as server:
        yield server


@pytest.fixture(scope="module")
def gateway(vllm: RunningVllm) -> Iterator[RunningGateway]:
    with running_gateway("--backend", "vllm", "--upstream", vllm.url) as running:
        yield running


def thinking_chat_body(row: Row, said: str, most: int) -> Body:
    switch = {"type": "enabled" if row.thinking else "disabled"}
    return chat_body(row, said, most, thinking=switch)


PROTOCOLS: dict[str, tuple[str, Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "chat": ("/v1/chat/completions", thinking_chat_body, chat_reading, chat_stream_reading),
    "messages": ("/v1/messages", messages_body, messages_reading, messages_stream_reading),
    "responses": ("/v1/responses", responses_body, responses_reading, responses_stream_reading),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_row_of_the_corpora(
    protocol: str, streamed: bool, gateway: RunningGateway, model: TinyModel
) -> None:
    path, body_of, read_whole, read_stream = PROTOCOLS[protocol]
    read = read_stream if streamed else read_whole

    async def ask(client: Any, row: Row) -> str | None:
        ids = model.scripts.ids(row.text)
        said = model.scripts.add(row.name, ids)
        body = body_of(row, said, limit(row, ids)) | {"stream": streamed}
        found, expected = read(await posted(client, gateway.url + path, body)), row.parsed()
        return None if found == expected else f"{row.name}\n  {found}\n  {expected}"

    wrong = [text for text in together(ask, ROWS) if text]
    assert not wrong, f"{len(wrong)} of {len(ROWS)}:\n" + "\n".join(wrong[:20])
