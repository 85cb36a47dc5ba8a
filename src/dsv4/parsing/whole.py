"""A completion read at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4._format.endings import Ending
from dsv4.parsing.ids import random_id
from dsv4.parsing.message import Message, assemble
from dsv4.parsing.options import Calls, Reason, StopIn, Stops, Tools
from dsv4.parsing.parser import StreamParser


def parse(
    text: str,
    *,
    ending: Ending | None = None,
    thinking: bool = True,
    tools: Tools = None,
    tool_choice: Any = "auto",
    dialect: str | Dialect | None = None,
    strict: bool = False,
    stop: Stops = (),
    stop_in: StopIn = "content",
    calls: Calls = "streamed",
    new_id: Callable[[], str] = random_id,
    prefix: str = "",
    reason: Reason | None = None,
) -> Message:
    """The message in a completion: `StreamParser` with one chunk.

    `text` is all that the model wrote after the prompt. `reason` is why generation ended, if you
    know: "stop" or "length". The other options are those of `StreamParser`. Returns a `Message`;
    raises an `OptionError` for an option that is not what it should be, and with `strict` a
    `ParseError` where the text leaves the grammar. Without `strict` no text raises anything.
    """
    parser = StreamParser(
        ending=ending,
        thinking=thinking,
        tools=tools,
        tool_choice=tool_choice,
        dialect=dialect,
        strict=strict,
        stop=stop,
        stop_in=stop_in,
        calls=calls,
        new_id=new_id,
        prefix=prefix,
    )
    return assemble([*parser.feed(text), *parser.finish(reason)])
