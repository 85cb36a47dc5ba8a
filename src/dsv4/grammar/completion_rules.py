"""A completion as rules: reasoning, content, calls (docs/format.md, section 8), and the format's
markup as a grammar needs it.

The token that ends a completion is not text, so it is not here: an engine allows it wherever the
rules may end.
"""

from __future__ import annotations

from dataclasses import dataclass

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Dialect
from dsv4.grammar.rules import (
    EMPTY,
    NEVER,
    Expression,
    Rules,
    TextExpr,
    TokenExpr,
    choice,
    lexeme,
    literal,
    repeat,
    sequence,
)

# The format's markup. No other module of this package knows where it comes from.


# What reasoning and content must not hold (docs/format.md, section 8).
FORBIDDEN: tuple[str, ...] = tuple(
    map(str, (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML))
)
# Ends of the long ones, two by two: no other token has them, hardly any other text, and they are
# quicker to look for.
RARE_ENDS: dict[str, str] = {
    **dict.fromkeys((tokens.BOS, tokens.EOS), tokens.EOS[-4:]),
    **dict.fromkeys((tokens.THINK_START, tokens.THINK_END), tokens.THINK_START[1:]),
}
REASONING_END = str(tokens.THINK_END)
# The tokens that a server must neither hide nor take apart.
VISIBLE: tuple[str, ...] = (str(tokens.DSML), str(tokens.THINK_START), str(tokens.THINK_END))
# An undeclared name is kept clear of all that markup is made of.
NOT_IN_OTHER_NAMES = '"<>\n\r' + tokens.DSML[0]


@dataclass(frozen=True)
class CallMarkup:
    """The markup of calls in one dialect, as a completion has it (docs/format.md, section 8)."""

    block_open: str
    block_close: str
    invoke_open: str
    name_end: str
    invoke_close: str
    parameter_open: str
    string_true: str
    string_false: str
    parameter_close: str
    # What a value must not hold: readers end it there.
    value_end: str

    @classmethod
    def of(cls, dialect: Dialect) -> CallMarkup:
        tags = dialect.tags
        close = str(tags.parameter_close)
        return cls(
            block_open=str(tags.block_open),
            block_close=str(tags.block_close).lstrip("\n"),
            invoke_open=str(tags.invoke_open),
            name_end=NAME_END,
            invoke_close=str(tags.invoke_close).lstrip("\n") + "\n",
            parameter_open=str(tags.parameter_open),
            string_true=STRING_TRUE,
            string_false=STRING_FALSE,
            parameter_close=close,
            # Without the bracket before it: section 11.5.
            value_end=close[1:-1],
        )

    def words_in_values(self, markup_in_values: bool) -> tuple[str, ...]:
        """What a value must not hold."""
        return (self.value_end,) if markup_in_values else (str(tokens.DSML),)


# The completion.


FREE_TEXT = TextExpr(FORBIDDEN)


@dataclass(frozen=True)
class CompletionRules:
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

    def expression(self, markup: CallMarkup, rules: Rules) -> Expression:
        """The whole completion."""
        content = FREE_TEXT if self.answer is None else self.answer
        calls = self._calls(markup, rules)
        ended = self._content_then(content, calls, markup)
        thought = sequence(lexeme(FREE_TEXT), TokenExpr(REASONING_END)) if self.reasoning else EMPTY
        return sequence(thought, ended)

    def _content_then(
        self, content: Expression, calls: Expression, markup: CallMarkup
    ) -> Expression:
        """Only content, or content and calls."""
        without_calls = NEVER if self.calls_required else _free(content)
        if calls == NEVER:
            return without_calls
        opened = literal(markup.block_open)
        if not self.preamble:
            return choice(without_calls, sequence(opened, calls))
        if content == FREE_TEXT:
            return choice(without_calls, sequence(self._until(markup.block_open), calls))
        return choice(without_calls, sequence(choice(EMPTY, content), opened, calls))

    def _calls(self, markup: CallMarkup, rules: Rules) -> Expression:
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
        return lexeme(sequence(FREE_TEXT, literal(end)))


def _free(content: Expression) -> Expression:
    return lexeme(content) if content == FREE_TEXT else content
