"""`Prompt`, the result of encoding; prompts cut short, and prompts made from tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from dsv4._encode.fragments import SAME_MESSAGE, Fragment, Piece, ending_of, pieces_of
from dsv4._encode.inputs import RawTurn
from dsv4._encode.turns import Omission
from dsv4._format.dialects import Dialect
from dsv4._format.endings import Ending
from dsv4._format.tokens import THINK_END, MarkupText, Special, spelled

_Omitted: TypeAlias = tuple[Omission, ...] | Callable[[], tuple[Omission, ...]]


class Prompt:
    """An encoded conversation.

    `text`, or `str(prompt)`, is the exact text. `dialect` is the release that it is written in,
    `images` are the records of the images in it, in order, and `sampled` the turns in it whose ids
    are known, by message. Two prompts are equal if they have the same pieces, dialect, images and
    sampled turns. `flat` is what the text is the join of: texts, special tokens, and fragments that
    know what they are; `dropped` what was left out, or a function that finds it out.
    """

    __slots__ = ("_dropped", "_flat", "_pieces", "_text", "dialect", "images", "sampled")

    def __init__(
        self,
        flat: list[str],
        dialect: Dialect,
        images: list[Any] | None = None,
        dropped: _Omitted = (),
        sampled: Mapping[int, RawTurn] | None = None,
    ) -> None:
        self._flat = flat
        self._text: str | None = None
        self._pieces: tuple[Piece, ...] | None = None
        self._dropped = dropped
        self.dialect = dialect
        self.images = [] if images is None else images
        self.sampled = {} if sampled is None else sampled

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._flat)
        return self._text

    @property
    def text(self) -> str:
        """The exact text."""
        return str(self)

    def continued(self, *flat: str) -> Prompt:
        """The prompt with `flat`, texts and special tokens, at its end: what the model has said so
        far, and goes on with."""
        return Prompt([*self._flat, *flat], self.dialect, self.images, self.dropped, self.sampled)

    def __len__(self) -> int:
        return len(self.text)

    def __repr__(self) -> str:
        return f"<Prompt of {len(self)} characters, dialect {self.dialect}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        return self is other or (
            self.text == other.text
            and self.dialect == other.dialect
            and self.pieces == other.pieces
            and self.images == other.images
            and dict(self.sampled) == dict(other.sampled)
        )

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        known = (self._flat, self.dialect, self.images, self.dropped)
        return Prompt, (*known, dict(self.sampled))

    @property
    def ending(self) -> Ending:
        """How the prompt ends: what the model does next, and the text of a turn left open."""
        return ending_of(self._flat)

    @property
    def dropped(self) -> tuple[Omission, ...]:
        """All that the format left out: (message, field, rule), in the order of the messages.

        Ask before you change the messages: it is found out by reading them once more.
        """
        if callable(self._dropped):
            self._dropped = self._dropped()
        return self._dropped

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The prompt in pieces, with origin, message and field. They add up to the text."""
        if self._pieces is None:
            self._pieces = tuple(pieces_of(self._flat))
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

    def _cut(self, at: int) -> Prompt:
        """The prompt up to the entry `at`."""
        known = (self.dialect, self.images, self._dropped, self.sampled)
        return Prompt(self._flat[:at], *known)


@lru_cache
def _spelling(dialect: Dialect) -> Any:
    return spelled(dialect.special_tokens)


# Other ends of a prompt than the one that the format gives it.


def without_final_header(prompt: Prompt) -> Prompt:
    """The prompt without the header of an answer that is still to come.

    A task's token, which asks too, stays: the caller gave it.
    """
    return prompt._cut(-1) if prompt.ending.kind in ("think", "answer") else prompt


def maybe_open_reasoning(prompt: Prompt) -> Prompt | None:
    """The prompt up to the end of the last turn's reasoning, which stays open. None without any."""
    entries = prompt._flat
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if isinstance(entry, Fragment):
            if entry.label[1] == "reasoning" and str(entry) == str(THINK_END):
                return prompt._cut(at)
            if entry.message != SAME_MESSAGE:
                return None
    return None


# A prompt from its tokens, which nobody encoded here.


def prompt_from_tokens(parts: Iterable[str], dialect: Dialect) -> Prompt:
    """The prompt of special tokens and of texts, in which nothing is one.

    It knows no messages: all of its pieces are the template's or the caller's. `decode` reads it.
    """
    flat: list[str] = []
    for part in parts:
        if isinstance(part, Special):
            token = MarkupText((part,))
            flat.append(
                Fragment(token, ("template", "header"), ("caller", "content"), message=None)
            )
        else:
            flat.append(part)
    return Prompt(flat, dialect)
