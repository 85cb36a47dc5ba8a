"""The table of states says what the parser does, and the documentation draws the table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import dsv4
from completions import corpus
from dsv4._format import tokens
from dsv4._format.dialects import V4
from dsv4._parse.reading import NEXT, ParserState, Reading

TAGS = V4.tags
FRAGMENTS = [
    *("text ", "\n", "\n\n", "<", "```\n", '{"a": 1}', '[{"name": "f"}]', '"', "\\", "stop"),
    *(str(token) for token in (tokens.EOS, tokens.THINK_START, tokens.THINK_END)),
    *(str(TAGS.block_open), str(TAGS.block_close), f'{TAGS.invoke_open}f">\n'),
    *(str(TAGS.invoke_close), f'{TAGS.parameter_open}a" string="true">'),
    *(f'{TAGS.parameter_open}a" string="false">', str(TAGS.parameter_close)),
    f'{TAGS.parameter_open}a" string="b"/>',
    *('<invoke name="f">', "</invoke>", "<tool_calls>", '<parameter name="a">', "</parameter>"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        str(tokens.USER),
        f"{tokens.ASSISTANT}{tokens.THINK_END}",
        str(TAGS.block_open)[2:-1],
        str(TAGS.parameter_open),
    ),
]


def test_every_state_has_its_successors() -> None:
    assert set(NEXT) == set(ParserState)


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> set[tuple[ParserState, ParserState]]:
    """The moves from state to state that parsers make from now on."""
    seen: set[tuple[ParserState, ParserState]] = set()

    enter = Reading.enter

    def recorded(reading: Reading, state: ParserState) -> None:
        if reading.state is not state:
            seen.add((reading.state, state))
        enter(reading, state)

    monkeypatch.setattr(Reading, "enter", recorded)
    return seen


def texts() -> Iterator[str]:
    yield from (case["text"] for case in corpus())
    # JSON calls with a raw newline in a string: read again, as a text.
    yield f'{TAGS.block_open}[{{"name": "f", "arguments": {{"a": "b\nc"}}}}]{TAGS.block_close}'
    # Parameters in a parameter, and a name with its arguments in a fence.
    member = f'{TAGS.parameter_open}b" string="true">x{TAGS.parameter_close}'
    for string in ("", ' string="false"'):
        opening = f'{TAGS.block_open}{TAGS.invoke_open}g">{TAGS.parameter_open}a"{string}>'
        for value in (member, member * 2):
            yield f"{opening}{value}{TAGS.parameter_close}{TAGS.invoke_close}"
    yield f'{TAGS.block_open}g\n```\n{{"a": []}}\n```{TAGS.block_close}'
    yield f"{TAGS.block_open}\n\nThat is all."
    choose = random.Random(0)
    for _ in range(3000):
        yield "".join(choose.choices(FRAGMENTS, k=choose.randint(1, 14)))


@pytest.mark.repeats
def test_the_parser_makes_the_moves_of_the_table_and_no_others(
    moves: set[tuple[ParserState, ParserState]],
) -> None:
    tools: list[dict[str, Any]] = [{"name": name} for name in ("f", "get_weather", "bash")]
    tools.append({"name": "g", "parameters": {"properties": {"a": {"type": "array"}}}})
    choose = random.Random(1)
    for text in texts():
        for stop in ((), ("stop",)):
            parser = dsv4.StreamParser(thinking=choose.random() < 0.5, tools=tools, stop=stop)
            parser.feed(text)
            parser.finish()
    assert moves == {(state, after) for state in ParserState for after in NEXT[state]}
