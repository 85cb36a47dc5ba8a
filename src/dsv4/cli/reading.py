"""What commands read: text, JSON and JSON lines, from files or stdin (None or "-").

Everything wrong with a file is a `Failure` that names it, with line and column where it has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

from dsv4.cli.failure import Failure, reason


class Document(NamedTuple):
    """A JSON value, and where it stands: `FILE`, or `FILE:LINE` for one of several lines."""

    place: str
    value: Any


def name_of(path: str | None) -> str:
    """A file as messages call it."""
    return "stdin" if path is None or path == "-" else path


@contextmanager
def open_input(path: str | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of stdin."""
    try:
        if path is None or path == "-":
            if sys.stdin is None:
                raise Failure("stdin is closed: give a file")
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # of whoever writes what was read here
            raise
        raise Failure(f"{name_of(path)}: {reason(error)}") from None


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
    except Failure:
        if not _is_json(_first_line(text)):
            raise
    return _lines_read(enumerate(text.split("\n"), 1), name)


def read_json_lines(path: str | None) -> Iterator[Document]:
    """The values of a file of JSON lines, read as they are asked for. Empty lines do not count."""
    with open_input(path) as file:
        yield from _lines_read(_numbered(file, name_of(path)), name_of(path))


def json_value(text: str, name: str, line: int = 1) -> Any:
    """The value of JSON text that starts at a line of a file."""
    if not text.strip():
        raise Failure(f"{name}: found nothing, expected JSON")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno + line - 1}:{error.colno}"
        raise Failure(f"{place}: not JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise Failure(f"{name}:{line}: the JSON is nested too deep to be read") from None
    except ValueError as error:  # a number of too many digits
        raise Failure(f"{name}:{line}: {error}") from None


def decoded(data: bytes, name: str, line: int = 1) -> str:
    """The text of UTF-8 that starts at a line of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line += before.count(b"\n")
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise Failure(f"{name}:{line}:{column}: not UTF-8: {error.reason}") from None


def _numbered(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        text = decoded(line.rstrip(b"\r\n"), name, number)  # no error is behind a line's end
        yield number, _unmarked(text) if number == 1 else text


def _lines_read(numbered: Iterator[tuple[int, str]], name: str) -> Iterator[Document]:
    for number, line in numbered:
        if line.strip():
            yield Document(f"{name}:{number}", json_value(line, name, number))


def _unmarked(text: str) -> str:
    """Without the byte order mark that some editors put in front."""
    return text.removeprefix("\ufeff")


def _first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
