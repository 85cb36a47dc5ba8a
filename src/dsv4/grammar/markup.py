"""The format's own words as a grammar needs them: the one module here that knows where they are."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Dialect

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
class Markup:
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
    def of(cls, dialect: Dialect) -> Markup:
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
