"""Reads one choice of a completion: takes the backend's pieces, and returns parser events, with the
log of all events and the log probabilities of their tokens.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    Event,
    ReasoningDelta,
    StopHit,
    TextKind,
    ToolCallEnd,
)
from dsv4._completion.reasons import Ended, Reason, ended_by
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import EOS, THINK_END, THINK_START
from dsv4.api import ApiRequest, Usage
from dsv4.api.event_writer import Logprobs
from dsv4.grammar import Grammar
from dsv4.serve.backend import Chunk, Counts, Logprob, read_finish, settled
from dsv4.serve.call_fitter import call_fitter
from dsv4.tokens import IdParser, Tokenizer
from dsv4.trajectories.recorded_calls import WeightsSpan
from dsv4.trajectories.routed_experts import RoutedExperts

# A short piece takes twenty times the memory of its letters: pieces are joined when so many wait.
_MOST_UNJOINED = 32


class EventLog:
    """The events of a completion, with pieces of one text joined."""

    def __init__(self, joins: bool = True) -> None:
        """Without `joins`, every event is kept as it is."""
        self.joins = joins
        self._events: list[Event] = []
        self._loose: list[Event] = []
        # Texts without an event, all of one kind, that come after those.
        self._texts: list[str] = []
        self._kind: TextKind | None = None

    def add(self, events: list[Event]) -> None:
        if self._texts:
            self._join()
        self._loose += events
        if self.joins and len(self._loose) >= _MOST_UNJOINED:
            self._join()

    def add_text(self, text: str, kind: TextKind) -> None:
        """Adds a text as an event of `kind` would."""
        if kind is not self._kind or len(self._texts) >= _MOST_UNJOINED:
            self._join()
            self._kind = kind
        self._texts.append(text)

    def _join(self) -> None:
        self._events += joined_events(self._loose) if self.joins else self._loose
        self._loose = []
        if self._kind is not None and self._texts:
            self._events.append(self._kind("".join(self._texts)))
            self._texts = []

    def all(self) -> list[Event]:
        """Every event so far."""
        self._join()
        return self._events


def joined_events(events: Iterable[Event]) -> list[Event]:
    """The events, with consecutive pieces of one text joined into one."""
    events = list(events)
    kinds = set(map(type, events))
    for text_kind in (ContentDelta, ReasoningDelta):
        if kinds == {text_kind}:  # nearly always
            return [text_kind(_joined_text(events))]
    result: list[Event] = []
    for (kind, index), run in groupby(events, _text_kind):
        if kind is ArgumentsDelta:
            result.append(ArgumentsDelta(index, _joined_text(run)))
        elif kind is ContentDelta or kind is ReasoningDelta:
            result.append(kind(_joined_text(run)))
        else:
            result += run
    return result


def _text_kind(event: Event) -> tuple[type, int]:
    """The text that a piece belongs to: its kind, and the index of its call."""
    kind = event.__class__
    return kind, event.index if isinstance(event, ArgumentsDelta) else 0


def _joined_text(pieces: Iterable[Any]) -> str:
    return "".join([piece.text for piece in pieces])


class TokenLogprobs:
    """The log probabilities of one completion's tokens, assigned to the events of their texts.

    A backend sends them with its tokens. The parser shows some tokens later than they come, and
    some, the markup, not at all.
    """

    def __init__(self, tokenizer: Tokenizer | None = None, most: int | None = None) -> None:
        """`tokenizer` has the bytes of ids. For each token, the `most` likely others are kept."""
        self._bytes_of_ids = {} if tokenizer is None else tokenizer.vocabulary.bytes_of
        self._most = most
        self._waiting: list[_TokenLogprob] = []
        # By the id of the event, which must be kept as long as this is.
        self._logprobs_of: dict[int, list[dict[str, Any]]] = {}

    def give(self, logprobs: Iterable[Logprob], events: Iterable[Event]) -> None:
        """Takes the log probabilities of a piece, and assigns those that wait to the piece's
        events."""
        self._waiting += map(self._read, logprobs)
        for event in events:
            if isinstance(event, (ReasoningDelta, ContentDelta)) and event.text:
                self._logprobs_of[id(event)] = [
                    _logprob_json(token) for token in self._tokens_of(event.text)
                ]

    def of(self, event: Event) -> list[dict[str, Any]] | None:
        """The log probabilities of an event, as Chat Completions writes them; None if it has
        none."""
        return self._logprobs_of.get(id(event)) or None

    def _read(self, entry: Logprob) -> _TokenLogprob:
        ids: Sequence[int | None] = entry.top_ids or [None] * len(entry.top)
        top = [
            (self._bytes(token, id), logprob)
            for (token, logprob), id in zip(entry.top, ids, strict=True)
        ]
        # Servers add the token itself, at any place.
        top.sort(key=lambda each: -each[1])
        return _TokenLogprob(self._bytes(entry.token, entry.id), entry.logprob, top[: self._most])

    def _bytes(self, token: str, id: int | None) -> bytes:
        data = None if id is None else self._bytes_of_ids.get(id)
        return token.encode("utf-8", "replace") if data is None else data

    def _tokens_of(self, text: str) -> list[_TokenLogprob]:
        """The tokens of a text. Those before it were markup; those after it are not shown yet."""
        tokens, self._waiting = self._waiting, []
        data = text.encode("utf-8", "replace")
        at = b"".join(token.data for token in tokens).find(data)
        if at < 0:  # without ids, characters split between tokens have no text of their own
            return tokens
        own, place = [], 0
        for n, token in enumerate(tokens):
            if place >= at + len(data):
                self._waiting = tokens[n:]
                break
            place += len(token.data)
            if place > at:
                own.append(token)
        return own


def _entries(chunk: Chunk) -> list[Logprob]:
    """The log probabilities of a piece, with bare numbers paired with their ids."""
    ids = chunk.ids or ()
    return [
        each if isinstance(each, Logprob) else Logprob("", each, id=ids[n])
        for n, each in enumerate(chunk.logprobs)
    ]


class _TokenLogprob(NamedTuple):
    """A token as bytes, with its log probability, and the likeliest others."""

    data: bytes
    logprob: float
    top: list[tuple[bytes, float]]


def _logprob_json(entry: _TokenLogprob) -> dict[str, Any]:
    top = [_token_json(data, logprob) for data, logprob in entry.top]
    return {**_token_json(entry.data, entry.logprob), "top_logprobs": top}


def _token_json(data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


# Markup that has no content of its own.
_BORDERS = re.compile("|".join(map(re.escape, (EOS, THINK_START, THINK_END))))
# Events that end a call or a text.
_ENDS = (StopHit, ToolCallEnd)


class ChoiceReader(ABC):
    """Reads one choice of a completion, and keeps the sampled output unchanged.

    A subclass defines how a piece is read, and how tokens are counted.
    """

    def __init__(self, call: ApiRequest, tokenizer: Tokenizer | None) -> None:
        self._call = call
        self._tokenizer = tokenizer
        # Whether events may be joined before they are sent: not if each has its own log
        # probabilities.
        self.joins: bool = not call.logprobs
        self._log = EventLog(self.joins)
        self._logprobs = TokenLogprobs(tokenizer, call.top_logprobs) if call.logprobs else None
        self.fitter = call_fitter(call)
        self._stop_string: str | None = None
        # Events that may end the generation: anything after one of them would not be shown.
        self._ending_events: tuple[type, ...] = (StopHit,)
        self.sampled_text: list[str] = []
        self.sampled_ids: array[int] = array("I")  # if `has_ids`
        self.token_logprobs: array[float] = array(
            "d"
        )  # of the ids, as far as the backend sent them
        self.experts: RoutedExperts | None = None
        self.weights: tuple[WeightsSpan, ...] = ()
        self.arrivals: array[float] | None = None  # when each id came, in a session
        self.has_ids = False
        self.counts = Counts()
        self.finish: Reason | None = None
        self.first_at: float | None = None  # when the first piece came
        self.is_done = False
        self.id: str | None = None  # the upstream's id of the whole answer, for clients to see

    def feed(self, chunk: Chunk) -> list[Event]:
        """The events that a piece brings."""
        if self.first_at is None:
            self.first_at = time.monotonic()
        if chunk.counts is not None:
            self.counts = chunk.counts.bounded.behind(self.counts)
        if chunk.experts is not None:
            self.experts = chunk.experts
        if chunk.weights:
            self.weights = chunk.weights
        if self.is_done:
            return []
        if chunk.finish is not None:
            self._note_finish(chunk)
        events = self._logged(self._read(chunk))
        if self._logprobs is not None:
            self._logprobs.give(_entries(chunk), events)
        return events

    @abstractmethod
    def pass_by(self, text: str, id: bytes, field: str, kind: TextKind) -> str | None:
        """Takes a piece that is only text, as `TakeText` does, without making an event. This works
        only for an event of `kind`, or none, and without log probabilities. Returns the event's
        text; None if nothing was taken."""

    def _note_finish(self, chunk: Chunk) -> None:
        """Notes the finish reason. Some servers send two: then one that says that the text was cut
        counts."""
        reason, before = read_finish(chunk.finish), ended_by(self.finish)
        if reason and not (before and before.is_cut):
            self.finish, self._stop_string = reason, chunk.stop_string

    def _logged(self, events: list[Event]) -> list[Event]:
        for event in events:
            if event.__class__ in _ENDS:
                events = self._with_ends(events)
                break
        self._log.add(events)
        return events

    def _with_ends(self, events: list[Event]) -> list[Event]:
        """Events in which a call or the text ends, with the arguments of calls as they are sent."""
        self.is_done = self.is_done or any(isinstance(e, self._ending_events) for e in events)
        if self.fitter is None:
            return events
        result: list[Event] = []
        for event in events:
            if isinstance(event, ToolCallEnd):
                before = chain(reversed(result), reversed(self.events))
                result += self.fitter.ended(event, before, lambda: len(self.sampled))
            else:
                result.append(event)
        return result

    @abstractmethod
    def _read(self, chunk: Chunk) -> list[Event]:
        """The events that a piece brings, before they are logged."""

    @abstractmethod
    def end(self) -> list[Event]:
        """The events of the end."""

    def _settled(self, by_string: bool) -> Reason | None:
        """The reason why generation ended, for the parser. If the gateway ended it, the engine's
        reason for the rest does not count. `by_string` says that a stop string may have ended
        it."""
        by_string = by_string or self._stop_string is not None
        return None if self.is_done else settled(self.finish, by_string=by_string)

    @property
    def events(self) -> list[Event]:
        """Every event so far, pieces of one text joined."""
        return self._log.all()

    def logprobs_of(self, event: Event) -> Logprobs:
        """The backend's log probabilities for the tokens of an event, if they were asked for."""
        return None if self._logprobs is None else self._logprobs.of(event)

    @property
    def sampled(self) -> str:
        """The raw text, special tokens spelled out."""
        return "".join(self.sampled_text)

    @property
    def is_empty(self) -> bool:
        """Whether the model has ended its turn without any content."""
        is_ended = ended_by(self.finish) in (Ended.END, Ended.STOP)
        return is_ended and not _BORDERS.sub("", self.sampled).strip()

    @property
    def deltas(self) -> list[dict[str, Any]] | None:
        """A chat server's answer in as few deltas as possible; None for other backends."""
        return None

    @property
    @abstractmethod
    def completion_tokens(self) -> int:
        """The number of tokens generated: the backend's count, else the gateway's."""

    @property
    @abstractmethod
    def reasoning_tokens(self) -> int:
        """The number of tokens in the reasoning."""


class CompletionReader(ChoiceReader):
    """Reads a backend's completion of a prompt: ids, or text."""

    def __init__(
        self,
        call: ApiRequest,
        prompt: Prompt,
        tokenizer: Tokenizer | None,
        grammar: Grammar | None = None,
    ) -> None:
        """`grammar` is the one that the backend was given for the completion, if any."""
        super().__init__(call, tokenizer)
        self._text = call.parser(prompt)
        markers = "tokens" if grammar is None else grammar.markers
        self._ids = None if tokenizer is None else IdParser(tokenizer, self._text, markers=markers)
        if not call.parallel:
            self._ending_events = (StopHit, ToolCallEnd)

    def _read(self, chunk: Chunk) -> list[Event]:
        if chunk.ids is not None and self._ids is not None:
            self.has_ids = True
            events = self._ids.feed_ids(chunk.ids)
            self.sampled_ids.extend(chunk.ids)  # valid ids: the vocabulary has all of them
            if self.arrivals is not None:
                now = time.time()
                for _ in chunk.ids:
                    self.arrivals.append(now)
            for each in chunk.logprobs:
                self.token_logprobs.append(each.logprob if isinstance(each, Logprob) else each)
            return events
        if not chunk.text:
            return []
        self.sampled_text.append(chunk.text)
        return self._text.feed(chunk.text)

    def pass_by(self, text: str, id: bytes, field: str, kind: TextKind) -> str | None:
        if not id:
            shown = self._text.pass_by(text, kind)
            if shown is not None:
                self.sampled_text.append(text)
        elif self._ids is None or self.arrivals is not None:
            return None
        else:
            number = int(id)
            shown = self._ids.pass_by(number, text, kind)
            if shown is not None:
                self.sampled_ids.append(number)
        if shown:
            self._log.add_text(shown, kind)
        return shown

    def end(self) -> list[Event]:
        parser = self._ids if self.has_ids and self._ids is not None else self._text
        # Backends of prompts are sent no stop strings, but may have their own. Among ids an EOS is
        # visible, and counts for more than a reason: "stop" without one has another cause.
        return self._logged(parser.finish(self._settled(by_string=self.has_ids)))

    @property
    def sampled(self) -> str:
        """The raw text, special tokens spelled out."""
        if self.has_ids and self._tokenizer is not None:
            return self._tokenizer.decode(self.sampled_ids)
        return super().sampled

    @property
    def completion_tokens(self) -> int:
        """The number of tokens generated: the backend's count, else the gateway's."""
        if self.counts.completion is not None:
            return self.counts.completion
        return len(self.sampled_ids) if self.has_ids else self._counted(super().sampled)

    @property
    def reasoning_tokens(self) -> int:
        """The number of tokens in the reasoning."""
        if not self._call.request.thinking:
            return 0
        if self.has_ids and self._tokenizer is not None:
            end = self._tokenizer.special_id(THINK_END)
            ids = self.sampled_ids
            return ids.index(end) if end in ids else len(ids)
        return self._counted(super().sampled.partition(str(THINK_END))[0])

    def _counted(self, text: str) -> int:
        return estimated_tokens(text) if self._tokenizer is None else self._tokenizer.count(text)


def estimated_tokens(text: str) -> int:
    """An estimate of the tokens in a text without a vocabulary: one for about four characters."""
    return len(text) // 4


def total_usage(readers: Sequence[ChoiceReader], prompt_tokens: int) -> Usage:
    """The usage of a request, with all its choices."""
    counts = readers[0].counts
    prompt = prompt_tokens if counts.prompt is None else counts.prompt
    completion = sum(reader.completion_tokens for reader in readers)
    return Usage(
        prompt=prompt,
        cached=None if counts.cached is None else min(counts.cached, prompt),
        completion=completion,
        reasoning=min(sum(reader.reasoning_tokens for reader in readers), completion),
    )
