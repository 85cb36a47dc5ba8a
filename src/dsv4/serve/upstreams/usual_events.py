"""Events that differ from one before only in their text or their one id: nearly all of an answer.

Reading one as JSON is a third of the gateway's own work on a chunk. So the bytes around the text of
an event are kept, and in an event with the same bytes only the text between them is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, TypeAlias

from dsv4.serve.backend import Chunk, PlainText

# Makes a piece from a text and the digits of an id.
MakeChunk: TypeAlias = Callable[[str, bytes], Chunk]
# No id has more digits.
_MOST_DIGITS = 9
# The text and id that a form is tried with before it is used.
_TRIED = ("tried", b"1")


class EventForm:
    """The bytes of an event before its text, after it, and between it and its id, where it has
    one."""

    __slots__ = ("_after", "_before", "_between", "_end", "_place", "_start", "field", "make")

    def __init__(
        self, before: bytes, after: bytes, between: bytes, make: MakeChunk, field: str
    ) -> None:
        """`field` is the field of a delta that has the text; empty where it is a completion's."""
        self._before = before
        self._after = after
        self._between = between
        # Comparing a slice is faster than `startswith`.
        self._start, self._end = slice(len(before)), slice(-len(after), None)
        self._place = slice(len(before), -len(after))
        self.make = make
        self.field = field

    def fits(self, data: bytes) -> bool:
        """Whether the same bytes stand around another text."""
        return data[self._start] == self._before and data[self._end] == self._after

    def read(self, data: bytes) -> PlainText | None:
        """The text of an event; None where the event must be read in the usual way."""
        if data[self._start] != self._before or data[self._end] != self._after:
            return None
        written, number = data[self._place], b""
        if self._between:
            written, _, number = written.partition(self._between)
            if not number.isdigit() or number[0] == _ZERO or len(number) > _MOST_DIGITS:
                return None
        try:
            text = written.decode()
        except UnicodeDecodeError:
            return None
        if not text.isprintable():
            return None
        if "\\" in text or '"' in text:
            text, written = _unescaped(text), b""
        return (text, written, number) if text else None

    def written(self, text: str, number: bytes) -> bytes:
        """The event with another text and id."""
        told = self._between + number if self._between else b""
        return b"".join((self._before, text.encode(), told, self._after))


_ZERO = ord("0")


def _unescaped(text: str) -> str:
    """The text of a JSON string without its quotes. Empty where it is not one, or must be read in
    the usual way because it may have half of a pair."""
    if "\\u" in text:
        return ""
    try:
        value, end = scanstring(f'{text}"', 0)
    except ValueError:
        return ""
    return value if end > len(text) else ""


def event_form(data: bytes, chunk: Chunk, read: Callable[[bytes], object]) -> EventForm | None:
    """The form of the event that brought a piece; None if it is not certain. `read` reads one more
    event of that form, which must give the piece that the form makes."""
    make, text, field = _maker(chunk)
    before, found, after = data.partition(b'"%b"' % text.encode("utf-8", "replace"))
    between = b""
    if make is _piece_with_id:
        between, found, after = after.partition(b"%r" % chunk.ids)
        between, after = b'"' + between + b"[", b"]" + after
    else:
        after = b'"' + after
    form = EventForm(before + b'"', after, between, make, field)
    is_certain = found and read(form.written(*_TRIED)) == make(*_TRIED)
    return form if is_certain else None


def _maker(chunk: Chunk) -> tuple[MakeChunk, str, str]:
    """The function that makes pieces like this one, the text of this one, and the delta's field."""
    delta: Mapping[str, Any] = chunk.delta or {}
    if len(delta) == 1:
        [(name, text)] = delta.items()
        return _delta_maker(name, chunk.id), str(text), name
    return _piece_with_id if chunk.ids else _piece, chunk.text, ""


def _delta_maker(name: str, id: str | None) -> MakeChunk:
    return lambda text, _: Chunk("", None, (), None, None, {name: text}, id)


def _piece_with_id(text: str, number: bytes) -> Chunk:
    return Chunk(text, [int(number)])


def _piece(text: str, _: bytes) -> Chunk:
    return Chunk(text)
