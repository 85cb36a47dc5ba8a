"""What commands read: text, JSON and JSON lines, from files or stdin (None or "-")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dsv4._inputs.input_files import (
    BYTE_ORDER_MARK,
    InputError,
    decode_utf8,
    input_name,
    is_json_lines,
    open_input,
    parse_json,
)


class Document(NamedTuple):
    """A JSON value, and where it stands: `FILE`, or `FILE:LINE` for one of several lines.

    Where there is no value to be read, `problem` says why, with its place.
    """

    place: str
    value: Any
    problem: InputError | None = None


def read_text(path: str | None) -> str:
    """The whole of a file, exactly: line ends and all."""
    with open_input(path) as file:
        return decode_utf8(file.read(), input_name(path))


def read_json(path: str | None) -> Any:
    """The one JSON value of a file."""
    return parse_json(_unmarked(read_text(path)), input_name(path))


def read_documents(path: str | None, lines: bool = False) -> Iterator[Document]:
    """The JSON values of a file: one, or one for each line.

    A file is taken for JSON lines if `lines` or its name says so, or if it is not one JSON value
    but its first line is.
    """
    if lines or input_name(path).endswith(".jsonl"):
        return read_json_lines(path)
    with open_input(path) as file:
        data, name = file.read(), input_name(path)
    try:
        return iter([Document(name, parse_json(_unmarked(decode_utf8(data, name)), name))])
    except InputError as error:
        if not is_json_lines(data):
            return iter([Document(name, None, error)])
    return _lines_read(data.split(b"\n"), name)


def read_json_lines(path: str | None) -> Iterator[Document]:
    """The values of a file of JSON lines, read as they are asked for. Empty lines do not count."""
    with open_input(path) as file:
        yield from _lines_read(file, input_name(path))


def _lines_read(lines: Iterable[bytes], name: str) -> Iterator[Document]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _line_read(line.rstrip(b"\r\n"), name, number)


def _line_read(line: bytes, name: str, number: int) -> Document:
    place = f"{name}:{number}"
    try:
        text = decode_utf8(line, name, number)
        return Document(place, parse_json(_unmarked(text) if number == 1 else text, name, number))
    except InputError as error:
        return Document(place, None, error)


def _unmarked(text: str) -> str:
    return text.removeprefix(BYTE_ORDER_MARK)
