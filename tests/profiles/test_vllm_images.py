"""Images on vLLM with V4.1, as its own classes write and refuse them.

Recorded on 18 November 2026 from the wheels of both releases, with the class of the model and a
stand-in for the processor of its images.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsv4 import EncodeError, profiles
from loading import ROOT

VECTORS = ROOT / "tests" / "vectors" / "profiles-vllm-images.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("release", ["vllm-0.32", "vllm-0.33"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["note"])
def test_an_image_is_a_part_like_a_text(row: Any, release: str) -> None:
    try:
        prompt = profiles.render(row["request"], release, dialect="v4.1")
    except EncodeError:
        prompt = None
    assert prompt == row["profiles"][release]


@pytest.mark.parametrize("release", ["vllm-0.32", "vllm-0.33"])
def test_v4_reads_no_images(release: str) -> None:
    for row in ROWS[:3]:
        with pytest.raises(EncodeError):
            profiles.render(row["request"], release)
