"""What commands read: text, JSON and JSON lines, from files or stdin (None or "-")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from dsv4.reading.failures import InputError
from dsv4.reading.files import name_of, open_input
from dsv4.reading.text import BYTE_ORDER_MARK, decoded, json_value


class Document(NamedTuple):
    """A JSON value, and where it stands: `FILE`, or `FILE:LINE` for one of several lines."""

    place: str
    value: Any


def read_text(path: str | None) -> str:
    """The whole of a file, exactly: line ends and all."""
    with open_input(path) as file:
        return decoded(file.read(), name_of(path))


def read_json(path: str | None) -> Any:
    """The one JSON value of a file."""
    return json_value(_unmarked(read_text(path)), name_of(path))


def read_documents(path: str | None, lines: bool = False) -> Iterator[Document]:
    """The JSON values of a file: one, or one for each line.

    A file is taken for JSON lines if `lines` says so, or if it is not one JSON value but its first
    line is.
    """
    if lines:
        return read_json_lines(path)
    text, name = _unmarked(read_text(path)), name_of(path)
    try:
        return iter([Document(name, json_value(text, name))])
    except InputError:
        if not _is_json(_first_line(text)):
            raise
    return _lines_read(enumerate(text.split("\n"), 1), name)


def read_json_lines(path: str | None) -> Iterator[Document]:
    """The values of a file of JSON lines, read as they are asked for. Empty lines do not count."""
    with open_input(path) as file:
        yield from _lines_read(_numbered(file, name_of(path)), name_of(path))


def _numbered(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        text = decoded(line.rstrip(b"\r\n"), name, number)  # no error is in a line's end
        yield number, _unmarked(text) if number == 1 else text


def _lines_read(numbered: Iterator[tuple[int, str]], name: str) -> Iterator[Document]:
    for number, line in numbered:
        if line.strip():
            yield Document(f"{name}:{number}", json_value(line, name, number))


def _unmarked(text: str) -> str:
    return text.removeprefix(BYTE_ORDER_MARK)


def _first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
