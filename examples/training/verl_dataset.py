"""What `dsv4 dataset --for verl -o train.parquet` wrote, as verl's SFT trainer takes it.

verl makes ids from messages by itself unless it is given a dataset of one's own:

    data.custom_cls.path=examples/training/verl_dataset.py data.custom_cls.name=EncodedDataset
    data.train_files=train.parquet data.pad_mode=no_padding
"""

from __future__ import annotations

from typing import Any

import torch
from datasets import load_dataset
from torch.utils.data import Dataset


class EncodedDataset(Dataset[dict[str, torch.Tensor]]):
    """Rows of `input_ids` and `loss_mask`, as tensors without padding."""

    def __init__(
        self,
        parquet_files: Any,
        tokenizer: Any,
        config: Any,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        if config["pad_mode"] != "no_padding":
            raise ValueError(f"data.pad_mode: found {config['pad_mode']}, expected no_padding")
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        rows = load_dataset("parquet", data_files=files, split="train")
        self.rows = rows if max_samples < 0 else rows.select(range(min(max_samples, len(rows))))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, n: int) -> dict[str, torch.Tensor]:
        row = self.rows[n]
        ids = torch.tensor(row["input_ids"])
        return {
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "loss_mask": torch.tensor(row["loss_mask"]),
        }
