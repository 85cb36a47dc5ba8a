"""dsv4.dataset.encode_files, as a library call."""

from __future__ import annotations

import gzip
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


TALKS = [
    [
        message
        for turn in range(n % 4 + 1)
        for message in (user(f"{n}.{turn}?"), assistant("!" * (n % 7 + 1), reasoning="Hm."))
    ]
    for n in range(40)
]


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(f"{json.dumps(c)}\n" for c in TALKS))
    return path


class TestLengths:
    """With a small vocabulary a token is a byte or a special token."""

    def test_too_long_is_a_bad_line(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(BadLine, match=r"talks\.jsonl:4: found \d+ tokens, expected at most 40"):
            encode_files([talks], out, tokenizer=vocabulary, jobs=1, max_length=40)

    def test_dropped(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        options: Any = {"tokenizer": vocabulary, "jobs": 1}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        out = tmp_path / "out.jsonl"
        summary = encode_files([talks], out, max_length=40, too_long="drop", **options)
        short = [row for row in rows(tmp_path / "all.jsonl") if len(row["input_ids"]) <= 40]
        assert rows(out) == short
        assert summary.dropped == len(TALKS) - len(short) > 0

    def test_cut_at_a_turn(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        options: Any = {"tokenizer": vocabulary, "jobs": 1}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        out = tmp_path / "out.jsonl"
        summary = encode_files([talks], out, max_length=40, too_long="cut", **options)
        whole = rows(tmp_path / "all.jsonl")
        found = rows(out)
        assert summary.cut > 0
        assert len(found) == len(whole) - summary.dropped
        starts = {tuple(row["input_ids"]) for row in whole}
        for row in found:
            ids = tuple(row["input_ids"])
            assert len(ids) <= 40
            assert len(ids) == len(row["loss_mask"])
            assert any(start[: len(ids)] == ids for start in starts)
            assert ids[-1] == 1  # EOS
            assert row["loss_mask"][-1] == 1


class TestPacking:
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_rows(self, tmp_path: Path, vocabulary: Path, talks: Path, jobs: int) -> None:
        options: Any = {"tokenizer": vocabulary, "jobs": jobs}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        out = tmp_path / "out.jsonl"
        summary = encode_files([talks], out, pack=200, **options)
        found = rows(out)
        alone = sorted(row["input_ids"] for row in rows(tmp_path / "all.jsonl"))
        again = []
        for row in found:
            assert len(row["input_ids"]) <= 200
            start = 0
            for length in row["sequence_lengths"]:
                assert row["position_ids"][start : start + length] == list(range(length))
                assert row["loss_mask"][start] == 0
                again.append(row["input_ids"][start : start + length])
                start += length
        assert sorted(again) == alone
        assert (summary.examples, summary.rows) == (len(TALKS), len(found))

    def test_longer_than_a_row(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(BadLine, match="expected at most 40"):
            encode_files([talks], out, tokenizer=vocabulary, jobs=1, pack=40)
        with pytest.raises(DatasetError, match="max_length: found 50, expected no more than the"):
            encode_files([talks], out, tokenizer=vocabulary, jobs=1, pack=40, max_length=50)


class TestFormats:
    @pytest.mark.parametrize("pack", [None, 200])
    @pytest.mark.parametrize("name", ["parquet", "numpy", "megatron", "jsonl.gz"])
    def test_each_has_the_same_rows(
        self, tmp_path: Path, vocabulary: Path, talks: Path, name: str, pack: int | None
    ) -> None:
        numpy = pytest.importorskip("numpy")
        parquet = pytest.importorskip("pyarrow.parquet")
        options: Any = {"tokenizer": vocabulary, "jobs": 1, "pack": pack}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        expected = rows(tmp_path / "all.jsonl")
        encode_files([talks], tmp_path / "out", format=name, **options)
        if name == "parquet":
            assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected
        elif name == "numpy":
            ids, mask, starts = (
                numpy.load(tmp_path / f"out{part}.npy") for part in ("", ".loss_mask", ".rows")
            )
            for n, row in enumerate(expected):
                span = slice(starts[n], starts[n + 1])
                assert ids[span].tolist() == row["input_ids"]
                assert mask[span].tolist() == row["loss_mask"]
        elif name == "megatron":
            flat = numpy.fromfile(tmp_path / "out.bin", "<i4").tolist()
            assert flat == [id for row in expected for id in row["input_ids"]]
            assert (tmp_path / "out.idx").exists()
        else:
            text = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode()
            assert [json.loads(line) for line in text.splitlines()] == expected
        assert not list(tmp_path.glob("*.partial")) + list(tmp_path.glob("*.whole"))

    def test_another(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        with pytest.raises(DatasetError, match="format: found 'tsv', expected one of jsonl, "):
            encode_files([talks], tmp_path / "out", tokenizer=vocabulary, format="tsv")


def test_parts(tmp_path: Path, vocabulary: Path, talks: Path) -> None:
    options: Any = {"tokenizer": vocabulary, "jobs": 1}
    encode_files([talks], tmp_path / "all.jsonl", **options)
    split = {"train": 0.7, "valid": 0.3}
    summary = encode_files([talks], tmp_path / "out.jsonl", split=split, **options)
    parts = [rows(tmp_path / f"out.{name}.jsonl") for name in split]
    assert all(parts)
    together = [row["input_ids"] for part in parts for row in part]
    assert sorted(together) == sorted(r["input_ids"] for r in rows(tmp_path / "all.jsonl"))
    assert (summary.conversations, summary.rows) == (len(TALKS), len(TALKS))


def test_counts(tmp_path: Path, vocabulary: Path, talks: Path) -> None:
    out = tmp_path / "out.jsonl"
    summary = encode_files([talks], out, tokenizer=vocabulary, jobs=2, counts=True)
    found = rows(out)
    assert summary.counts is not None
    told = summary.counts.to_dict()
    longest = max(len(row["input_ids"]) for row in found)
    assert told["longest"]["tokens"] == longest
    line = int(told["longest"]["at"].rpartition(":")[2])
    assert len(found[line - 1]["input_ids"]) == longest
    assert sum(told["histogram"].values()) == len(found)
    assert told["histogram"]["<=32"] == sum(16 < len(row["input_ids"]) <= 32 for row in found)
    assert told["trained"]["tokens"] == sum(sum(row["loss_mask"]) for row in found)
    assert sum(field["tokens"] for field in told["fields"].values()) == summary.tokens
    assert told["fields"]["reasoning"]["tokens"] > 0
