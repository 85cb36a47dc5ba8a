"""A block in a code fence: an example, unless the text ends right after it (recovery.md, rule 15).

Models forget to close a fence before they call. So a block that opens on its own line after a blank
line is held for as long as the strict grammar would read it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeAlias

from dsv4.format import tokens
from dsv4.format.dialects import NAME_END, STRING_FALSE, STRING_TRUE
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


class FencedBlock:
    """Holds a block while it reads strictly."""

    def __init__(self, machine: Machine, prose: Prose, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._tag = tag
        self._steps = self._strictly()
        machine.source.set_aside(tag.start)

    def read(self) -> Move | None:
        try:
            next(self._steps)
        except StopIteration as done:
            return self._leave(is_call=done.value)
        return None

    def end(self) -> Move | None:
        return self._leave(is_call=False)

    def _leave(self, is_call: bool) -> Move:
        source, tag = self._source, self._tag
        reached = source.pos
        source.put_back()
        if is_call:
            return self._prose.enter_calls(tag) or (State.BLOCK, tag)
        self._prose.leave_example(tag, reached)
        return (State.PROSE, None, tag.end)

    # The strict grammar (format.md, section 8), step by step.

    def _strictly(self) -> Steps:
        tags = self._machine.tags
        close = tags.block_close[1:]
        if not (yield from self._literal(tags.block_open[2:])):
            return False
        calls = 0
        while (yield from self._next_is(tags.invoke_open, close)):
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
        while (yield from self._next_is(tags.parameter_open, close)):
            if not (yield from self._parameter()):
                return False
            parameters += 1
        if not parameters and (yield from self._next_is("\n", close)):
            yield from self._literal("\n")
        return (yield from self._literal(close))

    def _parameter(self) -> Steps:
        tags = self._machine.tags
        yield from self._literal(tags.parameter_open)
        key = yield from self._up_to(_KEY_END)
        if not key or key.endswith("\n"):
            return False
        close = f"{tags.parameter_close}\n"
        barred = [str(tokens.EOS), *([str(tokens.THINK_END)] if self._prose.reasoning else ())]
        ends = pattern("|".join(map(re.escape, (close, *barred))))
        longest = max(map(len, (close, *barred)))
        source, at = self._source, self._source.pos
        while (found := source.search(ends, at, source.end)) is None:
            at = max(at, source.end - longest)
            source.set_aside(at)
            yield
        if found[0] != close:
            return False
        source.set_aside(source.place(found.end()))
        return True

    # Pieces of it.

    def _next_is(self, text: str, other: str) -> Steps:
        """Whether `text` comes next, and not `other`."""
        while True:
            rest = self._source.slice(self._source.pos, self._source.pos + len(text))
            if rest == text or not text.startswith(rest):
                return rest == text
            yield

    def _literal(self, text: str) -> Steps:
        if not (yield from self._next_is(text, "")):
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
