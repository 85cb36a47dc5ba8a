"""Calls that may be quoted: their events are held until what follows decides (recovery.md, rules
21, 24 and 29).

Reading goes on meanwhile as if they were real; if they are quoted, it is put back to where they
began, and goes on differently.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

from dsv4._format.spellings import PARAMETER_PREFIX, WORD
from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import CallWriter
from dsv4._parse.events import Diagnostic
from dsv4._parse.limits import LONGEST_SPACE
from dsv4._parse.machine import Machine, ParserState, ReadAgain
from dsv4._parse.patterns import pattern
from dsv4._parse.quoting import Mark, Quotation, Quoting
from dsv4._parse.tag import Tag
from dsv4._parse.tag_rules import Lookahead


class _Snapshot:
    """The state of reading, to return to it and read on differently."""

    # What of the machine changes while calls are read.
    _FIELDS = (
        *("blocks", "blank_line", "calls_seen", "calls_unread", "calls_begun"),
        *(
            "calls_completed",
            "cut",
            "_cut_reported",
            "eos",
            "eos_run",
            "_diagnostics",
            "_further",
            "reads_all",
            "state",
            "_first_is_escaped",
        ),
    )

    def __init__(self, machine: Machine, is_in_call: bool) -> None:
        self._machine = machine
        self._fields = {name: getattr(machine, name) for name in self._FIELDS}
        shared = (machine, machine.source, machine.rules, machine.tools, machine.tags)
        memo: dict[int, object] = {id(one): one for one in (*shared, machine.prose)}
        opened = (machine.block, machine.invoke, machine.reader)
        self._open = copy.deepcopy(opened, memo) if is_in_call else (None, None, machine.prose)
        prose = machine.prose
        self.quoting = prose.quoting.copy()
        followers = {"lines": copy.copy(prose.lines), "quoting": self.quoting}
        self._prose = {**vars(prose), **followers}
        self._source = machine.source.mark()

    def restore(self) -> None:
        machine = self._machine
        for name, value in self._fields.items():
            setattr(machine, name, value)
        machine.block, machine.invoke, machine.reader = self._open
        vars(machine.prose).update(self._prose)
        machine.source.return_to(self._source)


class HeldCalls:
    """The events of calls that may be quoted. They are held from where reading stands on."""

    def __init__(self, machine: Machine, returns: bool = False) -> None:
        self._machine = machine
        self._start = machine.source.pos
        self._snapshot = _Snapshot(machine, is_in_call=True) if returns else None
        self._read_otherwise: Callable[[], None] | None = None
        self._doubted: CallWriter | None = None  # the call whose value may be cut, as it was
        self._abort: tuple[bool, str] = (False, "")
        self._doubted_from = self._start
        self._unseen = ""
        self._shown = 0  # how many of the held events are not in doubt
        self._counts = machine.calls_begun, machine.calls_completed
        self._is_doubtful = self._drops_if_cut = self._has_surplus = False
        machine.source.pin()
        machine.hold_events(self)

    # What there is to doubt.

    def read_otherwise(self, read: Callable[[], None]) -> None:
        """Says how reading goes on where it was, if the calls turn out to be quoted."""
        self._read_otherwise = read

    def doubt(
        self,
        call: CallWriter | None = None,
        in_string: bool = False,
        rest: str = "",
        drops_if_cut: bool = False,
    ) -> None:
        """From here on no call is made if surplus closers come, nor `call`, which is open."""
        self._drops_if_cut = self._drops_if_cut or drops_if_cut
        if self._is_doubtful:
            return
        machine = self._machine
        self._is_doubtful = True
        self._shown = len(machine.events)
        self._counts = machine.calls_begun, machine.calls_completed
        self._doubted = None if call is None else call.copy()
        self._abort = in_string, rest
        source = machine.source
        self._doubted_from = source.pos
        # Of a call that is to be seen whole nothing was seen yet: all of it has to be quoted.
        self._unseen = source.recorded_so_far if call is not None and not call.streams else ""

    # What decides.

    def surplus(self, tag: Tag) -> None:
        """A closing tag that closes nothing."""
        self._has_surplus = True
        if self._snapshot is not None:
            self._return(tag.end)

    def spelled_close(self, tag: Tag) -> None:
        """A close stands in a value, and closes nothing: so calls are quoted, if they may be."""
        if self._snapshot is not None:
            self._return(tag.end)

    def end_inside(self) -> None:
        """The text ends inside a call or a block, and was cut there."""
        if self._snapshot is not None:
            self._return(self._machine.source.end)
        self._has_surplus = self._has_surplus or self._drops_if_cut

    def settle(self, ahead: Tag | Lookahead) -> None:
        """The calls are over, and `ahead` follows."""
        if self._is_doubtful and self._has_surplus:
            self._drop()
        self.release()

    def release(self) -> None:
        """Gives the events out, whatever follows."""
        self._machine.source.unpin()
        self._machine.release_events()

    def _drop(self) -> None:
        machine, source = self._machine, self._machine.source
        doubted = machine.events[self._shown :]
        del machine.events[self._shown :]
        if self._doubted is not None and self._doubted.visible:
            in_string, rest = self._abort
            self._doubted.abort("unreadable", in_string=in_string, rest=rest)
        machine.events += [event for event in doubted if isinstance(event, Diagnostic)]
        machine.calls_begun, machine.calls_completed = self._counts
        raw = self._unseen + source.pinned(self._doubted_from, source.pos)
        start = self._doubted_from - len(self._unseen)
        machine.report_raw(kinds.DROPPED_CALL, start, raw)

    def _return(self, to: int) -> None:
        """Reads once more from where the doubt began. What stands before `to` has decided it."""
        machine = self._machine
        assert self._snapshot is not None and self._read_otherwise is not None
        machine.discard_events()
        self._snapshot.restore()
        machine.quoted_to = max(machine.quoted_to, to)
        self._read_otherwise()
        raise ReadAgain


# Diagnostics of a call that lacks a part, or has text between its parts.
_UNCLEAN = frozenset(
    {
        *(kinds.IMPLIED_CLOSE, kinds.CUT_SHORT, kinds.DROPPED_CALL),
        *(kinds.UNEXPECTED_TEXT, kinds.UNEXPECTED_TAG),
    }
)
_DSML_TAG = pattern(rf"<(/?)[^<>]{{0,8}}{WORD}[^<>]{{0,1024}}>?", re.IGNORECASE)
_OUTDENTED_LINE = pattern(r"\n(?!\t| {4}|[ \t]*(?:\n|\Z))")
_UNQUOTED_LINE = pattern(r"\n(?!\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)*>)")


class QuotedCalls:
    """Calls, or other markup that would go, where a quotation is open: text, if it closes."""

    def __init__(
        self, machine: Machine, quotation: Quotation, leave: Callable[[int, Quoting], None]
    ) -> None:
        self._machine = machine
        self.quotation = quotation
        self._leave = leave
        self.start = machine.source.pos
        self._snapshot = _Snapshot(machine, is_in_call=False)
        self._is_behind = False  # the calls are over
        self._has_prose = False  # prose stands behind them
        machine.source.pin()
        machine.begin_quotation(self)

    def covers(self, quotation: Quotation) -> bool:
        """Whether nothing else may quote a later call than what may quote these."""
        if quotation.close or quotation.mark is not Mark.NONE:
            return False
        return {*quotation.openings} <= {*self.quotation.openings}

    # What stands directly behind the calls.

    def waits(self) -> bool:
        """Whether more text must come behind the calls."""
        source = self._machine.source
        if self._is_behind or not self.quotation.close:
            return False
        return source.past_space(source.pos) == source.end and not source.final

    def settle(self, ahead: Tag | Lookahead) -> None:
        """The calls are over, and `ahead` follows."""
        if self._is_behind:
            return
        self._is_behind = True
        source = self._machine.source
        self._look_inside()
        if self._is_closed_directly() or self._is_marked(ahead):
            self.quote(source.pos)
        self._check()

    def _is_closed_directly(self) -> bool:
        source, close = self._machine.source, self.quotation.close
        at = source.past_space(source.pos)
        is_near = at - source.pos <= LONGEST_SPACE and at < source.end
        return is_near and source.at(at) in close

    def _is_marked(self, ahead: Tag | Lookahead) -> bool:
        """Whether the lines of the calls say that they are quoted."""
        mark, source = self.quotation.mark, self._machine.source
        if mark is Mark.NONE:
            return False
        text = source.pinned(self.start, source.pos)
        block = text[len(text) - len(text.lstrip()) :]
        if mark is Mark.INDENTATION:
            follows = source.past_space(source.pos) < source.end
            is_prose = follows and ahead in (Lookahead.TEXT, Lookahead.BRACE)
            return is_prose and _OUTDENTED_LINE.search(block) is None
        if _UNQUOTED_LINE.search(block) is not None:
            return False
        ends = isinstance(ahead, Tag) and ahead.kind == "think"
        return mark is Mark.QUOTED or not (ends or self._machine.rules.is_end(ahead))

    def _look_inside(self) -> None:
        """In an open quotation nothing is implied: it may close in a call that is not whole."""
        machine, source = self._machine, self._machine.source
        events = machine.events_of(self)
        if not any(isinstance(e, Diagnostic) and e.kind in _UNCLEAN for e in events):
            return
        text = source.pinned(self.start, source.pos)
        tags = list(_DSML_TAG.finditer(text))
        for n, tag in enumerate(tags):
            after = tags[n + 1] if n + 1 < len(tags) else None
            if not tag[1] and after is not None and after[1] and _closes_value(tag[0], after[0]):
                continue  # a value
            gap = text[tag.end() : len(text) if after is None else after.start()]
            at = self.start + tag.end()
            behind = self._snapshot.quoting.behind_close(gap, at, self.quotation.openings)
            if behind is not None and behind.closed is not None:
                self.quote(behind.closed[1], behind)

    # What stands further behind.

    def follow(self, is_prose: bool) -> None:
        """Text behind the calls has gone by, which `is_prose`, or is white space."""
        self._has_prose = self._has_prose or (is_prose and self._is_behind)
        self._check()

    def _check(self) -> None:
        """Gives the events out, if nothing that is open may quote them any more."""
        if self._is_behind and not self._machine.prose.quoting.is_open(self.quotation.openings):
            self._machine.end_quotation(self)

    def end(self, was_cut: bool) -> None:
        """The section ends. Where the text was cut, prose that stands behind is still quoted."""
        if not self._is_behind:
            self.settle(Lookahead.END)
        quoting = self._machine.prose.quoting
        if was_cut and self._has_prose and quoting.is_open(self.quotation.openings):
            self.quote(self._machine.source.end)
        if self in self._machine.quotations:
            self._machine.end_quotation(self)

    def quote(self, to: int, quoting: Quoting | None = None) -> None:
        """The text up to `to` is quoted: reads once more from where the calls began."""
        machine = self._machine
        machine.discard_quotation(self)
        self._snapshot.restore()
        machine.state = ParserState.PROSE
        self._leave(to, quoting or machine.prose.quoting)
        machine.watch_quotations()
        raise ReadAgain


def _closes_value(opening: str, close: str) -> bool:
    return PARAMETER_PREFIX in opening.lower() and PARAMETER_PREFIX in close.lower()
