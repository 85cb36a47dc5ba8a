"""Trajectories from the calls of a session, held against a builder that is slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.errors import OptionError
from dsv4.trajectories import BreakCause, PromptBase, RecordedCall, TokenRun, build
from dsv4.trajectories.recorded_calls import new_digest, pack_call, packed_ids, unpack_call
from dsv4.trajectories.session_file import call_after_base


def call(id: str, prompt: Sequence[int], sampled: Sequence[int], **rest: Any) -> RecordedCall:
    """A call whose number is in its name, with log-probabilities that tell its tokens apart."""
    logprobs = [-token / 100 for token in sampled]
    run = TokenRun(list(sampled), True, logprobs)
    return RecordedCall(id, int(id[1:]), list(prompt), (run,) if sampled else (), **rest)


def digest_of(ids: Sequence[int]) -> str:
    digest = new_digest()
    digest.update(packed_ids(ids))
    return digest.hexdigest()


def kinds(calls: Sequence[RecordedCall], **options: Any) -> list[tuple[str, str | None]]:
    return [(note.kind, note.call) for note in build(calls, **options).notes]


class TestJoining:
    def test_a_prompt_that_begins_with_all_of_an_earlier_call_continues_it(self) -> None:
        (made,) = build([call("c1", [1, 2], [3]), call("c2", [1, 2, 3, 4], [5, 6])]).trajectories
        assert made.input_ids == [1, 2, 3, 4, 5, 6]
        assert made.loss_mask == [0, 0, 1, 0, 1, 1]
        assert made.logprobs == [None, None, -0.03, None, -0.05, -0.06]
        assert [(turn.prompt, turn.sampled) for turn in made.turns] == [
            ((0, 2), ((2, 3),)),
            ((3, 4), ((4, 6),)),
        ]

    def test_the_longest_earlier_call_is_continued(self) -> None:
        calls = [call("c1", [1], [2]), call("c2", [1, 2], [3]), call("c3", [1, 2, 3, 4], [5])]
        (made,) = build(calls).trajectories
        assert [turn.call for turn in made.turns] == ["c1", "c2", "c3"]

    def test_one_other_token_starts_a_trajectory_of_its_own(self) -> None:
        made = build([call("c1", [1, 2], [3]), call("c2", [1, 2, 9, 4], [5])])
        assert [each.input_ids for each in made.trajectories] == [[1, 2, 3], [1, 2, 9, 4, 5]]
        (note,) = made.notes
        assert (note.kind, note.call) == ("rewritten", "c2")
        assert "leaves the ids of c1 after 2 tokens" in note.message

    def test_a_later_call_is_never_a_parent(self) -> None:
        made = build([call("c1", [1, 2, 3], [4]), call("c2", [1], [2])])
        assert [len(each.turns) for each in made.trajectories] == [1, 1]

    def test_what_was_written_into_an_answer_is_not_trained_on(self) -> None:
        runs = (TokenRun([3], False), TokenRun([4, 5], True, [-0.1, -0.2]))
        (made,) = build([RecordedCall("c1", 1, [1, 2], runs)]).trajectories
        assert made.loss_mask == [0, 0, 0, 1, 1]
        assert made.logprobs == [None, None, None, -0.1, -0.2]

    def test_a_base_is_not_believed_but_proven(self) -> None:
        first = call("c1", [1, 2], [3])
        rest = replace(call("c2", [4], [5]), base=PromptBase("c1", 3))
        honest = replace(rest, digest=digest_of([1, 2, 3, 4]))
        (made,) = build([first, honest]).trajectories
        assert made.input_ids == [1, 2, 3, 4, 5]
        for wrong in (
            replace(rest, digest=digest_of([1, 2, 9, 4])),
            replace(rest, base=PromptBase("c7", 3)),
            replace(rest, base=PromptBase("c1", 1)),
        ):
            built = build([first, wrong])
            assert [each.input_ids for each in built.trajectories] == [[1, 2, 3]]
            assert (built.exact, built.complete) == (False, False)
            assert [note.kind for note in built.notes] == ["damaged"]


class TestLoss:
    BRANCHED = (
        call("c1", [1], [2]),
        call("c2", [1, 2, 3], [4]),
        call("c3", [1, 2, 5], [6, 7, 8]),
    )

    def test_shared_tokens_are_trained_once_in_the_path_that_went_on_longest(self) -> None:
        made = build(self.BRANCHED)
        assert [each.loss_mask for each in made.trajectories] == [[0, 0, 0, 1], [0, 1, 0, 1, 1, 1]]
        assert kinds(self.BRANCHED) == [("branch", "c3")]

    def test_or_in_each(self) -> None:
        made = build(self.BRANCHED, shared="all")
        assert [each.loss_mask for each in made.trajectories] == [[0, 1, 0, 1], [0, 1, 0, 1, 1, 1]]

    @pytest.mark.parametrize(
        ("how", "name"),
        [
            ({"state": "cut"}, "cut"),
            ({"state": "left", "delivered": False}, "left"),
            ({"state": "failed", "delivered": False}, "failed"),
            ({"delivered": False}, "undelivered"),
        ],
    )
    def test_what_no_client_got_whole_is_kept_and_not_trained_on(
        self, how: dict[str, Any], name: str
    ) -> None:
        calls = [call("c1", [1], [2, 3], **how)]
        (made,) = build(calls).trajectories
        assert (made.input_ids, made.loss_mask) == ([1, 2, 3], [0, 0, 0])
        assert kinds(calls) == [(name, "c1")]
        (made,) = build(calls, include=[name]).trajectories
        assert made.loss_mask == [0, 1, 1]

    def test_a_branch_that_trains_nothing_takes_no_loss_from_another(self) -> None:
        left = call("c2", [1, 2, 3], [4, 5, 6, 7], state="left", delivered=False)
        again = call("c3", [1, 2, 3], [8])
        made = build([call("c1", [1], [2]), left, again])
        assert [each.trained for each in made.trajectories] == [0, 2]

    def test_an_unfinished_call_makes_the_session_incomplete(self) -> None:
        made = build([call("c1", [1], [2]), call("c2", [], [], state="unfinished")])
        assert not made.complete
        assert made.exact
        assert [len(each.turns) for each in made.trajectories] == [1]

    def test_the_weights_are_told_by_runs(self) -> None:
        made = build(
            [
                call("c1", [1], [2], weights=(1, 1)),
                call("c2", [1, 2, 3], [4], weights=(1, 1)),
                call("c3", [1, 2, 3, 4, 5], [6], weights=(1, 2)),
            ]
        )
        assert made.trajectories[0].weights == [(1, 1, 4), ("mixed", 5, 6)]
        assert [(note.kind, note.call) for note in made.notes] == [("mixed_weights", "c3")]

    def test_a_call_without_ids_says_so(self) -> None:
        made = build([call("c1", [1], [], problem="the backend gave no ids")])
        assert (made.exact, made.trajectories) == (False, [])
        assert made.notes == [("inexact", "c1", "the backend gave no ids")]


class TestBreaks:
    def test_the_cause_is_asked_for_with_the_latest_sequence(self) -> None:
        asked: list[tuple[list[int], list[int]]] = []

        def explain(old: Sequence[int], new: Sequence[int]) -> BreakCause:
            asked.append((list(old), list(new)))
            return BreakCause("compacted", "it was shortened")

        calls = [call("c1", [1], [2]), call("c2", [1, 2, 3], [4]), call("c3", [1, 9], [5])]
        built = build(calls, explain=explain)
        assert asked == [([1, 2, 3, 4], [1, 9])]
        (note,) = built.notes
        assert (note.kind, note.call) == ("compacted", "c3")
        assert note.message.endswith("of c2 after 1 tokens: it was shortened")

    def test_a_conversation_that_another_goes_on_beside_was_not_shortened(self) -> None:
        def explain(old: Sequence[int], new: Sequence[int]) -> BreakCause:
            return BreakCause("compacted", "it was shortened")

        begun = [call("c1", [1], [2]), call("c2", [1, 9], [5])]
        assert kinds(begun, explain=explain) == [("compacted", "c2")]
        goes_on = [*begun, call("c3", [1, 2, 3], [4])]
        assert kinds(goes_on, explain=explain) == [("new_conversation", "c2")]
        running = [
            replace(begun[0], details={"started": 1.0, "ended": 5.0}),
            replace(begun[1], details={"started": 4.0, "ended": 9.0}),
        ]
        assert kinds(running, explain=explain) == [("new_conversation", "c2")]

    def test_the_same_prompt_again_is_no_break(self) -> None:
        calls = [call("c1", [1], [2]), call("c2", [1], [3])]
        assert kinds(calls) == [("repeated", "c2")]

    @pytest.mark.parametrize(
        ("option", "problem"),
        [
            ({"shared": "twice"}, "shared: found 'twice', expected once or all"),
            ({"include": ["all"]}, "include: found 'all', expected cut, left, failed, undelivered"),
        ],
    )
    def test_wrong_options(self, option: dict[str, Any], problem: str) -> None:
        with pytest.raises(OptionError) as error:
            build([], **option)
        assert str(error.value) == problem


# The slow builder: it compares every pair of calls, token by token.


def whole(one: RecordedCall) -> list[int]:
    return [*one.prompt, *(id for run in one.runs for id in run.ids)]


def slow_parents(calls: Sequence[RecordedCall]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for one in calls:
        earlier = [
            other
            for other in calls
            if other.number < one.number
            and other.sampled
            and list(one.prompt[: len(whole(other))]) == whole(other)
        ]
        rank = max(earlier, key=lambda e: (len(whole(e)), e.is_whole, e.number), default=None)
        if one.sampled:
            parents[one.id] = None if rank is None else rank.id
    return parents


def slow_paths(calls: Sequence[RecordedCall]) -> dict[tuple[str, ...], list[int]]:
    """Every path from a root to a leaf, with its ids."""
    parents, by_id = slow_parents(calls), {one.id: one for one in calls}
    paths = {}
    for leaf in parents.keys() - set(parents.values()):
        path, at = [], leaf
        while at is not None:
            path.insert(0, at)
            at = parents[at]  # type: ignore[assignment]
        paths[tuple(path)] = whole(by_id[leaf])
    return paths


STATES = st.sampled_from(
    [
        *[{}] * 6,
        {"state": "cut"},
        {"state": "left", "delivered": False},
        {"state": "failed", "delivered": False},
        {"delivered": False},
    ]
)
SOME = st.lists(st.integers(0, 3), min_size=1, max_size=3)


@st.composite
def sessions(draw: st.DrawFn) -> list[RecordedCall]:
    """Random sessions of few different tokens, so that much is shared: calls that go on, branches,
    retries, new conversations, rewritten and compacted histories."""
    calls: list[RecordedCall] = []
    for n in range(1, draw(st.integers(1, 9)) + 1):
        kind = draw(st.sampled_from(["go on", "go on", "go on", "retry", "new", "rewrite"]))
        old = draw(st.sampled_from(calls)) if calls and kind != "new" else None
        prompt = draw(SOME)
        if old is not None and kind == "go on":
            prompt = whole(old) + draw(SOME)
        elif old is not None and kind == "retry":
            prompt = list(old.prompt)
        elif old is not None:
            cut = draw(st.integers(0, len(whole(old))))
            prompt = whole(old)[:cut] + draw(SOME)
        calls.append(call(f"c{n}", prompt, draw(st.one_of(SOME, st.just([]))), **draw(STATES)))
    return calls


class TestAgainstTheSlowBuilder:
    @given(sessions(), st.randoms())
    def test_the_same_paths_with_the_same_ids(self, calls: list[RecordedCall], random: Any) -> None:
        mixed = list(calls)
        random.shuffle(mixed)
        made = build(mixed)
        found = {tuple(t.call for t in each.turns): each.input_ids for each in made.trajectories}
        assert found == slow_paths(calls)
        assert made == build(calls)

    @given(sessions())
    def test_every_sampled_token_of_a_whole_call_is_trained_once(
        self, calls: list[RecordedCall]
    ) -> None:
        trained: list[str] = []
        for each in build(calls).trajectories:
            spans = {turn.call: turn.sampled for turn in each.turns if turn.trained}
            trained += spans
            ones = [n for n, on in enumerate(each.loss_mask) if on]
            assert ones == [
                n for s in spans.values() for start, end in s for n in range(start, end)
            ]
        assert sorted(trained) == sorted(c.id for c in calls if c.is_whole and c.sampled)

    @given(sessions())
    def test_all_paths_keep_what_they_share_if_asked(self, calls: list[RecordedCall]) -> None:
        for each in build(calls, shared="all").trajectories:
            by_id = {one.id: one for one in calls}
            assert [turn.trained for turn in each.turns] == [
                by_id[turn.call].is_whole for turn in each.turns
            ]

    @given(sessions(), st.randoms())
    def test_calls_stored_as_what_is_new_build_the_same_in_whatever_order_they_ended(
        self, calls: list[RecordedCall], random: Any
    ) -> None:
        in_order_of_ends = list(calls)
        random.shuffle(in_order_of_ends)
        ends: list[Any] = []
        stored = []
        for one in in_order_of_ends:
            fitting = sorted((e for e in ends if e.length <= len(one.prompt)), reverse=True)
            shorter, new = call_after_base(one, lambda longest, after, f=fitting: f[after:][:2])
            ends += new
            stored.append(unpack_call(one.id, one.number, pack_call(shorter)))
        assert build(stored) == build(calls)

    def test_the_earlier_of_two_calls_with_one_prompt_may_end_last(self) -> None:
        calls = [call("c1", [1, 2], [3]), call("c2", [1, 2], [4]), call("c3", [1, 2, 3, 5], [6])]
        stored_after = PromptBase("c2", 2)
        late = replace(calls[0], prompt=[], base=stored_after, digest=digest_of([1, 2]))
        goes_on = replace(
            calls[2], prompt=[5], base=PromptBase("c1", 3), digest=digest_of([1, 2, 3, 5])
        )
        built = build([late, calls[1], goes_on])
        assert built == build(calls)
        assert (built.complete, [each.trained for each in built.trajectories]) == (True, [2, 1])
