"""Calls that may be quoted: whether the strict grammar accepts the block they stand in, and the
events of doubtful calls, which are held until what follows decides (recovery.md, rules 20 to 24).
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import CallWriter
from dsv4._parse.events import Diagnostic
from dsv4._parse.machine import Machine, ReadAgain
from dsv4._parse.source import Tag, pattern
from dsv4._parse.tag_rules import Lookahead

# What an invoke stands behind, directly, if a patch or a program quotes it.
QUOTES_AN_INVOKE = frozenset("+-\"'`\\“”‘’")

_INLINE = frozenset('`"')
_OUTDENTED_LINE = pattern(r"\n(?!\t| {4}|[ \t]*(?:\n|\Z))")


class Quotation:
    """What stands around a block that is an example: `before` it, and so behind it."""

    def __init__(self, before: str, indented: bool) -> None:
        self._before = before
        self._indented = indented

    @classmethod
    def behind(cls, character: str, element: str | None, indented: bool) -> Quotation | None:
        """What a block may be quoted by: the character before it, an element, its indentation."""
        if character in _INLINE:
            return cls(character, False)
        if element is not None:
            return cls(f"</{element}", False)
        return cls("", True) if indented else None

    def is_closed(self, machine: Machine, block: str, ahead: Tag | Lookahead) -> bool:
        """Whether a block, behind which reading stands, is quoted."""
        source = machine.source
        at = source.past_space(source.pos)
        if not self._indented:
            return source.slice(at, at + len(self._before)).lower() == self._before
        prose_follows = at < source.end and ahead in (Lookahead.TEXT, Lookahead.BRACE)
        return prose_follows and _OUTDENTED_LINE.search(block) is None

    def waits(self, machine: Machine) -> bool:
        """Whether more text must come before it is known if the block is quoted."""
        source = machine.source
        at = source.past_space(source.pos)
        rest = source.slice(at, at + len(self._before)).lower()
        return not source.final and len(rest) < len(self._before) and self._before.startswith(rest)


class _Snapshot:
    """Where reading was, to go on from there in another way."""

    # What of the machine changes while calls are read.
    _FIELDS = (
        *("blocks", "blank_line", "calls_seen", "calls_begun", "calls_completed", "cut"),
        *("_cut_reported", "eos", "eos_run", "_diagnostics", "_further", "reads_all", "state"),
    )

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._fields = {name: getattr(machine, name) for name in self._FIELDS}
        shared = (machine, machine.source, machine.rules, machine.tools, machine.tags)
        memo: dict[int, object] = {id(one): one for one in (*shared, machine.prose)}
        self._open = copy.deepcopy((machine.block, machine.invoke, machine.reader), memo)
        self._prose = {**vars(machine.prose), "lines": copy.copy(machine.prose.lines)}
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
        self._snapshot = _Snapshot(machine) if returns else None
        self._quotation: Quotation | None = None
        self._read_otherwise: Callable[[int], None] | None = None
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

    def read_otherwise(self, read: Callable[[int], None], quotation: Quotation | None) -> None:
        """Says how reading goes on where it was, if the calls turn out to be quoted."""
        self._read_otherwise = read
        self._quotation = quotation

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
        if self._snapshot is not None and self._quotation is None:
            self._return(tag.end)

    def spelled_close(self, tag: Tag) -> None:
        """A close stands in a value, and closes nothing: so calls are quoted, if they may be."""
        if self._snapshot is not None and self._quotation is None:
            self._return(tag.end)

    def end_inside(self) -> None:
        """The text ends inside a call or a block, and was cut there."""
        if self._snapshot is not None and self._quotation is None:
            self._return(self._machine.source.end)
        self._has_surplus = self._has_surplus or self._drops_if_cut

    def waits(self) -> bool:
        return self._quotation is not None and self._quotation.waits(self._machine)

    def settle(self, ahead: Tag | Lookahead) -> None:
        """The calls are over, and `ahead` follows."""
        machine, source = self._machine, self._machine.source
        if self._quotation is not None:
            block = source.pinned(source.pos)
            if self._quotation.is_closed(machine, block, ahead):
                self._return(source.pos)
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
        raw = self._unseen + source.pinned(source.pos)[self._doubted_from - self._start :]
        start = self._doubted_from - len(self._unseen)
        machine.report_raw(kinds.DROPPED_CALL, start, raw)

    def _return(self, to: int) -> None:
        """Reads once more from where the doubt began. What stands before `to` has decided it."""
        machine = self._machine
        assert self._snapshot is not None and self._read_otherwise is not None
        machine.discard_events()
        self._snapshot.restore()
        machine.quoted_to = max(machine.quoted_to, to)
        self._read_otherwise(to)
        raise ReadAgain
