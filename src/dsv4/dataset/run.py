"""A run: options checked, output opened, chunks put through an engine and written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Any, TypeAlias

from dsv4.dataset.chunks import USUAL, Position, Size, read_chunks
from dsv4.dataset.counting import Counts
from dsv4.dataset.engines import cores, encoded_here, encoded_in_processes
from dsv4.dataset.extras import ray_with_data
from dsv4.dataset.failures import BadLine, DatasetError, Interrupted
from dsv4.dataset.forms import FORMS, form_of
from dsv4.dataset.job import Done, Job
from dsv4.dataset.memory import Worker, this_worker
from dsv4.dataset.on_ray import encoded_on_ray
from dsv4.dataset.packing import chunk_bytes
from dsv4.dataset.partial import Partial, Progress, Sink, Stream
from dsv4.dataset.rejects import Rejects
from dsv4.dataset.sources import COMPRESSED, source_of
from dsv4.dataset.splitting import WHOLE, Share, part_path, shares
from dsv4.dataset.watching import Watcher
from dsv4.errors import Error, shown
from dsv4.format.dialects import dialect_named
from dsv4.reading.bodies import Overrides
from dsv4.reading.failures import InputError, reason
from dsv4.request import Request
from dsv4.tokens.masks import weigher
from dsv4.tokens.tokenizer import Tokenizer
from dsv4.version import __version__

# Inputs of fewer bytes are done before a second process has started.
SMALL = 500_000

# All of the input from a position on, done.
Engine: TypeAlias = Callable[[Position], Generator[Done, None, None]]


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
    counts: Counts | None
    seconds: float
    conversations_per_second: float
    worker_peak_mb: list[float | None]
    main_peak_mb: float | None
    finished: bool = False


@dataclass(frozen=True)
class Run:
    """All that was asked for, checked when it is encoded."""

    inputs: Sequence[str]
    output: str
    overrides: Overrides
    policy: str | None
    expand: bool
    tokenizer: str | None
    column: str | None
    jobs: int | None
    engine: str
    on_error: str
    resume: bool
    overwrite: bool
    carry: tuple[str, ...] | None
    labels: bool
    drop_unlearnable: bool
    rejects: str | None
    form: str | None = None
    longest: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: Share = WHOLE
    counts: bool = False

    def encode(self, watcher: Watcher) -> Summary:
        _check_options(self)
        _check_files(self)
        engine = _engine(self)
        with _sink(self) as sink:
            return _encoded(self, sink, engine, watcher)

    def encode_parts(self, split: Mapping[str, float], watcher: Watcher | None) -> Summary:
        """Each part by itself: of the lines of others, only the text is looked at."""
        if not all(map(_is_file, [*self.inputs, self.output])):
            raise DatasetError("split: needs files for input and output, which can be read again")
        if self.rejects is not None:
            raise DatasetError("rejects: found it with split, expected one of them")
        parts = [
            replace(self, output=part_path(self.output, name, self.job.form), share=share)
            for name, share in shares(split).items()
        ]
        return _together([part.encode(watcher or Watcher()) for part in parts])

    @cached_property
    def job(self) -> Job:
        return Job(
            self.overrides,
            self.policy or "assistant",
            self.expand,
            self.tokenizer,
            self.form or _form(self.output),
            self.carry,
            self.labels,
            self.drop_unlearnable,
            self.rejects is not None,
            "one-shot" if self.is_small else "auto",
            self.pack if self.longest is None else self.longest,
            self.too_long,
            self.pack,
            self.share,
            self.counts,
            self._has_images,
        )

    @property
    def _has_images(self) -> bool:
        """Whether prompts may have images: the dialect that is asked for says, or the tokenizer."""
        wanted = self.overrides.dialect
        try:
            dialect = dialect_named(wanted) if wanted else _tokenizer(self.tokenizer).dialect
        except Error:  # which is told where options are checked
            return False
        return dialect.image_token is not None

    @property
    def chunks(self) -> Size:
        """How large chunks are: rows of several examples are packed within one."""
        return USUAL if self.pack is None else Size(1 << 16, chunk_bytes(self.pack))

    @cached_property
    def is_small(self) -> bool:
        """Whether starting processes, and an engine made for speed, would take longer than they
        save."""
        sizes = _sizes(self.inputs)
        return self.engine == "local" and sizes is not None and sum(sizes) < SMALL


def _encoded(run: Run, sink: Sink, engine: Engine, watcher: Watcher) -> Summary:
    begin, started = sink.progress, monotonic()
    workers: dict[int, Worker] = {}
    if sink.is_finished:
        return replace(_summary(begin, begin, 0, workers), finished=True)
    rejects, first_bad = Rejects(run.rejects, begin), ""
    watcher.begin(_sizes(run.inputs), begin)
    try:
        with closing(engine(begin.after)) as all_done:
            for done in all_done:
                first_bad = first_bad or next(iter(done.bad), "")
                rejects.add(done.rejects)
                _report(done.bad, watcher, run.on_error)
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
    except InputError as error:
        raise DatasetError(str(error), sink.stop()) from None
    finally:
        watcher.end()
        rejects.close()
    return _summary(begin, sink.progress, monotonic() - started, workers)


def _report(bad: list[str], watcher: Watcher, on_error: str) -> None:
    if bad and on_error == "fail":
        raise BadLine(bad[0])
    for problem in bad:
        watcher.bad_line(problem)


def _summary(begin: Progress, end: Progress, seconds: float, workers: dict[int, Worker]) -> Summary:
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
        Counts.read(end.counts) if end.counts else None,
        round(seconds, 3),
        round((end.conversations - begin.conversations) / (seconds or 1), 1),
        [_megabytes(worker) for worker in workers.values()],
        _megabytes(this_worker()),
    )


def _together(summaries: Sequence[Summary]) -> Summary:
    """One summary of several runs."""
    total = summaries[0]
    for more in summaries[1:]:
        counts = total.counts and more.counts and total.counts.plus(more.counts)
        numbers = {name: getattr(total, name) + getattr(more, name) for name in _ADDED}
        total = replace(
            more,
            **numbers,
            counts=counts,
            conversations_per_second=round(numbers["conversations"] / (numbers["seconds"] or 1), 1),
            worker_peak_mb=[*total.worker_peak_mb, *more.worker_peak_mb],
            finished=total.finished and more.finished,
        )
    return total


_ADDED = (
    *("conversations", "examples", "rows", "tokens", "learned", "unlearnable", "left_out"),
    *("cut", "dropped", "bad", "seconds"),
)


def _megabytes(worker: Worker) -> float | None:
    return None if worker.peak is None else round(worker.peak / 1e6, 1)


# Before anything is done: what can be known to be wrong.


def _form(path: str) -> str:
    if _is_file(path):
        return form_of(path)
    form = next((form for form in FORMS if path.endswith(f".{form}")), "jsonl")
    if FORMS[form].finished is not None:
        raise DatasetError(f"output: {path} is a pipe or a device, which cannot take Parquet")
    return form


def _check_options(run: Run) -> None:
    """A wrong option is one mistake, and not one of every line."""
    if run.resume and run.overwrite:
        raise DatasetError("overwrite: found it with resume, expected one of them")
    if run.rejects is not None and run.on_error != "skip":
        raise DatasetError("rejects: bad lines are kept where on_error is skip")
    if run.expand and run.policy is not None:
        raise DatasetError("policy: expand has a mask of its own, expected none")
    if run.jobs is not None and run.jobs < 1:
        raise DatasetError(f"jobs: found {shown(run.jobs)}, expected at least 1")
    _check_lengths(run)
    for name, allowed in (
        ("engine", ("local", "ray")),
        ("on_error", ("fail", "skip")),
        ("too_long", ("fail", "drop", "cut")),
    ):
        if getattr(run, name) not in allowed:
            found, expected = shown(getattr(run, name)), " or ".join(allowed)
            raise DatasetError(f"{name}: found {found}, expected {expected}")
    FORMS[run.job.form].needs()
    try:
        _check_encoding(run)
    except DatasetError:
        raise
    except Error as error:
        raise DatasetError(str(error)) from None
    except ValueError as error:  # the engine's own
        raise DatasetError(f"{run.tokenizer}: {error}") from None


def _check_lengths(run: Run) -> None:
    for name, number in (("pack", run.pack), ("max_length", run.longest)):
        if number is not None and (number.__class__ is not int or number < 1):
            raise DatasetError(f"{name}: found {shown(number)}, expected at least 1")
    if run.pack is None:
        return
    if run.longest is not None and run.longest > run.pack:
        problem = f"found {run.longest}, expected no more than the {run.pack} of a packed row"
        raise DatasetError(f"max_length: {problem}")
    if run.carry is not None:
        raise DatasetError("carry: found it with pack, expected a row for each example")


def _check_encoding(run: Run) -> None:
    """Encodes something that is known to be right."""
    tokenizer = _tokenizer(run.tokenizer)
    weigher(run.job.policy, ())
    prompt = run.overrides.on(Request([{"role": "user", "content": "Hi"}])).encode()
    if run.overrides.dialect is not None:
        dialect = dialect_named(run.overrides.dialect)
        tokenizer.vocabulary.check(dialect.special_tokens, str(dialect))
    if run.tokenizer is not None:
        tokenizer.count(prompt)  # the bundled file is known to do


def _tokenizer(path: str | None) -> Tokenizer:
    try:
        return Tokenizer.load(path)
    except OSError as error:
        raise DatasetError(f"{path}: {reason(error)}") from None


def _check_files(run: Run) -> None:
    if "-" in run.inputs and (len(run.inputs) > 1 or run.resume or run.engine == "ray"):
        raise DatasetError("stdin must be the only input, and cannot be resumed or read by Ray")
    for path in run.inputs:
        try:
            source_of(path, run.column, run.carry).check()
        except InputError as error:
            raise DatasetError(str(error)) from None
        if os.path.exists(run.output) and path != "-" and os.path.samefile(path, run.output):
            raise DatasetError(f"{path} is both input and output: choose another output")
    if run.resume and not all(map(_is_file, [*run.inputs, run.output])):
        problem = "needs files for input and output, which pipes and devices are not"
        raise DatasetError(f"resume: {problem}")


def _is_file(path: str) -> bool:
    """Whether there is a file, or could be."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise DatasetError(f"{path}: {reason(error)}") from None


def _sizes(paths: Sequence[str]) -> list[int] | None:
    """The sizes of the inputs, if positions in them can be compared with these."""
    if any(path == "-" or path.endswith(COMPRESSED) for path in paths):
        return None
    try:
        return [os.stat(path).st_size for path in paths]
    except OSError:
        return None


# What works, and what is written to.


def _engine(run: Run) -> Engine:
    job, jobs = run.job, run.jobs or (1 if run.is_small else cores())

    def local(start: Position) -> Generator[Done, None, None]:
        chunks = read_chunks(run.inputs, start, run.column, run.carry, run.chunks)
        return encoded_here(job, chunks) if jobs == 1 else encoded_in_processes(job, chunks, jobs)

    def ray(start: Position) -> Generator[Done, None, None]:
        return encoded_on_ray(job, run.inputs, start, run.column, run.chunks, run.jobs)

    if run.engine == "local":
        return local
    ray_with_data()
    return ray


@contextmanager
def _sink(run: Run) -> Iterator[Sink]:
    if _is_file(run.output):
        sink = Partial(run.output, run.job.form, _identity(run), run.resume, run.overwrite)
        with closing(sink):
            yield sink
    elif run.output == "-":
        if sys.stdout is None:
            raise DatasetError("stdout is closed")
        yield Stream(sys.stdout.buffer, "stdout")
    else:
        try:
            with open(run.output, "wb", buffering=0) as file:
                yield Stream(file, run.output)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise DatasetError(f"cannot write {run.output}: {reason(error)}") from None


def _identity(run: Run) -> dict[str, Any]:
    """All that the output depends on, as the journal remembers it."""
    return {
        "version": __version__,
        "inputs": [_file_identity(path) for path in run.inputs],
        "column": run.column,
        "options": asdict(run.overrides),
        "policy": run.job.policy,
        "expand": run.expand,
        "tokenizer": _file_identity(Tokenizer.load(run.tokenizer).vocabulary.name),
        "form": run.job.form,
        "carry": None if run.carry is None else list(run.carry),
        "labels": run.labels,
        "drop_unlearnable": run.drop_unlearnable,
        "rejects": run.rejects is not None,
        "lengths": [run.job.longest, run.too_long, run.pack],
        "share": list(run.share),
        "counts": run.counts,
    }


def _file_identity(path: str) -> list[Any]:
    if path == "-":
        return [path]
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]
