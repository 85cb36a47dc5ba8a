"""Opens files and stdin and reads UTF-8 and JSON; errors name the file, line and column."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias

from dsv4.errors import Error, Location, path_of


class InputError(Error):
    """A file that cannot be opened, bytes that are not UTF-8, text that is not JSON, or JSON that
    is not a conversation. Its text names the place, as far as one is known."""


def error_location(error: Error) -> Location:
    """The place in the caller's data that an error names: empty if it names none."""
    location: Location = getattr(error, "location", ())
    return location


def os_error_reason(error: OSError) -> str:
    """The system's description of an error, without number and path."""
    return (error.strerror or str(error) or type(error).__name__).lower()


def json_problem(error: json.JSONDecodeError) -> str:
    """The problem with text that is not JSON, for a message that names the place itself."""
    before = error.doc[max(0, error.pos - 1_000) : error.pos].rstrip()
    # Newer Pythons stop at the comma, older ones after it.
    after = error.doc[error.pos : error.pos + 1_000].lstrip(", \t\r\n")[:1]
    if after in ("}", "]") and (before.endswith(",") or "trailing comma" in error.msg):
        return f"not JSON: a comma before {after}"
    words = error.msg.removesuffix(" at").removesuffix(" starting")
    return f"not JSON: {words[:1].lower()}{words[1:]}"


def input_name(path: str | None) -> str:
    """The name of an input in error messages."""
    return "stdin" if path is None or path == "-" else path


@contextmanager
def open_input(path: str | None) -> Iterator[BinaryIO]:
    """Opens a file by its path, or stdin (None or "-")."""
    try:
        if path is None or path == "-":
            if sys.stdin is None:
                raise InputError("stdin is closed: give a file")
            _say_that_stdin_is_read()
            yield sys.stdin.buffer
        else:
            with open(path, "rb") as file:
                yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # from the program that reads the output of this one
            raise
        raise InputError(f"{input_name(path)}: {os_error_reason(error)}") from None


def _say_that_stdin_is_read() -> None:
    """Tells a user at a terminal that the command waits for input."""
    if sys.stdin.isatty() and sys.stderr is not None:
        end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"
        print(f"dsv4: reading stdin; {end} ends it", file=sys.stderr, flush=True)


BYTE_ORDER_MARK = "\ufeff"  # some editors put one in front
# The beginnings of files of other formats; none of these is UTF-8.
_OTHER_FORMATS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def decode_utf8(data: bytes, name: str, line: int = 1) -> str:
    """The text of UTF-8 bytes that begin at a `line` of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = next((name for mark, name in _OTHER_FORMATS.items() if data.startswith(mark)), None)
        if kind:
            raise InputError(f"{name}:{line}: found {kind}, expected UTF-8") from None
        before = data[: error.start]
        line += before.count(b"\n")
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise InputError(f"{name}:{line}:{column}: not UTF-8: {error.reason}") from None


JsonPairs: TypeAlias = list[tuple[str, Any]]


def parse_json(
    text: str, name: str, line: int = 1, make_object: Callable[[JsonPairs], Any] | None = None
) -> Any:
    """The value of JSON text that begins at a `line` of a file; `make_object` makes its objects."""
    if not text.strip():
        raise InputError(f"{name}: found nothing, expected JSON")
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno + line - 1}:{error.colno}"
        raise InputError(f"{place}: {json_problem(error)}") from None
    except RecursionError:
        raise _too_deep(name, line) from None
    except ValueError:  # a number with more digits than Python reads
        raise InputError(f"{name}:{line}: the JSON has a number of too many digits") from None


def _too_deep(name: str, line: int) -> InputError:
    return InputError(f"{name}:{line}: the JSON is nested too deep to be read")


def _object_of(pairs: JsonPairs) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key twice")
    return value


# Created once: creating a decoder takes longer than reading a short line.
_decode_unambiguous = json.JSONDecoder(object_pairs_hook=_object_of).decode


def parse_unambiguous_json(text: str, name: str, line: int | None = None) -> Any:
    """The value of JSON text. Raises if an object has a key twice: some readers take the first
    value, most the last, so that a server may see another request."""
    try:
        return _decode_unambiguous(text)
    except RecursionError:
        raise _too_deep(name, line or 1) from None
    except ValueError:
        pass  # the code below finds the place
    pairs = parse_json(text, name, line or 1, make_object=tuple)
    path = path_of(next(_repeated_keys(pairs)))
    place = name if line is None else f"{name}:{line}"
    raise InputError(f"{place}: {path}: found this key twice in one object, expected it once")


def _repeated_keys(value: Any) -> Iterator[Location]:
    """The places of keys that occur twice in an object. Objects are tuples of pairs here."""
    stack: list[tuple[Location, Any]] = [((), value)]
    while stack:
        place, value = stack.pop()
        names = set()
        items = enumerate(value) if isinstance(value, list) else value
        for step, item in items if isinstance(value, (list, tuple)) else ():
            if step in names:
                yield (*place, step)
            names.add(step)
            stack.append(((*place, step), item))


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """The line and column of a character, from 1."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def is_json_lines(data: bytes) -> bool:
    """Whether data that is not one JSON value begins with a line that is one."""
    try:
        json.loads(data.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True
