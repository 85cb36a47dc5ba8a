"""Markup in prose that belongs to no call, and what comes after calls.

recovery.md, rules 5, 9 and 17.
"""

from __future__ import annotations

from dsv4.parsing import diagnostics as kinds
from dsv4.parsing.limits import LONGEST_SPACE, LONGEST_TAG
from dsv4.parsing.lines import Lines
from dsv4.parsing.machine import Ahead, Machine, Move
from dsv4.parsing.plain_tags import holds_json, is_plain_invoke, is_plain_wrapper
from dsv4.parsing.prose import Prose
from dsv4.parsing.runs import CALL_TAGS
from dsv4.parsing.states import State
from dsv4.parsing.tags import Partial, Tag


class Orphans:
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
            ahead = machine.follow(source.pos)
            if ahead is Ahead.MORE:
                return None
            closes = isinstance(ahead, Tag) and ahead.closing and ahead.marked and not ahead.bare
            if closes and isinstance(ahead, Tag) and machine.kind(ahead) in CALL_TAGS:
                source.set_aside(ahead.end)
                continue
            return self._decide(ahead)

    def _decide(self, ahead: Tag | Ahead) -> Move:
        machine, source = self._machine, self._machine.source
        space = source.slice(source.pos, source.past_space(source.pos))
        alone = self._opens_line and ("\n" in space or len(space) > LONGEST_SPACE)
        acts = isinstance(ahead, Tag) and (ahead.marked or ahead.kind in ("eos", "bos", "think"))
        if ahead is Ahead.END or acts or alone:
            start = source.aside_from
            machine.report_raw(kinds.ORPHAN_CLOSER, start, source.aside())
            return (State.PROSE, Lines() if self._opens_line else None)
        to = source.pos
        source.put_back()
        machine.report(kinds.MARKUP_AS_TEXT, source.pos, to)
        return (State.PROSE, None, to)

    def end(self) -> Move | None:
        return self._decide(Ahead.END)


class StrayParameter:
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
            if isinstance(tag, Partial):
                return None
            if tag is None or not (tag.marked or tag.kind in ("eos", "think")):
                self._at = mark + 1
                continue
            if not machine.closes(tag, "parameter"):
                return self._leave()
            ahead = machine.follow(tag.end)
            if ahead is Ahead.MORE:
                return None
            return self._remove(tag) if self._goes_on(ahead) else self._leave()

    def _goes_on(self, ahead: Tag | Ahead) -> bool:
        machine = self._machine
        if machine.is_end(ahead) or machine.closes(ahead, "invoke"):
            return True
        if isinstance(ahead, Tag) and ahead.kind == "think":
            return ahead.closing
        return machine.closes(ahead, "wrapper") or machine.opens(ahead, "parameter")

    def _remove(self, tag: Tag) -> Move:
        self._machine.report(kinds.DROPPED_CALL, self._tag.start, tag.end)
        self._source.advance(tag.end)
        return (State.PROSE, Lines())

    def _leave(self) -> Move:
        self._prose.leave(self._tag)
        return (State.PROSE, None, self._tag.end)

    def end(self) -> Move | None:
        return self._leave()


class After:
    """After a block: closing tags go; so does white space before the next call."""

    def __init__(self, machine: Machine, prose: Prose, unwrapped: bool = False) -> None:
        self._machine = machine
        self._prose = prose
        self._unwrapped = unwrapped

    def read(self) -> Move | None:
        machine, source = self._machine, self._machine.source
        while True:
            ahead = machine.follow(source.pos)
            if ahead is Ahead.MORE:
                return None
            if not isinstance(ahead, Tag):
                return self._leave(ahead)
            if not self._is_closer(ahead):
                if (holds := holds_json(machine, ahead)) is None:
                    return None
                return self._leave(ahead, holds)
            machine.report_raw(kinds.ORPHAN_CLOSER, ahead.start, ahead.raw)
            self._prose.plain_wrapper = False
            source.advance(ahead.end)

    def _is_closer(self, tag: Tag) -> bool:
        if not tag.closing:
            return False
        if tag.marked:
            return not tag.bare
        return self._prose.plain_wrapper and is_plain_wrapper(tag.label)

    def _leave(self, ahead: Tag | Ahead, holds_json: bool = False) -> Move:
        machine, source = self._machine, self._machine.source
        begins = machine.opens(ahead, "wrapper") or machine.opens(ahead, "invoke")
        plain = isinstance(ahead, Tag) and (holds_json or is_plain_invoke(machine, ahead))
        ends = machine.is_end(ahead) or (isinstance(ahead, Tag) and ahead.kind == "think")
        if isinstance(ahead, Tag) and (begins or plain):
            source.advance(ahead.start)
        elif not ends:
            machine.report_raw(kinds.TEXT_AFTER_BLOCK, source.pos, "")
        if ends and self._unwrapped and source.at(source.pos) == "\n":
            source.advance(source.pos + 1)  # the newline of the call itself
        lines = Lines()
        if not (ends or begins or plain):
            lines.follow(".")  # the block stands on this line
        return (State.PROSE, lines)

    def end(self) -> Move | None:
        return self._leave(Ahead.END)
