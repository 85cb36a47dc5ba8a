"""Reads a completion from a reading's position to its end, with the right reader for each part."""

from __future__ import annotations

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4._completion.reasons import Ended
from dsv4._completion.strict import read_strictly
from dsv4._parse import quotations
from dsv4._parse.blocks import BlockReader
from dsv4._parse.call_reader import CallReader
from dsv4._parse.prose import ProseReader
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.text_buffer import Steps
from dsv4.errors import ParseError


def read_completion(reading: Reading) -> Steps[None]:
    """Reads to the end of all text."""
    buffer = reading.buffer
    while not buffer.final or reading.pos < buffer.end or reading.call or reading.block:
        if reading.call is not None:
            yield from CallReader(reading).read()
        elif reading.block is not None:
            yield from BlockReader(reading).read()
        elif reading.state is ParserState.HALTED:
            reading.advance(buffer.end)
            yield from buffer.more()
        else:
            yield from ProseReader(reading).read()
    is_cut = reading.state is ParserState.HALTED or buffer.ended not in (None, Ended.END)
    quotations.end_text(reading, is_cut)
    reading.settle()
    reading.end_call()


def read_strict_completion(reading: Reading) -> Steps[None]:
    """Reads a completion by the strict grammar, once it has ended.

    Raises a `ParseError` where it leaves the grammar.
    """
    buffer, settings, tally = reading.buffer, reading.settings, reading.tally
    while (yield from buffer.more()):
        pass
    text, acting = buffer.slice(0, buffer.end), buffer.acting(0, buffer.end)
    message = read_strictly(text, reading.prose.reasoning, reading.tags, acting)
    end = settings.dialect.namespace_end
    for name, _ in message.calls if end else ():
        if end and name.count(end) > 1:
            problem = f"found {name!r}, expected one {end} in it at most"
            raise ParseError(text.find(name), problem)
    reading.prose.reasoning, tally.eos = False, message.has_eos
    # If no tool is declared, calls are text; if calls are forbidden, they are left out.
    is_text = reading.tools.none_declared
    content = message.content + (message.block if is_text else "")
    if message.reasoning:
        reading.emit(ReasoningDelta(message.reasoning))
    if content:
        reading.emit(ContentDelta(content))
    for name, arguments in () if is_text or settings.forbidden else message.calls:
        reading.close_call(reading.begin_call(name, visible=True), arguments)
    reading.end_call()
