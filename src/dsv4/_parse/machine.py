"""The state machine: its states, which may follow which, and what the readers of all states share.

A reader says which state comes next, and what that state has to know. The machine takes the
reader for it from a table, and refuses a move that is not in `NEXT`. No reader decides what more
text could change: it waits, or the text is final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol, TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import NAMESPACE_END, Dialect
from dsv4._format.spellings import RELEASED_TAGS, SLASHES
from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import CallWriter
from dsv4._parse.declared import DeclaredTools
from dsv4._parse.events import AbortReason, Diagnostic, DiagnosticKind, Event, ToolCallStart
from dsv4._parse.lexer import read_tag
from dsv4._parse.limits import LONGEST_NAME, LONGEST_TAG, MOST_CALLS, MOST_DIAGNOSTICS
from dsv4._parse.lines import LineTracker
from dsv4._parse.quoting import Quotation, Quoting
from dsv4._parse.reasons import Ended
from dsv4._parse.source import NOWHERE, TextSource
from dsv4._parse.strict import StrictBlock
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.tag_rules import CALL_TAGS, Lookahead, TagRules
from dsv4.errors import ParseError

_EOS = str(tokens.EOS)
# The strict grammar is asked again when so many characters have come.
_STRICT_STEP = 32
# So many stretches of text between values are held for the strict reader.
_MOST_PASSED = 256


class ParserState(Enum):
    __hash__ = object.__hash__  # a member is equal to itself only; that of `Enum` is slow

    PROSE = "reasoning or content"
    ORPHANS = "closing tags in prose, until it is clear whether prose goes on after them"
    STRAY = "a parameter in prose, without a call around it"
    LOST = "parameters in the middle of a line, of a call whose opening was lost"
    FENCED = "a block in a code fence, while it reads strictly: an example, or a call"
    AFTER = "after a block, or after a call without one"
    BLOCK = "inside a wrapper, between calls"
    NAMED = "text in a wrapper, where the name of a tool and a fence with its arguments may stand"
    JUNK = "text in a wrapper that is no call"
    BROKEN = "after a tag in a wrapper that breaks off"
    INVOKE = "inside a call, between parameters"
    REMARK = "text in a call that is no parameter"
    NESTED = "parameters in a parameter, in place of an object or a list"
    VALUE = "the value of a parameter, a text"
    JSON = "JSON: a value, all arguments of a call, or calls"
    PLAIN = "a call without the DSML token, held until it closes"
    NATIVE = "calls as older models write them, held until they close"
    ROLE = "text behind a role token, which may begin a turn that the model made up"
    INVENTED = "a turn that the model made up after its own"
    HALTED = "after a stop string"


NEXT: dict[ParserState, frozenset[ParserState]] = {
    ParserState.PROSE: frozenset(
        {
            *(
                ParserState.ORPHANS,
                ParserState.FENCED,
                ParserState.BLOCK,
                ParserState.INVOKE,
                ParserState.PLAIN,
                ParserState.NATIVE,
            ),
            *(ParserState.STRAY, ParserState.LOST, ParserState.ROLE),
            *(ParserState.INVENTED, ParserState.HALTED),
        }
    ),
    ParserState.ORPHANS: frozenset({ParserState.PROSE}),
    ParserState.STRAY: frozenset({ParserState.PROSE}),
    ParserState.LOST: frozenset({ParserState.PROSE}),
    ParserState.FENCED: frozenset({ParserState.PROSE, ParserState.BLOCK}),
    ParserState.AFTER: frozenset({ParserState.PROSE}),
    ParserState.BLOCK: frozenset(
        {
            ParserState.AFTER,
            ParserState.PROSE,
            ParserState.INVOKE,
            ParserState.NAMED,
            ParserState.JUNK,
            ParserState.JSON,
            ParserState.BROKEN,
        }
    ),
    ParserState.NAMED: frozenset({ParserState.BLOCK, ParserState.JUNK, ParserState.PROSE}),
    ParserState.JUNK: frozenset({ParserState.BLOCK, ParserState.PROSE}),
    ParserState.BROKEN: frozenset({ParserState.BLOCK}),
    ParserState.INVOKE: frozenset(
        {
            ParserState.VALUE,
            ParserState.JSON,
            ParserState.NESTED,
            ParserState.REMARK,
            ParserState.BLOCK,
            ParserState.AFTER,
        }
    ),
    ParserState.REMARK: frozenset({ParserState.INVOKE}),
    ParserState.NESTED: frozenset({ParserState.INVOKE, ParserState.VALUE, ParserState.JSON}),
    ParserState.VALUE: frozenset({ParserState.INVOKE, ParserState.BLOCK, ParserState.AFTER}),
    ParserState.JSON: frozenset(
        {ParserState.VALUE, ParserState.INVOKE, ParserState.BLOCK, ParserState.AFTER}
    ),
    ParserState.PLAIN: frozenset({ParserState.PROSE, ParserState.AFTER}),
    ParserState.NATIVE: frozenset({ParserState.PROSE, ParserState.AFTER}),
    ParserState.ROLE: frozenset({ParserState.PROSE, ParserState.INVENTED}),
    ParserState.INVENTED: frozenset(),
    ParserState.HALTED: frozenset(),
}


# In these states the text is inside a block or a call.
_INSIDE = frozenset(
    {
        *(ParserState.BLOCK, ParserState.NAMED, ParserState.JUNK, ParserState.BROKEN),
        *(ParserState.INVOKE, ParserState.REMARK),
        *(ParserState.NESTED, ParserState.VALUE, ParserState.JSON),
    }
)
# In these, the block may be one that the strict grammar accepts.
_STRICT = frozenset({ParserState.BLOCK, ParserState.INVOKE, ParserState.VALUE, ParserState.JSON})

# A `ParserState`, and what its reader has to know: the tag that opened it, for example.
Move: TypeAlias = tuple[object, ...]


class StateReader(Protocol):
    """Reads one state."""

    def read(self) -> Move | None:
        """Reads on. Returns the next state, or None to wait for more text."""
        ...

    def end(self) -> Move | None:
        """Does what is left to do, now that no more text comes."""
        ...


class Prose(StateReader, Protocol):
    """Reads reasoning and content, and outlives the blocks between them."""

    reasoning: bool
    plain_wrapper: bool  # a wrapper without the DSML token was opened
    lines: LineTracker
    quoting: Quoting

    def resume(self, lines: LineTracker | None = None, to: int | None = None) -> StateReader:
        """Goes on where reading stands; or, up to the place `to`, with what is text for sure."""
        ...

    def enter_calls(self, tag: Tag) -> Move | None:
        """Leaves prose for a block, or for a call without one."""

    def leave(self, tag: Tag) -> Move | None:
        """Leaves markup in the text."""

    def leave_example(self, tag: Tag, to: int) -> None:
        """Leaves a block in a code fence, up to `to`, in the text."""

    def leave_roles(self) -> None:
        """Leaves role tokens in the text, because no turn was made up."""


class ReadAgain(Exception):
    """Reading was put back to an earlier place, and goes on from there in another way."""


class QuotationHold(Protocol):
    """Holds the events of calls that stand in an open quotation (rule 29)."""

    quotation: Quotation
    start: int

    def waits(self) -> bool:
        """Whether more text must come behind the calls."""
        ...

    def settle(self, ahead: Tag | Lookahead) -> None:
        """The calls are over, and `ahead` follows."""
        ...

    def covers(self, quotation: Quotation) -> bool:
        """Whether nothing else may quote a later call than what may quote these."""
        ...

    def follow(self, is_prose: bool) -> None:
        """Text behind the calls has gone by, which `is_prose`, or is white space."""
        ...

    def end(self, was_cut: bool) -> None:
        """The section ends."""
        ...

    def quote(self, to: int, quoting: Quoting | None = None) -> None:
        """The text up to `to` is quoted."""
        ...


class CallHold(Protocol):
    """Holds the events of calls behind a doubtful end of a value (rule 21)."""

    def doubt(
        self,
        call: CallWriter | None = None,
        in_string: bool = False,
        rest: str = "",
        drops_if_cut: bool = False,
    ) -> None:
        """From here on no call is made if surplus closers come, nor `call`, which is open."""
        ...

    def surplus(self, tag: Tag) -> None:
        """A closing tag that closes nothing has come."""
        ...

    def spelled_close(self, tag: Tag) -> None:
        """A close stands in a value, and closes nothing."""
        ...

    def end_inside(self) -> None:
        """The text ends inside a call or a block, and was cut there."""
        ...

    def settle(self, ahead: Tag | Lookahead) -> None:
        """The calls are over, and `ahead` follows."""
        ...

    def release(self) -> None:
        """Gives the events out, whatever follows."""
        ...


class Machine:
    """What the readers of all states share: the text, the events, and where reading is."""

    def __init__(
        self,
        *,
        dialect: Dialect,
        tools: DeclaredTools,
        forbidden: bool,
        new_id: Callable[[], str],
        whole_calls: bool,
        start: int,
    ) -> None:
        self.tags = dialect.tags
        self.namespaces = dialect.namespaces
        self.tools = tools
        self.forbidden = forbidden
        self.whole_calls = whole_calls
        self._new_id = new_id
        self._readers: Mapping[ParserState, Callable[..., StateReader]] = {}

        self.source = TextSource(read_tag, start)
        self.rules = TagRules(self.source, tools)
        self.events: list[Event] = []
        self.emit: Callable[[Event], None] = self._emit
        self._diagnostics = 0
        self.reads_all = False  # every chunk must be seen, because it may have to be quoted
        self._further: tuple[int, int] | None = (
            None  # deviations beyond the limit, which share one diagnostic
        )

        self.blocks = 0
        self.blank_line = False  # one went with the block that was opened last
        self.calls_seen = 0
        self.calls_unread = 0  # diagnostics that say so
        self.calls_begun = 0
        self.calls_completed = 0
        # The text ended inside something; its last token was an EOS.
        self.cut = False
        self._cut_reported = False
        self.eos = False
        self.eos_run = (0, 0)  # the last run of EOS tokens, as far as it was followed

        # Calls that may be quoted (rules 20 to 24, and 29), and the lists that their events go to:
        # those that are shown, those of each quotation, and those of a doubtful value.
        self.quotations: list[QuotationHold] = []
        self.hold: CallHold | None = None
        self._lists = [self.events]
        self._first_is_escaped: bool | None = None  # the quotes in the tag of the first call are
        self.quoted_to = NOWHERE  # closes before this place are known to be quoted
        # Whether the strict grammar may accept the open block, the reader that finds it out, and
        # what it has to read before that: few blocks are ever doubted (rule 20).
        self.may_be_strict = False
        self._strict_block: StrictBlock | None = None
        self._strict_start = NOWHERE
        self._strict_passed: list[tuple[str, int]] = []
        self._strict_fed = NOWHERE  # how far it was fed with text that is not read yet
        self._strict_after = NOWHERE  # how far what follows the block was looked at
        self._refuted_to = NOWHERE  # a value that closes before this is in no strict block
        self.reads_strictly = False  # the strict grammar accepts the open block
        self.no_close_to = NOWHERE  # no closing tag stands between an EOS and this place
        self.close_at = NOWHERE  # where one does

        # Where reading is: the block and the call that are open.
        self.prose: Prose
        self.block: StateReader | None = None
        self.invoke: StateReader | None = None
        self.state = ParserState.PROSE
        self.reader: StateReader

    def start(
        self, readers: Mapping[ParserState, Callable[..., StateReader]], prose: Prose
    ) -> None:
        """Starts in prose. `readers` has the reader of each state."""
        self._readers = readers
        self.prose = prose
        self.reader = prose

    def _emit(self, event: Event) -> None:
        self.events.append(event)

    # Going from state to state.

    def run(self) -> None:
        """Reads as far as the text goes."""
        source, state = self.source, self.state
        if source.pending is not None:
            # In prose and in strings what cannot become a tag that acts is shown at once.
            minds_kind = state is ParserState.PROSE or state is ParserState.VALUE
            if source.is_pending(minds_kind):
                return
            source.pending = None
        while True:
            try:
                move = self.reader.read()
                if move is None:
                    return
                self._go(move)
            except ReadAgain:
                continue

    def finish(self) -> None:
        """Reads to the end of all text."""
        self.source.final = True
        while True:
            self.run()
            try:
                if self.hold is not None and self.state in _INSIDE and not self.source.stopped:
                    self.hold.end_inside()
                move = self.reader.end()
                if move is not None:
                    self._go(move)
                    continue
                self.settle_calls(Lookahead.END)
                self.end_quotations(self.source.ended not in (None, Ended.END) and not self.eos)
                break
            except ReadAgain:
                continue

    def _go(self, move: Move) -> None:
        state, *known = move
        assert isinstance(state, ParserState)
        assert state is self.state or state in NEXT[self.state], (self.state, state)
        self.state = state
        if state not in _STRICT:
            self.forget_strict_block()
        self.reader = self._readers[state](self, *known)

    # Events.

    def show_to(self, events: list[Event]) -> None:
        """From now on events go to this list, unless they are held."""
        self._lists[0] = events
        self.events = self._lists[-1]

    @property
    def holds(self) -> bool:
        """Whether any events are held."""
        return len(self._lists) > 1

    @property
    def held_from(self) -> int:
        """The place from which on text waits, or was read and may have to be read again."""
        return self.quotations[0].start if self.quotations else self.source.done

    def hold_events(self, hold: CallHold) -> None:
        self.hold = hold
        self._open_list()

    def release_events(self) -> None:
        self._lists[-2] += self._lists[-1]
        self.discard_events()

    def discard_events(self) -> None:
        self.hold = None
        self._close_lists(len(self._lists) - 1)

    def release_all(self) -> None:
        """Gives out all events that are held."""
        if self.hold is not None:
            self.hold.release()
        for quotation in reversed(self.quotations):
            self.end_quotation(quotation)

    def _open_list(self) -> None:
        self.events = []
        self._lists.append(self.events)

    def _close_lists(self, count: int) -> None:
        del self._lists[count:]
        self.events = self._lists[-1]

    # Quotations (rule 29).

    def begin_quotation(self, hold: QuotationHold) -> None:
        self.quotations.append(hold)
        self._open_list()
        self.watch_quotations()

    def end_quotation(self, hold: QuotationHold) -> None:
        """What is held was not quoted."""
        n = self.quotations.index(hold)
        self._lists[n] += self._lists.pop(n + 1)
        del self.quotations[n]
        self.events = self._lists[-1]
        self.source.unpin()
        self.watch_quotations()

    def leave_quotation(self, at: int) -> None:
        """What begins at `at` stays, so that it need not be held."""
        if self.quotations and self.quotations[-1].start == at:
            self.end_quotation(self.quotations[-1])

    def discard_quotation(self, hold: QuotationHold) -> None:
        """What is held was quoted, and so was all that was held later."""
        n = self.quotations.index(hold)
        self.hold = None
        del self.quotations[n:]
        self._close_lists(n + 1)

    def watch_quotations(self) -> None:
        """Has prose say when one of the quotations closes that calls are held for."""
        watched = (opening for hold in self.quotations for opening in hold.quotation.openings)
        self.prose.quoting.watch(watched)

    def events_of(self, hold: QuotationHold) -> list[Event]:
        """The events that are held from a quotation on."""
        n = self.quotations.index(hold) + 1
        return [event for events in self._lists[n:] for event in events]

    def follow_quotations(self, is_prose: bool) -> None:
        """Text has gone by in which quotations may have been closed."""
        quoting = self.prose.quoting
        if quoting.closed is not None:
            opening, end = quoting.closed
            for hold in self.quotations:
                if opening in hold.quotation.openings:
                    hold.quote(end, quoting)
        for hold in reversed(self.quotations):
            hold.follow(is_prose)

    def end_quotations(self, was_cut: bool = False) -> None:
        """The section ends."""
        self.prose.quoting.end()
        self.follow_quotations(False)
        for hold in reversed(self.quotations):
            hold.end(was_cut)

    def note_surplus(self, tag: Tag) -> None:
        """A closing tag closes nothing, in a block or directly behind it."""
        if self.hold is not None:
            self.hold.surplus(tag)

    def settle_calls(self, ahead: Tag | Lookahead) -> None:
        """Something else than calls and closing tags follows."""
        if self.hold is not None:
            self.hold.settle(ahead)
        for hold in reversed(self.quotations):
            hold.settle(ahead)

    # The strict reading of the open block (rule 20).

    def follow_strictly(self, start: int) -> None:
        """Lets the strict grammar be asked about a block whose opening tag is spelled strictly."""
        self.may_be_strict = True
        self._strict_block = None
        self._strict_start = start
        self._strict_passed = self.source.passed = []
        self._strict_fed = self._strict_after = NOWHERE

    def read_strictly(self) -> None:
        """From now on the open block is read strictly: the strict grammar accepts it."""
        self.forget_strict_block()
        self.reads_strictly = True

    def forget_strict_block(self) -> None:
        """The open block is not strict, or is over."""
        self.may_be_strict = False
        self.source.passed = None
        self.reads_strictly = False

    def _read_passed_strictly(self) -> StrictBlock:
        """The strict reader, behind what has been passed. Raises a `ParseError` where that leaves
        the grammar."""
        block = self._strict_block
        if block is None:
            block = self._strict_block = StrictBlock(
                self.tags, self._strict_start, longest=LONGEST_TAG
            )
        for text, start in self._strict_passed:
            block.feed(text, start)
        self._strict_passed.clear()
        return block

    def _release_passed(self) -> None:
        """Reads what has been passed, so that it need not be held."""
        try:
            self._read_passed_strictly()
        except ParseError:
            self.forget_strict_block()

    def accepts_strictly(self, value: int, at: int) -> bool | None:
        """Whether the strict grammar accepts the open block, and it is the last thing in the text.

        `at` is where the first doubt arises, in the value that begins at `value`. None: not known
        yet.
        """
        source = self.source
        try:
            block = self._read_passed_strictly()
        except ParseError:
            return False
        if at < self._refuted_to:
            return False
        if not source.final and source.end - self._strict_fed < _STRICT_STEP:
            return None
        before = ""
        if self._strict_fed < value:  # a bracket and a slash may stand before the tag
            self._strict_fed = at
            before = source.just_before(at)[max(value - at, -2) :] if at > value else ""
        text = before + source.acting(self._strict_fed, source.end)
        try:
            block.feed(text, self._strict_fed - len(before), source.final)
        except ParseError:
            self._refuted_to = max(self._refuted_to, block.closed_at)
            if source.final and block.closed_at < at:
                self._refuted_to = source.end
            return False
        self._strict_fed = source.end
        return None if block.end is None else self._is_last(block.end)

    def _is_last(self, end: int) -> bool | None:
        """Whether nothing but EOS and white space follows a block. None: not known yet."""
        at = max(end, self._strict_after)
        rest = self.source.acting(at, self.source.end)
        while rest:
            kept = rest.lstrip().removeprefix(_EOS)
            if kept == rest:
                break
            rest = kept
        self._strict_after = self.source.end - len(rest)
        if not rest:
            return True if self.source.final else None
        return None if _EOS.startswith(rest) and not self.source.final else False

    # Diagnostics.

    def report(self, kind: DiagnosticKind, start: int, end: int) -> None:
        """Reports a deviation, at these places of the text."""
        self.report_raw(kind, start, self.source.slice(start, end))

    def report_raw(
        self, kind: DiagnosticKind, start: int, raw: str, length: int | None = None
    ) -> None:
        """Reports a deviation in text that is not in the buffer any more.

        `length` is that of the text, where `raw` is only its beginning.
        """
        end = start + (len(raw) if length is None else length)
        self.calls_unread += kind in kinds.UNREAD_CALL_KINDS
        if start < 0:  # what the prompt holds is not quoted
            if end <= 0 and raw:
                return
            start, end, raw = 0, max(end, 0), raw[-start:]
        if self._diagnostics < MOST_DIAGNOSTICS:
            self._diagnostics += 1
            self.events.append(Diagnostic(kind, start, end, raw))
        elif self._further is None:
            if start + len(raw) < self.source.base:  # what follows it is not here any more
                start, end, raw = self.source.pos, self.source.pos, ""
            self.source.keep(start, raw)
            self._further = start, end
            self.reads_all = True
        else:
            self._further = self._further[0], max(end, self._further[1])

    def report_further(self) -> None:
        """At the end: one diagnostic for all deviations beyond the limit."""
        if self._further is not None:
            start, end = self._further
            raw = self.source.kept()[: end - start]
            self.events.append(Diagnostic(kinds.MORE_DEPARTURES, start, end, raw))

    def report_cut(self, start: int, raw: str | None = None) -> None:
        """The text ends inside something, of which the rest, `raw`, is from `start` on.

        One cut is reported once (rule 16). What the model itself ended was not cut: a call whose
        tag breaks off there is dropped.
        """
        source = self.source
        raw = source.slice(start, source.end) if raw is None else raw
        if source.stopped and self.breaks_off(start):
            self.report_raw(kinds.DROPPED_CALL, start, raw)
        elif not (self.cut or self._cut_reported):
            self.report_raw(kinds.CUT_SHORT, start, raw)
            self._cut_reported = True
        elif raw:
            self.report_raw(kinds.UNEXPECTED_TEXT, start, raw)
        self.cut = self.cut or not source.stopped
        source.advance(source.end)

    def breaks_off(self, at: int) -> bool:
        """Whether the text ends in a tag that begins at `at`, and opens something."""
        source = self.source
        if not source.pos <= at < source.end or source.at(at + 1) in SLASHES:
            return False
        return source.tag_at(at) is PartialTag.SURELY

    def note_cut(self) -> None:
        """The text ends inside something that is left as text."""
        if not self.cut and not self.source.stopped:
            self.report(kinds.CUT_SHORT, self.source.end, self.source.end)
            self.cut = True

    def check_spelling(self, tag: Tag, padded: bool = False) -> None:
        """Reports a tag that acts and is not spelled as the dialect spells it.

        `padded` says that white space stands around the name in it.
        """
        label = self.tags.label_of(tag.kind)
        if label is not None and tag.is_spelled(label) and not padded:
            return
        head = tag.raw.partition(" name=")[0].rstrip(">")
        released = head in RELEASED_TAGS and not head.endswith(f"{tokens.DSML}{label}")
        self.report_raw(
            kinds.OTHER_RELEASE if released else kinds.MISSPELLED_TAG, tag.start, tag.raw
        )

    def after_eos(self, tag: Tag) -> tuple[int, Tag | Lookahead]:
        """Where the run of EOS tokens ends that `tag` is in, and what follows it.

        How far a run was followed is remembered, for the others in it.
        """
        begun, reached = self.eos_run
        if not begun <= tag.start < reached:
            begun, reached = tag.start, tag.end
        ahead = self.rules.look_past(reached)
        while isinstance(ahead, Tag) and ahead.kind == "eos":
            reached = ahead.end
            ahead = self.rules.look_past(reached)
        self.eos_run = begun, reached
        return reached, ahead

    def closes_later(self, at: int) -> bool | None:
        """Whether a closing tag of a call follows anywhere. None: not known yet."""
        if self.close_at >= at:
            return True
        at = max(at, self.no_close_to)
        while True:
            at, tag = self.source.next_tag(at)
            if tag is None:
                self.no_close_to = at
                return False if self.source.final else None
            if tag.closing and tag.marked and self.rules.kind(tag) in CALL_TAGS:
                self.close_at = tag.start
                return True
            at = tag.end

    # Calls.

    def begin_call(self, name: str, visible: bool) -> CallWriter:
        """A new call. One that is not visible has no place among the others."""
        self.calls_seen += 1
        if self.may_be_strict and len(self._strict_passed) > _MOST_PASSED:
            self._release_passed()
        namespace, bare = self._split(name)
        start = ToolCallStart(self.calls_begun, bare, "", namespace)
        if visible:
            start.id = self._new_id()
            self.calls_begun += 1
        return CallWriter(name, start, self.tools, self.emit, visible, self.whole_calls)

    def _split(self, name: str) -> tuple[str | None, str]:
        """Namespace and name, where the dialect has namespaces (format.md, section 13.3)."""
        namespace, cut, bare = name.partition(NAMESPACE_END)
        has_one = bool(cut) and NAMESPACE_END not in bare
        if has_one and (self.namespaces or name in self.tools.namespaced):
            return namespace, bare
        return None, name

    def whole_call(self, name: str, arguments: str, start: int) -> None:
        """A call that was held until it was complete."""
        if self.is_beyond_limits(name):
            self.report_raw(kinds.LIMIT, start, "")
            return
        if self.forbidden:
            return
        self.check_declared(name, start, "")
        self.begin_call(name, visible=True).end(arguments)
        self.calls_completed += 1

    def part_of_call(self, name: str, rest: str, reason: AbortReason = "cut_short") -> None:
        """A call that was held and is incomplete, of whose arguments `rest` is known (rule 10)."""
        if not self.forbidden and not self.is_beyond_limits(name):
            self.begin_call(name, visible=True).abort(reason, rest=rest)

    def is_quoted_in_json(self, tag: Tag) -> bool:
        """Whether the tag of a call has escaped quotes, and that of the first call has not.

        Who escapes quotes (rule 28) does so from the first call on; later ones are quoted.
        """
        is_escaped = '=\\"' in tag.raw
        if self._first_is_escaped is None:
            self._first_is_escaped = is_escaped
        return is_escaped and not self._first_is_escaped

    def is_beyond_limits(self, name: str) -> bool:
        return self.calls_seen >= MOST_CALLS or len(name) > LONGEST_NAME

    def check_declared(self, name: str, start: int, raw: str) -> None:
        if self.tools.given and not self.tools.declares(name):
            self.report_raw(kinds.UNDECLARED_TOOL, start, raw)
