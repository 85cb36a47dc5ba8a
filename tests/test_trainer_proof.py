"""A row of a file beside what a trainer made of it. With TRL itself: test_trainers.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsv4.dataset.trainer_proof import LabelledIds, ProvedRow

WRITTEN = LabelledIds([0, 5, 6], [-100, 5, 6])

LOADED = {
    "the same": ([0, 5, 6], [-100, 5, 6], None),
    "padding": ([0, 5, 6, 2, 2], [-100, 5, 6, -100, -100], None),
    "padding that is trained on": (
        [0, 5, 6, 2],
        [-100, 5, 6, 2],
        (3, "the trainer has the label 2 behind the row's end"),
    ),
    "a token more is trained on": (
        [0, 5, 6],
        [0, 5, 6],
        (0, "the trainer has the label 0, the file -100"),
    ),
    "a token less is trained on": (
        [0, 5, 6],
        [-100, 5, -100],
        (2, "the trainer has the label -100, the file 6"),
    ),
    "another id": ([0, 7, 6], [-100, 7, 6], (1, "the trainer has the id 7, the file 5")),
    "a cut row": ([0, 5], [-100, 5], (2, "the trainer leaves it out")),
    "nothing": ([], [], (0, "the trainer leaves it out")),
}


@pytest.mark.parametrize("case", LOADED)
def test_the_first_token_that_differs(case: str) -> None:
    ids, labels, difference = LOADED[case]
    assert ProvedRow("a:1", WRITTEN, LabelledIds(ids, labels)).difference == difference


@given(st.data())
def test_any_change_of_one_label_is_found(data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 9), min_size=1))
    trained = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    labels = [id if each else -100 for id, each in zip(ids, trained, strict=True)]
    at = data.draw(st.integers(0, len(ids) - 1))
    changed = [*labels]
    changed[at] = -100 if trained[at] else ids[at]
    padding = data.draw(st.integers(0, 3))
    loaded = LabelledIds([*ids, *[2] * padding], [*changed, *[-100] * padding])
    found = ProvedRow("a:1", LabelledIds(ids, labels), loaded).difference
    assert found is not None
    assert found[0] == at
