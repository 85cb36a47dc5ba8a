"""A trace says what the parser and the writers do at every step, in as little as the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import PROTOCOLS, sent, stepped

import dsv4
from completions import corpus, declared
from dsv4._playground import completion_trace
from dsv4._playground.completion_trace import (
    STATES,
    cut_completion,
    stream_view_setup,
    trace_completion,
)
from dsv4._playground.page_examples import COMPLETION_TOOLS, EXAMPLE_COMPLETIONS
from dsv4._playground.page_request import PlaygroundContext
from dsv4._playground.provenance import utf16_length
from dsv4.errors import OptionError
from dsv4.tokens import Tokenizer
from parts import fewer, part
from rows import each_row

CASES = corpus()
JOINED = ("ReasoningDelta", "ContentDelta", "ArgumentsDelta")


def asked(case: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A case of the corpus as the page sends it."""
    return {
        "text": case["text"],
        "thinking": case["start"] == "reasoning",
        "tools": declared(**case["tools"]),
        "tool_choice": case["tool_choice"],
        **more,
    }


class Unfolded:
    """A trace as the page reads it: what there is at each step."""

    def __init__(self, traced: dict[str, Any]) -> None:
        self.traced = traced
        cuts = traced["cuts"] or [1] * (traced["steps"] - 1)
        self.ends = [0]
        for size in cuts:
            self.ends.append(self.ends[-1] + size)
        self.ends.append(self.ends[-1])

    def knot(self, step: int) -> tuple[str, list[Any], int]:
        """State, reason and where the held text begins."""
        found = [knot for knot in self.traced["knots"] if knot[0] <= step][-1]
        at, state, hold, start, slides = found
        moved = self.ends[step] - self.ends[at] if slides else 0
        return STATES[state].name, self.traced["holds"][hold], start + moved

    def deltas(self, row: dict[str, Any]) -> Iterator[tuple[int, str]]:
        """The deltas of a row, with the step of each."""
        at = 0
        units = row["text"].encode("utf-16-le", "surrogatepass")
        for step, number, length in row["runs"]:
            for n in range(number):
                size = length if number == 1 else self.ends[step + n] - self.ends[step + n - 1]
                piece = units[2 * at : 2 * (at + size)].decode("utf-16-le", "surrogatepass")
                yield step + n, piece
                at += size
        assert 2 * at == len(units)

    def events(self) -> Iterator[tuple[int, str, str]]:
        """Every event: its step, its type and its text."""
        for row in self.traced["rows"]:
            if row["type"] in JOINED:
                for step, text in self.deltas(row):
                    yield step, row["type"], text
            else:
                yield row["step"], row["type"], ""

    def frames(self, protocol: str) -> Iterator[tuple[int, Any]]:
        """Every frame, with its step."""
        written = self.traced["frames"][protocol]
        for number, (step, frame) in enumerate(self._frames(written)):
            if "sequence_number" in frame:
                frame["sequence_number"] = number
            yield step, frame

    def _frames(self, written: dict[str, Any]) -> Iterator[tuple[int, Any]]:
        for frame in written["start"]:
            yield 0, frame
        for row, (first, more) in zip(self.traced["rows"], written["rows"], strict=True):
            deltas = list(self.deltas(row)) if row["type"] in JOINED else [(row["step"], "")]
            for frame in first:
                yield deltas[0][0], frame
            for step, text in deltas[1:] if more else ():
                filled = json.loads(json.dumps(more["frame"]))
                place = filled
                for key in more["path"][:-1]:
                    place = place[key]
                place[more["path"][-1]] = text
                yield step, filled
        for frame in written["finish"]:
            yield self.traced["steps"], frame


def check(body: dict[str, Any], tokenizer: Any = None) -> None:
    """Holds a trace against a parser and writers that are given the same pieces."""
    traced = json.loads(json.dumps(trace_completion(body, PlaygroundContext(tokenizer))))
    pieces = cut_completion(body["text"], body["cut"], body.get("seed", 0), tokenizer)
    assert "".join(pieces) == body["text"]
    names = ("thinking", "tools", "tool_choice", "stop", "calls")
    options = {name: body[name] for name in names if name in body}
    unfolded = Unfolded(traced)
    found: dict[int, list[Any]] = {}
    for step, kind, text in unfolded.events():
        found.setdefault(step, []).append((kind, text))
    every: list[tuple[int, Any]] = []
    units = body["text"].encode("utf-16-le", "surrogatepass")
    for step, (state, held, why, events) in enumerate(
        stepped(pieces, body.get("reason"), **options), 1
    ):
        every += ((step, event) for event in events)
        said = [
            (type(e).__name__, e.text if type(e).__name__ in JOINED else "")  # type: ignore[union-attr]
            for e in events
        ]
        assert found.get(step, []) == said, step
        known, hold, start = unfolded.knot(step)
        waits = units[2 * start : 2 * unfolded.ends[step]].decode("utf-16-le", "surrogatepass")
        assert waits == held, step
        assert hold == (list(why) if why else [None, ""]), step
        assert (why is None) == (not held), step
        assert known == state or state is None, step
    assert traced["events"] == len(every)
    for protocol in PROTOCOLS:
        assert list(unfolded.frames(protocol)) == sent(protocol, every, body, len(pieces) + 1)


@each_row("case", [pytest.param(case, id=case["id"]) for case in part(CASES, 2)])
def test_it_says_what_the_parser_does_at_every_character(case: dict[str, Any]) -> None:
    check(asked(case, cut="character"))


@pytest.mark.parametrize("case", part(CASES[::5], 3), ids=lambda case: case["id"])
def test_at_every_token_and_at_random_cuts(case: dict[str, Any], tokenizer: Tokenizer) -> None:
    check(asked(case, cut="token", calls="whole"), tokenizer)
    for seed in range(3):
        check(asked(case, cut="random", seed=seed, reason="stop"))


@given(
    st.text(st.sampled_from('ab <>\n"{}\u20ac\U0001f327\ud83c\\`'), max_size=60),
    st.booleans(),
    st.integers(0, 5),
)
@settings(max_examples=fewer(150, 3), deadline=None)
def test_places_count_as_the_page_counts(text: str, thinking: bool, seed: int) -> None:
    body = {
        "text": text,
        "thinking": thinking,
        "tools": COMPLETION_TOOLS,
        "stop": ["ba"],
        "seed": seed,
    }
    check({**body, "cut": "random"})
    check({**body, "cut": "character"})


@pytest.mark.parametrize("example", EXAMPLE_COMPLETIONS, ids=lambda example: example.name)
def test_examples_show_their_rule(example: Any) -> None:
    body = {
        "text": example.text,
        "thinking": example.thinking,
        "tools": COMPLETION_TOOLS,
        "cut": "character",
    }
    check(body)
    read = dsv4.parse(example.text, thinking=example.thinking, tools=COMPLETION_TOOLS)
    assert bool(read.diagnostics) == bool(example.rule)
    assert 0 <= example.rule <= 19


def test_there_are_examples_enough_and_each_has_a_name() -> None:
    assert len({example.name for example in EXAMPLE_COMPLETIONS}) == len(EXAMPLE_COMPLETIONS) > 12
    kinds = {d.kind for e in EXAMPLE_COMPLETIONS for d in read_of(e).diagnostics}
    assert len(kinds) > 12


def read_of(example: Any) -> dsv4.Message:
    return dsv4.parse(example.text, thinking=example.thinking, tools=COMPLETION_TOOLS)


def test_every_state_is_drawn() -> None:
    told = stream_view_setup({}, PlaygroundContext())
    assert {name for move in told["moves"] for name in move} == {s["name"] for s in told["states"]}


def test_each_state_has_a_place_of_its_own_in_the_diagram() -> None:
    page = Path(dsv4._playground.completion_trace.__file__).parent / "page"
    drawn = dict(re.findall(r"(\w+): (\[\d, \d\])", (page / "diagram.js").read_text("utf-8")))
    places = [
        drawn[state["name"]] for state in stream_view_setup({}, PlaygroundContext())["states"]
    ]
    assert len(places) == len(set(places))


def test_strictly_it_stops_where_the_grammar_does() -> None:
    text = "\U0001f327 Ok.</think>It is <think>4.<｜end▁of▁sentence｜>"
    told = trace_completion({"text": text, "cut": "character"}, PlaygroundContext())["strict"]
    with pytest.raises(dsv4.ParseError) as caught:
        dsv4.parse(text, strict=True)
    assert told == {
        "accepts": False,
        "position": utf16_length(text[: caught.value.position]),
        "problem": caught.value.problem,
    }
    well = {"text": "Ok.</think>4.<｜end▁of▁sentence｜>", "cut": "character"}
    assert trace_completion(well, PlaygroundContext())["strict"] == {
        "accepts": True,
        "message": None,
    }


def test_an_answer_that_is_read_as_reasoning_looks_like_one() -> None:
    call = (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
    )
    for text, thinking, is_alike in [
        (f"So.\n\n{call}", True, True),
        (f"So.\n\n{call}", False, False),
        (f"Hm.</think>So.\n\n{call}", True, False),
    ]:
        traced = trace_completion({"text": text, "thinking": thinking}, PlaygroundContext())
        assert traced["like_answer"] == is_alike


# Work: counted, not timed.

LINE = "Some words that a model writes, in lines of a usual length.\n"
LONG = {
    "prose": LINE,
    "quotes": '<｜DSML｜tool_calls>"\\" ',
    "brackets": "<",
    "flips": "ab<think>cd</think>",
    "emoji": "\U0001f327x",
    "json": '{"a": [1, 2, 3]}, ',
}


@pytest.mark.parametrize("kind", LONG)
def test_a_trace_is_as_long_as_its_text(kind: str) -> None:
    piece = LONG[kind]
    sizes = []
    for length in (1_500, 3_000):
        text = (piece * (length // len(piece) + 1))[:length]
        traced = trace_completion(
            {"text": text, "cut": "character", "tools": COMPLETION_TOOLS}, PlaygroundContext()
        )
        sizes.append(len(json.dumps(traced)))
        assert len(traced["knots"]) <= 2 * traced["events"] + 4 * text.count("<") + 8
    assert sizes[1] <= 2.1 * sizes[0]


def test_text_that_only_flows_makes_no_knots() -> None:
    text = LINE * 200
    traced = trace_completion(
        {"text": text, "cut": "character", "thinking": False}, PlaygroundContext()
    )
    # Each line break waits once, and is let go once.
    assert len(text) > 10_000
    assert len(traced["rows"]) == 2
    assert len(traced["knots"]) <= 2 * 200 + 3
    assert len(traced["rows"][0]["runs"]) <= 2 * 200 + 3


HELD = (
    EXAMPLE_COMPLETIONS[0].text.partition('string="false">')[0]
    + 'string="false">'
    + "[1, 2], " * 200
)


@pytest.mark.parametrize("text", [LINE * 20, HELD, "<｜User｜>" * 50, "```\n" * 99])
def test_the_parser_is_asked_once_for_each_piece(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for = []
    position = dsv4.StreamParser.position.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(
        dsv4.StreamParser, "position", property(lambda p: asked_for.append(1) or position(p))
    )
    # What is held may be long, and is not copied for each piece of it.
    for copied in ((dsv4.StreamParser, "held"),):
        monkeypatch.setattr(*copied, property(lambda p: pytest.fail("a copy")))
    told = trace_completion(
        {"text": text, "cut": "character", "tools": COMPLETION_TOOLS}, PlaygroundContext()
    )
    assert len(asked_for) == len(text) + 1
    assert text is not HELD or len(told["knots"]) < 40


def test_rows_without_end_are_not_all_framed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_trace, "MAX_FRAMED_ROWS", 20)
    text = "a<think>b</think>" * 20
    framed = trace_completion(
        {"text": text, "cut": "random", "thinking": False}, PlaygroundContext()
    )["frames"]["chat"]
    assert (framed["whole"], len(framed["rows"]), framed["finish"]) == (False, 20, [])


@each_row(
    "body, path",
    [
        ({"text": 5}, "text"),
        ({}, "text"),
        ({"text": "a", "cut": "word"}, "cut"),
        ({"text": "a", "cut": "token"}, "cut"),
        ({"text": "a", "cut": "random", "seed": "x"}, "seed"),
        ({"text": "a", "tools": "bash"}, "tools"),
        ({"text": "a", "dialect": "v9"}, "dialect"),
        ({"text": "a", "reason": 5}, "reason"),
        ({"text": "a" * 1_200_001}, "text"),
    ],
)
def test_what_cannot_be_read_is_named(body: dict[str, Any], path: str) -> None:
    with pytest.raises(OptionError) as caught:
        trace_completion(body, PlaygroundContext())
    assert caught.value.path == path
