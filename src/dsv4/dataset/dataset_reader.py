"""Input files (JSON lines, plain or compressed; JSON arrays; Parquet) as chunks of conversations.

A conversation stays the text that was in the file. The end of a chunk depends only on the input,
not on the number of workers, nor on where reading began. So an interrupted run continues with the
same chunks.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeAlias

from dsv4._inputs import agent_sessions, input_files
from dsv4._inputs.line_shapes import LINE_FIELDS
from dsv4.dataset.dataset_errors import DatasetError, pyarrow, pyarrow_parquet, zstandard
from dsv4.dataset.parquet_columns import ConversationColumn, conversation_column
from dsv4.errors import short_repr

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 1 << 17
# In these, positions do not tell how much of the file has been read.
WITHOUT_BYTE_POSITIONS = (".gz", ".zst", ".parquet", ".json")


def source_of(path: str, column: str | None, carry: Sequence[str] | None = None) -> DatasetSource:
    if path.endswith(".parquet"):
        return ParquetSource(path, column, carry or ())
    if path.endswith(".json") and column is None:
        return JsonArraySource(path)
    if column is None and _is_agent_session(path):
        return AgentSessionSource(path)
    if column is not None:
        problem = f"{input_files.input_name(path)} is none"
        raise DatasetError(f"column: only Parquet files have columns, and {problem}")
    return JsonLinesSource(path)


class JsonLinesSource:
    """JSON lines. Line ends stay on, so that lengths add up to the offset in the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def check(self) -> None:
        """Raises if the file cannot be opened, or is not what its name says."""
        if self.path.endswith(".zst"):
            zstandard()
        with _open_decompressed(self.path):
            pass

    def lines(self, line: int, offset: int) -> Generator[bytes, None, None]:
        """The lines after the first `line` lines, which take `offset` bytes."""
        with _open_decompressed(self.path) as file:
            if offset:
                _skip(file, offset)
            yield from file


def _skip(file: BinaryIO, offset: int) -> None:
    if file.seekable():
        file.seek(offset)
        return
    while offset > 0:
        offset -= len(file.read(min(offset, BLOCK))) or offset


def _decompressed(raw: BinaryIO, path: str) -> BinaryIO:
    if path.endswith(".gz"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if path.endswith(".zst"):
        return io.BufferedReader(_BlockReader(_zstd_blocks(raw)), BLOCK)
    return raw


@contextmanager
def _open_decompressed(path: str) -> Iterator[BinaryIO]:
    """The bytes in a file. A file that cannot be read ends the run."""
    try:
        with input_files.open_input(path) as raw, _read_errors(path):
            yield _decompressed(raw, path)
    except input_files.InputError as error:
        raise DatasetError(str(error)) from None


@contextmanager
def _read_errors(path: str) -> Iterator[None]:
    name = input_files.input_name(path)
    try:
        yield
    except gzip.BadGzipFile as error:
        raise DatasetError(f"{name}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    except OSError as error:
        raise DatasetError(f"{name}: {input_files.os_error_reason(error)}") from None
    except EOFError:
        raise DatasetError(f"{name}: the compressed file is cut short") from None
    except zlib.error as error:
        raise DatasetError(f"{name}: the compressed file is damaged: {error}") from None


class _BlockReader(io.RawIOBase):
    """A file made of consecutive blocks of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        target = memoryview(buffer)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _zstd_blocks(raw: BinaryIO) -> Iterator[bytes]:
    """The content of zstd frames. The library's own reader does not notice a truncated file."""
    zstd = zstandard()
    frame = None
    try:
        while data := raw.read(BLOCK):
            while data:
                frame = frame or zstd.ZstdDecompressor().decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    except zstd.ZstdError as error:
        raise zlib.error(str(error)) from None
    if frame is not None:
        raise EOFError


class JsonArraySource(JsonLinesSource):
    """One JSON array of conversations, whose elements are the lines; or JSON lines under a name
    that does not tell."""

    def lines(self, line: int, offset: int) -> Generator[bytes, None, None]:
        with _open_decompressed(self.path) as file:
            data = file.read()
        yield from self._lines(data)[line:]

    def _lines(self, data: bytes) -> list[bytes]:
        name = input_files.input_name(self.path)
        try:
            text = input_files.decode_utf8(data, name).removeprefix(input_files.BYTE_ORDER_MARK)
            value = input_files.parse_unambiguous_json(text, name)
        except input_files.InputError as error:
            if not input_files.is_json_lines(data):
                raise DatasetError(str(error)) from None
            return [text + b"\n" for text in data.split(b"\n")]
        return [json.dumps(element).encode() + b"\n" for element in self._elements(value)]

    def _elements(self, value: object) -> list[Any]:
        if isinstance(value, list) and value and all(map(_is_conversation, value)):
            return value
        if _is_conversation(value) or (isinstance(value, list) and any(map(_has_role, value))):
            return [value]
        name = input_files.input_name(self.path)
        expected = "an array of conversations, or one conversation"
        raise DatasetError(f"{name}: found {short_repr(value)}, expected {expected}")


class AgentSessionSource(JsonLinesSource):
    """An agent's session file. Its conversations are the lines. Parts that could not be read follow
    as bad lines, because they may be missing in the conversations."""

    def lines(self, line: int, offset: int) -> Generator[bytes, None, None]:
        with _open_decompressed(self.path) as file:
            found = agent_sessions.read_agent_session(file.read(), self.path)
        lines = [json.dumps(one.body).encode() + b"\n" for one in found]
        yield from [*lines, *(found[0].unread if found else ())][line:]


def _is_agent_session(path: str) -> bool:
    """Whether a file is an agent's session. Pipes are not, as they cannot be read twice."""
    if not Path(path).is_file() or path.endswith((".gz", ".zst")):
        return False
    with input_files.open_input(path) as file:
        return agent_sessions.is_agent_session(agent_sessions.read_start(file))


def _is_conversation(value: object) -> bool:
    """Whether a JSON value is meant as a conversation: messages, or an object around them."""
    if isinstance(value, dict):
        return not LINE_FIELDS.isdisjoint(value)
    return isinstance(value, list) and any(map(_has_role, value))


def _has_role(value: object) -> bool:
    return isinstance(value, dict) and "role" in value


class ParquetFile(Protocol):
    """The members of pyarrow's class of this name that are used here."""

    metadata: Any
    num_row_groups: int

    def iter_batches(
        self, batch_size: int, *, row_groups: list[int], columns: list[str]
    ) -> Iterator[Any]: ...


class ParquetSource:
    """A column of a Parquet file: conversations as JSON text, or as lists of messages."""

    def __init__(self, path: str, column: str | None, carry: Sequence[str]) -> None:
        self.path = path
        self.column = column
        self.carry = carry

    def check(self) -> None:
        with self._opened():
            pass

    def lines(self, line: int, offset: int) -> Generator[bytes, None, None]:
        with self._opened() as (file, column):
            yield from _parquet_lines(file, column, line)

    @contextmanager
    def _opened(self) -> Iterator[tuple[ParquetFile, ConversationColumn]]:
        parquet, arrow = pyarrow_parquet(), pyarrow()
        name = input_files.input_name(self.path)
        try:
            with parquet.ParquetFile(self.path) as file:
                yield file, conversation_column(file.schema_arrow, self.column, self.carry, name)
        except OSError as error:
            raise DatasetError(f"{name}: {input_files.os_error_reason(error)}") from None
        except arrow.ArrowException as error:
            problem = str(error).strip().partition("\n")[0]
            raise DatasetError(f"{name}: not readable as Parquet: {problem}") from None


def _parquet_lines(file: ParquetFile, column: ConversationColumn, skipped: int) -> Iterator[bytes]:
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if skipped >= size:
            skipped -= size
            continue
        for batch in file.iter_batches(BLOCK >> 9, row_groups=[group], columns=column.names):
            for row in batch.slice(skipped).to_pylist():
                yield column.to_json_line(row)
            skipped = max(0, skipped - batch.num_rows)


DatasetSource: TypeAlias = JsonLinesSource | ParquetSource


# Chunks.


class ChunkSize(NamedTuple):
    """The size of a chunk: it ends with the line that reaches one of these limits.

    The first chunks of a file are smaller: the first has `first` lines, and each further one as
    many as all before it, up to `lines`. So the output begins soon, and little is lost if a small
    run is stopped.
    """

    lines: int = 256
    bytes: int = 1 << 20
    first: int = 8

    def lines_after(self, line: int) -> int:
        """The most lines of a chunk that begins after this many lines."""
        return min(self.lines, max(self.first, line))


DEFAULT_CHUNK_SIZE = ChunkSize()


class InputPosition(NamedTuple):
    """The position of reading: the number of the file, and the lines and bytes read of it."""

    file: int
    line: int = 0
    offset: int = 0


INPUT_START = InputPosition(0)


class InputChunk(NamedTuple):
    """Consecutive lines of one file, and the position after them."""

    name: str
    first: int
    lines: list[bytes]
    after: InputPosition


def read_chunks(
    paths: Sequence[str],
    start: InputPosition = INPUT_START,
    column: str | None = None,
    carry: Sequence[str] | None = None,
    size: ChunkSize = DEFAULT_CHUNK_SIZE,
) -> Iterator[InputChunk]:
    """The lines of all files, from a position on. An empty file is a chunk without lines."""
    for file in range(start.file, len(paths)):
        source = source_of(paths[file], column, carry)
        begin = start if file == start.file else InputPosition(file)
        name = input_files.input_name(paths[file])
        chunk = None
        for chunk in _chunks_of(source, name, begin, size):
            yield chunk
        if chunk is None and not begin.line:
            yield InputChunk(name, 1, [], InputPosition(file + 1))


def _chunks_of(
    source: DatasetSource, name: str, position: InputPosition, most: ChunkSize
) -> Iterator[InputChunk]:
    lines: list[bytes] = []
    size = 0
    with closing(source.lines(position.line, position.offset)) as texts:
        for text in texts:
            lines.append(text)
            size += len(text)
            if len(lines) == most.lines_after(position.line) or size >= most.bytes:
                position, chunk = _chunk_and_position(name, lines, size, position)
                yield chunk
                lines, size = [], 0
    if lines:
        yield _chunk_and_position(name, lines, size, position)[1]


def _chunk_and_position(
    name: str, lines: list[bytes], size: int, before: InputPosition
) -> tuple[InputPosition, InputChunk]:
    after = InputPosition(before.file, before.line + len(lines), before.offset + size)
    return after, InputChunk(name, before.line + 1, lines, after)
