"""How busy an engine is: the names of the metrics that are read, in a package that is installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsv4.serve.upstreams.engine_load import NAMES


@pytest.mark.parametrize(
    ("variable", "package"), [("VLLM_VENV", "vllm"), ("SGLANG_VENV", "sglang")]
)
def test_an_installed_engine_has_the_metrics_that_are_read(variable: str, package: str) -> None:
    folders = [*Path(os.environ.get(variable) or ".").glob(f"lib/python*/site-packages/{package}")]
    if not folders:
        pytest.skip(f"{variable} names no environment with {package}")
    sources = [file.read_text("utf-8", "replace") for file in folders[0].rglob("*.py")]
    read = [name for name in NAMES if name.startswith(f"{package}:")]
    missing = [name for name in read if not any(f'"{name}"' in source for source in sources)]
    assert (len(read), missing) == (2, [])
