"""The gateway in front of a real vLLM that has no parsers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Any

import aiohttp
import pytest
from corpus_rows import Row, rows
from forced_completions import KINDS, Forced, problems
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
from vllm_process import OWN_PARSERS, RunningVllm, TinyModel
from walked_completions import END_ID, Walk, random_walks

from encoding_dsv4 import eos_token as EOS

ROWS = rows()


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served("--enable-prompt-tokens-details") as server:
        yield server


@pytest.fixture(scope="module")
def gateway(vllm: RunningVllm) -> Iterator[RunningGateway]:
    with running_gateway(*upstream(vllm)) as running:
        yield running


def upstream(vllm: RunningVllm) -> tuple[str, ...]:
    return ("--backend", "vllm", "--upstream", vllm.url)


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
    # Responses has no way to begin the model's turn.
    asked = [row for row in ROWS if protocol != "responses" or not row.prefix]

    async def ask(client: Any, row: Row) -> str | None:
        ids = model.scripts.ids(row.text)
        said = model.scripts.add(row.name, ids)
        body = body_of(row, said, limit(row, ids)) | {"stream": streamed}
        found, expected = read(await posted(client, gateway.url + path, body)), row.parsed()
        return None if found == expected else f"{row.name}\n  {found}\n  {expected}"

    none_differs(together(ask, asked))


def none_differs(problems: list[str | None]) -> None:
    wrong = [text for text in problems if text]
    assert not wrong, f"{len(wrong)} of {len(problems)}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_forced_calls_and_schemas(
    kind: str, thinking: bool, gateway: RunningGateway, model: TinyModel
) -> None:
    assert problems(kind, thinking, gateway.url, model.scripts) == []


def test_what_a_grammar_lets_through_is_read(gateway: RunningGateway, model: TinyModel) -> None:
    """Random walks by ids: the engine takes them under its mask, and the gateway reads them."""
    found = (each for seed in count() for each in random_walks(seed, 10))  # some come to no end
    walks = list(islice(found, 500))

    async def ask(client: Any, made: Walk) -> str | None:
        said = model.scripts.add(made.name, [*made.ids, END_ID])
        answer = await posted(client, f"{gateway.url}/v1/chat/completions", made.body(said))
        found = chat_reading(answer)
        return None if found.calls == made.calls else f"{made.name}\n  {found}\n  {made.calls}"

    none_differs(together(ask, walks))


def test_caches_and_log_probabilities(gateway: RunningGateway, model: TinyModel) -> None:
    text = "Hello 🛰!"
    said = model.scripts.add("logprobs", model.scripts.ids(f"{text}{EOS}"))
    body = {
        "messages": [{"role": "user", "content": f"{'word ' * 300}{said}"}],
        **{"thinking": {"type": "disabled"}, "max_tokens": 50, "temperature": 0},
        **{"logprobs": True, "top_logprobs": 3},
    }

    async def ask(client: Any, _: int) -> Any:
        return await posted(client, f"{gateway.url}/v1/chat/completions", body)

    together(ask, [0])
    (answer,) = together(ask, [1])
    details = answer["usage"]["prompt_tokens_details"]
    assert details["cached_tokens"] > 200, answer["usage"]
    known = answer["choices"][0]["logprobs"]["content"]
    assert bytes(byte for each in known for byte in each["bytes"]).decode() == text
    for each in known:
        values = [top["logprob"] for top in each["top_logprobs"]]
        assert len(values) == 3
        assert values == sorted(values, reverse=True)


SLOW = {
    "messages": [{"role": "user", "content": "SAY[slow:2000]"}],
    **{"stream": True, "max_tokens": 3000, "thinking": {"type": "disabled"}},
}


async def running_requests(client: Any, vllm: RunningVllm) -> float:
    async with client.get(f"{vllm.url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("vllm:num_requests_running")
    )


def test_a_client_that_leaves_frees_the_engine(gateway: RunningGateway, vllm: RunningVllm) -> None:
    async def ask(client: Any, _: int) -> bool:
        async with client.post(f"{gateway.url}/v1/chat/completions", json=SLOW) as response:
            await response.content.readuntil(b" word")
            assert await running_requests(client, vllm) == 1
        for _ in range(100):
            if not await running_requests(client, vllm):
                return True
            await asyncio.sleep(0.1)
        return False

    assert together(ask, [0]) == [True]


def test_an_engine_that_dies_and_comes_back(model: TinyModel) -> None:
    """The last of this file: it ends the server of its own."""
    said = model.scripts.add("again", model.scripts.ids(f"Hello.{EOS}"))
    asked = {**SLOW, "messages": [{"role": "user", "content": said}], "stream": False}

    async def dies(client: Any, vllm: RunningVllm) -> bytes:
        async with client.post(f"{gateway.url}/v1/chat/completions", json=SLOW) as response:
            begun: bytes = await response.content.readuntil(b" word")
            vllm.kill()
            with suppress(aiohttp.ClientError):
                async for piece in response.content.iter_any():
                    begun += piece
        return begun

    async def status(client: Any, _: int) -> int:
        async with client.get(f"{gateway.url}/ready") as response:
            return int(response.status)

    async def answers(client: Any, _: int) -> Any:
        answer = await posted(client, f"{gateway.url}/v1/chat/completions", asked)
        return chat_reading(answer).content

    with model.served() as vllm, running_gateway(*upstream(vllm)) as gateway:
        (said_to_client,) = together(dies, [vllm])
        assert b"error" in said_to_client
        assert b"[DONE]" not in said_to_client, "a clean end"
        assert together(status, [0]) == [503]
        with model.served(*OWN_PARSERS, port=vllm.port):
            assert together(status, [0]) == [200]
            assert together(answers, [0]) == ["Hello."]
            # The new one has a reasoning parser, which is found out before a grammar is sent.
            forced = [Forced("required", True, number, model.scripts) for number in range(4)]
            none_differs(together(lambda client, each: each.problem(client, gateway.url), forced))


def test_the_memory_that_a_server_takes(vllm: RunningVllm) -> None:
    assert vllm.memory() < 6 * 2**30
