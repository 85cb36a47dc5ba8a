"""The parts of a prompt that are the same in every reading: structural tokens, sections and calls.

Text that only spells a token is hidden first: the first character of each such spelling is replaced
by one that the prompt does not contain, so positions stay the same and the change can be undone.
The encoder always writes the assistant token together with a think token, so the pair is one
lexeme. `PromptReading` collects the results of one interpretation of the prompt.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cached_property
from typing import Any, NamedTuple, cast

from dsv4._decode.part_readers import CallBlocks, Section, sections
from dsv4._encode.inputs import as_inputs
from dsv4._format.dialects import DIALECTS, Dialect
from dsv4.errors import OptionError
from dsv4.request import Request
from dsv4.types import DialectName, Effort

# The result of decoding: a request, and notes on facts that the text does not give.


class Note(NamedTuple):
    """A note on a fact that a prompt does not give, or gives in two ways, and how it was read.

    `kind` is one of those in docs/decoding.md. `start` and `end` are the characters of the prompt
    that it is about; `message` is the index in the request's messages, or None; `text` says it in
    words.
    """

    kind: str
    start: int
    end: int
    message: int | None
    text: str


class Decoded(NamedTuple):
    """A decoded prompt.

    `request` holds messages, tools and options. `exact` says whether it encodes to exactly this
    prompt. `notes` say what was chosen where the prompt leaves a choice. `dialects` are the names
    of the dialects that the prompt may be written in, the one of `request` first.
    """

    request: Request
    exact: bool
    notes: tuple[Note, ...]
    dialects: tuple[str, ...]


# Characters for private use, which no text of the format needs.
_PRIVATE_USE = range(0xF0000, 0xFFFFD)


class SpellingMask:
    """A prompt in which text that only spells a token is hidden: `text`.

    The first character of each spelling is replaced by one that the prompt does not contain. So
    only tokens are left to be found, every position stays the same, and `unmasked` undoes it.
    """

    def __init__(self, text: str, hidden: Iterable[int]) -> None:
        places = sorted(set(hidden))
        self._stand_ins = _stand_ins(text, {text[place] for place in places})
        self._back = {ord(stand_in): first for first, stand_in in self._stand_ins.items()}
        self.text = self._masked(text, places)

    def _masked(self, text: str, places: list[int]) -> str:
        parts: list[str] = []
        end = 0
        for place in places:
            parts += text[end:place], self._stand_ins[text[place]]
            end = place + 1
        return "".join([*parts, text[end:]])

    def unmasked(self, value: object) -> Any:
        """A value read from the masked text, with all texts in it as they were."""
        if not self._back:
            return value
        if isinstance(value, str):
            return value.translate(self._back)
        if isinstance(value, dict):
            return {self.unmasked(key): self.unmasked(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.unmasked(item) for item in value]
        return value


def _stand_ins(text: str, characters: set[str]) -> dict[str, str]:
    free = (chr(code) for code in _PRIVATE_USE if chr(code) not in text)
    try:
        return {character: next(free) for character in sorted(characters)}
    except StopIteration:
        raise OptionError("prompt", "found every character for private use in it") from None


class LexemeKind(IntEnum):
    USER = 0
    THINK = auto()  # a header that lets the model think
    ANSWER = auto()  # a header that does not
    EOS = auto()
    REMINDER = auto()
    SYSTEM = auto()
    TASK = auto()
    ACTION = auto()
    END = auto()  # of the prompt


HEADERS = (LexemeKind.THINK, LexemeKind.ANSWER)


class PromptLexeme(NamedTuple):
    """A structural token, and its place."""

    kind: LexemeKind
    start: int
    end: int


class PromptSpelling:
    """The spellings of a dialect's structural tokens: `dialect.made[PromptSpelling]`."""

    def __init__(self, dialect: Dialect) -> None:
        own = dialect.tokens
        self.tasks = {str(token): task for task, token in own.tasks.items()}
        self.kinds: dict[str, LexemeKind] = {
            str(own.user): LexemeKind.USER,
            own.assistant + own.think_start: LexemeKind.THINK,
            own.assistant + own.think_end: LexemeKind.ANSWER,
            str(own.eos): LexemeKind.EOS,
            str(own.latest_reminder): LexemeKind.REMINDER,
            **dict.fromkeys(self.tasks, LexemeKind.TASK),
            str(own.action): LexemeKind.ACTION,
        }
        if dialect.system_token is not None:
            self.kinds[str(dialect.system_token)] = LexemeKind.SYSTEM
        # The longest first: a token may begin like another.
        spellings = sorted(self.kinds, key=len, reverse=True)
        self.token = re.compile("|".join(map(re.escape, spellings)))


def lexemes(
    text: str, dialect: Dialect, start: int, protected: Iterable[tuple[int, int]]
) -> list[PromptLexeme]:
    """The structural tokens from `start` on, with the end of the text as the last of them.

    Nothing inside a protected stretch is a token: schemas and arguments may spell anything.
    """
    spelling = dialect.made[PromptSpelling]
    found = spelling.token.finditer(text, start)
    listed = [PromptLexeme(spelling.kinds[match[0]], *match.span()) for match in found]
    stretches = sorted(protected)
    if stretches:
        starts = [first for first, _ in stretches]
        ends = [-1, *(last for _, last in stretches)]  # -1 for the text before all of them
        listed = [each for each in listed if each.start >= ends[bisect_right(starts, each.start)]]
    return [*listed, PromptLexeme(LexemeKind.END, len(text), len(text))]


@dataclass(frozen=True)
class Interpretation:
    """Choices for a prompt that can be read in two ways. None means: as the prompt shows.

    `trusted` says that every token is real, and none is text that spells it; `joined` that all
    tokens in the turn of a user or a reminder are text.
    """

    thinking: bool | None = None
    drop: bool | None = None
    sections: bool = True
    results: bool = True
    trusted: bool = False
    joined: bool = False


@dataclass
class PromptReading:
    """A conversation, as it was read.

    `prefix` is the model's reasoning, if that is open; `tool_choice` is the choice that opened a
    call.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    thinking: bool = False
    effort: str | int | None = None
    drop: bool = True
    bos: bool = False
    context: tuple[dict[str, Any], ...] = ()
    prefix: str = ""
    tool_choice: str = "auto"
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: str, start: int, end: int, text: str, message: int | None = None) -> None:
        """Adds a note about a stretch of the prompt, and the message it became."""
        self.notes.append(Note(kind, start, end, message, text))

    def request(self, dialect: Dialect, mask: SpellingMask) -> Request:
        """The reading as a request, with all texts as they stand in the prompt."""
        return Request(
            mask.unmasked(self.messages),
            thinking=self.thinking,
            effort=cast("Effort | None", self.effort) if self.thinking else None,
            drop_thinking=self.drop,
            bos=self.bos,
            context=as_inputs(self.context),
            dialect=_name_or_dialect(dialect),
            prefix=mask.unmasked(self.prefix),
            tool_choice=mask.unmasked(self.tool_choice),
        )


def _name_or_dialect(dialect: Dialect) -> DialectName | Dialect:
    """The name of a dialect that is a release; any other dialect itself."""
    is_release = DIALECTS.get(dialect.name) is dialect
    return cast("DialectName", dialect.name) if is_release else dialect


@dataclass(frozen=True)
class ScannedPrompt:
    """The parts of a text that are the same in every reading: found once for all readings."""

    text: str
    dialect: Dialect
    images: Sequence[Mapping[str, Any]] = ()  # the records of its images, if they are known

    @cached_property
    def sections(self) -> list[Section]:
        return sections(self.text, self.dialect)

    @cached_property
    def blocks(self) -> CallBlocks:
        return CallBlocks(self.text, self.dialect.tags)

    @cached_property
    def first_call(self) -> int:
        """The place of the first block of calls: after the end, if there is none."""
        return next(iter(self.blocks.by_start), len(self.text))

    @property
    def protected(self) -> Iterator[tuple[int, int]]:
        """Stretches in which no token structures the prompt."""
        yield from ((section.start, section.end) for section in self.sections)
        yield from ((start, end) for start, (end, _) in self.blocks.by_start.items())

    def sections_in(self, start: int, end: int) -> list[Section]:
        if not self.sections:
            return []
        first = bisect_left(self._section_starts, start)
        last = bisect_left(self._section_starts, end)
        return [section for section in self.sections[first:last] if section.end <= end]

    @cached_property
    def _section_starts(self) -> list[int]:
        return [section.start for section in self.sections]
