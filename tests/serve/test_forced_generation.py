"""A forced call after reasoning, on backends that take no grammars: two generations, one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from gateway import TOOLS, gateway, run

from dsv4._format.dialects import V4
from dsv4._format.tokens import EOS, THINK_END
from dsv4.serve import Chunk, Model
from dsv4.serve.backend import Counts, Logprob, Options
from dsv4.serve.forced_generation import written_text
from dsv4.tokens import Tokenizer

OPENING = V4.tags.block_open
INVOKE = f'{V4.tags.invoke_open}bash">\n'
REST = (
    f'{V4.tags.parameter_open}command" string="true">ls{V4.tags.parameter_close}'
    f"{V4.tags.invoke_close}{V4.tags.block_close}"
)
BASH = {"type": "function", "function": {"name": "bash"}}


class TwoTexts:
    """A backend that gives one text after the other, and stops where it is asked to.

    With a tokenizer it speaks in ids. `heeds` says whether it knows what to stop at.
    """

    grammar_form = None
    logprobs_mode = "raw"

    def __init__(
        self, *texts: str, tokenizer: Tokenizer | None = None, heeds: bool = True, size: int = 5
    ) -> None:
        self.texts = list(texts)
        self.tokenizer = tokenizer
        self.heeds = heeds
        self.size = size
        self.asked: list[tuple[str, Sequence[int] | None, Options]] = []

    async def stream(self, prompt: Any, ids: Any, options: Options) -> AsyncIterator[Chunk]:
        self.asked.append((prompt.text, ids, options))
        text, finish = self.texts.pop(0), "eos"
        if self.tokenizer is None:
            stop = next((s for s in options.stop_tokens if self.heeds and s in text), None)
            if stop is not None:
                text, finish = text[: text.index(stop)], "stop"
            for n in range(0, len(text), self.size):
                yield Chunk(text[n : n + self.size], logprobs=(Logprob("t", -1.0),))
            yield Chunk(finish=finish)
            return
        sampled = self.ids(text)
        for id in options.stop_tokens.values():
            if self.heeds and id in sampled:
                del sampled[sampled.index(id) + 1 :]
                finish = "stop"
        if len(sampled) > options.max_tokens:
            sampled, finish = sampled[: options.max_tokens], "length"
        for id in sampled:
            yield Chunk(ids=[id])
        counts = Counts(len(ids or ()), 7, len(sampled))
        yield Chunk(ids=[], finish=finish, counts=counts)

    def ids(self, text: str) -> list[int]:
        return list(written_text(text, self.tokenizer).ids or ())

    async def models(self) -> list[Model]:
        return [Model("deepseek-v4", 100_000)]

    async def aclose(self) -> None:
        pass


async def asked(backend: TwoTexts, choice: Any = "required", **more: Any) -> dict[str, Any]:
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": TOOLS,
        "tool_choice": choice,
        "thinking": {"type": "enabled"},
        **more,
    }
    async with gateway(backend) as g:
        if backend.tokenizer is None:
            g.server.model.tokenizer = None
        status, _, answer = await g.post("/v1/chat/completions", body)
        assert status == 200, answer
        return dict(answer)


def call_of(answer: dict[str, Any]) -> tuple[str, str, str]:
    (choice,) = answer["choices"]
    (call,) = choice["message"]["tool_calls"]
    reasoning = choice["message"]["reasoning_content"]
    return reasoning, call["function"]["arguments"], choice["finish_reason"]


EXPECTED = ("Hm. So.", '{"command": "ls"}', "tool_calls")


@pytest.mark.parametrize("heeds", [True, False])
@pytest.mark.parametrize("as_ids", [True, False])
@pytest.mark.parametrize(("choice", "opening"), [("required", OPENING), (BASH, OPENING + INVOKE)])
def test_the_second_generation_goes_on_behind_the_opening(
    choice: Any, opening: str, as_ids: bool, heeds: bool, tokenizer: Tokenizer
) -> None:
    used = tokenizer if as_ids else None
    rest = (INVOKE if choice == "required" else "") + REST + EOS
    # What it says after the reasoning, where it does not stop, is not what was asked for.
    backend = TwoTexts(f"Hm. So.{THINK_END}No call.{EOS}", rest, tokenizer=used, heeds=heeds)
    assert call_of(run(asked(backend, choice))) == EXPECTED
    (first, ids, _), (second, later, _) = backend.asked
    assert second == f"{first}Hm. So.{THINK_END}{opening}"
    if as_ids:
        assert later == [*(ids or ()), *backend.ids(f"Hm. So.{THINK_END}{opening}")]


def test_a_model_that_ends_without_an_end_of_its_reasoning(tokenizer: Tokenizer) -> None:
    for used in (None, tokenizer):
        backend = TwoTexts(f"Hm. So.{EOS}", INVOKE + REST + EOS, tokenizer=used, size=99)
        assert call_of(run(asked(backend))) == EXPECTED
        assert backend.asked[1][0].endswith(f"Hm. So.{THINK_END}{OPENING}")


def test_counts_are_those_of_one_generation(tokenizer: Tokenizer) -> None:
    backend = TwoTexts(f"Hm. So.{THINK_END}", INVOKE + REST + EOS, tokenizer=tokenizer)
    usage = run(asked(backend, max_tokens=100))["usage"]
    (_, ids, first), (_, _, second) = backend.asked
    reasoning = len(backend.ids(f"Hm. So.{THINK_END}"))
    assert usage["prompt_tokens"] == len(ids or ())
    assert usage["prompt_tokens_details"]["cached_tokens"] == 7
    assert usage["completion_tokens"] == reasoning + len(backend.ids(INVOKE + REST + EOS))
    assert usage["completion_tokens_details"]["reasoning_tokens"] == reasoning - 1
    assert (first.max_tokens, second.max_tokens) == (100, 100 - reasoning)


def test_reasoning_that_is_cut_is_the_whole_answer(tokenizer: Tokenizer) -> None:
    backend = TwoTexts(f"Hm. So.{THINK_END}", tokenizer=tokenizer)
    answer = run(asked(backend, max_tokens=2))
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(backend.asked) == 1


def test_written_tokens_have_no_log_probabilities() -> None:
    backend = TwoTexts(f"ab{THINK_END}", INVOKE + REST + EOS, size=1)
    answer = run(asked(backend, logprobs=True))
    known = answer["choices"][0]["logprobs"]
    shown = [each for field in known.values() for each in field or ()]
    assert len(shown) <= 2
    assert {each["logprob"] for each in shown} == {-1.0}
