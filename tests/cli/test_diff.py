"""dsv4 diff, as a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import Said, said

import dsv4
from small_vocabulary import write_small_vocabulary

pytest.importorskip("tokenizers")

DROPPED = "reasoning is dropped once another user turn follows"
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Oslo?"}]
ANSWERED = [*ASKED, {"role": "assistant", "reasoning_content": "Hm.", "content": "Rain."}]
ASKED_AGAIN = [*ANSWERED, {"role": "user", "content": "Rome?"}]
SPELLED = str(dsv4.encode(ASKED))[-len("<think>") :]


def diff(folder: Path, a: Any, b: Any, *arguments: str) -> Said:
    vocabulary = write_small_vocabulary(folder / "tokenizer.json")
    (folder / "a.json").write_text(json.dumps(a))
    (folder / "b.json").write_text(json.dumps(b))
    return said("diff", "--tokenizer", vocabulary, *arguments, "a.json", "b.json", cwd=folder)


def opened(text: str) -> list[dict[str, Any]]:
    return [*ASKED, {"role": "assistant", "content": text, "prefix": True}]


def test_another_picture(tmp_path: Path) -> None:
    """Their placeholders are the same."""

    def look(url: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    options = ("--dialect", "v4.1", "--json")
    (tmp_path / "a.json").write_text(json.dumps(look("https://a.b/1.png")))
    (tmp_path / "b.json").write_text(json.dumps(look("https://a.b/2.png")))
    found = json.loads(said("diff", *options, "a.json", "b.json", cwd=tmp_path).stdout)
    assert (found["prefix"], found["cause"]) == (False, "another picture stands here")
    assert (found["message"], found["field"]) == (0, "image")


def test_going_on(tmp_path: Path) -> None:
    done = diff(tmp_path, ASKED, ANSWERED)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("B goes on where A ends, with 10 tokens more.\n")


@pytest.mark.parametrize(
    ("a", "b", "options", "found"),
    [
        (ASKED, ASKED, [], {"prefix": True, "tokens": 9, "cause": None}),
        (
            ANSWERED,
            ASKED_AGAIN,
            [],
            {"tokens": 8, "message": 1, "field": "header"} | {"cause": DROPPED},
        ),
        (
            ASKED_AGAIN,
            ANSWERED,
            [],
            {"cause": f"{DROPPED}: A is the later conversation"},
        ),
        (ANSWERED, ASKED_AGAIN, ["--keep-thinking"], {"prefix": True, "tokens": 19}),
        (ANSWERED, ASKED, [], {"prefix": False, "cause": "the second prompt ends here"}),
        (
            opened("h"),
            opened("he"),
            ["--mode", "chat"],
            {"cause": "the last token of A takes in text that follows in B"},
        ),
    ],
)
def test_where_and_why(
    tmp_path: Path, a: Any, b: Any, options: list[str], found: dict[str, Any]
) -> None:
    done = diff(tmp_path, a, b, "--json", *options)
    said = json.loads(done.stdout)
    assert {name: said[name] for name in found} == found
    assert done.returncode == (0 if said["prefix"] else 1)


def test_what_is_shown(tmp_path: Path) -> None:
    shown = diff(tmp_path, ANSWERED, ASKED_AGAIN).stdout.splitlines()
    assert shown[3] == "They part after 8 tokens, 48 characters, in messages[1].header:"
    start = str(dsv4.encode(ASKED)).removesuffix(SPELLED)
    assert shown[6] == f"both  {start}"
    assert shown[7].startswith(f"A     {SPELLED}Hm.")


def test_errors(tmp_path: Path) -> None:
    done = diff(tmp_path, [], ASKED)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "dsv4: a.json: messages: found none, expected at least one message\n"
