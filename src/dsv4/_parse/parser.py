"""`StreamParser`: text in pieces -> events.

Most chunks of most completions are a few letters in the middle of a line or of a string, and take
a shortcut past all reading. A chunk may do so, and is then only passed on, under this invariant:

- nothing waits, and nothing is tried or doubted, so that the chunk is at the reader's position;
- it is prose without stop strings, or a string that is streamed;
- no mark is in the chunk, so that no tag begins in it;
- line breaks at its end wait, because they are dropped if a block comes next; in a string one does,
and indentation after it, because both are dropped if the string's end is implied.

The reading is given the chunks that have passed when it is next needed.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring

from dsv4._completion.declared import DeclaredTools
from dsv4._completion.events import (
    ArgumentsDelta,
    ContentDelta,
    End,
    Event,
    Finish,
    ReasoningDelta,
    TextKind,
)
from dsv4._completion.limits import LONGEST_SPACE
from dsv4._completion.plain_completion import read_plainly
from dsv4._completion.random_ids import new_call_id
from dsv4._completion.reasons import Ended, Reason
from dsv4._completion.strict import StrictMessage
from dsv4._format.dialects import Dialect, dialect_named
from dsv4._format.endings import Ending
from dsv4._format.spellings import BAR, BRACKET, WIDE_BRACKET
from dsv4._parse import parser_options as options
from dsv4._parse.holds import Hold, hold_of
from dsv4._parse.lexer import read_tag
from dsv4._parse.read_completion import read_completion, read_strict_completion
from dsv4._parse.reading import PROSE, ParserState, Reading
from dsv4._parse.respelling import Respelling, read_spelling
from dsv4._parse.speculation import Speculation
from dsv4._parse.stop_strings import StopStrings
from dsv4._parse.text_buffer import TextBuffer
from dsv4._parse.values import ParameterValue
from dsv4.errors import OptionError, ParseError, short_repr
from dsv4.types import DialectName

_LINE_BREAK = "\n"
# So many chunks that have passed are kept one by one: each takes more room than its letters.
_MOST_PASSED = 512
# Text is not forgotten in smaller stretches, because each time costs something.
_LEAST_TRIMMED = 1024
# An event of one field is made faster without its constructor.
_new = object.__new__


class StreamParser:
    """Reads a completion in pieces.

    `ending` is how the prompt ends, `prompt.ending`: it says whether the model's text begins with
    reasoning, and what the prompt already holds of the turn. Without it, `thinking` and `prefix`
    say the same two things. `tools` are the declared tools, as tool or function objects: `[]` says
    that there are none, None that you do not know. `tool_choice` is the request's; "none" means
    that no call is made. `dialect` is the release whose spelling is right, or its name; all are
    read. `strict` raises a `ParseError`, at the end, for text that leaves the grammar. `stop`
    strings end the text; they act in the content, or with `stop_in="all"` in the reasoning too.
    With `calls="whole"` nothing of a call is seen before it is complete. `new_id` makes the ids of
    calls.

    Raises an `OptionError` for an option of the wrong type or with a wrong value.
    """

    dialect: Dialect
    """The release whose spelling is right."""
    _respelling: Respelling | None = None

    def __init__(
        self,
        *,
        ending: Ending | None = None,
        thinking: bool = True,
        tools: options.GivenTools = None,
        tool_choice: object = "auto",
        dialect: DialectName | Dialect | None = None,
        strict: bool = False,
        stop: options.GivenStops = (),
        stop_in: options.StopIn = "content",
        calls: options.CallDelivery = "streamed",
        new_id: Callable[[], str] = new_call_id,
        prefix: str = "",
    ) -> None:
        thinking = options.checked("thinking", thinking, bool, "True or False")
        prefix = options.checked("prefix", prefix, str, "text")
        strict = options.checked("strict", strict, bool, "True or False")
        if ending is not None:
            options.checked("ending", ending, Ending, "a prompt's ending")
            if prefix:
                raise OptionError("prefix", "found text and an ending, expected one of them")
            thinking, prefix = ending.thinking, ending.open
        if prefix and strict:
            problem = "found text and strict=True, expected one of them: strict reads whole turns"
            raise OptionError("prefix", problem)
        if not callable(new_id):
            raise OptionError("new_id", f"found {short_repr(new_id)}, expected a function")
        stops = options.checked_stops(stop)
        self.dialect = dialect_named("v4" if dialect is None else dialect)
        read_dialect = self.dialect.made[read_spelling]
        respelling = None if read_dialect is self.dialect else Respelling(self.dialect)
        if respelling is not None:
            prefix, stops = respelling.as_read(prefix), list(map(respelling.as_read, stops))
        settings = options.ParserSettings(
            dialect=read_dialect,
            tools=DeclaredTools(options.checked_tools(tools), self.dialect.tags.namespace_end),
            forbidden=tool_choice == "none",
            whole_calls=options.checked_word("calls", calls, ("streamed", "whole")) == "whole",
            new_id=new_id,
            strict=strict,
            stops=StopStrings(stops) if stops else None,
            stop_everywhere=options.checked_word("stop_in", stop_in, ("content", "all")) == "all",
        )
        self._finished = False
        self._inert = False  # whether the text being read can spell no special token
        self._is_border = False  # or ends in a think tag that stands for a border of fields
        self._buffer = TextBuffer(read_tag, -len(prefix))
        read = read_strict_completion if strict else read_completion
        self._speculation = Speculation(Reading(settings, self._buffer, thinking), read)
        # The kind of event that words become here, in the middle of a line, and anywhere.
        self._words: TextKind | None = None
        self._line_words: TextKind | None = None
        self._index: int | None = None  # of the call whose string comes in
        self._passed: list[str] = []  # text that took the shortcut, of prose or of that string
        self._newlines = ""  # at the end of that text: they wait
        self._choose()
        if prefix:
            self._continue(prefix)
        if respelling is not None:  # from here on, so that other parsers need not check each piece
            self._respelling = respelling
            self.__class__ = _RespelledParser  # pyright: ignore[reportAttributeAccessIssue]

    # Text that comes in, and text that takes the shortcut.

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, possibly none.

        `text` is the next piece of the completion, cut anywhere; special tokens are spelled in it.
        Raises an `OptionError` after `finish`.
        """
        words = self._words
        try:
            if (
                words is not None
                and BRACKET not in text
                and _LINE_BREAK not in text
                and (text.isascii() or (BAR not in text and WIDE_BRACKET not in text))
                and text
            ):
                self._passed.append(text)
                event = _new(words)
                event.text = text
                return [event]
            if self._line_words is not None:
                return self._in_lines(text, self._line_words)
            if (
                self._index is not None
                and BRACKET not in text
                and text
                and (text.isascii() or (BAR not in text and WIDE_BRACKET not in text))
            ):
                if self._newlines or _LINE_BREAK in text or text[-1] == "\r":
                    return self._in_string(text, self._index)
                self._passed.append(text)
                inside = text if text.isalnum() else encode_basestring(text)[1:-1]
                delta = _new(ArgumentsDelta)
                delta.index = self._index
                delta.text = inside
                return [delta]
        except (TypeError, AttributeError):
            pass  # it is not text, which is refused below
        return self._read(text)

    def pass_by(self, text: str, kind: TextKind) -> str | None:
        """Takes `text` without creating an event, if that would be one of `kind`, or none.
        Returns the event's text. None: nothing was taken, and `text` is to be fed."""
        if (
            kind is not self._line_words
            or BRACKET in text
            or not (text.isascii() or (BAR not in text and WIDE_BRACKET not in text))
        ):
            return None
        if kind is self._words and _LINE_BREAK not in text:
            self._passed.append(text)
            return text
        return self._shown_of(text, kind)

    def _in_lines(self, text: str, words: TextKind) -> list[Event]:
        """Words with line breaks among them, or after some. Breaks at the end wait."""
        if (
            not text
            or BRACKET in text
            or (not text.isascii() and (BAR in text or WIDE_BRACKET in text))
        ):
            return self._read(text)
        shown = self._shown_of(text, words)
        return [words(shown)] if shown else []

    def _shown_of(self, text: str, words: TextKind) -> str:
        """The part of such text that can be shown, with the line breaks that waited before it."""
        waiting = self._newlines + text
        shown = waiting.removesuffix(_LINE_BREAK).removesuffix(_LINE_BREAK)
        self._pass(waiting, shown)
        self._words = None if self._newlines else words
        return shown

    def _in_string(self, text: str, index: int) -> list[Event]:
        """Text of a string with line breaks. One at its end waits, and indentation behind it."""
        waiting = self._newlines + text
        shown = waiting.rstrip(" \t")
        if shown[-1:] != _LINE_BREAK:
            shown = waiting
        shown = shown.removesuffix(_LINE_BREAK).removesuffix("\r")
        if len(waiting) - len(shown) > LONGEST_SPACE:
            return self._read(text)
        self._pass(waiting, shown)
        return [ArgumentsDelta(index, encode_basestring(shown)[1:-1])] if shown else []

    def _pass(self, waiting: str, shown: str) -> None:
        """Keeps `shown`, the beginning of `waiting`, for the reading. The rest waits."""
        self._newlines = waiting[len(shown) :]
        if shown:
            self._passed.append(shown)
        if len(self._passed) > _MOST_PASSED:
            self._passed = ["".join(self._passed)]

    def _choose(self) -> None:
        """Finds out which text may take the shortcut, now that the text has been read."""
        self._words = self._line_words = self._index = None
        reading = self._speculation.certain
        waits = reading.pos < self._buffer.end or reading is not self._speculation.reading
        if waits or reading.doubt is not None or reading.tally.further is not None:
            return
        if reading.state is PROSE:
            if reading.is_idle:
                words = ReasoningDelta if reading.prose.reasoning else ContentDelta
                self._words = self._line_words = words
        elif isinstance(value := reading.value, ParameterValue) and value.is_idle:
            self._index = value.call.writer.index

    def _catch_up(self) -> None:
        """Gives the reading the text that took the shortcut, and the line breaks that wait."""
        reading, buffer = self._speculation.certain, self._buffer
        if self._passed:
            text, start = "".join(self._passed), buffer.end
            self._passed.clear()
            buffer.append(text)
            reading.pass_by(text, start)
        if self._newlines:
            newlines, self._newlines = self._newlines, ""
            buffer.append(newlines)

    def feed_inert(self, text: str) -> list[Event]:
        """The events that `text` brings, in which nothing is a special token, whatever it spells.

        `text` is the next piece of the completion, where special tokens are known by other means,
        as in a stream of ids. Raises an `OptionError` after `finish`.
        """
        # The shortcut is right for text without a mark, which cannot spell a token.
        self._inert = True
        try:
            return self.feed(text)
        finally:
            self._inert = False

    def feed_border(self, tag: str) -> list[Event]:
        """The events of a think `tag` that stands for a border between two fields of a server. It
        is never text, whatever quotation or fence is open."""
        self._is_border = True
        try:
            return self.feed(tag)
        finally:
            self._is_border = False

    def _read(self, text: str) -> list[Event]:
        if not isinstance(text, str) or self._finished:
            options.checked("text", text, str, "text")
            raise OptionError("text", "found more text after finish, expected a new parser for it")
        if self._passed or self._newlines:
            self._catch_up()
        buffer, speculation = self._buffer, self._speculation
        if self._is_border:
            buffer.border_at = buffer.end + text.rfind(BRACKET)
        buffer.append(text, self._inert)
        speculation.run()
        if len(buffer.text) > _LEAST_TRIMMED:
            reading = speculation.certain
            if reading.pos - buffer.base > _LEAST_TRIMMED:  # not where a long text waits
                buffer.trim(reading.needed_from)
        self._choose()
        return speculation.events()

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. The last of them is an `End`.

        `reason` is why generation ended, if you know, as any server spells it. "eos" and
        "tool_calls", for example, say that the model ended it, which completes a call as an EOS
        does; "stop" may come from a stop string, and completes none; "length" and every unknown
        word say that the text was cut. Raises an `OptionError` the second time, and for a reason
        that is not text; a strict parser raises a `ParseError`.
        """
        ended = options.checked_reason(reason)
        if self._finished:
            raise OptionError("reason", "found finish once more, expected it once")
        self._finished = True
        self._catch_up()
        self._words = self._line_words = self._index = None
        self._buffer.final, self._buffer.ended = True, ended
        self._speculation.run()
        reading = self._speculation.certain
        if reading.prose.reasoning and reading.state is not ParserState.HALTED:
            reading.report("unclosed_reasoning", reading.pos, "")
        reading.report_further()
        reading.emit(End(self._finish_reason(reading, ended)))
        return self._speculation.events()

    def _finish_reason(self, reading: Reading, ended: Ended | None) -> Finish:
        """The reason why the text ended. A stop string that was hit counts most, then an EOS."""
        tally = reading.tally
        if reading.state is ParserState.HALTED:
            return "tool_calls" if tally.calls_completed else "stop"
        if tally.eos:
            ended = Ended.END
        if tally.cut or (ended is not None and ended.is_cut):
            return "length"
        if tally.calls_completed:
            return "tool_calls"
        return "length" if reading.prose.reasoning and ended is None else "stop"

    def _continue(self, prefix: str) -> None:
        """Reads the prompt's part of the turn. Of its events only those of an open call count."""
        events = self.feed(prefix) + self._speculation.trust()
        reading = self._speculation.certain
        self._catch_up()
        self._choose()
        if reading.call is not None and reading.call.writer.begun and reading.call.writer.visible:
            index = reading.call.writer.index  # only events of calls have one
            reading.events = [one for one in events if getattr(one, "index", None) == index]
            self._words = self._line_words = self._index = None

    def _read_plainly(self, text: str) -> StrictMessage | None:
        """The message of a whole completion that can be read in only one way. None: it cannot."""
        reading, continues = self._speculation.certain, self._buffer.base < 0
        if reading.settings.forbidden or reading.tools.none_declared or continues:
            return None
        return read_plainly(text, reading.prose.reasoning, reading.tags, reading.tools)

    # The state of the reading.

    @property
    def held(self) -> str:
        """The text that has come and waits for more."""
        return self._buffer.slice(self._caught_up().pos, self._buffer.end)

    @property
    def held_by(self) -> Hold | None:
        """The reason why the held text waits: the rule that holds it, and what is waited for."""
        reading = self._caught_up()
        return hold_of(reading, is_tried=reading is not self._speculation.reading)

    @property
    def state(self) -> ParserState:
        """The state, which says what is being read; its value is a description."""
        return self._speculation.reading.state

    @property
    def position(self) -> int:
        """The number of characters of the text that are done with."""
        return max(self._caught_up().pos, 0)

    def _caught_up(self) -> Reading:
        """The certain reading, after it was given all text that took the shortcut."""
        self._catch_up()
        self._choose()
        return self._speculation.certain


class _RespelledParser(StreamParser):
    """A parser of a dialect that spells V4's markup in another way."""

    _respelling: Respelling  # pyright: ignore[reportIncompatibleVariableOverride]

    def feed(self, text: str) -> list[Event]:
        if not isinstance(text, str):
            return super().feed(text)
        # Text to be read as inert comes here through `feed_inert`.
        return self._feed_all(self._respelling.read(text, self._inert))

    def pass_by(self, text: str, kind: TextKind) -> str | None:
        return None  # it may be the start of another spelling

    def _feed_all(self, pieces: list[tuple[str, bool]]) -> list[Event]:
        events: list[Event] = []
        before = self._inert
        for piece, self._inert in pieces:
            events += super().feed(piece)
        self._inert = before
        return self._respelling.given(events)

    def finish(self, reason: Reason | None = None) -> list[Event]:
        respelling = self._respelling
        events = [] if self._finished else self._feed_all(respelling.rest())
        try:
            return events + respelling.given(super().finish(reason), final=True)
        except ParseError as error:
            raise respelling.own_error(error) from None

    def _read_plainly(self, text: str) -> StrictMessage | None:
        return None

    @property
    def held(self) -> str:
        """The text that has come and waits for more."""
        return self._respelling.own(super().held) + self._respelling.waiting

    @property
    def position(self) -> int:
        """The number of characters of the text that are done with."""
        return self._respelling.place(super().position)
