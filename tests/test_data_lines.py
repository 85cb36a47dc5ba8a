"""Lines that mean what their author meant: what is trained, refused, or named (`corpus/`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")

from completions import CORPUS
from dsv4 import dataset
from dsv4.tokens import Tokenizer
from rows import each_row

LINES = [
    json.loads(line)
    for name in ("data-lines.jsonl", "more-data-lines.jsonl")
    for line in (CORPUS / name).read_text("utf-8").splitlines()
]


@each_row("case", [pytest.param(case, id=case["id"]) for case in LINES])
def test_a_line_is_trained_as_meant_or_refused(case: dict[str, Any], tmp_path: Path) -> None:
    expect, source, out = case["expect"], tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps(case["line"]) + "\n")
    options = dataset.DatasetOptions(trainer="trl", jobs=1, overwrite=True)
    refused, named, rows = False, "", []
    try:
        named = " ".join(dataset.encode_files([source], out, options).notes)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    except dataset.BadLine as error:
        refused, named = True, str(error)
    decode = Tokenizer.load().decode
    taught = "".join(decode([i for i in row["labels"] if i != -100]) for row in rows)
    whole = "".join(decode(row["input_ids"]) for row in rows)
    is_named = "or_named" in expect and (refused or expect["or_named"] in named)
    is_said = refused or expect.get("or_prompt", "\0") in whole
    if expect.get("refused") or expect.get("refused_or_weights"):
        assert refused
    assert all(text in taught for text in expect.get("taught", ())) or is_named
    assert all(text in taught for text in expect.get("taught_or_refused", ())) or refused
    assert not any(text in taught for text in expect.get("not_taught", ()))
    assert all(text in whole for text in expect.get("prompt", ()))
    assert expect.get("named_or_refused", "") in named or is_said


@pytest.mark.parametrize("name", ["my_loss", "token_weights", "mask", "trainable_parts"])
@pytest.mark.parametrize("at_the_top", [True, False])
def test_a_field_of_training_that_is_not_understood_is_refused(
    name: str, at_the_top: bool, tmp_path: Path
) -> None:
    answer: dict[str, Any] = {"role": "assistant", "content": "A"}
    line: dict[str, Any] = {"messages": [{"role": "user", "content": "Q"}, answer]}
    (line if at_the_top else answer)[name] = 1
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(line) + "\n")
    with pytest.raises(dataset.BadLine, match=name):
        dataset.encode_files([source], tmp_path / "out.jsonl", dataset.DatasetOptions(jobs=1))
    options = dataset.DatasetOptions(jobs=1, ignore=["unread_field"])
    summary = dataset.encode_files([source], tmp_path / "other.jsonl", options)
    assert [kind.rpartition(".")[2].split()[-1] for kind in summary.notes if name in kind] == [name]


def encoded(line: dict[str, Any], folder: Path) -> dataset.Summary:
    source = folder / "in.jsonl"
    source.write_text(json.dumps(line) + "\n")
    return dataset.encode_files([source], folder / "out.jsonl", dataset.DatasetOptions(jobs=1))


@pytest.mark.parametrize(
    "text",
    [
        "<start_function_call>call:f{a:1}<end_function_call>",
        '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>',
        "<|channel>thought\nx<channel|>hi",
        "<|tool_call>call:f{a:1}<tool_call|>",
        "hi[e~[",
        "hi[EOS]",
        "<bos>hi",
    ],
)
def test_markup_of_other_models_is_refused_unless_it_is_quoted(text: str, tmp_path: Path) -> None:
    question = {"role": "user", "content": "Q"}
    line = {"messages": [question, {"role": "assistant", "content": text}]}
    with pytest.raises(dataset.BadLine, match="another model"):
        encoded(line, tmp_path)
    line["messages"][1]["content"] = f"It writes\n```\n{text}\n```\nthere."
    assert encoded(line, tmp_path).conversations == 1


@pytest.mark.parametrize("text", ["a[EOS] = 1; text[e] ~ b", "|psi> and <psi| in <psi|phi>"])
def test_what_only_looks_like_markup_is_trained(text: str, tmp_path: Path) -> None:
    question = {"role": "user", "content": "Q"}
    line = {"messages": [question, {"role": "assistant", "content": text}]}
    assert encoded(line, tmp_path).conversations == 1


def test_labels_of_tokens_are_not_passed_over(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "A"}
    line = {"messages": [{"role": "user", "content": "Q"}, answer], "labels": [-100, 1]}
    with pytest.raises(dataset.BadLine, match="labels"):
        encoded(line, tmp_path)
