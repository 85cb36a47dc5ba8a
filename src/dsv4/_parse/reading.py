"""A reading of a completion: the text, the position, what is open, and the events so far.

Everything that the readers of different states have to know of each other is here, as data: so a
twin of a reading can go its own way over the same text (see speculation.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dsv4._completion.call_writer import CallWriter
from dsv4._completion.events import (
    UNREAD_CALL_KINDS,
    Diagnostic,
    DiagnosticKind,
    Event,
    ToolCallStart,
)
from dsv4._completion.json_text import members_of
from dsv4._completion.limits import LONGEST_NAME, MOST_CALLS, MOST_DIAGNOSTICS
from dsv4._format import tokens
from dsv4._format.spellings import RELEASED_TAGS, SLASHES
from dsv4._parse.parser_options import ParserSettings
from dsv4._parse.quoting import PAIRS, Opening, Quoting
from dsv4._parse.strict_alongside import StrictAlongside
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.tag_rules import TagRules
from dsv4._parse.text_buffer import ANYWHERE, NOWHERE, SPACE, Refused, Steps, TextBuffer
from dsv4._parse.twins import twin_of

# Text outside of calls is shown, or reported as one of these; markup that is shown is both.
_LEFTOVER_KINDS: frozenset[DiagnosticKind] = frozenset(
    {"orphan_closer", "unexpected_tag", "unexpected_text", "markup_as_text", "dropped_call"}
)


class ParserState(Enum):
    if not TYPE_CHECKING:  # type checkers know the one of `Enum`
        __hash__ = object.__hash__  # a member is equal only to itself, and that one is slow
    rule: int | None

    def __new__(cls, description: str, rule: int | None = None) -> ParserState:
        state = object.__new__(cls)
        state._value_, state.rule = description, rule
        return state

    # For a state in which all text waits: the reason, and the rule that says so.
    PROSE = "reasoning or content"
    ORPHANS = "closing tags in prose, until it is clear whether prose goes on after them", 17
    STRAY = "a parameter in prose without a call around it, until it ends", 5
    LOST = "parameters whose call has lost its opening, until it is clear whether it ends", 34
    FENCED = "calls in a code fence, until something else follows: an example, or calls", 41
    AFTER = "after a block, or after a call without one"
    BLOCK = "inside a wrapper, between calls"
    NAMED = "text in a wrapper, where a tool's name and a fence with its arguments may stand", 35
    JUNK = "text in a wrapper that is no call, until the wrapper ends or a call begins", 5
    BROKEN = "text in a wrapper after a tag that breaks off, until a call begins", 18
    INVOKE = "inside a call, between parameters"
    REMARK = "text in a call that is no parameter, until one comes, or the call's end", 11
    NESTED = "parameters in a parameter, in place of an object or a list, until it ends", 32
    VALUE = "the value of a parameter, a text"
    JSON = "JSON: a value, all arguments of a call, or calls"
    PLAIN = "a call without the DSML token, until it closes", 1
    NATIVE = "calls as older models write them, until they close", 13
    ROLE = "text behind a role token, until it is clear whether a turn was made up", 27
    INVENTED = "a turn that the model made up after its own, until the text ends", 17
    HALTED = "after a stop string"


# By themselves, as in tag.py.
PROSE, BLOCK, INVOKE = ParserState.PROSE, ParserState.BLOCK, ParserState.INVOKE

# State -> states that may follow it.
NEXT: dict[ParserState, frozenset[ParserState]] = {
    ParserState[state]: frozenset(ParserState[one] for one in after.split())
    for states, after in {
        "PROSE": "ORPHANS FENCED BLOCK INVOKE PLAIN NATIVE STRAY LOST ROLE INVENTED HALTED",
        "ORPHANS STRAY LOST AFTER": "PROSE",
        "FENCED": "PROSE",
        "BLOCK": "AFTER PROSE INVOKE NAMED JUNK JSON BROKEN",
        "NAMED": "BLOCK JUNK PROSE",
        "JUNK": "BLOCK PROSE",
        "BROKEN": "BLOCK",
        "INVOKE": "NESTED VALUE JSON REMARK BLOCK AFTER",
        "REMARK": "INVOKE",
        "NESTED": "INVOKE VALUE JSON",
        "VALUE": "INVOKE BLOCK AFTER",
        "JSON": "VALUE INVOKE BLOCK AFTER",
        "PLAIN NATIVE": "PROSE AFTER",
        "ROLE": "PROSE INVENTED",
        "INVENTED HALTED": "",
    }.items()
    for state in states.split()
}


@dataclass(slots=True)
class Tally:
    """Counts and facts about the text so far."""

    blocks: int = 0
    calls_seen: int = 0
    calls_unread: int = 0  # diagnostics of calls that could not be read
    calls_begun: int = 0
    calls_completed: int = 0
    diagnostics: int = 0
    # Deviations beyond the limit share one diagnostic, with this start and end.
    further: tuple[int, int] | None = None
    cut: bool = False  # the text ended inside something
    cut_reported: bool = False
    eos: bool = False  # its last token was an EOS
    first_is_escaped: bool | None = None  # the tag of the first call has escaped quotes


@dataclass(slots=True)
class Prose:
    """Reasoning and content, as far as they were read."""

    reasoning: bool
    quoting: Quoting
    at: int  # how far the text was looked at
    reasoning_shown: bool = False
    joining: bool = False  # the next reasoning begins on a line of its own
    is_transcript: bool = False  # a fence shows several turns: no markup behind it is active
    roles_are_text: bool = False
    named_to: int = NOWHERE  # tokens and markup before this place are named
    openers: int = 0  # opening tags that were left as text
    quoting_before: Quoting | None = None  # `quoting` before the first of them, if calls were left
    left_to: int = NOWHERE  # parameters without a call before this place are text
    # This line names an opening think tag, so the next close is talk too.
    names_think_tag: bool = False
    plain_wrapper: bool = False  # a wrapper without the DSML token was opened

    @property
    def is_example(self) -> bool:
        """Whether markup is text here: in a fence, or after a shown transcript."""
        return self.is_transcript or (self.quoting.may_be_fenced and self.quoting.lines().fenced)

    @property
    def is_blank(self) -> bool:
        """Whether nothing but white space stands before this on the line."""
        return self.quoting.lines().blank


@dataclass(slots=True)
class Block:
    """An open wrapper."""

    may_be_empty: bool  # it was opened as the strict grammar wants
    met_before: int  # calls, read or unread, before it
    strict: StrictAlongside | None = None  # while the strict grammar may accept it
    reads_strictly: bool = False  # the strict grammar accepts it
    used: bool = False  # it held something
    calls: int = 0
    is_quoted: bool = False  # a patch or a program quotes its calls, from one of them on
    after_invoke: bool = False  # nothing but white space stands between a call's close and here


class OpenCall(Protocol):
    """A call that is open."""

    writer: CallWriter


class OpenValue(Protocol):
    """A value that is being read."""

    written: list[str]  # what was shown of it as it came


@dataclass(slots=True)
class ClosedCall:
    """A call that was closed. It is complete once nothing can show that it was not (rule 39).

    Behind the closes of a call, ` and so on</D parameter>`: its value had quoted them.
    """

    writer: CallWriter
    end: int
    start: int  # of its text, if nothing of it was shown
    is_followed: bool = False  # by text


@dataclass(slots=True)
class Doubt:
    """Calls that are read and not given out yet. If surplus closers come, none of them is made."""

    shown: int  # events before these are not in doubt
    start: int
    call: CallWriter | None  # the call whose value may be cut, as it was
    rest: str  # a member of its arguments that is not written
    counts: tuple[int, int]  # calls that were begun and completed before
    has_surplus: bool = False
    drops_if_cut: bool = False


@dataclass(slots=True)
class Quotation:
    """A quotation that may hold the calls of an attempt."""

    start: int  # where the calls begin
    openings: tuple[Opening, ...] = ()  # of quotations that are still open
    partners: tuple[str, ...] = ()  # closes of one that would count directly behind the calls
    is_marked: bool | None = None  # only a quotation's mark is before it on the line
    is_indented: bool = False
    fence: str = ""  # that is open, and may never be closed
    made_before: int = 0  # the number of calls made before these, and of calls not made
    unmade_before: int = 0
    level: int = 0
    is_behind: bool = False  # prose follows the calls
    is_over: bool = False  # the calls are, and the text right behind them was looked at
    next_tried: int = ANYWHERE  # the beginning of the first calls behind these that were tried, too


class Reading:
    """The data that the readers of all states share."""

    def __init__(self, settings: ParserSettings, buffer: TextBuffer, reasoning: bool) -> None:
        self.settings = settings
        self.buffer = buffer
        self.tools = settings.tools
        self.tags = settings.dialect.tags
        self.rules = TagRules(buffer, settings.tools)
        self.events: list[Event] = []
        self.tally = Tally()
        self.pos = buffer.end  # everything before this is done with
        self.state = ParserState.PROSE
        self.prose = Prose(reasoning, Quoting(), buffer.end)
        self.block: Block | None = None
        self.call: OpenCall | None = None
        self.closed_call: ClosedCall | None = None  # the last one, until its end is known
        self.value: OpenValue | None = None  # that is being read
        self.unseen_from = ANYWHERE  # from here on the call's text is neither shown nor quoted yet
        # Calls that may be quoted (rules 20 to 24, 29).
        self.doubt: Doubt | None = None
        self.refuses = 0  # the level of this attempt, if surplus closers refuse it
        self.quotations: tuple[Quotation, ...] = ()  # that are open where calls are tried
        self.quoted_to = NOWHERE  # closes before this place are known to be quoted
        self.refuted_to = NOWHERE  # a value that closes before this is in no strict block

    def twin(self) -> Reading:
        """A reading that goes on from here in its own way, with events of its own."""
        shared = self.buffer, self.rules, self.settings, self.tools, self.tags
        return twin_of(self, {id(self.events): [], **{id(one): one for one in shared}})

    def is_tried(self, level: int) -> bool:
        """Whether something may still refute the assumption of this level, the highest one.

        Quotations of higher levels come last.
        """
        return level in (self.refuses, self.quotations[-1].level if self.quotations else 0)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def enter(self, state: ParserState) -> None:
        """Goes on to a state."""
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state

    # Text that is done with.

    def advance(self, to: int) -> None:
        if self.block is not None and self.block.strict is not None:
            self.block.strict.passed.append((self.buffer.acting(self.pos, to), self.pos))
        self.pos = to

    @property
    def is_idle(self) -> bool:
        """Whether prose in which no tag begins may be shown as it comes."""
        prose = self.prose
        is_checked = self.settings.stops is not None or self.settings.strict
        if is_checked or prose.joining or prose.names_think_tag:
            return False
        return not prose.reasoning or prose.reasoning_shown

    def pass_by(self, text: str, start: int) -> None:
        """Takes note of text that was shown as it came, in prose or in a value."""
        self.pos = start + len(text)
        if self.value is not None:
            self.value.written.append(text)
        else:
            self.note_shown(text)
            self.prose.at = self.pos
            self.prose.quoting.follow(text, start)

    def skip_space(self) -> Steps[bool]:
        """Goes on behind white space. False: nothing follows it."""
        buffer = self.buffer
        while True:
            if self.pos < buffer.end:
                to = buffer.past(SPACE, self.pos)
                if to > self.pos:
                    self.advance(to)
                if to < buffer.end:
                    return True
            if not (yield from buffer.more()):
                return False

    @property
    def needed_from(self) -> int:
        """The beginning of the text that may still be needed."""
        start = min(self.unseen_from, self.pos if self.doubt is None else self.doubt.start)
        if self.closed_call is not None:
            start = min(start, self.closed_call.start)
        return start if self.tally.further is None else min(start, self.tally.further[0])

    # Diagnostics.

    def report(self, kind: DiagnosticKind, start: int, raw: str, length: int | None = None) -> None:
        """Reports a deviation. `length` is that of the text, where `raw` is its beginning."""
        tally, end = self.tally, start + (len(raw) if length is None else length)
        if self.closed_call is not None and kind in _LEFTOVER_KINDS:
            self._look_behind(self.closed_call, start, raw)
        tally.calls_unread += kind in UNREAD_CALL_KINDS
        if start < 0:  # diagnostics do not quote the prompt
            if end <= 0 and raw:
                return
            start, end, raw = 0, max(end, 0), raw[-start:]
        if tally.diagnostics < MOST_DIAGNOSTICS:
            tally.diagnostics += 1
            self.events.append(Diagnostic(kind, start, end, raw))
        elif tally.further is None:
            if start < self.buffer.base:  # it is not here any more
                start = end = self.pos
            tally.further = start, end
        else:
            tally.further = tally.further[0], max(end, tally.further[1])

    def report_span(self, kind: DiagnosticKind, start: int, end: int) -> None:
        self.report(kind, start, self.buffer.slice(start, end))

    def report_further(self) -> None:
        """At the end: one diagnostic for all deviations beyond the limit."""
        if self.tally.further is not None:
            start, end = self.tally.further
            raw = self.buffer.slice(start, end)
            self.events.append(Diagnostic("more_departures", start, end, raw))

    def report_cut(self, start: int) -> None:
        """The text ends inside something, whose rest begins at `start`.

        One cut is reported once (rule 16). Text that the model itself ended was not cut: a call
        whose tag breaks off there is dropped.
        """
        buffer, tally = self.buffer, self.tally
        raw = buffer.slice(start, buffer.end)
        if buffer.stopped and self.breaks_off(start):
            self.report("dropped_call", start, raw)
        elif not (tally.cut or tally.cut_reported):
            self.report("cut_short", start, raw)
            tally.cut_reported = True
        elif raw:
            self.report("unexpected_text", start, raw)
        tally.cut = tally.cut or not buffer.stopped
        self.advance(buffer.end)

    def breaks_off(self, at: int) -> bool:
        """Whether the text ends in a tag that begins at `at`, and opens something."""
        buffer = self.buffer
        if not self.pos <= at < buffer.end or buffer.at(at + 1) in SLASHES:
            return False
        return buffer.tag_at(at) is PartialTag.SURELY

    def note_cut(self) -> None:
        """The text ends inside something that is left as text."""
        if not self.tally.cut and not self.buffer.stopped:
            self.report("cut_short", self.buffer.end, "")
            self.tally.cut = True

    def check_spelling(self, tag: Tag, padded: bool = False) -> None:
        """Reports an active tag that is not spelled as the dialect spells it.

        `padded` says that white space stands around the name in it.
        """
        label = self.tags.labels.get(tag.kind)
        if label is not None and tag.is_spelled(label) and not padded:
            return
        head = tag.raw.partition(" name=")[0].rstrip(">")
        released = head in RELEASED_TAGS and not head.endswith(f"{tokens.DSML}{label}")
        self.report("other_release" if released else "misspelled_tag", tag.start, tag.raw)

    # Calls.

    def begin_call(self, name: str, visible: bool) -> CallWriter:
        """A new call. One that is not visible has no place among the others."""
        self.end_call()
        self.tally.calls_seen += 1
        block = self.block
        if block is not None and block.strict is not None and not block.strict.keeps_few():
            block.strict = None
        namespace, bare = self._split(name)
        start = ToolCallStart(self.tally.calls_begun, bare, "", namespace)
        if visible:
            start.id = self.settings.new_id()
            self.tally.calls_begun += 1
        return CallWriter(start, self.emit, visible, self.settings.whole_calls)

    def _split(self, name: str) -> tuple[str | None, str]:
        """Namespace and name, where the dialect has namespaces (format.md, section 13.3)."""
        end = self.tags.namespace_end
        namespace, cut, bare = name.partition(end)
        has_one = bool(cut) and end not in bare
        if has_one and (self.settings.dialect.namespaces or name in self.tools.namespaced):
            return namespace, bare
        return None, name

    def whole_call(self, name: str, arguments: str, start: int) -> None:
        """A call that was held until it was complete."""
        if self.is_beyond_limits(name):
            self.report("limit", start, "")
        elif not self.settings.forbidden:
            self.check_declared(name, start, "")
            self.close_call(self.begin_call(name, visible=True), arguments)
            self.end_call()
            self.check_required(name, dict(members_of(arguments)).keys())

    def part_of_call(self, name: str, rest: str) -> None:
        """A call that was held and was cut; `rest` is known of its arguments (rule 10)."""
        if not self.settings.forbidden and not self.is_beyond_limits(name):
            self.begin_call(name, visible=True).abort("cut_short", rest=rest)

    def is_quoted_in_json(self, tag: Tag) -> bool:
        """Whether the tag of a call has escaped quotes, and that of the first call has not.

        A model that escapes quotes (rule 28) does so from the first call on; if only later ones
        are escaped, they are quoted.
        """
        is_escaped = '=\\"' in tag.raw
        if self.tally.first_is_escaped is None:
            self.tally.first_is_escaped = is_escaped
        return is_escaped and not self.tally.first_is_escaped

    def is_beyond_limits(self, name: str) -> bool:
        return self.tally.calls_seen >= MOST_CALLS or len(name) > LONGEST_NAME

    def check_required(self, name: str, keys: Collection[str]) -> None:
        """Reports a complete call that lacks a required key (rule 42)."""
        required = self.tools.requires(name)
        if required and not required.issubset(keys):
            self.report("missing_required", self.pos, "")

    def check_declared(self, name: str, start: int, raw: str) -> None:
        if self.tools.given and not self.tools.declares(name):
            self.report("undeclared_tool", start, raw)

    # The end of a call (rule 39).

    def close_call(self, writer: CallWriter, body: str | None) -> None:
        """Closes a call. `body` holds its arguments, if they came as one JSON object."""
        writer.close(body)
        start = ANYWHERE if writer.streams else self.unseen_from
        self.closed_call = ClosedCall(writer, self.pos, start)
        self.tally.calls_completed += 1

    def end_call(self) -> None:
        """The next call begins, or the section ends: the call that was closed is complete."""
        closed, self.closed_call = self.closed_call, None
        if closed is not None:
            closed.writer.end()

    def note_shown(self, text: str) -> None:
        """Text is shown, perhaps behind a call."""
        if self.closed_call is not None and not text.isspace():
            self.closed_call.is_followed = True

    def _look_behind(self, closed: ClosedCall, start: int, raw: str) -> None:
        """Aborts a closed call if the leftovers behind it show that it ends later than it seemed.

        The value `a`, a parameter's close, a call's close, `b`, and both closes: its own come last.
        """
        end = start + len(raw)
        for tag in self.buffer.marked_in(start, end):
            closed.is_followed |= bool(self.buffer.slice(start, tag.start).strip())
            is_close = self.rules.role(tag) == "/parameter" and not self._is_between_quotes(tag)
            if is_close and closed.is_followed:
                self._abort_closed(closed)
                return
            start = tag.end
        closed.is_followed |= bool(self.buffer.slice(start, end).strip())

    def _is_between_quotes(self, tag: Tag) -> bool:
        partner = PAIRS.get(self.buffer.char_before(tag.start))
        return partner is not None and self.buffer.at(tag.end) in [*partner]

    def doubt_closed(self) -> None:
        """An argument stands behind a call. If nothing stands between them, the call lacks it."""
        if self.closed_call is not None and not self.closed_call.is_followed:
            self._abort_closed(self.closed_call)

    def _abort_closed(self, closed: ClosedCall) -> None:
        self.closed_call = None
        self.tally.calls_completed -= 1
        closed.writer.abort("unreadable")
        self.report_span("dropped_call", min(closed.start, closed.end), closed.end)

    # Calls that may be quoted (rules 21 and 29).

    def begin_doubt(
        self, call: CallWriter | None = None, rest: str = "", drops_if_cut: bool = False
    ) -> None:
        """From here on no call is made if surplus closers come, nor `call`, which is open.

        The value `a`, `</D invoke>`, another call, and then the closes once more: a document that
        shows calls (rule 21).
        """
        if self.doubt is None:
            # Nothing was shown yet of a call that is delivered whole: all of it has to be quoted.
            start = min(self.pos, self.unseen_from) if call and not call.streams else self.pos
            twin = None if call is None else twin_of(call, {id(self): self})
            counts = self.tally.calls_begun, self.tally.calls_completed
            self.doubt = Doubt(len(self.events), start, twin, rest, counts)
        self.doubt.drops_if_cut = self.doubt.drops_if_cut or drops_if_cut

    def note_surplus(self, end: int) -> None:
        """A closing tag that ends here closes nothing, in a block or directly behind it."""
        self.refuse(end)
        if self.doubt is not None:
            self.doubt.has_surplus = True

    def refuse(self, to: int) -> None:
        """The text before `to` shows that calls are quoted: a reading that makes them ends."""
        if self.refuses:
            raise Refused(self.refuses, to)

    def end_inside(self) -> None:
        """The text ends inside a call or a block, and was cut there."""
        if not self.buffer.stopped:
            self.refuse(self.buffer.end)
            if self.doubt is not None and self.doubt.drops_if_cut:
                self.doubt.has_surplus = True

    def settle(self) -> None:
        """Something else than calls and closing tags follows (rule 21)."""
        self.refuses = 0
        doubt, self.doubt = self.doubt, None
        if doubt is not None and doubt.has_surplus:
            self._drop(doubt)

    def _drop(self, doubt: Doubt) -> None:
        # The end of a call before the doubt may stand behind its beginning.
        first = doubt.counts[0] if doubt.call is None else doubt.call.index
        events = self.events[doubt.shown :]
        del self.events[doubt.shown :]
        if doubt.call is not None and doubt.call.visible:
            doubt.call.abort("unreadable", doubt.rest)
        for event in events:
            if isinstance(event, Diagnostic) or getattr(event, "index", first) < first:
                self.events.append(event)
        if self.closed_call is not None and self.closed_call.writer.index >= first:
            self.closed_call = None
        self.tally.calls_begun, self.tally.calls_completed = doubt.counts
        self.report_span("dropped_call", doubt.start, self.pos)
