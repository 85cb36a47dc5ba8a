"""Turn by turn: what is reused of what the engine held, where it breaks, and why."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import dsv4
from dsv4._playground import cache_view
from dsv4._playground.cache_view import VARIANTS, PromptMeter, last_turns
from dsv4._playground.page_examples import EXAMPLE_REQUESTS
from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_request import PlaygroundContext
from dsv4.tokens import Tokenizer, why_not_prefix
from dsv4.tokens.prefix_difference import DROPPED
from rows import each_row

TOKENIZER = Tokenizer.load()
BENCH = PlaygroundContext(tokenizer=TOKENIZER)


def asked(value: Any, bench: PlaygroundContext = BENCH, **body: Any) -> Any:
    return PAGE_FUNCTIONS["cache"]({"source": json.dumps(value), **body}, bench)


def lost(answer: Any) -> dict[str, int]:
    return {variant["name"]: variant["lost"] for variant in answer["variants"]}


def test_a_conversation_that_only_grows_is_reused_whole() -> None:
    answer = asked(EXAMPLE_REQUESTS["Several turns"])
    first, *others = answer["turns"]
    assert (first["held"], first["reused"], first["words"]) == (
        0,
        0,
        "nothing was held before this prompt: all of it is new",
    )
    for before, turn in pairwise([first, *others]):
        assert turn["reused"] == turn["held"] > turn["before"] == before["size"]
        assert turn["cause"] is None


def test_pictures_count_with_all_of_their_tokens() -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAA"
        "AACklEQVR42mNgAAAAAgABc3UBGAAAAABJRU5ErkJggg=="
    )
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}
    messages: list[Any] = [
        {"role": "user", "content": [shown, {"type": "text", "text": "What is it?"}]},
        {"role": "assistant", "content": "A pixel."},
        {"role": "user", "content": "And now?"},
    ]
    first, second = asked(messages, dialect="v4.1")["turns"]
    prompts = [dsv4.encode(messages[:n], dialect="v4.1") for n in (1, 3)]
    tokenizer = TOKENIZER.with_dialect(prompts[0].dialect)
    assert [first["size"], second["size"]] == [tokenizer.count(prompt) for prompt in prompts]
    assert second["reused"] > dsv4.image_grid(1, 1).tokens


def test_old_reasoning_breaks_the_prefix_and_says_why() -> None:
    messages = EXAMPLE_REQUESTS["Old reasoning, a list of messages"]
    [_, turn] = asked(messages)["turns"]
    assert turn["cause"] == DROPPED
    assert turn["reused"] < turn["before"]
    assert turn["words"] == f"it breaks in messages[2].header: {DROPPED}"
    start, end = turn["place"]
    assert json.dumps(messages)[start:end] == '"assistant"'


def test_keeping_old_reasoning_mends_it() -> None:
    [_, turn] = asked(EXAMPLE_REQUESTS["Old reasoning, a list of messages"], drop_thinking=False)[
        "turns"
    ]
    assert turn["reused"] == turn["held"]


# Those whose messages are the format's own.
PLAIN = [
    *("An agent, Chat Completions", "Old reasoning, a list of messages"),
    *("Several turns", "Text that spells tokens"),
]


@pytest.mark.parametrize("title", PLAIN)
@each_row("variant", VARIANTS)
def test_what_is_shared_is_what_the_ids_share(title: str, variant: str) -> None:
    value = EXAMPLE_REQUESTS[title]
    body = value if isinstance(value, dict) else {"messages": value}
    request = dsv4.Request(body["messages"], tools=body.get("tools"))
    sent = list(map(VARIANTS[variant][1], body["messages"]))
    turns = last_turns(request, variant, PromptMeter(TOKENIZER))
    for before, turn in pairwise(turns):
        answered = [*sent[: before.messages], body["messages"][before.messages]]
        held = dsv4.encode(answered, tools=body.get("tools"))
        prompt = dsv4.encode(sent[: turn.messages], tools=body.get("tools"))
        difference = why_not_prefix(held, prompt, TOKENIZER)
        assert turn.held == TOKENIZER.count(held)
        assert turn.size == TOKENIZER.count(prompt)
        if difference is None:
            assert (turn.reused, turn.cause) == (turn.held, None)
        else:
            found = (turn.reused, turn.message, turn.field, turn.cause)
            assert found == tuple(difference)


def test_a_client_that_drops_reasoning_loses_it() -> None:
    answer = asked(EXAMPLE_REQUESTS["Several turns"], variant="no_reasoning")
    assert lost(answer)["no_reasoning"] > 0
    assert [turn["field"] for turn in answer["turns"][1:]] == ["reasoning"] * 3
    assert "the client sent the turn back without its reasoning" in answer["turns"][1]["words"]


def test_a_client_that_sorts_arguments_loses_the_calls_that_were_not_sorted() -> None:
    answer = asked(EXAMPLE_REQUESTS["Several turns"], variant="sorted_arguments")
    assert lost(answer)["sorted_arguments"] > 0
    assert [turn["field"] for turn in answer["turns"]] == [None, None, None, "tool_calls"]


@pytest.mark.parametrize("title", EXAMPLE_REQUESTS)
def test_the_caller_s_conversation_is_counted_as_it_is_sent(title: str) -> None:
    answer = asked(EXAMPLE_REQUESTS[title])
    first = answer["variants"][0]
    assert first["lost"] == 0
    assert first["prompted"] == sum(turn["size"] for turn in answer["turns"])
    assert first["computed"] == sum(turn["size"] - turn["reused"] for turn in answer["turns"])


def test_v4_1_is_counted_with_the_bundled_vocabulary() -> None:
    answer = asked(EXAMPLE_REQUESTS["Several turns"], BENCH, dialect="v4.1")
    assert answer["unit"] == "tokens"
    assert not answer["no_tokens"]


def test_without_a_vocabulary_characters_are_counted() -> None:
    bench = PlaygroundContext()
    answer = asked(EXAMPLE_REQUESTS["Several turns"], bench, dialect="v4.1")
    assert answer["unit"] == "characters"
    assert answer["no_tokens"]
    last = PAGE_FUNCTIONS["text"](
        {"request": EXAMPLE_REQUESTS["Several turns"], "dialect": "v4.1"}, bench
    )
    assert answer["turns"][-1]["size"] == len(last["prompt"])


def test_a_conversation_that_ends_with_an_answer_has_no_prompt_after_it() -> None:
    messages = EXAMPLE_REQUESTS["Old reasoning, a list of messages"][:3]
    assert [turn["answer"] for turn in asked(messages)["turns"]] == [2]


def test_an_error_stands_at_its_place() -> None:
    with pytest.raises(dsv4.Error) as caught:
        asked([{"role": "user", "content": "Hi"}, {"role": 5}])
    assert caught.value.to_dict()["path"] == "[1].role"  # type: ignore[attr-defined]


def test_of_a_long_conversation_the_last_turns_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cache_view.max_turns(messages) for messages in (1, 601, 100_000)] == [200, 66, 10]
    monkeypatch.setattr(cache_view, "max_turns", {81: 12}.__getitem__)  # hundreds take seconds
    turn = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    answer = asked([*(turn * 40), {"role": "user", "content": "Bye"}], PlaygroundContext())
    assert len(answer["turns"]) == 12
    assert answer["left_out"] == 41 - 12
    assert answer["turns"][-1]["messages"] == 81


def test_work_grows_with_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text is given to the tokenizer once, however many prompts it is in."""
    read: list[str] = []
    encode = TOKENIZER.encode_text
    monkeypatch.setattr(TOKENIZER, "encode_text", lambda text: read.append(text) or encode(text))
    messages: list[Any] = []
    for n in range(60):
        messages += [
            {"role": "user", "content": f"Question {n}"},
            {"role": "assistant", "reasoning_content": f"Thought {n}", "content": f"Answer {n}"},
        ]
    measure = PromptMeter(TOKENIZER)
    last_turns(dsv4.Request(messages), "as_sent", measure, with_causes=False)
    assert len(read) == len(set(read))
    assert len(read) <= 4 * len(messages)
