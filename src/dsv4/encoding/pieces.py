"""What a prompt is made of: the format's own words as fragments, and pieces with their origin.

Encoding is the hot path, so it only collects texts, in one flat list. The format's own words in it
are `Fragment`s: strings that know what they are, which message they open and what kind of text
comes after them. Everything else about a prompt is made from these, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from dsv4.format.endings import NOTHING, Ending
from dsv4.format.tokens import Markup, Special, markup

Origin: TypeAlias = Literal["template", "caller", "model"]
"""Who wrote a text: the format's own words and tokens, the caller, or the model."""
Field: TypeAlias = Literal[
    "bos",
    "effort",
    "header",
    "content",
    "separator",
    "tool_result",
    "image",
    "tools",
    "response_format",
    "reasoning",
    "tool_calls",
    "eos",
    "task",
    "extracted_url",
]
"""Which part of a message, or of the prompt, a text is."""
Label: TypeAlias = tuple[Origin, Field]
# What a turn of the model's begins with.
Begins: TypeAlias = Literal["reasoning", "answer"]

# As a fragment's message: it belongs to the message that is being written.
GOES_ON = -1


class Fragment(str):
    """Text of the format's own.

    `parts` are its texts and special tokens, labelled `label`. Plain text after it is labelled
    `announces`. It opens the message of the index `message`; None is no message, and `GOES_ON` the
    one that is open. Where `begins` is given, the model's own text begins after it. `ending` is how
    a prompt ends that ends with it.
    """

    __slots__ = ("_parts", "announces", "begins", "ending", "label", "message")
    label: Label
    announces: Label
    message: int | None
    begins: Begins | None
    ending: Ending
    _parts: tuple[str, ...]

    def __new__(
        cls,
        text: str,
        label: Label,
        announces: Label | None = None,
        message: int | None = GOES_ON,
        begins: Begins | None = None,
        ending: Ending = NOTHING,
    ) -> Fragment:
        self = super().__new__(cls, text)
        self._parts = (text if isinstance(text, Markup) else markup(text)).parts
        self.label = label
        self.announces = announces or label
        self.message = message
        self.begins = begins
        self.ending = ending
        return self

    def __reduce__(self) -> tuple[object, ...]:
        known = (self.label, self.announces, self.message, self.begins, self.ending)
        return Fragment, (Markup(self.parts), *known)

    @property
    def parts(self) -> tuple[str, ...]:
        return self._parts


# Fragments are made once for this many messages, and serve all prompts; for more, each time. A
# million messages must not leave a million fragments.
REMEMBERED = 4096


class Openings(dict[int | None, Fragment]):
    """A fragment for each message that it may open: `USER[3]` opens the message of index 3."""

    def __init__(
        self,
        text: str,
        label: Label,
        announces: Label | None = None,
        begins: Begins | None = None,
        ending: Ending = NOTHING,
    ) -> None:
        self._text = markup(text)
        self._labels = (label, announces)
        self._more = (begins, ending)

    def __missing__(self, index: int | None) -> Fragment:
        made = Fragment(self._text, *self._labels, index, *self._more)
        if index is None or index < REMEMBERED:
            self[index] = made
        return made


class Piece(NamedTuple):
    """A stretch of the prompt that has one origin.

    `text` is a `Special` where `special` is true. `origin` is "template", "caller" or "model".
    `message` is the index in the caller's list, or None where it came from no message. `field` is
    the part of the message: docs/encoding.md lists them.
    """

    text: str
    special: bool
    origin: Origin
    message: int | None
    field: Field


def pieces_of(flat: Iterable[str]) -> Iterator[Piece]:
    """The pieces of a flat list of fragments, texts, and special tokens by themselves."""
    message: int | None = None
    announced: Label = ("template", "content")
    for entry in flat:
        if isinstance(entry, Fragment):
            if entry.message != GOES_ON:
                message = entry.message
            origin, field = entry.label
            for part in entry.parts:
                yield Piece(part, isinstance(part, Special), origin, message, field)
            announced = entry.announces
        elif entry:
            yield Piece(entry, isinstance(entry, Special), announced[0], message, announced[1])


def ending_of(flat: Sequence[str]) -> Ending:
    """What the last entries of a prompt ask for."""
    last = flat[-1] if flat else ""
    if isinstance(last, Fragment) and (last.ending is not NOTHING or last.label[1] == "eos"):
        return last.ending
    for at in range(len(flat) - 1, -1, -1):
        entry = flat[at]
        if isinstance(entry, Fragment):
            if entry.begins is not None:  # a turn of the model's that was not closed
                text = "".join(flat[at + 1 :])
                return Ending("continue", text, thinking=entry.begins == "reasoning")
            if entry.message != GOES_ON:
                return NOTHING
    return NOTHING
