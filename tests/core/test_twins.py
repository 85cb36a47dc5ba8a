"""What is tried goes on in a twin of the reading, and a twin shares nothing that can change."""

from __future__ import annotations

import gc
from enum import Enum
from textwrap import indent
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

import dsv4
from completions import *
from dsv4._parse.reading import Reading
from parts import part

NEVER_CHANGES = (str, int, float, bool, type(None), frozenset, type, ModuleType, FunctionType, Enum)


def held_by(start: object, known: frozenset[int] = frozenset()) -> dict[int, object]:
    """All that an object holds that can change, at any depth, but for what is known."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) in found or id(one) in known:
            continue
        if isinstance(one, (*NEVER_CHANGES, BuiltinFunctionType)):
            continue
        found[id(one)] = one
        waiting += gc.get_referents(one)
    return {key: one for key, one in found.items() if not isinstance(one, tuple)}


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """What each twin shared with its reading when it was made."""
    all_shared: list[list[object]] = []
    original = Reading.twin

    def watched(reading: Reading) -> Reading:
        twin = original(reading)
        known = held_by([reading.buffer, reading.rules, reading.settings])
        mine, other = (held_by(one, frozenset(known)) for one in (reading, twin))
        all_shared.append([one for key, one in mine.items() if key in other])
        return twin

    monkeypatch.setattr(Reading, "twin", watched)
    return all_shared


def readings() -> list[tuple[str, Any]]:
    """Texts of the corpora, as they are and where a quotation is open: many of them are tried."""
    texts = [(case["text"], tools_of(case)) for case in expectations()]
    return [(before + text, tools) for text, tools in texts for before in ("", "“So: ", "    ")]


def test_a_twin_shares_only_the_text_its_rules_and_the_settings(
    twins: list[list[object]],
) -> None:
    for text, tools in part(readings(), 4):
        dsv4.parse(text, thinking=False, tools=tools)
    assert len(twins) > 30
    assert [shared for shared in twins if shared] == []


def test_the_walk_finds_what_is_shared() -> None:
    shared = ["a"]
    assert [*held_by({"one": (shared,)}).keys() & held_by([[shared]]).keys()] == [id(shared)]


# Pairs of blocks (rule 46).

ONE, TWO, THREE = (block(calling("bash", command=word)).strip() for word in ("one", "two", "three"))


def indented(*blocks: str, between: str) -> str:
    return indent(between.join(blocks), "    ")


BETWEEN = ("\n", "\n\n", "\n\n\n")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("blocks", [(ONE,), (ONE, TWO), (ONE, TWO, THREE)])
def test_blocks_in_an_indented_quotation_never_run(
    blocks: tuple[str, ...], between: str, line_end: str
) -> None:
    text = f"For example:\n\n{indented(*blocks, between=between)}\n\nAnd so on."
    text = text.replace("\n", line_end)
    message = read_everywhere(text)
    assert calls_of(message) == []
    assert message.content == text


@pytest.mark.parametrize("between", ["", *BETWEEN])
def test_blocks_between_two_quotes_never_run(between: str) -> None:
    text = f'The form is x"{ONE}{between}{TWO}" and so on.'
    assert calls_of(read_everywhere(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        f"Now:\n\n{indented(ONE, TWO, between=chr(10))}",  # nothing follows
        f"Now:\n\n{indented(ONE, between='')}\n{TWO}\n\nDone.",  # not every line has the spaces
        f'Now x"{ONE}\n{TWO}\n\nDone.',  # the quote is not closed
    ],
)
def test_blocks_in_what_is_no_quotation_run(text: str) -> None:
    wanted = [("bash", {"command": "one"}), ("bash", {"command": "two"})]
    assert calls_of(read_everywhere(text)) == wanted
