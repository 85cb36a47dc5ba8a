"""An answer that is JSON without the form of events: one object, one on each line, or a list."""

from __future__ import annotations

import json

from dsv4.serve.backend import BackendError
from dsv4.serve.upstreams.sse_reader import LONGEST_EVENT

# Characters between the objects of a list, or before each (RFC 7464).
_BETWEEN = " \t\r\n[,]\x1e"


class BareJson:
    """Takes bytes, and returns the JSON of each object: at the end of its line where each has one
    of its own, else at the end of the body."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.held_size = 0  # bytes of the next object that have come
        self._by_line: bool | None = None  # None until the first line has ended

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that a piece of the body completes."""
        self._parts.append(data)
        self.held_size += len(data)
        if self.held_size > LONGEST_EVENT:
            raise BackendError("the backend sent an object without an end")
        if self._by_line is False or not (b"\n" in data or b"\r" in data):
            return []
        *lines, rest = b"".join(self._parts).replace(b"\r", b"\n").split(b"\n")
        found = [line for line in map(_object_of, lines) if line]
        if self._by_line is None and found:
            self._by_line = _is_json(found[0])
        if not self._by_line:
            return []
        self._parts, self.held_size = [rest], len(rest)
        return found

    def end(self) -> list[bytes]:
        """The objects that the end of the body completes."""
        data = b"".join(self._parts)
        if self._by_line:
            return [line for line in [_object_of(data)] if line]
        return (
            [data] if _is_json(data) and not data.lstrip().startswith(b"[") else _objects_in(data)
        )


def _object_of(line: bytes) -> bytes:
    return line.strip(_BETWEEN.encode())


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _objects_in(data: bytes) -> list[bytes]:
    """The objects of a list, or of a row without separators. Anything that is not JSON is returned
    unchanged, for the next reader."""
    text = data.decode("utf-8", "surrogateescape")
    decoder, found = json.JSONDecoder(), []
    at = _after_space(text, 0)
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        found.append(text[at:end].encode("utf-8", "surrogateescape"))
        at = _after_space(text, end)
    return found


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BETWEEN:
        at += 1
    return at
