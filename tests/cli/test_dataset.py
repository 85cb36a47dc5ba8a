"""dsv4 dataset, as a process: what it writes, what it says, and what being stopped does to it."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from running import dsv4 as dsv4_command
from running import interruptible

import dsv4
from parts import part
from small_vocabulary import write_small_vocabulary

pytest.importorskip("tokenizers")
from dsv4.tokens import Tokenizer

CLOSING = re.compile(
    r"dsv4: [\d,]+ conversations?, [\d,]+ examples?, [\d,]+ tokens?, [\d,]+ trained on, [\d,.]+ s$"
)
# What is said of the columns where no trainer is named.
COLUMNS = (
    "dsv4: the mask is in the column loss_mask, which TRL, Axolotl and torchtune ignore "
    "(--for writes their columns)"
)
SRC = str(Path(dsv4.__file__).parent.parent)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"))


# A run that writes its journal after the first chunk, and then waits for the signal that stops it:
# no input has to be so long that the run is still going when the test has seen the journal.
HOLD = """
import time
from dsv4.dataset import resumable_output

def journal_and_wait(sink):
    if not sink.progress.conversations:
        return write_journal(sink)
    # First: the signal may come as soon as the journal is there.
    resumable_output.ResumableSink._write_journal = write_journal
    write_journal(sink)
    while True:
        time.sleep(0.01)

resumable_output.SECONDS_BETWEEN_JOURNAL_ENTRIES = 0
write_journal = resumable_output.ResumableSink._write_journal
resumable_output.ResumableSink._write_journal = journal_and_wait
"""


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what Python imports when it starts."""
    folder = tmp_path_factory.mktemp("holding")
    (folder / "sitecustomize.py").write_text(HOLD)
    return folder


@pytest.fixture
def dataset(tmp_path: Path, vocabulary: str, holding: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts the command in a folder of its own."""

    def start(*arguments: str, held: bool = False, **options: Any) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(holding)] * held + [str(tmp_path / "path"), SRC])
        command = [sys.executable, "-m", "dsv4", "dataset", "--tokenizer", vocabulary, *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        options.setdefault("preexec_fn", interruptible)
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, start_new_session=True, **options
        )

    return start


Run = Callable[..., tuple[int, list[str]]]


def said_besides_counts(said: str) -> list[str]:
    """What a run said, but for the columns and the counts at the end."""
    return [line for line in said.splitlines() if line != COLUMNS and not CLOSING.match(line)]


@pytest.fixture
def run(tmp_path: Path, vocabulary: str) -> Run:
    """Runs the command. Returns its status, and what it said besides counts."""

    def run(*arguments: str) -> tuple[int, list[str]]:
        done = dsv4_command("dataset", "--tokenizer", vocabulary, *arguments, cwd=tmp_path)
        return done.returncode, said_besides_counts(done.stderr.decode())

    return run


@pytest.fixture
def run_anew(dataset: Callable[..., subprocess.Popen[str]]) -> Run:
    """The same in a Python that has imported nothing yet, with options of a process."""

    def run(*arguments: str, **options: Any) -> tuple[int, list[str]]:
        process = dataset(*arguments, **options)
        said = process.communicate()[1]
        return process.returncode, said_besides_counts(said)

    return run


def conversation(n: int, turns: int = 1) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"Question {n}?"},
        {"role": "assistant", "reasoning_content": "Hm.", "content": f"Answer {n}. " * turns},
    ]


def request(n: int) -> dict[str, Any]:
    """Tools that no two lines have alike, with a null that must stay."""
    parameters = {"type": "object", "properties": {f"p{n}": {"default": None, "minimum": 1.0}}}
    tools = [{"type": "function", "function": {"name": f"tool_{n}", "parameters": parameters}}]
    return {"messages": conversation(n), "tools": tools}


def write_lines(path: Path, values: list[Any]) -> list[str]:
    lines = [json.dumps(value) for value in values]
    path.write_text("".join(f"{line}\n" for line in lines))
    return lines


def rows(path: Path) -> list[dict[str, list[int]]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(value: Any, vocabulary: str, **options: Any) -> dict[str, list[int]]:
    messages, tools = (
        (value, None) if isinstance(value, list) else (value["messages"], value["tools"])
    )
    prompt = dsv4.encode(messages, tools=tools, **options)
    ids, weights = Tokenizer.load(vocabulary).encode_masked(prompt)
    return {"input_ids": ids, "loss_mask": [int(weight) for weight in weights]}


def mixed(count: int) -> list[Any]:
    return [request(n) if n % 3 else conversation(n) for n in range(count)]


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_rows_are_ids_and_masks_in_order(tmp_path: Path, run: Run, vocabulary: str) -> None:
    values = mixed(100)
    write_lines(tmp_path / "in.jsonl", values)
    assert run("in.jsonl", "-o", "one.jsonl", "--jobs", "1") == (0, [])
    assert run("in.jsonl", "-o", "two.jsonl", "--jobs", "2") == (0, [])
    assert rows(tmp_path / "one.jsonl") == [expected(value, vocabulary) for value in values]
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert left_in(tmp_path) == {"in.jsonl", "one.jsonl", "two.jsonl"}


def test_a_key_that_stands_twice_is_refused(tmp_path: Path, run: Run) -> None:
    line = '[{"role": "user", "content": "a", "content": "b"}]'
    problem = "messages[0].content: found this key twice in one object, expected it once"
    (tmp_path / "in.jsonl").write_text(f'{{"messages": {line}}}\r\n')
    status, words = run("in.jsonl", "-o", "out.jsonl")
    hint = "--on-error skip leaves bad lines out"
    assert (status, words) == (1, [f"dsv4: in.jsonl:1: {problem}; {hint}"])
    (tmp_path / "in.json").write_text(f'{{\n"messages": {line}}}')
    assert run("in.json", "-o", "out.jsonl") == (2, [f"dsv4: in.json: {problem}"])


def test_models_whose_dialect_is_not_known_are_counted(tmp_path: Path, run: Run) -> None:
    names = ("DeepSeek-V4-Flash", "mine", "yours")
    write_lines(
        tmp_path / "in.jsonl",
        [{"model": name, "messages": conversation(n)} for n, name in enumerate(names)],
    )
    words = (
        "dsv4: 2 conversations with a model whose dialect is not known, read as v4 "
        "(--dialect chooses another); the first: in.jsonl:2"
    )
    assert run("in.jsonl", "-o", "out.jsonl") == (0, [words])
    assert run("in.jsonl", "-o", "out.jsonl", "--overwrite", "--dialect", "v4") == (0, [])


@pytest.mark.parametrize(
    ("arguments", "is_said"),
    [
        (["-o", "out.jsonl"], True),
        (["-o", "out.jsonl", "--for", "trl"], False),
    ],
)
def test_trainers_that_would_ignore_the_mask_are_named(
    tmp_path: Path, vocabulary: str, arguments: list[str], is_said: bool
) -> None:
    """They would train every token."""
    write_lines(tmp_path / "in.jsonl", [conversation(0)])
    done = dsv4_command("dataset", "--tokenizer", vocabulary, "in.jsonl", *arguments, cwd=tmp_path)
    assert done.returncode == 0
    assert (COLUMNS in done.stderr.decode().splitlines()) == is_said


def test_several_inputs_and_compression(tmp_path: Path, run: Run) -> None:
    values = mixed(60)
    lines = write_lines(tmp_path / "all.jsonl", values)
    write_lines(tmp_path / "a.jsonl", values[:20])
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[20:]).encode()))
    run("all.jsonl", "-o", "all.out.jsonl", "--jobs", "1")
    assert run("a.jsonl", "b.jsonl.gz", "-o", "out.jsonl.gz", "--jobs", "1") == (0, [])
    packed = (tmp_path / "out.jsonl.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "all.out.jsonl").read_bytes()


def test_zstd_and_parquet(tmp_path: Path, run: Run) -> None:
    zstandard = pytest.importorskip("zstandard")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = write_lines(tmp_path / "in.jsonl", mixed(60))
    text = (tmp_path / "in.jsonl").read_bytes()
    frames = zstandard.compress(text[:5000]) + zstandard.compress(text[5000:])
    (tmp_path / "in.jsonl.zst").write_bytes(frames)
    table = arrow.table({"conversation": lines, "n": list(range(60))})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=20)
    run("in.jsonl", "-o", "plain.jsonl", "--jobs", "1")
    assert run("in.jsonl.zst", "-o", "out.parquet", "--jobs", "1") == (0, [])
    named = "dsv4: the field n (column) is not used (60 lines); the first: in.parquet:1"
    assert run("in.parquet", "-o", "out.jsonl.zst", "--jobs", "1") == (0, [named])
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows(
        tmp_path / "plain.jsonl"
    )
    with zstandard.open(tmp_path / "out.jsonl.zst", "rb") as file:
        assert file.read() == (tmp_path / "plain.jsonl").read_bytes()
    (tmp_path / "cut.jsonl.zst").write_bytes(frames[:-9])
    status, said = run("cut.jsonl.zst", "-o", "cut.jsonl", "--jobs", "1")
    assert status == 2
    assert said[0].startswith("dsv4: cut.jsonl.zst: the compressed file is cut short")


def test_options_reach_the_encoder(tmp_path: Path, run: Run, vocabulary: str) -> None:
    values = [conversation(n) + conversation(n + 1) for n in range(3)]
    write_lines(tmp_path / "in.jsonl", values)
    options = ("--mode", "thinking", "--effort", "max", "--keep-thinking", "--dialect", "v4")
    assert run("in.jsonl", "-o", "out.jsonl", "--jobs", "1", *options) == (0, [])
    told = {"effort": "max", "drop_thinking": False}
    assert rows(tmp_path / "out.jsonl") == [expected(v, vocabulary, **told) for v in values]
    assert run("in.jsonl", "-o", "turns.jsonl", "--jobs", "1", "--expand") == (0, [])
    assert len(rows(tmp_path / "turns.jsonl")) == 6
    status, said = run("in.jsonl", "-o", "calls.jsonl", "--jobs", "1", "--policy", "calls")
    assert (status, len(said)) == (0, 2)
    assert said[0].startswith("dsv4: the reasoning of 3 earlier turns is not in the examples")
    assert said[0].endswith("(--expand keeps it); the first: in.jsonl:1")
    assert said[1] == (
        "dsv4: 3 examples with nothing to train on left out (--keep-untrained writes them); "
        "the first: in.jsonl:1"
    )
    assert rows(tmp_path / "calls.jsonl") == []


BAD = {
    2: (b'[{"role": "user" "content": 1}]', 'in.jsonl:2:18: not JSON: expecting "," delimiter'),
    3: (b"[1", 'in.jsonl:3:3: not JSON: expecting "," delimiter'),
    4: (b'{"role": "user"}', 'in.jsonl:4: found an object without "messages": put the messages in'),
    5: (b'[{"role": "u\xff"}]', "in.jsonl:5:13: not UTF-8: invalid start byte"),
    6: (b'[{"role": "nobody"}]', 'in.jsonl:6: messages[0].role: found "nobody"'),
    8: (b'[{"role": "user", "content": "\\ud800"}]', "in.jsonl:8: messages[0].content: found "),
}


def write_bad_lines(path: Path) -> None:
    good = json.dumps(conversation(0)).encode()
    lines = [BAD[n][0] if n in BAD else b"" if n == 7 else good for n in range(1, 10)]
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))


def test_bad_lines_are_skipped_and_told(tmp_path: Path, run: Run) -> None:
    write_bad_lines(tmp_path / "in.jsonl")
    status, said = run("in.jsonl", "-o", "out.jsonl", "--jobs", "2", "--on-error", "skip")
    assert status == 0
    for line, (_, problem) in zip(said, BAD.values(), strict=False):
        assert line.startswith(f"dsv4: {problem}")
    assert said[-1] == f"dsv4: {len(BAD)} bad lines left out"
    assert len(said) == len(BAD) + 1
    assert len(rows(tmp_path / "out.jsonl")) == 2


def test_a_bad_line_ends_the_run(tmp_path: Path, run: Run) -> None:
    write_bad_lines(tmp_path / "in.jsonl")
    (tmp_path / "out.jsonl").write_text("as it was")
    status, said = run("in.jsonl", "-o", "out.jsonl", "--jobs", "2", "--overwrite")
    hint = "--on-error skip leaves bad lines out"
    assert (status, said) == (1, [f"dsv4: {BAD[2][1]}; {hint}"])
    assert (tmp_path / "out.jsonl").read_text() == "as it was"
    assert left_in(tmp_path) == {"in.jsonl", "out.jsonl"}


MISUSE: list[tuple[list[str], str]] = [
    (["missing.jsonl", "-o", "out.jsonl"], "missing.jsonl: no such file or directory"),
    ([".", "-o", "out.jsonl"], ".: is a directory"),
    (["in.jsonl", "-o", "out.txt"], "output: found out.txt, expected a name that ends in one of"),
    (["in.jsonl", "-o", "no/out.jsonl"], "cannot write no/out.jsonl: no such file or directory"),
    (["in.jsonl", "-o", "in.jsonl"], "in.jsonl is both input and output"),
    (["in.jsonl", "-o", "out.jsonl", "--effort", "much"], 'effort: found "much"'),
    (["in.jsonl", "-o", "out.jsonl", "--expand", "--policy", "calls"], "expand has a mask"),
    (["in.jsonl", "-o", "-", "--resume"], "resume: needs files"),
    (["-", "-o", "out.jsonl", "--resume"], "stdin must be the only input"),
    (["in.jsonl", "-o", "out.jsonl", "--tokenizer", "odd.json"], "odd.json does not fit"),
    (["bad.jsonl.gz", "-o", "out.jsonl", "--jobs", "1"], "bad.jsonl.gz: not a gzipped file"),
    (["in.jsonl", "-o", "/dev/full", "--jobs", "1"], "cannot write /dev/full: no space left on"),
]
UNINSTALLED: list[tuple[list[str], str]] = [
    (["in.jsonl", "-o", "out.jsonl.zst"], "zstd needs the package zstandard: pip install "),
    (["in.jsonl", "-o", "out.parquet"], "Parquet needs the package pyarrow: pip install "),
    (["in.jsonl", "-o", "out.jsonl", "--engine", "ray"], "the engine ray needs the package ray"),
]


def test_misuse_is_told_in_one_line(tmp_path: Path, run: Run) -> None:
    write_lines(tmp_path / "in.jsonl", [conversation(0)])
    (tmp_path / "bad.jsonl.gz").write_text("not gzip")
    (tmp_path / "odd.json").write_text('{"added_tokens": [], "model": {"vocab": {}}}')
    before = left_in(tmp_path)
    for arguments, problem in MISUSE:
        status, said = run(*arguments)
        assert (status, len(said)) == (2, 1), (arguments, said)
        assert problem in said[0]
        assert left_in(tmp_path) == before


def test_what_is_not_installed_is_told_in_one_line(tmp_path: Path, run_anew: Run) -> None:
    write_lines(tmp_path / "in.jsonl", [conversation(0)])
    (tmp_path / "path").mkdir()
    for name in ("zstandard", "pyarrow", "ray"):  # as if they were not installed
        (tmp_path / "path" / f"{name}.py").write_text(f"raise ImportError(name={name!r})")
    before = left_in(tmp_path)
    for arguments, problem in part(UNINSTALLED, 3):
        status, said = run_anew(*arguments)
        assert (status, len(said)) == (2, 1), (arguments, said)
        assert problem in said[0]
        assert left_in(tmp_path) == before


def test_stdin_to_stdout(vocabulary: str) -> None:
    line = f"{json.dumps(conversation(0))}\n\n"
    flags = ("--tokenizer", vocabulary, "--jobs", "1")
    done = dsv4_command("dataset", *flags, "-", "-o", "-", stdin=line)
    assert done.returncode == 0
    columns, counts = done.stderr.decode().splitlines()
    assert columns == COLUMNS
    assert CLOSING.match(counts)
    assert json.loads(done.stdout) == expected(conversation(0), vocabulary)


def test_a_reader_that_has_seen_enough(tmp_path: Path, dataset: Any) -> None:
    write_lines(tmp_path / "in.jsonl", mixed(100))
    process = dataset("in.jsonl", "-o", "-", "--jobs", "2")
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 141


def test_conversations_without_an_answer_are_told(tmp_path: Path, run: Run) -> None:
    write_lines(tmp_path / "in.jsonl", [conversation(1), conversation(2)[:1]])
    status, said = run("in.jsonl", "-o", "out.jsonl", "--expand")
    assert (status, len(rows(tmp_path / "out.jsonl"))) == (0, 1)
    left_out = "1 example with nothing to train on left out (--keep-untrained writes them)"
    assert said == [f"dsv4: {left_out}; the first: in.jsonl:2"]


def test_stats(tmp_path: Path, run: Run) -> None:
    write_lines(tmp_path / "in.jsonl", mixed(100))
    status, said = run("in.jsonl", "-o", "out.jsonl", "--jobs", "2", "--stats")
    stats = json.loads(said[-1])
    assert (status, stats["conversations"], stats["bad"]) == (0, 100, 0)
    assert stats["tokens"] == sum(len(row["input_ids"]) for row in rows(tmp_path / "out.jsonl"))
    assert 0 < len(stats["worker_peak_mb"]) <= 2


# Runs that are stopped.


@pytest.fixture
def lines_in_chunks(tmp_path: Path) -> Path:
    values = [conversation(n, turns=3) for n in range(100)]
    write_lines(tmp_path / "in.jsonl", values)
    return tmp_path / "in.jsonl"


def written(folder: Path) -> int:
    """How many conversations the journal speaks of."""
    try:
        entry = json.loads((folder / "out.jsonl.gz.journal").read_text())
    except FileNotFoundError:
        return 0
    return int(entry["progress"]["conversations"])


def wait_for_entry(process: subprocess.Popen[str], folder: Path) -> None:
    while not written(folder):
        assert process.poll() is None, "it ended before it was stopped"
        time.sleep(0.01)


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_killed_and_resumed(tmp_path: Path, lines_in_chunks: Path, dataset: Any, run: Run) -> None:
    arguments = ("in.jsonl", "-o", "out.jsonl.gz", "--jobs", "2", "--resume")
    process = dataset(*arguments, held=True)
    wait_for_entry(process, tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert is_gone(process.pid)
    assert "out.jsonl.gz" not in left_in(tmp_path)
    with (tmp_path / "out.jsonl.gz.partial").open("ab") as file:
        file.write(b"what was written after the journal")
    status, said = run(*arguments, "--policy", "calls")
    assert status == 2
    assert said[0].startswith('dsv4: cannot resume: policy was "assistant" and is "calls" (')
    assert run(*arguments) == (0, [])
    resumed = (tmp_path / "out.jsonl.gz").read_bytes()
    assert left_in(tmp_path) == {"in.jsonl", "out.jsonl.gz"}
    assert run("in.jsonl", "-o", "whole.jsonl.gz", "--jobs", "1") == (0, [])
    assert resumed == (tmp_path / "whole.jsonl.gz").read_bytes()


@pytest.mark.large  # the test above resumes as well
def test_interrupted_and_resumed(
    tmp_path: Path, lines_in_chunks: Path, dataset: Any, run: Run
) -> None:
    process = dataset("in.jsonl", "-o", "out.jsonl.gz", "--jobs", "2", held=True)
    wait_for_entry(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate()[1].splitlines()
    done = written(tmp_path)
    assert said == [f"dsv4: interrupted (--resume continues after {done} conversations)"]
    assert process.returncode == 130
    assert is_gone(process.pid)
    assert run("in.jsonl", "-o", "out.jsonl.gz", "--jobs", "2", "--resume") == (0, [])
    assert len(gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).splitlines()) == 100


def test_a_full_disk(tmp_path: Path, run: Run, run_anew: Run) -> None:
    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))

    write_lines(tmp_path / "in.jsonl", mixed(100))
    status, said = run_anew("in.jsonl", "-o", "out.jsonl", "--jobs", "1", preexec_fn=fill_up)
    assert (status, len(said)) == (2, 1)
    assert "out.jsonl.partial: file too large (--resume continues after" in said[0]
    assert "out.jsonl" not in left_in(tmp_path)
    assert run("in.jsonl", "-o", "out.jsonl", "--jobs", "1", "--resume") == (0, [])
    assert run("in.jsonl", "-o", "whole.jsonl", "--jobs", "1") == (0, [])
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_two_runs_do_not_share_an_output(
    tmp_path: Path, lines_in_chunks: Path, dataset: Any
) -> None:
    first = dataset("in.jsonl", "-o", "out.jsonl.gz", "--jobs", "1", held=True)
    wait_for_entry(first, tmp_path)
    second = dataset("in.jsonl", "-o", "out.jsonl.gz", "--jobs", "1")
    assert "out.jsonl.gz is being written by another run" in second.communicate()[1]
    first.kill()
    first.communicate()


def test_ray_writes_the_same(tmp_path: Path, run: Run) -> None:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    write_lines(tmp_path / "in.jsonl", mixed(600))
    assert run("in.jsonl", "-o", "here.jsonl.gz", "--jobs", "1") == (0, [])
    assert run("in.jsonl", "-o", "ray.jsonl.gz", "--engine", "ray") == (0, [])
    assert (tmp_path / "ray.jsonl.gz").read_bytes() == (tmp_path / "here.jsonl.gz").read_bytes()
