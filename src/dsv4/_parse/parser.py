"""`StreamParser`: text in pieces -> events.

Most chunks of most completions are a few letters in the middle of a line or of a string, and take
a shortcut past the state machine. A chunk may do so, and is then only passed on, under this
invariant:

- nothing waits in the source, so that the chunk stands at the current position;
- the state is prose without stop strings, or a string that is streamed;
- no mark is in the chunk, so that no tag begins in it;
- line breaks at its end wait, because they are dropped if a block comes next; in a string it ends
in none, nor in indentation after one, because both are dropped if the string's end is implied;
- in prose, no character of a fence is in it, and unless it stands in the middle of a line that
has begun with something other than a list marker, and is in no quotation, the lines are followed,
which is all that prose would do.

The machine is told how much has gone by when it is next needed.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring
from typing import TypeAlias

from dsv4._format.dialects import Dialect, dialect_named
from dsv4._format.endings import Ending
from dsv4._format.spellings import FENCES
from dsv4._parse import events as kinds
from dsv4._parse.blocks import Invoke
from dsv4._parse.declared import DeclaredTools
from dsv4._parse.events import (
    ArgumentsDelta,
    ContentDelta,
    End,
    Event,
    Finish,
    ReasoningDelta,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._parse.holds import HELD_BY_STRICT, Hold, hold_of
from dsv4._parse.machine import Machine, ParserState
from dsv4._parse.parser_options import (
    CallDelivery,
    GivenStops,
    GivenTools,
    StopIn,
    checked_bool,
    checked_ending,
    checked_id_maker,
    checked_reason,
    checked_stops,
    checked_text,
    checked_tools,
    checked_word,
)
from dsv4._parse.prose import ProseReader, StopStrings
from dsv4._parse.random_ids import new_call_id
from dsv4._parse.reasons import Ended, Reason
from dsv4._parse.source import MARKS
from dsv4._parse.state_readers import STATE_READERS
from dsv4._parse.strict import StrictMessage, StrictParser, read_plainly
from dsv4._parse.value_readers import ParameterValue, TextValueReader
from dsv4.errors import OptionError, short_repr
from dsv4.types import DialectName

_BRACKET, _WIDE, _BAR = MARKS
_TICK, _TILDE = FENCES[0], FENCES[1]
_LINE_BREAK = "\n"
# So many texts are passed on before they are looked at.
_MOST_TEXTS = 256
_DeltaClass: TypeAlias = type[ReasoningDelta] | type[ContentDelta]
# An event of one field is made faster without its constructor.
_new = object.__new__


class Shortcut:
    """Passes chunks on that need no reading."""

    def __init__(self, machine: Machine, prose: ProseReader) -> None:
        self._machine = machine
        self._prose = prose
        # What words become here, in the middle of a line, and anywhere.
        self._words: _DeltaClass | None = None
        self._line_words: _DeltaClass | None = None
        self._index: int | None = None  # of the call whose string comes in
        self._string: list[str] = []  # what has gone by of that string
        self._prose_texts: list[str] = []  # and of prose
        self._newlines = ""  # at the end of what has gone by: they wait

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, possibly none.

        `text` is the next piece of the completion, cut anywhere; special tokens are spelled in it.
        Raises an `OptionError` after `finish`.
        """
        words = self._words
        try:
            if (
                words is not None
                and _BRACKET not in text
                and _LINE_BREAK not in text
                and _TICK not in text
                and _TILDE not in text
                and (text.isascii() or (_BAR not in text and _WIDE not in text))
                and text
            ):
                self._prose_texts.append(text)
                event = _new(words)
                event.text = text
                return [event]
            if self._line_words is not None:
                return self._in_lines(text, self._line_words)
            if self._index is not None and (
                _BRACKET not in text
                and text
                and text[-1] not in "\r\n"
                and (_LINE_BREAK not in text or text[-1] not in " \t")
                and (text.isascii() or (_BAR not in text and _WIDE not in text))
            ):
                self._string.append(text)
                inside = text if text.isalnum() else encode_basestring(text)[1:-1]
                written = _new(ArgumentsDelta)
                written.index = self._index
                written.text = inside
                return [written]
        except (TypeError, AttributeError):
            pass  # it is no text, which is refused below
        return self._read(text)

    def _in_lines(self, text: str, words: _DeltaClass) -> list[Event]:
        """Words with line breaks among them, or at a line's start. Breaks at the end wait."""
        if not text or _BRACKET in text or _TICK in text or _TILDE in text:
            return self._read(text)
        if not text.isascii() and (_BAR in text or _WIDE in text):
            return self._read(text)
        after = text.rfind(_LINE_BREAK) + 1
        if self._words is not None and after < len(text) and text[after].isalpha():
            shown = text  # a line that begins with a letter is settled at once
        else:
            settled = self._prose.follow(text)
            text = self._newlines + text
            kept = 0
            if text[-1] == _LINE_BREAK:
                kept = 2 if text[-2:] == _LINE_BREAK * 2 else 1
            self._newlines = text[len(text) - kept :]
            self._words = words if settled and not kept else None
            shown = text[: len(text) - kept]
            if not shown:
                return []
        self._prose_texts.append(shown)
        if len(self._prose_texts) > _MOST_TEXTS:
            self._hand_over()
        return [words(shown)]

    def _read(self, text: str) -> list[Event]:
        """The events of a chunk that must be read."""
        raise NotImplementedError

    def _choose(self, carries: bool = False) -> None:
        """Finds out what may go by, now that the machine has read."""
        self._close()
        machine, prose = self._machine, self._prose
        reader = machine.reader
        if machine.source.text or machine.reads_all or carries or machine.holds:
            return
        if reader is prose:
            if prose.is_idle:
                self._line_words = ReasoningDelta if prose.reasoning else ContentDelta
                self._words = self._line_words if prose.lines.needs_no_following else None
        elif type(reader) is TextValueReader:
            value = reader.value
            if isinstance(value, ParameterValue) and value.is_idle:
                self._index = value.invoke.call.index

    def _close(self) -> None:
        """Lets nothing by any more."""
        self._words = self._line_words = self._index = None

    def _catch_up(self) -> None:
        """Tells the machine what has gone by, and gives it what waits."""
        source, reader = self._machine.source, self._machine.reader
        if self._string:
            text = "".join(self._string)
            self._string.clear()
            source.skip(len(text), text)
            assert isinstance(reader, TextValueReader)
            reader.skip(text)
        elif self._prose_texts or self._newlines:
            self._hand_over()
            if self._newlines:
                self._prose.skip(self._newlines)
                source.append(self._newlines)
            self._newlines = ""

    def _hand_over(self) -> None:
        """Gives prose the text that has gone by."""
        text = "".join(self._prose_texts)
        self._prose_texts.clear()
        self._machine.source.skip(len(text), text)
        self._prose.skip(text)


_CALL_EVENTS = (ToolCallStart, ArgumentsDelta, ToolCallEnd, ToolCallAborted)


class StreamParser(Shortcut):
    """Reads a completion in pieces.

    `ending` is how the prompt ends, `prompt.ending`: it says whether the model's text begins with
    reasoning, and what the prompt already holds of the turn. Without it, `thinking` and `prefix`
    say the same two things. `tools` are the declared tools, as tool or function objects: `[]` says
    that there are none, None that you do not know. `tool_choice` is the request's; "none" means
    that no call is made. `dialect` is the release whose spelling is right, or its name; all are
    read. `strict` raises a `ParseError`, at the end, for what leaves the grammar. `stop` strings
    end the text; they act in the content, or with `stop_in="all"` in the reasoning too. With
    `calls="whole"` nothing of a call is seen before it is complete. `new_id` makes the ids of
    calls.

    Raises an `OptionError` for an option that is not what it should be.
    """

    def __init__(
        self,
        *,
        ending: Ending | None = None,
        thinking: bool = True,
        tools: GivenTools = None,
        tool_choice: object = "auto",
        dialect: DialectName | Dialect | None = None,
        strict: bool = False,
        stop: GivenStops = (),
        stop_in: StopIn = "content",
        calls: CallDelivery = "streamed",
        new_id: Callable[[], str] = new_call_id,
        prefix: str = "",
    ) -> None:
        ending = checked_ending(ending)
        thinking = checked_bool("thinking", thinking)
        prefix = checked_text("prefix", prefix)
        strict = checked_bool("strict", strict)
        if ending is not None:
            if prefix:
                raise OptionError("prefix", "found text and an ending, expected one of them")
            thinking, prefix = ending.thinking, ending.open
        if prefix and strict:
            problem = "found text and strict=True, expected one of them: strict reads whole turns"
            raise OptionError("prefix", problem)
        spoken = dialect_named("v4" if dialect is None else dialect)
        declared = DeclaredTools(checked_tools(tools))
        stops = checked_stops(stop)
        everywhere = checked_word("stop_in", stop_in, ("content", "all")) == "all"
        whole = checked_word("calls", calls, ("streamed", "whole")) == "whole"
        forbidden = tool_choice == "none"
        maker = checked_id_maker(new_id)
        self._finished = False
        self._inert = False  # whether the text being read can spell no special token
        self._carried: list[Event] = []  # of a call that the prompt left open
        self._strict: StrictParser | None = None
        if strict:
            self._strict = StrictParser(thinking, declared, forbidden, spoken, maker)

        machine = Machine(
            dialect=spoken,
            tools=declared,
            forbidden=forbidden,
            new_id=maker,
            whole_calls=whole,
            start=-len(prefix),
        )
        prose = ProseReader(machine, thinking, StopStrings(stops) if stops else None, everywhere)
        machine.start(STATE_READERS, prose)
        super().__init__(machine, prose)
        if not strict:
            self._choose()
        # Whether the prompt holds the beginning of the text.
        self._continues = bool(prefix)
        if prefix:
            self._continue(prefix)

    # What comes in.

    def feed_inert(self, text: str) -> list[Event]:
        """The events that `text` brings, in which nothing is a special token, whatever it spells.

        `text` is the next piece of the completion, where special tokens are known by other means,
        as in a stream of ids. Raises an `OptionError` after `finish`.
        """
        # A shortcut is right for it where it has no mark, and then spells nothing.
        self._inert = True
        try:
            return self.feed(text)
        finally:
            self._inert = False

    def _read(self, text: str) -> list[Event]:
        if not isinstance(text, str):
            raise OptionError("text", f"found {short_repr(text)}, expected text")
        if self._finished:
            raise OptionError("text", "found more text after finish, expected a new parser for it")
        if self._strict is not None:
            self._strict.feed(text, self._inert)
            return []
        machine = self._machine
        source = machine.source
        if self._string or self._prose_texts or self._newlines:
            self._catch_up()
        source.append(text, self._inert)
        events = self._begin()
        machine.run()
        if source.pos > source.base:
            source.trim()
        if source.text:
            self._words = self._line_words = self._index = None  # nothing goes by what waits
        else:
            self._choose()
        return events

    def _begin(self) -> list[Event]:
        events, self._carried = self._carried, []
        self._machine.show_to(events)
        return events

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. The last of them is an `End`.

        `reason` is why generation ended, if you know, in the words of any server. "eos" and
        "tool_calls", for example, say that the model ended it, which completes a call as an EOS
        does; "stop" may be a stop string's doing, and completes none; "length" and every word that
        is not known say that the text was cut. Raises an `OptionError` the second time, and for a
        reason that is no text; a strict parser raises a `ParseError`.
        """
        ended = checked_reason(reason)
        if self._finished:
            raise OptionError("reason", "found finish once more, expected it once")
        if self._strict is not None:
            events = self._strict.finish(ended)
            self._finished = True
            return events
        self._finished = True
        machine = self._machine
        self._catch_up()
        self._close()
        machine.source.ended = ended
        events = self._begin()
        machine.finish()
        if self._prose.unclosed and machine.state is not ParserState.HALTED:
            machine.report_raw(kinds.UNCLOSED_REASONING, machine.source.pos, "")
        machine.report_further()
        machine.emit(End(self._finish_reason(ended)))
        return events

    def _finish_reason(self, ended: Ended | None) -> Finish:
        """Why the text ended. A stop string that was hit counts most, and then an EOS."""
        machine = self._machine
        if machine.state is ParserState.HALTED:
            return "tool_calls" if machine.calls_completed else "stop"
        if machine.eos:
            ended = Ended.END
        if machine.cut or (ended is not None and ended.is_cut):
            return "length"
        if machine.calls_completed:
            return "tool_calls"
        if self._prose.unclosed and ended is None:
            return "length"
        return "stop"

    def _continue(self, prefix: str) -> None:
        """Reads what the prompt holds already. Of its events only those of an open call count."""
        events = self.feed(prefix)
        machine = self._machine
        machine.release_all()  # the prompt's own calls are in no doubt
        invoke = machine.invoke
        if isinstance(invoke, Invoke) and invoke.call.begun and invoke.call.visible:
            index = invoke.call.index
            own = (event for event in events if isinstance(event, _CALL_EVENTS))
            self._carried = [event for event in own if event.index == index]
        self._catch_up()
        self._choose(carries=bool(self._carried))

    def _read_plainly(self, text: str) -> StrictMessage | None:
        """A whole completion that can be read in one way only, without any state. None: another."""
        machine = self._machine
        if machine.forbidden or machine.tools.none_declared:
            return None
        return read_plainly(text, self._prose.reasoning, machine.tags, machine.tools)

    # Where reading is.

    @property
    def held(self) -> str:
        """The text that has come and waits for what follows it."""
        if self._strict is not None:
            return self._strict.held
        self._catch_up()
        self._choose()
        source = self._machine.source
        if self._machine.quotations:
            return source.pinned(self._machine.held_from, source.end)
        return source.waiting

    @property
    def held_by(self) -> Hold | None:
        """Why the held text waits: the rule that holds it, and what is waited for."""
        if self._strict is not None:
            return HELD_BY_STRICT if self._strict.holds else None
        self._catch_up()
        self._choose()
        return hold_of(self._machine)

    @property
    def state(self) -> ParserState:
        """What is being read; its value is a description."""
        return self._machine.state

    @property
    def position(self) -> int:
        """How many characters of the text are done with."""
        self._catch_up()
        self._choose()
        return max(self._machine.held_from, 0)
