"""The format's own words as labelled strings (`Fragment`), and the pieces that a prompt is made of.

Encoding is the hot path, so it only collects texts in one flat list. A `Fragment` in it knows its
label, which message it opens and how to label the text after it. Pieces, endings and everything
else about a prompt are computed from that list on demand. docs/encoding.md lists the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, Dialect
from dsv4._format.endings import NOTHING, Ending
from dsv4._format.texts import DEVELOPER_MESSAGE, RESPONSE_FORMAT, UNSUPPORTED
from dsv4._format.tokens import MarkupText, Special, markup

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
SAME_MESSAGE = -1


class Fragment(str):
    """Text of the format's own.

    `parts` are its texts and special tokens, labelled `label`. Plain text after it is labelled
    `announces`. It opens the message of the index `message`; None is no message, and
    `SAME_MESSAGE` the one that is open. Where `begins` is given, the model's own text begins after
    it. `ending` is how a prompt ends that ends with it.
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
        message: int | None = SAME_MESSAGE,
        begins: Begins | None = None,
        ending: Ending = NOTHING,
    ) -> Fragment:
        self = super().__new__(cls, text)
        self._parts = (text if isinstance(text, MarkupText) else markup(text)).parts
        self.label = label
        self.announces = announces or label
        self.message = message
        self.begins = begins
        self.ending = ending
        return self

    def __reduce__(self) -> tuple[object, ...]:
        known = (self.label, self.announces, self.message, self.begins, self.ending)
        return Fragment, (MarkupText(self.parts), *known)

    @property
    def parts(self) -> tuple[str, ...]:
        return self._parts


# Fragments are made once for this many messages, and serve all prompts; for more, each time. A
# million messages must not leave a million fragments.
_CACHED_OPENINGS = 4096


class Openings(dict[int | None, Fragment]):
    """A fragment for each message that it may open: `USER[3]` opens the message of index 3.

    `listed` has those of the first messages, as far as they have been needed: see `first`.
    """

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
        self.listed: list[Fragment] = []

    def __missing__(self, index: int | None) -> Fragment:
        made = Fragment(self._text, *self._labels, index, *self._more)
        if index is None or index < _CACHED_OPENINGS:
            self[index] = made
        return made

    def first(self, count: int) -> list[Fragment] | Openings:
        """The fragments of the first `count` messages, to be indexed in a loop.

        They are in a list, which takes a third of the time to index, unless there are too many.
        """
        if len(self.listed) < count:
            if count > _CACHED_OPENINGS:
                return self
            # Another thread may do the same: then one of the lists is dropped.
            self.listed = [self[n] for n in range(min(2 * count, _CACHED_OPENINGS))]
        return self.listed


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
            if entry.message != SAME_MESSAGE:
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
            if entry.message != SAME_MESSAGE:
                return NOTHING
    return NOTHING


# The format's own words: what the renderers write around the texts they are given.


BLANK_LINE = "\n\n"

_HEADER: Label = ("template", "header")
_TASK: Label = ("template", "task")
_RESULT: Label = ("template", "tool_result")
_CONTENT: Label = ("caller", "content")
_TOOLS: Label = ("template", "tools")
REASONING_LABEL: Label = ("model", "reasoning")
ANSWER_LABEL: Label = ("model", "content")
CALLS_LABEL: Label = ("model", "tool_calls")

BOS = Fragment(tokens.BOS, ("template", "bos"), message=None)

# What opens a message. An empty one stands where the format writes nothing. Those for what the
# model writes are for answers without a header, and where the header does not tell.
SYSTEM = Openings("", _HEADER, _CONTENT)
LATER_SYSTEM = Openings(tokens.SYSTEM, _HEADER, _CONTENT)
USER = Openings(tokens.USER, _HEADER, _CONTENT)
REMINDER = Openings(tokens.LATEST_REMINDER, _HEADER, _CONTENT)
REASONING = Openings("", REASONING_LABEL, begins="reasoning")
ANSWER = Openings("", ANSWER_LABEL, begins="answer")
# Opens the prompt, before a system turn or the effort, where the dialect has the token.
SYSTEM_OPENING = Openings(tokens.SYSTEM, _HEADER)

# What the model writes to end its reasoning, and its turn.
REASONING_END = Fragment(tokens.THINK_END, REASONING_LABEL, ANSWER_LABEL)
ANSWER_END = Fragment(tokens.EOS, ("model", "eos"))

# What asks for an answer: with the model's thinking first, or without. It opens the message that
# answers, or none where none does.
ASK_THINKING = Openings(
    tokens.ASSISTANT + tokens.THINK_START,
    _HEADER,
    REASONING_LABEL,
    begins="reasoning",
    ending=Ending("think", thinking=True),
)
ASK_ANSWER = Openings(
    tokens.ASSISTANT + tokens.THINK_END,
    _HEADER,
    ANSWER_LABEL,
    begins="answer",
    ending=Ending("answer"),
)
# What asks for a task of the message that it opens.
ASK_TASK = {
    task: Openings(token, _TASK, ending=Ending("task", task=task))
    for task, token in tokens.TASK_TOKENS.items()
}
URL = Openings(tokens.EXTRACTED_URL, _TASK, ("caller", "extracted_url"))

# Parts of a user turn. Those between blocks, and before a first one, open the block's message.
BETWEEN_BLOCKS = Openings(BLANK_LINE, ("template", "separator"), _CONTENT)
FIRST_BLOCK = Openings("", _CONTENT)
RESULT_START = Fragment(tokens.RESULT_START, _RESULT, _CONTENT)
RESULT_END = Fragment(tokens.RESULT_END, _RESULT)

# Parts of a content that is a list.
BETWEEN_ITEMS = Fragment(BLANK_LINE, ("template", "separator"), _CONTENT)
BETWEEN_MODEL_ITEMS = Fragment(BLANK_LINE, ANSWER_LABEL)
UNSUPPORTED_START = Fragment(UNSUPPORTED[0], ("template", "content"), _CONTENT)
UNSUPPORTED_END = Fragment(UNSUPPORTED[1], ("template", "content"), _CONTENT)
IMAGE = Fragment(tokens.IMAGE, ("template", "image"), _CONTENT)
MODEL_IMAGE = Fragment(tokens.IMAGE, ("template", "image"), ANSWER_LABEL)

# V3.2's own (docs/format.md, section 11.4). What asks after results has no assistant token.
DEVELOPER_TEXT = Fragment(DEVELOPER_MESSAGE, _HEADER, _CONTENT)
RESULTS_START = Openings(tokens.RESULTS_START, _RESULT)
RESULTS_END = Fragment(tokens.RESULTS_END, _RESULT)
ONE_RESULT_START = Openings(tokens.ONE_RESULT_START, _RESULT, _CONTENT)
ONE_RESULT_END = Fragment(tokens.ONE_RESULT_END, _RESULT)
THINK_AFTER_RESULTS = Openings(
    tokens.THINK_START,
    _HEADER,
    REASONING_LABEL,
    begins="reasoning",
    ending=Ending("think", thinking=True),
)
ANSWER_AFTER_RESULTS = Openings(
    tokens.THINK_END, _HEADER, ANSWER_LABEL, begins="answer", ending=Ending("answer")
)

RESPONSE_FORMAT_START = Fragment(
    BLANK_LINE + RESPONSE_FORMAT, ("template", "response_format"), ("caller", "response_format")
)

# Parts of a block of calls.
CALL_NAME_END = Fragment(NAME_END, CALLS_LABEL)
BETWEEN_CALLS = Fragment("\n", CALLS_LABEL)


class DialectFragments:
    """What differs from dialect to dialect."""

    def __init__(self, dialect: Dialect) -> None:
        tags = dialect.tags
        self.tools_start = Fragment(BLANK_LINE + dialect.tools_open, _TOOLS, ("caller", "tools"))
        self.tools_end = Fragment(dialect.tools_close, _TOOLS)
        self.block_open = Fragment(tags.block_open, CALLS_LABEL)
        self.block_close = Fragment(tags.block_close, CALLS_LABEL)
        self.invoke_open = Fragment(tags.invoke_open, CALLS_LABEL)
        self.invoke_close = Fragment(tags.invoke_close, CALLS_LABEL)


fragments_of = lru_cache(DialectFragments)


@lru_cache
def effort_fragment(effort: str) -> Fragment:
    return Fragment(effort, ("template", "effort"), message=None)


def forced_call(dialect: Dialect, name: str | None) -> Fragment:
    """The opening of a block of calls that the prompt writes for the model; with a name, of a call.

    The prompt supplies it, so it is the template's, as a header is.
    """
    tags = dialect.tags
    opening = list(tags.block_open.parts)
    if name is not None:
        opening += [*tags.invoke_open.parts, name, NAME_END]
    return Fragment(tokens.MarkupText(opening), ("template", "tool_calls"), CALLS_LABEL)
