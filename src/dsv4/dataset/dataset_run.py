"""A dataset run from its options to its summary: output opened, chunks put through an engine and
written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, TypeAlias

from dsv4._inputs.input_files import os_error_reason
from dsv4.dataset.dataset_engines import (
    available_cores,
    encode_in_process,
    encode_in_processes,
    encode_on_ray,
)
from dsv4.dataset.dataset_errors import BadLine, DatasetError, Interrupted, ray_with_data
from dsv4.dataset.dataset_options import (
    DatasetOptions,
    check_files,
    check_options,
    input_sizes,
    is_file,
    split_output_path,
    split_shares,
)
from dsv4.dataset.dataset_reader import InputPosition, read_chunks
from dsv4.dataset.dataset_statistics import DatasetCounts, WorkerMemory, memory_of_this_process
from dsv4.dataset.example_encoder import EncodedChunk
from dsv4.dataset.resumable_output import (
    OutputSink,
    Progress,
    RejectsFile,
    ResumableSink,
    StreamSink,
)
from dsv4.tokens.tokenizer import Tokenizer
from dsv4.version import __version__

# Who is told how a run goes.


class Watcher:
    """Is told how a run goes, and says nothing. Others make more of it."""

    def begin(self, sizes: Sequence[int] | None, progress: Progress) -> None:
        """A run begins, or goes on. `sizes` are those of the inputs in bytes, if they are known."""

    def advance(self, progress: Progress) -> None:
        """Some more is done."""

    def bad_line(self, problem: str) -> None:
        """A line was left out."""

    def end(self) -> None:
        """The run is over, however it went."""


# A run: options checked, output opened, chunks put through an engine and written.


# All of the input from a position on, done.
Engine: TypeAlias = Callable[[InputPosition], Generator[EncodedChunk, None, None]]


@dataclass(frozen=True)
class Summary:
    """What a run has done. Counts are of the whole output, speed and memory are of this run.

    `rows` are those of the output, which may hold several `examples`. Of examples that were too
    long, `cut` were cut at a turn and `dropped` left out. `counts` says more, if it was asked for.
    `learned` counts tokens that the mask lets a model learn, `unlearnable` examples without any,
    `left_out` turns whose reasoning is not in their example, `bad` lines that were left out.
    `finished` says that an earlier run had done it all, so that nothing was left to resume.
    `worker_peak_mb` is the most memory that each process has held, None where the system does not
    say; `main_peak_mb` that of the process that reads and writes.
    """

    conversations: int
    examples: int
    rows: int
    tokens: int
    learned: int
    unlearnable: int
    left_out: int
    cut: int
    dropped: int
    bad: int
    counts: DatasetCounts | None
    seconds: float
    conversations_per_second: float
    worker_peak_mb: list[float | None]
    main_peak_mb: float | None
    finished: bool = False


def run_dataset(run: DatasetOptions, watcher: Watcher) -> Summary:
    """Does a run."""
    check_options(run)
    check_files(run)
    engine = _engine(run)
    with _open_sink(run) as sink:
        return _run_to_sink(run, sink, engine, watcher)


def run_splits(run: DatasetOptions, split: Mapping[str, float], watcher: Watcher) -> Summary:
    """Each part by itself: of the lines of others, only the text is looked at."""
    if not all(map(is_file, [*run.inputs, run.output])):
        raise DatasetError("split: needs files for input and output, which can be read again")
    if run.rejects is not None:
        raise DatasetError("rejects: found it with split, expected one of them")
    parts = [
        replace(run, output=split_output_path(run.output, name, run.job.form), share=share)
        for name, share in split_shares(split).items()
    ]
    return _combined_summary([run_dataset(part, watcher) for part in parts])


def _run_to_sink(
    run: DatasetOptions, sink: OutputSink, engine: Engine, watcher: Watcher
) -> Summary:
    begin, started = sink.progress, monotonic()
    workers: dict[int, WorkerMemory] = {}
    if sink.is_finished:
        return replace(_summary_of(begin, begin, 0, workers), finished=True)
    rejects, first_bad = RejectsFile(run.rejects, begin), ""
    watcher.begin(input_sizes(run.inputs), begin)
    try:
        with closing(engine(begin.after)) as all_done:
            for done in all_done:
                first_bad = first_bad or next(iter(done.bad), "")
                rejects.add(done.rejects)
                _report_bad_lines(done.bad, watcher, run.on_error)
                sink.add(done)
                workers[done.worker.process] = done.worker
                watcher.advance(sink.progress)
        if sink.progress.bad and not sink.progress.conversations:
            raise BadLine(f"all {sink.progress.bad} lines are bad, the first of them: {first_bad}")
        sink.finish()
    except KeyboardInterrupt:
        raise Interrupted(sink.stop()) from None
    except DatasetError as error:
        raise type(error)(error.problem, sink.stop()) from None
    finally:
        watcher.end()
        rejects.close()
    return _summary_of(begin, sink.progress, monotonic() - started, workers)


def _report_bad_lines(bad: list[str], watcher: Watcher, on_error: str) -> None:
    if bad and on_error == "fail":
        raise BadLine(bad[0])
    for problem in bad:
        watcher.bad_line(problem)


def _summary_of(
    begin: Progress, end: Progress, seconds: float, workers: dict[int, WorkerMemory]
) -> Summary:
    return Summary(
        end.conversations,
        end.examples,
        end.rows,
        end.tokens,
        end.learned,
        end.unlearnable,
        end.left_out,
        end.cut,
        end.dropped,
        end.bad,
        DatasetCounts.read(end.counts) if end.counts else None,
        round(seconds, 3),
        round((end.conversations - begin.conversations) / (seconds or 1), 1),
        [_megabytes(worker) for worker in workers.values()],
        _megabytes(memory_of_this_process()),
    )


def _combined_summary(summaries: Sequence[Summary]) -> Summary:
    """One summary of several runs."""
    total = summaries[0]
    for more in summaries[1:]:
        counts = total.counts and more.counts and total.counts.plus(more.counts)
        numbers = {name: getattr(total, name) + getattr(more, name) for name in _SUMMED_FIELDS}
        total = replace(
            more,
            **numbers,
            counts=counts,
            conversations_per_second=round(numbers["conversations"] / (numbers["seconds"] or 1), 1),
            worker_peak_mb=[*total.worker_peak_mb, *more.worker_peak_mb],
            finished=total.finished and more.finished,
        )
    return total


_SUMMED_FIELDS = (
    *("conversations", "examples", "rows", "tokens", "learned", "unlearnable", "left_out"),
    *("cut", "dropped", "bad", "seconds"),
)


def _megabytes(worker: WorkerMemory) -> float | None:
    return None if worker.peak is None else round(worker.peak / 1e6, 1)


# What works, and what is written to.


def _engine(run: DatasetOptions) -> Engine:
    job, jobs = run.job, run.jobs or (1 if run.is_small else available_cores())

    def local(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        chunks = read_chunks(run.inputs, start, run.column, run.carry, run.chunks)
        return (
            encode_in_process(job, chunks) if jobs == 1 else encode_in_processes(job, chunks, jobs)
        )

    def ray(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        return encode_on_ray(job, run.inputs, start, run.column, run.chunks, run.jobs)

    if run.engine == "local":
        return local
    ray_with_data()
    return ray


@contextmanager
def _open_sink(run: DatasetOptions) -> Iterator[OutputSink]:
    if is_file(run.output):
        sink = ResumableSink(
            run.output, run.job.form, _job_identity(run), run.resume, run.overwrite
        )
        with closing(sink):
            yield sink
    elif run.output == "-":
        if sys.stdout is None:
            raise DatasetError("stdout is closed")
        yield StreamSink(sys.stdout.buffer, "stdout")
    else:
        try:
            with open(run.output, "wb", buffering=0) as file:
                yield StreamSink(file, run.output)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise DatasetError(f"cannot write {run.output}: {os_error_reason(error)}") from None


def _job_identity(run: DatasetOptions) -> Any:
    """All that the output depends on, as the journal remembers it."""
    return json.loads(json.dumps(_identity_fields(run), default=repr))


def _identity_fields(run: DatasetOptions) -> dict[str, Any]:
    return {
        "version": __version__,
        "inputs": [_file_identity(path) for path in run.inputs],
        "column": run.column,
        "options": vars(run.overrides),
        "policy": run.job.policy,
        "expand": run.expand,
        "tokenizer": _file_identity(Tokenizer.load(run.tokenizer).vocabulary.name),
        "form": run.job.form,
        "carry": None if run.carry is None else list(run.carry),
        "labels": run.labels,
        "trainer": run.trainer,
        "drop_unlearnable": run.drop_unlearnable,
        "rejects": run.rejects is not None,
        "lengths": [run.job.longest, run.too_long, run.pack],
        "share": list(run.share),
        "counts": run.counts,
        "ignore": sorted(run.ignore),
    }


def _file_identity(path: str) -> list[Any]:
    if path == "-":
        return [path]
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]
