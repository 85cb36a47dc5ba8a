"""Opens files and stdin and reads UTF-8 and JSON; errors name the file, line and column."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from dsv4.errors import Error, Location

# Why something cannot be read, in one line for the person who handed it in.


class InputError(Error):
    """A file that cannot be opened, bytes that are no text, text that is no JSON, or JSON that is
    no conversation. Its text names the place, as far as one is known."""


def error_location(error: Error) -> Location:
    """The place in the caller's data that an error names: empty if it names none."""
    location: Location = getattr(error, "location", ())
    return location


def os_error_reason(error: OSError) -> str:
    """The system's words for what went wrong, without number and path."""
    return (error.strerror or str(error) or type(error).__name__).lower()


# Opening what is read: a file by its path, or stdin (None or "-").


def input_name(path: str | None) -> str:
    """A file as messages call it."""
    return "stdin" if path is None or path == "-" else path


@contextmanager
def open_input(path: str | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of stdin."""
    try:
        if path is None or path == "-":
            if sys.stdin is None:
                raise InputError("stdin is closed: give a file")
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # of whoever writes what was read here
            raise
        raise InputError(f"{input_name(path)}: {os_error_reason(error)}") from None


# Bytes -> text -> JSON values. An error says in which line and column of which file.


BYTE_ORDER_MARK = "\ufeff"  # some editors put one in front
# How files begin that are something else, and never UTF-8.
_OTHER_FORMS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def decode_utf8(data: bytes, name: str, line: int = 1) -> str:
    """The text of UTF-8 that starts at a line of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = next((form for mark, form in _OTHER_FORMS.items() if data.startswith(mark)), None)
        if found:
            raise InputError(f"{name}:{line}: found {found}, expected UTF-8") from None
        before = data[: error.start]
        line += before.count(b"\n")
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise InputError(f"{name}:{line}:{column}: not UTF-8: {error.reason}") from None


def parse_json(text: str, name: str, line: int = 1) -> Any:
    """The value of JSON text that starts at a line of a file."""
    if not text.strip():
        raise InputError(f"{name}: found nothing, expected JSON")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno + line - 1}:{error.colno}"
        raise InputError(f"{place}: not JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise InputError(f"{name}:{line}: the JSON is nested too deep to be read") from None
    except ValueError:  # more digits than Python reads
        raise InputError(f"{name}:{line}: the JSON has a number of too many digits") from None


def is_json_lines(data: bytes) -> bool:
    """Whether what is not one JSON value begins with a line that is one."""
    try:
        json.loads(data.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True
