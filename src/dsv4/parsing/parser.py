"""The one parser: text in pieces -> events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dsv4._format.dialects import Dialect, dialect_named
from dsv4._format.endings import Ending
from dsv4.errors import OptionError, short_repr
from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.blocks import Block, Broken, Junk
from dsv4.parsing.declared import Tools
from dsv4.parsing.events import (
    ArgumentsDelta,
    End,
    Event,
    Finish,
    ToolCallAborted,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4.parsing.fenced import FencedBlock
from dsv4.parsing.holding import STRICT, Hold, hold_of
from dsv4.parsing.ids import random_id
from dsv4.parsing.invokes import Invoke, Remark
from dsv4.parsing.leftovers import After, Orphans, StrayParameter
from dsv4.parsing.machine import Machine, Move, Reader
from dsv4.parsing.options import (
    Calls,
    Reason,
    StopIn,
    checked_bool,
    checked_ending,
    checked_maker,
    checked_stops,
    checked_text,
    checked_tools,
    checked_word,
)
from dsv4.parsing.options import Stops as GivenStops
from dsv4.parsing.options import Tools as GivenTools
from dsv4.parsing.plain import NativeCalls, PlainCall
from dsv4.parsing.prose import Prose
from dsv4.parsing.reading_values import Json, Text
from dsv4.parsing.shortcut import Shortcut
from dsv4.parsing.states import State
from dsv4.parsing.stops import Stops
from dsv4.parsing.tags import Tag
from dsv4.parsing.values import Body, CallList, Parameter

if TYPE_CHECKING:
    from dsv4.parsing.strict import StrictParser

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
        tool_choice: Any = "auto",
        dialect: str | Dialect | None = None,
        strict: bool = False,
        stop: GivenStops = (),
        stop_in: StopIn = "content",
        calls: Calls = "streamed",
        new_id: Callable[[], str] = random_id,
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
        declared = Tools(checked_tools(tools))
        stops = checked_stops(stop)
        everywhere = checked_word("stop_in", stop_in, ("content", "all")) == "all"
        whole = checked_word("calls", calls, ("streamed", "whole")) == "whole"
        forbidden = tool_choice == "none"
        maker = checked_maker(new_id)
        self._finished = False
        self._inert = False  # whether the text being read can spell no special token
        self._carried: list[Event] = []  # of a call that the prompt left open
        self._strict: StrictParser | None = None
        if strict:
            # Few ask for it, and what it needs is loaded for them alone.
            from dsv4.parsing.strict import StrictParser

            self._strict = StrictParser(thinking, declared, forbidden, spoken, maker)

        machine = Machine(
            dialect=spoken,
            tools=declared,
            forbidden=forbidden,
            new_id=maker,
            whole_calls=whole,
            start=-len(prefix),
        )
        prose = Prose(machine, thinking, Stops(stops) if stops else None, everywhere)
        machine.start(READERS, prose)
        super().__init__(machine, prose)
        if not strict:
            self._choose()
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
        machine, source = self._machine, self._machine.source
        if self._passed or self._newlines:
            self._catch_up()
        source.append(text, self._inert)
        events = self._begin()
        machine.run()
        if source.pos > source.base:
            source.trim()
        self._choose()
        return events

    def _begin(self) -> list[Event]:
        events = self._machine.events = self._carried
        self._carried = []
        return events

    def finish(self, reason: Reason | None = None) -> list[Event]:
        """The events that the end of the text brings. The last of them is an `End`.

        `reason` is why generation ended, if you know: "stop" where the model ended it, which
        completes a call as an EOS does; "length" where something else did. Raises an `OptionError`
        the second time, and for another reason; a strict parser raises a `ParseError`.
        """
        if reason is not None:
            checked_word("reason", reason, ("stop", "length"))
        if self._finished:
            raise OptionError("reason", "found finish once more, expected it once")
        if self._strict is not None:
            events = self._strict.finish(reason)
            self._finished = True
            return events
        self._finished = True
        machine = self._machine
        self._catch_up()
        self._close()
        machine.source.stopped = reason == "stop"
        machine.source.cut_off = reason == "length"
        events = self._begin()
        machine.finish()
        if self._prose.unclosed and machine.state is not State.HALTED:
            machine.report_raw(kinds.UNCLOSED_REASONING, machine.source.pos, "")
        machine.report_further()
        machine.emit(End(self._finish_reason(reason)))
        return events

    def _finish_reason(self, reason: Reason | None) -> Finish:
        machine = self._machine
        if reason == "length":
            return "length"
        if machine.state is State.HALTED:
            return "tool_calls" if machine.calls_completed else "stop"
        if machine.cut:
            return "length"
        if machine.calls_completed:
            return "tool_calls"
        if self._prose.unclosed and not machine.eos and reason is None:
            return "length"
        return "stop"

    def _continue(self, prefix: str) -> None:
        """Reads what the prompt holds already. Of its events only those of an open call count."""
        events = self.feed(prefix)
        machine = self._machine
        invoke = machine.invoke
        if isinstance(invoke, Invoke) and invoke.call.begun and invoke.call.shown:
            index = invoke.call.index
            own = (event for event in events if isinstance(event, _CALL_EVENTS))
            self._carried = [event for event in own if event.index == index]
        self._catch_up()
        self._choose(carries=bool(self._carried))

    # Where reading is.

    @property
    def held(self) -> str:
        """The text that has come and waits for what follows it."""
        if self._strict is not None:
            return self._strict.held
        self._catch_up()
        self._choose()
        return self._machine.source.waiting

    @property
    def held_by(self) -> Hold | None:
        """Why the held text waits: the rule that holds it, and what is waited for."""
        if self._strict is not None:
            return STRICT if self._strict.holds else None
        self._catch_up()
        self._choose()
        return hold_of(self._machine)

    @property
    def state(self) -> State:
        """What is being read; its value is a description."""
        return self._machine.state

    @property
    def position(self) -> int:
        """How many characters of the text are done with."""
        self._catch_up()
        self._choose()
        return max(self._machine.source.done, 0)


class Halted:
    """After a stop string nothing counts."""

    def __init__(self, machine: Machine) -> None:
        self._source = machine.source

    def read(self) -> Move | None:
        self._source.advance(self._source.end)
        return None

    def end(self) -> Move | None:
        return None


class Invented:
    """A turn that the model made up after its own: all of it goes (rule 17)."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self) -> Move | None:
        self._machine.source.set_aside(self._machine.source.end)
        return None

    def end(self) -> Move | None:
        source = self._machine.source
        start = source.aside_from
        self._machine.report_raw(kinds.MADE_UP_TURN, start, source.aside())
        return None


# The table of readers: who reads each state, made from what the state has to know. Prose, the open
# block and the open call outlive other states; the machine has them, and they go on.


def _block(machine: Machine, *tag: Tag) -> Reader:
    if tag:
        machine.block = Block(machine, *tag)
    assert machine.block is not None
    return machine.block


def _invoke(machine: Machine, *tag: Tag | None) -> Reader:
    if tag:
        machine.invoke = Invoke(machine, *tag)
    assert machine.invoke is not None
    return machine.invoke


def _value(machine: Machine, *known: Any) -> Any:
    """A value that is read again as something else, calls, a call's body, or a parameter."""
    first = known[0]
    if first is None:
        return CallList(machine)
    if not isinstance(first, Invoke):
        return first
    return Body(first) if len(known) == 1 else Parameter(*known)


READERS: Mapping[State, Callable[..., Reader]] = {
    State.PROSE: lambda machine, *known: machine.prose.resume(*known),
    State.ORPHANS: Orphans,
    State.STRAY: lambda machine, tag: StrayParameter(machine, machine.prose, tag),
    State.FENCED: lambda machine, tag: FencedBlock(machine, machine.prose, tag),
    State.AFTER: lambda machine, *known: After(machine, machine.prose, *known),
    State.BLOCK: _block,
    State.JUNK: Junk,
    State.BROKEN: Broken,
    State.INVOKE: _invoke,
    State.REMARK: Remark,
    State.VALUE: lambda machine, *known: Text(machine, _value(machine, *known)),
    State.JSON: lambda machine, *known: Json(machine, _value(machine, *known)),
    State.PLAIN: lambda machine, *tags: PlainCall(machine, machine.prose, *tags),
    State.NATIVE: lambda machine, tag: NativeCalls(machine, machine.prose, tag),
    State.INVENTED: Invented,
    State.HALTED: Halted,
}
