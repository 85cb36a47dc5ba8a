"""A real vLLM with our plugin: its answers are the messages that `dsv4.parse` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from corpus_rows import Row, rows_for_parsers
from protocol_clients import together
from readings_table import count, differing
from scripted_rows import scripted_reading
from vllm_process import PLUGIN_PARSERS, RunningVllm, TinyModel

ROWS = rows_for_parsers()


@pytest.fixture(scope="module")
def vllm(model: TinyModel) -> Iterator[RunningVllm]:
    with model.served(*PLUGIN_PARSERS) as server:
        yield server


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_every_row_of_the_corpora(streamed: bool, vllm: RunningVllm, model: TinyModel) -> None:
    async def ask(client: Any, row: Row) -> Any:
        return await scripted_reading(client, vllm.url, row, model.scripts, streamed)

    found = together(ask, ROWS)
    how = "streamed" if streamed else "complete"
    count(f"dsv4 in vLLM 0.32.0 served, {how}", zip(ROWS, found, strict=True))
    wrong = differing(found, ROWS, blank=streamed)
    assert not wrong, f"{len(wrong)} of {len(ROWS)}:\n" + "\n".join(wrong[:20])
