"""The special tokens, as values.

A special token is a `Special`: a string that also knows its id. Text that merely spells one is an
ordinary `str`. Every spelling is in this package and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from dsv4._format.frozen_class import cached_property, dataclass, fields_of


class Special(str):
    """A special token of the vocabulary: a string with an id.

    `id` is `None` if only the checkpoint gives it, as in V3.2.
    """

    __slots__ = ("id",)
    id: int | None

    def __new__(cls, spelling: str, id: int | None) -> Special:
        self = super().__new__(cls, spelling)
        self.id = id
        return self

    def __getnewargs__(self) -> tuple[str, int | None]:  # type: ignore[override]
        return str(self), self.id

    def __repr__(self) -> str:
        return f"Special({str(self)!r}, {self.id})"


class MarkupText(str):
    """Text with special tokens inside: a string that also knows its parts.

    The parts are plain strings and `Special`s, and add up to the text.
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, parts: Iterable[str]) -> MarkupText:
        pieces = tuple(part for part in parts if part)
        self = super().__new__(cls, "".join(pieces))
        self.parts = pieces
        return self

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]
        return (self.parts,)


# docs/format.md, section 1. The bar is FULLWIDTH VERTICAL LINE (U+FF5C), the low block U+2581.
BOS = Special("<｜begin▁of▁sentence｜>", 0)
EOS = Special("<｜end▁of▁sentence｜>", 1)
PAD = Special("<｜▁pad▁｜>", 2)  # of the vocabulary; no prompt has it
USER = Special("<｜User｜>", 128803)
ASSISTANT = Special("<｜Assistant｜>", 128804)
THINK_START = Special("<think>", 128821)
THINK_END = Special("</think>", 128822)
DSML = Special("｜DSML｜", 128825)
LATEST_REMINDER = Special("<｜latest_reminder｜>", 128828)
ACTION = Special("<｜action｜>", 128829)
QUERY = Special("<｜query｜>", 128830)
AUTHORITY = Special("<｜authority｜>", 128831)
DOMAIN = Special("<｜domain｜>", 128832)
TITLE = Special("<｜title｜>", 128836)
EXTRACTED_URL = Special("<｜extracted_url｜>", 128844)
READ_URL = Special("<｜read_url｜>", 128845)

# Of later releases (sections 9 and 12): their names for reserved tokens of V4's vocabulary.
SYSTEM = Special("<｜System｜>", 128799)
IMAGE = Special("<｜deepseek_image｜>", 129264)

V4_TOKENS: tuple[Special, ...] = (
    *(BOS, EOS, USER, ASSISTANT, THINK_START, THINK_END, DSML, LATEST_REMINDER),
    *(ACTION, QUERY, AUTHORITY, DOMAIN, TITLE, EXTRACTED_URL, READ_URL),
)
V4_VISION_TOKENS: tuple[Special, ...] = (*V4_TOKENS, IMAGE)
V4_1_TOKENS: tuple[Special, ...] = (*V4_TOKENS, SYSTEM, IMAGE)
# The slots whose names differ from those in V4's vocabulary. No prompt has any but the first two.
V4_1_RENAMED: tuple[Special, ...] = (
    *(SYSTEM, IMAGE),
    *(Special(f"<|place_holder_mm_span_0{436 + n}|>", 129265 + n) for n in range(6)),
    Special("<|place_holder_mm_span_0442|>", 129279),
)
# V3.2 spells them as V4 does. Its vocabulary has other ids for some (section 11.6), which only the
# checkpoint gives.
V3_2_TOKENS: tuple[Special, ...] = (
    *(BOS, EOS, USER, ASSISTANT),
    *(Special(token, None) for token in (THINK_START, THINK_END, DSML)),
)
V3_2_DSML = V3_2_TOKENS[-1]


# Section 7: the names that a message's `task` field has, which are those of their tokens below.
_TASKS = ("action", "query", "authority", "domain", "title", "read_url")


@dataclass(frozen=True)
class Tokens:
    """The special tokens that every dialect writes: V4's, unless it says otherwise.

    The DSML token belongs to `Tags`; tokens for systems and images are fields of the dialect.
    """

    bos: Special = BOS
    eos: Special = EOS
    user: Special = USER
    assistant: Special = ASSISTANT
    think_start: Special = THINK_START
    think_end: Special = THINK_END
    latest_reminder: Special = LATEST_REMINDER
    extracted_url: Special = EXTRACTED_URL
    # The tokens that a message's `task` writes.
    action: Special = ACTION
    query: Special = QUERY
    authority: Special = AUTHORITY
    domain: Special = DOMAIN
    title: Special = TITLE
    read_url: Special = READ_URL

    @cached_property
    def tasks(self) -> Mapping[str, Special]:
        """The token of each task."""
        listed = fields_of(self)
        return MappingProxyType({task: listed[task] for task in _TASKS})


V3_2_WRITTEN = Tokens(think_start=V3_2_TOKENS[4], think_end=V3_2_TOKENS[5])
TASK_TOKENS: Mapping[str, Special] = Tokens().tasks

# Ordinary text around a tool's result (section 4).
RESULT_START = "<tool_result>"
RESULT_END = "</tool_result>"


# V3.2's (section 11.4).
RESULTS_START = "\n\n<function_results>"
RESULTS_END = "\n</function_results>\n\n"
ONE_RESULT_START = "\n<result>"
ONE_RESULT_END = "</result>"


def spelled(tokens: Iterable[Special]) -> re.Pattern[str]:
    """A pattern that finds any of the tokens' spellings in a text."""
    return re.compile("|".join(re.escape(token) for token in tokens))


def markup(text: str, tokens: tuple[Special, ...] = V4_1_TOKENS) -> MarkupText:
    """A text in which spelled special tokens become real ones.

    Only for the format's own words and for a model's text: never for a caller's text. No token
    overlaps another, so they may be looked for one by one, which needs no pattern to be compiled.
    """
    parts = [str(text)]
    for token in tokens:
        if token in text:
            parts = [piece for part in parts for piece in _cut(part, token)]
    return MarkupText(parts)


def _cut(part: str, token: Special) -> Iterator[str]:
    """The pieces of a part, cut where it spells a token. A part that is a token stays whole."""
    if isinstance(part, Special):
        yield part
        return
    first, *others = part.split(token)
    yield first
    for other in others:
        yield token
        yield other
