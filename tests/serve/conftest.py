"""The tests of this folder share the servers of `standins.py`, and look at other folders' files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from small_vocabulary import write_small_vocabulary

# Files of keys that others could read would be refused.
os.umask(0o077)

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))
sys.path += [str(HERE.parent / name) for name in ("grammar", "profiles")]
sys.path.append(str(HERE.parents[1] / "clients"))


@pytest.fixture(scope="module")
def small_vocabulary_of_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The real one takes a second or two in every process, and other tests have it."""
    path = write_small_vocabulary(tmp_path_factory.mktemp("vocabulary") / "tokenizer.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSV4_TOKENIZER", str(path))
        yield
