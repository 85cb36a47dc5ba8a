"""A prompt in rows, before it is written for a terminal or a page.

A row is one field of one message: its facts for the margin, and lines of styled segments. Text that
the prompt leaves out is a row too, a ghost. No segment contains anything that a terminal or a
browser would act on; a segment with a sign in place of a character also has the character.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dsv4._encode.inputs import fields_of
from dsv4._encode.prompt import Piece, Prompt
from dsv4._format.dialects import ROLES, Dialect
from dsv4._format.endings import EndingKind
from dsv4._view.characters import is_displayable, visible_character
from dsv4._view.image_captions import ImageCount, image_counts

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


# The end of a prompt in words: what the model does from there on.


class EndingSummary(NamedTuple):
    """Whether there is something to generate, and a sentence about it."""

    generates: bool
    words: str


_ENDING_WORDS: dict[EndingKind, str] = {
    "think": "the model thinks from here on",
    "answer": "the model answers from here on",
    "task": "the model does the task from here on",
    "continue": "the model continues its turn from here on",
    "nothing": "nothing to generate: the last turn asks for no answer",
}


def describe_ending(prompt: Prompt) -> EndingSummary:
    kind = prompt.ending.kind
    if kind == "nothing" and prompt.pieces and prompt.pieces[-1].field == "eos":
        return EndingSummary(False, "nothing to generate: the last turn is finished")
    return EndingSummary(kind != "nothing", _ENDING_WORDS[kind])


class Segment(NamedTuple):
    """Text in a style. `original` is the text of the prompt that it stands for, if that differs."""

    text: str
    style: str
    original: str | None = None


Line: TypeAlias = tuple[Segment, ...]


class ViewRow(NamedTuple):
    """A field of a message.

    `summary` is a line that may replace all others, `note` a remark on the row. `images` are those
    in the row. `ghost` is the reason why the row is not in the prompt, None if it is. `trained`
    says whether any of it is trained on, None without a training mask.
    """

    message: int | None
    role: str
    field: str
    tokens: int | None
    lines: tuple[Line, ...]
    summary: str | None = None
    note: str | None = None
    ghost: str | None = None
    trained: bool | None = None
    images: tuple[ImageCount, ...] = ()


class View(NamedTuple):
    rows: tuple[ViewRow, ...]
    ending: EndingSummary
    total: str


# The key of a row of the prompt: message and field.
_Key: TypeAlias = tuple[int | None, str]

# Parts of a user's turn that are shown as one field.
_CONTENT = ("content", "separator", "tool_result", "image")

_MODEL_STYLES = {"reasoning": "reasoning", "tool_calls": "calls"}


def view_of(
    prompt: Prompt,
    messages: Sequence[Any] | None = None,
    tokenizer: Tokenizer | None = None,
    policy: str | None = None,
) -> View:
    """A prompt in rows.

    Without its `messages`, roles are taken from the prompt, and there are no ghosts. Without a
    `tokenizer`, rows have no counts. `policy` is a training mask: rows then say whether they are
    trained on.
    """
    counts = None if tokenizer is None else _Counts(tokenizer, prompt)
    roles = roles_in(prompt) if messages is None else _roles(messages)
    pills = _pills(prompt.dialect)
    trained = _TrainedOn(prompt, policy)
    images = image_counts(prompt, tokenizer)
    rows = [
        _row(key, list(pieces), roles, counts.next(key) if counts else None, trained, images, pills)
        for key, pieces in groupby(_flagged(prompt), lambda piece: _key(piece.message, piece.field))
    ]
    rows = list(_with_ghosts(_with_moves(rows), prompt, messages or ()))
    return View(tuple(rows), describe_ending(prompt), _total(prompt, counts, trained, rows))


class _Counts:
    """The number of tokens of each row. Spans are in the order of the rows; some rows have none."""

    def __init__(self, tokenizer: Tokenizer, prompt: Prompt) -> None:
        self._spans = tokenizer.counted(prompt).spans()
        self._at = 0
        self.all = self._spans[-1].end if self._spans else 0
        self.is_exact = None not in tokenizer.image_tokens(prompt)

    def next(self, key: _Key) -> int:
        start = self._at
        while self._at < len(self._spans) and self._key_here() == key:
            self._at += 1
        return sum(span.end - span.start for span in self._spans[start : self._at])

    def _key_here(self) -> _Key:
        span = self._spans[self._at]
        return _key(span.message, span.field)


class _TrainedOn:
    """Whether a training mask trains on pieces."""

    def __init__(self, prompt: Prompt, policy: str | None) -> None:
        self.policy = policy
        if policy is not None:
            from dsv4.tokens.masks import weigher

            self._weigh = weigher(policy, prompt.pieces)

    def __call__(self, pieces: Iterable[Piece]) -> bool | None:
        return None if self.policy is None else any(self._weigh(piece) > 0 for piece in pieces)


def _key(message: int | None, field: str) -> _Key:
    return message, "content" if field in _CONTENT else field


def _total(
    prompt: Prompt, counts: _Counts | None, trained: _TrainedOn, rows: Sequence[ViewRow]
) -> str:
    counted = f"{counts.all:,} tokens" if counts else ""
    if counts and not counts.is_exact:
        counted = f"at least {counted}"
    if trained.policy is not None and counts:
        total = sum(row.tokens or 0 for row in rows if row.trained)
        counted += f", {total:,} trained on with the mask {trained.policy}"
    size = f"{len(prompt):,} characters, dialect {prompt.dialect}"
    return f"{counted}, {size}" if counted else size


def _flagged(prompt: Prompt) -> Iterator[Piece]:
    """The pieces; text that spells a special token is a piece of its own, of origin "flag"."""
    borders = [border for place in prompt.special_text for border in place]
    start = 0
    for piece in prompt.pieces:
        end = start + len(piece.text)
        first, last = bisect_right(borders, start), bisect_left(borders, end)
        if piece.special or (first == last and not first % 2):
            yield piece
        else:
            cuts = [start, *borders[first:last], end]
            for n, (a, b) in enumerate(pairwise(cuts), first):
                text = piece.text[a - start : b - start]
                # After an odd number of borders, the text is inside a place.
                yield piece._replace(text=text, origin=_FLAG if n % 2 else piece.origin)
        start = end


_FLAG: Any = "flag"


# Roles.


def roles_in(prompt: Prompt) -> dict[int, str]:
    """The role of each message, as far as the prompt shows it: a developer's turn is a user's."""
    roles: dict[int, str] = {}
    own = prompt.dialect.tokens
    opening: dict[str, str] = {
        own.user: "user",
        own.assistant: "assistant",
        own.latest_reminder: "latest_reminder",
    }
    for piece in prompt.pieces:
        if piece.message is not None:
            roles[piece.message] = _role_of(piece, opening) or roles.get(piece.message, "system")
    return roles


def _role_of(piece: Piece, opening: Mapping[str, str]) -> str | None:
    """The role of its message that a piece shows, if any."""
    if piece.origin == "model":
        return "assistant"
    return opening.get(piece.text) if piece.special else _PARTS.get(piece.field)


# The fields of messages that join a user's turn.
_PARTS = {"tool_result": "tool", "separator": "user"}


def _roles(messages: Sequence[Any]) -> dict[int, str]:
    return {n: str(fields_of(message).get("role")) for n, message in enumerate(messages)}


# Rows.


def _row(
    key: _Key,
    pieces: list[Piece],
    roles: dict[int, str],
    count: int | None,
    trained: _TrainedOn,
    images: Iterator[ImageCount],
    pills: Mapping[str, str],
) -> ViewRow:
    index, field = key
    role = roles.get(-1 if index is None else index, "")
    role = role if role in ROLES else ""
    lines = _lines(segment for piece in pieces for segment in _segments(piece, role, pills))
    summary = _summary(pieces) if field == "tools" else None
    count_here = sum(piece.special and piece.field == "image" for piece in pieces)
    own_images = tuple(islice(images, count_here))
    return ViewRow(
        index, role, field, count, lines, summary, images=own_images, trained=trained(pieces)
    )


def _summary(pieces: list[Piece]) -> str:
    schemas = "".join(piece.text for piece in pieces if piece.origin != "template")
    tools = schemas.count("\n") + 1
    characters = sum(len(piece.text) for piece in pieces)
    return f"{tools} tool{'s' if tools != 1 else ''}, {characters:,} characters"


MOVED = "moved: results follow the order of their calls"


def _with_moves(rows: Sequence[ViewRow]) -> Iterator[ViewRow]:
    """The rows, with a note on results whose order differs from the conversation's."""
    contents = (row.message for row in rows if row.field == "content")
    order = [message for message in dict.fromkeys(contents) if message is not None]
    moved = {a for a, b in zip(order, sorted(order), strict=True) if a != b}
    for row in rows:
        if row.message in moved and row.field == "content":
            moved.discard(row.message)
            yield row._replace(note=MOVED)
        else:
            yield row


# Ghosts: fields that the conversation has and the prompt does not.

_REASONS = {
    "old_reasoning": "dropped: reasoning before the last user turn is left out",
    "chat_mode": "dropped: there is no reasoning in chat mode",
    "task_answer": "dropped: the answer to a task has no reasoning",
    "vanished": "dropped: this role does not stay before the last user turn",
    "joined": "lost: the message joined the turn before it",
    "not_asked": "lost: what follows does not answer the task",
    "tool_choice": "left out: tool_choice is none",
    "unseen_block": "left out: it is neither text nor an image",
}


def _with_ghosts(
    rows: Iterable[ViewRow], prompt: Prompt, messages: Sequence[Any]
) -> Iterator[ViewRow]:
    waiting = deque(_ghosts(prompt, messages))
    for row in rows:
        while waiting and _comes_before(waiting[0], row):
            yield waiting.popleft()
        yield row
    yield from waiting


def _comes_before(ghost: ViewRow, row: ViewRow) -> bool:
    """Whether a ghost is shown before a row: reasoning before the answer, all else after its
    message."""
    if row.message is None or ghost.message is None:
        return False
    if ghost.field in ("reasoning", "reasoning_content") and row.field != "header":
        return row.message >= ghost.message
    return row.message > ghost.message


def _ghosts(prompt: Prompt, messages: Sequence[Any]) -> Iterator[ViewRow]:
    for index, field, rule in prompt.dropped:
        if rule not in _REASONS or not 0 <= index < len(messages):
            continue
        fields = fields_of(messages[index])
        value = fields.get("content" if field == "message" else field)
        lines = _lines(_text_segments(_as_text(value), "ghost"))
        role = str(fields.get("role"))
        name = "content" if field == "message" else field
        yield ViewRow(index, role, name, None, lines, ghost=_REASONS[rule])


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"


# Pieces -> segments. A line ends with a segment that makes the newline visible.

_NEWLINE = Segment("⏎", "space", "\n")


@lru_cache
def _pills(dialect: Dialect) -> Mapping[str, str]:
    """The styles of special tokens, except those between turns."""
    own = dialect.tokens
    return {
        **dict.fromkeys((own.bos, own.eos, dialect.tags.dsml), "pill-frame"),
        **dict.fromkeys((own.think_start, own.think_end), "pill-think"),
        **dict.fromkeys((*own.tasks.values(), own.extracted_url), "pill-task"),
    }


def _segments(piece: Piece, role: str, pills: Mapping[str, str]) -> Iterator[Segment]:
    if piece.special:
        yield Segment(piece.text, pills.get(piece.text, "pill-turn"))
    else:
        yield from _text_segments(piece.text, _style(piece, role))


def _text_segments(text: str, style: str) -> Iterator[Segment]:
    first, *others = text.split("\n")
    yield from _visible(first, style)
    for line in others:
        yield _NEWLINE
        yield from _visible(line, style)


def _style(piece: Piece, role: str) -> str:
    if piece.origin in (_FLAG, "template"):
        return piece.origin
    if piece.origin == "model":
        return _MODEL_STYLES.get(piece.field, "assistant")
    return "template" if piece.field in ("tools", "response_format") else role or "user"


_SPACES = re.compile(r"(^ +| +$| {2,})")


def _visible(text: str, style: str) -> Iterator[Segment]:
    """A line in segments, with its white space and control characters made visible."""
    for part in _SPACES.split(text):
        if part.isspace() and part.strip(" ") == "":
            yield Segment("·" * len(part), "space", part)
        elif part.isprintable():
            if part:
                yield Segment(part, style)
        else:
            yield from _printable(part, style)


def _printable(text: str, style: str) -> Iterator[Segment]:
    for form, chars in groupby(text, _form):
        part = "".join(chars)
        if form == "shown":
            yield Segment(part, style)
        else:
            yield Segment("".join(map(visible_character, part)), "space", part)


def _form(char: str) -> str:
    """The form of a character. Tabs have their own, because a page shows them unchanged."""
    return "tab" if char == "\t" else "shown" if is_displayable(char) else "hidden"


def _lines(segments: Iterable[Segment]) -> tuple[Line, ...]:
    lines: list[list[Segment]] = [[]]
    for segment in segments:
        lines[-1].append(segment)
        if segment is _NEWLINE:
            lines.append([])
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return tuple(map(tuple, lines))


# Texts that are too long to be shown whole, as a beginning and a rest.


# Of a text with more lines, or with more characters, only the beginning is shown.
MOST_LINES = 16
MOST_CHARACTERS = 3_000
HEAD_LINES = 8
HEAD_CHARACTERS = 1_200


class FoldedRow(NamedTuple):
    """The beginning of a row, the rest, which may begin in the middle of a line, and a summary of
    the rest: None if the beginning is the whole row."""

    head: tuple[Line, ...]
    rest: tuple[Line, ...] = ()
    summary: str | None = None


def folded_row(row: ViewRow) -> FoldedRow:
    """A row divided into beginning and rest, if it is long."""
    if row.summary is not None:
        return FoldedRow((), row.lines, row.summary)
    characters = sum(map(_line_size, row.lines))
    if len(row.lines) <= MOST_LINES and characters <= MOST_CHARACTERS:
        return FoldedRow(row.lines)
    space = HEAD_CHARACTERS
    for n, line in enumerate(row.lines[:HEAD_LINES]):
        if _line_size(line) > space:
            begin, end = _cut_line(line, space)
            return _folded((*row.lines[:n], begin), (end, *row.lines[n + 1 :]))
        space -= _line_size(line)
    return _folded(row.lines[:HEAD_LINES], row.lines[HEAD_LINES:])


def _folded(head: tuple[Line, ...], rest: tuple[Line, ...]) -> FoldedRow:
    lines = f"{len(rest):,} more line{'s' * (len(rest) != 1)}"
    return FoldedRow(head, rest, f"{lines}, {sum(map(_line_size, rest)):,} characters")


def _line_size(line: Line) -> int:
    return sum(len(segment.text) for segment in line)


def _cut_line(line: Line, room: int) -> tuple[Line, Line]:
    """A line in two parts, the first of at most `room` characters. Only plain text is cut."""
    for n, segment in enumerate(line):
        if len(segment.text) > room:
            if segment.original is not None or segment.style.startswith("pill"):
                return line[:n], line[n:]
            text, style, _ = segment
            begin, end = Segment(text[:room], style), Segment(text[room:], style)
            return (*line[:n], begin), (end, *line[n + 1 :])
        room -= len(segment.text)
    return line, ()
