"""Events that are like one before, but for their text or their one id: nearly all of an answer.

To read one as JSON is a third of what the gateway itself does with a chunk. So what stands around
the text of an event is kept, and an event with the same around it is read by what is between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, TypeAlias

from dsv4.serve.backend import Chunk, PlainText

# Makes a piece of a text, and of the digits of an id.
MakeChunk: TypeAlias = Callable[[str, bytes], Chunk]
# No id has more digits.
_MOST_DIGITS = 9
# What a form is tried with before it is used.
_TRIED = ("tried", b"1")


class EventForm:
    """What the bytes of an event have before its text, after it, and between it and its id, where
    it has one."""

    __slots__ = ("_after", "_before", "_between", "_end", "_place", "_start", "field", "make")

    def __init__(
        self, before: bytes, after: bytes, between: bytes, make: MakeChunk, field: str
    ) -> None:
        """`field` is that of a delta which is the text; empty where that is a completion's."""
        self._before = before
        self._after = after
        self._between = between
        # To compare a slice takes less than to ask what bytes begin with.
        self._start, self._end = slice(len(before)), slice(-len(after), None)
        self._place = slice(len(before), -len(after))
        self.make = make
        self.field = field

    def fits(self, data: bytes) -> bool:
        """Whether the same stands around another text."""
        return data[self._start] == self._before and data[self._end] == self._after

    def read(self, data: bytes) -> PlainText | None:
        """The text of an event; None where that takes the usual way."""
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
    """What stands in the quotes of a JSON text. Empty where it is no such text, or is to be read in
    the usual way: half of a pair may be in it."""
    if "\\u" in text:
        return ""
    try:
        value, end = scanstring(f'{text}"', 0)
    except ValueError:
        return ""
    return value if end > len(text) else ""


def event_form(data: bytes, chunk: Chunk, read: Callable[[bytes], object]) -> EventForm | None:
    """The form of an event that brought a piece; None if it has none that is certain. `read` reads
    one more: what it reads of the same form must be what the form says."""
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
    """What makes pieces like one, the text of that, and the field of a delta that it is."""
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
