"""Where a completion begins: what of it the prompt already holds."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.format.endings import Ending
from dsv4.grammar.markup import REASONING_END, Markup
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


def standing(request: Request, forced: str | None, markup: Markup) -> Standing:
    """Where the model goes on after the request's prompt.

    `forced` is the name of the tool that must be called, "" for any.
    """
    ending: Ending | None = getattr(request.encode(), "ending", None)
    if ending is None:  # a prompt that does not say how it ends
        return Standing(request.thinking, request.prefix or _opening(request, forced, markup))
    if ending.kind == "task":
        return Standing(False, "", task=True)
    return Standing(ending.thinking, ending.open)


def _opening(request: Request, forced: str | None, markup: Markup) -> str:
    """The opening of block and call, which the prompt writes where there is no thinking."""
    if forced is None or request.thinking:
        return ""
    called = f"{markup.invoke_open}{forced}{markup.name_end}" if forced else ""
    return markup.block_open + called
