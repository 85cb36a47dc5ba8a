"""What encoding gives: a prompt, and the views of it.

Encoding is the hot path, so it only collects texts, in one flat list. The format's own words in it
are `Fragment`s: strings that know what they are, whose turn they open and what kind of text comes
after them. From these everything else is made, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from dsv4.format.dialects import Dialect
from dsv4.format.tokens import Markup, Special, markup, spelled

# Who wrote a text ("template", "caller" or "model"), and which part of a message it is.
Label: TypeAlias = tuple[str, str]


class Fragment(str):
    """Text of the format's own.

    `parts` are its texts and special tokens, labelled `label`. Plain text after it is labelled
    `announces`. If it `opens`, it belongs to the next message; if it `asks`, it belongs to the
    answer that follows, or to no message where none does.
    """

    __slots__ = ("_parts", "announces", "asks", "label", "opens")
    label: Label
    announces: Label
    opens: bool
    asks: bool
    _parts: tuple[str, ...]

    def __new__(
        cls,
        text: str,
        label: Label,
        announces: Label | None = None,
        opens: bool = False,
        asks: bool = False,
    ) -> Fragment:
        self = super().__new__(cls, text)
        known = text if isinstance(text, Markup) else markup(text)
        self._parts = known.parts
        self.label = label
        self.announces = announces or label
        self.opens = opens
        self.asks = asks
        return self

    def __getnewargs__(self) -> tuple[Markup, Label, Label, bool, bool]:  # type: ignore[override]
        return Markup(self.parts), self.label, self.announces, self.opens, self.asks

    @property
    def parts(self) -> tuple[str, ...]:
        return self._parts


class At(str):
    """No text: says that what follows belongs to the message of an index.

    It is written only where messages are not simply taken one after the other.
    """

    __slots__ = ("message",)
    message: int

    def __new__(cls, index: int) -> At:
        self = super().__new__(cls)
        self.message = index
        return self

    def __getnewargs__(self) -> tuple[int]:  # type: ignore[override]
        return (self.message,)


# One for each index serves all prompts: making one takes ten times as long as finding it.
at = lru_cache(4096)(At)


class Piece(NamedTuple):
    """A stretch of the prompt that has one origin.

    `text` is a `Special` where `special` is true. `origin` is "template", "caller" or "model";
    `message` the index in the caller's list, or None; `field` the part of the message.
    """

    text: str
    special: bool
    origin: str
    message: int | None
    field: str


class Prompt:
    """An encoded conversation. `str(prompt)` is the exact text."""

    __slots__ = ("_first_index", "_flat", "_pieces", "_text", "dialect", "images")

    def __init__(
        self, flat: list[str], first_index: int, images: list[Any], dialect: Dialect
    ) -> None:
        self._flat = flat
        self._first_index = first_index
        self._text: str | None = None
        self._pieces: tuple[Piece, ...] | None = None
        self.images = images
        self.dialect = dialect

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._flat)
        return self._text

    def __len__(self) -> int:
        return len(str(self))

    def __repr__(self) -> str:
        return f"<Prompt of {len(self)} characters, dialect {self.dialect}>"

    def _repr_html_(self) -> str:
        """The prompt in colours, where a notebook shows it."""
        # The one import from a floor above: a prompt is made without a thought of being looked at.
        from dsv4.view.html import fragment

        return fragment(self)

    def __getstate__(self) -> tuple[list[str], int, list[Any], Dialect]:
        return self._flat, self._first_index, self.images, self.dialect

    def __setstate__(self, state: tuple[list[str], int, list[Any], Dialect]) -> None:
        Prompt.__init__(self, *state)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The prompt in pieces, with origin, message and field. They add up to the text."""
        if self._pieces is None:
            self._pieces = tuple(_pieces(self._flat, self._first_index))
        return self._pieces

    def runs(self) -> Iterator[tuple[str, Special | None]]:
        """The text between special tokens, all of it in one, and the token after it.

        This is what a tokenizer may see: pieces of text by themselves would give other ids.
        """
        run: list[str] = []
        for entry in self._flat:
            for part in entry.parts if isinstance(entry, Fragment) else (entry,):
                if isinstance(part, Special):
                    yield "".join(run), part
                    run = []
                else:
                    run.append(part)
        yield "".join(run), None

    @property
    def special_text(self) -> list[tuple[int, int]]:
        """Where caller's or model's text spells a special token of the dialect: (start, end) pairs.

        Such text is no token: it is looked for in runs of text between the real ones.
        """
        spelling = _spelling(self.dialect)
        found: list[tuple[int, int]] = []
        start = 0
        for run, special in self.runs():
            found += ((start + m.start(), start + m.end()) for m in spelling.finditer(run))
            start += len(run) + len(special or "")
        return found


def _pieces(flat: list[str], first_index: int) -> Iterator[Piece]:
    index = first_index - 1
    announced: Label = ("template", "")
    for n, entry in enumerate(flat):
        if isinstance(entry, Fragment):
            index += entry.opens
            announced = entry.announces
            message = _answer_to(flat, n, index) if entry.asks else index
            for part in entry.parts:
                yield _piece(part, entry.label, message)
        elif isinstance(entry, At):
            index = entry.message
        elif entry:
            yield _piece(entry, announced, index)


def _answer_to(flat: list[str], n: int, index: int) -> int:
    """The message that answers what the entry `n` asks; below 0 for none.

    It is the next message to be opened, if that is the model's: a task's token may come between.
    """
    for later in range(n + 1, len(flat)):
        entry = flat[later]
        if isinstance(entry, At):
            index = entry.message
        elif isinstance(entry, Fragment) and entry.opens:
            return index + 1 if entry.announces[0] == "model" else -1
    return -1


def _piece(text: str, label: Label, index: int) -> Piece:
    origin, field = label
    return Piece(text, isinstance(text, Special), origin, index if index >= 0 else None, field)


@lru_cache
def _spelling(dialect: Dialect) -> Any:
    return spelled(dialect.special_tokens)
