"""`dsv4 why`: whatever somebody pastes is recognised, and what is wrong is said in a few lines."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from inputs import INPUTS, Input

import dsv4
from dsv4._why.doc_pages import doc_pages
from dsv4._why.judge import why
from dsv4._why.verdict import without_keys


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_an_input_is_recognised_and_explained(given: Input) -> None:
    verdict = why(given.source)
    shown = "\n".join(f"{word}  {text}" for word, text in verdict.lines())
    assert (verdict.kind, verdict.status, verdict.who) == (given.kind, given.status, given.who), (
        shown
    )
    assert given.words in shown


def test_there_are_inputs_of_all_kinds() -> None:
    assert len(INPUTS) >= 60
    assert len({given.name for given in INPUTS}) >= len(INPUTS) - 1
    assert min(Counter(given.status for given in INPUTS).values()) >= 10


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_a_verdict_is_short_and_leads_on(given: Input) -> None:
    verdict = why(given.source)
    lines = verdict.lines()
    assert 3 <= len(lines) <= 6
    assert all("\n" not in text and len(text) < 700 for _, text in lines), lines
    assert not verdict.more or verdict.more in doc_pages()
    assert verdict.status != 1 or verdict.fix
    json.dumps(verdict.to_dict())


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_no_key_is_shown(given: Input) -> None:
    assert "0123456789abcdef" not in json.dumps(why(given.source).to_dict())


def test_nothing_that_is_cut_or_changed_ends_in_an_exception() -> None:
    """Every input, cut at places that are the same every time, and with its signs exchanged."""
    for given in INPUTS:
        text = given.source
        if isinstance(text, bytes) or len(text) > 10_000:
            continue
        cuts = [text[: len(text) * n // 7] for n in range(1, 7)]
        changed = [text.replace(a, b) for a, b in (('"', "'"), ("{", "["), ("\n", ""), (":", ""))]
        for each in (*cuts, *changed):
            assert why(each).lines()


STRANGERS = [
    json.loads(line)
    for line in Path(__file__).with_name("pasted_by_strangers.jsonl").read_text("utf-8").split("\n")
    if line
]


@pytest.mark.parametrize("row", STRANGERS, ids=lambda row: row["name"])
def test_what_strangers_paste(row: dict[str, Any]) -> None:
    """Inputs that were written, with what is to be said of them, before the code was tried."""
    verdict = why(base64.b64decode(row["base64"]) if "base64" in row else row["text"])
    shown = "\n".join(f"{word}  {text}" for word, text in verdict.lines())
    assert (verdict.kind, verdict.status, verdict.who) == (
        row["kind"],
        row["status"],
        row["who"],
    ), shown
    assert all(word in shown for word in row["words"]), shown
    assert verdict.status != 2 or verdict.because, "what is not understood gets a helpful line"
    assert "9f8e7d6c5b4a" not in json.dumps(verdict.to_dict()) + shown


@pytest.mark.parametrize(
    "text",
    [
        "GET https://x/v1?key=SECRET0123&x=1 HTTP/1.1 500",
        "HTTP/1.1 500\nCookie: theme=dark; sid=SECRET0123",
        'HTTP/1.1 500 {"name": "Cookie", "value": "sid=SECRET0123"}',
        'HTTP/1.1 500 {"name": "x-api-key", "value": "SECRET0123"}',
        "HTTP/1.1 500 curl -u user:SECRET0123 -b 'sid=SECRET0123' https://x",
        "HTTP/1.1 500 at https://user:SECRET0123@host/v1",
        f"Authorization: Bearer {'SECRET0123' * 5} HTTP/1.1 500 Internal Server Error",
        "OPENAI_API_KEY=SECRET0123 HTTP/1.1 500",
        "HTTP/1.1 500 Authorization: Digest SECRET0123",
    ],
)
def test_keys_of_all_kinds_are_struck_out(text: str) -> None:
    verdict = why(f"openai.APIError: {text}")
    assert verdict.kind == "error"
    assert "SECRET0123" not in json.dumps(verdict.to_dict())
    assert "SECRET0123" not in str(verdict.lines())
    assert without_keys(without_keys(text)) == without_keys(text)


@pytest.mark.parametrize("text", ["lorem ipsum dolor " * 280_000, "<" * 5_000_000])
def test_five_megabytes_take_no_minute(text: str) -> None:
    begin = time.process_time()
    assert why(text).status == 0
    assert time.process_time() - begin < 10


def test_commands_to_copy_name_a_file_that_they_can_read() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    assert why(json.dumps(body).encode(), "a.json").fix.startswith("dsv4 show a.json ")
    for inside in (
        f"curl http://x/v1 -d '{json.dumps(body)}'",
        json.dumps({"body": body}),
        str(body),
    ):
        verdict = why(inside, "a.txt")
        assert verdict.fix.startswith("dsv4 show REQUEST.json ")
        assert "its JSON alone in REQUEST.json" in verdict.because


def test_a_prompt_in_a_log_is_decoded_by_a_command_that_finds_it() -> None:
    prompt = str(dsv4.encode([{"role": "user", "content": "Hi"}]))
    assert why(prompt, "a.txt").fix.startswith("dsv4 decode a.txt ")
    for inside in (f"INFO prompt: {prompt!r}, params: None", json.dumps(prompt)):
        assert why(inside, "a.txt").fix.startswith("dsv4 decode --unescape a.txt ")


@pytest.mark.parametrize(
    "row",
    [row for row in STRANGERS if row["status"] and "text" in row and "```" not in row["text"]],
    ids=lambda row: row["name"],
)
def test_a_fence_an_indent_and_line_ends_change_no_verdict(row: dict[str, Any]) -> None:
    text = row["text"]
    if not text.strip():
        return
    lines = text.replace("\r\n", "\n").split("\n")
    fenced, indented = f"```\n{text}\n```\n", "\n".join(f"    {line}" for line in lines)
    for form in (fenced, indented, "\r\n".join(lines)):
        verdict = why(form)
        assert (verdict.status, verdict.who) == (row["status"], row["who"]), form
