"""The turns of sessions and logs: what each costs, what the cache keeps and loses, and repairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsv4
from completions import block, calling
from dsv4._playground import turn_list
from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PlaygroundContext

SESSIONS = Path(__file__).parents[1] / "agent_sessions"
LEAK = block(calling("read", path="a"))


def turns(text: str, start: int = 0) -> Any:
    body = json.dumps({"source": text, "start": start})
    status, data = answer("turns", body, PlaygroundContext())
    assert status == 200, data
    return json.loads(data)


def prompt_of(text: str, turn: int) -> str:
    body = json.dumps({"source": text, "turn": turn})
    status, data = answer("text", body, PlaygroundContext())
    assert status == 200, data
    return str(json.loads(data)["prompt"])


def record(messages: list[Any], completion: str, **fields: Any) -> dict[str, Any]:
    request = {"messages": messages}
    prompt = str(dsv4.encode(messages))
    return {
        **{"protocol": "chat", "request": request, "prompt": prompt, "dialect": "v4"},
        **{"completion": completion, "finish": "stop", "message": {}, **fields},
    }


@pytest.mark.parametrize("name", ["claude-2.jsonl", "codex-1.jsonl", "pi-1.jsonl", "qwen-1.jsonl"])
def test_each_turn_of_a_session_opens_the_prompt_that_is_counted(name: str) -> None:
    text = (SESSIONS / name).read_text("utf-8")
    listed = turns(text)
    assert len(listed["turns"]) == listed["total"] > 1
    for turn in listed["turns"]:
        assert len(prompt_of(text, turn["turn"])) == turn["size"]
        assert turn["reused"] <= turn["held"]


def test_a_log_says_what_goes_on_from_what() -> None:
    first = [{"role": "user", "content": "One"}]
    more = [*first, {"role": "assistant", "content": "Two"}, {"role": "user", "content": "Three"}]
    other = [{"role": "system", "content": "Else"}, {"role": "user", "content": "One"}]
    repair = {"kind": "missing_eos", "sentence": "The end is missing.", "start": 0, "end": 1}
    rows = [
        record(first, "</think>Two<｜end▁of▁sentence｜>"),
        record(other, "Hm.", diagnostics=[repair]),
        record(more, "Hm."),
    ]
    listed = turns("\n".join(map(json.dumps, rows)))["turns"]
    assert [turn["repairs"] for turn in listed] == [[], ["The end is missing."], []]
    assert listed[0]["held"] == 0
    assert listed[2]["reused"] > listed[1]["reused"]
    assert [turn["turn"] for turn in listed] == [0, 1, 2]
    assert listed[1]["size"] == len(rows[1]["prompt"])


def test_what_leaked_in_a_session_is_told_at_its_turn() -> None:
    conversation = [
        {"role": "user", "content": "Read a"},
        {"role": "assistant", "content": f"Look.\n\n{LEAK}"},
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": "Sorry."},
    ]
    lines = [{"type": "message", "message": message} for message in conversation]
    listed = turns("\n".join(map(json.dumps, lines)))["turns"]
    assert [turn["repairs"] for turn in listed] == [["read is called in the text"], []]


def test_a_har_file_is_listed_without_its_keys() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    entry = {
        "request": {"url": "https://x/v1/chat/completions", "postData": {"text": body}},
        "response": {
            "status": 401,
            "content": {"text": '{"error": {"message": "sk-abcdefgh"}}'},
        },
    }
    listed = turns(json.dumps({"log": {"entries": [entry, entry]}}))
    assert len(listed["turns"]) == 2
    assert "sk-abc" not in json.dumps(listed)
    assert listed["turns"][0]["repairs"]


def test_a_request_that_has_no_prompt_is_named() -> None:
    rows = [{"messages": [{"role": "user", "content": "Hi"}]}, {"messages": [{"role": "usr"}]}]
    good, bad = turns("\n".join(map(json.dumps, rows)))["turns"]
    assert good["size"] > 0
    assert "role" in bad["problem"]


@pytest.mark.parametrize("is_log", [False, True])
def test_a_long_list_comes_in_parts_that_are_the_whole(
    is_log: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [
        {"role": ("user", "assistant")[n % 2], "content": f"Number {n}. {'word ' * 20}"}
        for n in range(60)
    ]
    lines: list[Any] = [{"type": "message", "message": message} for message in said]
    if is_log:
        lines = [record(said[: 2 * n + 1], "Hm.") for n in range(30)]
    text = "\n".join(map(json.dumps, lines))
    whole = turns(text)
    assert len(whole["turns"]) == whole["total"] == 30
    assert all(turn["size"] for turn in whole["turns"])
    monkeypatch.setattr(turn_list, "PATIENCE", 0)
    turn_list._measuring.cache_clear()
    parts: list[Any] = []
    while len(parts) < whole["total"]:
        more = turns(text, len(parts))["turns"]
        assert len(more) == 1
        parts += more
    assert parts == whole["turns"]
    # Another process has measured nothing yet.
    turn_list._measuring.cache_clear()
    assert turns(text, 20)["turns"] == whole["turns"][20:21]
    assert turns(text, 30)["turns"] == []
