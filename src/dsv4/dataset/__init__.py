"""Files of conversations -> token ids and loss masks, for training. Needs the extra `tokens`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from dsv4.dataset.dataset_errors import BadLine, DatasetError, Interrupted
from dsv4.types import DialectName, Effort, ToolInput

if TYPE_CHECKING:
    from dsv4._format.dialects import Dialect
    from dsv4.dataset.dataset_run import Summary, Watcher

__all__ = [
    "BadLine",
    "DatasetError",
    "Interrupted",
    "Summary",
    "Watcher",
    "encode_files",
]


def __getattr__(name: str) -> type[Summary] | type[Watcher]:
    """`Summary` and `Watcher` are imported on first use: they bring the tokenizer with them."""
    if name not in ("Summary", "Watcher"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dsv4.dataset.dataset_run import Summary, Watcher

    return Summary if name == "Summary" else Watcher


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    policy: str | None = None,
    expand: bool = False,
    thinking: bool | None = None,
    effort: Effort | str | None = None,
    dialect: DialectName | Dialect | None = None,
    tools: Sequence[ToolInput] | None = None,
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
    drop_untrained: bool = False,
    rejects: str | os.PathLike[str] | None = None,
    format: str | None = None,
    max_length: int | None = None,
    too_long: Literal["fail", "drop", "cut", "left"] = "fail",
    pack: int | None = None,
    pad_to_multiple: int | None = None,
    preferences: bool = False,
    profile: str | None = None,
    split: Mapping[str, float] | None = None,
    counts: bool = False,
    watcher: Watcher | None = None,
) -> Summary:
    """Encodes every conversation of some files, in order, into one file of training examples.

    `inputs` are JSON lines (`.jsonl`, also with `.gz` or `.zst`; "-" is stdin) or Parquet files,
    of which `column` holds JSON text. `output` has `input_ids` and `loss_mask` in every row:
    `.jsonl`, `.jsonl.gz`, `.jsonl.zst` or `.parquet`; "-" is stdout.

    `policy` says which tokens are trained on: "assistant" (the default), "last_turn", "answers" or
    "calls". `expand` makes an example of each stretch of assistant turns, with the reasoning that
    it was written with, and takes no policy. `thinking`, `effort`, `dialect`, `tools`,
    `drop_thinking` and `bos` are those of `dsv4.Request`, `task` goes on every last message; where
    one is None, each line decides.

    `tokenizer` is a `tokenizer.json` or the folder of a checkpoint, in place of the bundled
    vocabulary. `jobs` is the number of processes (one for each core where it is None); `engine`
    is "local", or "ray" to run on a Ray cluster. `on_error` is "fail" to end the run at the first
    bad line, or "skip" to leave bad lines out; `rejects` is a file to write these to. A line that
    would teach mistakes is bad too: markup in an assistant's text, arguments that are not JSON.
    `ignore` names kinds of these that are let through: "reasoning_in_content",
    "calls_in_content", "arguments_not_json". `resume` continues an interrupted run; without it,
    such a run, and an output that is there already, are only replaced if `overwrite` is true.
    `watcher` receives bad lines and progress.

    `carry` names fields or columns of the input to copy to the output, with `file` and `line`.
    `labels` writes labels in place of the mask: ids, and -100 for tokens that are not trained on.
    `trainer` names the columns as that trainer reads them: "trl", "axolotl", "verl", "torchtune" or
    "megatron", which has a format of its own. `drop_untrained` leaves out examples without any
    token to train on.

    Examples of more than `max_length` tokens are bad lines, are left out (`too_long="drop"`), are
    cut after the last complete turn of the model ("cut"), or lose their oldest rounds ("left").
    `pack` puts examples together in rows of at most that many tokens, with `position_ids` that
    restart for each example, and `sequence_lengths`. Rows are padded to a multiple of
    `pad_to_multiple` tokens, which are not trained on.

    With `preferences`, each line is a pair: `prompt`, `chosen` and `rejected`, or two conversations
    that begin alike. Rows have the ids of prompt and answers, or for "trl" their texts, which its
    `DPOTrainer` reads. `profile` is a server of `dsv4.profiles`: each answer follows the prompt
    that this server would ask for it with, and a conversation has a row for each context.

    `split` gives parts by name, `{"train": 0.95, "valid": 0.05}`: each gets an output of its own,
    `train.jsonl` as `train.valid.jsonl`. Which part a conversation goes to depends only on its
    text. `counts` counts lengths, and tokens by field. `format` is the output format, where the
    name of `output` does not say it: "jsonl", "jsonl.gz", "jsonl.zst", "parquet", "megatron"
    (`.bin` with `.idx`) or "numpy" (`.npy`).

    Returns a `Summary`. Raises `BadLine` for a bad line, `DatasetError` where files, options or the
    installation do not allow the run, and `Interrupted`, a `KeyboardInterrupt`, after Ctrl-C.
    """
    # Imported here: the package names this function, and what it needs takes a while to import.
    from dsv4._inputs.request_bodies import RequestOverrides
    from dsv4.dataset.dataset_options import DatasetOptions, option_list, option_path, option_paths
    from dsv4.dataset.dataset_run import Watcher, run_dataset, run_splits
    from dsv4.dataset.output_formats import format_for, format_named, path_with_ending

    target = option_path(output, "output")
    format = format_for(trainer, format)
    options = DatasetOptions(
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
        drop_untrained=drop_untrained,
        rejects=None if rejects is None else option_path(rejects, "rejects"),
        format_name=None if format is None else format_named(format),
        max_length=max_length,
        too_long=too_long,
        pack=pack,
        counts=counts,
        pad_to_multiple=pad_to_multiple,
        preferences=preferences,
        profile=profile,
        ignore=tuple(option_list(ignore, "ignore", "kinds")),
    )
    watching = watcher or Watcher()
    if split is None:
        return run_dataset(options, watching)
    return run_splits(options, split, watching)
