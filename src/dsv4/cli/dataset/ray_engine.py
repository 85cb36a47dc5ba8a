"""The job on Ray Data: one task reads, as many as there are cores encode, this process writes.

A row is a chunk, and each conversation in it the JSON text that was in the file: as columns, Arrow
would give every schema the fields of all others.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from dsv4.cli.dataset.chunks import Chunk, Position, read_chunks
from dsv4.cli.dataset.extras import pyarrow, ray_with_data
from dsv4.cli.dataset.job import Done, Encoder, Job
from dsv4.cli.dataset.memory import Worker
from dsv4.cli.failure import Failure

# Blocks of rows are what Ray hands out, so they must not be much larger than a chunk.
BLOCK_BYTES = 1 << 20
# Reading takes little of a core. A share of its own keeps Ray from making reading and encoding one
# task, which no second core could help with.
READING_SHARE = 0.01


def encoded_on_ray(
    job: Job, paths: Sequence[str], start: Position, column: str | None, jobs: int | None
) -> Generator[Done, None, None]:
    ray = ray_with_data()
    data = ray.data
    _start(ray)
    _be_quiet_and_orderly(data.DataContext.get_current())
    arrow = {"batch_size": None, "batch_format": "pyarrow"}
    chunks = data.from_items([{"start": list(start)}]).map_batches(
        _read,
        fn_kwargs={"paths": list(paths), "start": start, "column": column},
        num_cpus=READING_SHARE,
        **arrow,
    )
    results = chunks.map_batches(
        _Encode,
        fn_constructor_args=(job,),
        compute=data.ActorPoolStrategy(min_size=1, max_size=jobs or _cores(ray)),
        num_cpus=1 - READING_SHARE,
        **arrow,
    )
    try:
        for batch in results.iter_batches(**arrow):
            yield from _all_done(batch)
    except ray.exceptions.RayError as error:
        raise _failure(error) from None


def _start(ray: Any) -> None:
    """Joins the cluster that `RAY_ADDRESS` names, or starts Ray here."""
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _be_quiet_and_orderly(context: Any) -> None:
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = BLOCK_BYTES
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _failure(error: Exception) -> Failure:
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, Failure):
        return cause
    problem = str(cause).strip().splitlines() or [type(cause).__name__]
    return Failure(f"Ray: {problem[-1]}")


# In Ray's tasks.


def _read(_: Any, paths: Sequence[str], start: Position, column: str | None) -> Iterator[Any]:
    for chunk in read_chunks(paths, start, column):
        yield pyarrow().Table.from_pylist([chunk._asdict()], _chunk_schema())


class _Encode:
    def __init__(self, job: Job) -> None:
        self._encoder = Encoder(job)

    def __call__(self, chunks: Any) -> Any:
        rows = [self._encoder(chunk)._asdict() for chunk in _chunks(chunks)]
        return pyarrow().Table.from_pylist(rows, _done_schema())


def _chunks(table: Any) -> Iterator[Chunk]:
    for row in table.to_pylist():
        yield Chunk(**{**row, "after": Position(*row["after"])})


def _all_done(table: Any) -> Iterator[Done]:
    for row in table.to_pylist():
        position, worker = Position(*row["after"]), Worker(*row["worker"])
        yield Done(**{**row, "after": position, "worker": worker})


def _chunk_schema() -> Any:
    arrow = pyarrow()
    numbers = arrow.list_(arrow.int64())
    return arrow.schema(
        {
            "name": arrow.string(),
            "first": arrow.int64(),
            "lines": arrow.list_(arrow.large_binary()),
            "after": numbers,
        }
    )


def _done_schema() -> Any:
    arrow = pyarrow()
    numbers = arrow.list_(arrow.int64())
    return arrow.schema(
        {
            "data": arrow.large_binary(),
            "conversations": arrow.int64(),
            "examples": arrow.int64(),
            "tokens": arrow.int64(),
            "bad": arrow.list_(arrow.string()),
            "after": numbers,
            "worker": numbers,
        }
    )
