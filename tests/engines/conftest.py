"""What the tests with real engines share: a tiny model for vLLM, and files of other folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dsv4.tokens import Tokenizer

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))
sys.path += [str(HERE.parent / name) for name in ("grammar", "profiles", "serve")]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Any:
    from vllm_process import TinyModel

    return TinyModel(tmp_path_factory.mktemp("vllm"), tokenizer)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints what the parsers of servers made of the corpora."""
    from readings_table import COUNTS, table

    if COUNTS:
        terminalreporter.section("rows of the corpora that are read right")
        terminalreporter.write_line(table())
