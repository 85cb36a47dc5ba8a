"""Packed experts: as engines send them, and joined over the calls of a sequence."""

from __future__ import annotations

import base64
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.trajectories.recorded_calls import RecordedCall, TokenRun, pack_call, unpack_call
from dsv4.trajectories.routed_experts import (
    NO_EXPERTS,
    RoutedExperts,
    experts_of_int32,
    experts_of_npy,
    joined_experts,
)
from dsv4.trajectories.session_file import CallEnd, call_after_base
from dsv4.trajectories.trajectory_builder import build


def npy(shape: str, data: bytes, descr: str = "|u1", order: str = "False") -> str:
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    return base64.b64encode(head + data).decode()


def rows(ids: list[int]) -> RoutedExperts:
    """Two layers of one expert for all tokens but the last: the token, and its place."""
    numbers = [n for place, id in enumerate(ids[:-1]) for n in (id, place)]
    return RoutedExperts(2, 1, 1, bytes(numbers))


def test_what_vllm_sends() -> None:
    found = experts_of_npy(npy("(2, 3, 2)", bytes(range(12))))
    assert found.lists() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    wide = experts_of_npy(npy("(1, 1, 2)", array("H", [300, 7]).tobytes(), "<u2"))
    assert wide.lists() == [[[300, 7]]]
    assert RoutedExperts.from_json(wide.to_json()) == wide


def test_what_sglang_sends() -> None:
    text = base64.b64encode(array("i", range(8)).tobytes()).decode()
    assert experts_of_int32(text, 2, 2).lists() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert experts_of_int32(text, 2, None).lists() == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        base64.b64encode(b"PK\x03\x04" * 9).decode(),
        npy("(2, 3, 2)", b"short"),
        npy("(2, 3)", bytes(6)),
        npy("(2, 3, 2)", bytes(12), "<f4"),
        npy("(2, 3, 2)", bytes(12), order="True"),
        npy("__import__('os')", bytes(12)),
        npy("(2, 0, 2)", b""),
    ],
)
def test_what_is_no_array_of_experts(text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        experts_of_npy(text)


@pytest.mark.parametrize(("tokens", "each"), [(3, None), (2, 3), (0, 1)])
def test_numbers_that_do_not_fit_the_tokens(tokens: int, each: int | None) -> None:
    text = base64.b64encode(array("i", range(8)).tobytes()).decode()
    with pytest.raises(ValueError, match=f"expected rows of {tokens} tokens"):
        experts_of_int32(text, tokens, each)


def test_a_call_is_kept_with_them() -> None:
    run = TokenRun([3], True, [-0.5])
    for experts in (rows([1, 2, 3]), NO_EXPERTS, None):
        call = RecordedCall("a", 1, [1, 2], (run,), experts=experts)
        again = unpack_call("a", 1, pack_call(call))
        assert again.experts == experts
        assert again.runs[0].logprobs == [-0.5]
    packed = pack_call(RecordedCall("a", 1, [1, 2], (run,), experts=rows([1, 2, 3])))
    with pytest.raises(ValueError, match="bytes of experts"):
        unpack_call("a", 1, packed._replace(numbers=packed.numbers[:-1]))


def test_parts_that_leave_a_hole_come_to_nothing() -> None:
    whole = rows([5, 6, 7, 8])
    assert joined_experts([whole.between(0, 1), whole.between(1, 3)], 3) == whole
    assert joined_experts([whole.between(0, 1), whole.between(2, 3)], 3) is None
    assert joined_experts([NO_EXPERTS], 1) is None
    assert joined_experts([whole.between(0, 1), RoutedExperts(1, 1, 1, b"ab")], 2) is None


Calls = list[tuple[list[int], list[int], bool]]


@st.composite
def sessions(draw: st.DrawFn) -> Calls:
    """Calls that go on from earlier ones, or not; the experts of some do not come."""
    calls: Calls = []
    few = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    for _ in range(draw(st.integers(1, 6))):
        before = draw(
            st.sampled_from([(), *[(*p, *s) for p, s, _ in calls], *[p for p, *_ in calls]])
        )
        prompt = [*before, *draw(few)] if draw(st.booleans()) or not before else list(before)
        calls.append((prompt, draw(few), draw(st.integers(0, 3)) > 0))
    return calls


@given(sessions())
def test_every_token_has_the_experts_of_its_place_however_calls_are_kept(calls: Calls) -> None:
    ends: list[CallEnd] = []
    recorded: list[RecordedCall] = []

    def find(longest: int, after: int) -> Any:
        fitting = [end for end in ends if end.length <= longest]
        return sorted(fitting, key=lambda end: -end.length)[after:]

    for n, (prompt, sampled, comes) in enumerate(calls):
        experts = rows([*prompt, *sampled]) if comes else NO_EXPERTS
        run = TokenRun(sampled, True, [0.0] * len(sampled))
        call = RecordedCall(f"c{n}", n, prompt, (run,), experts=experts)
        stored, new = call_after_base(call, find)
        recorded.append(unpack_call(call.id, n, pack_call(stored)))
        ends += new
    for one in build(recorded, shared="all").trajectories:
        wanted = rows(one.input_ids)
        came = calls[int(one.turns[-1].call[1:])][2]
        assert one.experts in ((wanted,) if came else (wanted, None))


def test_the_rows_of_a_call_are_those_that_are_new() -> None:
    def find(longest: int, after: int) -> Any:
        return [end for end in ends if end.length <= longest][after:]

    ends: list[CallEnd] = []
    first = RecordedCall("a", 1, [1, 2], (TokenRun([3], True, [0.0]),), experts=rows([1, 2, 3]))
    _, ends = call_after_base(first, find)
    ends = ends[::-1]
    ids = [1, 2, 3, 4, 5]
    second = RecordedCall("b", 2, ids[:4], (TokenRun([5], True, [0.0]),), experts=rows(ids))
    stored, _ = call_after_base(second, find)
    assert stored.experts is not None
    assert (stored.experts.start, stored.experts.end) == (2, 4)
