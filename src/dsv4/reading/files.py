"""Opening what is read: a file by its path, or stdin (None or "-")."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from dsv4.reading.failures import InputError, reason


def name_of(path: str | None) -> str:
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
        raise InputError(f"{name_of(path)}: {reason(error)}") from None
