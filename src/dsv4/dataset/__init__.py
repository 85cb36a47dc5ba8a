"""Files of conversations -> token ids and loss masks, for training. Needs the extra `tokens`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dsv4.dataset.dataset_errors import BadLine, DatasetError, Interrupted

if TYPE_CHECKING:
    from dsv4._format.dialects import Dialect
    from dsv4.dataset.dataset_run import Summary, Watcher

__all__ = [
    "BadLine",
    "DatasetError",
    "Interrupted",
    "encode_files",
]


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    policy: str | None = None,
    expand: bool = False,
    thinking: bool | None = None,
    effort: str | int | None = None,
    dialect: str | Dialect | None = None,
    tools: Sequence[Any] | None = None,
    drop_thinking: bool | None = None,
    bos: bool | None = None,
    task: str | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    column: str | None = None,
    jobs: int | None = None,
    engine: Literal["local", "ray"] = "local",
    on_error: Literal["fail", "skip"] = "fail",
    ignore: Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
    carry: Sequence[str] | None = None,
    labels: bool = False,
    trainer: str | None = None,
    drop_unlearnable: bool = False,
    rejects: str | os.PathLike[str] | None = None,
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
    `.jsonl`, `.jsonl.gz`, `.jsonl.zst` or `.parquet`; "-" is stdout.

    `policy` says what a model learns from: "assistant" (the default), "last_turn", "answers" or
    "calls". `expand` makes an example of each stretch of assistant turns, with the reasoning that
    it was written with, and needs no policy. `thinking`, `effort`, `dialect`, `tools`,
    `drop_thinking` and `bos` are those of `dsv4.Request`, `task` goes on every last message; what
    is None is left to each line.

    `tokenizer` is a `tokenizer.json` or the folder of a checkpoint, in place of the bundled
    vocabulary. `jobs` is the number of processes (one for each core where it is None); `engine`
    is "local", or "ray" to work where Ray runs. `on_error` is "fail" to end the run at the first
    bad line, or "skip" to leave bad lines out, which `rejects` then names a file for. A line
    that would teach mistakes is bad too: markup in an assistant's text, arguments that are not
    JSON. `ignore` names kinds of these that are let through: "reasoning_in_content",
    "calls_in_content", "arguments_not_json". `resume` goes
    on where an earlier run was stopped; without it, such a run is only replaced if `overwrite` is
    true. `watcher` is told of bad lines and progress.

    `carry` names fields or columns of the input that go along, with `file` and `line`. `labels`
    writes ids, and -100 where nothing is learned, in place of the mask. `trainer` names the columns
    as what will read them does: "trl", "axolotl", "verl", "torchtune" or "megatron", which has a
    format of its own. `drop_unlearnable` leaves out examples with nothing to learn.

    Examples of more than `max_length` tokens are bad lines, are left out (`too_long="drop"`), or
    are cut after the last of the model's turns that is whole ("cut"). `pack` puts examples together
    in rows of at most that many tokens, with `position_ids` that begin anew and `sequence_lengths`.
    `split` gives parts by name, `{"train": 0.95, "valid": 0.05}`: each gets an output of its own,
    `train.jsonl` as `train.valid.jsonl`, and a conversation's own text says which part it is in.
    `counts` counts lengths, and tokens by what they are of. `format` says what to write, where the
    name of `output` does not: "jsonl", "jsonl.gz", "jsonl.zst", "parquet", "megatron" (`.bin` with
    `.idx`) or "numpy" (`.npy`).

    Returns a `Summary` of what was done. Raises `BadLine` for a bad line, `DatasetError` where
    files, options or the installation do not allow the run, and `Interrupted`, a
    `KeyboardInterrupt`, after Ctrl-C.
    """
    # Imported here: the package names this function, and what it needs takes a while to import.
    from dsv4._inputs.request_bodies import RequestOverrides
    from dsv4.dataset.dataset_options import DatasetOptions, option_list, option_path, option_paths
    from dsv4.dataset.dataset_run import Watcher, run_dataset, run_splits
    from dsv4.dataset.output_formats import format_named, path_with_ending
    from dsv4.dataset.trainer_columns import format_for

    target = option_path(output, "output")
    format = format_for(trainer, format)
    run = DatasetOptions(
        inputs=option_paths(inputs, "inputs"),
        output=target if format is None else path_with_ending(target, format),
        overrides=RequestOverrides(thinking, effort, dialect, tools, drop_thinking, bos, task),
        policy=policy,
        expand=expand,
        tokenizer=None if tokenizer is None else option_path(tokenizer, "tokenizer"),
        column=column,
        jobs=jobs,
        engine=engine,
        on_error=on_error,
        resume=resume,
        overwrite=overwrite,
        carry=None if carry is None else tuple(option_list(carry, "carry", "names")),
        labels=labels,
        trainer=trainer,
        drop_unlearnable=drop_unlearnable,
        rejects=None if rejects is None else option_path(rejects, "rejects"),
        form=None if format is None else format_named(format),
        longest=max_length,
        too_long=too_long,
        pack=pack,
        counts=counts,
        ignore=tuple(option_list(ignore, "ignore", "kinds")),
    )
    watching = watcher or Watcher()
    return run_dataset(run, watching) if split is None else run_splits(run, split, watching)
