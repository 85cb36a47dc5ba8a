"""Well-formed completions that talk about markup are read as the strict grammar reads them.

`fuzz/differential.py` builds them, and can build more.
"""

from __future__ import annotations

import random

import pytest

from loading import loaded

differential = loaded("fuzz/differential.py")


pytestmark = pytest.mark.repeats


@pytest.mark.parametrize("batch", range(10))
def test_both_readings_are_the_same(batch: int) -> None:
    for number in range(60):
        text = differential.completion(random.Random(f"{batch} {number}"))
        assert differential.difference(text) is None, text
