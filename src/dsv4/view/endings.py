"""How a prompt ends, in words: what the model does from there on."""

from __future__ import annotations

from typing import NamedTuple

from dsv4.encoding.prompt import Prompt
from dsv4.format.endings import EndingKind


class Ending(NamedTuple):
    """Whether there is something to generate, and what."""

    generates: bool
    words: str


_WORDS: dict[EndingKind, str] = {
    "think": "the model thinks from here on",
    "answer": "the model answers from here on",
    "task": "the model does the task from here on",
    "continue": "the model continues its turn from here on",
    "nothing": "nothing to generate: the last turn asks for no answer",
}


def ending(prompt: Prompt) -> Ending:
    kind = prompt.ending.kind
    if kind == "nothing" and prompt.pieces and prompt.pieces[-1].field == "eos":
        return Ending(False, "nothing to generate: the last turn is finished")
    return Ending(kind != "nothing", _WORDS[kind])
