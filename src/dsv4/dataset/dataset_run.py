"""A dataset run from its options to its summary: opens the output, passes chunks to an engine and
writes them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from time import monotonic
from typing import Any, TypeAlias

from dsv4.dataset.dataset_engines import (
    available_cores,
    encode_in_process,
    encode_in_processes,
    encode_on_ray,
)
from dsv4.dataset.dataset_errors import BadLine, DatasetError, Interrupted, ray_with_data
from dsv4.dataset.dataset_notes import CopyCounter, LineNotes
from dsv4.dataset.dataset_plan import (
    DatasetPlan,
    check_files,
    check_plan,
    input_sizes,
    is_file,
)
from dsv4.dataset.dataset_reader import InputPosition, read_chunks
from dsv4.dataset.dataset_statistics import RunCounts, WorkerMemory, memory_of_this_process
from dsv4.dataset.example_encoder import EncodedChunk
from dsv4.dataset.resumable_output import (
    OutputSink,
    Progress,
    RejectsFile,
    ResumableSink,
    write_errors,
)
from dsv4.tokens.tokenizer import Tokenizer
from dsv4.version import __version__


class Watcher:
    """Receives the progress of a run. This class does nothing: override the methods you need."""

    def begin(self, sizes: Sequence[int] | None, progress: Progress) -> None:
        """Called when a run starts or resumes. `sizes` are those of the inputs in bytes, if known;
        `progress` is what an earlier run has done."""

    def advance(self, progress: Progress) -> None:
        """Called after each chunk, with the `progress` so far."""

    def bad_line(self, problem: str) -> None:
        """Called for each line that is left out; `problem` says where it is and why."""

    def end(self) -> None:
        """Called when the run is over, also after an error."""


# Encodes all of the input from a position on.
Engine: TypeAlias = Callable[[InputPosition], Generator[EncodedChunk, None, None]]


@dataclass(frozen=True, kw_only=True)
class Summary(RunCounts):
    """The result of a run. Counts (`conversations`, `tokens` and others) are of the whole output;
    `seconds`, `conversations_per_second` and memory are those of this run.

    `rows` are those of the output, which may hold several `examples`. `trained` counts the tokens
    that are trained on, `answers` the answers for which thinking is opened, `bad` lines that were
    left out. `notes` are findings by kind, each with its count and its first line: omissions of the
    format, examples that were cut or left out, answers without reasoning, copies. `counts` has more
    details, if requested.

    `resumed_nothing` says that an earlier run had completed the output, so that there was nothing
    to do. `worker_peak_mb` is the peak memory of each process, None where the system does not
    report it; `main_peak_mb` that of the process that reads and writes.
    """

    seconds: float = 0.0
    conversations_per_second: float = 0.0
    worker_peak_mb: list[float | None] = field(default_factory=list)
    main_peak_mb: float | None = None
    resumed_nothing: bool = False

    def count(self, kind: str) -> int:
        """The number of findings of a `kind`."""
        return self.notes[kind].times if kind in self.notes else 0


def run_dataset(plan: DatasetPlan, watcher: Watcher) -> Summary:
    """A run, from checking its options to its summary."""
    check_plan(plan)
    check_files(plan)
    engine = _engine(plan)
    with _open_sink(plan) as sink:
        return _run_to_sink(plan, sink, engine, watcher)


def _run_to_sink(plan: DatasetPlan, sink: OutputSink, engine: Engine, watcher: Watcher) -> Summary:
    begin, started = sink.progress, monotonic()
    workers: dict[int, WorkerMemory] = {}
    copies = CopyCounter()
    if sink.is_finished:
        nothing = _summary_of(begin, begin, 0, workers, copies.notes)
        return replace(nothing, resumed_nothing=True)
    rejects, first_bad = RejectsFile(plan.rejects, begin), ""
    watcher.begin(input_sizes(plan.inputs), begin)
    try:
        with closing(engine(begin.after)) as all_done:
            for chunk in all_done:
                first_bad = first_bad or next(iter(chunk.bad), "")
                rejects.add(chunk.rejects)
                _report_bad_lines(chunk.bad, watcher, plan.options.on_error)
                sink.add(chunk)
                copies.add_chunk(chunk.hashes, chunk.name, chunk.first)
                workers[chunk.worker.process] = chunk.worker
                watcher.advance(sink.progress)
        if sink.progress.bad and not sink.progress.conversations:
            raise BadLine(f"all {sink.progress.bad} lines are bad, the first of them: {first_bad}")
        if not sink.progress.conversations:
            raise DatasetError(f"{', '.join(plan.inputs)}: found no conversation, expected one")
        sink.finish()
    except KeyboardInterrupt:
        raise Interrupted(sink.stop()) from None
    except DatasetError as error:
        raise type(error)(error.problem, sink.stop()) from None
    finally:
        watcher.end()
        rejects.close()
    return _summary_of(begin, sink.progress, monotonic() - started, workers, copies.notes)


def _report_bad_lines(bad: list[str], watcher: Watcher, on_error: str) -> None:
    if bad and on_error == "fail":
        raise BadLine(bad[0])
    for problem in bad:
        watcher.bad_line(problem)


def _summary_of(
    begin: Progress,
    end: Progress,
    seconds: float,
    workers: dict[int, WorkerMemory],
    copies: LineNotes,
) -> Summary:
    numbers = {name.name: getattr(end, name.name) for name in fields(RunCounts)}
    new = end.conversations - begin.conversations
    return Summary(
        **{**numbers, "notes": end.notes.plus(copies)},
        seconds=round(seconds, 3),
        conversations_per_second=round(new / (seconds or 1), 1),
        worker_peak_mb=[_megabytes(worker) for worker in workers.values()],
        main_peak_mb=_megabytes(memory_of_this_process()),
    )


def _megabytes(worker: WorkerMemory) -> float | None:
    return None if worker.peak is None else round(worker.peak / 1e6, 1)


# The engine, the output, and the identity of the job.


def _engine(plan: DatasetPlan) -> Engine:
    job, options = plan.job, plan.options
    jobs = options.jobs or (1 if plan.is_small else available_cores())

    def local(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        chunks = read_chunks(plan.inputs, start, options.column, options.carry, plan.chunks)
        if jobs == 1:
            return encode_in_process(job, chunks)
        return encode_in_processes(job, chunks, jobs)

    def ray(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        return encode_on_ray(job, plan.inputs, start, plan.chunks)

    if options.engine == "local":
        return local
    ray_with_data()
    return ray


@contextmanager
def _open_sink(plan: DatasetPlan) -> Iterator[OutputSink]:
    if is_file(plan.output):
        sink = ResumableSink(
            plan.output,
            plan.format_name,
            _job_identity(plan),
            plan.options.resume,
            plan.options.overwrite,
        )
        with closing(sink):
            yield sink
    elif plan.output == "-":
        if sys.stdout is None:
            raise DatasetError("stdout is closed")
        yield OutputSink(sys.stdout.buffer, "stdout")
    else:
        with write_errors(plan.output), open(plan.output, "wb", buffering=0) as file:
            yield OutputSink(file, plan.output)


def _job_identity(plan: DatasetPlan) -> dict[str, Any]:
    """All values that the output depends on, as the journal stores them."""
    options = {name: v for name, v in vars(plan.options).items() if name not in _NO_IDENTITY}
    identity = {
        "version": __version__,
        "inputs": [_file_identity(path) for path in plan.inputs],
        **options,
        "policy": plan.job.policy,
        "tokenizer": _file_identity(Tokenizer.load(plan.tokenizer).vocabulary.name),
        "format": plan.format_name,
        "rejects": plan.rejects is not None,
    }
    stored: dict[str, Any] = json.loads(json.dumps(identity, default=repr))
    return stored


# Options that the bytes of the output do not depend on.
_NO_IDENTITY = ("jobs", "engine", "on_error", "resume", "overwrite")


def _file_identity(path: str) -> list[Any]:
    if path == "-":
        return [path]
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]
