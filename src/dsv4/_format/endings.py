"""The end of a prompt, where the model's text begins.

The encoder knows it and the parser needs it. Because it is defined here, neither has to import the
other.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dsv4._format.frozen_class import NamedTuple

EndingKind: TypeAlias = Literal["think", "answer", "task", "continue", "nothing"]
"""The model's next step: it thinks; it answers; it carries out a quick-instruction task; it
continues a turn that the prompt left open; or nothing, because the prompt asks for nothing."""


class Ending(NamedTuple):
    """How a prompt ends.

    `kind` says what the model does next: "think", "answer", carry out a "task", "continue" a turn
    that the prompt left open, or "nothing". `open` is the text of the turn that it continues, after
    the header: empty unless `kind` is "continue". `thinking` says whether the model's text, the
    open part included, begins inside reasoning. `task` is the name of the task, if any.
    """

    kind: EndingKind
    open: str = ""
    thinking: bool = False
    task: str | None = None


NOTHING = Ending("nothing")
