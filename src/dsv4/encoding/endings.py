"""Other ends of a prompt than the one that the format gives it."""

from __future__ import annotations

from dsv4.encoding.fragments import REASONING_END
from dsv4.encoding.prompt import Fragment, Prompt


def without_final_header(prompt: Prompt) -> Prompt:
    """The prompt without the header of an answer that is still to come.

    A task's token, which asks too, stays: the caller gave it.
    """
    end = prompt._flat[-1]
    return _cut(prompt, -1) if isinstance(end, Fragment) and end.asks else prompt


def maybe_open_reasoning(prompt: Prompt) -> Prompt | None:
    """The prompt up to the end of the last turn's reasoning, which stays open. None without any."""
    for at in range(len(prompt._flat) - 1, -1, -1):
        entry = prompt._flat[at]
        if entry is REASONING_END:
            return _cut(prompt, at)
        if isinstance(entry, Fragment) and entry.opens:
            return None
    return None


def _cut(prompt: Prompt, at: int) -> Prompt:
    return Prompt(prompt._flat[:at], prompt._first_index, prompt.images, prompt.dialect)
