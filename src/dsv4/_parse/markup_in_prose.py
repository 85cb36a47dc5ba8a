"""Markup in prose that belongs to no open call: closing tags, parameters without a call, blocks in
a code fence, invented turns, and what follows a block (recovery.md, rules 5, 9, 15 and 17).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache
from typing import TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE
from dsv4._parse import events as kinds
from dsv4._parse.finish_reasons import Ended
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.prose import ProseReader
from dsv4._parse.prose_lines import LineTracker
from dsv4._parse.source import LONGEST_SPACE, LONGEST_TAG, PartialTag, Tag, pattern
from dsv4._parse.tag_rules import (
    CALL_TAGS,
    Lookahead,
    is_plain_invoke,
    is_plain_wrapper,
    opens_json_calls,
)


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

    def __init__(self, machine: Machine, prose: ProseReader, tag: Tag) -> None:
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
    """After a block: closing tags go; so does white space before the next call."""

    def __init__(self, machine: Machine, prose: ProseReader, unwrapped: bool = False) -> None:
        self._machine = machine
        self._prose = prose
        self._unwrapped = unwrapped

    def read(self) -> Move | None:
        machine, source = self._machine, self._machine.source
        while True:
            ahead = machine.rules.look_ahead(source.pos)
            if ahead is Lookahead.MORE:
                return None
            if not isinstance(ahead, Tag):
                return self._leave(ahead)
            if not self._is_closer(ahead):
                if (holds := opens_json_calls(machine.rules, ahead)) is None:
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

    def _leave(self, ahead: Tag | Lookahead, holds_json: bool = False) -> Move:
        machine, source = self._machine, self._machine.source
        begins = machine.rules.opens(ahead, "wrapper") or machine.rules.opens(ahead, "invoke")
        plain = isinstance(ahead, Tag) and (holds_json or is_plain_invoke(machine.rules, ahead))
        ends = machine.rules.is_end(ahead) or (isinstance(ahead, Tag) and ahead.kind == "think")
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


# Asks for more text; returns whether the text goes on as it should.
Steps: TypeAlias = Generator[None, None, bool]

_KEY_END = pattern(f"{re.escape(STRING_TRUE)}|{re.escape(STRING_FALSE)}|\n")
_NAME_END = pattern("\n")
_LONGEST_VALUE_END = 32


@cache
def _value_end(close: str, reasoning: bool) -> re.Pattern[str]:
    """Where a value ends: at its first close, whatever follows, or at a token that acts in fences.

    The grammar looks for a close from its slash on, and wants the bracket before it.
    """
    acting = [tokens.EOS, *([tokens.THINK_END] if reasoning else ())]
    return pattern("|".join([f"<?{re.escape(close[1:-1])}", *map(re.escape, acting)]))


class FencedBlockReader:
    """Holds a block while it reads strictly."""

    def __init__(self, machine: Machine, prose: ProseReader, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        self._value_end = _value_end(machine.tags.parameter_close, prose.reasoning)
        self._steps = self._strictly()
        machine.source.set_aside(tag.start)

    def read(self) -> Move | None:
        try:
            next(self._steps)
        except StopIteration as done:
            return self._enter() if done.value else self._leave(self._source.pos)
        return None

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

    # The strict grammar (format.md, section 8), step by step.

    def _strictly(self) -> Steps:
        tags = self._machine.tags
        close = tags.block_close[1:]
        if not (yield from self._literal(tags.block_open[2:])):
            return False
        calls = 0
        while (yield from self._next_is(tags.invoke_open)):
            if not (yield from self._invoke(declared=calls == 0)):
                return False
            calls += 1
        if not calls or not (yield from self._literal(close)):
            return False
        return (yield from self._is_last())

    def _is_last(self) -> Steps:
        while (ahead := self._machine.rules.look_ahead(self._source.pos)) is Lookahead.MORE:
            yield
        if ahead is Lookahead.END:
            # Where something else ended the text, more of the example may have followed.
            whole = self._source.ended in (None, Ended.END)
            return whole and self._source.past_space(self._source.pos) == self._source.end
        return isinstance(ahead, Tag) and ahead.kind == "eos"

    def _invoke(self, declared: bool) -> Steps:
        tags, machine = self._machine.tags, self._machine
        yield from self._literal(tags.invoke_open)
        name = yield from self._up_to(_NAME_END)
        if not name.endswith(NAME_END):
            return False
        if declared and not machine.tools.may_be_tool(name.removesuffix(NAME_END)):
            return False
        close = f"{tags.invoke_close[1:]}\n"
        parameters = 0
        while (yield from self._next_is(tags.parameter_open)):
            if not (yield from self._parameter()):
                return False
            parameters += 1
        if not parameters and (yield from self._next_is("\n")):
            yield from self._literal("\n")
        return (yield from self._literal(close))

    def _parameter(self) -> Steps:
        tags = self._machine.tags
        yield from self._literal(tags.parameter_open)
        key = yield from self._up_to(_KEY_END)
        if not key or key.endswith("\n"):
            return False
        source = self._source
        while (end := source.search(self._value_end, source.pos, source.end)) is None:
            source.set_aside(max(source.pos, source.end - _LONGEST_VALUE_END))
            yield
        # How much was set aside before depended on how the text came; this does not.
        source.set_aside(source.place(end.start()))
        return (yield from self._literal(f"{tags.parameter_close}\n"))

    # Pieces of it.

    def _next_is(self, text: str) -> Steps:
        while True:
            rest = self._source.slice(self._source.pos, self._source.pos + len(text))
            if rest == text or not text.startswith(rest):
                return rest == text
            yield

    def _literal(self, text: str) -> Steps:
        if not (yield from self._next_is(text)):
            return False
        self._source.set_aside(self._source.pos + len(text))
        return True

    def _up_to(self, pattern: re.Pattern[str]) -> Generator[None, None, str]:
        """The text up to the end of what is looked for; "" if that is too far away."""
        source, start = self._source, self._source.pos
        while (found := source.search(pattern, start, source.end)) is None:
            if source.end - start > LONGEST_TAG:
                return ""
            yield
        end = source.place(found.end())
        if end - start > LONGEST_TAG:
            return ""
        text = source.slice(start, end)
        source.set_aside(end)
        return text


class HaltedReader:
    """After a stop string nothing counts."""

    def __init__(self, machine: Machine) -> None:
        self._source = machine.source

    def read(self) -> Move | None:
        self._source.advance(self._source.end)
        return None

    def end(self) -> Move | None:
        return None


class InventedTurnReader:
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
