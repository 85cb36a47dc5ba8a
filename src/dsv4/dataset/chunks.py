"""Input files as chunks of conversations, each still the text that was in the file.

Where chunks end depends on the input alone: not on how many work on them, nor on where reading
began. So a run that was stopped goes on with the same chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from dsv4._inputs.input_files import input_name
from dsv4.dataset.sources import Source, source_of


class Size(NamedTuple):
    """How large a chunk is: it ends with the line that reaches one of these."""

    lines: int = 256
    bytes: int = 1 << 20


USUAL = Size()


class Position(NamedTuple):
    """How much was read: files before this one, and of this one this many lines and bytes."""

    file: int
    line: int = 0
    offset: int = 0


START = Position(0)


class Chunk(NamedTuple):
    """Lines of one file that follow each other, and the position after them."""

    name: str
    first: int
    lines: list[bytes]
    after: Position


def read_chunks(
    paths: Sequence[str],
    start: Position = START,
    column: str | None = None,
    carry: Sequence[str] | None = None,
    size: Size = USUAL,
) -> Iterator[Chunk]:
    """The lines of all files, from a position on."""
    for file in range(start.file, len(paths)):
        source = source_of(paths[file], column, carry)
        begin = start if file == start.file else Position(file)
        yield from _chunks_of(source, input_name(paths[file]), begin, size)


def _chunks_of(source: Source, name: str, position: Position, most: Size) -> Iterator[Chunk]:
    lines: list[bytes] = []
    size = 0
    with closing(source.lines(position.line, position.offset)) as texts:
        for text in texts:
            lines.append(text)
            size += len(text)
            if len(lines) == most.lines or size >= most.bytes:
                position, chunk = _cut(name, lines, size, position)
                yield chunk
                lines, size = [], 0
    if lines:
        yield _cut(name, lines, size, position)[1]


def _cut(name: str, lines: list[bytes], size: int, before: Position) -> tuple[Position, Chunk]:
    after = Position(before.file, before.line + len(lines), before.offset + size)
    return after, Chunk(name, before.line + 1, lines, after)
