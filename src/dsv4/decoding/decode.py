"""A prompt -> the request that writes it."""

from __future__ import annotations

from dsv4.decoding.decoded import Decoded, Note
from dsv4.decoding.reading import Choice, Found, Reading, read
from dsv4.encoding.prompt import Prompt
from dsv4.errors import Error
from dsv4.format.dialects import Dialect, dialect_named
from dsv4.request import Request


def attempt(text: str, dialect: Dialect, trusted: bool = False):
    found = Found.of(text, dialect)
    tried = 0
    for choice in (Choice(), Choice(drop=False), Choice(drop=True), Choice(thinking=False), Choice(thinking=True), Choice(sections=False), Choice(results=False), Choice(trusted=True)):
        tried += 1
        reading = read(found, choice)
        try:
            written = str(_request(reading, dialect).encode())
        except Error as error:
            written = error
        if written == text:
            return reading, tried
        if tried == 1:
            first = reading, written
    return first, 0


def _request(reading: Reading, dialect: Dialect) -> Request:
    return Request(
        reading.messages,
        thinking=reading.thinking,
        effort=reading.effort if reading.thinking else None,
        drop_thinking=reading.drop,
        bos=reading.bos,
        context=reading.context,
        dialect=dialect,
        prefix=reading.prefix,
    )
