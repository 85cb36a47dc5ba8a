"""What the parsers of vLLM and SGLang make of the corpora, without a model.

The classes are composed as the servers compose them, in the servers' own environments, and get each
completion whole and token by token.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from corpus_rows import Reading, rows_for_parsers
from parser_lines import parser_lines
from readings_table import count, differing, reading_of
from vllm_process import (
    HERE,
    ROOT,
    environment,
    sglang_python,
    vocabulary_folder,
)

ROWS = rows_for_parsers()
Readings = tuple[list[Reading | None], list[Reading | None]]


@pytest.fixture(scope="module")
def lines() -> str:
    return parser_lines(ROWS)


def readings(python: Path, lines: str, script: str, *arguments: str) -> Readings:
    """What a script reads of every row, whole and streamed."""
    done = subprocess.run(
        [python, HERE / script, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "VLLM_TARGET_DEVICE": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pairs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(pairs) == len(ROWS), done.stderr[-3000:]
    whole, streamed = zip(*pairs, strict=True)
    return list(map(reading_of, whole)), list(map(reading_of, streamed))


def counted(reader: str, found: Readings) -> None:
    for how, given in zip(("complete", "streamed"), found, strict=True):
        count(f"{reader}, {how}", zip(ROWS, given, strict=True))


def vocabulary() -> str:
    return str(vocabulary_folder() / "tokenizer.json")


def test_the_plugin_in_vllm_reads_as_parse_does(lines: str) -> None:
    python = environment() / "bin" / "python"
    found = readings(python, lines, "vllm_parsers.py", "dsv4", vocabulary())
    counted("dsv4 in vLLM 0.32.0", found)
    assert not differing(found[0], ROWS, blank=False)
    assert not differing(found[1], ROWS)


def test_what_vllms_own_parsers_make_of_it(lines: str) -> None:
    python = environment() / "bin" / "python"
    found = readings(python, lines, "vllm_parsers.py", "deepseek_v4", vocabulary())
    counted("vLLM 0.32.0", found)


def test_what_sglangs_own_parsers_make_of_it(lines: str) -> None:
    counted("SGLang 0.5.23", readings(sglang_python(), lines, "sglang_parsers.py"))


def test_what_parse_makes_of_it() -> None:
    """The corpora are what is promised."""
    read = [row.parsed_inside() for row in ROWS]
    wrong = [
        row.name for row, found in zip(ROWS, read, strict=True) if not row.is_read_right(found)
    ]
    assert not wrong
