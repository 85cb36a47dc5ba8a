"""A proof of an output file: its rows compared with those that TRL's own loader loads.

It proves how the loader treats the file: which columns it reads, what it cuts, how it pads a batch.
No model is trained, and none is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

from dsv4._format.tokens import PAD
from dsv4.dataset.dataset_errors import BadLine, DatasetError, training_packages
from dsv4.dataset.output_formats import IGNORED_LABEL, training_labels

PROVED_ROWS = 100
_BATCH = 8  # so that rows are padded


class LabelledIds(NamedTuple):
    """A row: its ids, and their labels."""

    ids: list[int]
    labels: list[int]


class ProvedRow(NamedTuple):
    """A row as in the file, and as the trainer loads it, perhaps with padding after it."""

    place: str
    written: LabelledIds
    loaded: LabelledIds

    @property
    def difference(self) -> tuple[int, str] | None:
        """The index of the first token that the trainer loads differently, and the difference."""
        pairs = zip_longest(zip(*self.written, strict=True), zip(*self.loaded, strict=True))
        for index, (written, loaded) in enumerate(pairs):
            if written is None and loaded[1] != IGNORED_LABEL:
                return index, f"the trainer has the label {loaded[1]} behind the row's end"
            if loaded is None:
                return index, "the trainer leaves it out"
            for n, what in enumerate(("id", "label")):
                if written is not None and written[n] != loaded[n]:
                    return index, f"the trainer has the {what} {loaded[n]}, the file {written[n]}"
        return None


def prove(path: str) -> list[ProvedRow]:
    """The first rows of a file, each as written and as the trainer loads it.

    Raises a `DatasetError` if a package or the file is missing, and a `BadLine` if a row has no
    labels or the trainer refuses the file.
    """
    packages = training_packages("--prove trl")
    if not os.path.isfile(path):
        raise DatasetError(f"{path}: no such file")
    try:
        rows = _first_rows(packages.datasets, path) if os.path.getsize(path) else []
        if not rows:
            raise BadLine(f"{path}: there are no rows to prove")
        places = [f"{path}:{n}" for n in range(1, len(rows) + 1)]
        written = [_written(row, place) for row, place in zip(rows, places, strict=True)]
        with TemporaryDirectory(prefix="dsv4-") as folder:
            loaded = list(_loaded(packages, rows, folder))
    except BadLine:
        raise
    except Exception as error:  # of any class: the trainer does not take the file
        problem = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise BadLine(f"{path}: trl cannot load it: {problem}") from None
    if len(loaded) != len(rows):
        raise BadLine(f"{path}: trl makes {len(loaded)} rows of {len(rows)}")
    return [ProvedRow(*parts) for parts in zip(places, written, loaded, strict=True)]


def _first_rows(datasets: Any, path: str) -> list[dict[str, Any]]:
    kind = "parquet" if path.endswith(".parquet") else "json"
    data = datasets.load_dataset(kind, data_files=path, split="train", streaming=True)
    return list(data.take(PROVED_ROWS))


def _written(row: dict[str, Any], place: str) -> LabelledIds:
    """The ids and labels of a row: its own labels, or those of its mask, which a trainer may
    ignore."""
    ids, labels, mask = (row.get(name) or [] for name in ("input_ids", "labels", "loss_mask"))
    if not ids or len(labels or mask) != len(ids):
        found = ", ".join(row)
        raise BadLine(f"{place}: found {found}, expected input_ids and as many labels (--for trl)")
    labels = labels or training_labels(ids, mask)
    for index, (id, label) in enumerate(zip(ids, labels, strict=True)):
        if label not in (id, IGNORED_LABEL):
            expected = f"expected the id {id} or {IGNORED_LABEL}"
            raise BadLine(f"{place}: labels[{index}]: found {label}, {expected}")
    return LabelledIds(ids, labels)


def _loaded(packages: SimpleNamespace, rows: list[Any], folder: str) -> Iterator[LabelledIds]:
    """The rows in the batches of an `SFTTrainer` with the settings of docs/training.md. These are
    the batches for evaluation, because the trainer shuffles those for training."""
    packed = "seq_lengths" in rows[0]
    size = {"per_device_eval_batch_size": 1 if packed else _BATCH}
    apart = {"output_dir": folder, "report_to": "none", "use_cpu": True, "bf16": False}
    trainer = packages.trl.SFTTrainer(
        model=_smallest_model(packages.transformers),
        processing_class=_smallest_tokenizer(packages),
        train_dataset=packages.datasets.Dataset.from_list(rows),
        args=packages.trl.SFTConfig(max_length=None, padding_free=packed, **size, **apart),
    )
    for batch in trainer.get_eval_dataloader(trainer.train_dataset):
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            yield LabelledIds(ids.tolist(), labels.tolist())


def _smallest_model(transformers: Any) -> Any:
    """A tiny model, which is never used: a trainer cannot be created without one."""
    sizes = dict.fromkeys(("vocab_size", "hidden_size", "intermediate_size"), 8)
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=1)
    return transformers.LlamaForCausalLM(config)


def _smallest_tokenizer(packages: SimpleNamespace) -> Any:
    """A tiny tokenizer, of which the trainer only uses the id of padding."""
    pad = str(PAD)
    words = packages.tokenizers.Tokenizer(packages.tokenizers.models.WordLevel({pad: 0}, pad))
    tokenizer = packages.transformers.PreTrainedTokenizerFast
    return tokenizer(tokenizer_object=words, pad_token=pad, eos_token=pad)
