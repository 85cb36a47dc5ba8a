"""Reads the answer of a Chat Completions server whose output leaks markup: its deltas are parsed
again and repaired.

Correct calls with their ids, reasoning and content pass unchanged. Markup that leaked into
reasoning or content is parsed as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Literal

from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    Diagnostic,
    DiagnosticKind,
    Event,
    ReasoningDelta,
    TextKind,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._completion.message import ToolCall, assemble
from dsv4._completion.reasons import Ended, calls_tools, ended_by
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import THINK_END, THINK_START, Special
from dsv4.api import ApiRequest
from dsv4.api.api_request import protocol_call_id
from dsv4.serve.backend import BackendError, Chunk, read_text
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.heal.chat_delta import (
    LastMessage,
    MessageSoFar,
    OtherChoice,
    call_pieces,
    spoken_texts,
    unknown_fields,
    with_known_names,
)
from dsv4.serve.heal.unknown_fields import UnknownFields
from dsv4.serve.heal.upstream_calls import (
    UpstreamCall,
    UpstreamCalls,
    argument_value,
    object_text,
)
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.tokens import Tokenizer

# The most characters of an answer that are held back while it is unknown whether its content begins
# with reasoning. Otherwise only possible markup is delayed.
_MOST_HELD = 1024
# Fields of a delta that are text, and whether it is reasoning.
_TEXT_FIELDS = {"content": False, "reasoning_content": True, "reasoning": True}

_SAID_AGAIN = "the backend said all that it had said once more in every piece"


# A text with fewer characters may be said twice by chance: all of it so far at the end; or in a
# message in place of a delta.
_LEAST_REPEATED = 16
_LEAST_IN_MESSAGE = 4


class Growth:
    """Whether every piece of a text begins with all of the piece before it: such a server repeats
    all of the text so far in each piece. Others repeat it once, at the end."""

    def __init__(self) -> None:
        self.holds = True
        self.is_repeated = False  # a piece was all of the text before it
        self._last = ""
        self._times = 0
        self.length = self._count = 0  # of all pieces together, and of pieces

    def may_repeat(self, piece: str) -> bool:
        """Whether a piece has as many characters as all pieces before it, or comes after one that
        repeats them."""
        is_as_long = len(piece) == self.length >= _LEAST_REPEATED and self._count > 1
        return is_as_long or self.is_repeated

    def note(self, piece: str) -> None:
        self._count += 1
        self.length += len(piece)
        if self.holds:
            # Half of a character, kept back for its second half, comes before a text that begins
            # anew.
            piece = piece.removeprefix("\ufffd")
            self.holds = piece.startswith(self._last)
            self._times += 0 < len(self._last) < len(piece)
            self._last = piece

    @property
    def is_certain(self) -> bool:
        return self.holds and self._times > 1


class HealingReader(ChoiceReader):
    """Reads the deltas of a chat server."""

    def __init__(
        self,
        call: ApiRequest,
        tokenizer: Tokenizer | None = None,
        habits: UpstreamHabits | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        """`habits` are what earlier answers have shown; this answer may add to them. `prompt` is
        the request's, where it was made already."""
        super().__init__(call, tokenizer)
        self._parser = call.parser(prompt)
        self._in_reasoning = call.request.thinking  # the parser's current state
        self._calls = UpstreamCalls(call.names)
        self._has_leaked_reasoning = False
        self._habits = habits or UpstreamHabits()
        # None as long as it is undecided how content that comes first is read.
        thinks = call.request.thinking and not call.request.prefix
        self._content_first: bool | None = None if thinks else False
        self._pieces: list[str] = []
        self._held_size = 0
        self._tail = ""  # the end of the content, which may be the beginning of an end of thinking
        self._growth = {False: Growth(), True: Growth()}  # of the content, of the reasoning
        self._message_texts = {False: "", True: ""}  # the same, of the last message in their place
        self._least_in_message = _LEAST_IN_MESSAGE
        # Checked at the end: the texts of other choices, by their number; messages after the
        # deltas; unknown fields.
        self._other_texts: dict[int, list[tuple[bool, str]]] = {}
        self._last_messages: list[LastMessage] = []
        self._unknown = UnknownFields(call.names)
        self._says_calls = False  # according to its finish reason

    def _read(self, chunk: Chunk) -> list[Event]:
        self.id = self.id or read_text(chunk.id)
        delta = chunk.delta or {}
        if len(delta) == 1 and delta.__class__ is dict:  # as nearly all have
            [(name, value)] = delta.items()
            if name in _TEXT_FIELDS and value and value.__class__ is str:
                return self._say(value, _TEXT_FIELDS[name])
        return self._read_fields(delta)

    def pass_by(self, text: str, id: bytes, field: str, kind: TextKind) -> str | None:
        reasoning = _TEXT_FIELDS.get(field)
        if self._content_first is not False or reasoning is not self._in_reasoning:
            return None
        if kind is not (ReasoningDelta if reasoning else ContentDelta):
            return None
        if self._growth[self._in_reasoning].may_repeat(text):
            return None
        shown = self._parser.pass_by(text, kind)
        if shown is not None:
            self._growth[self._in_reasoning].note(text)
            self.sampled_text.append(text)
            if shown:
                self._log.add_text(shown, kind)
        return shown

    def _note_finish(self, chunk: Chunk) -> None:
        super()._note_finish(chunk)
        self._says_calls |= calls_tools(chunk.finish)

    def _read_fields(self, delta: Mapping[str, Any]) -> list[Event]:
        """Reads a delta with more than one field, or with another one than text."""
        if isinstance(delta, LastMessage):
            self._last_messages.append(delta)
            return []
        fields = with_known_names(delta)
        number = delta.number if isinstance(delta, OtherChoice) else None
        self._note_unknown(fields, number)
        for piece in call_pieces(fields):
            self._calls.add(piece, number or 0)
        spoken = groupby(spoken_texts(fields), itemgetter(0))  # a text may come as a list of parts
        texts = [(kind, "".join(text for _, text in parts)) for kind, parts in spoken]
        if isinstance(delta, MessageSoFar):
            texts = list(map(self._unsaid, texts))
        texts = [(kind, text) for kind, text in texts if text]
        if number is not None:
            if texts:
                self._other_texts.setdefault(number, []).extend(texts)
            return []
        events: list[Event] = []
        for kind, text in texts:
            events += self._say(text, kind)
        return events

    def _note_unknown(self, fields: Mapping[str, Any], speaker: object) -> None:
        for name in self._unknown.note(fields, speaker):
            self._habits.saw_unknown(name)

    def _unsaid(self, spoken: tuple[bool, str]) -> tuple[bool, str]:
        """The text of a message in place of a delta, without the text so far, which some servers
        repeat in each."""
        is_reasoning, text = spoken
        before = self._message_texts[is_reasoning]
        self._message_texts[is_reasoning] = text or before
        is_all = self._least_in_message <= len(before) == self._growth[is_reasoning].length
        if not is_all or not text.startswith(before):
            return spoken
        self._least_in_message = 1  # this server does
        return is_reasoning, text[len(before) :]

    def _so_far(self, is_reasoning: bool) -> str:
        """The text of one of the two fields, as far as it has come."""
        return (
            "".join(self._pieces) if self._pieces and not is_reasoning else self._said(is_reasoning)
        )

    def _say(self, text: str, reasoning: bool) -> list[Event]:
        """Reads text from the upstream immediately, unless its kind is not yet known."""
        growth = self._growth[reasoning]
        if growth.may_repeat(text):
            if growth.is_repeated:
                raise BackendError("the backend went on behind a text that it had said twice")
            if text == self._so_far(reasoning):
                growth.is_repeated = True
                return []
        growth.note(text)
        if self._content_first is False:
            return self._text_events(text, reasoning)
        if reasoning:
            self._habits.saw_field()
        if self._content_first:
            return self._text_events(text, reasoning)
        if reasoning:
            return [*self._release(False), *self._text_events(text, True)]
        in_content = self._habits.reasons_in_content
        if self._call.stream and in_content is not None:
            return [*self._release(in_content), *self._text_events(text, False)]
        return self._hold(text)

    def _hold(self, text: str) -> list[Event]:
        """Holds content back until its kind is clear. An answer that is sent whole can wait until
        its end."""
        self._pieces.append(text)
        self._held_size += len(text)
        if self._opens_thinking():
            return self._release(False)
        if self._ends_thinking(text):
            self._habits.saw_in_content()
            return self._release(self._habits.reasoning_place != "field")
        if self._call.stream and self._held_size >= _MOST_HELD:
            return self._release(False)
        return []

    def _release(self, content_first: bool) -> list[Event]:
        """Decides how the content is read, and reads what was held back."""
        self._content_first = content_first
        text, self._pieces, self._tail = "".join(self._pieces), [], ""
        return self._text_events(text, False) if text else []

    def _text_events(self, text: str, reasoning: bool) -> list[Event]:
        """The events of text from the upstream, with a think tag written where it changes between
        its two fields. Where content begins with reasoning, the content has the tag itself."""
        events: list[Event] = []
        if self._content_first and self._in_reasoning and not reasoning:
            self._in_reasoning = not self._ends_thinking(text)
        elif reasoning != self._in_reasoning:
            border = THINK_START if reasoning else THINK_END
            self._in_reasoning = reasoning
            self.sampled_text.append(border)
            events += self._parser.feed_border(border)
        self.sampled_text.append(text)
        own = self._parser.feed(text)
        expected = ReasoningDelta if reasoning else ContentDelta
        for event in own:
            if event.__class__ is not expected:
                own = [*own, *self._leaks(own, expected)]
                break
        return [*events, *own] if events else own

    def _opens_thinking(self) -> bool:
        """Whether the content also has the tag that opens thinking. Then nothing is left to guess,
        in this answer or in others."""
        if self._held_size > _MOST_HELD:
            return False
        return "".join(self._pieces).lstrip().startswith(THINK_START)

    def _ends_thinking(self, text: str) -> bool:
        """Whether thinking ends in the content so far, this text included."""
        content = self._tail + text
        self._tail = content[-len(THINK_END) :]  # with the character before what may be a tag
        return bool(_THINKING_ENDS.search(content))

    # Repairs.

    def _leaks(self, events: list[Event], expected: type) -> list[Event]:
        """The reports of a text's events that should not have come from its field."""
        leaks = [
            self._report("leaked_call") for event in events if isinstance(event, ToolCallStart)
        ]
        if not self._has_leaked_reasoning and any(_is_mixed_up(e, expected) for e in events):
            self._has_leaked_reasoning = True
            if self._has_stray_end(events, expected):
                self._habits.saw_in_content()
            leaks.append(self._report("leaked_reasoning"))
        return leaks

    def _has_stray_end(self, events: list[Event], expected: type) -> bool:
        """Whether thinking ends in the content without having begun."""
        is_stray = any(isinstance(e, Diagnostic) and e.kind == "stray_think" for e in events)
        thinks = expected is ContentDelta and self._call.request.thinking
        return thinks and is_stray and THINK_START not in self.sampled

    def _report(self, kind: DiagnosticKind) -> Event:
        at = sum(map(len, self.sampled_text))
        return Diagnostic(kind, at, at, "")

    def end(self) -> list[Event]:
        """The events of the end: the upstream's own calls come after those that had leaked."""
        # Content of another choice may be all that there is: then its end comes behind that.
        is_elsewhere = bool(self._other_texts) and not self._pieces
        events = [] if is_elsewhere else self._end_of_content()
        events += self._rest_of_answer()
        rest = self._logged([*events, *(self._end_of_content() if is_elsewhere else ())])
        if self._in_reasoning and not self.sampled_text and not self._call.request.prefix:
            # It said nothing at all, so it has not begun to think either.
            self._parser.feed_border(THINK_END)
        # The client's stop strings went to the upstream with the rest of its request.
        *last, end = self._parser.finish(self._settled(by_string=bool(self._call.request.stop)))
        late = [self._report("leaked_call") for event in last if isinstance(event, ToolCallStart)]
        rest += self._logged([*late, *last])
        leaks = assemble(self.events).tool_calls
        rest += self._logged([*self._upstream_calls(leaks), end])
        self._check_agreement({call.name for call in leaks})
        return rest

    # Content outside the deltas of the first choice.

    def _rest_of_answer(self) -> list[Event]:
        """The events of what other choices and a last message add."""
        events: list[Event] = []
        twins: set[int] = set()
        for number, texts in self._other_texts.items():
            for is_reasoning in (True, False):
                pieces = [each for kind, each in texts if kind is is_reasoning]
                if _grow(pieces):
                    raise BackendError(_SAID_AGAIN)
                text, said = "".join(pieces), self._said(is_reasoning)
                if text and said and text != said:
                    raise BackendError("the backend sent two texts, although one was asked for")
                if text and said:
                    twins.add(number)
                elif text:
                    events += self._say(text, is_reasoning)
        self._calls.drop(self._calls_of_twins(twins))  # or a message's arguments go to some of them
        for message in self._last_messages:
            events += self._rest_of_message(with_known_names(message))
        self._calls.drop(self._calls_of_twins(twins))
        return events

    def _calls_of_twins(self, twins: set[int]) -> list[UpstreamCall]:
        """The calls that repeat one of the first choice: those of choices with the same text, or
        with the same ids."""
        own = [call for call in self._calls if not call.choice]
        said = [(call.name, argument_value(call.arguments)) for call in own]
        ids = {call.id for call in own}
        return [
            call
            for call in self._calls
            # One without a name has lost it: it repeats nothing.
            if call.choice and call.name and (call.choice in twins or call.id in ids)
            if (call.name, argument_value(call.arguments)) in said
        ]

    def _rest_of_message(self, message: Mapping[str, Any]) -> list[Event]:
        """The events of what a message has beyond its deltas."""
        self._note_unknown(message, object())
        calls = UpstreamCalls(self._call.names)
        for piece in call_pieces(message):
            calls.add(piece)
        self._calls.take_in(calls)
        events: list[Event] = []
        for is_reasoning in (True, False):
            said = self._said(is_reasoning)
            text = "".join(text for kind, text in spoken_texts(message) if kind is is_reasoning)
            if said and not text and _goes_on_elsewhere(said, message):
                raise BackendError("the backend's last message goes on in an unknown field")
            if more := _more_of(said, text):
                events += self._text_events(more, is_reasoning)
        return events

    def _said(self, is_reasoning: bool) -> str:
        """The text of the deltas in one of the two fields."""
        field = "reasoning_content" if is_reasoning else "content"
        return "".join(delta.get(field, "") for delta in self.deltas)

    # Whether everything was read.

    @property
    def is_empty(self) -> bool:
        elsewhere = self._pieces or self._other_texts or self._last_messages
        is_said = self._unknown.say_something or self._says_calls or any(self._calls)
        return super().is_empty and not (elsewhere or is_said)

    def _check_agreement(self, leaks: set[str]) -> None:
        """Raises a `BackendError` where the end shows that there is more than was read: an
        incomplete answer is never passed on as complete. Calls of the tools in `leaks` were found
        in the text."""
        if self._is_cut or self.is_done:
            return
        if any(growth.is_certain for growth in self._growth.values()):
            raise BackendError(_SAID_AGAIN)
        message = assemble(self.events)
        if (self._says_calls or self._unknown.have_calls) and not message.tool_calls:
            raise BackendError("the backend says that it calls a tool, and no call can be read")
        self._check_calls(leaks)
        if self._unknown.have_more(message.tool_calls):
            raise BackendError("the backend sent more of its calls than can be read")
        if lost := self._unknown.lost(message, self.sampled):
            names = ", ".join(sorted(lost))
            raise BackendError(f"the backend answered in fields that are not known: {names}")

    def _check_calls(self, leaks: set[str]) -> None:
        """Raises a `BackendError` where a call lacks a part, or two calls share an id."""
        if self._calls.has_strays:
            raise BackendError("the backend sent pieces of a call that it did not begin")
        # An id belongs to one call, unless it is the tool's name.
        ids = {(call.id, call.choice) for call in self._calls if call.id not in ("", call.name)}
        if len(ids) > len(dict(ids)):
            raise BackendError("the backend sent two different calls under one id in two choices")
        for call in self._calls:
            # A call that is unreadable in one place may have been readable in another.
            has_leaked = call.name in leaks if call.name else bool(leaks)
            if not has_leaked and (call.name or call.arguments) and not _is_readable(call):
                raise BackendError("the backend sent a call that cannot be read")

    @property
    def _is_cut(self) -> bool:
        return ended_by(self.finish) not in (Ended.END, Ended.STOP)

    def _end_of_content(self) -> list[Event]:
        """Settles how an answer that has ended is read: nothing followed its content that could be
        its text."""
        has_shown_nothing = bool(self._pieces) or bool(self._content_first and self._in_reasoning)
        if has_shown_nothing and not self._is_cut:
            self._habits.saw_neither()
        if self._content_first is not None:
            return []
        # A thought that was cut off has no end.
        return self._release(self._is_cut and self._habits.reasoning_place == "content")

    def _without_twins(self, found: Sequence[ToolCall]) -> list[UpstreamCall]:
        """The upstream's calls without those that it also leaked: equal ones are the same call,
        which would run twice."""
        leaks = [(call.name, argument_value(call.arguments)) for call in found]
        others = []
        for call in self._calls:
            twin = (call.name, argument_value(call.arguments))
            if twin in leaks:
                leaks.remove(twin)
            else:
                others.append(call)
        return others

    def _upstream_calls(self, found: Sequence[ToolCall]) -> list[Event]:
        leaks = (e.index for e in self.events if isinstance(e, (ToolCallStart, ToolCallAborted)))
        first = 1 + max(leaks, default=-1)
        # Some servers send an empty call where they could not read one.
        calls = self._without_twins(found)
        with_names = [call for call in calls if call.name]
        nameless = [self._report("broken_call")] * (len(calls) - len(with_names))
        ids = zip(with_names, self._call_ids(with_names), strict=True)
        begun = [n for n, call in enumerate(with_names) if not call.says_nothing]
        ended = max(begun, default=-1) + 1 if self._is_cut else len(with_names)
        groups = (
            self._call_events(call, first + n, id, is_lost=n >= ended)
            for n, (call, id) in enumerate(ids)
        )
        return [*chain.from_iterable(groups), *nameless]

    def _call_ids(self, calls: list[UpstreamCall]) -> Iterator[str]:
        """The ids that the client gets, and that it sends back with the turn. No two are the
        same."""
        in_use: set[str] = set()
        for call in calls:
            id = protocol_call_id(self._call.protocol, "" if call.id in in_use else call.id)
            in_use.add(call.id)
            yield id

    def _call_events(
        self, call: UpstreamCall, index: int, id: str, *, is_lost: bool
    ) -> list[Event]:
        """`is_lost` says that the answer was cut where its arguments may have begun."""
        text, is_cut = call.arguments, self._is_cut
        # No text stands for an empty object, unless there were arguments, or might have been.
        is_lost = is_lost or (not text and (is_cut or self._has_lost_arguments))
        arguments = None if is_lost else object_text(text)
        start = ToolCallStart(index, call.name, id)
        if arguments is not None:
            # Not an error: no text for an empty object, or JSON text within a JSON text.
            is_right = arguments == text or text in ("", "null")
            wrong = [] if is_right else [self._report("broken_call")]
            return [start, ArgumentsDelta(index, arguments), ToolCallEnd(index), *wrong]
        # It is aborted, because some clients would run as much of it as they can read.
        why: Literal["cut_short", "unreadable"] = "cut_short" if is_cut else "unreadable"
        events: list[Event] = [start, ArgumentsDelta(index, text), ToolCallAborted(index, why)]
        return events if is_cut else [*events, self._report("broken_call")]

    @property
    def _has_lost_arguments(self) -> bool:
        """Whether there are arguments that belong to no call."""
        return any(call.arguments and not call.name for call in self._calls)

    @property
    def completion_tokens(self) -> int:
        """The number of tokens generated: the upstream's count, else the gateway's."""
        if self.counts.completion is not None or self._tokenizer is None:
            return self.counts.completion or 0
        return self._tokenizer.count(self.sampled)

    @property
    def reasoning_tokens(self) -> int:
        """The number of tokens in the reasoning, where the upstream reports it."""
        return self.counts.reasoning or 0

    @property
    def deltas(self) -> list[dict[str, Any]]:
        """The upstream's answer, in as few deltas as possible."""
        deltas: list[dict[str, Any]] = []
        in_field = self._call.request.thinking and not self._content_first
        field = "reasoning_content" if in_field else "content"
        for text in self.sampled_text:
            if isinstance(text, Special):  # a border, which the upstream did not write
                field = "content" if text is THINK_END else "reasoning_content"
            elif deltas and field in deltas[-1]:
                deltas[-1][field] += text
            else:
                deltas.append({field: text})
        calls = [call.delta(n) for n, call in enumerate(self._calls)]
        return [*deltas, {"tool_calls": calls}] if calls else deltas


def _grow(pieces: Sequence[str]) -> bool:
    """Whether each piece begins with all of the one before it."""
    growth = Growth()
    for piece in pieces:
        growth.note(piece)
    return growth.is_certain


def _is_readable(call: UpstreamCall) -> bool:
    is_lost = call.has_unknown and call.says_nothing
    return bool(call.name) and not is_lost and object_text(call.arguments) is not None


def _more_of(said: str, text: str) -> str:
    """The part of a text that comes after all that was said. Servers trim texts that they
    repeat."""
    if text.strip() in said:
        return ""
    if not text.startswith(said):
        raise BackendError("the backend's last message says something else than its deltas")
    return text[len(said) :]


def _goes_on_elsewhere(said: str, message: Mapping[str, Any]) -> bool:
    """Whether an unknown field has all that was said, and more."""
    texts = [message[name] for name in unknown_fields(message) if isinstance(message[name], str)]
    return any(text.startswith(said) and len(text) > len(said) for text in texts)


# The end of thinking, but not where it is only mentioned in quotes.
_THINKING_ENDS = re.compile(rf"(?<![`'\"]){re.escape(THINK_END)}")

# The parser's diagnostics for think tags in the wrong field.
_THINK_KINDS: tuple[DiagnosticKind, ...] = ("stray_think", "think_in_content")


def _is_mixed_up(event: Event, expected: type) -> bool:
    """Whether an event shows reasoning in the answer's field, or the reverse."""
    if isinstance(event, (ReasoningDelta, ContentDelta)):
        return not isinstance(event, expected) and bool(event.text.strip())
    return isinstance(event, Diagnostic) and event.kind in _THINK_KINDS
