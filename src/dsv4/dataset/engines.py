"""Who does a job: this process, or several. What is done comes back in the order of the input."""

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

from dsv4.dataset.chunks import Chunk
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.job import Done, Encoder, Job

# Chunks for each worker that are read and not yet written: enough that none waits for a slow
# neighbour, and all the memory that a larger input can ask for.
AHEAD = 4


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def encoded_here(job: Job, chunks: Iterable[Chunk]) -> Generator[Done, None, None]:
    yield from map(Encoder(job), chunks)


def encoded_in_processes(
    job: Job, chunks: Iterable[Chunk], jobs: int
) -> Generator[Done, None, None]:
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start, (job,))
    try:
        waiting: deque[Future[Done]] = deque()
        for chunk in chunks:
            waiting.append(_submitted(pool, chunk))
            if len(waiting) == jobs * AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DatasetError("a worker was ended from outside: is there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, chunk: Chunk) -> Future[Done]:
    with _interrupts_held():
        return pool.submit(_work, chunk)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started here never see Ctrl-C, of which this one alone has to make an end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker.

_encoder: Encoder


def _start(job: Job) -> None:
    global _encoder
    _encoder = Encoder(job)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(chunk: Chunk) -> Done:
    return _encoder(chunk)
