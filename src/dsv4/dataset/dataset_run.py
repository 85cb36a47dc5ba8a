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
    write_errors,
)
from dsv4.tokens.tokenizer import Tokenizer
from dsv4.version import __version__


class Watcher:
    """Receives the progress of a run. This one does nothing: override what is of interest."""

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


@dataclass(frozen=True)
class Summary:
    """What a run has done. Counts are of the whole output, speed and memory those of
    this run.

    `rows` are those of the output, which may hold several `examples`. Of examples that were too
    long, `cut` were shortened by whole turns and `dropped` left out. `counts` says more, if it was
    asked for.

    `trained` counts the tokens that are trained on, `untrained` the examples without any,
    `left_out` turns whose reasoning is not in their example, `bad` lines that were left out.
    `unanswered` counts conversations without an answer, of which `expand` makes no example.
    `finished` says that the output is complete, `resumed_nothing` that an earlier run had completed
    it, so that nothing was left to do.
    `worker_peak_mb` is the peak memory of each process, None where the system does not report it;
    `main_peak_mb` that of the process that reads and writes.
    """

    conversations: int
    examples: int
    rows: int
    tokens: int
    trained: int
    untrained: int
    unanswered: int
    left_out: int
    cut: int
    dropped: int
    bad: int
    counts: DatasetCounts | None
    seconds: float
    conversations_per_second: float
    worker_peak_mb: list[float | None]
    main_peak_mb: float | None
    finished: bool = True
    resumed_nothing: bool = False


def run_dataset(options: DatasetOptions, watcher: Watcher) -> Summary:
    """A run, from checking its options to its summary."""
    check_options(options)
    check_files(options)
    engine = _engine(options)
    with _open_sink(options) as sink:
        return _run_to_sink(options, sink, engine, watcher)


def run_splits(options: DatasetOptions, split: Mapping[str, float], watcher: Watcher) -> Summary:
    """One run for each part of a split. Lines of other parts are only hashed, not encoded."""
    if not all(map(is_file, [*options.inputs, options.output])):
        raise DatasetError("split: needs files for input and output, which can be read again")
    if options.rejects is not None:
        raise DatasetError("rejects: found it with split, expected one of them")
    parts = [
        replace(
            options,
            output=split_output_path(options.output, name, options.job.format_name),
            share=share,
        )
        for name, share in split_shares(split).items()
    ]
    return _combined_summary([run_dataset(part, watcher) for part in parts])


def _run_to_sink(
    options: DatasetOptions, sink: OutputSink, engine: Engine, watcher: Watcher
) -> Summary:
    begin, started = sink.progress, monotonic()
    workers: dict[int, WorkerMemory] = {}
    if sink.is_finished:
        return replace(_summary_of(begin, begin, 0, workers), resumed_nothing=True)
    rejects, first_bad = RejectsFile(options.rejects, begin), ""
    watcher.begin(input_sizes(options.inputs), begin)
    try:
        with closing(engine(begin.after)) as all_done:
            for done in all_done:
                first_bad = first_bad or next(iter(done.bad), "")
                rejects.add(done.rejects)
                _report_bad_lines(done.bad, watcher, options.on_error)
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
        end.trained,
        end.untrained,
        end.unanswered,
        end.left_out,
        end.cut,
        end.dropped,
        end.bad,
        DatasetCounts.from_text(end.counts) if end.counts else None,
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
            resumed_nothing=total.resumed_nothing and more.resumed_nothing,
        )
    return total


_SUMMED_FIELDS = (
    *("conversations", "examples", "rows", "tokens", "trained", "untrained"),
    *("unanswered", "left_out"),
    *("cut", "dropped", "bad", "seconds"),
)


def _megabytes(worker: WorkerMemory) -> float | None:
    return None if worker.peak is None else round(worker.peak / 1e6, 1)


# The engine, the output, and what identifies the job.


def _engine(options: DatasetOptions) -> Engine:
    job, jobs = options.job, options.jobs or (1 if options.is_small else available_cores())

    def local(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        chunks = read_chunks(options.inputs, start, options.column, options.carry, options.chunks)
        return (
            encode_in_process(job, chunks) if jobs == 1 else encode_in_processes(job, chunks, jobs)
        )

    def ray(start: InputPosition) -> Generator[EncodedChunk, None, None]:
        return encode_on_ray(
            job, options.inputs, start, options.column, options.chunks, options.jobs
        )

    if options.engine == "local":
        return local
    ray_with_data()
    return ray


@contextmanager
def _open_sink(options: DatasetOptions) -> Iterator[OutputSink]:
    if is_file(options.output):
        sink = ResumableSink(
            options.output,
            options.job.format_name,
            _job_identity(options),
            options.resume,
            options.overwrite,
        )
        with closing(sink):
            yield sink
    elif options.output == "-":
        if sys.stdout is None:
            raise DatasetError("stdout is closed")
        yield StreamSink(sys.stdout.buffer, "stdout")
    else:
        with write_errors(options.output), open(options.output, "wb", buffering=0) as file:
            yield StreamSink(file, options.output)


def _job_identity(options: DatasetOptions) -> dict[str, Any]:
    """Everything that the output depends on, as the journal stores it."""
    stored: dict[str, Any] = json.loads(json.dumps(_identity_fields(options), default=repr))
    return stored


def _identity_fields(options: DatasetOptions) -> dict[str, Any]:
    return {
        "version": __version__,
        "inputs": [_file_identity(path) for path in options.inputs],
        "column": options.column,
        "options": vars(options.overrides),
        "policy": options.job.policy,
        "expand": options.expand,
        "tokenizer": _file_identity(Tokenizer.load(options.tokenizer).vocabulary.name),
        "form": options.job.format_name,
        "carry": None if options.carry is None else list(options.carry),
        "labels": options.labels,
        "trainer": options.trainer,
        "drop_untrained": options.drop_untrained,
        "rejects": options.rejects is not None,
        "lengths": [options.job.max_length, options.too_long, options.pack],
        "share": list(options.share),
        "counts": options.counts,
        "ignore": sorted(options.ignore),
        "pad_to_multiple": options.pad_to_multiple,
        "preferences": options.preferences,
        "profile": options.profile,
    }


def _file_identity(path: str) -> list[Any]:
    if path == "-":
        return [path]
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]
