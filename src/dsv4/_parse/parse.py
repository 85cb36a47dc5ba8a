"""A whole completion in one call."""

from __future__ import annotations

from collections.abc import Callable

from dsv4._completion.events import Finish
from dsv4._completion.message import Message, ToolCall, assemble
from dsv4._completion.random_ids import new_call_id
from dsv4._completion.reasons import Ended, Reason
from dsv4._completion.strict import StrictMessage
from dsv4._format.dialects import Dialect
from dsv4._format.endings import Ending
from dsv4._parse import parser_options as options
from dsv4._parse.parser import StreamParser
from dsv4.types import DialectName


def parse(
    text: str,
    *,
    ending: Ending | None = None,
    thinking: bool = True,
    tools: options.GivenTools = None,
    tool_choice: object = "auto",
    dialect: DialectName | Dialect | None = None,
    strict: bool = False,
    stop: options.GivenStops = (),
    stop_in: options.StopIn = "content",
    calls: options.CallDelivery = "streamed",
    new_id: Callable[[], str] = new_call_id,
    prefix: str = "",
    reason: Reason | None = None,
) -> Message:
    """The message in a completion: `StreamParser` with one chunk.

    `text` is all that the model wrote after the prompt. `reason` is why generation ended, if you
    know, as for `StreamParser.finish`. The other options are those of `StreamParser`. Returns a
    `Message`; raises an `OptionError` for an option with a wrong type or value, and with `strict` a
    `ParseError` if the text leaves the grammar. Without `strict` no text raises anything.
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
    if isinstance(text, str) and not (strict or stop):
        message = parser._read_plainly(text)
        if message is not None:
            return _well_formed(message, options.checked_reason(reason), new_id)
    return assemble([*parser.feed(text), *parser.finish(reason)])


def _well_formed(message: StrictMessage, ended: Ended | None, new_id: Callable[[], str]) -> Message:
    """The message of a completion that can be read in only one way."""
    calls = tuple(
        ToolCall(name, arguments, index, new_id())
        for index, (name, arguments) in enumerate(message.calls)
    )
    finish: Finish = "tool_calls" if calls else "stop"
    if ended is not None and ended.is_cut and not message.has_eos:
        finish = "length"
    return Message(message.content, message.reasoning, calls, finish)
