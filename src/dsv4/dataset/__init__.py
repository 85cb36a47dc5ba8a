"""Files of conversations -> ids and loss masks, for training. Needs the extra `tokens`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
    format: str | None = None,
    max_length: int | None = None,
    too_long: Literal["fail", "drop", "cut"] = "fail",
    pack: int | None = None,
    split: Mapping[str, float] | None = None,
    counts: bool = False,
    watcher: Watcher | None = None,
) -> Summary:
    """Encodes every conversation of some files, in order, into one file of training examples.

    `inputs` are JSON lines (`.jsonl`, also with `.gz` or `.zst`; "-" is stdin) or Parquet files,
    of which `column` holds JSON text. `output` has `input_ids` and `loss_mask` in every row:
    `.jsonl`, `.jsonl.gz`, `.jsonl.zst`, `.parquet`, `.bin` for Megatron or `.npy` for NumPy; "-" is
    stdout. `format` says which, where the name does not: "jsonl", "jsonl.gz", "jsonl.zst",
    "parquet", "megatron" or "numpy".

    `policy` says what a model learns from: "assistant" (the default), "last_turn", "answers" or
    "calls". `expand` makes an example of each stretch of assistant turns, with the reasoning that
    it was written with, and needs no policy. `thinking`, `effort`, `dialect`, `drop_thinking` and
    `bos` are those of `dsv4.Request`, `task` goes on every last message; what is None is left to
    each line.

    Examples of more than `max_length` tokens are bad lines, are left out (`too_long="drop"`), or
    are cut after the last of the model's turns that is whole ("cut"). `pack` puts examples together
    in rows of at most so many tokens, with `position_ids` that begin anew and `sequence_lengths`.
    `split` gives parts by name, `{"train": 0.95, "valid": 0.05}`: each gets an output of its own,
    `train.jsonl` as `train.valid.jsonl`, and a conversation's own text says which part it is in.
    `counts` counts lengths, and tokens by what they are of.

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
    from dsv4.dataset.forms import form_named, output_named
    from dsv4.dataset.run import Run
    from dsv4.dataset.watching import Watcher
    from dsv4.reading.bodies import Overrides

    output = os.fspath(output)
    run = Run(
        inputs=[os.fspath(path) for path in inputs],
        output=output if format is None else output_named(output, format),
        overrides=Overrides(thinking, effort, dialect, drop_thinking, bos, task),
        policy=policy,
        expand=expand,
        tokenizer=None if tokenizer is None else os.fspath(tokenizer),
        column=column,
        jobs=jobs,
        engine=engine,
        on_error=on_error,
        resume=resume,
        form=None if format is None else form_named(format),
        longest=max_length,
        too_long=too_long,
        pack=pack,
        counts=counts,
    )
    return run.encode(watcher or Watcher()) if split is None else run.encode_parts(split, watcher)
