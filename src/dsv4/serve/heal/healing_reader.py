"""Reads the answer of a Chat Completions server whose output leaks markup: its deltas are
parsed again and put right.

What the upstream got right passes unchanged: its calls with their ids, its reasoning, its
content. Markup that leaked into either is read as what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

from dsv4._format.tokens import THINK_END, THINK_START, Special
from dsv4._parse.events import (
    BROKEN_CALL,
    LEAKED_CALL,
    LEAKED_REASONING,
    STRAY_THINK,
    THINK_IN_CONTENT,
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    DiagnosticKind,
    Event,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._parse.parse import assemble
from dsv4._parse.reasons import Ended, ended_by
from dsv4.api import ApiRequest
from dsv4.api.api_request import protocol_call_id
from dsv4.serve.backend import Chunk
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.tokens import Tokenizer


class _UpstreamCall:
    """A call that the upstream has read itself."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.arguments: list[str] = []


class HealingReader(ChoiceReader):
    """Reads the deltas of a chat server."""

    def __init__(self, call: ApiRequest, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(call, tokenizer)
        self._parser = call.parser()
        self._in_reasoning = call.request.thinking  # where the parser stands
        self._calls: dict[int, _UpstreamCall] = {}
        self._twins: set[int] = set()  # the calls that leaked as well
        self._has_leaked_reasoning = False

    def _read(self, chunk: Chunk) -> list[Event]:
        self.id = self.id or chunk.id
        delta = chunk.delta or {}
        events: list[Event] = []
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            events += self._say(reasoning, reasoning=True)
        content = delta.get("content")
        if isinstance(content, str) and content:
            events += self._say(content, reasoning=False)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:  # no protocol here has another place for it
            events += self._say(refusal, reasoning=False)
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                self._collect(call)
        if isinstance(old := delta.get("function_call"), dict):  # of servers from before tools
            self._collect({"index": 0, "function": old})
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
        said = self._parser.feed(text)
        expected = ReasoningDelta if reasoning else ContentDelta
        for event in said:
            if event.__class__ is not expected:
                said = [*said, *self._leaks(said, expected)]
                break
        return [*events, *said] if events else said

    # What the upstream got wrong.

    def _leaks(self, events: list[Event], expected: type) -> list[Event]:
        """What is to be reported of events that one of the upstream's texts should not bring."""
        leaks = [self._report(LEAKED_CALL) for event in events if isinstance(event, ToolCallStart)]
        if not self._has_leaked_reasoning and any(_is_mixed_up(e, expected) for e in events):
            self._has_leaked_reasoning = True
            leaks.append(self._report(LEAKED_REASONING))
        return leaks

    def _report(self, kind: DiagnosticKind) -> Event:
        at = sum(map(len, self.sampled_text))
        return Diagnostic(kind, at, at, "")

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
        ended = self._parser.finish(self._settled(by_string=bool(self._call.request.stop)))
        self._twins = self._find_twins([*self.events, *ended])
        late = [self._report(LEAKED_CALL) for event in ended if isinstance(event, ToolCallStart)]
        return self._logged([*self._upstream_calls(), *late, *ended])

    def _find_twins(self, events: list[Event]) -> set[int]:
        """The calls that the upstream sent and leaked as well: equal ones are one, and would run
        twice."""
        leaked = [(call.name, _value_of(call.arguments)) for call in assemble(events).tool_calls]
        twins = set()
        for index, call in self._calls.items():
            twin = (call.name, _value_of("".join(call.arguments)))
            if twin in leaked:
                leaked.remove(twin)
                twins.add(index)
        return twins

    def _upstream_calls(self) -> list[Event]:
        leaked = (e.index for e in self.events if isinstance(e, (ToolCallStart, ToolCallAborted)))
        first = 1 + max(leaked, default=-1)
        # An empty call is how some servers say that they could not read one.
        calls = [call for index, call in self._calls.items() if index not in self._twins]
        named = [call for call in calls if call.name]
        nameless = [self._report(BROKEN_CALL)] * (len(calls) - len(named))
        events = (self._call_events(call, n) for n, call in enumerate(named, first))
        return [*chain.from_iterable(events), *nameless]

    def _call_events(self, call: _UpstreamCall, index: int) -> list[Event]:
        written = "".join(call.arguments)
        arguments = _object_text(written)
        # As the client will know it, and name it when it sends the turn back.
        start = ToolCallStart(index, call.name, protocol_call_id(self._call.protocol, call.id))
        if arguments is not None:
            # As it was meant: nothing for an empty object, or the text of a text.
            is_right = arguments == written or written in ("", "null")
            wrong = [] if is_right else [self._report(BROKEN_CALL)]
            return [start, ArgumentsDelta(index, arguments), ToolCallEnd(index), *wrong]
        # It is aborted, because some clients would run what they can make of it.
        is_cut = ended_by(self.finish) not in (Ended.END, Ended.STOP)
        why: Literal["cut_short", "unreadable"] = "cut_short" if is_cut else "unreadable"
        aborted: list[Event] = [start, ArgumentsDelta(index, written), ToolCallAborted(index, why)]
        return aborted if is_cut else [*aborted, self._report(BROKEN_CALL)]

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


def _value_of(arguments: str) -> object:
    """What arguments say, however they are written."""
    text = _object_text(arguments)
    return arguments if text is None else json.loads(text)


# What the parser says of think tags that stand in the wrong field.
_THINK_KINDS = (STRAY_THINK, THINK_IN_CONTENT)


def _is_mixed_up(event: Event, expected: type) -> bool:
    """Whether an event shows that reasoning and answer were in each other's field."""
    if isinstance(event, (ReasoningDelta, ContentDelta)):
        return not isinstance(event, expected) and bool(event.text.strip())
    return isinstance(event, Diagnostic) and event.kind in _THINK_KINDS


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
