"""A conversation as training examples, for the price of what comes out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import EOS, assistant, call, calling, function, result, user
from dsv4.request import Request
from dsv4.tokens import Session, Tokenizer
from strategies import dialects, fitting, messages, options


def by_definition(tokenizer: Tokenizer, conversation: list[Any], chosen: Any) -> list[Any]:
    """Every stretch of assistant turns encoded with all before it; those that go on are left out.

    What it gives: the index from which on turns count, and the ids.
    """
    found: list[Any] = []
    start = end = 0
    for n in range(1, len(conversation) + 1):
        roles = [message["role"] for message in conversation[n - 1 : n + 1]]
        if roles[0] != "assistant" or roles[1:] == ["assistant"]:
            continue
        ids = tokenizer.encode(dsv4.encode(conversation[:n], **chosen))
        if end and ids[: len(found[-1][1])] != found[-1][1]:
            start = end
            found.append((start, ids))
        else:
            found[-1:] = [(start, ids)]
        end = n
    return found


@given(data=st.data())
def test_as_defined(data: st.DataObject, v4_1_file: str) -> None:
    tokenizer = Tokenizer.load(v4_1_file)
    chosen = data.draw(dialects.flatmap(options))
    if data.draw(st.booleans()):
        chosen["tools"] = [function("f")]
    drawn = data.draw(st.lists(messages, min_size=1, max_size=12))
    conversation = fitting(drawn, chosen["dialect"])
    try:
        expected = by_definition(tokenizer, conversation, chosen)
    except dsv4.EncodeError:
        return
    examples = tokenizer.expand(conversation, **chosen)
    assert [example.ids for example in examples] == [ids for _, ids in expected]
    for (start, _), example in zip(expected, examples, strict=True):
        attributed = tokenizer.attributed(example.prompt)
        assert attributed.ids == example.ids
        assert example.weights == attributed.weights(
            lambda piece, start=start: piece.origin == "model" and (piece.message or 0) >= start
        )


def test_a_role_that_the_dialect_lacks_is_dropped_as_encoding_drops_it(v4_1_file: str) -> None:
    conversation = [{"role": "developer", "content": "x"}, user("a"), assistant("b")]
    tokenizer = Tokenizer.load(v4_1_file)
    (example,) = tokenizer.expand(conversation, dialect="v4.1")
    assert example.ids == tokenizer.encode(dsv4.encode(conversation, dialect="v4.1"))


class Thing:
    """A message that is no dict."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self.fields


def test_objects_are_what_they_say(tokenizer: Tokenizer) -> None:
    """Not every object is an assistant's turn."""
    conversation = [user("Hi"), assistant("a", reasoning_content="r"), user("b"), assistant("c")]
    expected = tokenizer.expand(conversation)
    found = tokenizer.expand([Thing(message) for message in conversation])
    assert [example.ids for example in found] == [example.ids for example in expected]
    assert [example.weights for example in found] == [example.weights for example in expected]
    parsed = dsv4.parse(f"r</think>a{EOS}")
    assert tokenizer.expand([Thing(user("Hi")), parsed, user("b"), assistant("c")]) == expected


def test_a_request(tokenizer: Tokenizer) -> None:
    conversation = [user("Hi"), assistant("a", reasoning_content="r")]
    request = dsv4.Request(conversation, thinking=False)
    assert tokenizer.expand(request) == tokenizer.expand(conversation, thinking=False)
    with pytest.raises(dsv4.OptionError, match="found thinking beside a request"):
        tokenizer.expand(request, thinking=False)


@pytest.mark.parametrize("chosen", [{"tools": [function()]}, {"thinking": False}])
def test_one_example_is_encoded_once(
    chosen: Any, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are rendered, counted: as many for each message, however many there are."""
    rendered: list[int] = []
    encode = Request.encode

    def counted(self: Request) -> dsv4.Prompt:
        rendered.append(len(list(self.messages)))
        return encode(self)

    monkeypatch.setattr(Request, "encode", counted)
    work = []
    for turns in (50, 200, 800):
        rendered.clear()
        conversation = [
            message
            for n in range(turns)
            for message in (user(f"{n}?"), calling(call(id="a")), result(f"{n}", "a"), assistant())
        ]
        assert len(tokenizer.expand(conversation, **chosen)) == 1
        work.append(sum(rendered) / len(conversation))
    assert max(work) < min(work) * 1.1 < 8


def test_a_session_does_the_growing(tokenizer: Tokenizer) -> None:
    session = Session(tokenizer, thinking=False)
    session.append(user("a"))
    first = session.snapshot()
    session.append(assistant("b"))
    session.append(user("c"))
    session.snapshot()
    assert first.attributed.ids == tokenizer.encode(dsv4.encode([user("a")], thinking=False))
