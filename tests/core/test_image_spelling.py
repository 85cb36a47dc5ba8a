"""V4.1 refuses a text that spells its image token, wherever it stands, and says where."""

from __future__ import annotations

from typing import Any

import pytest

import dsv4
from builders import assistant, function, image, result, system, text, user

IMAGE = "<｜deepseek_image｜>"


class Secretive(str):
    def __contains__(self, part: object) -> bool:
        return False


def refused_at(*messages: Any, **options: Any) -> str:
    with pytest.raises(dsv4.EncodeError, match="expected it only where an image stands") as caught:
        dsv4.encode(list(messages), dialect="v4.1", **options)
    return caught.value.path


@pytest.mark.parametrize(
    "content",
    [
        IMAGE,
        f"see {IMAGE}.",
        Secretive(IMAGE),
        [IMAGE],
        (IMAGE,),
        [text("a"), Secretive(IMAGE)],
        [image(), text(IMAGE)],
        [{"type": "tool_result", "content": IMAGE}],
        [{"type": "tool_result", "content": [text(IMAGE)]}],
        [{"type": "tool_result", "content": [IMAGE]}],
    ],
)
def test_every_form_of_content(content: Any) -> None:
    assert refused_at(user(), result(content)) == "messages[1].content"
    assert refused_at(user(), user(content)) == "messages[1].content"


@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content"])
def test_every_field(field: str) -> None:
    message = {**assistant(), field: IMAGE}
    assert refused_at(user(), message) == f"messages[1].{field}"
    assert refused_at(user(), message, user()) == f"messages[1].{field}"
    assert refused_at(user(), context=[message]) == f"context[0].{field}"


def test_messages_are_counted_as_the_caller_does() -> None:
    assert refused_at(user(IMAGE), tools=[function()]) == "messages[0].content"
    assert refused_at(system(), user(IMAGE), tools=[function()]) == "messages[1].content"


def test_images_are_no_texts() -> None:
    prompt = dsv4.encode([user([text("a"), image(IMAGE)])], dialect="v4.1")
    assert str(prompt).count(IMAGE) == 1
    assert prompt.images == [{"type": "image", "url": IMAGE}]


@pytest.mark.parametrize("dialect", ["v4", "v4-0731"])
def test_other_dialects_have_no_such_token(dialect: str) -> None:
    assert IMAGE in str(dsv4.encode([user(IMAGE)], dialect=dialect))
