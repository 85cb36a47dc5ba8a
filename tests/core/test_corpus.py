"""Malformed completions that were seen in public, and others like them. See corpus/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import dsv4
from completions import *
from parts import ALL
from rows import each_row

Case = dict[str, Any]

cases = each_row("case", [pytest.param(case, id=case["id"]) for case in corpus()])


def options(case: Case) -> dict[str, Any]:
    return {
        "thinking": case["start"] == "reasoning",
        "tools": declared(**case["tools"]),
        "tool_choice": case["tool_choice"],
    }


@cases
def test_reading(case: Case) -> None:
    message = dsv4.parse(case["text"], **options(case))
    wanted = [(call["name"], call["arguments"]) for call in case["tool_calls"]]
    # As text, which tells 1 from True and 1.0.
    assert repr(calls_of(message)) == repr(wanted)
    for field in ("reasoning", "content"):
        if case[field] is not None:  # else any text will do
            assert getattr(message, field).strip() == case[field].strip()
    if case["finish"]:
        assert message.finish == case["finish"]


@cases
def test_what_was_repaired_is_reported(case: Case) -> None:
    message = dsv4.parse(case["text"], **options(case))
    if case["repaired"]:
        assert message.diagnostics
    for diagnostic in message.diagnostics:
        assert diagnostic.raw == case["text"][diagnostic.start : diagnostic.end]


def places(text: str, step: int) -> range:
    """Every so many places in a text: not the same in texts of different lengths."""
    return range(len(text) % step, len(text) + 1, step)


def halves(text: str) -> Iterator[list[str]]:
    """A text cut in two, with nothing between."""
    for at in places(text, 4 if ALL else 24):
        yield [text[:at], "", text[at:]]


@pytest.mark.repeats
@cases
def test_every_way_of_cutting_gives_the_same_events(case: Case) -> None:
    whole = merged(events_of([case["text"]], **options(case)))
    for chunks in (*cuts(case["text"]), *halves(case["text"])):
        assert merged(events_of(chunks, **options(case))) == whole


@pytest.mark.repeats
@cases
def test_the_text_cut_short_anywhere(case: Case) -> None:
    for end in places(case["text"], 2 if ALL else 11):
        message = dsv4.parse(case["text"][:end], **options(case))
        calls_of(message), incomplete_of(message)  # JSON objects, all of them


# Rows of the fifth corpus that are read in another way. Experts may differ about them.
_OTHERWISE = "N009 N062 N074 N201 N261 N266 N308 N313 N335 N354 N391 N396"
READ_OTHERWISE = frozenset(_OTHERWISE.split())
# Corpora whose rows say what is expected of a reading.
expected = each_row("case", [pytest.param(case, id=case["id"]) for case in expectations()])


def view(message: dsv4.Message) -> dict[str, Any]:
    calls = [
        {"name": call.name, "arguments": json.loads(call.arguments)}
        | ({"namespace": call.namespace} if call.namespace else {})
        for call in message.tool_calls
    ]
    return {
        "calls": calls,
        "content": message.content,
        "reasoning": message.reasoning,
        "finish": message.finish,
        "content_strip": message.content.strip(),
        "no_markup": DSML not in message.content + message.reasoning,
        "dropped": bool(message.dropped),
    }


def judged(seen: dict[str, Any], key: str, wanted: Any) -> bool:
    """Whether a reading is what a row wants of it."""
    if key == "never":  # names of tools that may not be called
        return not {call["name"] for call in seen["calls"]} & {*wanted}
    if key == "not_calls":  # calls that may not be made
        return not any(call in seen["calls"] for call in wanted)
    if key == "accept_calls":  # lists of calls, of which any will do
        return seen["calls"] in wanted
    if key == "content_has":  # texts, each of which is in the content
        return all(text in seen["content"] for text in wanted)
    if key in ("dropped_or_call", "dropped_or_two"):
        least = 1 if key == "dropped_or_call" else 2
        return seen["dropped"] or len(seen["calls"]) >= least
    found: bool = seen[key] == (wanted.strip() if key == "content_strip" else wanted)
    return found


@expected
def test_what_is_expected(case: Case) -> None:
    chosen = {**case["options"], "tools": tools_of(case)}
    whole = events_of([case["text"]], **chosen)
    seen = view(dsv4.assemble(whole))
    wrong = [key for key, wanted in case["expect"].items() if not judged(seen, key, wanted)]
    is_otherwise = case["id"].partition("-")[0] in READ_OTHERWISE
    assert bool(wrong) == is_otherwise, (wrong, seen, case["why"])
    for chunks in cuts(case["text"]):
        assert merged(events_of(chunks, **chosen)) == merged(whole)
