"""Why one prompt does not go on where another ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given

import dsv4
from builders import assistant, call, calling, developer, function, reminder, result, system, user
from dsv4.tokens import Tokenizer, prefix_difference, why_not_prefix
from strategies import conversations, options

FORMAT = {"type": "json_object"}
ABRUPT = system("a")
REASONED = assistant(reasoning_content="r")
TWO_CALLS = calling(call(id="a"), call(id="b"))

MIXED = "the header or separator of the message differs"

Given = tuple[list[Any], dict[str, Any]]


@pytest.mark.parametrize(
    ("a", "b", "at", "message", "cause"),
    [
        (([user()], {}), ([user()], {"bos": False}), "<｜begin", 0, prefix_difference.BOS),
        (([user()], {"effort": "max"}), ([user()], {}), "Reasoning", 0, prefix_difference.EFFORT),
        (
            ([system(), user()], {"tools": [function()]}),
            ([system(), user()], {}),
            ".\n\n",
            0,
            prefix_difference.TOOLS,
        ),
        (
            ([system(), user()], {}),
            ([system(), user()], {"tools": [function()]}),
            ".",
            0,
            prefix_difference.TOOLS,
        ),
        (
            ([user()], {"response_format": FORMAT}),
            ([user()], {}),
            "\n\n##",
            0,
            prefix_difference.FORMAT,
        ),
        (
            ([user(), REASONED], {}),
            ([user(), REASONED, user()], {}),
            "<think>",
            1,
            prefix_difference.DROPPED,
        ),
        (
            ([ABRUPT, REASONED], {}),
            ([ABRUPT, REASONED, user()], {}),
            "ar</think>",
            1,
            prefix_difference.DROPPED,
        ),
        (
            ([user(), REASONED, user()], {}),
            ([user(), REASONED, user()], {"tools": [function()]}),
            "<｜User｜>",
            0,
            prefix_difference.TOOLS,
        ),
        (
            ([user(), REASONED, user()], {}),
            ([user(), REASONED, user(), developer(tools=[function()])], {}),
            "</think>",
            1,
            prefix_difference.KEPT,
        ),
        (
            ([user()], {}),
            ([user()], {"thinking": False}),
            "<think>",
            None,
            prefix_difference.THINKING,
        ),
        (
            ([user(), REASONED, user()], {}),
            ([user(), REASONED, user()], {"drop_thinking": False}),
            "</think>",
            1,
            prefix_difference.DROPPING,
        ),
        (
            ([user(), REASONED, user()], {"drop_thinking": False}),
            ([user(), REASONED, user()], {}),
            "<think>",
            1,
            prefix_difference.DROPPING,
        ),
        (
            ([user(), developer(), REASONED, user()], {}),
            ([user(), developer(), REASONED, user(), developer(tools=[function()])], {}),
            "<｜Assistant｜>",
            1,
            prefix_difference.RETURNED,
        ),
        # An empty result is no change of thinking.
        (
            ([user(), calling(call(id="a")), result("", "a")], {"tools": [function()]}),
            ([user(), calling(call(id="a")), result("", "a"), user("")], {"tools": [function()]}),
            ">",
            3,
            prefix_difference.INSTEAD,
        ),
        (([user("a"), user("b")], {}), ([user("a"), assistant("b")], {}), "\n\n", 1, MIXED),
        (
            ([user()], {"thinking": False}),
            ([user()], {}),
            "</think>",
            None,
            prefix_difference.THINKING,
        ),
        (
            ([user()], {}),
            ([user(), user("b")], {}),
            "<｜Assistant｜>",
            1,
            prefix_difference.INSTEAD,
        ),
        (
            ([user(task="query")], {}),
            ([user(task="query"), user()], {}),
            "<｜query｜>",
            0,
            prefix_difference.INSTEAD,
        ),
        (
            ([developer()], {}),
            ([developer(), user("b")], {}),
            "Find it.",
            0,
            prefix_difference.VANISHED,
        ),
        (
            ([user(), developer(), assistant()], {}),
            ([user(), developer(), assistant(), user()], {}),
            "<｜User｜>Find it.",
            1,
            prefix_difference.VANISHED,
        ),
        (
            ([user(), TWO_CALLS, result("2", "b")], {"thinking": False}),
            ([user(), TWO_CALLS, result("2", "b"), result("1", "a")], {"thinking": False}),
            "2</tool_result>",
            2,
            prefix_difference.ORDER,
        ),
        (
            ([user(), assistant("a")], {"thinking": False}),
            ([user(), assistant("a b", wo_eos=True)], {"thinking": False}),
            "<｜end",
            1,
            prefix_difference.OPEN,
        ),
        (
            ([system("Be brief.")], {}),
            ([system("Be brief."), system("\n\nNow.")], {}),
            ".",
            0,
            prefix_difference.MERGED,
        ),
        (
            ([user("a"), assistant()], {}),
            ([user("a")], {}),
            "</think>Hello",
            1,
            prefix_difference.ENDS,
        ),
        (([user("a b")], {}), ([user("a c")], {}), " b", 0, "the content of the message differs"),
        (
            ([user(), reminder()], {}),
            ([user(), reminder("x")], {}),
            "Today",
            1,
            "the content of the message differs",
        ),
    ],
)
def test_causes(
    a: Given, b: Given, at: str, message: int | None, cause: str, tokenizer: Tokenizer
) -> None:
    first, second = (dsv4.encode(messages, **chosen) for messages, chosen in (a, b))
    found = why_not_prefix(first, second, tokenizer)
    assert found is not None
    assert found.cause == cause
    assert found.message == message
    assert tokenizer.decode(tokenizer.encode(first)[found.token :]).startswith(at)


# Each makes the prompt of BASE another one, for one cause that is known.
BASE = [system("Be brief."), user("a"), REASONED, user("c")]
EDITS: dict[str, tuple[Callable[[list[Any]], list[Any]], dict[str, Any], str]] = {
    "bos": (list, {"bos": False}, prefix_difference.BOS),
    "effort": (list, {"effort": "max"}, prefix_difference.EFFORT),
    "tools": (list, {"tools": [function()]}, prefix_difference.TOOLS),
    "format": (list, {"response_format": FORMAT}, prefix_difference.FORMAT),
    "thinking": (list, {"thinking": False}, prefix_difference.THINKING),
    "user": (lambda m: [*m, user("d")], {}, prefix_difference.INSTEAD),
    "answered": (lambda m: [*m, REASONED, user("d")], {}, prefix_difference.DROPPED),
    "content": (lambda m: [m[0], user("x"), *m[2:]], {}, "the content of the message differs"),
    "shorter": (lambda m: m[:1], {}, prefix_difference.ENDS),
}


def edited(*names: str) -> dsv4.Prompt:
    messages, chosen = BASE, {}
    for name in names:
        edit, options, _ = EDITS[name]
        messages, chosen = edit(messages), {**chosen, **options}
    return dsv4.encode(messages, **chosen)


@pytest.mark.parametrize("name", EDITS)
def test_one_change(name: str, tokenizer: Tokenizer) -> None:
    found = why_not_prefix(edited(), edited(name), tokenizer)
    assert found is not None
    assert found.cause == EDITS[name][2]


@pytest.mark.parametrize("names", list(permutations(list(EDITS)[:-1], 2)), ids=" and ".join)
def test_two_changes(names: tuple[str, str], tokenizer: Tokenizer) -> None:
    """The cause is one of the two: that of the change which is seen first."""
    found = why_not_prefix(edited(), edited(*names), tokenizer)
    assert found is not None
    assert found.cause in [EDITS[name][2] for name in names]


def test_every_cause_is_tested() -> None:
    (marks,) = [mark for mark in test_causes.pytestmark if mark.name == "parametrize"]
    tested = {row[-1] for row in marks.args[1]}
    assert {*prefix_difference._CAUSES, prefix_difference.ENDS, prefix_difference.MERGED} <= tested


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([user()], [user()]),
        ([user()], [user(), assistant()]),
        ([user(), TWO_CALLS], [user(), TWO_CALLS, result("1", "a")]),
    ],
)
def test_a_prefix(a: list[Any], b: list[Any], tokenizer: Tokenizer) -> None:
    chosen = {"tools": [function()]}
    assert why_not_prefix(dsv4.encode(a, **chosen), dsv4.encode(b, **chosen), tokenizer) is None


def test_the_bundled_vocabulary_is_the_default(tokenizer: Tokenizer) -> None:
    first, second = dsv4.encode([user("a")]), dsv4.encode([user("b")])
    assert why_not_prefix(first, second) == why_not_prefix(first, second, tokenizer)


@given(a=conversations, b=conversations, chosen=options("v4"), other=options("v4"))
def test_at_random(a: Any, b: Any, chosen: Any, other: Any, tokenizer: Tokenizer) -> None:
    first, second = dsv4.encode(a, **chosen), dsv4.encode(a[:1] + b, **other)
    ids, others = tokenizer.encode(first), tokenizer.encode(second)
    found = why_not_prefix(first, second, tokenizer)
    if found is None:
        assert others[: len(ids)] == ids
    else:
        assert ids[: found.token] == others[: found.token]
        assert ids[found.token] != (others[found.token :] or [None])[0]
        assert found.cause
