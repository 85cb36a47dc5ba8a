"""A completion from where a reading stands to its end: who reads what is open."""

from __future__ import annotations

from dsv4._parse.after_calls import end_quotations
from dsv4._parse.blocks import read_block
from dsv4._parse.calls import read_call
from dsv4._parse.prose import ProseReader
from dsv4._parse.reading import ParserState, Reading
from dsv4._parse.reasons import Ended
from dsv4._parse.steps import Steps


def read_completion(reading: Reading) -> Steps[None]:
    """Reads to the end of all text."""
    buffer = reading.buffer
    while not buffer.final or reading.pos < buffer.end or reading.call or reading.block:
        if reading.call is not None:
            yield from read_call(reading)
        elif reading.block is not None:
            yield from read_block(reading)
        elif reading.state is ParserState.HALTED:
            reading.advance(buffer.end)
            yield from buffer.more()
        else:
            yield from ProseReader(reading).read()
    end_quotations(reading, is_cut=buffer.ended not in (None, Ended.END))
    reading.settle()
