"""What commands write: to stdout (None or "-"), or to a file that appears whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

from dsv4.cli.failure import FINDINGS, Failure, half_character
from dsv4.reading.failures import reason


@contextmanager
def output(path: str | None = None) -> Iterator[TextIO]:
    """A file for text: UTF-8, line ends as written. An error inside leaves an old file alone."""
    with _telling(path):
        if _is_stdout(path):
            yield _open_stdout()
            sys.stdout.flush()
        else:
            with (
                _finished_name(str(path)) as temporary,
                open(temporary, "w", encoding="utf-8", newline="") as file,
            ):
                yield file


@contextmanager
def binary_output(path: str | None = None) -> Iterator[BinaryIO]:
    """The same for bytes."""
    with _telling(path):
        if _is_stdout(path):
            yield _open_stdout().buffer
            sys.stdout.buffer.flush()
        else:
            with _finished_name(str(path)) as temporary, open(temporary, "wb") as file:
                yield file


def write_text(path: str | None, text: str) -> None:
    with output(path) as file:
        file.write(text)


def _is_stdout(path: str | None) -> bool:
    return path is None or path == "-"


def _open_stdout() -> TextIO:
    if sys.stdout is None:
        raise Failure("stdout is closed")
    return sys.stdout


@contextmanager
def _telling(path: str | None) -> Iterator[None]:
    name = "stdout" if _is_stdout(path) else path
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"cannot write {name}: {reason(error)}") from None
    except UnicodeEncodeError as error:
        raise Failure(f"cannot write {name}: {half_character(error)}", FINDINGS) from None


@contextmanager
def _finished_name(path: str) -> Iterator[str]:
    """A name to write to. What is there takes the final name at the end, if the end is reached."""
    path = os.path.realpath(path)  # so that a link stays a link
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe, which nothing can replace
        yield path
        return
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:200]}.{os.getpid()}.part")
    try:
        yield temporary
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
