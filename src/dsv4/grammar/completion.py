"""A completion as rules: reasoning, content, calls (docs/format.md, section 8).

The token that ends a completion is no text, so it is not here: an engine allows it wherever the
rules may end.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.grammar.markup import FORBIDDEN, REASONING_END, Markup
from dsv4.grammar.rules import (
    EMPTY,
    NEVER,
    Expression,
    Rules,
    Text,
    Token,
    choice,
    lexeme,
    literal,
    repeat,
    sequence,
)

TEXT = Text(FORBIDDEN)


@dataclass(frozen=True)
class Completion:
    """What a model may write.

    `answer` is what stands in place of free content, None where content is free. `invokes` are the
    calls that may be made, each from its name on.
    """

    reasoning: bool
    answer: Expression | None
    invokes: tuple[Expression, ...]
    calls_required: bool
    preamble: bool
    parallel: bool

    def expression(self, markup: Markup, rules: Rules) -> Expression:
        """The whole completion."""
        content = TEXT if self.answer is None else self.answer
        calls = self._calls(markup, rules)
        ended = self._content_then(content, calls, markup)
        thought = sequence(lexeme(TEXT), Token(REASONING_END)) if self.reasoning else EMPTY
        return sequence(thought, ended)

    def _content_then(self, content: Expression, calls: Expression, markup: Markup) -> Expression:
        """Content alone, or content and calls."""
        alone = NEVER if self.calls_required else _free(content)
        if calls == NEVER:
            return alone
        opened = literal(markup.block_open)
        if not self.preamble:
            return choice(alone, sequence(opened, calls))
        if content == TEXT:
            return choice(alone, sequence(self._until(markup.block_open), calls))
        return choice(alone, sequence(choice(EMPTY, content), opened, calls))

    def _calls(self, markup: Markup, rules: Rules) -> Expression:
        """The calls of a block and its close."""
        if not self.invokes:
            return NEVER
        one = sequence(literal(markup.invoke_open), choice(*self.invokes))
        one = rules.named("invoke", one)
        some = repeat(one, 1, None if self.parallel else 1)
        return rules.named("calls", sequence(some, literal(markup.block_close)))

    @staticmethod
    def _until(end: str) -> Expression:
        """Free text and what ends it: one piece, because of engines that cut first."""
        return lexeme(sequence(TEXT, literal(end)))


def _free(content: Expression) -> Expression:
    return lexeme(content) if content == TEXT else content
