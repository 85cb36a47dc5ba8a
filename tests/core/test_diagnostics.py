"""The vocabulary of deviations: closed, and each kind with its sentence."""

from __future__ import annotations

from typing import get_args

import pytest

import dsv4
from dsv4._completion.events import UNREAD_CALL_KINDS, sentences

KINDS = get_args(dsv4.DiagnosticKind)


def test_every_kind_has_a_sentence() -> None:
    assert set(KINDS) == set(sentences())
    assert all(sentence.endswith(".") for sentence in sentences().values())
    assert set(KINDS) > UNREAD_CALL_KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_diagnostic_knows_its_sentence(kind: dsv4.DiagnosticKind) -> None:
    assert dsv4.Diagnostic(kind, 0, 0, "").sentence == sentences()[kind]


def test_the_sentences_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        sentences()["limit"] = ""  # type: ignore[index]
