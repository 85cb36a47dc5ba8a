"""Other ends of a prompt than the one that the format gives it."""

from __future__ import annotations

from dsv4.encoding.pieces import GOES_ON, Fragment
from dsv4.encoding.prompt import Prompt
from dsv4.format.tokens import THINK_END


def without_final_header(prompt: Prompt) -> Prompt:
    """The prompt without the header of an answer that is still to come.

    A task's token, which asks too, stays: the caller gave it.
    """
    return prompt._cut(-1) if prompt.ending.kind in ("think", "answer") else prompt


def maybe_open_reasoning(prompt: Prompt) -> Prompt | None:
    """The prompt up to the end of the last turn's reasoning, which stays open. None without any."""
    entries = prompt._flat
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if isinstance(entry, Fragment):
            if entry.label[1] == "reasoning" and str(entry) == str(THINK_END):
                return prompt._cut(at)
            if entry.message != GOES_ON:
                return None
    return None
