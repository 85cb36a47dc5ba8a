"""Regular expressions in schemas -> expressions over characters.

ECMA's regular expressions, which JSON Schema uses, and Python's, which most validators run,
differ on which characters beyond ASCII are digits or word characters. A class here holds the
characters that it holds in both.
"""

from __future__ import annotations

from dsv4.grammar import expressions as ex
from dsv4.grammar.expressions import Expression

# The most that the repetitions in a pattern may count in all: they are expensive for engines.
MOST_COUNTED = 64
# Milliseconds that one pattern may take an engine, roughly.
MOST_COST = 640
# The longest pattern: longer ones, which may nest deeper, are not worth their cost.
MOST_CHARACTERS = 256

_DIGIT = ex.chars((48, 57))
_WORD = ex.chars((48, 57), (65, 90), (97, 122), "_")
_SPACE = ex.chars(" \t\n\r\f\v")
# Characters that either of the two counts as white space.
_ANY_SPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680",
    (0x2000, 0x200A),
    "\u2028\u2029\u202f\u205f\u3000\ufeff",
)
_CLASSES: dict[str, ex.CharSet] = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    # Beyond ASCII the two differ on digits and letters.
    "D": ex.chars((0, 47), (58, 0x65F), (0x3000, 0x9FFF)),
    "W": ex.minus(ex.chars((0, 127)), (48, 57), (65, 90), (97, 122), "_"),
    "S": ex.complement(*_ANY_SPACE),
}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_LINE_ENDS = "\n\r\u2028\u2029"
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class NotRegular(ValueError):
    """Raised for a pattern that cannot be turned into rules; says why."""


def pattern_rule(source: str) -> Expression:
    """The texts that contain a match of the pattern, as JSON Schema defines it."""
    if len(source) > MOST_CHARACTERS:
        raise NotRegular(f"it is longer than {MOST_CHARACTERS} characters")
    rule = _PatternReader(source).whole()
    if pattern_cost(rule) > MOST_COST:
        raise NotRegular("it counts too many characters out of large sets")
    return rule


def pattern_cost(part: Expression) -> int:
    """The milliseconds that a pattern takes xgrammar, the slowest engine: an amount for each set of
    characters, by its size, times its repetitions."""
    if isinstance(part, ex.CharSet):
        return 1 if part.size <= 16 else 8 if part.size <= 256 else 48
    if isinstance(part, ex.RepeatExpr):
        return pattern_cost(part.part) * max(part.least + 1 if part.most is None else part.most, 1)
    return sum(map(pattern_cost, ex.pieces_of(part)))


class _PatternReader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.counted = 0

    # The text.

    def peek(self, width: int = 1) -> str:
        return self.source[self.at : self.at + width]

    def take(self) -> str:
        if self.at >= len(self.source):
            raise NotRegular("the pattern ends too early")
        self.at += 1
        return self.source[self.at - 1]

    def takes(self, text: str) -> bool:
        follows = self.source.startswith(text, self.at)
        self.at += len(text) if follows else 0
        return follows

    def number(self) -> int | None:
        start = self.at
        while self.peek().isascii() and self.peek().isdigit():
            self.at += 1
        return int(self.source[start : self.at]) if start < self.at <= start + 9 else None

    # The grammar.

    def whole(self) -> Expression:
        anything = ex.repeat(ex.complement(), 0, None)
        options = []
        while True:
            start = ex.EMPTY if self.takes("^") else anything
            body = self.branch(ends="|", top=True)
            end = ex.EMPTY if self.takes("$") else anything
            options.append(ex.sequence(start, body, end))
            if self.at == len(self.source):
                return ex.choice(*options)
            if not self.takes("|"):
                raise NotRegular(f"{self.peek()!r} at {self.at} is not understood")

    def branch(self, ends: str, top: bool = False) -> Expression:
        parts = []
        while self.at < len(self.source) and self.peek() not in ends:
            if self.peek() == "$" and top and self.source[self.at + 1 : self.at + 2] in ("", "|"):
                break
            parts.append(self.quantified(self.atom()))
        return ex.sequence(*parts)

    def atom(self) -> Expression:
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            return ex.one_of(self.set())
        if character == ".":
            return ex.complement(_LINE_ENDS)
        if character == "\\":
            return ex.one_of(self.escape(inside=False))
        if character in "^$":
            raise NotRegular(f"{character} stands inside the pattern")
        if character in "*+?{)":
            raise NotRegular(f"{character} at {self.at - 1} has nothing to belong to")
        return ex.literal(character)

    def group(self) -> Expression:
        if self.takes("?"):
            named = self.takes("P<") or (self.peek() == "<" and self.peek(2) not in ("<=", "<!"))
            if named:
                self.at = self.source.find(">", self.at) + 1 or len(self.source)
            elif not self.takes(":"):
                raise NotRegular("it looks ahead or behind")
        options = [self.branch(ends="|)")]
        while self.takes("|"):
            options.append(self.branch(ends="|)"))
        if not self.takes(")"):
            raise NotRegular("a group is not closed")
        return ex.choice(*options)

    def quantified(self, part: Expression) -> Expression:
        bounds = _QUANTIFIERS.get(self.peek())
        if bounds is not None:
            self.at += 1
        elif self.peek() == "{":
            bounds = self.bounds()
        if bounds is None:
            return part
        self.takes("?")  # lazy: the same texts
        if self.peek() in ("+", "*", "?") and self.peek():
            raise NotRegular(f"{self.peek()!r} at {self.at} has nothing to belong to")
        return ex.repeat(part, *bounds)

    def bounds(self) -> tuple[int, int | None]:
        self.at += 1
        least = self.number()
        most = self.number() if self.takes(",") else least
        if least is None or not self.takes("}") or (most is not None and most < least):
            raise NotRegular(f"the bounds before {self.at} are not understood")
        self.counted += max(least, most or 0)
        if self.counted > MOST_COUNTED:
            raise NotRegular(f"it counts beyond {MOST_COUNTED}")
        return least, most

    def set(self) -> ex.CharSet:
        negated = self.takes("^")
        ranges: list[tuple[int, int]] = []
        while not self.takes("]"):
            first = self.member()
            if self.peek() == "-" and self.peek(2) != "-]" and first.size == 1:
                self.at += 1
                last = self.member()
                if last.size != 1 or last.ranges[0][0] < first.ranges[0][0]:
                    raise NotRegular(f"the range before {self.at} is not understood")
                ranges.append((first.ranges[0][0], last.ranges[0][0]))
            else:
                ranges += first.ranges
        return ex.complement(*ranges) if negated else ex.chars(*ranges)

    def member(self) -> ex.CharSet:
        character = self.take()
        return self.escape(inside=True) if character == "\\" else ex.chars(character)

    def escape(self, inside: bool) -> ex.CharSet:
        character = self.take()
        if character in _CLASSES:
            return _CLASSES[character]
        if character in _ESCAPES and not self.peek().isdigit():
            return ex.chars(_ESCAPES[character])
        if character == "b" and inside:
            return ex.chars("\b")
        if character in "xu":
            return ex.chars(chr(self.code(2 if character == "x" else 4)))
        if character.isalnum():
            raise NotRegular(f"\\{character} is not understood")
        return ex.chars(character)

    def code(self, width: int) -> int:
        if width == 4 and self.takes("{"):
            end = self.source.find("}", self.at)
            digits, self.at = self.source[self.at : end], end + 1
        else:
            digits = self.peek(width)
            self.at += width
        try:
            point = int(digits, 16)
            "\\".join(chr(point)).encode()
        except (ValueError, OverflowError):
            raise NotRegular(f"the character code before {self.at} is not understood") from None
        return point
