"""A prompt -> the request that writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsv4.decoding.decoded import Decoded, Note
from dsv4.decoding.masking import Mask
from dsv4.decoding.reading import Choice, Found
from dsv4.decoding.recognition import dialects_of
from dsv4.decoding.v4 import read_v4
from dsv4.decoding.v32 import read_v32
from dsv4.encoding.prompt import Prompt
from dsv4.errors import EncodeError, Error, ParseError, shown
from dsv4.format.dialects import Dialect, dialect_named
from dsv4.request import Request

# The ways to read a prompt, the plainest first. The first is nearly always right.
CHOICES = (
    Choice(),
    Choice(drop=False),
    Choice(drop=True),
    Choice(thinking=False),
    Choice(thinking=True),
    Choice(sections=False),
    Choice(results=False),
    Choice(sections=False, thinking=False),
)


def decode(
    prompt: str | Prompt, *, dialect: str | Dialect | None = None, strict: bool = False
) -> Decoded:
    """The request that writes a prompt.

    `prompt` is its text, or a `Prompt`, as `Tokenizer.prompt` makes one of ids: then it is known
    which tokens are tokens, and which are only spelled. `dialect` is the release it is written in;
    without it, the prompt shows which it may be.

    Returns a `Decoded`. Where it is `exact`, its request encodes to the very prompt. Raises
    `ParseError` for a prompt that no request writes, if `strict` is true; otherwise that is read as
    well as it can be. Raises `EncodeError` for what is no prompt, and for an unknown dialect.
    """
    text, spelled_at = _text_of(prompt)
    if dialect is None and isinstance(prompt, Prompt):
        dialect = prompt.dialect
    names = (dialect_named(dialect),) if dialect is not None else dialects_of(text)
    others = () if dialect is not None else tuple(DIALECTS.values())
    first: Decoded | None = None
    for wanted in dict.fromkeys((*names, *others)):
        decoded = _decode(text, spelled_at, wanted, names)
        if decoded.exact:
            return decoded
        first = first or decoded
    assert first is not None
    if strict:
        note = first.notes[-1]
        raise ParseError(note.start, note.text)
    return first


def _text_of(prompt: str | Prompt) -> tuple[str, list[int] | None]:
    """The text, and where it spells tokens without holding any; None where that is not known."""
    if isinstance(prompt, Prompt):
        return str(prompt), [start for start, _ in prompt.special_text]
    if isinstance(prompt, str):
        return str.__str__(prompt), None
    raise EncodeError("prompt", f"found {shown(prompt)}, expected text or a Prompt")


def _decode(
    text: str, spelled_at: list[int] | None, dialect: Dialect, names: tuple[Dialect, ...]
) -> Decoded:
    """The prompt as one of a dialect."""
    mask = Mask(text, spelled_at or ())
    found = Found(mask.text, dialect)
    first: Decoded | None = None
    known = spelled_at is not None
    for choice in (replace(choice, trusted=t) for t in (known, not known) for choice in CHOICES):
        reading = _READERS[dialect.layout](found, choice)
        request = reading.request(dialect, mask)
        written = _written(request)
        notes = (*reading.notes, *_dialect_note(names))
        if written is not None and str(written) == text:
            return Decoded(request, True, notes, _names(dialect, names))
        if first is None:
            foreign = _foreign_note(text, written)
            first = Decoded(request, False, (*notes, foreign), _names(dialect, names))
    assert first is not None
    return first


def _written(request: Request) -> Prompt | None:
    try:
        return request.encode()
    except Error:
        return None


def _names(dialect: Dialect, names: tuple[Dialect, ...]) -> tuple[str, ...]:
    return (dialect.name, *(other.name for other in names if other is not dialect))


def _dialect_note(names: tuple[Dialect, ...]) -> Iterator[Note]:
    if len(names) > 1:
        text = f"it may be of {', '.join(name.name for name in names)}"
        yield Note("dialect-ambiguous", 0, 0, None, text)


def _foreign_note(text: str, written: Prompt | None) -> Note:
    ours = "" if written is None else str(written)
    pairs = enumerate(zip(text, ours, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(text), len(ours)))
    found = shown(text[at : at + 30])
    return Note("not-this-encoder", at, len(text), None, f"no request writes {found} here")


_READERS = {"v4": read_v4, "v3.2": read_v32}
