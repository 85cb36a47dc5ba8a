"""One completion being read: pieces of the backend's in, events out."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import THINK_END
from dsv4._parse.events import Event, StopHit, ToolCallEnd
from dsv4.api import ApiRequest, Usage
from dsv4.api.writing import Logprobs
from dsv4.serve.backend import Chunk, Counts, Finish, parser_reason
from dsv4.serve.kept import KeptEvents
from dsv4.serve.token_logprobs import TokenLogprobs
from dsv4.tokens import IdParser, Tokenizer


class Reader:
    """Reads one completion, and keeps what was sampled as it was."""

    def __init__(self, call: ApiRequest, prompt: Prompt, tokenizer: Tokenizer | None) -> None:
        self._call = call
        self._tokenizer = tokenizer
        parser = call.parser(prompt)
        self._text = parser
        self._ids = None if tokenizer is None else IdParser(tokenizer, parser)
        self._kept = KeptEvents(joins=not call.logprobs)
        self._logprobs = TokenLogprobs() if call.logprobs else None
        self.sampled_text: list[str] = []
        self.sampled_ids = array("I")
        self.has_ids = False
        self.counts = Counts()
        self.id: str | None = None  # a raw completion has no name that the client should see
        self.finish: Finish | None = None
        self.first_at: float | None = None  # when the first piece came
        # What generation can end with, and whether it has: nothing that comes would be shown.
        self._last = (StopHit,) if call.parallel else (StopHit, ToolCallEnd)
        self.is_done = False

    def feed(self, chunk: Chunk) -> list[Event]:
        """The events that a piece brings."""
        if self.first_at is None:
            self.first_at = time.monotonic()
        if chunk.counts is not None:
            self.counts = chunk.counts
        if chunk.finish is not None:
            self.finish = chunk.finish
        if self.is_done:
            return []
        events = self._noted(self._fed(chunk))
        if self._logprobs is not None:
            self._logprobs.give(chunk.logprobs, events)
        return events

    def _fed(self, chunk: Chunk) -> list[Event]:
        if chunk.ids is not None and self._ids is not None:
            self.has_ids = True
            events = self._ids.feed_ids(chunk.ids)
            self.sampled_ids.extend(chunk.ids)  # which are ids: they were in the vocabulary
            return events
        if not chunk.text:
            return []
        self.sampled_text.append(chunk.text)
        return self._text.feed(chunk.text)

    @property
    def events(self) -> list[Event]:
        """Every event so far, pieces of one text joined."""
        return self._kept.all()

    @property
    def joins(self) -> bool:
        """Whether events may be joined on their way: not where each has something of its own."""
        return self._kept.joins

    def logprobs_of(self, event: Event) -> Logprobs:
        """What the backend knows about the tokens of an event, where that was asked for."""
        return None if self._logprobs is None else self._logprobs.of(event)

    def end(self) -> list[Event]:
        """The events of the end."""
        parser = self._ids if self.has_ids and self._ids is not None else self._text
        # Where we ended it ourselves, what the engine says of the rest does not count.
        return self._noted(parser.finish(None if self.is_done else parser_reason(self.finish)))

    def _noted(self, events: list[Event]) -> list[Event]:
        self._kept.add(events)
        for event in events:
            if event.__class__ in self._last:
                self.is_done = True
        return events

    @property
    def sampled(self) -> str:
        """The raw text, special tokens spelled out."""
        if self.has_ids and self._tokenizer is not None:
            return self._tokenizer.decode(self.sampled_ids)
        return "".join(self.sampled_text)

    @property
    def completion_tokens(self) -> int:
        """How many tokens were generated: the backend's count, else ours."""
        if self.counts.completion is not None:
            return self.counts.completion
        return len(self.sampled_ids) if self.has_ids else self._counted("".join(self.sampled_text))

    @property
    def reasoning_tokens(self) -> int:
        """How many of them were thinking."""
        if not self._call.request.thinking:
            return 0
        if self.has_ids and self._tokenizer is not None:
            end = self._tokenizer.special_id(THINK_END)
            ids = self.sampled_ids
            return ids.index(end) if end in ids else len(ids)
        return self._counted("".join(self.sampled_text).partition(str(THINK_END))[0])

    def _counted(self, text: str) -> int:
        # Without a vocabulary: about four characters make a token.
        return len(text) // 4 if self._tokenizer is None else self._tokenizer.count(text)


def usage_of(readers: Sequence[Any], prompt_tokens: int) -> Usage:
    """What a request took, all its choices together."""
    counts = readers[0].counts
    return Usage(
        prompt=prompt_tokens if counts.prompt is None else counts.prompt,
        cached=counts.cached or 0,
        completion=sum(reader.completion_tokens for reader in readers),
        reasoning=sum(reader.reasoning_tokens for reader in readers),
    )
