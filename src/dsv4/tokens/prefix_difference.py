"""The place at which a prompt is no longer a prefix of the next one, and the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from dsv4._encode.prompt import Omission, Piece, Prompt
from dsv4._format.dialects import Dialect
from dsv4._images.image_source import identity
from dsv4.tokens.coder import Coder, common_prefix_length
from dsv4.tokens.masks import AttributedIds

ENDS = "the second prompt ends here"
MERGED = "text follows text without a special token between, and their tokens merged"
BOS = "one prompt has no BOS"
EFFORT = "the reasoning effort differs"
TOOLS = "the tools differ, or stand elsewhere"
FORMAT = "the response format differs, or stands elsewhere"
DROPPED = "reasoning is dropped once another user turn follows"
KEPT = "reasoning is kept once there are tools"
THINKING = "one prompt thinks and the other does not"
DROPPING = "one prompt drops old reasoning and the other does not"
INSTEAD = "another message came where an answer was asked for"
RETURNED = "a developer turn is kept once there are tools"
VANISHED = "a developer turn vanishes once another user turn follows"
ORDER = "tool results are put in the order of their calls"
OPEN = "one prompt leaves the turn open"
OTHER = "another message stands here"
PICTURE = "another picture stands here"


class Difference(NamedTuple):
    """The place at which a prompt begins to differ from another, and the cause.

    `token` is the index of the first token that differs. `message` and `field` say what is there in
    the text: the index of the message, None if there is none, and the part of it. Tokens may differ
    earlier than texts, if the end of a text has merged with the text that follows. `cause` is one
    of the texts of this module.
    """

    token: int
    message: int | None
    field: str
    cause: str


def why_not_prefix(a: Prompt, b: Prompt, tokenizer: Coder | None = None) -> Difference | None:
    """The place at which `b` begins to differ from `a`, and the cause.

    `a` and `b` are results of encoding, `tokenizer` gives their ids; without one the bundled
    vocabulary does. Returns None if all of `a` is the start of `b`. Raises the errors of encoding
    them to ids.
    """
    tokenizer = tokenizer or Coder.load()
    return difference_between(
        ComparedPrompt(tokenizer.attributed(a), a.dialect, lambda: a.dropped, a.images),
        ComparedPrompt(tokenizer.attributed(b), b.dialect, lambda: b.dropped, b.images),
    )


class ComparedPrompt:
    """One of two prompts: its ids, its pieces, and the parts that the format left out of it."""

    def __init__(
        self,
        attributed: AttributedIds,
        dialect: Dialect,
        dropped: Callable[[], Iterable[Omission]],
        images: Sequence[Any] = (),
    ) -> None:
        self.attributed = attributed
        self.dialect = dialect
        self._dropped = dropped
        self.images = images

    def pictures(self) -> Iterator[tuple[int, Piece, str]]:
        """Token, piece and identity of each image: different images have the same placeholder."""
        places = (
            (start, piece)
            for start, _, piece in self.attributed
            if piece.special and piece.field == "image"
        )
        for (start, piece), record in zip(places, self.images, strict=False):
            yield start, piece, identity(record)

    # The rest is needed only if two prompts differ.

    @cached_property
    def rules(self) -> set[Omission]:
        return set(self._dropped())

    @cached_property
    def messages(self) -> set[int | None]:
        return {piece.message for piece in self.attributed.pieces}

    @cached_property
    def latest(self) -> int:
        """The last message that has a piece in the prompt."""
        return max((message for message in self.messages if message is not None), default=-1)

    def of(self, field: str) -> list[tuple[int | None, str]]:
        """All pieces of a field: message and text."""
        return [
            (piece.message, piece.text) for piece in self.attributed.pieces if piece.field == field
        ]

    def has(self, message: int | None, field: str) -> bool:
        return any(p.message == message and p.field == field for p in self.attributed.pieces)

    def is_preamble(self, piece: Piece) -> bool:
        """Whether a piece opens the request's own tools and format, which belong to no message."""
        is_system = piece.special and piece.text == self.dialect.system_token
        return piece.message is None and is_system

    def is_asking(self, piece: Piece) -> bool:
        """Whether a piece belongs to the header that asks for an answer."""
        own = self.dialect.tokens
        asking = own.assistant, own.think_start, own.think_end
        return piece.field == "header" and piece.text in asking

    def comes_after(self, at: int, message: int | None) -> bool:
        """Whether a message has pieces from a piece on."""
        return any(piece.message == message for piece in self.attributed.pieces[at:])

    def asks_after(self, at: int) -> bool:
        """Whether a turn that asks for an answer begins from a piece on."""
        opening = (self.dialect.tokens.user, self.dialect.system_token)
        pieces = self.attributed.pieces
        return any(
            pieces[n].special
            and pieces[n].field == "header"
            and pieces[n].text in opening
            and (self.dialect.results_ask or _says(pieces, n + 1))
            for n in range(at, len(pieces))
        )

    @cached_property
    def thinks(self) -> bool | None:
        """Whether this is a prompt of thinking mode. None if nothing in it shows that."""
        heads = {piece.text for piece in self.attributed.pieces if piece.field == "header"}
        if self.dialect.tokens.think_start in heads or any(
            p.field == "reasoning" for p in self.attributed.pieces
        ):
            return True
        ruled = {omission.rule for omission in self.rules}
        if "chat_mode" in ruled or "old_reasoning" in ruled:
            return "old_reasoning" in ruled
        last = next((p for p in reversed(self.attributed.pieces) if p.field == "header"), None)
        # Only the last question of a prompt is never answered without thinking in thinking mode.
        asks = last is not None and last.text is self.dialect.tokens.think_end
        ends_asking = last is not None and asks and last.message is None
        return False if ends_asking else None


def difference_between(
    old: ComparedPrompt, new: ComparedPrompt, before: int = 0
) -> Difference | None:
    """The same for ids and their pieces, with `before` tokens in front of both."""
    token = common_prefix_length(old.attributed.ids, new.attributed.ids)
    for (place, piece, was_shown), (_, _, is_shown) in zip(
        old.pictures(), new.pictures(), strict=False
    ):
        if place < token and was_shown != is_shown:
            return Difference(before + place, piece.message, piece.field, PICTURE)
    if token == len(old.attributed.ids):
        return None
    change = _Change(old, new, *_first_difference(old.attributed.pieces, new.attributed.pieces))
    if change.was_at == len(old.attributed.pieces):
        was = old.attributed.owner(token)
        return Difference(before + token, was.message, was.field, MERGED)
    was = change.was
    if change.now_at == len(new.attributed.pieces):
        return Difference(before + token, was.message, was.field, ENDS)
    now = change.now
    if was.message is None:
        return Difference(before + token, now.message, was.field, _cause(change))
    came_before = now.message is not None and now.message < was.message
    where = now if came_before else was
    return Difference(before + token, where.message, where.field, _cause(change))


class _Change(NamedTuple):
    """The place at which the texts of two prompts begin to differ: the pieces there, by index.

    Tokens may differ earlier, if the end of a text has merged with the text that follows.
    """

    old: ComparedPrompt
    new: ComparedPrompt
    was_at: int
    now_at: int

    @property
    def was(self) -> Piece:
        return self.old.attributed.pieces[self.was_at]

    @property
    def now(self) -> Piece:
        return self.new.attributed.pieces[self.now_at]

    @property
    def fields(self) -> set[str]:
        return {self.was.field, self.now.field}


def _first_difference(old: Sequence[Piece], new: Sequence[Piece]) -> tuple[int, int]:
    """The pieces at which two prompts begin to differ. One past the last is not a piece."""
    was_at = now_at = 0
    a = b = ""  # the rest of the pieces before these
    while True:
        while not a and was_at < len(old) and not old[was_at].special:
            a, was_at = old[was_at].text, was_at + 1
        while not b and now_at < len(new) and not new[now_at].special:
            b, now_at = new[now_at].text, now_at + 1
        if a and b:
            same = common_prefix_length(a, b)
            if same < min(len(a), len(b)):
                return was_at - 1, now_at - 1
            a, b = a[same:], b[same:]
        elif a or b:
            return was_at - bool(a), now_at - bool(b)
        elif was_at == len(old) or now_at == len(new) or old[was_at].text != new[now_at].text:
            return was_at, now_at
        else:
            was_at, now_at = was_at + 1, now_at + 1


def _cause(change: _Change) -> str:
    name = next((cause for cause, is_it in _CAUSES.items() if is_it(change)), None)
    if name is not None:
        return name
    if change.was.message != change.now.message:
        return OTHER
    return f"the {' or '.join(sorted(change.fields))} of the message differs"


def _differs(field: str) -> Callable[[_Change], bool]:
    """A test for a field: whether it stands here, and differs in the other prompt."""

    def differs(c: _Change) -> bool:
        here = c.was.field == field or (c.old.is_preamble(c.was) and c.old.has(None, field))
        here = here or (c.now.field == field and c.now.message in c.old.messages)
        return here and c.old.of(field) != c.new.of(field)

    return differs


def _says(pieces: Sequence[Piece], start: int) -> bool:
    """Whether a user turn, whose pieces begin at `start`, has more than results."""
    in_result, in_block = False, True
    for n in range(start, len(pieces)):
        piece = pieces[n]
        if piece.field == "tool_result":
            in_result, in_block = not in_result, False
        elif not in_result:
            if piece.field == "header" or (in_block and piece.field == "separator"):
                return in_block
            if piece.field != "separator":
                return True
            in_block = True
    return in_block


# Reasoning that one prompt shows and the other does not.


def _turns_header(before: ComparedPrompt, was: Piece, now: Piece) -> bool:
    """Whether a header lets the model think in the prompt of `was`, and not in the other."""
    own = before.dialect.tokens
    return was.special and (was.text, now.text) == (own.think_start, own.think_end)


def _loses_reasoning(c: _Change) -> bool:
    if _turns_header(c.old, c.was, c.now):
        return c.fields == {"header"}
    # A turn with only reasoning is not in the prompt at all without it.
    return c.was.field == "reasoning" and not c.new.has(c.was.message, "reasoning")


def _gets_reasoning(c: _Change) -> bool:
    if _turns_header(c.new, c.now, c.was):
        return c.fields == {"header"}
    if c.now.field != "reasoning" or c.now.message is None or c.now.message > c.old.latest:
        return False
    return not c.old.has(c.now.message, "reasoning")


def _is_dropped(c: _Change) -> bool:
    """Whether the second prompt lacks reasoning that comes before a question new in that prompt."""
    return (
        _loses_reasoning(c)
        and c.new.thinks is not False
        and c.new.asks_after(c.now_at)
        and not c.old.asks_after(c.was_at)
    )


def _is_kept(c: _Change) -> bool:
    return _gets_reasoning(c) and bool(c.new.of("tools")) and not c.old.of("tools")


def _thinks_otherwise(c: _Change) -> bool:
    if not (_loses_reasoning(c) or _gets_reasoning(c)):
        return False
    return None not in (c.old.thinks, c.new.thinks) and c.old.thinks != c.new.thinks


# Messages that were added, left out or moved.


def _is_question(c: _Change) -> bool:
    """Whether the first prompt has its last question here."""
    last = c.old.attributed.pieces[-1]
    asks = c.was.field == "task" or c.old.is_asking(c.was)
    tasked = last.field == "task" and last.message == c.was.message
    return asks and (c.was.message is None or tasked)


def _is_instead(c: _Change) -> bool:
    """Whether the second prompt has one more message, and it is not the answer."""
    return _is_question(c) and not c.new.is_asking(c.now) and bool(c.new.messages - c.old.messages)


def _is_moved(c: _Change) -> bool:
    """Whether a later message comes first: only the results of calls change places.

    It may begin before the difference, if it begins with the same text.
    """
    if c.was.message is None or not c.new.comes_after(c.now_at, c.was.message):
        return False
    if c.now.message is not None and c.now.message > c.was.message:
        return True
    before = c.new.attributed.pieces[: c.now_at]
    return any(p.message is not None and p.message > c.old.latest for p in before)


def _is_vanished(c: _Change) -> bool:
    """Whether a message is left out of the second prompt: this one, or one with the same text."""
    messages = {omission.message for omission in c.new.rules if omission.rule == "vanished"}
    if c.was.message is None or c.was.message == c.now.message:
        return False
    return bool(messages & c.old.messages)


def _is_back(c: _Change) -> bool:
    """Whether the second prompt has a message that the first left out because it has no tools.

    It stands before the difference: the message after it may begin with the same text.
    """
    if c.was.message == c.now.message or c.old.of("tools") or not c.new.of("tools"):
        return False
    return any(
        message is not None and message < c.old.latest
        for message in c.new.messages - c.old.messages
    )


def _is_open(c: _Change) -> bool:
    if "eos" not in c.fields or c.was.message != c.now.message:
        return False
    return c.old.has(c.was.message, "eos") != c.new.has(c.was.message, "eos")


# The first that is true is the cause.
_CAUSES: dict[str, Callable[[_Change], bool]] = {
    VANISHED: _is_vanished,
    BOS: lambda c: (c.was.field == "bos") != (c.now.field == "bos"),
    EFFORT: _differs("effort"),
    TOOLS: _differs("tools"),
    FORMAT: _differs("response_format"),
    KEPT: _is_kept,
    DROPPED: _is_dropped,
    THINKING: _thinks_otherwise,
    DROPPING: lambda c: _loses_reasoning(c) or _gets_reasoning(c),
    RETURNED: _is_back,
    INSTEAD: _is_instead,
    ORDER: _is_moved,
    OPEN: _is_open,
}
