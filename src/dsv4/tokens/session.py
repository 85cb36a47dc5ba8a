"""A growing conversation, of which only new messages are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from dsv4._completion.message import Message, assemble
from dsv4._encode.inputs import MessageFields, as_inputs, as_message, maybe_list
from dsv4._encode.prompt import Omission, Piece, Prompt
from dsv4._encode.turns import NATIVE, last_turn_start, turn_says, turn_stop
from dsv4._images.image_grid import ImageGrid, grids_of
from dsv4._images.image_source import maybe_size
from dsv4._parse.parser import StreamParser
from dsv4.errors import EncodeError, Error, OptionError
from dsv4.request import Request, RequestOptions
from dsv4.tokens.coder import Coder, IdParser
from dsv4.tokens.masks import AttributedIds
from dsv4.tokens.prefix_difference import ComparedPrompt, Difference, difference_between
from dsv4.types import MessageInput

if TYPE_CHECKING:
    from typing_extensions import Unpack


_LATER_USER: MessageFields = {"role": "user", "content": ""}


class _SampledTurn(NamedTuple):
    """The ids of everything that the model wrote in a message, and whether reasoning came first."""

    ids: list[int]
    thinking: bool


class Snapshot(NamedTuple):
    """The ids of a session at some time. Settled ids never change: more are only added to them."""

    settled: AttributedIds
    pieces: int
    tail: AttributedIds

    @property
    def attributed(self) -> AttributedIds:
        """The ids, and the pieces they came from."""
        ends = self.settled.ends[: self.pieces]
        whole = AttributedIds()
        whole.add_run(
            self.settled.ids[: ends[-1] if ends else 0], self.settled.pieces[: self.pieces], ends
        )
        whole.add_run(self.tail.ids, self.tail.pieces, self.tail.ends)
        return whole


class Sample(NamedTuple):
    """A context that the model saw, with the text it wrote there: one row of training data.

    `mask` is 1 where the model sampled the token of `ids`. `logprobs` has the log-probabilities
    that were given with sampled ids, and None elsewhere.
    """

    ids: list[int]
    mask: list[int]
    logprobs: list[float | None]


class _Sampling(NamedTuple):
    """The result of one sampling, and the ids of the session before it."""

    before: Snapshot
    ids: list[int]
    logprobs: list[float | None]


class Session:
    """Messages so far, and their ids.

    `tokenizer` gives the ids. The options are those of `Request`, but for `context`; or give a
    `Request`, whose messages are the first. Raises an `OptionError` for an option that is wrong.

    Everything before the last user turn is settled: kept as ids, and not encoded again. Only a
    message that brings tools, or a first system message for the request's tools, changes it. In the
    dialect "v3.2" the whole conversation is encoded every time.
    Messages are kept as they are given: do not change them afterwards.
    """

    def __init__(
        self, tokenizer: Coder, request: Request | None = None, **options: Unpack[RequestOptions]
    ) -> None:
        if request is not None and options:
            problem = f"found {', '.join(options)} beside a request, expected the options on it"
            raise OptionError("request", problem)
        if request is None:
            options.setdefault("dialect", tokenizer.dialect)
            request = Request((), **options)
        if request.context:
            raise OptionError("context", "found it, expected earlier messages to be appended")
        self._tokenizer = tokenizer.with_dialect(request.dialect)
        self._request = replace(request, messages=())
        self._dialect = tokenizer.dialect_for(request.dialect)
        # In V3.2 each turn depends on those before it, so nothing is ever settled.
        self._settles = self._dialect.layout == "v4"
        self._messages: list[MessageFields] = []
        self._sampled: dict[int, _SampledTurn] = {}
        self._samplings: list[_Sampling] = []
        self._declared: list[Any] = list(request.tools or ())
        self._shows_tools = request.tool_choice != "none"
        # Tools switch the dropping off.
        self._keeps_reasoning = self._shows_tools and bool(self._declared)
        self._system: int | None = None  # the first system message
        self._has_strangers = False
        # The ids that are settled, and those that are not, as of the last encoding.
        self._settled = AttributedIds()
        self._tail = AttributedIds()
        self._settled_images: list[Any] = []
        self._tail_images: list[Any] = []
        self._settled_messages = 0
        self._settled_calls: MessageFields | None = None
        self._starts_over = False
        self._is_current = True
        # The place and the cause of a change that the last call of `prompt_ids` made to the ids of
        # the call before. None if it only added ids.
        self.rewritten: Difference | None = None
        for message in request.messages:
            self.append(message)

    @property
    def messages(self) -> list[MessageFields]:
        """The messages so far, in a list of its own; those that were sampled as they were read."""
        return list(self._messages)

    @property
    def images(self) -> list[Any]:
        """The records of the images in the prompt, in its order, as `Prompt.images` has them."""
        self._bring_up_to_date()
        return self._settled_images + self._tail_images

    @property
    def image_grids(self) -> list[ImageGrid | None]:
        """The cells and tokens of these images, as `Prompt.image_grids` has them.

        The session's ids have one id for each image.
        """
        return grids_of(map(maybe_size, self.images), self._dialect)

    def append(self, message: MessageInput) -> None:
        """Adds `message`: a dict, a parsed message, or any other that `Request` takes.

        Raises an `EncodeError` for anything but a message, and for one that the format cannot have
        here: then the session is as it was. A message that it can have only before a later user
        turn is added, and `prompt_ids` raises until there is one.
        """
        self._append_fields(as_message(message, ("messages", len(self._messages))))

    def _append_fields(self, fields: MessageFields) -> None:
        self._check(fields)
        self._messages.append(fields)
        self._has_strangers |= self._is_stranger(fields)
        self._is_current = False
        # Both are called, because each remembers what it has seen.
        if any([self._brings_tools(fields), self._takes_extras(fields)]):
            self._starts_over = True

    def append_sampled(
        self, ids: Iterable[int], logprobs: Sequence[float | None] | None = None
    ) -> Message:
        """Adds the ids that the model sampled, unchanged. Returns the message that they spell.

        `ids` go on where the prompt ended: a start of the answer in the prompt is part of the
        message. `logprobs` are their log-probabilities, one for each, which `samples` returns.
        Without an EOS at its end the turn is left open. The ids that are sampled next continue an
        open turn: both are one message, and the whole of it is returned. Raises an `OptionError`
        for an id that is not in the vocabulary and for `logprobs` that are not as many as the ids,
        and an `EncodeError` for a message that the format cannot have here: then the session is as
        it was.
        """
        sampling = self._sampling(list(ids), logprobs)
        open_turn = self._open_turn()
        before = open_turn or _SampledTurn(self._opening_ids(), self._asks_for_reasoning())
        sampled = before._replace(ids=[*before.ids, *sampling.ids])
        message = self._read(sampled)
        fields = message.to_dict()
        if sampled.ids[-1:] != [self._tokenizer.special_id(self._dialect.tokens.eos)]:
            fields["wo_eos"] = True
        continued = [] if open_turn is None else [self._messages.pop()]
        try:
            self._append_fields(fields)
        except Error:
            self._messages += continued
            raise
        self._sampled[len(self._messages) - 1] = sampled
        self._samplings.append(sampling)
        return message

    def _sampling(self, ids: list[int], logprobs: Sequence[float | None] | None) -> _Sampling:
        if logprobs is not None and len(logprobs) != len(ids):
            problem = f"found {len(logprobs)} for {len(ids)} ids, expected one for each"
            raise OptionError("logprobs", problem)
        values: list[float | None] = [None] * len(ids) if logprobs is None else list(logprobs)
        return _Sampling(self.snapshot(), ids, values)

    def samples(self) -> list[Sample]:
        """The sampled turns, as rows to train on: one for each context that the model saw.

        As long as each prompt continues the last turn, all turns are in one row. A prompt that
        rewrote earlier text, for instance without old reasoning, begins another row. Each sampled
        token is trained on in one row only: in the context in which it was sampled.
        """
        rows: list[Sample] = []
        for before, ids, logprobs in self._samplings:
            prompt = before.attributed.ids
            if not rows or prompt[: len(rows[-1].ids)] != rows[-1].ids:
                rows.append(Sample([], [], []))
            row = rows[-1]
            start = len(prompt) - len(row.ids)
            row.ids.extend((*prompt[len(row.ids) :], *ids))
            row.mask.extend((*[0] * start, *[1] * len(ids)))
            row.logprobs.extend((*[None] * start, *logprobs))
        return rows

    def prompt_ids(self) -> list[int]:
        """The ids of the conversation so far. The last turn asks for an answer, if it can."""
        self._bring_up_to_date()
        return self._settled.ids + self._tail.ids

    def snapshot(self) -> Snapshot:
        """The ids of the session now. The snapshot stays valid when the session grows."""
        self._bring_up_to_date()
        return self._snapshot()

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._settled, len(self._settled.pieces), self._tail)

    def _bring_up_to_date(self) -> None:
        if not self._is_current:
            self._encode_tail()
            self._is_current = True

    def _check(self, message: MessageFields) -> None:
        """Encodes a message in its place, and checks that its texts have ids."""
        strangers = self._has_strangers or self._is_stranger(message)
        if not self._settles or (strangers and not self._drops_strangers(message)):
            self._check_before_user(message)
            return
        alone = self._alone(message)
        if strangers:
            alone = replace(alone, messages=as_inputs([message, _LATER_USER]))
        try:
            self._check_texts(alone.encode())
        except EncodeError as error:
            raise _counted_from(len(self._messages), error) from None

    def _is_stranger(self, message: MessageFields) -> bool:
        """Whether a message has a role that the dialect does not have: V4.1 takes a developer's
        only where the next user turn drops it."""
        return message.get("role") == "developer" and "developer" not in self._dialect.roles

    def _drops_strangers(self, message: MessageFields) -> bool:
        """Whether such messages are still dropped with this one at the end. A message with tools
        keeps all of them, so all have to be checked; else each was checked when it came."""
        return self._drops() and not self._keeps_reasoning and not message.get("tools")

    def _check_before_user(self, message: MessageFields) -> None:
        """Checks a message that cannot be the last, but may stand before a user turn: V3.2 requires
        reasoning, or calls, only after the last of these."""
        is_last = self._settles or message.get("role") == "assistant"
        after = [_LATER_USER] if is_last else []
        messages = as_inputs([*self._messages, message, *after])
        self._check_texts(replace(self._request, messages=messages, prefix="").encode())

    def _check_texts(self, prompt: Prompt) -> None:
        if not prompt.text.isascii():
            self._tokenizer.check_text(prompt)

    def _alone(self, message: MessageFields) -> Request:
        """A message by itself, after the one before it: so the cost depends only on its length.
        Messages of unknown roles before it are left out: they are dropped when it matters."""
        stays = (each for each in reversed(self._messages) if not self._is_stranger(each))
        before = list(islice(stays, 1))
        carries = self._has_extras() and self._system is None and message.get("role") == "system"
        if self._declared and not carries:
            before = [{"role": "system", "tools": self._declared}, *before]
        return replace(
            self._request,
            messages=as_inputs([message]),
            context=() if carries else as_inputs(before),
            tools=self._request.tools if carries else None,
            response_format=self._request.response_format if carries else None,
            tool_choice="none" if self._request.tool_choice == "none" else "auto",
            prefix="",
        )

    # Turns that the model wrote.

    def _opening_ids(self) -> list[int]:
        """The ids of the answer's start in the prompt: a prefix, or the opening of a call."""
        if not self._request.prefix and self._request.tool_choice in ("auto", "none"):
            return []
        self.prompt_ids()
        pieces: list[Piece] = []
        for piece in reversed(self._tail.pieces):
            if piece.message is not None or piece.field == "header":
                break
            pieces.insert(0, piece)
        return self._tokenizer.ids_of(pieces)

    def _asks_for_reasoning(self) -> bool:
        """Whether the model begins by thinking: it does not if it carries out a task."""
        if not self._request.thinking:
            return False
        if not self._messages:
            return True
        last = self._messages[last_turn_start(self._messages)]
        return last["role"] == "tool" or last.get("task") is None

    def _open_turn(self) -> _SampledTurn | None:
        """The open turn at the end, as far as it was written. None if there is none."""
        last = self._messages[-1] if self._messages else {}
        if last.get("role") != "assistant" or not any(
            last.get(field) for field in NATIVE.open_turn_fields
        ):
            return None
        index = len(self._messages) - 1
        return self._sampled.get(index) or self._as_sampled(index)

    def _as_sampled(self, index: int) -> _SampledTurn:
        """A message that was not sampled, as if it had been."""
        self.prompt_ids()
        pieces = [piece for piece in self._tail.pieces if piece.message == index]
        thinking = any(piece.field == "reasoning" for piece in pieces)
        model = [piece for piece in pieces if piece.origin == "model"]
        return _SampledTurn(self._tokenizer.ids_of(model), thinking)

    def _read(self, sampled: _SampledTurn) -> Message:
        reader = StreamParser(
            thinking=sampled.thinking, tools=self._declared or None, dialect=self._dialect
        )
        parser = IdParser(self._tokenizer, reader)
        return assemble([*parser.feed_ids(sampled.ids), *parser.finish()])

    def _kept(self, prompt: Prompt, start: int) -> dict[int, list[int]]:
        """The ids of sampled messages in a prompt of the messages from `start` on."""
        written: dict[int, list[Piece]] = {n: [] for n in self._sampled_from(start)}
        if not written:
            return {}
        for piece in prompt.pieces:
            if piece.origin == "model" and piece.message is not None:
                written.get(piece.message + start, []).append(piece)
        return {n - start: self._ids_now(n, pieces) for n, pieces in written.items()}

    def _sampled_from(self, start: int) -> list[int]:
        return [n for n in range(start, len(self._messages)) if n in self._sampled]

    def _ids_now(self, index: int, pieces: list[Piece]) -> list[int]:
        """The ids of a sampled message, of which the format has written these pieces."""
        ids, thinking = self._sampled[index]
        if not thinking or any(piece.field == "reasoning" for piece in pieces):
            return ids
        # The reasoning has been dropped.
        end = self._tokenizer.special_id(self._dialect.tokens.think_end)
        if end in ids:
            return ids[ids.index(end) + 1 :]
        # It was never ended: only the message as it was read says what is left.
        if self._messages[index].get("wo_eos"):
            pieces = [piece for piece in pieces if piece.field != "eos"]
        return self._tokenizer.ids_of(pieces)

    # Messages that change settled turns.

    def _brings_tools(self, message: MessageFields) -> bool:
        """Whether this message switches the dropping of reasoning off."""
        role = message.get("role")
        if not self._shows_tools or role == "tool" or not maybe_list(message.get("tools")):
            return False
        if role == "user" and not (self._dialect.users_keep_tools and self._opens_turn()):
            return False
        self._declared += maybe_list(message["tools"]) or ()
        switched, self._keeps_reasoning = not self._keeps_reasoning, True
        return switched

    def _opens_turn(self) -> bool:
        """Whether the last message is not part of an earlier turn."""
        return last_turn_start(self._messages) == len(self._messages) - 1

    def _takes_extras(self, message: MessageFields) -> bool:
        """Whether this is the system message that the request's own tools go to."""
        if self._system is not None or message.get("role") != "system":
            return False
        self._system = len(self._messages) - 1
        return self._has_extras() and self._system > 0

    def _has_extras(self) -> bool:
        return bool(self._request.tools or self._request.response_format)

    # The tail: the messages that are not settled.

    def _encode_tail(self) -> None:
        start = 0 if self._starts_over else self._settled_messages
        prompt = self._prompt_from(start)
        new = self._tokenizer.attributed(prompt, self._kept(prompt, start)).counted_from(start)
        old, before = self._tail, len(self._settled.ids)
        if self._starts_over:
            old, before = self._snapshot().attributed, 0
            self._settled, self._settled_calls, self._starts_over = AttributedIds(), None, False
            self._settled_images = []
        self.rewritten = difference_between(
            ComparedPrompt(old, self._dialect, tuple),
            ComparedPrompt(new, self._dialect, lambda: _moved(prompt.dropped, start)),
            before,
        )
        self._tail, self._settled_messages = new, start
        self._tail_images = list(prompt.images)
        self._settle(self._last_turn(start))

    def _prompt_from(self, start: int) -> Prompt:
        messages = self._messages[start:]
        for n in self._sampled_from(start):
            # With an EOS there is always a piece that the sampled ids can replace.
            messages[n - start] = {**self._messages[n], "wo_eos": False}
        if not start:
            return replace(self._request, messages=as_inputs(messages)).encode()
        # A user turn comes first. It depends on earlier turns only by the order of their calls; the
        # opening of the prompt is there already.
        context = [self._settled_calls or self._messages[start - 1]]
        if self._declared:
            context.insert(0, {"role": "system", "tools": self._declared})
        request = replace(
            self._request,
            messages=as_inputs(messages),
            context=as_inputs(context),
            tools=None,
            response_format=None,
            drop_thinking=self._request.drop_thinking and not self._keeps_reasoning,
        )
        try:
            return request.encode()
        except EncodeError as error:
            raise _counted_from(start, error) from None

    def _settle(self, last: int) -> None:
        if not self._settles:
            return
        start = self._settled_messages
        # The request's own tools are on the first system message: it is encoded with all of them.
        takes_extras = self._has_extras() and self._system is not None and self._system >= last
        if last == start or takes_extras:
            return
        head, self._tail = self._tail.parted(last)
        self._settled.add_run(head.ids, head.pieces, head.ends)
        images = sum(piece.field == "image" for piece in head.pieces)
        self._settled_images += self._tail_images[:images]
        del self._tail_images[:images]
        self._settled_messages = last
        for message in self._messages[start:last]:
            if message["role"] == "assistant" and message.get("tool_calls"):
                self._settled_calls = message

    def _last_turn(self, start: int) -> int:
        """The index at which the last turn begins before which everything is settled."""
        # A developer turn may still vanish, and then its neighbours are no longer apart.
        developers = self._keeps_reasoning or not self._drops()
        asking = ("user", "tool", "developer") if developers else ("user", "tool")
        last = start
        while start < len(self._messages):
            stop = turn_stop(self._messages, start)
            if self._messages[start]["role"] in asking and (
                developers or self._dialect.results_ask or turn_says(self._messages[start:stop])
            ):
                last = start
            start = stop
        return last

    def _drops(self) -> bool:
        return self._request.thinking and self._request.drop_thinking


def _moved(dropped: Iterable[Omission], start: int) -> list[Omission]:
    """Omissions, with messages as the session counts them."""
    return [omission._replace(message=omission.message + start) for omission in dropped]


def _counted_from(start: int, error: EncodeError) -> EncodeError:
    """The error, with messages as the session counts them."""
    name, index, *rest = error.location
    if name != "messages" or not isinstance(index, int):
        return error
    return EncodeError((name, index + start, *rest), error.problem)
