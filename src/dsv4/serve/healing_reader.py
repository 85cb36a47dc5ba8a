"""Reads the answer of a Chat Completions server whose output leaks markup: its deltas are
parsed again and put right.

What the upstream got right passes unchanged: its calls with their ids, its reasoning, its
content. Markup that leaked into either is read as what it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Literal

from dsv4._format.tokens import THINK_END, THINK_START, Special
from dsv4._parse.events import (
    ArgumentsDelta,
    Event,
    StopHit,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._parse.finish_reasons import Ended, Reason, ended_by
from dsv4.api import ApiRequest
from dsv4.api.event_writer import Logprobs
from dsv4.serve.backend import Chunk, Counts, read_finish, settled
from dsv4.serve.choice_reader import EventLog, TokenLogprobs
from dsv4.tokens import Tokenizer


class _UpstreamCall:
    """A call that the upstream made itself."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.arguments: list[str] = []


class HealingReader:
    """Reads one choice of an upstream's answer."""

    has_ids = False

    def __init__(self, call: ApiRequest, tokenizer: Tokenizer | None = None) -> None:
        self._call = call
        self._tokenizer = tokenizer
        self._parser = call.parser()
        self._in_reasoning = call.request.thinking  # where the parser stands
        self._calls: dict[int, _UpstreamCall] = {}
        self._found = 0  # calls that the parser has found
        self._kept = EventLog(joins=not call.logprobs)
        self._logprobs = TokenLogprobs() if call.logprobs else None
        self.sampled_text: list[str] = []
        self.sampled_ids: list[int] = []
        self.counts = Counts()
        self.finish: Reason | None = None
        self._stop_string: str | None = None
        self.first_at: float | None = None  # when the first piece came
        self.is_done = False
        self.id: str | None = None  # the upstream's own, of the whole answer

    @property
    def events(self) -> list[Event]:
        """Every event so far, pieces of one text joined."""
        return self._kept.all()

    @property
    def joins(self) -> bool:
        """Whether events may be joined on their way: not where each has something of its own."""
        return self._kept.joins

    def logprobs_of(self, event: Event) -> Logprobs:
        """What the upstream knows about the tokens of an event, where that was asked for."""
        return None if self._logprobs is None else self._logprobs.of(event)

    @property
    def completion_tokens(self) -> int:
        """How many tokens were generated: the upstream's count, else ours."""
        if self.counts.completion is not None or self._tokenizer is None:
            return self.counts.completion or 0
        return self._tokenizer.count(self.sampled)

    @property
    def reasoning_tokens(self) -> int:
        """How many of them were thinking, where the upstream says so."""
        return self.counts.reasoning or 0

    @property
    def sampled(self) -> str:
        return "".join(self.sampled_text)

    @property
    def deltas(self) -> list[dict[str, Any]]:
        """What the upstream sent, in as few deltas as say the same."""
        found: list[dict[str, Any]] = []
        field = "reasoning_content" if self._call.request.thinking else "content"
        for text in self.sampled_text:
            if isinstance(text, Special):  # a border, which it did not write
                field = "content" if text is THINK_END else "reasoning_content"
            elif found and field in found[-1]:
                found[-1][field] += text
            else:
                found.append({field: text})
        calls = [
            {
                "index": index,
                "id": call.id,
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
            }
            for index, call in self._calls.items()
        ]
        return [*found, {"tool_calls": calls}] if calls else found

    def feed(self, chunk: Chunk) -> list[Event]:
        """The events that a delta brings."""
        if self.first_at is None:
            self.first_at = time.monotonic()
        if chunk.counts is not None:
            self.counts = chunk.counts
        self.id = self.id or chunk.id
        if self.is_done:
            return []
        if chunk.finish is not None:
            self.finish = read_finish(chunk.finish) or self.finish
            self._stop_string = chunk.stop_string
        if chunk.delta is None:
            return []
        events = self._noted(self._read(chunk.delta))
        if self._logprobs is not None:
            self._logprobs.give(chunk.logprobs, events)
        return events

    def _read(self, delta: Mapping[str, Any]) -> list[Event]:
        events: list[Event] = []
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            events += self._say(reasoning, reasoning=True)
        content = delta.get("content")
        if isinstance(content, str) and content:
            events += self._say(content, reasoning=False)
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                self._collect(call)
        return events

    def _say(self, text: str, reasoning: bool) -> list[Event]:
        """Text of the upstream's, with the border written that its two fields stand for."""
        events: list[Event] = []
        if reasoning != self._in_reasoning:
            border = THINK_START if reasoning else THINK_END
            self._in_reasoning = reasoning
            self.sampled_text.append(border)
            events += self._parser.feed(border)
        self.sampled_text.append(text)
        return [*events, *self._parser.feed(text)]

    def _collect(self, delta: Mapping[str, Any]) -> None:
        function = delta.get("function") or {}
        name, arguments = str(function.get("name") or ""), function.get("arguments") or ""
        index = delta.get("index")
        if index is None:  # some servers number nothing: a name begins a call
            index = len(self._calls) if name or not self._calls else max(self._calls)
        call = self._calls.setdefault(index, _UpstreamCall(""))
        call.id = call.id or str(delta.get("id") or "")
        call.name = call.name or name
        # And some write an object where its text belongs.
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call.arguments.append(text)

    def end(self) -> list[Event]:
        """The events of the end: the upstream's own calls come after those that had leaked."""
        if self._in_reasoning and not self.sampled_text and not self._call.request.prefix:
            # It said nothing at all: neither had it begun to think.
            self._parser.feed(THINK_END)
        # The client's stop strings went to the upstream with the rest of its request.
        by_string = bool(self._call.request.stop) or self._stop_string is not None
        reason = None if self.is_done else settled(self.finish, by_string=by_string)
        ended = self._parser.finish(reason)
        return self._noted([*self._upstream_calls(), *ended])

    def _upstream_calls(self) -> list[Event]:
        events: list[Event] = []
        for call in self._calls.values():
            if not call.name:
                continue  # an empty call is how some servers say that they could not read one
            index = self._found
            self._found += 1
            written = "".join(call.arguments)
            arguments = _object_text(written)
            events.append(ToolCallStart(index, call.name, call.id))
            if arguments is None:
                # Some clients would run what they can make of it.
                why: Literal["cut_short", "unreadable"]
                ended = ended_by(self.finish)
                why = "unreadable" if ended in (Ended.END, Ended.STOP) else "cut_short"
                events += [ArgumentsDelta(index, written), ToolCallAborted(index, why)]
            else:
                events += [ArgumentsDelta(index, arguments), ToolCallEnd(index)]
        return events

    def _noted(self, events: list[Event]) -> list[Event]:
        self._kept.add(events)
        for event in events:
            if isinstance(event, (ToolCallStart, ToolCallAborted)):
                self._found = max(self._found, event.index + 1)
            elif isinstance(event, StopHit):
                self.is_done = True
        return events


def _object_text(text: str) -> str | None:
    """The arguments of a call as they are, where they are an object. Some servers write nothing for
    an empty one, and some write the text of a text. None for everything else."""
    try:
        value = json.loads(text or "{}")
        if isinstance(value, str):
            text, value = value, json.loads(value)
    except (ValueError, RecursionError):
        return None
    if value is None:
        return "{}"
    return (text or "{}") if isinstance(value, dict) else None
