"""Log probabilities find the texts of their tokens, however the parser cuts these."""

from __future__ import annotations

from typing import Any

from dsv4._parse.events import ContentDelta, Event, ReasoningDelta, ToolCallStart
from dsv4.serve.backend import Logprob
from dsv4.serve.choice_reader import TokenLogprobs


def given(*steps: tuple[list[str], list[Event]]) -> list[Any]:
    """The tokens that each text got, where a step is what came and what was shown of it."""
    logprobs = TokenLogprobs()
    for tokens, events in steps:
        logprobs.give([Logprob(token, -1.0) for token in tokens], events)
    shown = [event for _, events in steps for event in events]
    return [[known["token"] for known in logprobs.of(event) or ()] for event in shown]


def test_a_text_that_was_held_back_brings_all_its_tokens() -> None:
    assert given((["a <"], [ContentDelta("a ")]), (["b"], [ContentDelta("<b")])) == [["a <"], ["b"]]
    assert given((["<"], []), (["b"], [ContentDelta("<b")])) == [["<", "b"]]


def test_tokens_of_what_is_still_held_back_wait_for_it() -> None:
    steps = [(["Yes", "<"], [ContentDelta("Yes")]), (["b"], [ContentDelta("<b")])]
    assert given(*steps) == [["Yes"], ["<", "b"]]


def test_tokens_of_markup_belong_to_no_text() -> None:
    events: list[Event] = [ReasoningDelta("Hm")]
    steps = [(["Hm"], events), (["</think>"], []), (["Yes"], [ContentDelta("Yes")])]
    assert given(*steps) == [["Hm"], ["Yes"]]
    assert given((["<tag>"], [ToolCallStart(0, "f")])) == [[]]


def test_characters_that_are_cut_between_tokens_keep_their_tokens() -> None:
    assert given((["\ufffd"], []), (["\ufffd"], [ContentDelta("é")])) == [["\ufffd", "\ufffd"]]


def test_the_form_is_that_of_chat_completions() -> None:
    logprobs, event = TokenLogprobs(), ContentDelta("é")
    logprobs.give([Logprob("é", -0.5, (("é", -0.5), ("e", -2.0)))], [event])
    assert logprobs.of(event) == [
        {
            "token": "é",
            "logprob": -0.5,
            "bytes": [195, 169],
            "top_logprobs": [
                {"token": "é", "logprob": -0.5, "bytes": [195, 169]},
                {"token": "e", "logprob": -2.0, "bytes": [101]},
            ],
        }
    ]
