"""The command: options checked, output opened, chunks put through an engine and written."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from time import monotonic
from typing import Any, TypeAlias

import dsv4
from dsv4.cli.dataset.bar import Bar
from dsv4.cli.dataset.chunks import Position, read_chunks
from dsv4.cli.dataset.engines import cores, encoded_here, encoded_in_processes
from dsv4.cli.dataset.extras import ray_with_data
from dsv4.cli.dataset.forms import FORMS, form_of
from dsv4.cli.dataset.job import Done, Job
from dsv4.cli.dataset.memory import Worker, this_worker
from dsv4.cli.dataset.partial import Partial, Progress, Sink, Stream
from dsv4.cli.dataset.ray_engine import encoded_on_ray
from dsv4.cli.dataset.sources import COMPRESSED, source_of
from dsv4.cli.failure import DONE, FINDINGS, INTERRUPTED, Failure, reason
from dsv4.cli.requests import Request, dialect_of, with_options
from dsv4.cli.tokenizing import load_tokenizer
from dsv4.tokens.vocabulary import VocabularyError

# All of the input from a position on, done.
Engine: TypeAlias = Callable[[Position], Generator[Done, None, None]]

_PROMPT_OPTIONS = ("mode", "effort", "dialect", "model", "keep_thinking", "task", "no_bos")


def run(args: argparse.Namespace) -> int:
    job = _job(args)
    _check_options(job)
    _check_files(args)
    engine = _engine(args, job)
    with _sink(args, job) as sink:
        return _run(args, sink, engine)


def _run(args: argparse.Namespace, sink: Sink, engine: Engine) -> int:
    begin, started = sink.progress, monotonic()
    workers: dict[int, Worker] = {}
    bar = Bar(_sizes(args.files), begin)
    try:
        with closing(engine(begin.after)) as all_done:
            for done in all_done:
                _report(done.bad, bar, args.on_error)
                sink.add(done)
                workers[done.worker.process] = done.worker
                bar.draw(sink.progress)
        sink.finish()
    except KeyboardInterrupt:
        raise Failure(f"interrupted{sink.stop()}", INTERRUPTED) from None
    except Failure as failure:
        raise Failure(f"{failure}{sink.stop()}", failure.status) from None
    finally:
        bar.clear()
    if sink.progress.bad:
        bar.say(f"dsv4: bad lines left out: {sink.progress.bad}")
    if args.stats:
        bar.say(json.dumps(_stats(begin, sink.progress, monotonic() - started, workers)))
    return DONE


def _report(bad: list[str], bar: Bar, on_error: str) -> None:
    if bad and on_error == "fail":
        raise Failure(bad[0], FINDINGS)
    for problem in bad:
        bar.say(f"dsv4: {' '.join(problem.splitlines())}")


def _stats(
    begin: Progress, end: Progress, seconds: float, workers: dict[int, Worker]
) -> dict[str, Any]:
    """Counts are of the whole output, speed is of this run."""
    return {
        "conversations": end.conversations,
        "examples": end.examples,
        "tokens": end.tokens,
        "bad": end.bad,
        "seconds": round(seconds, 3),
        "conversations_per_second": round((end.conversations - begin.conversations) / seconds, 1),
        "worker_peak_mb": [_megabytes(worker) for worker in workers.values()],
        "main_peak_mb": _megabytes(this_worker()),
    }


def _megabytes(worker: Worker) -> float | None:
    return None if worker.peak is None else round(worker.peak / 1e6, 1)


# Before anything is done: what can be known to be wrong.


def _job(args: argparse.Namespace) -> Job:
    if args.expand and args.policy is not None:
        raise Failure("--expand has a mask of its own: leave out --policy")
    options = {name: getattr(args, name) for name in _PROMPT_OPTIONS}
    return Job(
        argparse.Namespace(**options),
        args.policy or "assistant",
        args.expand,
        args.tokenizer,
        _form(args.output),
    )


def _form(path: str) -> str:
    if _is_file(path):
        return form_of(path)
    form = next((form for form in FORMS if path.endswith(f".{form}")), "jsonl")
    if FORMS[form].finished is not None:
        raise Failure(f"-o: {path} is a pipe or a device, which cannot take Parquet")
    return form


def _check_options(job: Job) -> None:
    """A wrong option is one mistake, and not one of every line."""
    FORMS[job.form].needs()
    tokenizer = load_tokenizer(job.tokenizer)
    probe = Request("options", [{"role": "user", "content": "Hi"}])
    try:
        prompt = with_options(probe, job.options).encode_as_is()
        if dialect_of(job.options) is not None:
            dialect = prompt.dialect
            tokenizer.vocabulary.check(dialect.special_tokens, str(dialect))
        if job.tokenizer is not None:
            tokenizer.encode_text("Hi")  # the bundled file is known to do
    except (dsv4.EncodeError, dsv4.OptionError) as error:
        raise Failure(f"--{error}") from None
    except VocabularyError as error:
        raise Failure(str(error)) from None
    except ValueError as error:  # the engine's own
        raise Failure(f"{job.tokenizer}: {error}") from None


def _check_files(args: argparse.Namespace) -> None:
    if "-" in args.files and (len(args.files) > 1 or args.resume or args.engine == "ray"):
        raise Failure("stdin can be the only input alone, without --resume and --engine ray")
    for path in args.files:
        source_of(path, args.column).check()
        if os.path.exists(args.output) and path != "-" and os.path.samefile(path, args.output):
            raise Failure(f"{path} is input and output")
    if args.resume and not all(map(_is_file, [*args.files, args.output])):
        raise Failure("--resume needs files for input and output, which pipes and devices are not")


def _is_file(path: str) -> bool:
    """Whether there is a file, or could be."""
    try:
        return path != "-" and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise Failure(f"{path}: {reason(error)}") from None


def _sizes(paths: list[str]) -> list[int] | None:
    """The sizes of the inputs, if positions in them can be compared with these."""
    if any(path == "-" or path.endswith(COMPRESSED) for path in paths):
        return None
    return [os.stat(path).st_size for path in paths]


# What works, and what is written to.


def _engine(args: argparse.Namespace, job: Job) -> Engine:
    jobs = args.jobs or cores()

    def local(start: Position) -> Generator[Done, None, None]:
        chunks = read_chunks(args.files, start, args.column)
        return encoded_here(job, chunks) if jobs == 1 else encoded_in_processes(job, chunks, jobs)

    def ray(start: Position) -> Generator[Done, None, None]:
        return encoded_on_ray(job, args.files, start, args.column, args.jobs)

    if args.engine == "local":
        return local
    ray_with_data()
    return ray


@contextmanager
def _sink(args: argparse.Namespace, job: Job) -> Iterator[Sink]:
    if _is_file(args.output):
        yield Partial(args.output, job.form, _identity(args, job), args.resume)
    elif args.output == "-":
        yield Stream(sys.stdout.buffer, "stdout")
    else:
        try:
            with open(args.output, "wb", buffering=0) as file:
                yield Stream(file, args.output)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(f"cannot write {args.output}: {reason(error)}") from None


def _identity(args: argparse.Namespace, job: Job) -> dict[str, Any]:
    """All that the output depends on, as the journal remembers it."""
    return {
        "version": dsv4.__version__,
        "inputs": [_file_identity(path) for path in args.files],
        "column": args.column,
        "options": vars(job.options),
        "policy": job.policy,
        "expand": job.expand,
        "tokenizer": _file_identity(load_tokenizer(job.tokenizer).vocabulary.name),
        "form": job.form,
    }


def _file_identity(path: str) -> list[Any]:
    if path == "-":
        return [path]
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]
