"""How a prompt ends: what the model does from there on."""

from __future__ import annotations

from typing import NamedTuple

from dsv4.encoding.prompt import Prompt
from dsv4.format import tokens


class Ending(NamedTuple):
    """Whether there is something to generate, and what."""

    generates: bool
    words: str


THINKS = Ending(True, "the model thinks from here on")
ANSWERS = Ending(True, "the model answers from here on")
DOES_TASK = Ending(True, "the model does the task from here on")
CONTINUES = Ending(True, "the model continues its turn from here on")
FINISHED = Ending(False, "nothing to generate: the last turn is finished")
SILENT = Ending(False, "nothing to generate: the last turn asks for no answer")
_ASKING: dict[str, Ending] = {tokens.THINK_START: THINKS, tokens.THINK_END: ANSWERS}


def ending(prompt: Prompt) -> Ending:
    last = prompt.pieces[-1] if prompt.pieces else None
    if last is None:
        return SILENT
    if last.field == "task":
        return DOES_TASK
    if last.field == "eos":
        return FINISHED
    if last.origin == "model":
        return CONTINUES
    return _ASKING.get(last.text, SILENT) if last.special else SILENT
