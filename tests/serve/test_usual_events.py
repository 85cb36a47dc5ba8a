"""Events that are read by their form bring what they bring when each is read as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.backends.chat_events import ChatEvents
from dsv4.serve.backends.vllm import read_completion
from dsv4.serve.upstreams.answer_chunks import ChunkReader, ReadEvent

Event = dict[str, Any]


def of_chat(text: str, id: int) -> Event:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "x", "choices": [choice]}


def of_thoughts(text: str, id: int) -> Event:
    choice = {"index": 0, "delta": {"reasoning": text}, "logprobs": None, "finish_reason": None}
    return {"id": text, "choices": [choice]}


def of_text(text: str, id: int) -> Event:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None}]}


def of_ids(text: str, id: int) -> Event:
    return {"choices": [{"text": text, "finish_reason": None, "token_ids": [id]}], "usage": None}


def of_ids_first(text: str, id: int) -> Event:
    return {"choices": [{"token_ids": [id], "text": text, "finish_reason": None}], "n": id}


FORMS: dict[Callable[[str, int], Event], Callable[[], ReadEvent]] = {
    of_chat: lambda: ChatEvents().read,
    of_thoughts: lambda: ChatEvents().read,
    of_text: lambda: read_completion,
    of_ids: lambda: read_completion,
    of_ids_first: lambda: read_completion,
}
SOME_TEXTS = [
    "a",
    "b",
    "text",
    "",
    '"',
    "\\",
    "\n",
    "é",
    "空",
    "\u2028",
    "\x00",
    "tried",
    '"error"',
]
texts = st.sampled_from(SOME_TEXTS) | st.text(max_size=8)
ids = st.integers(0, 10**10)


def said_of(reader: ChunkReader, parts: list[bytes]) -> list[Chunk | str]:
    """What a reader makes of an answer, up to its failure."""
    said: list[Chunk | str] = []
    try:
        for part in parts:
            said += reader.feed(part)
        reader.check_end()
    except BackendError as error:
        said.append(error.message)
    return said


def frame(event: Event, escapes: bool) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=escapes).encode("utf-8", "replace") + b"\n\n"


@given(
    st.lists(
        st.tuples(st.sampled_from(list(FORMS)), texts, ids) | st.binary(max_size=6), max_size=12
    ),
    st.sampled_from(list(FORMS.values())),
    st.booleans(),
    st.sets(st.integers(0, 2000), max_size=3),
)
def test_all_answers_are_read_alike(
    pieces: list[tuple[Callable[[str, int], Event], str, int] | bytes],
    make_read: Callable[[], ReadEvent],
    escapes: bool,
    cuts: set[int],
) -> None:
    """Events of several forms and what is none, one in each part, but for a few that are cut."""
    parts: list[bytes] = []
    at = 0
    for piece in pieces:
        data = piece if isinstance(piece, bytes) else frame(piece[0](*piece[1:]), escapes)
        inside = sorted(cut - at for cut in cuts if at < cut < at + len(data))
        bounds = zip([0, *inside], [*inside, len(data)], strict=True)
        parts += [data[start:end] for start, end in bounds if end > start]
        at += len(data)
    parts.append(b"data: [DONE]\n\n")
    by_form = said_of(ChunkReader(make_read(), by_form=True), parts)
    assert by_form == said_of(ChunkReader(make_read()), parts)


@pytest.mark.parametrize("event", [of_chat, of_text, of_ids])
def test_most_events_of_an_answer_are_read_by_form(event: Callable[[str, int], Event]) -> None:
    count = 0
    read = FORMS[event]()

    def counted(each: Event) -> Chunk | list[Chunk]:
        nonlocal count
        count += 1
        return read(each)

    reader = ChunkReader(counted, by_form=True)
    words = [f"word {n}" for n in range(100)]
    said = [c for n, w in enumerate(words) for c in reader.feed(frame(event(w, n), False))]
    assert [c.text or (c.delta or {})["content"] for c in said] == words
    assert count < 10


def test_events_of_which_no_two_are_alike_are_rarely_looked_at() -> None:
    count = 0

    def counted(event: Event) -> Chunk | list[Chunk]:
        nonlocal count
        count += 1
        return read_completion(event)

    reader = ChunkReader(counted, by_form=True)
    for n in range(1000):
        reader.feed(frame({**of_text("word", 0), "created": n}, False))
    assert 1000 < count < 1020


@pytest.mark.parametrize("name", ["event: error\n", "data: 1\n", "id: 1"])
def test_a_line_before_counts(name: str) -> None:
    """It came in a part of its own, and changes what the next event is."""
    word = frame(of_text("word", 0), False)
    parts = [word, word, name.encode(), word, word]
    said = said_of(ChunkReader(read_completion, by_form=True), parts)
    assert said == said_of(ChunkReader(read_completion), parts)
    assert len(said) < 5


def test_a_choice_with_nothing_in_it_does_not_say_which_one_the_answer_has() -> None:
    events = ChatEvents()
    events.read({"choices": [{}]})
    (chunk,) = events.read({"choices": [{"index": 1, "delta": {"content": "a"}}]})
    assert chunk.delta == {"content": "a"}
