"""Markup in prose that belongs to no open call: closing tags, parameters without a call, blocks in
a code fence, invented turns, what follows a block, and calls that may be quoted: their events are
held until what follows decides (recovery.md, rules 5, 9, 15, 17 and 20 to 24).
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from dsv4._format import tokens
from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import CallWriter
from dsv4._parse.events import Diagnostic
from dsv4._parse.limits import LONGEST_QUOTE, LONGEST_SPACE, LONGEST_TAG
from dsv4._parse.lines import LineTracker
from dsv4._parse.machine import Machine, Move, ParserState, Prose, ReadAgain
from dsv4._parse.patterns import pattern
from dsv4._parse.reasons import Ended
from dsv4._parse.strict import StrictBlock
from dsv4._parse.tag import PartialTag, Tag
from dsv4._parse.tag_rules import (
    CALL_TAGS,
    Lookahead,
    is_plain_invoke,
    is_plain_wrapper,
    opens_json_calls,
)
from dsv4.errors import ParseError


class OrphanClosersReader:
    """A run of closing tags in prose: it goes, or is text.

    It goes at the end of reasoning or content, before a tag with the DSML token, and wherever it
    has its lines to itself.
    """

    def __init__(self, machine: Machine, tag: Tag, opens_line: bool) -> None:
        self._machine = machine
        self._opens_line = opens_line
        machine.source.set_aside(tag.end)

    def read(self) -> Move | None:
        machine, source = self._machine, self._machine.source
        while True:
            ahead = machine.rules.look_ahead(source.pos)
            if ahead is Lookahead.MORE:
                return None
            closes = isinstance(ahead, Tag) and ahead.closing and ahead.marked and not ahead.bare
            if closes and isinstance(ahead, Tag) and machine.rules.kind(ahead) in CALL_TAGS:
                source.set_aside(ahead.end)
                continue
            return self._decide(ahead)

    def _decide(self, ahead: Tag | Lookahead) -> Move:
        machine, source = self._machine, self._machine.source
        space = source.slice(source.pos, source.past_space(source.pos))
        alone = self._opens_line and ("\n" in space or len(space) > LONGEST_SPACE)
        acts = isinstance(ahead, Tag) and (ahead.marked or ahead.kind in ("eos", "bos", "think"))
        if ahead is Lookahead.END or acts or alone:
            start = source.aside_from
            machine.report_raw(kinds.ORPHAN_CLOSER, start, source.aside())
            return (ParserState.PROSE, LineTracker() if self._opens_line else None)
        to = source.pos
        source.put_back()
        machine.report(kinds.MARKUP_AS_TEXT, source.pos, to)
        return (ParserState.PROSE, None, to)

    def end(self) -> Move | None:
        return self._decide(Lookahead.END)


class StrayParameterReader:
    """A parameter on a line of its own, with no call around it: it goes with its value (rule 5).

    That is, if its close comes soon, and after it more markup or the end of reasoning or content;
    where prose goes on it is talked about.
    """

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        self._at = tag.end

    def read(self) -> Move | None:
        machine, source = self._machine, self._source
        limit = self._tag.end + LONGEST_TAG
        while True:
            mark = source.next_mark(self._at)
            if mark > limit or (mark == source.end and source.end > limit):
                return self._leave()
            if mark == source.end:
                return None
            tag = source.tag_at(mark)
            if isinstance(tag, PartialTag):
                return None
            if tag is None or not (tag.marked or tag.kind in ("eos", "think")):
                self._at = mark + 1
                continue
            if not machine.rules.closes(tag, "parameter"):
                return self._leave()
            ahead = machine.rules.look_ahead(tag.end)
            if ahead is Lookahead.MORE:
                return None
            return self._remove(tag) if self._goes_on(ahead) else self._leave()

    def _goes_on(self, ahead: Tag | Lookahead) -> bool:
        machine = self._machine
        if machine.rules.is_end(ahead) or machine.rules.closes(ahead, "invoke"):
            return True
        if isinstance(ahead, Tag) and ahead.kind == "think":
            return ahead.closing
        return machine.rules.closes(ahead, "wrapper") or machine.rules.opens(ahead, "parameter")

    def _remove(self, tag: Tag) -> Move:
        self._machine.report(kinds.DROPPED_CALL, self._tag.start, tag.end)
        self._source.advance(tag.end)
        return (ParserState.PROSE, LineTracker())

    def _leave(self) -> Move:
        self._prose.leave(self._tag)
        return (ParserState.PROSE, None, self._tag.end)

    def end(self) -> Move | None:
        return self._leave()


class AfterBlockReader:
    """After a block: removes closing tags, and white space before the next call."""

    def __init__(self, machine: Machine, prose: Prose, unwrapped: bool = False) -> None:
        self._machine = machine
        self._prose = prose
        self._unwrapped = unwrapped
        self._lacks_opening = unwrapped  # the wrapper's, whose close may follow

    def read(self) -> Move | None:
        machine, source = self._machine, self._machine.source
        while True:
            ahead = machine.rules.look_ahead(source.pos)
            if ahead is Lookahead.MORE or (machine.hold is not None and machine.hold.waits()):
                return None
            if not isinstance(ahead, Tag):
                return self._leave(ahead)
            if machine.hold is not None and ahead.kind == "eos" and not self._ends(ahead):
                return None
            if not self._is_closer(ahead):
                if (holds := opens_json_calls(machine.rules, ahead)) is None:
                    return None
                return self._leave(ahead, holds)
            if not self._is_expected(ahead):
                machine.note_surplus(ahead)
            machine.report_raw(kinds.ORPHAN_CLOSER, ahead.start, ahead.raw)
            self._prose.plain_wrapper = False
            source.advance(ahead.end)

    def _is_expected(self, closer: Tag) -> bool:
        """Whether a closing tag is no surplus: a call without a wrapper may have its close.

        Nor is the close of an invoke directly behind another (rule 28).
        """
        rules = self._machine.rules
        lacks, self._lacks_opening = self._lacks_opening, False
        if rules.closes(closer, "invoke"):
            self._lacks_opening = lacks
            return lacks
        return lacks and (rules.closes(closer, "wrapper") or not closer.marked)

    def _ends(self, eos: Tag) -> bool:
        """Whether it is known what follows an EOS behind calls that may be quoted.

        Closing tags in a turn that the model made up are surplus too (rule 21).
        """
        machine = self._machine
        reached, ahead = machine.after_eos(eos)
        if ahead is Lookahead.MORE:
            return False
        if ahead is Lookahead.END:
            return True
        closes = machine.closes_later(reached)
        if closes and machine.hold is not None:
            machine.hold.surplus(eos)
        return closes is not None

    def _is_closer(self, tag: Tag) -> bool:
        if not tag.closing:
            return False
        if tag.marked:
            return not tag.bare
        return self._prose.plain_wrapper and is_plain_wrapper(tag.label)

    def _leave(self, ahead: Tag | Lookahead, holds_json: bool = False) -> Move:
        machine, source = self._machine, self._machine.source
        begins = machine.rules.opens(ahead, "wrapper") or machine.rules.opens(ahead, "invoke")
        plain = isinstance(ahead, Tag) and (holds_json or is_plain_invoke(machine.rules, ahead))
        ends = machine.rules.is_end(ahead) or (isinstance(ahead, Tag) and ahead.kind == "think")
        if not begins:
            machine.settle_calls(ahead)
        if isinstance(ahead, Tag) and (begins or plain):
            source.advance(ahead.start)
        elif not ends:
            machine.report_raw(kinds.TEXT_AFTER_BLOCK, source.pos, "")
        if ends and self._unwrapped and source.at(source.pos) == "\n":
            source.advance(source.pos + 1)  # the newline of the call itself
        lines = LineTracker()
        if not (ends or begins or plain):
            lines.follow(".")  # the block stands on this line
        return (ParserState.PROSE, lines)

    def end(self) -> Move | None:
        return self._leave(Lookahead.END)


class FencedBlockReader:
    """A block in a code fence, held while it reads strictly (rules 15 and 23).

    Models forget to close a fence before they call. So a block that opens on its own line after a
    blank line is a call if it is well-formed, of a declared tool, and the last thing in the text.
    """

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        stops = [tokens.EOS, *([tokens.THINK_END] if prose.reasoning else ())]
        self._block = StrictBlock(
            machine.tags, tag.end, longest=LONGEST_TAG, value_stops=list(map(str, stops))
        )
        self._fed = tag.end
        machine.source.set_aside(tag.end)

    def read(self) -> Move | None:
        source, block = self._source, self._block
        start, self._fed = self._fed, source.end
        try:
            block.feed(source.acting(start, source.end), start)
        except ParseError as problem:
            return self._leave(problem.position)
        if block.calls and not self._is_declared(block.calls[0].name):
            return self._leave(block.calls[0].name.stop)
        source.set_aside(max(source.pos, min(block.position, source.end)))
        if block.end is None:
            return None
        is_last = self._is_last(block.end)
        if is_last is None:
            return None
        return self._enter() if is_last else self._leave(block.end)

    def _is_declared(self, name: slice) -> bool:
        if self._name is None:
            text = self._source.waiting
            first = self._source.done
            self._name = text[name.start - first : name.stop - first]
        return self._machine.tools.may_be_tool(self._name)

    _name: str | None = None

    def _is_last(self, end: int) -> bool | None:
        """Whether nothing but EOS and white space follows. None: not known yet."""
        source = self._source
        ahead = self._machine.rules.look_past(end)
        if isinstance(ahead, Tag) and ahead.kind == "eos":
            end, ahead = self._machine.after_eos(ahead)
        if ahead is Lookahead.MORE:
            return None
        if ahead is not Lookahead.END or source.past_all_space(end) != source.end:
            return False
        # Where something else ended the text, more of the example may have followed.
        has_eos = end != self._block.end
        return has_eos or source.ended in (None, Ended.END)

    def end(self) -> Move | None:
        return self._leave(self._source.end)

    def _enter(self) -> Move:
        self._source.put_back()
        return self._prose.enter_calls(self._tag) or (ParserState.BLOCK, self._tag)

    def _leave(self, to: int) -> Move:
        """It is an example up to `to`, where the strict grammar ends."""
        self._source.put_back()
        self._prose.leave_example(self._tag, to)
        return (ParserState.PROSE, None, self._tag.end)


class HaltedReader:
    """Ignores everything after a stop string."""

    def __init__(self, machine: Machine) -> None:
        self._source = machine.source

    def read(self) -> Move | None:
        self._source.advance(self._source.end)
        return None

    def end(self) -> Move | None:
        return None


class InventedTurnReader:
    """A turn that the model made up after its own. All of it is removed (rule 17)."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self) -> Move | None:
        self._machine.source.set_aside(self._machine.source.end)
        return None

    def end(self) -> Move | None:
        source = self._machine.source
        start, text = source.aside_from, source.aside()
        beginning = text[: LONGEST_QUOTE + max(0, -start)]  # what the prompt holds is not quoted
        self._machine.report_raw(kinds.MADE_UP_TURN, start, beginning, len(text))
        return None


class PossibleTurnReader:
    """Text behind a role token: a turn that was made up, if an answer opens in it (rule 27)."""

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        self._at = tag.start

    def read(self) -> Move | None:
        source = self._source
        while True:
            self._at, tag = source.next_tag(self._at)
            if tag is None:
                source.set_aside(self._at)
                return None
            if tag.kind == "role" and tag.raw == tokens.ASSISTANT:
                opens = self._opens_turn(tag.end)
                if opens is None:
                    source.set_aside(self._at)
                    return None
                if opens:
                    source.put_back()
                    return (ParserState.INVENTED,)
            self._at = tag.end

    def _opens_turn(self, at: int) -> bool | None:
        source = self._source
        if at == source.end:
            return False if source.final else None
        tag = source.tag_at(at) if source.is_mark(at) else None
        if isinstance(tag, PartialTag):
            return False if source.final else None
        return tag is not None and tag.kind == "think"

    def end(self) -> Move | None:
        self._source.put_back()
        self._prose.leave_roles()
        return (ParserState.PROSE, None, self._tag.end)


# Calls that may be quoted: whether the strict grammar accepts the block they stand in, and the
# events of doubtful calls, which are held until what follows decides (recovery.md, rules 20 to
# 24).


# What an invoke stands behind, directly, if a patch or a program quotes it.
QUOTES_AN_INVOKE = frozenset("+-\"'`\\“”‘’")

# What stands directly before a quoted block -> what stands behind it then.
_INLINE = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’"}
_OUTDENTED_LINE = pattern(r"\n(?!\t| {4}|[ \t]*(?:\n|\Z))")


class Quotation:
    """What stands behind a block that is an example, because of what stands before it."""

    def __init__(self, close: str, indented: bool) -> None:
        self._close = close
        self._indented = indented

    @classmethod
    def behind(cls, character: str, element: str | None, indented: bool) -> Quotation | None:
        """What a block may be quoted by: the character before it, an element, its indentation."""
        if character in _INLINE:
            return cls(_INLINE[character], False)
        if element is not None:
            return cls(f"</{element}", False)
        return cls("", True) if indented else None

    def is_closed(self, machine: Machine, block: str, ahead: Tag | Lookahead) -> bool:
        """Whether a block, behind which reading stands, is quoted."""
        source = machine.source
        at = source.past_space(source.pos)
        if not self._indented:
            is_near = at - source.pos <= LONGEST_SPACE
            return is_near and source.slice(at, at + len(self._close)).lower() == self._close
        prose_follows = at < source.end and ahead in (Lookahead.TEXT, Lookahead.BRACE)
        return prose_follows and _OUTDENTED_LINE.search(block) is None

    def waits(self, machine: Machine) -> bool:
        """Whether more text must come before it is known if the block is quoted."""
        source = machine.source
        at = source.past_space(source.pos)
        rest = source.slice(at, at + len(self._close)).lower()
        return not source.final and len(rest) < len(self._close) and self._close.startswith(rest)


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
