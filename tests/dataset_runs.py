"""Runs of `dsv4.dataset.encode_files` with options as keywords."""

from __future__ import annotations

from typing import Any

from dsv4 import dataset


def encode_files(inputs: Any, output: Any, **options: Any) -> dataset.Summary:
    watcher = options.pop("watcher", None)
    return dataset.encode_files(inputs, output, dataset.DatasetOptions(**options), watcher=watcher)
