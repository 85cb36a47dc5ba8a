"""A real vLLM with its own parsers: what it makes of the corpora, its prompts, and the gateway in
front of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from corpus_rows import Row, rows_for_parsers
from forced_completions import KINDS, problems
from gateway_process import RunningGateway, running_gateway
from protocol_clients import Refused, posted, together
from readings_table import count
from requests_of import ROWS as REQUEST_ROWS
from requests_of import mutated
from scripted_rows import scripted_reading
from vllm_process import CONTEXT, MODEL_NAME, OWN_PARSERS, RunningVllm, Scripts, TinyModel

import dsv4
from dsv4 import profiles

ROWS = rows_for_parsers()
RANDOM_BODIES = 300


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served(*OWN_PARSERS) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(vllm: RunningVllm) -> Iterator[RunningGateway]:
    with running_gateway("--backend", "vllm", "--upstream", vllm.url) as running:
        yield running


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_forced_calls_and_schemas(
    kind: str, thinking: bool, gateway: RunningGateway, model: TinyModel
) -> None:
    assert problems(kind, thinking, gateway.url, model.scripts) == []


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_what_it_makes_of_the_corpora(streamed: bool, vllm: RunningVllm, model: TinyModel) -> None:
    """Counted for the table: what is right is the corpora's to say."""

    async def ask(client: Any, row: Row) -> Any:
        try:
            return await scripted_reading(client, vllm.url, row, model.scripts, streamed)
        except Refused:
            return None

    how = "streamed" if streamed else "complete"
    count(f"vLLM 0.32.0 served, {how}", zip(ROWS, together(ask, ROWS), strict=True))


# Prompts.


def predicted(body: Any, scripts: Scripts) -> list[int] | None:
    """The ids of the profile's prompt; None where it refuses the request, or where its text has
    half a character, which vLLM's encoder writes and its tokenizer refuses."""
    try:
        return scripts.ids(profiles.render(body, "vllm-0.32", dialect="v4"))
    except dsv4.Error:
        return None


async def prompt_of_vllm(client: Any, vllm: RunningVllm, body: Any) -> list[int] | None:
    """The ids that vLLM makes of a request; None where it refuses it."""
    asked = {
        **body,
        **{"model": MODEL_NAME, "max_tokens": 1, "return_token_ids": True},
        "stream": False,
    }
    try:
        answer = await posted(client, f"{vllm.url}/v1/chat/completions", asked)
    except Refused as refused:
        if refused.status != 400:
            raise
        if "Invalid grammar specification" in str(refused):
            # Of a strict tool: its prompt was made, and its schema is nothing to compile.
            known: list[int] = (await posted(client, f"{vllm.url}/tokenize", asked))["tokens"]
            return known
        return None
    ids: list[int] = answer["prompt_token_ids"]
    return ids


def bodies() -> list[Any]:
    known = [row["request"] for row in REQUEST_ROWS if row["dialect"] == "v4"]
    seeds = random.Random(0).sample(range(10**6), RANDOM_BODIES)
    return known + [mutated(seed) for seed in seeds]


def test_prompts_are_those_of_the_profile(vllm: RunningVllm, model: TinyModel) -> None:
    async def ask(client: Any, body: Any) -> str | None:
        expected = predicted(body, model.scripts)
        if expected is not None and len(expected) >= CONTEXT:
            return None
        found = await prompt_of_vllm(client, vllm, body)
        return None if found == expected else f"{body}\n  vLLM {found}\n  profile {expected}"

    asked = bodies()
    wrong = [problem for problem in together(ask, asked) if problem]
    assert not wrong, f"{len(wrong)} of {len(asked)}:\n" + "\n".join(wrong[:10])
