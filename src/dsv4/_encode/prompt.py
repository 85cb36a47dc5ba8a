"""`Prompt`, the result of encoding, and its parts: the format's own words as labelled strings
(`Fragment`), the pieces, and turns as the model wrote them (`RawTurn`).

Encoding is the hot path, so it only collects texts in one flat list. A `Fragment` in it knows its
label, the message that it opens and the label of the text after it. Pieces, endings and everything
else about a prompt are computed from that list on demand. docs/encoding.md lists the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from dsv4._encode import image_grid, types, views
from dsv4._format.dialects import Dialect
from dsv4._format.endings import NOTHING, Ending
from dsv4._format.frozen_class import NamedTuple, dataclass
from dsv4._format.tokens import MarkupText, Special, Tokens, markup, spelled

Origin: TypeAlias = Literal["template", "caller", "model"]
"""The author of a text: the format (its words and tokens), the caller, or the model."""
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
"""The part of a message, or of the prompt, that a text is."""
Label: TypeAlias = tuple[Origin, Field]
# The beginning of a turn of the model's.
Begins: TypeAlias = Literal["reasoning", "answer"]

# As a fragment's message: it belongs to the message that is being written.
SAME_MESSAGE = -1


class Fragment(str):
    """A text of the format's own.

    `parts` are its texts and special tokens, labelled `label`. Plain text after it is labelled
    `announces`. It opens the message of the index `message`; None stands for no message, and
    `SAME_MESSAGE` for the open one. If `begins` is given, the model's own text begins after it.
    `ending` is the ending of a prompt that ends with it.
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
        self._parts = text.parts if isinstance(text, MarkupText) else (text,) if text else ()
        self.label = label
        self.announces = announces or label
        self.message = message
        self.begins = begins
        self.ending = ending
        return self

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.label, self.announces, self.message, self.begins, self.ending)
        return Fragment, (MarkupText(self.parts), *state)

    @property
    def parts(self) -> tuple[str, ...]:
        return self._parts


# Fragments for this many messages are created once, and serve all prompts; for more, each time. A
# million messages must not leave a million fragments.
_CACHED_OPENINGS = 4096


class Openings(dict[int | None, Fragment]):
    """A fragment for each message that it may open: `USER[3]` opens the message of index 3.

    `listed` has those of the first messages, as many as have been needed: see `first`.
    """

    def __init__(
        self,
        text: str,
        label: Label,
        announces: Label | None = None,
        begins: Begins | None = None,
        ending: Ending = NOTHING,
    ) -> None:
        self._text = text if isinstance(text, MarkupText) else MarkupText((text,))
        self._labels = (label, announces)
        self._more = (begins, ending)
        self.listed: list[Fragment] = []

    def __missing__(self, index: int | None) -> Fragment:
        fragment = Fragment(self._text, *self._labels, index, *self._more)
        if index is None or index < _CACHED_OPENINGS:
            self[index] = fragment
        return fragment

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

    `text` is a `Special` if `special` is true. `origin` is "template", "caller" or "model".
    `message` is the index in the caller's list, or None if it came from no message. `field` is the
    part of the message: docs/encoding.md lists them.
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
    """The ending that the last entries of a prompt give it."""
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


# The format's own words, which the renderers write around the texts they are given.


BLANK_LINE = "\n\n"

_HEADER: Label = ("template", "header")
_TASK: Label = ("template", "task")
_RESULT: Label = ("template", "tool_result")
_TEMPLATE: Label = ("template", "content")
_CONTENT: Label = ("caller", "content")
_TOOLS: Label = ("template", "tools")
REASONING_LABEL: Label = ("model", "reasoning")
ANSWER_LABEL: Label = ("model", "content")
CALLS_LABEL: Label = ("model", "tool_calls")

# Openings of messages for which the format writes nothing. Those for the model's text are for
# answers without a header, and for answers whose header does not tell what begins.
SYSTEM = Openings("", _HEADER, _CONTENT)
REASONING = Openings("", REASONING_LABEL, begins="reasoning")
ANSWER = Openings("", ANSWER_LABEL, begins="answer")

# Parts of a user turn, and of a content that is a list. Those between blocks, and before a first
# one, open the block's message.
BETWEEN_BLOCKS = Openings(BLANK_LINE, ("template", "separator"), _CONTENT)
FIRST_BLOCK = Openings("", _CONTENT)
BETWEEN_ITEMS = Fragment(BLANK_LINE, ("template", "separator"), _CONTENT)
BETWEEN_MODEL_ITEMS = Fragment(BLANK_LINE, ANSWER_LABEL)
BETWEEN_CALLS = Fragment("\n", CALLS_LABEL)


# BOS, the opening of a user's message, the header that asks for an answer, the answer's end, and
# the header at the end of the prompt: without thinking, and with it.
ChatFragments: TypeAlias = tuple[Fragment, Openings, Openings, Fragment, tuple[Fragment, Fragment]]


class DialectFragments:
    """The fragments that a dialect spells in its own way: `dialect.made[DialectFragments]`.

    Attributes of an object that has at most thirty are the fastest to read.
    """

    def __init__(self, dialect: Dialect) -> None:
        own, words, tags = dialect.tokens, dialect.texts, dialect.tags
        self.bos = _fragment(own.bos, ("template", "bos"), message=None)
        self.user = Openings(own.user, _HEADER, _CONTENT)
        self.reminder = Openings(own.latest_reminder, _HEADER, _CONTENT)
        # The tokens with which the model ends its reasoning, and its turn.
        self.reasoning_end = _fragment(own.think_end, REASONING_LABEL, ANSWER_LABEL)
        self.answer_end = _fragment(own.eos, ("model", "eos"))
        # The headers that ask for an answer: with the model's thinking first, or without. Each
        # opens the message that answers, if there is one.
        self.ask_thinking = _asking(True, own.assistant, own.think_start)
        self.ask_answer = _asking(False, own.assistant, own.think_end)
        # The tokens that ask for a task. Each opens the message that carries the task.
        self.ask_task = {
            task: Openings(token, _TASK, ending=Ending("task", task=task))
            for task, token in own.tasks.items()
        }
        self.url = Openings(own.extracted_url, _TASK, ("caller", "extracted_url"))
        self.result_start = _fragment(words.result_start, _RESULT, _CONTENT)
        self.result_end = _fragment(words.result_end, _RESULT)
        self.unsupported_start = _fragment(words.unsupported_start, _TEMPLATE, _CONTENT)
        self.unsupported_end = _fragment(words.unsupported_end, _TEMPLATE, _CONTENT)
        self.tools_start = Fragment(
            MarkupText((BLANK_LINE, *dialect.tools_open.parts)), _TOOLS, ("caller", "tools")
        )
        self.tools_end = Fragment(dialect.tools_close, _TOOLS)
        self.response_format = _fragment(
            BLANK_LINE + words.response_format,
            ("template", "response_format"),
            ("caller", "response_format"),
        )
        self.block_open = Fragment(tags.block_open, CALLS_LABEL)
        self.block_close = Fragment(tags.block_close, CALLS_LABEL)
        self.invoke_open = Fragment(tags.invoke_open, CALLS_LABEL)
        self.name_end = _fragment(tags.name_end, CALLS_LABEL)
        self.invoke_close = Fragment(tags.invoke_close, CALLS_LABEL)
        system = dialect.system_token or ""
        # The opening of the prompt, before a system turn or the effort; and of later system turns.
        self.system_opening = Openings(system, _HEADER)
        self.later_system = Openings(system, _HEADER, _CONTENT)
        image = dialect.image_token or ""
        self.image = _fragment(image, ("template", "image"), _CONTENT)
        self.model_image = _fragment(image, ("template", "image"), ANSWER_LABEL)
        # The fragments with which the renderer's fast path writes chats; None if it cannot.
        self.chat: ChatFragments | None = None
        writes_plainly = dialect.layout == "v4" and dialect.systems_ask == "never"
        if writes_plainly and not (dialect.system_token or dialect.image_text_refused):
            endings = self.ask_answer[None], self.ask_thinking[None]
            self.chat = self.bos, self.user, self.ask_answer, self.answer_end, endings


class FragmentsV32:
    """The same for fragments that only V3.2's layout has (docs/format.md, section 11.4)."""

    def __init__(self, dialect: Dialect) -> None:
        own, words = dialect.tokens, dialect.texts
        self.developer_text = _fragment(words.developer_message, _HEADER, _CONTENT)
        self.results_start = Openings(words.results_start, _RESULT)
        self.results_end = _fragment(words.results_end, _RESULT)
        self.one_result_start = Openings(words.one_result_start, _RESULT, _CONTENT)
        self.one_result_end = _fragment(words.one_result_end, _RESULT)
        # The headers after results have no assistant token.
        self.think_after_results = _asking(True, own.think_start)
        self.answer_after_results = _asking(False, own.think_end)


def _fragment(
    word: str, label: Label, announces: Label | None = None, message: int | None = SAME_MESSAGE
) -> Fragment:
    """A fragment of one token, or of one text, which is not searched for tokens."""
    return Fragment(MarkupText((word,)), label, announces, message)


def _asking(thinks: bool, *header: Special) -> Openings:
    label = REASONING_LABEL if thinks else ANSWER_LABEL
    begins: Begins = "reasoning" if thinks else "answer"
    ending = Ending("think", thinking=True) if thinks else Ending("answer")
    return Openings(MarkupText(header), _HEADER, label, begins, ending)


@lru_cache
def effort_fragment(effort: str) -> Fragment:
    return Fragment(markup(effort), ("template", "effort"), message=None)


def forced_call(dialect: Dialect, name: str | None) -> Fragment:
    """The opening of a block of calls that the prompt writes for the model; with a name, of a call.

    The prompt supplies it, so it is the template's, as a header is.
    """
    tags = dialect.tags
    opening = list(tags.block_open.parts)
    if name is not None:
        opening += [*tags.invoke_open.parts, name, tags.name_end]
    return Fragment(MarkupText(opening), ("template", "tool_calls"), CALLS_LABEL)


# Assistant turns as the model wrote them (`Sampled`), and the parts that the prompt shows.


@dataclass(frozen=True)
class RawTurn:
    """A sampled turn, and its place in the prompt.

    `reasoned` says whether the message as it was read has reasoning, `thinks` whether the format
    shows reasoning here, `closes` whether the turn ends with EOS even if the model wrote none;
    `tokens` are those of the prompt's dialect.
    """

    sampled: types.Sampled
    reasoned: bool
    thinks: bool
    closes: bool
    tokens: Tokens

    @property
    def text(self) -> str | None:
        """The part of the model's text that is shown. None if only the message as read gives it."""
        if self.sampled.text is None:
            return None
        text = str.__str__(self.sampled.text)
        think_end = self.tokens.think_end
        if self.thinks or not self._began_thinking(text.startswith(think_end)):
            return text
        # The reasoning is dropped. If it was never ended, the text does not say what is left.
        _, ended, rest = text.partition(think_end)
        return rest if ended else None

    def ids(self, think_end: int, eos: int) -> list[int] | None:
        """The same for the ids, given those of the two tokens that matter."""
        if self.sampled.ids is None:
            return None
        ids = list(self.sampled.ids)
        began_thinking = self._began_thinking(ids[:1] == [think_end])
        if self.thinks and not began_thinking:
            ids.insert(0, think_end)
        elif began_thinking and not self.thinks:
            if think_end not in ids:
                return None
            del ids[: ids.index(think_end) + 1]
        if self.closes and ids[-1:] != [eos]:
            ids.append(eos)
        return ids

    def _began_thinking(self, begins_with_its_end: bool) -> bool:
        return self.reasoned or begins_with_its_end

    def entries(self, index: int | None, dialect: Dialect) -> Iterator[str]:
        """The turn as entries of a prompt: special tokens that it spells are real."""
        text = self.text or ""
        reasoned = self._began_thinking(text.startswith(self.tokens.think_end))
        return _model_entries(text, reasoned, self.thinks, self.closes, index, dialect)


def _model_entries(
    text: str, reasoned: bool, thinks: bool, closes: bool, index: int | None, dialect: Dialect
) -> Iterator[str]:
    own, words = dialect.tokens, dialect.made[DialectFragments]
    if thinks:
        yield REASONING[index]
        if reasoned:
            reasoning, ended, text = text.partition(own.think_end)
            yield _model_fragment(reasoning, REASONING_LABEL, dialect)
            if not ended and not closes:
                return
        yield words.reasoning_end
    else:
        yield ANSWER[index]
    answer = text.removesuffix(own.eos)
    block = _start_of_calls(answer, dialect.tags.dsml)
    yield _model_fragment(answer[:block], ANSWER_LABEL, dialect)
    if block < len(answer):
        yield _model_fragment(answer[block:], CALLS_LABEL, dialect)
    if closes or len(answer) < len(text):
        yield words.answer_end


def _model_fragment(text: str, label: Label, dialect: Dialect) -> Fragment:
    return Fragment(markup(text, dialect.special_tokens), label)


def _start_of_calls(text: str, dsml: str) -> int:
    """The start of the markup of calls: its first token, with a bracket and blank line before."""
    at = text.find(dsml)
    if at < 0:
        return len(text)
    before = text[:at].removesuffix("<")
    return len(before.removesuffix("\n\n"))


def prefix_entries(prefix: str, thinks: bool, dialect: Dialect) -> Iterator[str]:
    """The start of an answer that the request gives, which is the model's as if it were sampled."""
    return _model_entries(prefix, thinks, thinks, False, None, dialect)


# Parts that the format leaves out of a prompt, and the rules for them (docs/encoding.md).


OmissionRule: TypeAlias = Literal[
    "old_reasoning",  # it comes before the last user turn, and nothing keeps it
    "chat_mode",  # there is no reasoning without thinking
    "task_answer",  # the answer to a task has no reasoning
    "vanished",  # the role does not stay before the last user turn
    "joined",  # the message joined a user turn, which keeps the fields of its first message
    "not_asked",  # the task is followed by something that does not answer it
    "tool_choice",  # no tools are shown with tool_choice="none"
    "unseen_block",  # a block that is neither text nor an image, on another role than a user's
    "unread",  # the format has no use for this field on this role
]
"""The reason why something is not in the prompt."""


class Omission(NamedTuple):
    """Something that the prompt does not show.

    `message` is the index in the caller's messages, `field` the name of the field, or "message" for
    all of it, and `rule` says why.
    """

    message: int
    field: str
    rule: OmissionRule


_Omitted: TypeAlias = tuple[Omission, ...] | Callable[[], tuple[Omission, ...]]


class Prompt:
    """An encoded conversation.

    `text`, or `str(prompt)`, is the exact text. `dialect` is the release that it is written in,
    `images` are the records of the images in it, in order, and `sampled` the turns in it whose ids
    are known, by message. Two prompts are equal if they have the same pieces, dialect, images and
    sampled turns. `flat` are the strings of which the text is the join: texts, special tokens, and
    labelled fragments; `dropped` are the parts left out, or a function that finds them. With
    `image_sizes`, width and height of each image are given; else they are read from the images.
    """

    __slots__ = (
        *("_dropped", "_flat", "_image_sizes", "_pieces", "_text"),
        *("dialect", "images", "sampled"),
    )

    def __init__(
        self,
        flat: list[str],
        dialect: Dialect,
        images: list[Any] | None = None,
        dropped: _Omitted = (),
        sampled: Mapping[int, RawTurn] | None = None,
        image_sizes: Sequence[tuple[int, int] | None] | None = None,
    ) -> None:
        self._flat = flat
        self._image_sizes = image_sizes
        self._text: str | None = None
        self._pieces: tuple[Piece, ...] | None = None
        self._dropped = dropped
        self.dialect = dialect
        self.images: list[Any] = [] if images is None else images
        self.sampled: Mapping[int, RawTurn] = {} if sampled is None else sampled

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._flat)
        return self._text

    @property
    def text(self) -> str:
        """The exact text."""
        return str(self)

    def continued(self, *flat: str) -> Prompt:
        """The prompt with `flat`, texts and special tokens, at its end: the text of the model so
        far, with which it goes on."""
        shared = (self.dialect, self.images, self.dropped, self.sampled, self._image_sizes)
        return Prompt([*self._flat, *flat], *shared)

    def __len__(self) -> int:
        return len(self.text)

    def __repr__(self) -> str:
        return f"<Prompt of {len(self)} characters, dialect {self.dialect}>"

    def _repr_html_(self) -> str:
        """The prompt in colours, as a notebook displays it."""
        return views["html"](self)

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
        state = (self._flat, self.dialect, self.images, self.dropped)
        return Prompt, (*state, dict(self.sampled), self._image_sizes)

    @property
    def ending(self) -> Ending:
        """The ending of the prompt: the model's next step, and the text of a turn left open."""
        return ending_of(self._flat)

    @property
    def dropped(self) -> tuple[Omission, ...]:
        """Everything that the format left out: (message, field, rule), in the messages' order.

        Read this before you change the messages: it is computed by reading them once more.
        """
        if callable(self._dropped):
            self._dropped = self._dropped()
        return self._dropped

    @property
    def image_grids(self) -> list[image_grid.ImageGrid | None]:
        """The cells and tokens of each image, None if its size is not known.

        The size is known if the image's record has its bytes, and they are those of a picture. In
        "v4-vision", `tokens` also depend on the text before the image: see `Tokenizer.count`.
        """
        return image_grid.grids_of(self._known_sizes(), self.dialect)

    def with_image_size(self, width: int, height: int) -> Prompt:
        """The same prompt, in which every image whose size is not known has `width` and `height`.

        For counting before the images are there. Raises an `OptionError` for an impossible size.
        """
        image_grid.image_grid(width, height)
        return self.with_image_sizes(lambda _: (width, height))

    def with_image_sizes(self, size_of: Callable[[Any], tuple[int, int] | None]) -> Prompt:
        """The same prompt, in which images whose size is not known have the one from `size_of`.

        It is called with the record of the image, and may return None.
        """
        pairs = zip(self._known_sizes(), self.images, strict=True)
        sizes = [size_of(record) if size is None else size for size, record in pairs]
        shared = (self.dialect, self.images, self._dropped, self.sampled)
        return Prompt(self._flat, *shared, sizes)

    def _known_sizes(self) -> Sequence[tuple[int, int] | None]:
        if self._image_sizes is None:
            from dsv4._images.image_source import maybe_size

            self._image_sizes = [maybe_size(record) for record in self.images]
        return self._image_sizes

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The prompt in pieces, with origin, message and field. They add up to the text."""
        if self._pieces is None:
            self._pieces = tuple(pieces_of(self._flat))
        return self._pieces

    def runs(self) -> Iterator[tuple[str, Special | None]]:
        """Each text between special tokens as one string, and the token after it.

        A tokenizer has to see these runs: pieces of text by themselves would give other ids.
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
        """Places where ordinary text spells a special token of the dialect: (start, end) pairs.

        Such text is not a token: it is looked for in runs of text between the real ones.
        """
        spelling = self.dialect.made[_spelling]
        places: list[tuple[int, int]] = []
        start = 0
        for run, special in self.runs():
            places += ((start + m.start(), start + m.end()) for m in spelling.finditer(run))
            start += len(run) + len(special or "")
        return places

    def _cut(self, at: int) -> Prompt:
        """The prompt up to the entry `at`."""
        shared = (self.dialect, self.images, self._dropped, self.sampled, self._image_sizes)
        return Prompt(self._flat[:at], *shared)


def _spelling(dialect: Dialect) -> Any:
    return spelled(dialect.special_tokens)


# Prompts with another ending than the format gives them.


def without_final_header(prompt: Prompt) -> Prompt:
    """The prompt without the header of an answer that is still to come.

    A task's token, which also asks for an answer, stays: the caller gave it.
    """
    return prompt._cut(-1) if prompt.ending.kind in ("think", "answer") else prompt


def maybe_open_reasoning(prompt: Prompt) -> Prompt | None:
    """The prompt up to the end of the last turn's reasoning, which stays open. None if there is no
    reasoning."""
    entries = prompt._flat
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if isinstance(entry, Fragment):
            if entry.label[1] == "reasoning" and str(entry) == str(prompt.dialect.tokens.think_end):
                return prompt._cut(at)
            if entry.message != SAME_MESSAGE:
                return None
    return None


# A prompt from its tokens, which was not encoded here.


def prompt_from_tokens(parts: Iterable[str], dialect: Dialect) -> Prompt:
    """The prompt of these parts: special tokens, and texts, in which nothing is a token.

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
