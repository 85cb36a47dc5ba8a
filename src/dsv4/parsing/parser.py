"""The one parser: text in pieces -> events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dsv4.errors import EncodeError
from dsv4.format.dialects import Dialect, dialect_named
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.blocks import end_list, read_block, read_junk
from dsv4.parsing.declared import Tools
from dsv4.parsing.events import (
    ContentDelta,
    End,
    Event,
    ProseDelta,
    ReasoningDelta,
    arguments_delta,
    new_event,
    set_text,
)
from dsv4.parsing.invokes import (
    cut_call,
    keep_newline,
    read_body_end,
    read_invoke,
    read_stray,
    whole_call,
)
from dsv4.parsing.json_values import calls_in, escaped
from dsv4.parsing.machine import BAR, Machine
from dsv4.parsing.plain import read_plain
from dsv4.parsing.prose import read_after, read_orphans, read_prose
from dsv4.parsing.states import State
from dsv4.parsing.stops import Stops
from dsv4.parsing.strict import read_strictly
from dsv4.parsing.values import read_json, read_value, take_text


class StreamParser:
    """Reads a completion in pieces.

    `thinking` says whether the prompt left the model thinking. `tools` are the declared tools: `[]`
    says that there are none, None that you were not told. `dialect` is the one whose spelling is
    right; all are read. `strict` raises a `ParseError`, at the end, for what leaves the grammar.
    `stop` strings end the text where prose has one. `prefix` is what the prompt already holds of
    the turn that is continued.
    """

    def __init__(
        self,
        thinking: bool = True,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = "auto",
        dialect: str | Dialect | None = None,
        strict: bool = False,
        *,
        stop: Sequence[str] | str = (),
        prefix: str = "",
    ) -> None:
        stops = Stops([stop] if isinstance(stop, str) else stop) if stop else None
        tags = dialect_named(dialect or "v4").tags
        start = State.STRICT if strict else State.PROSE
        self._machine = Machine(start, thinking, Tools(tools), tool_choice == "none", tags, stops)
        self._carried: list[Event] = []  # of a call that the prompt left open
        # What may go by the machine: words in the middle of a line, the middle of the argument with
        # this index, and any text in which no tag begins; and how much did.
        self._words: type[ProseDelta] | None
        self._string: int | None
        self._unmarked: Callable[[str], list[Event]] | None
        self._choose_shortcut()
        self._passed = 0
        self._last = ""
        if prefix and strict:
            problem = "found text and strict=True, expected one of them: strict reads whole turns"
            raise EncodeError("prefix", problem)
        if prefix:
            self._continue(prefix)

    def feed(self, text: str) -> list[Event]:
        """The events that `text` brings, possibly none."""
        if "<" in text or BAR in text or not text:
            return self._feed_marked(text)
        words = self._words
        if words is not None:
            if "\n" not in text or ("`" not in text and not text[-1].isspace()):
                self._passed += len(text)
                self._last = text
                event = new_event(words)
                set_text(event, text)
                return [event]
        elif self._string is not None and text[-1] not in "\r\n":
            self._passed += len(text)
            return [arguments_delta(self._string, text if text.isalnum() else escaped(text))]
        if self._unmarked is not None:
            return self._unmarked(text)
        return self._feed_marked(text)

    def finish(self) -> list[Event]:
        """The events that the end of the text brings. The last of them is an `End`."""
        m = self._machine
        m.final = True
        events = self._run()
        m.events = events
        if m.value is not None and m.call is None:
            keep_newline(m, m.value)
            m.cut = calls_in(m.value.raw) is None
            end_list(m, m.value)
            self._read(m)
        if m.call is not None:
            cut_call(m)
        if m.state is not State.HALTED:
            m.flush_newlines()
            m.flush_stops()
            if m.prose.unclosed:
                m.report(kinds.UNCLOSED_REASONING, m.pos, m.pos)
        m.emit(End(self._finish_reason()))
        return events

    def _finish_reason(self) -> str:
        m = self._machine
        if m.state is State.HALTED:
            return "stop"
        if m.cut:
            return "length"
        if m.prose.unclosed and not m.eos and not (m.calls_completed and m.state is State.AFTER):
            return "length"
        return "tool_calls" if m.calls_completed else "stop"

    def _continue(self, prefix: str) -> None:
        """Reads what the prompt holds already. Of its events only those of an open call count."""
        events = self.feed(prefix)
        m = self._machine
        self._catch_up()
        m.begin_anew(len(prefix))
        if m.call is not None and m.call.shown:
            index = m.call.index
            self._carried = [event for event in events if getattr(event, "index", None) == index]
        self._choose_shortcut()

    def _feed_marked(self, text: str) -> list[Event]:
        m = self._machine
        m.text = m.text + text if m.text else text
        return self._run()

    def _run(self) -> list[Event]:
        m = self._machine
        self._catch_up()
        events = m.events = self._carried
        self._carried = []
        self._read(m)
        m.trim()
        self._choose_shortcut()
        return events

    def _read(self, m: Machine) -> None:
        while READERS[m.state](m):
            if m.stops is not None and m.stops.hit:
                m.state = State.HALTED

    # Text in which no tag begins, where nothing is held: most chunks of most completions. In the
    # middle of a line, or of a string, it is passed on as it is, and the machine is told later.

    def _choose_shortcut(self) -> None:
        m = self._machine
        idle = not m.text and m.stops is None and not self._carried
        self._words = self._string = self._unmarked = None
        if idle and m.state is State.PROSE and not m.prose.joining:
            self._unmarked = self._feed_lines
            self._words = self._words_now()
        elif idle and m.state is State.VALUE and m.streaming_call() is not None:
            self._unmarked = self._feed_string
            self._string = self._string_now()

    def _words_now(self) -> type[ProseDelta] | None:
        prose = self._machine.prose
        if prose.newlines or not prose.lines.settled:
            return None
        return ReasoningDelta if prose.reasoning else ContentDelta

    def _string_now(self) -> int | None:
        m = self._machine
        return None if m.value is None or m.value.newline else m.streaming_call()

    def _catch_up(self) -> None:
        m = self._machine
        m.base += self._passed
        self._passed = 0
        if self._last:
            m.prose.before = self._last
            self._last = ""

    def _feed_lines(self, text: str) -> list[Event]:
        m = self._machine
        self._passed += len(text)
        events = m.events = []
        m.say_text(text)
        self._last = ""
        self._words = self._words_now()
        return events

    def _feed_string(self, text: str) -> list[Event]:
        m = self._machine
        self._passed += len(text)
        events = m.events = []
        take_text(m, m.value, text)  # type: ignore[arg-type]
        self._string = self._string_now()
        return events


def read_strict(m: Machine) -> bool:
    """Everything, read by the strict grammar when it has come."""
    m.hold(len(m.text))
    if not m.final:
        return False
    message = read_strictly(m.release(), m.prose.reasoning, m.tags)
    m.eos = True
    m.show(message.reasoning)
    m.prose.reasoning = m.prose.unclosed = False
    # Where no tool is declared, calls are text.
    m.show(message.content + (message.block if m.tools.none_declared and message.calls else ""))
    for name, arguments in message.calls:
        if not m.tools.none_declared and not m.forbidden:
            whole_call(m, name, arguments)
    m.state = State.AFTER
    return True


def read_halted(m: Machine) -> bool:
    m.advance(len(m.text))
    return False


READERS: dict[State, Callable[[Machine], bool]] = {
    State.PROSE: read_prose,
    State.ORPHANS: read_orphans,
    State.AFTER: read_after,
    State.BLOCK: read_block,
    State.JUNK: read_junk,
    State.INVOKE: read_invoke,
    State.STRAY: read_stray,
    State.VALUE: read_value,
    State.JSON: read_json,
    State.BODY_END: read_body_end,
    State.PLAIN: read_plain,
    State.STRICT: read_strict,
    State.HALTED: read_halted,
}
