"""Texts that people paste into the page that are no request: prompts, log lines, JSON lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsv4
from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PlaygroundContext

MESSAGES = [
    {"role": "system", "content": 'Be "brief".'},
    {"role": "user", "content": "Two\nlines"},
]
PROMPT = str(dsv4.encode(MESSAGES))


def imported(text: str) -> Any:
    status, body = answer("import", json.dumps({"source": text}), PlaygroundContext())
    assert status == 200
    return json.loads(body)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROMPT, id="as it is"),
        pytest.param(f"{PROMPT}\n", id="with a line end"),
        pytest.param(json.dumps(PROMPT), id="as JSON"),
        pytest.param(json.dumps(PROMPT, ensure_ascii=False), id="as JSON without escapes"),
        pytest.param(repr(PROMPT), id="as Python shows it"),
        pytest.param(f"INFO 11-16 engine.py: prompt: {PROMPT!r}", id="in a line of a log"),
    ],
)
def test_a_prompt_is_decoded_however_it_was_copied(text: str) -> None:
    found = imported(text)
    assert found["kind"] == "prompt"
    assert json.loads(found["source"])["messages"] == MESSAGES


def test_what_stood_before_a_prompt_is_told() -> None:
    assert "6 characters before" in imported(f"INFO: {PROMPT}")["notes"][0]
    assert "1 character before" in imported(f">{PROMPT}")["notes"][0]


def test_lines_of_json_are_listed() -> None:
    found = imported('[{"role": "user"}]\r\n\r\n{"messages": []}\r\n')
    assert found["kind"] == "lines"
    assert [json.loads(line) for line in found["lines"]] == [[{"role": "user"}], {"messages": []}]


@pytest.mark.parametrize("text", ["", "Hello", "1\n2", '{"one": 1', "a\n" * 20_000])
def test_anything_else_is_unknown(text: str) -> None:
    assert imported(text) == {"kind": "unknown"}
