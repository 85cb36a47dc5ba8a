"""The trace of reading a completion piece by piece, which the Stream view shows step by step.

A trace is about as long as the text: pieces that only extend the text before them are described
together. A step is a piece that has arrived; after the last there is one more, the end. Step 0 is
before the first. Offsets and lengths count UTF-16 units, as the strings of the page do.

- `cuts`: the length of each piece, or None where each is one unit.
- `knots`: `[step, state, hold, from, slides]`, the steps at which something other than the text
  changes: from this step on the state and the reason for holding text back are these. The held text
  begins at `from`; if it slides, it begins as far before the end of the text as at the knot.
- `holds`: the reasons, each `[rule, reason]`. The first means that nothing is held.
- `rows`: the events. Consecutive deltas of one kind are one row, with their text joined and with
  `runs`, `[step, count, length]`: `count` deltas from this step on, one for each step. The text of
  a single delta is `length` long; those of a longer run are as long as their pieces.
- `frames`: for each protocol the frames that are sent before the first event (`start`), for each
  row (`rows`, `[frames, more]`: those of an event, or of the first delta; and the pattern of the
  deltas after it, a frame and the path to the text in it) and at the end (`finish`). The
  `sequence_number` of a frame is its place in the stream.
- `like_answer`: whether the text looks like an answer, but was read as beginning in reasoning.
"""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from dsv4._completion.events import ArgumentsDelta, ContentDelta, Diagnostic, Event, ReasoningDelta
from dsv4._completion.message import Message, assemble, reads_like_an_answer
from dsv4._completion.reasons import Reason
from dsv4._format import tokens
from dsv4._parse.holds import Hold
from dsv4._parse.parser import StreamParser
from dsv4._parse.reading import NEXT, ParserState
from dsv4._playground.page_examples import COMPLETION_TOOLS, EXAMPLE_COMPLETIONS
from dsv4._playground.page_request import PlaygroundContext
from dsv4._playground.provenance import Utf16Offsets, utf16_length
from dsv4.api import ApiRequest
from dsv4.api.api_request import ApiSettings, ProtocolName
from dsv4.api.event_writer import EventWriter
from dsv4.api.protocols import PROTOCOLS
from dsv4.errors import OptionError, ParseError, mismatch
from dsv4.request import Request

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer

# A completion in pieces: as a model may send it, or cut at the worst positions.


CUT_MODES = ("character", "token", "random")
# Random pieces are mostly short, because short pieces are the hardest to parse; some are long.
_LONGEST_PIECE = 24


def cut_completion(text: str, way: object, seed: object, tokenizer: Tokenizer | None) -> list[str]:
    """The pieces of a text, none of them empty.

    `way` is one of `CUT_MODES`, `seed` decides the random cuts. Raises an `OptionError` for
    another way, or for tokens without a tokenizer.
    """
    if way == "character":
        return list(text)
    if way == "random":
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise OptionError("seed", mismatch(seed, "a whole number"))
        return list(_random_pieces(text, random.Random(seed)))
    if way != "token":
        raise OptionError("cut", mismatch(way, f"one of {', '.join(CUT_MODES)}"))
    if tokenizer is None:
        raise OptionError("cut", "found token, but the extra `tokens` is not installed")
    return [piece for piece in _token_pieces(text, tokenizer) if piece]


def _random_pieces(text: str, choose: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = min(choose.randint(1, _LONGEST_PIECE), choose.randint(1, _LONGEST_PIECE))
        yield text[at : at + size]
        at += size


def _token_pieces(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """The text of each token. A character belongs to the token that completes it."""
    for part in tokens.markup(text).parts:
        if isinstance(part, tokens.Special):
            yield str(part)
            continue
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for id in tokenizer.encode_text(part):
            yield decoder.decode(tokenizer.bytes_of(id))
        yield decoder.decode(b"", True)


# The frames of the protocols: for a run of deltas one pattern, which the page fills.


# Rows beyond this number have no frames: those of a text that changes between reasoning and content
# every few characters would be a hundred times as long as the text.
MAX_FRAMED_ROWS = 2_000


def protocol_frames(
    protocol: ProtocolName,
    rows: Sequence[tuple[Event, Sequence[str]]],
    options: Mapping[str, Any],
    reason: Reason | None,
) -> dict[str, Any]:
    """The frames of a protocol for `rows`: each is an event, or the first of several deltas, with
    their texts."""
    writer = _protocol_writer(protocol, options)
    # The second writer gets the same events with another text, which shows the place of the text.
    pattern = _protocol_writer(protocol, options)
    start = writer.start()
    pattern.start()
    written = [_row_frames(*row, writer, pattern) for row in rows[:MAX_FRAMED_ROWS]]
    whole = len(rows) <= MAX_FRAMED_ROWS
    return {
        "start": start,
        "rows": written,
        "finish": writer.finish(reason=reason) if whole else [],
        "whole": whole,
    }


def _protocol_writer(protocol: ProtocolName, options: Mapping[str, Any]) -> EventWriter:
    settings = ApiSettings(calls=options.get("calls", "streamed"))
    request = Request([{"role": "user", "content": ""}], dialect=options["dialect"])
    call = ApiRequest(request, protocol, "deepseek-v4", 1, stream=True, settings=settings)
    writer = PROTOCOLS[protocol].Writer
    return writer(call, id=f"{writer.id_prefix}playground", created=0)


def _row_frames(
    event: Event, texts: Sequence[str], writer: EventWriter, pattern: EventWriter
) -> list[Any]:
    """The frames of a row's event, or of its first delta; and the pattern of the later deltas."""
    if not isinstance(event, JOINED_EVENTS):
        pattern.write(event)
        return [writer.write(event), None]
    first = writer.write(_with_text(event, texts[0]))
    pattern.write(_with_text(event, _TEXT_MARK))
    if len(texts) == 1:
        return [first, None]
    # The rest is written as one delta, so that later frames with the whole text are right.
    writer.write(_with_text(event, "".join(texts[1:])))
    more = pattern.write(_with_text(event, _TEXT_MARK))
    return [first, {"frame": more[0], "path": _path_to(_TEXT_MARK, more[0])} if more else None]


# A text that occurs nowhere else in a frame.
_TEXT_MARK = "\0"
_Delta: TypeAlias = ReasoningDelta | ContentDelta | ArgumentsDelta


def _with_text(event: _Delta, text: str) -> _Delta:
    return replace(event, text=text)


def _path_to(text: str, value: object) -> list[str | int] | None:
    """The path to a text in a frame."""
    if value == text:
        return []
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        path = _path_to(text, item)
        if path is not None:
            return [key, *path]
    return None


# The trace.


# A text of this many characters takes seconds, with one piece for each; real ones are far shorter.
MAX_TEXT_LENGTH = 1_200_000

JOINED_EVENTS = (ReasoningDelta, ContentDelta, ArgumentsDelta)
STATES = list(ParserState)
PARSER_OPTIONS = ("thinking", "tools", "tool_choice", "dialect", "stop", "stop_in", "calls")


def stream_view_setup(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The data that the Stream view loads once: the diagram of states, and examples."""
    return {
        "states": [{"name": state.name, "words": state.value} for state in STATES],
        "moves": [[a.name, b.name] for a in STATES for b in STATES if b in NEXT[a]],
        "examples": [asdict(example) for example in EXAMPLE_COMPLETIONS],
        "tools": COMPLETION_TOOLS,
    }


def trace_completion(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The trace of reading a completion in pieces.

    `body` has the `text`, the way to `cut` it ("character", "token" or "random", with its `seed`),
    the options of `StreamParser` and the `reason` for which generation ended. Raises an
    `OptionError`.
    """
    text, options = _completion_text(body), _parser_options(body, context)
    reason = body.get("reason")
    pieces = cut_completion(
        text, body.get("cut", "character"), body.get("seed", 0), context.tokenizer
    )
    reading = _TracedParse(text, pieces, options, reason)
    message = assemble(reading.events)
    widths = list(map(utf16_length, pieces))
    deltas = [(row.event, row.texts) for row in reading.rows]
    return {
        "length": sum(widths),
        "steps": len(pieces) + 1,
        "cuts": widths if any(size != 1 for size in widths) else None,
        "knots": reading.knots.rows,
        "holds": [list(hold) if hold else [None, ""] for hold in reading.holds],
        "rows": [row.to_json(reading.offsets) for row in reading.rows],
        "frames": {name: protocol_frames(name, deltas, options, reason) for name in PROTOCOLS},
        "message": _message_to_json(message),
        "events": len(reading.events),
        "like_answer": reads_like_an_answer(message),
        "strict": _strict_result(text, options, reason, message),
    }


def parse_traced(body: Mapping[str, Any], context: PlaygroundContext) -> Message:
    """The message at the end of a trace. `body` is that of a trace."""
    parser = _parser(_parser_options(body, context))
    return assemble([*parser.feed(_completion_text(body)), *parser.finish(body.get("reason"))])


def _completion_text(body: Mapping[str, Any]) -> str:
    text = body.get("text")
    if not isinstance(text, str):
        raise OptionError("text", mismatch(text, "text"))
    if len(text) > MAX_TEXT_LENGTH:
        raise OptionError(
            "text", f"found {len(text)} characters, expected at most {MAX_TEXT_LENGTH}"
        )
    return text


def _parser_options(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    options = {name: body[name] for name in PARSER_OPTIONS if body.get(name) is not None}
    return {"dialect": context.dialect, **options}


def _parser(options: Mapping[str, Any]) -> StreamParser:
    """A parser whose call ids are the same for the same text."""
    return StreamParser(**options, new_id=map("call_{}".format, count()).__next__)


class TraceRow:
    """An event, or consecutive deltas of one kind."""

    def __init__(self, event: Event, step: int) -> None:
        self.event = event
        self.step = step
        self.texts: list[str] = []
        self.runs: list[list[int]] = []
        self._flows = False  # whether the deltas of the last run are as long as their pieces

    def takes(self, event: Event) -> bool:
        """Whether a delta continues this row."""
        return type(event) is type(self.event) and (
            getattr(event, "index", None) == getattr(self.event, "index", None)
        )

    def add(self, text: str, step: int, size: int) -> None:
        """Adds a delta that arrived with a piece of this size."""
        self.texts.append(text)
        length = utf16_length(text)
        if self._flows and length == size and sum(self.runs[-1][:2]) == step:
            self.runs[-1][1] += 1
            return
        self.runs.append([step, 1, length])
        self._flows = length == size

    def to_json(self, offsets: Utf16Offsets) -> dict[str, Any]:
        event = self.event
        facts = {"type": type(event).__name__, "step": self.step}
        if isinstance(event, JOINED_EVENTS):
            index = {"index": event.index} if isinstance(event, ArgumentsDelta) else {}
            return {**facts, **index, "text": "".join(self.texts), "runs": self.runs}
        if isinstance(event, Diagnostic):
            span = {"start": offsets(event.start), "end": offsets(event.end)}
            return {**facts, "kind": event.kind, **span, "sentence": event.sentence}
        return {**facts, **asdict(event)}


class TraceKnots:
    """The steps at which something other than the text changes."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._end = 0  # the end of the text at the last knot
        self._open = False  # whether the last knot may still turn out to slide

    def add(self, step: int, state: int, hold: int, start: int, end: int) -> None:
        """Adds a step at which the text ends at `end`, and the held text begins at `start`."""
        if self.rows:
            knot = self.rows[-1]
            slid = end - start == self._end - knot[3]
            if knot[1:3] == [state, hold]:
                if self._open and slid and end > start:
                    knot[4] = True
                if slid if knot[4] else start == knot[3]:
                    self._open = False
                    return
        self.rows.append([step, state, hold, start, start == end])
        self._end = end
        self._open = start < end


class _TracedParse:
    """The parse of a text: its events, in rows, and the knots."""

    def __init__(
        self, text: str, pieces: Sequence[str], options: Mapping[str, Any], reason: Reason | None
    ) -> None:
        parser = _parser(options)
        self.events: list[Event] = []
        self.rows: list[TraceRow] = []
        self.knots = TraceKnots()
        self.holds: dict[Hold | None, int] = {None: 0}
        self.offsets = offsets = Utf16Offsets(text)
        fed = 0

        def add_knot(step: int) -> None:
            hold = self.holds.setdefault(parser.held_by, len(self.holds))
            start, state = offsets(parser.position), STATES.index(parser.state)
            self.knots.add(step, state, hold, start, offsets(fed))

        add_knot(0)
        for step, piece in enumerate(pieces, 1):
            fed += len(piece)
            self._add_events(parser.feed(piece), step, utf16_length(piece))
            add_knot(step)
        last = len(pieces) + 1
        self._add_events(parser.finish(reason), last, 0)
        end = offsets(len(text))
        self.knots.add(last, STATES.index(parser.state), 0, end, end)

    def _add_events(self, events: Iterable[Event], step: int, size: int) -> None:
        for event in events:
            self.events.append(event)
            if isinstance(event, JOINED_EVENTS):
                if not self.rows or not self.rows[-1].takes(event):
                    self.rows.append(TraceRow(event, step))
                self.rows[-1].add(event.text, step, size)
            else:
                self.rows.append(TraceRow(event, step))


# The message at the end.


def _message_to_json(message: Message) -> dict[str, Any]:
    return {
        **message.to_dict(),
        "finish": message.finish,
        "incomplete": [call.to_dict() for call in message.incomplete],
    }


def _strict_result(
    text: str, options: Mapping[str, Any], reason: Reason | None, tolerant: Message
) -> dict[str, Any]:
    """Whether the strict grammar accepts the text; its message, if that differs."""
    parser = _parser({**options, "strict": True})
    try:
        message = assemble([*parser.feed(text), *parser.finish(reason)])
    except ParseError as error:
        position = Utf16Offsets(text)(error.position)
        return {"accepts": False, "position": position, "problem": error.problem}
    strict = _message_to_json(message)
    same = strict == _message_to_json(tolerant)
    return {"accepts": True, "message": None if same else strict}
