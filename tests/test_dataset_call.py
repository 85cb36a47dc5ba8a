"""dsv4.dataset.encode_files, as a library call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsv4
from builders import assistant, user
from dsv4.dataset import BadLine, DatasetError, encode_files
from small_vocabulary import write_small_vocabulary

pytest.importorskip("tokenizers")
from dsv4.dataset.watching import Watcher
from dsv4.tokens import Tokenizer

CONVERSATIONS = [[user(f"{n}?"), assistant(f"{n}!", reasoning="Hm.")] for n in range(5)]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    return write_small_vocabulary(tmp_path / "tokenizer.json")


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f"{json.dumps(c)}\n" for c in CONVERSATIONS))
    return path


def rows(path: Path) -> list[dict[str, list[int]]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_encodes_every_conversation(
    tmp_path: Path, vocabulary: Path, conversations: Path
) -> None:
    out = tmp_path / "out.jsonl"
    summary = encode_files([conversations], out, tokenizer=vocabulary, jobs=1, thinking=False)
    written = rows(out)
    tokenizer = Tokenizer.load(vocabulary)
    for row, messages in zip(written, CONVERSATIONS, strict=True):
        ids, weights = tokenizer.encode_masked(dsv4.encode(messages, thinking=False))
        assert row == {"input_ids": ids, "loss_mask": weights}
    assert (summary.conversations, summary.examples, summary.bad) == (5, 5, 0)
    assert summary.tokens == sum(len(row["input_ids"]) for row in written)


class Listener(Watcher):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def bad_line(self, problem: str) -> None:
        self.heard.append(problem)


def test_bad_lines(tmp_path: Path, vocabulary: Path, conversations: Path) -> None:
    with conversations.open("a") as file:
        file.write("[1]\n")
    out, listener = tmp_path / "out.jsonl", Listener()
    options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1, "watcher": listener}
    summary = encode_files([conversations], out, on_error="skip", **options)
    assert (summary.conversations, summary.bad) == (5, 1)
    assert [problem.partition(": ")[2] for problem in listener.heard] == [
        'messages[0]: found 1, expected a message: a dict with a "role"'
    ]
    with pytest.raises(BadLine, match=r"in\.jsonl:6: messages\[0\]"):
        encode_files([conversations], tmp_path / "other.jsonl", **options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"policy": "x"}, "policy: found 'x'"),
        ({"policy": "calls", "expand": True}, "policy: expand has"),
        ({"jobs": 0}, "jobs: found 0"),
        ({"engine": "x"}, "engine: found 'x'"),
        ({"on_error": "x"}, "on_error: found 'x'"),
        ({"dialect": "x"}, "dialect: found 'x'"),
        ({"thinking": 5}, "thinking: found 5"),
        ({"column": "x"}, "column: only Parquet"),
    ],
)
def test_wrong_options(
    tmp_path: Path, vocabulary: Path, conversations: Path, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DatasetError, match=problem):
        encode_files([conversations], tmp_path / "out.jsonl", tokenizer=vocabulary, **options)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "in.jsonl"}
