"""Packages that not everybody has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dsv4.dataset.failures import DatasetError
from dsv4.version import how_to_install


def pyarrow() -> Any:
    return _extra("pyarrow", "Parquet", "parquet")


def pyarrow_parquet() -> Any:
    pyarrow()
    return import_module("pyarrow.parquet")


def zstandard() -> Any:
    return _extra("zstandard", "zstd", "zstd")


def ray_with_data() -> Any:
    _extra("ray.data", "the engine ray", "ray")
    return import_module("ray")


def _extra(module: str, purpose: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        problem = f"{purpose} needs the package {missing}: {how_to_install(extra)}"
        raise DatasetError(problem) from None
