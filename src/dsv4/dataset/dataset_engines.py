"""The engines that encode chunks: this process, several processes, or Ray. Results come back in
the order of the input.

On Ray, a row is a pickled chunk: in columns, Arrow would give every schema the fields of all
others.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any, Protocol

from dsv4.dataset.dataset_errors import DatasetError, pyarrow, ray_with_data
from dsv4.dataset.dataset_reader import ChunkSize, InputChunk, InputPosition, read_chunks
from dsv4.dataset.example_encoder import ChunkEncoder, EncodedChunk, EncodingJob
from dsv4.errors import Error

# The most chunks for each worker that are read but not yet written: enough that no worker waits for
# a slow one, and a bound on memory.
CHUNKS_PER_WORKER = 4


def available_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def encode_in_process(
    job: EncodingJob, chunks: Iterable[InputChunk]
) -> Generator[EncodedChunk, None, None]:
    yield from map(ChunkEncoder(job), chunks)


def encode_in_processes(
    job: EncodingJob, chunks: Iterable[InputChunk], jobs: int
) -> Generator[EncodedChunk, None, None]:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start_worker, (job,))
    try:
        waiting: deque[Future[EncodedChunk]] = deque()
        for chunk in chunks:
            with _interrupts_blocked():
                waiting.append(pool.submit(_encode_in_worker, chunk))
            if len(waiting) == jobs * CHUNKS_PER_WORKER:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DatasetError("a worker was ended from outside: is there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C: only this process handles it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker.

_worker_encoder: ChunkEncoder


def _start_worker(job: EncodingJob) -> None:
    global _worker_encoder
    _worker_encoder = ChunkEncoder(job)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exits with the parent: otherwise workers would wait forever after a kill."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _encode_in_worker(chunk: InputChunk) -> EncodedChunk:
    return _worker_encoder(chunk)


# On Ray Data: one task reads, one for each core encodes, this process writes.


# Ray hands out blocks of rows, so blocks must not be much larger than a chunk.
RAY_BLOCK_BYTES = 1 << 20
# Reading takes little of a core. A separate share keeps Ray from merging reading and encoding into
# one task, which could not use a second core.
RAY_READING_CPUS = 0.01


def encode_on_ray(
    job: EncodingJob, paths: Sequence[str], start: InputPosition, size: ChunkSize
) -> Generator[EncodedChunk, None, None]:
    ray = ray_with_data()
    data = ray.data
    if not ray.is_initialized():  # joins the cluster that `RAY_ADDRESS` names, or starts Ray here
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # of any class, depending on what failed
            first_line = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DatasetError(f"Ray did not start: {first_line}") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = RAY_BLOCK_BYTES
    context.execution_options.preserve_order = True
    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
    arrow = {"batch_size": None, "batch_format": "pyarrow"}
    chunks = data.from_items([{"start": list(start)}]).map_batches(
        _read_in_ray,
        fn_kwargs={
            "paths": list(paths),
            "start": start,
            "column": job.options.column,
            "carry": job.options.carry,
            "size": size,
        },
        num_cpus=RAY_READING_CPUS,
        **arrow,
    )
    results = chunks.map_batches(
        _RayEncoder,
        fn_constructor_args=(job,),
        compute=data.ActorPoolStrategy(min_size=1, max_size=job.options.jobs or cores),
        num_cpus=1 - RAY_READING_CPUS,
        **arrow,
    )
    try:
        for batch in results.iter_batches(**arrow):
            yield from _encoded_chunks(batch)
    except ray.exceptions.RayError as error:
        raise _ray_failure(error) from None


class ArrowTable(Protocol):
    """The method of an Arrow table that is used here."""

    def to_pylist(self) -> list[dict[str, Any]]: ...


def _ray_failure(error: Exception) -> DatasetError:
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, DatasetError):
        return cause
    problem = str(cause).strip().splitlines() or [type(cause).__name__]
    return DatasetError(f"Ray: {problem[-1]}")


# In Ray's tasks. Errors are passed on in a row: Ray would print pages about an exception.


def _read_in_ray(
    _: object,
    paths: Sequence[str],
    start: InputPosition,
    column: str | None,
    carry: Sequence[str] | None,
    size: ChunkSize,
) -> Iterator[ArrowTable]:
    try:
        for chunk in read_chunks(paths, start, column, carry, size):
            yield _arrow_table([chunk])
    except Error as failure:
        yield _arrow_table([DatasetError(str(failure))])


class _RayEncoder:
    def __init__(self, job: EncodingJob) -> None:
        self._encoder = ChunkEncoder(job)

    def __call__(self, chunks: ArrowTable) -> ArrowTable:
        return _arrow_table(
            [
                each if isinstance(each, DatasetError) else self._encoder(each)
                for each in _in(chunks)
            ]
        )


def _encoded_chunks(table: ArrowTable) -> Iterator[EncodedChunk]:
    for each in _in(table):
        if isinstance(each, DatasetError):
            raise each
        yield each


def _arrow_table(chunks: Sequence[InputChunk | EncodedChunk | DatasetError]) -> ArrowTable:
    """A table with a row for each item, pickled."""
    arrow = pyarrow()
    rows = arrow.array([pickle.dumps(chunk) for chunk in chunks], arrow.large_binary())
    table: ArrowTable = arrow.table({_COLUMN: rows})
    return table


_COLUMN = "chunk"


def _in(table: ArrowTable) -> list[Any]:
    return [pickle.loads(row[_COLUMN]) for row in table.to_pylist()]
