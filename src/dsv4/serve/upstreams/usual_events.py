"""Events that are like one before, but for their text or their one id: nearly all of an answer.

To read one as JSON is a third of what the gateway itself does with a chunk. So what stands around
the text of an event is kept, and an event with the same around it is read by what is between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

from dsv4.serve.backend import Chunk

# Makes a piece of a text, and of the digits of an id.
MakeChunk: TypeAlias = Callable[[str, bytes], Chunk]
# No id has more digits.
_MOST_DIGITS = 9
# What a form is tried with before it is used.
_TRIED = ("tried", b"1")


class EventForm(NamedTuple):
    """What the bytes of an event have before its text, after it, and between it and its id, where
    it has one."""

    before: bytes
    after: bytes
    between: bytes
    make: MakeChunk
    field: str  # of a delta, that is the text; empty where that is a completion's

    def fits(self, data: bytes) -> bool:
        """Whether the same stands around another text."""
        return data.startswith(self.before) and data.endswith(self.after)

    def read(self, data: bytes) -> tuple[str, bytes] | None:
        """The text of an event, and the digits of its id; None where that takes the usual way."""
        before, after, between, _, _ = self
        if not (data.startswith(before) and data.endswith(after)):
            return None
        text, number = data[len(before) : -len(after)], b""
        if between:
            text, _, number = text.partition(between)
            if not number.isdigit() or number[0] == _ZERO or len(number) > _MOST_DIGITS:
                return None
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            return None
        if not decoded.isprintable():
            return None
        if b"\\" in text or b'"' in text:
            decoded = _unescaped(decoded)
        return (decoded, number) if decoded else None

    def written(self, text: str, number: bytes) -> bytes:
        """The event with another text and id."""
        told = self.between + number if self.between else b""
        return b"".join((self.before, text.encode(), told, self.after))


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
