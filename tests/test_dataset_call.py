"""dsv4.dataset.encode_files, as a library call."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dsv4
from builders import *
from dataset_runs import encode_files
from dsv4.dataset import BadLine, DatasetError, Interrupted, Summary, Watcher
from small_vocabulary import write_small_vocabulary

pytest.importorskip("tokenizers")
from dsv4.dataset import dataset_engines, dataset_run
from dsv4.dataset.output_formats import TRAINERS
from dsv4.dataset.resumable_output import _is_same_file
from dsv4.tokens import Tokenizer
from test_image_ids import SCREENSHOT

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


def test_an_empty_file_among_others_is_named(
    tmp_path: Path, vocabulary: Path, conversations: Path
) -> None:
    empty, out = tmp_path / "empty.jsonl", tmp_path / "out.jsonl"
    empty.touch()
    files = [conversations, empty, conversations]
    summary = encode_files(files, out, tokenizer=vocabulary, jobs=1)
    assert summary.conversations == 10
    assert summary.notes["empty_file"] == (1, str(empty))


class Listener(Watcher):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def bad_line(self, problem: str) -> None:
        self.heard.append(problem)


def test_a_file_that_is_not_there(tmp_path: Path, vocabulary: Path) -> None:
    with pytest.raises(DatasetError, match=r"in.jsonl: no such file or directory"):
        encode_files([tmp_path / "in.jsonl"], tmp_path / "out.jsonl", tokenizer=vocabulary)


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


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"messages": 5}, "messages: found 5, expected a list of messages"),
        ({"messages": None}, "messages: found None, expected a list of messages"),
        ({"messages": {}}, "messages: found {}, expected a list of messages"),
        ([], "messages: found none, expected at least one message"),
        ([*CONVERSATIONS[0], user(5)], "messages[2].content: found 5"),
        ({"messages": CONVERSATIONS[0], "context": 5}, "context: found 5"),
    ],
)
def test_a_bad_line_is_one_however_it_is_encoded(
    tmp_path: Path, vocabulary: Path, conversations: Path, line: Any, problem: str, expand: bool
) -> None:
    with conversations.open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    with pytest.raises(BadLine) as caught:
        encode_files([conversations], tmp_path / "o.jsonl", tokenizer=vocabulary, expand=expand)
    assert str(caught.value).startswith(f"{conversations}:6: {problem}")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("missing.jsonl", None, "missing.jsonl: no such file or directory"),
        ("half.json", '[{"messages"', "half.json:1:13: not JSON: expecting ':' delimiter"),
        ("number.json", "5", "number.json: found 5, expected an array of conversations"),
        ("plain.jsonl.gz", "abc", "plain.jsonl.gz: not a gzipped file"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, vocabulary: Path, name: str, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(DatasetError) as caught:
        encode_files([tmp_path / name], tmp_path / "out.jsonl", tokenizer=vocabulary)
    assert problem in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_turns_of_a_context_cannot_be_expanded(tmp_path: Path, vocabulary: Path) -> None:
    line = {"messages": CONVERSATIONS[0], "context": [user("Before")]}
    with pytest.raises(BadLine, match="context: found it, expected earlier messages"):
        encoded(tmp_path / "in.jsonl", [line], vocabulary, expand=True)


def test_conversations_without_an_answer_are_counted(tmp_path: Path, vocabulary: Path) -> None:
    """There is nothing to expand in them, so that no row would tell."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(f"{json.dumps(c)}\n" for c in [*CONVERSATIONS[:2], [user("3?")]]))
    summary = encode_files([path], out, tokenizer=vocabulary, jobs=1, expand=True)
    assert (summary.conversations, summary.examples, summary.count("nothing_to_learn")) == (3, 2, 1)


def test_a_tool_choice_hides_the_tools_of_expanded_turns(tmp_path: Path, vocabulary: Path) -> None:
    line = {"messages": CONVERSATIONS[0], "tools": [function()], "tool_choice": "none"}
    bare = {"messages": CONVERSATIONS[0]}
    hidden, shown = encoded(tmp_path / "in.jsonl", [line, bare], vocabulary, expand=True)
    assert hidden == shown


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
        ({"policy": len}, "policy: found <built-in function len>, expected the name of one"),
        ({"jobs": "2"}, "jobs: found '2', expected at least 1"),
        ({"jobs": True}, "jobs: found True, expected at least 1"),
        ({"expand": "no"}, "expand: found 'no', expected True or False"),
        ({"format": []}, r"format: found \[\], expected one of jsonl"),
        ({"rejects": 5}, "rejects: found 5, expected a path"),
        ({"tokenizer": 5}, "tokenizer: found 5, expected a path"),
        ({"carry": "id"}, "carry: found 'id', expected a list of names"),
        ({"carry": [5]}, "carry: found 5, expected the name of a field"),
        ({"carry": ["input_ids"]}, "carry: found input_ids, which is a column of the output's"),
        ({"carry": ["line"]}, "carry: found line, which is a column of the output's own"),
        ({"trainer": "x"}, "trainer: found 'x', expected one of trl, axolotl, verl, torchtune"),
        ({"trainer": []}, r"trainer: found \[\], expected one of trl"),
        ({"trainer": "axolotl", "pack": 64}, r"which packs examples itself \(sample_packing: true"),
        ({"trainer": "torchtune", "pack": 64}, r"packs examples itself \(PackedDataset\)"),
        ({"trainer": "verl", "pack": 64}, r"packs examples itself \(data.pad_mode=no_padding\)"),
        ({"ignore": ["x"]}, "ignore: found 'x', expected one of reasoning_in_content, calls_in"),
        ({"ignore": "x"}, "ignore: found 'x', expected a list of kinds"),
    ],
)
def test_wrong_options(
    tmp_path: Path, vocabulary: Path, conversations: Path, options: dict[str, Any], problem: str
) -> None:
    given = {"tokenizer": vocabulary, **options}
    with pytest.raises(DatasetError, match=problem):
        encode_files([conversations], tmp_path / "out.jsonl", **given)
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "in.jsonl"}


@pytest.mark.parametrize(
    ("inputs", "output", "problem"),
    [
        ("in.jsonl", "out.jsonl", "inputs: found 'in.jsonl', expected a list of paths"),
        (5, "out.jsonl", "inputs: found 5, expected a list of paths"),
        ([5], "out.jsonl", "inputs: found 5, expected a path"),
        ([], "out.jsonl", "inputs: found none, expected at least one path"),
        (["in.jsonl"], None, "output: found None, expected a path"),
    ],
)
def test_wrong_paths(inputs: Any, output: Any, problem: str) -> None:
    with pytest.raises(DatasetError) as caught:
        encode_files(inputs, output)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("read", "output", "rejects", "problem"),
    [
        ("in.jsonl", "./in.jsonl", None, "in.jsonl is both input and output"),
        ("out.jsonl.partial", "out.jsonl", None, "out.jsonl.partial is both input and output"),
        ("in.jsonl", "out.jsonl", "./in.jsonl", "rejects: found in.jsonl, expected a file of its"),
        ("in.jsonl", "out.jsonl", "./out.jsonl", "rejects: found out.jsonl, expected a file of"),
    ],
)
def test_no_file_is_written_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: str,
    output: str,
    rejects: str | None,
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(read).write_text(f"{json.dumps(CONVERSATIONS[0])}\n")
    with pytest.raises(DatasetError, match=problem):
        encode_files([read], output, overwrite=True, on_error="skip", rejects=rejects)
    assert [path.name for path in tmp_path.iterdir()] == [read]
    assert Path(read).read_text() == f"{json.dumps(CONVERSATIONS[0])}\n"


def encoded(path: Path, conversations: list[Any], vocabulary: Path, **options: Any) -> list[Any]:
    """The rows of some conversations."""
    path.write_text("".join(f"{json.dumps(c)}\n" for c in conversations))
    out = path.with_name("out.jsonl")
    encode_files([path], out, tokenizer=vocabulary, jobs=1, overwrite=True, **options)
    return rows(out)


class TestColumns:
    def test_fields_go_along_with_file_and_line(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        bodies = [{"messages": CONVERSATIONS[0], "id": 7, "tags": ["a"]}, CONVERSATIONS[1]]
        first, second = encoded(path, bodies, vocabulary, carry=["id", "tags"])
        assert [first[n] for n in ("id", "tags", "file", "line")] == [7, ["a"], str(path), 1]
        assert [second[n] for n in ("id", "tags", "line")] == [None, None, 2]

    def test_they_do_in_parquet(self, tmp_path: Path, vocabulary: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        texts = [json.dumps(conversation) for conversation in CONVERSATIONS]
        table = arrow.table({"text": texts, "id": list("abcde")})
        parquet.write_table(table, tmp_path / "in.parquet")
        options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1, "column": "text"}
        out = tmp_path / "out.parquet"
        encode_files([tmp_path / "in.parquet"], out, carry=["id"], **options)
        written = parquet.read_table(out).to_pylist()
        assert [(row["id"], row["line"]) for row in written] == list(
            zip("abcde", range(1, 6), strict=True)
        )

    def test_labels(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        (masked,) = encoded(path, CONVERSATIONS[:1], vocabulary)
        (labelled,) = encoded(path, CONVERSATIONS[:1], vocabulary, trainer="trl")
        pairs = zip(masked["input_ids"], masked["loss_mask"], strict=True)
        assert labelled["labels"] == [id if learned else -100 for id, learned in pairs]
        assert "loss_mask" not in labelled


class TestLearning:
    def test_messages_have_weights(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        turns = [user("a"), assistant("b"), user("c"), assistant("d")]
        whole = encoded(path, [turns], vocabulary, drop_thinking=False)[0]
        for expand in (False, True):
            weighted = [turns[0], {**turns[1], "weight": 0}, turns[2], {**turns[3], "weight": 1}]
            (row,) = encoded(path, [weighted], vocabulary, expand=expand, drop_thinking=False)
            assert row["input_ids"] == whole["input_ids"]
            assert 0 < sum(row["loss_mask"]) < sum(whole["loss_mask"])
        with pytest.raises(BadLine, match=r"messages\[1\].weight: found 0.5, expected 0 or 1"):
            encoded(path, [[turns[0], {**turns[1], "weight": 0.5}]], vocabulary)

    def test_what_has_nothing_to_learn(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        conversations = [[user()], CONVERSATIONS[0]]
        assert len(encoded(path, conversations, vocabulary, keep_untrained=True)) == 2
        assert len(encoded(path, conversations, vocabulary)) == 1
        summary = encode_files([path], tmp_path / "o.jsonl", tokenizer=vocabulary, jobs=1)
        assert isinstance(summary, Summary)
        assert (summary.conversations, summary.examples, summary.count("nothing_to_learn")) == (
            2,
            1,
            1,
        )

    def test_reasoning_that_is_left_out_is_counted(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        path.write_text(json.dumps(CONVERSATIONS[0] + CONVERSATIONS[1] + CONVERSATIONS[2]))
        options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1}
        assert encode_files([path], tmp_path / "a.jsonl", **options).count("dropped_reasoning") == 2
        assert (
            encode_files([path], tmp_path / "b.jsonl", expand=True, **options).count(
                "dropped_reasoning"
            )
            == 0
        )


class TestShapes:
    def test_sharegpt(self, tmp_path: Path, vocabulary: Path) -> None:
        turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]
        path = tmp_path / "in.jsonl"
        messages = [user("Hi"), assistant("Hello!")]
        assert encoded(path, [{"conversations": turns}], vocabulary) == encoded(
            path, [messages], vocabulary
        )

    @pytest.mark.parametrize("start", ["", "\ufeff", "\n"])
    def test_json_lines_under_the_name_of_an_array(
        self, tmp_path: Path, vocabulary: Path, conversations: Path, start: str
    ) -> None:
        named, out = tmp_path / "in.json", tmp_path / "out.jsonl"
        named.write_text(start + conversations.read_text(), "utf-8")
        encode_files([named], out, tokenizer=vocabulary, jobs=1, carry=["id"])
        lines = [row["line"] for row in rows(out)]
        assert lines == list(range(1 + start.count("\n"), 6 + start.count("\n")))

    def test_an_array_of_conversations(
        self, tmp_path: Path, vocabulary: Path, conversations: Path
    ) -> None:
        (tmp_path / "all.json").write_text(json.dumps(CONVERSATIONS, indent=2))
        options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1}
        encode_files([tmp_path / "all.json"], tmp_path / "a.jsonl", **options)
        encode_files([conversations], tmp_path / "b.jsonl", **options)
        assert rows(tmp_path / "a.jsonl") == rows(tmp_path / "b.jsonl")
        (tmp_path / "none.json").write_text("[1, 2")
        with pytest.raises(DatasetError, match=r"none.json:1:6: not JSON"):
            encode_files([tmp_path / "none.json"], tmp_path / "c.jsonl", **options)
        (tmp_path / "none.json").write_text("[1, 2]")
        with pytest.raises(DatasetError, match="expected an array of conversations"):
            encode_files([tmp_path / "none.json"], tmp_path / "c.jsonl", **options)
        assert not list(tmp_path.glob("c.jsonl*"))

    def test_tools_in_parquet_that_are_not_json(self, tmp_path: Path, vocabulary: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table({"messages": CONVERSATIONS[:2], "tools": ["[]", "{bad"]})
        parquet.write_table(table, tmp_path / "in.parquet")
        problem = r"in\.parquet:2: tools: found '\{bad', expected JSON"
        with pytest.raises(BadLine, match=problem):
            encode_files([tmp_path / "in.parquet"], tmp_path / "o.jsonl", tokenizer=vocabulary)

    def test_sharegpt_in_parquet(self, tmp_path: Path, vocabulary: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]
        columns = {"conversations": [turns], "system": ["Be brief."], "tools": ['[{"name": "f"}]']}
        parquet.write_table(arrow.table(columns), tmp_path / "in.parquet")
        out = tmp_path / "out.jsonl"
        encode_files([tmp_path / "in.parquet"], out, tokenizer=vocabulary, jobs=1)
        line = {"conversations": turns, "system": "Be brief.", "tools": [{"name": "f"}]}
        assert rows(out) == encoded(tmp_path / "in.jsonl", [line], vocabulary)

    def test_lists_of_messages_in_parquet(
        self, tmp_path: Path, vocabulary: Path, conversations: Path
    ) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1}
        parquet.write_table(arrow.table({"messages": CONVERSATIONS}), tmp_path / "in.parquet")
        encode_files([tmp_path / "in.parquet"], tmp_path / "a.jsonl", **options)
        encode_files([conversations], tmp_path / "b.jsonl", **options)
        assert rows(tmp_path / "a.jsonl") == rows(tmp_path / "b.jsonl")
        calls = [{"function": {"name": "f", "arguments": {"a": 1}}}]
        inexact = [[user(), {"role": "assistant", "tool_calls": calls}]]
        parquet.write_table(arrow.table({"messages": inexact}), tmp_path / "bad.parquet")
        problem = r"tool_calls\.function\.arguments is a struct: .* keep it as JSON text"
        with pytest.raises(DatasetError, match=problem):
            encode_files([tmp_path / "bad.parquet"], tmp_path / "c.jsonl", **options)


class Stop(Watcher):
    def advance(self, progress: Any) -> None:
        raise KeyboardInterrupt


class TestAgain:
    """What an earlier run has left."""

    @pytest.fixture
    def options(self, vocabulary: Path) -> dict[str, Any]:
        return {"tokenizer": vocabulary, "jobs": 1}

    def test_a_finished_run_is_not_done_again(
        self, tmp_path: Path, conversations: Path, options: dict[str, Any]
    ) -> None:
        out = tmp_path / "out.jsonl"
        encode_files([conversations], out, **options)
        before = out.stat()
        again = encode_files([conversations], out, resume=True, **options)
        assert again.resumed_nothing
        assert out.stat() == before

    def test_a_finished_output_is_not_replaced_without_asking(
        self, tmp_path: Path, conversations: Path, options: dict[str, Any]
    ) -> None:
        out = tmp_path / "out.jsonl"
        first = encode_files([conversations], out, **options)
        assert not first.resumed_nothing
        before, files = out.stat(), set(tmp_path.iterdir())
        with pytest.raises(DatasetError, match=r"is there already: replace it \(--overwrite\)"):
            encode_files([conversations], out, thinking=False, **options)
        assert (out.stat(), set(tmp_path.iterdir())) == (before, files)
        encode_files([conversations], out, thinking=False, overwrite=True, **options)
        assert out.stat() != before

    def test_the_output_of_a_small_run_begins_soon(
        self, tmp_path: Path, options: dict[str, Any]
    ) -> None:
        """Of a hundred conversations, few are lost where the run is stopped."""
        path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        path.write_text("".join(f"{json.dumps(CONVERSATIONS[0])}\n" for _ in range(100)))
        with pytest.raises(Interrupted) as caught:
            encode_files([path], out, watcher=Stop(), **options)
        assert caught.value.kept == 8
        assert encode_files([path], out, resume=True, **options).conversations == 100

    @pytest.mark.parametrize(
        "chosen", [{"tools": (function(),)}, {"dialect": dsv4.DIALECTS["v4"]}, {"effort": "max"}]
    )
    def test_the_same_options_resume(
        self, tmp_path: Path, conversations: Path, options: dict[str, Any], chosen: Any
    ) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(Interrupted):
            encode_files([conversations], out, watcher=Stop(), **options, **chosen)
        with pytest.raises(DatasetError, match="cannot resume: bos was"):
            encode_files([conversations], out, resume=True, **options, **chosen, bos=False)
        summary = encode_files([conversations], out, resume=True, **options, **chosen)
        assert (summary.conversations, len(rows(out))) == (5, 5)

    def test_an_interrupted_one_is_not_thrown_away(
        self, tmp_path: Path, conversations: Path, options: dict[str, Any]
    ) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(Interrupted) as caught:
            encode_files([conversations], out, watcher=Stop(), **options)
        assert caught.value.kept == 5
        with pytest.raises(DatasetError, match="stopped after 5 conversations: continue it"):
            encode_files([conversations], out, **options)
        with pytest.raises(DatasetError, match="overwrite: found it with resume"):
            encode_files([conversations], out, resume=True, overwrite=True, **options)
        summary = encode_files([conversations], out, resume=True, **options)
        assert (summary.conversations, len(rows(out))) == (5, 5)

    def test_overwriting(
        self, tmp_path: Path, conversations: Path, options: dict[str, Any]
    ) -> None:
        out = tmp_path / "out.jsonl"
        (tmp_path / "out.jsonl.partial").write_text("half")
        progress = {"after": [0, 1, 1], "conversations": 1}
        entry = {"job": {}, "progress": progress}
        (tmp_path / "out.jsonl.journal").write_text(json.dumps(entry))
        with pytest.raises(
            DatasetError, match=r"continue it \(--resume\) or replace it \(--overwrite\)"
        ):
            encode_files([conversations], out, **options)
        encode_files([conversations], out, overwrite=True, **options)
        assert len(rows(out)) == 5

    def test_a_file_that_another_run_has_just_named(self, tmp_path: Path) -> None:
        partial = tmp_path / "out.jsonl.partial"
        with open(partial, "wb") as file:
            os.replace(partial, tmp_path / "out.jsonl")
            assert not _is_same_file(file, str(partial))  # type: ignore[arg-type]
            partial.write_bytes(b"of a third run")
            assert not _is_same_file(file, str(partial))  # type: ignore[arg-type]


class TestRejects:
    def test_bad_lines_are_kept(self, tmp_path: Path, vocabulary: Path) -> None:
        path, kept = tmp_path / "in.jsonl", tmp_path / "bad.jsonl"
        lines = [b"[1", json.dumps(CONVERSATIONS[0]).encode(), b'"\xff"']
        path.write_bytes(b"\n".join(lines))
        options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1, "on_error": "skip"}
        encode_files([path], tmp_path / "out.jsonl", rejects=kept, **options)
        first, second = rows(kept)
        assert (first["line"], first["text"]) == (1, "[1")
        assert "not JSON" in str(first["error"])
        assert (second["line"], second["text"]) == (3, '"\\xff"')

    def test_every_line_is_bad(self, tmp_path: Path, vocabulary: Path) -> None:
        path = tmp_path / "in.jsonl"
        path.write_text("[1\n[2\n")
        with pytest.raises(BadLine, match="all 2 lines are bad, the first of them: "):
            encode_files(
                [path], tmp_path / "out.jsonl", tokenizer=vocabulary, jobs=1, on_error="skip"
            )
        assert not (tmp_path / "out.jsonl").exists()
        assert not (tmp_path / "out.jsonl.partial").exists()

    def test_only_where_they_are_skipped(self, conversations: Path, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="rejects: only written if bad lines are skipped"):
            encode_files([conversations], tmp_path / "o.jsonl", rejects=tmp_path / "r.jsonl")


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
        assert summary.count("too_long") == len(TALKS) - len(short) > 0

    def test_cut_at_a_turn(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        options: Any = {"tokenizer": vocabulary, "jobs": 1}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        out = tmp_path / "out.jsonl"
        summary = encode_files([talks], out, max_length=40, too_long="cut", **options)
        whole = rows(tmp_path / "all.jsonl")
        found = rows(out)
        assert summary.count("cut") > 0
        assert len(found) == len(whole) - summary.count("too_long")
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
    @pytest.mark.parametrize("name", ["parquet", "jsonl.gz"])
    def test_each_has_the_same_rows(
        self, tmp_path: Path, vocabulary: Path, talks: Path, name: str, pack: int | None
    ) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        options: Any = {"tokenizer": vocabulary, "jobs": 1, "pack": pack}
        encode_files([talks], tmp_path / "all.jsonl", **options)
        expected = rows(tmp_path / "all.jsonl")
        encode_files([talks], tmp_path / "out", format=name, **options)
        if name == "parquet":
            assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected
        else:
            text = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode()
            assert [json.loads(line) for line in text.splitlines()] == expected
        assert not list(tmp_path.glob("*.partial")) + list(tmp_path.glob("*.whole"))

    def test_another(self, tmp_path: Path, vocabulary: Path, talks: Path) -> None:
        with pytest.raises(DatasetError, match="format: found 'tsv', expected one of jsonl, "):
            encode_files([talks], tmp_path / "out", tokenizer=vocabulary, format="tsv")


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


def test_the_text_of_results_is_counted_as_such(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "in.jsonl"
    talk = [user("ab"), calling(call("f", id="a")), result("r" * 100, "a"), assistant("c")]
    path.write_text(json.dumps({"messages": talk, "tools": [function("f")]}))
    summary = encode_files([path], tmp_path / "out.jsonl", tokenizer=vocabulary, counts=True)
    assert summary.counts is not None
    tags = len("<tool_result></tool_result>")
    assert summary.counts.fields["tool_result"] == 100 + tags
    assert summary.counts.fields["content"] == len("ab") + len("c")


def answered(question: str, answer: str, **fields: Any) -> list[dict[str, Any]]:
    return [user(question), assistant(answer, **fields)]


PROMPT = [user("Is 7 prime?")]
GOOD, BAD = assistant("Yes.", reasoning_content="Only 1 and 7."), assistant("No.")
PAIR = {"prompt": PROMPT, "chosen": [GOOD], "rejected": [BAD]}


class TestPreferences:
    """Pairs of answers, each with the context of its conversation."""

    def meant(self, vocabulary: Path, *messages: Any) -> list[int]:
        return Tokenizer.load(vocabulary).encode(dsv4.encode([*PROMPT, *messages]))

    def test_ids_and_masks(self, tmp_path: Path, vocabulary: Path) -> None:
        (row,) = encoded(tmp_path / "in.jsonl", [PAIR], vocabulary, preferences=True)
        assert row["prompt_ids"] == self.meant(vocabulary)
        for side, answer in (("chosen", GOOD), ("rejected", BAD)):
            ids = row[f"{side}_ids"]
            assert row["prompt_ids"] + ids == self.meant(vocabulary, answer)
            assert row[f"{side}_mask"] == [1] * len(ids)

    @pytest.mark.parametrize(
        "line",
        [
            {"chosen": [*PROMPT, GOOD], "rejected": [*PROMPT, BAD]},
            {"prompt": "Is 7 prime?", "chosen": [*PROMPT, GOOD], "rejected": [*PROMPT, BAD]},
            {"prompt": PROMPT, "chosen": [*PROMPT, GOOD], "rejected": [*PROMPT, BAD]},
            {"messages": PROMPT, "chosen": GOOD, "rejected": BAD},
            {"input": {"messages": PROMPT}, "preferred_output": [GOOD],
             "non_preferred_output": [BAD]},
        ],
    )  # fmt: skip
    def test_other_shapes_mean_the_same(self, tmp_path: Path, vocabulary: Path, line: Any) -> None:
        path, options = tmp_path / "in.jsonl", {"preferences": True}
        assert encoded(path, [line], vocabulary, **options) == encoded(
            path, [PAIR], vocabulary, **options
        )

    def test_texts_and_sharegpt(self, tmp_path: Path, vocabulary: Path) -> None:
        plain = {"prompt": "Hi", "chosen": "Hello!", "rejected": "What?"}
        shared = {
            "conversations": [{"from": "human", "value": "Hi"}],
            "chosen": {"from": "gpt", "value": "Hello!"},
            "rejected": {"from": "gpt", "value": "What?"},
        }
        one, other = encoded(tmp_path / "in.jsonl", [plain, shared], vocabulary, preferences=True)
        assert one == other

    def test_results_are_masked_and_refused_where_there_is_no_mask(
        self, tmp_path: Path, vocabulary: Path
    ) -> None:
        steps = [calling(call("f", id="a")), result("r", "a"), assistant("Yes.")]
        pair = {**PAIR, "chosen": steps, "tools": [function("f")]}
        (row,) = encoded(tmp_path / "in.jsonl", [pair], vocabulary, preferences=True)
        decoded = Tokenizer.load(vocabulary).decode(
            [
                id
                for id, trained in zip(row["chosen_ids"], row["chosen_mask"], strict=True)
                if trained
            ]
        )
        assert "Yes." in decoded
        assert "<tool_result>" not in decoded
        with pytest.raises(BadLine, match="chosen: found more than one answer"):
            encoded(tmp_path / "in.jsonl", [pair], vocabulary, preferences=True, trainer="trl")

    def test_texts_for_trl(self, tmp_path: Path, vocabulary: Path) -> None:
        options: dict[str, Any] = {"preferences": True, "trainer": "trl"}
        (row,) = encoded(tmp_path / "in.jsonl", [PAIR], vocabulary, **options)
        prompt = str(dsv4.encode(PROMPT))
        assert row == {
            "prompt": prompt,
            "chosen": str(dsv4.encode([*PROMPT, GOOD])).removeprefix(prompt),
            "rejected": str(dsv4.encode([*PROMPT, BAD])).removeprefix(prompt),
        }
        spelled = {**PAIR, "prompt": [user("What is <think>?")]}
        with pytest.raises(BadLine, match="chosen: found <think> in a text, which the trainer's"):
            encoded(tmp_path / "in.jsonl", [spelled], vocabulary, **options)

    def test_parquet_has_the_same_rows(self, tmp_path: Path, vocabulary: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "in.jsonl"
        for trainer in (None, "trl"):
            options: dict[str, Any] = {"preferences": True, "trainer": trainer, "carry": ["id"]}
            expected = encoded(path, [{**PAIR, "id": "a"}], vocabulary, **options)
            out = tmp_path / f"{trainer}.parquet"
            encode_files([path], out, tokenizer=vocabulary, jobs=1, **options)
            assert parquet.read_table(out).to_pylist() == expected

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (answered("Hi", "Ho"), 'expected an object with "chosen" and "rejected"'),
            ({"prompt": "a", "chosen": "b", "rejected": "b"}, "rejected: found what is chosen too"),
            ({"prompt": 5, "chosen": "b", "rejected": "c"}, "prompt: found 5, expected text or a"),
            ({"prompt": "a", "chosen": [], "rejected": "c"}, r"chosen: found \[\], expected text"),
            ({"chosen": answered("a", "b"), "rejected": answered("c", "d")},
             r"chosen\[0\]: found 'user', expected both conversations to part at an answer"),
            ({"prompt": "a", "chosen": [user("x")], "rejected": [user("y")]},
             "chosen: found a conversation that does not begin with prompt"),
            ({"prompt": [user("a")], "chosen": "b", "rejected": [assistant("c", weight=3)]},
             r"rejected\[0\]\.weight: found 3, expected 0 or 1"),
        ],
    )  # fmt: skip
    def test_what_is_no_pair(
        self, tmp_path: Path, vocabulary: Path, line: Any, problem: str
    ) -> None:
        with pytest.raises(BadLine, match=problem):
            encoded(tmp_path / "in.jsonl", [line], vocabulary, preferences=True)

    def test_a_pair_that_nobody_asked_for(self, tmp_path: Path, vocabulary: Path) -> None:
        with pytest.raises(BadLine, match="found a pair of answers, which --preferences reads"):
            encoded(tmp_path / "in.jsonl", [{"chosen": "a", "rejected": "b"}], vocabulary)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"expand": True}, "expand: found it with preferences"),
            ({"pack": 100}, "pack: found it with preferences"),
            ({"trainer": "verl"}, "preferences: found it for verl, expected trl"),
            ({"too_long": "cut", "max_length": 9}, "too_long: found cut with preferences"),
            ({"carry": ["prompt"]}, "carry: found prompt, which is a column"),
        ],
    )
    def test_options_that_pairs_do_not_have(
        self, tmp_path: Path, vocabulary: Path, options: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(DatasetError, match=problem):
            encoded(tmp_path / "in.jsonl", [PAIR], vocabulary, preferences=True, **options)


IMAGE_ID = 129264


class TestImages:
    @pytest.fixture
    def pictures(self, tmp_path: Path) -> Path:
        (tmp_path / "shots").mkdir()
        for n, size in enumerate(((1920, 1080), (1, 1)), 1):
            (tmp_path / "shots" / f"{n}.png").write_bytes(png(*size))
        path = tmp_path / "pictures.jsonl"
        talks = [
            [
                user([image("shots/1.png"), text("a")]),
                assistant("b"),
                user([image("shots/2.png")]),
                assistant(),
            ],
            [user("c"), assistant("d")],
        ]
        path.write_text("".join(f"{json.dumps(talk)}\n" for talk in talks))
        return path

    def test_ids_are_expanded_and_records_are_a_column(
        self, tmp_path: Path, v4_1_file: str, pictures: Path
    ) -> None:
        options: Any = {"tokenizer": v4_1_file, "dialect": "v4.1", "jobs": 1}
        out = tmp_path / "out.jsonl"
        encode_files([pictures], out, **options)
        first = rows(out)[0]
        urls = [[record["url"] for record in row["images"]] for row in rows(out)]
        assert urls == [["shots/1.png", "shots/2.png"], []]
        assert first["input_ids"].count(IMAGE_ID) == 968 + 184
        pairs = zip(first["input_ids"], first["loss_mask"], strict=True)
        assert not any(trained for id, trained in pairs if id == IMAGE_ID)
        encode_files([pictures], tmp_path / "packed.jsonl", pack=2000, **options)
        (packed,) = rows(tmp_path / "packed.jsonl")
        assert len(packed["images"]) == 2
        cut: Any = {"max_length": len(first["input_ids"]) - 1, "too_long": "cut", **options}
        encode_files([pictures], tmp_path / "cut.jsonl", **cut)
        (kept, _) = rows(tmp_path / "cut.jsonl")
        assert [record["url"] for record in kept["images"]] == ["shots/1.png"]
        assert kept["input_ids"].count(IMAGE_ID) == 968

    def test_files_beside_logs_of_servers(
        self, tmp_path: Path, v4_1_file: str, pictures: Path
    ) -> None:
        shot = {"type": "image", "source": {"type": "url", "url": "shots/1.png"}}
        logs = [
            {"model": "DeepSeek-V4.1", "messages": [user([image("shots/1.png")]), assistant()]},
            {"max_tokens": 9, "system": "S", "messages": [user([shot]), assistant()]},
        ]
        pictures.write_text("".join(f"{json.dumps(log)}\n" for log in logs))
        out = tmp_path / "out.jsonl"
        encode_files([pictures], out, tokenizer=v4_1_file, dialect="v4.1", jobs=1)
        assert [row["input_ids"].count(IMAGE_ID) for row in rows(out)] == [968, 968]

    @pytest.mark.parametrize("changed", [{"expand": True}, {"max_length": 1000, "too_long": "cut"}])
    def test_the_same_in_every_way_of_making_examples(
        self, tmp_path: Path, v4_1_file: str, pictures: Path, changed: Any
    ) -> None:
        out = tmp_path / "out.jsonl"
        encode_files([pictures], out, tokenizer=v4_1_file, dialect="v4.1", jobs=1, **changed)
        costs = {"shots/1.png": 968, "shots/2.png": 184}
        for row in rows(out):
            expected = sum(costs[record["url"]] for record in row["images"])
            assert row["input_ids"].count(IMAGE_ID) == expected
            assert len(row["input_ids"]) == len(row["loss_mask"])

    @pytest.mark.parametrize(
        ("url", "problem"),
        [
            ("shots/3.png", "found 'shots/3.png': no such file or directory"),
            ("../secret.png", "found '../secret.png', expected a picture below "),
            ("/etc/passwd", "found '/etc/passwd', expected a picture below "),
            ("notes.txt", "found a file that begins with b'hello'"),
            ("https://a.b/c.png", "image 1 of 1: found only 'https://a.b/c.png'"),
            ("file:///etc/passwd", "image 1 of 1: found only 'file:///etc/passwd'"),
        ],
    )
    def test_a_picture_that_is_missing_is_named(
        self, tmp_path: Path, v4_1_file: str, url: str, problem: str
    ) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "notes.txt").write_text("hello")
        (tmp_path / "secret.png").write_bytes(png(1, 1))
        path = tmp_path / "data" / "in.jsonl"
        path.write_text(json.dumps([user([image(url)]), assistant()]) + "\n")
        with pytest.raises(BadLine, match=re.escape(problem)) as caught:
            encode_files(
                [path], tmp_path / "out.jsonl", tokenizer=v4_1_file, dialect="v4.1", jobs=1
            )
        assert str(caught.value).startswith(f"{path}:1: ")


class TestTrainers:
    """Each trainer's own columns, and no others: what a trainer does not know, it drops."""

    @pytest.fixture
    def masked(self, tmp_path: Path, vocabulary: Path) -> dict[str, list[int]]:
        (row,) = encoded(tmp_path / "in.jsonl", CONVERSATIONS[:1], vocabulary)
        return row

    @pytest.mark.parametrize(
        ("trainer", "names"),
        [
            ("trl", {"input_ids": "ids", "labels": "labels"}),
            ("axolotl", {"input_ids": "ids", "attention_mask": "ones", "labels": "labels"}),
            ("llama-factory", {"input_ids": "ids", "attention_mask": "ones", "labels": "labels"}),
            ("verl", {"input_ids": "ids", "loss_mask": "mask"}),
            ("torchtune", {"tokens": "ids", "labels": "labels"}),
            (
                "nemo",
                {
                    "input_ids": "ids but the last",
                    "attention_mask": "ones but the last",
                    "labels": "labels but the first",
                },
            ),
        ],
    )
    def test_the_columns_of_each(
        self,
        tmp_path: Path,
        vocabulary: Path,
        masked: dict[str, list[int]],
        trainer: str,
        names: dict[str, str],
    ) -> None:
        ids, mask = masked["input_ids"], masked["loss_mask"]
        meant: dict[str, Any] = {
            "ids": ids,
            "mask": mask,
            "ones": [1] * len(ids),
            "labels": [id if learned else -100 for id, learned in zip(ids, mask, strict=True)],
        }
        meant |= {f"{name} but the last": meant[name][:-1] for name in ("ids", "ones")}
        meant["labels but the first"] = meant["labels"][1:]
        (row,) = encoded(tmp_path / "in.jsonl", CONVERSATIONS[:1], vocabulary, trainer=trainer)
        assert row == {name: meant[what] for name, what in names.items()}

    def test_packed_rows_for_trl(self, tmp_path: Path, vocabulary: Path) -> None:
        options: dict[str, Any] = {"trainer": "trl", "pack": 1000}
        (row,) = encoded(tmp_path / "in.jsonl", CONVERSATIONS, vocabulary, **options)
        assert set(row) == {"input_ids", "labels", "seq_lengths"}
        assert len(row["seq_lengths"]) == 5
        assert sum(row["seq_lengths"]) == len(row["input_ids"]) == len(row["labels"])

    def test_parquet_has_the_same_columns(
        self, tmp_path: Path, vocabulary: Path, conversations: Path
    ) -> None:
        parquet = pytest.importorskip("pyarrow.parquet")
        for trainer in [n for n, t in TRAINERS.items() if not t.texts]:
            options: dict[str, Any] = {"tokenizer": vocabulary, "jobs": 1, "trainer": trainer}
            encode_files([conversations], tmp_path / "out.jsonl", overwrite=True, **options)
            encode_files([conversations], tmp_path / "out.parquet", overwrite=True, **options)
            written = parquet.read_table(tmp_path / "out.parquet").to_pylist()
            assert written == rows(tmp_path / "out.jsonl")

    def test_what_has_no_place_in_its_columns(self, tmp_path: Path, v4_1_file: str) -> None:
        shown = [user([text("What is this?"), SCREENSHOT]), assistant("A cat.")]
        options: dict[str, Any] = {"trainer": "trl", "dialect": "v4.1"}
        (row,) = encoded(tmp_path / "in.jsonl", CONVERSATIONS[:1], Path(v4_1_file), **options)
        assert "images" not in row  # TRL would take the file for one of pictures
        with pytest.raises(BadLine, match="found 1 images, which the columns have no place for"):
            encoded(tmp_path / "in.jsonl", [shown], Path(v4_1_file), **options)

    def test_a_run_cannot_be_resumed_for_another(
        self, tmp_path: Path, vocabulary: Path, conversations: Path
    ) -> None:
        out, options = tmp_path / "out.jsonl", {"tokenizer": vocabulary, "jobs": 1}
        with pytest.raises(Interrupted):
            encode_files([conversations], out, watcher=Stop(), trainer="trl", **options)
        with pytest.raises(DatasetError, match="cannot resume: trainer was 'trl' and is 'axolotl'"):
            encode_files([conversations], out, resume=True, trainer="axolotl", **options)

    def test_the_first_token_is_never_learned(self, tmp_path: Path, vocabulary: Path) -> None:
        """Without a prompt, the model's turn is all there is. In a batch without padding, its first
        token would be learned from another example."""
        turn = {"messages": [assistant("Hello!")], "bos": False}
        (row,) = encoded(tmp_path / "in.jsonl", [turn], vocabulary)
        assert row["loss_mask"][:2] == [0, 1]


CALLS_IN_TEXT = (
    'I look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
NOT_JSON = {"id": "a", "function": {"name": "f", "arguments": '{"a": 1'}}


@pytest.mark.parametrize(
    ("turn", "kind", "place"),
    [
        (assistant("<think>greet</think>Hello!"), "reasoning_in_content", "content"),
        (assistant(CALLS_IN_TEXT), "calls_in_content", "content"),
        (
            assistant("", tool_calls=[NOT_JSON]),
            "arguments_not_json",
            r"tool_calls\[0\].function.arguments",
        ),
    ],
)
def test_what_teaches_mistakes_is_a_bad_line(
    tmp_path: Path, vocabulary: Path, turn: Any, kind: str, place: str
) -> None:
    path, talk = tmp_path / "in.jsonl", [[user(), turn]]
    hint = f"--ignore {kind} trains on it as it is"
    with pytest.raises(BadLine, match=rf"in\.jsonl:1: messages\[1\]\.{place}: .*{hint}"):
        encoded(path, talk, vocabulary)
    others = {"reasoning_in_content", "calls_in_content", "arguments_not_json"} - {kind}
    with pytest.raises(BadLine, match=hint):
        encoded(path, talk, vocabulary, ignore=list(others))
    assert len(encoded(path, talk, vocabulary, ignore=[kind])) == 1


FINDINGS = Path(__file__).with_name("findings.jsonl")
EXAMPLES = [json.loads(line) for line in FINDINGS.read_text("utf-8").splitlines()]


# Some are of another dialect than the vocabulary.
@pytest.mark.parametrize(
    "example",
    [
        each
        for each in EXAMPLES
        if each["kind"] != "unsupported_content" and "image" not in each["kind"]
    ],
    ids=lambda example: example["kind"],
)
def test_a_line_is_bad_where_check_has_an_error_for_training(
    tmp_path: Path, vocabulary: Path, example: dict[str, Any]
) -> None:
    body = example["conversation"]
    is_wrong = any(found.level == "error" for found in dsv4.check(body, purpose="training"))
    try:
        encoded(tmp_path / "in.jsonl", [body], vocabulary)
        is_bad = False
    except BadLine:
        is_bad = True
    assert is_bad == is_wrong


def test_a_ray_that_does_not_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nSee the logs.")

    stub = SimpleNamespace(data=None, is_initialized=lambda: False, init=init)
    for module in (dataset_engines, dataset_run):
        monkeypatch.setattr(module, "ray_with_data", lambda: stub)
    source = tmp_path / "in.jsonl"
    source.write_text('{"prompt": "Q", "completion": "A"}\n')
    with pytest.raises(
        DatasetError, match=r"^Ray did not start: The current node timed out during startup\.$"
    ):
        encode_files([source], tmp_path / "out.jsonl", engine="ray")
