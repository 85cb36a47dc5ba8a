"""Where a completion begins: what of it the prompt already holds."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.grammar.markup import REASONING_END
from dsv4.request import Request


@dataclass(frozen=True)
class Standing:
    """`reasoning`: whether the completion, with what is `written` of it, begins with reasoning.

    `task`: whether it is a quick-instruction task's output, which has neither reasoning nor calls.
    """

    reasoning: bool
    written: str
    task: bool = False

    def without_reasoning(self) -> Standing:
        """The same for a grammar that begins after the reasoning."""
        if not self.reasoning:
            return self
        return Standing(False, self.written.partition(REASONING_END)[2], self.task)


def standing(request: Request) -> Standing:
    """Where the model goes on after the request's prompt."""
    ending = request.encode().ending
    if ending.kind == "task":
        return Standing(False, "", task=True)
    return Standing(ending.thinking, ending.open)
