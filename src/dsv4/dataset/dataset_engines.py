"""Where chunks are encoded: in this process or in several. Results come back in the order of the
input.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread

from dsv4.dataset.dataset_errors import DatasetError
from dsv4.dataset.dataset_reader import InputChunk
from dsv4.dataset.example_encoder import ChunkEncoder, EncodedChunk, EncodingJob

# Chunks for each worker that are read and not yet written: enough that none waits for a slow
# neighbour, and a bound on memory.
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
    """Processes that are started in here ignore Ctrl-C: only this process handles it."""
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
    """Exits with the parent: after a kill, workers would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _encode_in_worker(chunk: InputChunk) -> EncodedChunk:
    return _worker_encoder(chunk)
