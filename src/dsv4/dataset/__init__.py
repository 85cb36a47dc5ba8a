"""Files of conversations -> ids and loss masks, for training. Needs the extra `tokens`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from dsv4.dataset.failures import BadLine, DatasetError, Interrupted

if TYPE_CHECKING:
    from dsv4.dataset.run import Summary
    from dsv4.dataset.watching import Watcher

__all__ = ["BadLine", "DatasetError", "Interrupted", "encode_files"]


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    policy: str | None = None,
    expand: bool = False,
    thinking: bool | None = None,
    effort: str | int | None = None,
    dialect: str | None = None,
    drop_thinking: bool | None = None,
    bos: bool | None = None,
    task: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    column: str | None = None,
    jobs: int | None = None,
    engine: Literal["local", "ray"] = "local",
    on_error: Literal["fail", "skip"] = "fail",
    resume: bool = False,
    watcher: Watcher | None = None,
) -> Summary:
    """Encodes every conversation of some files, in order, into one file of training examples.

    `inputs` are JSON lines (`.jsonl`, also with `.gz` or `.zst`; "-" is stdin) or Parquet files,
    of which `column` holds JSON text. `output` has `input_ids` and `loss_mask` in every row:
    `.jsonl`, `.jsonl.gz`, `.jsonl.zst` or `.parquet`; "-" is stdout.

    `policy` says what a model learns from: "assistant" (the default), "last_turn", "answers" or
    "calls". `expand` makes an example of each stretch of assistant turns, with the reasoning that
    it was written with, and needs no policy. `thinking`, `effort`, `dialect`, `drop_thinking` and
    `bos` are those of `dsv4.Request`, `task` goes on every last message; what is None is left to
    each line.

    `tokenizer` is a `tokenizer.json` or the folder of a checkpoint, in place of the bundled
    vocabulary. `jobs` is the number of processes (one for each core where it is None); `engine`
    is "local", or "ray" to work where Ray runs. `on_error` is "fail" to end the run at the first
    bad line, or "skip" to leave bad lines out. `resume` goes on where an earlier run was stopped.
    `watcher` is told of bad lines and progress.

    Returns a `Summary` of what was done. Raises `BadLine` for a bad line, `DatasetError` where
    files, options or the installation do not allow the run, and `Interrupted`, a
    `KeyboardInterrupt`, after Ctrl-C.
    """
    # Imported here: the package names this function, and what it needs takes a while to import.
    from dsv4.dataset.run import Run
    from dsv4.dataset.watching import Watcher
    from dsv4.reading.bodies import Overrides

    return Run(
        inputs=[os.fspath(path) for path in inputs],
        output=os.fspath(output),
        overrides=Overrides(thinking, effort, dialect, drop_thinking, bos, task),
        policy=policy,
        expand=expand,
        tokenizer=None if tokenizer is None else os.fspath(tokenizer),
        column=column,
        jobs=jobs,
        engine=engine,
        on_error=on_error,
        resume=resume,
    ).encode(watcher or Watcher())
