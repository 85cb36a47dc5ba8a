"""Whether a turn that comes back is the one that was sampled."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.api import ApiRequest, chat
from dsv4.serve.storage import stored_turns
from dsv4.serve.storage.stored_turns import (
    SampledCall,
    SampledTurn,
    SampledTurns,
    says_the_same,
    turn_key,
    turn_keys,
)
from dsv4.serve.storage.turn_stores import MemoryTurnStore
from rows import each_row

TURN = SampledTurn(
    id="turn_1",
    text="raw",
    ids=(1, 2),
    content="Let me look.",
    reasoning="The file.",
    calls=(
        SampledCall("call_1", "edit", '{"path": "a.py", "count": 1, "flags": {"x": [1, true]}}'),
        SampledCall("call_2", "run", "{}"),
    ),
)


def back(**changes: Any) -> dict[str, Any]:
    """The turn as a client that changes nothing gives it back, but for `changes`."""
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in TURN.calls
    ]
    message = {"role": "assistant", "content": TURN.content, "tool_calls": calls}
    return {**message, "reasoning_content": TURN.reasoning, **changes}


def with_arguments(arguments: Any) -> dict[str, Any]:
    message = back()
    message["tool_calls"][0]["function"]["arguments"] = arguments
    return message


@pytest.mark.parametrize(
    "message",
    [
        back(),
        back(content="\n Let me look. \n"),
        back(reasoning_content=""),
        back(reasoning_content=None, reasoning="The file."),
        with_arguments('{"count":1.0,"path":"a.py","flags":{"x":[1,true]}}'),
        with_arguments(
            '{"path":"a.py","replace_all":false,"count":1,"flags":{"x":[1,true],"y":0}}'
        ),
        with_arguments({"path": "a.py", "count": 1, "flags": {"x": [1, True]}}),
    ],
)
def test_what_clients_do_to_turns_does_not_count(message: dict[str, Any]) -> None:
    assert says_the_same(TURN, message)


@each_row(
    "message",
    [
        back(content="Let me look!"),
        back(content=None),
        back(content=["Let me look."]),
        back(reasoning_content="Another file."),
        back(tool_calls=[]),
        back(tool_calls=back()["tool_calls"][:1]),
        back(tool_calls=back()["tool_calls"][::-1]),
        with_arguments('{"path": "b.py", "count": 1, "flags": {"x": [1, true]}}'),
        with_arguments('{"path": "a.py", "count": true, "flags": {"x": [1, true]}}'),
        with_arguments('{"path": "a.py", "flags": {"x": [1, true]}}'),
        with_arguments('{"path": "a.py", "count": 1, "flags": {"x": [true, 1]}}'),
        with_arguments("no JSON"),
        with_arguments("[" * 100_000),
        with_arguments("[1]"),
    ],
)
def test_anything_else_is_the_clients_own_word(message: dict[str, Any]) -> None:
    assert not says_the_same(TURN, message)


TEXTS = st.text(max_size=20)


@given(TEXTS, TEXTS, st.none() | st.lists(st.integers(0, 200_000)), TEXTS)
def test_a_turn_survives_being_kept(
    text: str, content: str, ids: list[int] | None, name: str
) -> None:
    turn = SampledTurn(
        "t", text, None if ids is None else tuple(ids), content, "", (SampledCall("c", name, "{}"),)
    )
    assert SampledTurn.from_bytes(turn.to_bytes()) == turn


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"\xff", b'{"calls": [1]}', b"[" * 5])
def test_what_is_no_turn_is_none(data: bytes) -> None:
    assert SampledTurn.from_bytes(data) is None


BEFORE = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes?", "tool_calls": [{"id": "c1"}]},
    {"role": "tool", "content": "ok", "tool_call_id": "c1"},
]


def test_a_place_is_the_same_however_clients_spell_it() -> None:
    changed = json.loads(json.dumps(BEFORE))
    changed[2]["reasoning_content"] = "hm"
    changed[2]["content"] = " Yes?\n"
    assert turn_key(changed, "Done. ") == turn_key(BEFORE, "Done.")


@pytest.mark.parametrize("n", range(len(BEFORE)))
def test_a_place_is_another_where_anything_else_was_said(n: int) -> None:
    changed = json.loads(json.dumps(BEFORE))
    changed[n]["content"] += "?"
    assert turn_key(changed, "Done.") != turn_key(BEFORE, "Done.")
    assert turn_key(BEFORE[:n], "Done.") != turn_key(BEFORE, "Done.")
    assert turn_key(BEFORE, "Done") != turn_key(BEFORE, "Done.")


def test_the_places_of_a_conversation_are_those_of_its_turns() -> None:
    told = [*BEFORE, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "More"}]
    told += [{"role": "assistant", "content": "There."}, {"role": "assistant", "content": None}]
    places = turn_keys(told)
    expected = [
        n
        for n, message in enumerate(told)
        if message["role"] == "assistant" and message["content"] and "tool_calls" not in message
    ]
    assert list(places) == expected
    assert all(places[n] == turn_key(told[:n], told[n]["content"]) for n in expected)


class CountedHash:
    """A hash that counts what it is fed, its copies included."""

    fed = 0

    def __init__(self, digest: Any = None) -> None:
        self._digest = hashlib.sha256() if digest is None else digest

    def update(self, data: bytes) -> None:
        CountedHash.fed += len(data)
        self._digest.update(data)

    def copy(self) -> CountedHash:
        return CountedHash(self._digest.copy())

    def hexdigest(self) -> str:
        return str(self._digest.hexdigest())


def conversation(messages: int) -> ApiRequest:
    turn = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Next."}]
    return chat.read({"messages": [*turn * (messages // 2 - 1), *turn[:1]]})


def test_a_long_history_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted:
        sha256 = CountedHash

    monkeypatch.setattr(stored_turns, "hashlib", Counted)
    hashed = []
    for messages in (2_000, 20_000):
        call = conversation(messages)
        CountedHash.fed = 0
        turns = SampledTurns(MemoryTurnStore(10, 10_000), None)
        asyncio.run(turns.recalled("ann", call))
        hashed.append(CountedHash.fed)
    short, long = hashed
    assert short > 0
    assert long <= 12 * short
