"""Which dialects a prompt may be of."""

from __future__ import annotations

import pytest

import dsv4
from dsv4._decode.dialect_detection import dialects_of
from rows import each_row

USER = [{"role": "user", "content": "Hi"}]
V4_1 = ["v4.1", "v4.1-1017"]
CALL = {"function": {"name": "f", "arguments": "{}"}}
CALLED = [*USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": "r"}]


def names(text: str) -> list[str]:
    return [dialect.name for dialect in dialects_of(text)]


@pytest.mark.parametrize("dialect", dsv4.DIALECTS)
@pytest.mark.parametrize("thinking", [True, False])
@each_row("messages", [USER, CALLED])
def test_the_right_one_is_among_them(dialect: str, thinking: bool, messages: list) -> None:
    text = dsv4.encode(messages, dialect=dialect, thinking=thinking).text
    assert dialect in names(text)
    decoded = dsv4.decode(text)
    assert decoded.exact
    # Where the markup of its calls is taken for an older release's, they would be text.
    assert [len(turn.get("tool_calls") or ()) for turn in decoded.request.messages] == [
        len(turn.get("tool_calls") or ()) for turn in messages
    ]


def test_nothing_tells_them_apart() -> None:
    text = dsv4.encode(USER, thinking=False).text
    assert names(text) == list(dsv4.DIALECTS)
    decoded = dsv4.decode(text)
    assert decoded.request.dialect == "v4"
    assert "dialect-ambiguous" in [note.kind for note in decoded.notes]


@pytest.mark.parametrize(
    ("dialect", "options", "expected"),
    [
        ("v4.1", {}, ["v4.1", "v4.1-1017"]),
        ("v4-0731", {"effort": "max"}, ["v4-0731", "v4-vision"]),
        ("v4", {"effort": "max"}, ["v4", "v4-0731", "v4-vision"]),
    ],
)
def test_an_effort_tells(dialect: str, options: dict, expected: list[str]) -> None:
    assert names(dsv4.encode(USER, dialect=dialect, **options).text) == expected


def test_calls_tell() -> None:
    assert names(dsv4.encode(CALLED, dialect="v4.1", thinking=False).text) == V4_1
    assert "v4.1" not in names(dsv4.encode(CALLED, dialect="v4").text)


def test_a_sign_that_a_text_spells() -> None:
    text = dsv4.encode([{"role": "user", "content": "<｜DSML｜function_calls>"}]).text
    decoded = dsv4.decode(text)
    assert decoded.exact
    assert decoded.request.messages[0]["content"] == "<｜DSML｜function_calls>"  # type: ignore[index]


def test_an_open_and_empty_answer_of_v4_1() -> None:
    """It ends like a header of V3.2, before which no system token can stand."""
    open_answer = {"role": "assistant", "content": "", "wo_eos": True}
    messages = [{"role": "user", "content": "a"}, open_answer, {"role": "user", "content": "b"}]
    decoded = dsv4.decode(str(dsv4.encode(messages, dialect="v4.1")))
    assert decoded.dialects == ("v4.1", "v4.1-1017")
    assert decoded.exact


LOOP = [
    *({"role": "user", "content": "Hi"}, {"role": "assistant", "reasoning_content": "0"}, *USER),
    {"role": "assistant", "reasoning_content": "1", "tool_calls": [CALL]},
    {"role": "tool", "content": "r"},
]


@each_row(
    "messages, dialect, expected",
    [
        # Both drop the reasoning before the last question.
        (LOOP[:3], "v4.1", ("v4.1", "v4.1-1017")),
        (LOOP[:3], "v4.1-1017", ("v4.1", "v4.1-1017")),
        # Only the older one drops that of a running loop; but the result may be a user's text.
        (LOOP, "v4.1", ("v4.1", "v4.1-1017")),
        # Only the newer one keeps it, and drops what is older.
        (LOOP, "v4.1-1017", ("v4.1-1017",)),
        # Without a question before, `drop_thinking` explains the same prompt.
        (LOOP[2:], "v4.1-1017", ("v4.1", "v4.1-1017")),
    ],
)
def test_reasoning_of_a_running_loop_tells_the_releases_of_v4_1_apart(
    messages: list, dialect: str, expected: tuple[str, ...]
) -> None:
    decoded = dsv4.decode(dsv4.encode(messages, dialect=dialect).text)
    assert decoded.exact
    assert (decoded.dialects, decoded.request.dialect) == (expected, expected[0])
