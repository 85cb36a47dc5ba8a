"""A completion read at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dsv4.format.dialects import Dialect
from dsv4.parsing.message import Message, assemble
from dsv4.parsing.parser import StreamParser


def parse(
    text: str,
    thinking: bool = True,
    tools: Iterable[Any] | None = None,
    tool_choice: Any = "auto",
    dialect: str | Dialect | None = None,
    strict: bool = False,
    *,
    stop: Sequence[str] | str = (),
    prefix: str = "",
) -> Message:
    """The message in a completion: `StreamParser` with one chunk."""
    parser = StreamParser(thinking, tools, tool_choice, dialect, strict, stop=stop, prefix=prefix)
    return assemble([*parser.feed(text), *parser.finish()])
