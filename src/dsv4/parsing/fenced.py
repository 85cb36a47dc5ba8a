"""A block in a code fence: an example, unless the text ends right after it (recovery.md, rule 15).

Models forget to close a fence before they call. So a block that opens on its own line after a blank
line is held for as long as the strict grammar would read it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache
from typing import TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE
from dsv4.parsing.limits import LONGEST_TAG
from dsv4.parsing.machine import Ahead, Machine, Move
from dsv4.parsing.patterns import pattern
from dsv4.parsing.prose import Prose
from dsv4.parsing.states import State
from dsv4.parsing.tags import Tag

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


class FencedBlock:
    """Holds a block while it reads strictly."""

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
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
        return self._prose.enter_calls(self._tag) or (State.BLOCK, self._tag)

    def _leave(self, to: int) -> Move:
        """It is an example up to `to`, where the strict grammar ends."""
        self._source.put_back()
        self._prose.leave_example(self._tag, to)
        return (State.PROSE, None, self._tag.end)

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
        while (ahead := self._machine.follow(self._source.pos)) is Ahead.MORE:
            yield
        if ahead is Ahead.END:
            return self._source.past_space(self._source.pos) == self._source.end and (
                not self._source.cut_off
            )
        return isinstance(ahead, Tag) and ahead.kind == "eos"

    def _invoke(self, declared: bool) -> Steps:
        tags, machine = self._machine.tags, self._machine
        yield from self._literal(tags.invoke_open)
        name = yield from self._up_to(_NAME_END)
        if not name.endswith(NAME_END):
            return False
        if declared and not machine.tools.may_be(name.removesuffix(NAME_END)):
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
