"""The model's answers to quick-instruction tasks (format.md, section 7)."""

from __future__ import annotations

from dsv4._format import tokens
from dsv4._format.tokens import TASK_TOKENS
from dsv4.errors import OptionError, ParseError, short_repr

# Tasks that are answered with one of a few words, as the model writes them.
_LABELS: dict[str, tuple[str, ...]] = {
    "action": ("Search", "Answer"),
    "read_url": ("yes", "no"),
}


def parse_task(text: str, task: str) -> str:
    """The answer to a quick-instruction task.

    `text` is the model's text, `task` the task's name. For a task that is answered with one of a
    few labels, returns the label in the format's spelling, else the text without the tokens and
    white space around it. Raises an `OptionError` for an unknown task, and a `ParseError` if a task
    with labels is answered with something else.
    """
    if task not in TASK_TOKENS:
        raise OptionError(
            "task", f"found {short_repr(task)}, expected one of {', '.join(TASK_TOKENS)}"
        )
    answer = _bare(text)
    labels = _LABELS.get(task)
    if labels is None:
        return answer
    word = answer.strip(" \t\n\"'`.!*").lower()
    for label in labels:
        if word == label.lower():
            return label
    raise ParseError(0, f"found {short_repr(answer)}, expected {' or '.join(labels)}")


def _bare(text: str) -> str:
    """An answer without the tokens that servers leave around it, and outer white space."""
    text = text.strip()
    for token in (tokens.BOS, tokens.THINK_START, tokens.THINK_END, *TASK_TOKENS.values()):
        text = text.removeprefix(token)
    return text.strip().removesuffix(tokens.EOS).strip()
