"""Files of conversations -> token ids and loss masks, for training. Needs the extra `tokens`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dsv4.dataset.dataset_errors import BadLine, DatasetError, Interrupted

if TYPE_CHECKING:
    from dsv4.dataset.dataset_options import DatasetOptions
    from dsv4.dataset.dataset_run import Summary, Watcher

__all__ = [
    "BadLine",
    "DatasetError",
    "DatasetOptions",
    "Interrupted",
    "Summary",
    "Watcher",
    "encode_files",
]

# Imported on first use: they bring the tokenizer with them.
_MODULES = {
    "DatasetOptions": "dsv4.dataset.dataset_options",
    "Summary": "dsv4.dataset.dataset_run",
    "Watcher": "dsv4.dataset.dataset_run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: DatasetOptions | None = None,
    *,
    watcher: Watcher | None = None,
) -> Summary:
    """Encodes every conversation of some files, in order, into one file of training examples.

    `inputs` are JSON lines (`.jsonl`, also with `.gz` or `.zst`; "-" is stdin), JSON arrays
    (`.json`) or Parquet files. `output` has `input_ids` and `loss_mask` in every row: `.jsonl`,
    `.jsonl.gz`, `.jsonl.zst` or `.parquet`; "-" is stdout. `options` has all other settings.
    `watcher` receives bad lines and progress.

    Returns a `Summary`. Raises `BadLine` for a bad line, `DatasetError` where files, options or the
    installation do not allow the run, and `Interrupted`, a `KeyboardInterrupt`, after Ctrl-C.
    """
    # Imported here: the package names this function, and what it needs takes a while to import.
    from dsv4.dataset.dataset_options import DatasetOptions
    from dsv4.dataset.dataset_plan import DatasetPlan
    from dsv4.dataset.dataset_run import Watcher, run_dataset

    plan = DatasetPlan.of(inputs, output, options or DatasetOptions())
    return run_dataset(plan, watcher or Watcher())
