"""What must go so that a conversation fits a window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import assistant, call, calling, developer, function, result, system, user
from dsv4.tokens import Tokenizer
from strategies import messages

TALK = [
    system("Be brief."),
    *(message for n in range(6) for message in (user(f"{n}?" * 9), assistant(f"{n}!" * 9))),
    user("And now?"),
]
AGENT = [
    system(),
    user("Old question"),
    calling(call(id="a")),
    result("old", "a"),
    assistant("Old answer"),
    user("New question"),
    *(m for n in range(5) for m in (calling(call(id=f"c{n}")), result(f"r{n} " * 20, f"c{n}"))),
]


def fitted(tokenizer: Tokenizer, conversation: list[Any], limit: int, **options: Any) -> Any:
    request = dsv4.Request(conversation, **options)
    found = tokenizer.fit(request, limit)
    assert found.tokens == tokenizer.count(found.request.encode()) <= limit
    kept = [m for n, m in enumerate(conversation) if n not in found.removed]
    assert list(found.request.messages) == kept
    assert list(request.messages) == conversation
    return found


def test_nothing_goes_where_all_fits(tokenizer: Tokenizer) -> None:
    request = dsv4.Request(TALK)
    whole = tokenizer.count(request.encode())
    found = tokenizer.fit(request, whole)
    assert found == (request, [], whole)
    assert found.request is request


def test_oldest_rounds_go_first_and_no_more_than_must(tokenizer: Tokenizer) -> None:
    whole = tokenizer.count(dsv4.encode(TALK))
    for limit in range(whole - 1, whole // 2, -7):
        found = fitted(tokenizer, TALK, limit)
        rounds = len(found.removed) // 2
        assert found.removed == list(range(1, 2 * rounds + 1))
        fewer = [TALK[0], *TALK[2 * rounds - 1 :]]
        assert tokenizer.count(dsv4.encode(fewer)) > limit


def test_calls_of_the_last_round_go_with_their_results(tokenizer: Tokenizer) -> None:
    options: Any = {"tools": [function()]}
    whole = tokenizer.count(dsv4.encode(AGENT, **options))
    found = fitted(tokenizer, AGENT, whole - 60, **options)
    assert found.removed == [2, 3, 4] or found.removed[:4] == [1, 2, 3, 4]
    found = fitted(tokenizer, AGENT, whole - 150, **options)
    assert found.removed[:4] == [1, 2, 3, 4]
    assert found.removed[4:] == list(range(6, 6 + len(found.removed) - 4))
    assert len(found.removed) % 2 == 0
    roles = [message["role"] for message in found.request.messages]
    assert roles[:3] == ["system", "user", "assistant"]


def test_what_is_too_much(tokenizer: Tokenizer) -> None:
    smallest = tokenizer.count(dsv4.encode([TALK[0], TALK[-1]]))
    assert fitted(tokenizer, TALK, smallest).removed == list(range(1, len(TALK) - 1))
    with pytest.raises(dsv4.OptionError, match=f"limit: found {smallest - 1}, expected at least"):
        tokenizer.fit(dsv4.Request(TALK), smallest - 1)


@pytest.mark.parametrize("limit", [0, -1, 2.5, "9", None, True])
def test_what_is_no_limit(limit: Any, tokenizer: Tokenizer) -> None:
    with pytest.raises(dsv4.OptionError, match=r"^limit: found "):
        tokenizer.fit(dsv4.Request(TALK), limit)


def test_what_is_no_request(tokenizer: Tokenizer) -> None:
    with pytest.raises(dsv4.OptionError, match=r"^request: found \[.*, expected a Request$"):
        tokenizer.fit([user()], 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "between", [[], [calling(call(id="y")), result("soon", "y"), user("Go on.")]]
)
def test_a_result_that_comes_late_keeps_its_call(between: list[Any], tokenizer: Tokenizer) -> None:
    conversation = [
        *(user("a"), assistant("b"), user("c"), calling(call(id="x"))),
        *(user("Wait."), *between, result("late", "x"), assistant("d"), user("e")),
    ]
    late = 5 + len(between)
    smallest = tokenizer.count(dsv4.encode(conversation[-1:]))
    whole = tokenizer.count(dsv4.encode(conversation))
    removed = [fitted(tokenizer, conversation, n).removed for n in range(smallest, whole)]
    assert {(3 in each, late in each) for each in removed} == {(True, True), (False, False)}


def test_developer_turns_begin_rounds(tokenizer: Tokenizer) -> None:
    conversation = [developer("a " * 30), assistant("b"), developer("c"), assistant("d"), user("e")]
    whole = tokenizer.count(dsv4.encode(conversation, thinking=False))
    found = fitted(tokenizer, conversation, whole - 5, thinking=False)
    assert found.removed == [0, 1]


@given(conversation=st.lists(messages, min_size=1, max_size=14), share=st.floats(0.2, 1.1))
def test_at_random(conversation: list[Any], share: float, v4_1_file: str) -> None:
    tokenizer = Tokenizer.load(v4_1_file)
    whole = tokenizer.count(dsv4.encode(conversation, thinking=False))
    try:
        found = fitted(tokenizer, conversation, max(1, int(whole * share)), thinking=False)
    except dsv4.OptionError:
        return
    gone = set(found.removed)
    assert not any(conversation[n]["role"] == "system" for n in gone)
    for n, message in enumerate(conversation):
        if message["role"] == "tool" and n not in gone and message.get("tool_call_id"):
            calls = [
                m
                for m in range(n)
                for made in conversation[m].get("tool_calls") or ()
                if conversation[m]["role"] == "assistant"
                and made.get("id") == message["tool_call_id"]
            ]
            assert not calls or calls[-1] not in gone
