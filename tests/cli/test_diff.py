"""dsv4 diff, as a process."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from running import Said, said

import dsv4
from builders import png
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


def look(*pictures: str) -> list[dict[str, Any]]:
    content = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    return [{"role": "user", "content": [{"type": "text", "text": "Look:"}, *content]}]


def pictures_compared(folder: Path, a: Any, b: Any, *options: str) -> Said:
    (folder / "a.json").write_text(json.dumps(a))
    (folder / "b.json").write_text(json.dumps(b))
    return said("diff", "--dialect", "v4.1", *options, "a.json", "b.json", cwd=folder)


def test_another_picture(tmp_path: Path) -> None:
    """Their placeholders are the same: shared is what stands before the picture that differs."""
    same, shot = "https://a.b/0.png", f"data:image/png;base64,{b64encode(png(1920, 1080)).decode()}"
    a, b = look(same, "https://a.b/1.png"), look(same, shot)
    found = json.loads(pictures_compared(tmp_path, a, b, "--json").stdout)
    assert (found["prefix"], found["cause"]) == (False, "another picture stands here")
    assert (found["message"], found["field"]) == (0, "image")
    request: Any = a
    text = str(dsv4.encode(request, dialect="v4.1"))
    assert found["characters"] == text.rindex("<｜deepseek_image｜>")
    assert found["tokens"] < found["a"]["tokens"]
    assert found["a"]["picture"] == "1.png, size not known, https://a.b/1.png"
    named = r"image 2, 1920 × 1080, 41 × 23 cells, 968 tokens, sha256:[0-9a-f]{12}"
    assert re.fullmatch(named, found["b"]["picture"])
    lines = pictures_compared(tmp_path, a, b).stdout.splitlines()
    parted = f"They part after {found['tokens']} tokens, {found['characters']} characters"
    assert f"{parted}, in messages[0].image:" in lines
    assert any(line.startswith("A     (1.png, ") for line in lines)
    assert any(line.startswith("B     (image 2, 1920 × 1080") for line in lines)


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
