"""A request: the one home of every option, with the prompt and the parser that fit each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dsv4.encoding.placing import encode as _encode
from dsv4.encoding.prompt import Prompt
from dsv4.format.dialects import Dialect
from dsv4.format.endings import Ending, EndingKind
from dsv4.parsing.ids import random_id
from dsv4.parsing.options import Calls
from dsv4.parsing.parser import StreamParser


@dataclass(frozen=True)
class Request:
    """A conversation and every option of it."""

    messages: Iterable[Any]
    _: KW_ONLY
    tools: Iterable[Any] | None = None
    tool_choice: Any = "auto"
    response_format: dict[str, Any] | None = None
    thinking: bool = True
    effort: str | int | None = None
    drop_thinking: bool = True
    bos: bool = True
    context: Iterable[Any] = ()
    dialect: str | Dialect = "v4"
    stop: Sequence[str] | str = ()
    prefix: str = ""

    def encode(self) -> Prompt:
        """The exact prompt."""
        return _encode(
            self.messages,
            tools=None if self.tool_choice == "none" else self.tools,
            response_format=self.response_format,
            thinking=self.thinking,
            effort=self.effort,
            drop_thinking=self.drop_thinking,
            bos=self.bos,
            context=self.context,
            dialect=self.dialect,
        )

    def parser(
        self,
        *,
        strict: bool = False,
        calls: Calls = "streamed",
        new_id: Callable[[], str] = random_id,
    ) -> StreamParser:
        """A parser for what the model writes after the prompt.

        With `strict` it accepts well-formed completions alone; with `calls="whole"` nothing of a
        call is seen before it is complete; `new_id` makes the ids of calls. Returns a
        `StreamParser` that fits the prompt that `encode` gives: it begins in the reasoning or the
        answer, as the prompt leaves the model, or inside the block that a forced `tool_choice`
        opens. Raises what `encode` raises.
        """
        return StreamParser(
            ending=self._ending(),
            tools=() if self.tools is None else self.tools,
            tool_choice=self.tool_choice,
            dialect=self.dialect,
            strict=strict,
            stop=self.stop,
            calls=calls,
            new_id=new_id,
        )

    def _ending(self) -> Ending:
        """How the prompt ends."""
        ending: Ending | None = getattr(self.encode(), "ending", None)
        if ending is None:
            kind: EndingKind = "continue" if self.prefix else "think" if self.thinking else "answer"
            return Ending(kind, self.prefix, self.thinking)
        return ending


def encode(
    messages: Iterable[Any],
    *,
    tools: Iterable[Any] | None = None,
    response_format: dict[str, Any] | None = None,
    thinking: bool = True,
    effort: str | int | None = None,
    drop_thinking: bool = True,
    bos: bool = True,
    context: Iterable[Any] = (),
    dialect: str | Dialect = "v4",
) -> Prompt:
    """The exact prompt of a conversation."""
    return _encode(
        messages,
        tools=tools,
        response_format=response_format,
        thinking=thinking,
        effort=effort,
        drop_thinking=drop_thinking,
        bos=bos,
        context=context,
        dialect=dialect,
    )
