"""Log probabilities find the texts of their tokens, however the parser cuts these."""

from __future__ import annotations

from typing import Any

from dsv4._completion.events import ContentDelta, Event, ReasoningDelta, ToolCallStart
from dsv4.api import chat
from dsv4.serve.backend import Chunk, Logprob
from dsv4.serve.choice_reader import CompletionReader, TokenLogprobs
from dsv4.tokens import Tokenizer


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


def test_the_likeliest_come_first_and_no_more_than_were_asked_for() -> None:
    """A server gives the token itself too, wherever it stands."""
    logprobs, event = TokenLogprobs(most=2), ContentDelta("c")
    top = (("c", -5.0), ("a", -1.0), ("b", -2.0))
    logprobs.give([Logprob("c", -5.0, top)], [event])
    (found,) = logprobs.of(event) or ()
    assert [each["token"] for each in found["top_logprobs"]] == ["a", "b"]


def test_the_bytes_of_a_split_character_are_those_of_the_ids(tokenizer: Tokenizer) -> None:
    text = "🛰️ é"
    ids = tokenizer.encode_text(text)
    assert len(ids) > 3, "no character of it is split"
    logprobs, event = TokenLogprobs(tokenizer), ContentDelta(text)
    known = [Logprob("", -1.0, (("", -1.0),), id, (id,)) for id in ids]
    logprobs.give([Logprob("</think>", -1.0), *known], [event])
    found = logprobs.of(event) or ()
    assert bytes(byte for each in found for byte in each["bytes"]).decode() == text
    assert [each["top_logprobs"][0]["bytes"] for each in found] == [e["bytes"] for e in found]


def test_numbers_alone_are_those_of_the_ids(tokenizer: Tokenizer) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True}
    call = chat.read({**body, "thinking": {"type": "disabled"}})
    reader = CompletionReader(call, call.request.encode(), tokenizer)
    ids = tokenizer.encode_text("naïve é")
    events = reader.feed(Chunk(ids=ids, logprobs=[-float(n) for n in range(len(ids))]))
    found = [each for event in events for each in reader.logprobs_of(event) or ()]
    assert [(bytes(each["bytes"]), each["logprob"]) for each in found] == [
        (tokenizer.bytes_of(id), -n) for n, id in enumerate(ids)
    ]
    assert [each["top_logprobs"] for each in found] == [[]] * len(ids)
    assert list(reader.token_logprobs) == [-n for n in range(len(ids))]
