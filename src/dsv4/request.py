"""A request: the one home of every option, with the prompt and the parser that fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from dsv4.encoding.placing import encode as _encode
from dsv4.encoding.prompt import Prompt
from dsv4.format.dialects import Dialect
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

    def parser(self, *, strict: bool = False) -> StreamParser:
        """A parser for what the model writes after the prompt."""
        return StreamParser(
            thinking=self.thinking,
            tools=() if self.tools is None else self.tools,
            tool_choice=self.tool_choice,
            dialect=self.dialect,
            strict=strict,
            stop=self.stop,
            prefix=self.prefix,
        )


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
