"""A logits processor for vLLM: the model writes what a test has prepared.

The last `SAY[name]` of a prompt names a file `name.json` in the folder `$SAY_SCRIPTS`, with the ids
to generate; `SAY[slow:N]` writes N words, slowly. Only the choice of tokens is the test's: engine,
sampler, masks, detokenizer, parsers and aborts are the server's own. This module is imported by
vLLM's processes, and by nothing else.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from vllm.v1.sample.logits_processor import LogitsProcessor, MoveDirectionality

END_ID = 1
# Of a logit that must win: a mask's minus infinity still counts for more.
CERTAIN = 1000.0
SLOW_STEP = 0.05


class Script(NamedTuple):
    """What a request is to generate, what it has generated, and the pause between tokens."""

    ids: list[int]
    written: list[int]
    pause: float


class Scripted(LogitsProcessor):  # type: ignore[misc]
    """Raises the logit of the next token of each request that has a script."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self._tokenizer = Tokenizer.from_file(os.environ["SAY_VOCABULARY"])
        self._folder = Path(os.environ["SAY_SCRIPTS"])
        self._rows: dict[int, Script] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Nothing: requests have no options for it."""

    def update_state(self, batch_update: Any) -> None:
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._rows.pop(row, None)
        for row, _, prompt, written in batch_update.added:
            self._rows.pop(row, None)
            if (script := self._script(prompt or [], written)) is not None:
                self._rows[row] = script
        for source, target, direction in batch_update.moved:
            moved, replaced = self._rows.pop(source, None), self._rows.pop(target, None)
            if moved is not None:
                self._rows[target] = moved
            if replaced is not None and direction == MoveDirectionality.SWAP:
                self._rows[source] = replaced

    def _script(self, prompt: list[int], written: list[int]) -> Script | None:
        text = self._tokenizer.decode(list(prompt), skip_special_tokens=False)
        names = re.findall(r"SAY\[([\w:.-]+)\]", text)
        if not names:
            return None
        if names[-1].startswith("slow:"):
            words = " word" * int(names[-1].partition(":")[2])
            ids = self._tokenizer.encode(words, add_special_tokens=False).ids
            return Script([*ids, END_ID], written, SLOW_STEP)
        ids = json.loads((self._folder / f"{names[-1]}.json").read_text("utf-8"))
        return Script(ids, written, 0.0)

    def apply(self, logits: Any) -> Any:
        for row, script in self._rows.items():
            place = len(script.written)
            logits[row, script.ids[place] if place < len(script.ids) else END_ID] += CERTAIN
        if pause := max((script.pause for script in self._rows.values()), default=0.0):
            time.sleep(pause)
        return logits
