"""Markup in prose that belongs to no open call: closing tags, parameters without a call, blocks in
a code fence, invented turns, and what follows a block (recovery.md, rules 5, 9, 15, 17, 23 and 27).
"""

from __future__ import annotations

from dsv4._format import tokens
from dsv4._format.spellings import PLAIN_CLOSES
from dsv4._parse import events as kinds
from dsv4._parse.limits import LONGEST_LOST, LONGEST_QUOTE, LONGEST_SPACE, LONGEST_TAG
from dsv4._parse.lines import LineTracker
from dsv4._parse.machine import Machine, Move, ParserState, Prose
from dsv4._parse.reasons import Ended
from dsv4._parse.strict import StrictBlock
from dsv4._parse.tag import TOKENS, PartialTag, Tag
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
            machine.settle_calls(ahead)
            return (ParserState.PROSE, LineTracker() if self._opens_line else None)
        to = source.pos
        source.put_back()
        machine.leave_quotation(source.pos)
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
            return self._remove(tag, ahead) if self._goes_on(ahead) else self._leave()

    def _goes_on(self, ahead: Tag | Lookahead) -> bool:
        machine = self._machine
        if machine.rules.is_end(ahead) or machine.rules.closes(ahead, "invoke"):
            return True
        if isinstance(ahead, Tag) and ahead.kind == "think":
            return ahead.closing
        return machine.rules.closes(ahead, "wrapper") or machine.rules.opens(ahead, "parameter")

    def _remove(self, tag: Tag, ahead: Tag | Lookahead) -> Move:
        self._machine.report(kinds.DROPPED_CALL, self._tag.start, tag.end)
        self._source.advance(tag.end)
        self._machine.settle_calls(ahead)
        return (ParserState.PROSE, LineTracker())

    def _leave(self) -> Move:
        self._machine.leave_quotation(self._tag.start)
        self._prose.leave(self._tag)
        return (ParserState.PROSE, None, self._tag.end)

    def end(self) -> Move | None:
        return self._leave()


class LostCallReader:
    """Parameters in the middle of a line, of a call whose opening was lost (rule 34).

    They go if they are closed, a close of the call or of its block follows, and then the end.
    """

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        self._at = tag.end
        self._in_value = True
        self._closes = 0

    def read(self) -> Move | None:
        source, rules = self._source, self._machine.rules
        while True:
            ahead: Tag | Lookahead | None
            if self._in_value:
                self._at, ahead = source.next_tag(self._at)
            else:
                ahead = rules.look_past(self._at)
            if max(self._at, source.past_all_space(self._at)) - self._tag.start > LONGEST_LOST:
                return self._leave()
            if ahead is None or ahead is Lookahead.MORE:
                return None
            if not self._in_value and rules.is_end(ahead):
                return self._remove() if self._closes else self._leave()
            if not isinstance(ahead, Tag) or not self._goes_on(ahead):
                return self._leave()

    def _goes_on(self, tag: Tag) -> bool:
        """Whether the call goes on at a tag, or ends there."""
        kind = self._machine.rules.kind(tag)
        self._at = tag.end
        if self._in_value:
            if not tag.marked and tag.kind not in TOKENS:
                self._at = tag.start + 1
                return True
            self._in_value = False
            return tag.marked and tag.closing and kind == "parameter"
        if not tag.marked or tag.bare or tag.broken:
            return False
        if tag.closing:
            self._closes += 1
            return kind in ("invoke", "wrapper")
        self._in_value = not self._closes and kind == "parameter" and not tag.self_closed
        return self._in_value

    def _remove(self) -> Move:
        self._machine.report(kinds.DROPPED_CALL, self._tag.start, self._at)
        self._source.advance(self._at)
        self._machine.settle_calls(Lookahead.END)
        return (ParserState.PROSE,)

    def _leave(self) -> Move:
        self._machine.leave_quotation(self._tag.start)
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
            if ahead is Lookahead.MORE or any(hold.waits() for hold in machine.quotations):
                return None
            if not isinstance(ahead, Tag):
                return self._leave(ahead)
            if machine.hold is not None and ahead.kind == "eos" and not self._ends(ahead):
                return None
            if not self._is_closer(ahead):
                if (holds := opens_json_calls(machine.rules, ahead)) is None:
                    return None
                return self._leave(ahead, holds)
            if not self._is_expected(ahead) and (ahead.marked or not _is_orphan(ahead)):
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
        return _is_orphan(tag) or (self._prose.plain_wrapper and is_plain_wrapper(tag.label))

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


def _is_orphan(tag: Tag) -> bool:
    """Whether a plain close directly behind a block is left over from a call (rule 34)."""
    return tag.closing and not tag.marked and tag.label.rpartition(":")[2] in PLAIN_CLOSES


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
