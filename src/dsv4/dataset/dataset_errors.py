"""Errors that end a dataset run, and the optional packages whose absence is one of them."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from dsv4.errors import Error
from dsv4.version import how_to_install


class DatasetError(Error):
    """Files, options or an installation that do not allow a run to start or to continue.

    `kept` is the number of conversations that a run with `resume=True` need not encode again.
    """

    def __init__(self, problem: str, kept: int = 0) -> None:
        super().__init__(problem, kept)
        self.problem = problem
        self.kept = kept

    def __str__(self) -> str:
        if not self.kept:
            return self.problem
        return f"{self.problem} (resume=True goes on after {self.kept} conversations)"


class BadLine(DatasetError):
    """A line that is not a conversation, or that cannot be encoded. The message says where."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after the work so far was saved: `kept` conversations."""

    def __init__(self, kept: int = 0) -> None:
        super().__init__(kept)
        self.kept = kept


# Optional packages, imported when they are needed.


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


def training_packages(purpose: str) -> SimpleNamespace:
    """The packages that a trainer's loader needs, by their names."""
    names = ("torch", "tokenizers", "datasets", "transformers", "trl")
    return SimpleNamespace(**{name: _extra(name, purpose, "training") for name in names})


def _extra(module: str, purpose: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        problem = f"{purpose} needs the package {missing}: {how_to_install(extra)}"
        raise DatasetError(problem) from None
