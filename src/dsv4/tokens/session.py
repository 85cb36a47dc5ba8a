"""A conversation that grows, paid for by what is new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dsv4.encode.prompt import Piece, Prompt
from dsv4.encode.request import encode
from dsv4.encode.turns import as_dict, last_turn, turn_stop
from dsv4.parse.message import Message, assemble
from dsv4.spec import tokens
from dsv4.spec.dialects import dialect_named
from dsv4.tokens.prefix import Difference, difference_between
from dsv4.tokens.stream import StreamParser
from dsv4.tokens.tokenizer import Tokenizer

# Options that only concern the first turn. What follows a context is encoded without them.
_OPENING = ("tools", "response_format", "effort", "bos")

# The owner of tokens whose pieces are not kept.
_SETTLED = Piece("", False, "template", None, "settled")


class Session:
    """Messages so far, and their ids. Options are those of `dsv4.encode`.

    What stands before the last user turn is settled: kept as ids, and not looked at again. Only a
    message that brings tools, or a first system message for the request's tools, changes it.
    """

    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._dialect = dialect_named(options.get("dialect", "v4"))
        self._messages: list[dict[str, Any]] = []
        self._sampled: dict[int, list[int]] = {}
        self._calls: int | None = None  # the last assistant message with calls
        self._tools = bool(options.get("tools"))
        self._system = False
        self._settled: list[int] = []
        self._settled_messages = 0
        self._tail: list[int] = []
        self._owners: list[Piece] = []  # of the tail's tokens
        self._current = True
        # Where, and why, the last call of `prompt_ids` gave something else than the call before it
        # went on. None if all that was there before is still there.
        self.rewritten: Difference | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self._messages)

    def append(self, message: Any) -> None:
        """Adds a message: a dict, or what parsing gave."""
        index = len(self._messages)
        fields = as_dict(message, f"messages[{index}]")
        self._messages.append(fields)
        self._current = False
        if self._brings_tools(fields) or self._takes_extras(fields):
            self._settled, self._settled_messages = [], 0
        if fields.get("role") == "assistant" and fields.get("tool_calls"):
            self._calls = index

    def append_sampled(self, ids: Iterable[int]) -> Message:
        """Adds what the model wrote, and keeps it as it was sampled. Returns how it reads."""
        sampled = list(ids)
        thinking = bool(self._options.get("thinking", True))
        parser = StreamParser(
            self._tokenizer,
            thinking=thinking,
            tools=self._options.get("tools"),
            dialect=self._dialect,
        )
        message = assemble([*parser.feed_ids(sampled), *parser.finish()])
        fields = message.to_dict(ids=f"sampled_{len(self._messages)}")
        if sampled[-1:] != [self._tokenizer.special_id(tokens.EOS)]:
            fields["wo_eos"] = True
        self._sampled[len(self._messages)] = sampled
        self.append(fields)
        return message

    def prompt_ids(self) -> list[int]:
        """The ids of the conversation so far. The last turn asks for an answer, if it can."""
        if not self._current:
            self._encode_tail()
            self._current = True
        return self._settled + self._tail

    # What changes settled turns.

    def _brings_tools(self, message: dict[str, Any]) -> bool:
        """Whether this message switches the dropping of reasoning off."""
        if self._tools or not message.get("tools"):
            return False
        role = message.get("role")
        if role == "tool" or (role == "user" and not self._dialect.users_keep_tools):
            return False
        self._tools = role != "user" or last_turn(self._messages) == len(self._messages) - 1
        return self._tools

    def _takes_extras(self, message: dict[str, Any]) -> bool:
        """Whether this is the system message that the request's own tools go to."""
        if self._system or message.get("role") != "system":
            return False
        self._system = True
        extras = self._options.get("tools") or self._options.get("response_format")
        return bool(extras) and len(self._messages) > 1

    # The tail: what is not settled.

    def _encode_tail(self) -> None:
        old_ids, old_owners = self._tail, self._owners
        ids, owners = self._tail_ids()
        if self._settled and owners and not owners[0].special:
            # A developer turn vanished, and text meets text: their tokens may have merged.
            old_ids, old_owners = (
                self._settled + old_ids,
                [_SETTLED] * len(self._settled) + old_owners,
            )
            self._settled, self._settled_messages = [], 0
            ids, owners = self._tail_ids()
        start, before = self._settled_messages, len(self._settled)
        self.rewritten = difference_between(old_ids, old_owners, ids, owners, before)
        last = self._last_turn(start)
        cut = 0
        if last > start:
            cut = next(n for n, piece in enumerate(owners) if piece.message == last)
        self._settled += ids[:cut]
        self._settled_messages = last
        self._tail, self._owners = ids[cut:], owners[cut:]

    def _tail_ids(self) -> tuple[list[int], list[Piece]]:
        return self._with_sampled(
            *self._tokenizer.owned(self._tail_prompt()), self._settled_messages
        )

    def _tail_prompt(self) -> Prompt:
        start = self._settled_messages
        if start == 0:
            return encode(self._messages, **self._options)
        options = {name: o for name, o in self._options.items() if name not in _OPENING}
        if self._tools:
            options["drop_thinking"] = False
        return encode(self._messages[start:], context=self._context(start), **options)

    def _context(self, start: int) -> list[dict[str, Any]]:
        """The little that encoding must know of settled turns: last calls, and last turn."""
        first = start - 1
        while first > 0 and self._messages[first]["role"] in ("user", "tool"):
            first -= 1
        calls = next((n for n in (self._calls,) if n is not None and n < first), None)
        earlier = [] if calls is None else [self._messages[calls]]
        return [*earlier, *self._messages[first:start]]

    def _last_turn(self, start: int) -> int:
        """Where the last turn begins that a user, or one like a user, took."""
        last = start
        while start < len(self._messages):
            if self._messages[start]["role"] in ("user", "tool", "developer"):
                last = start
            start = turn_stop(self._messages, start)
        return last

    def _with_sampled(
        self, ids: Sequence[int], owners: Sequence[Piece], start: int
    ) -> tuple[list[int], list[Piece]]:
        """Ids and owners counted as the session counts, with what was sampled in its place."""
        counted: dict[int, Piece] = {}
        out: list[int] = []
        out_owners: list[Piece] = []
        replaced: set[int] = set()
        for id_, piece in zip(ids, owners, strict=True):
            owner = counted.get(id(piece))
            if owner is None:
                message = None if piece.message is None else piece.message + start
                owner = counted[id(piece)] = piece._replace(message=message)
            sampled = self._sampled.get(-1 if owner.message is None else owner.message)
            if sampled is None or owner.origin != "model":
                out.append(id_)
                out_owners.append(owner)
            elif owner.message not in replaced:
                replaced.add(owner.message or 0)
                kept = sampled if owner.field == "reasoning" else self._answer(sampled)
                out += kept
                out_owners += [owner] * len(kept)
        return out, out_owners

    def _answer(self, sampled: list[int]) -> list[int]:
        """What was sampled behind the reasoning, which the format has dropped."""
        end = self._tokenizer.special_id(tokens.THINK_END)
        return sampled[sampled.index(end) + 1 :] if end in sampled else sampled
