"""Expressions that describe sets of texts, and the named rules that they refer to.

This is the only description of a completion. Each form of grammar (`xgrammar`, `gbnf`, `lark`) is
a way to write it. Rules that no text can satisfy, and rules that nothing refers to, are removed
before a grammar is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

# Expressions.


LAST_CHARACTER = sys.maxunicode
# Halves of surrogate pairs: no text that a model writes holds one.
_SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True, slots=True)
class LiteralExpr:
    """Exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenExpr:
    """A special token. If its `id` is known, only that token is allowed, not ordinary tokens that
    spell it."""

    text: str
    id: int | None = None


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character out of these ranges, which are in order and do not touch."""

    ranges: tuple[tuple[int, int], ...]

    def has(self, character: str) -> bool:
        point = ord(character)
        return any(first <= point <= last for first, last in self.ranges)

    @property
    def size(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class TextExpr:
    """Any text, the empty one included, that holds none of the words.

    `begun` is the start of a word directly before it, which must not be completed. A text that is
    `filled` is not empty.
    """

    without: tuple[str, ...]
    begun: str = ""
    filled: bool = False


@dataclass(frozen=True, slots=True)
class StringEndExpr:
    """The inside of a JSON string, up to and with its closing quote, that holds none of the words.

    One that is `filled` is not empty.
    """

    without: tuple[str, ...]
    filled: bool = False


@dataclass(frozen=True, slots=True)
class SequenceExpr:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ChoiceExpr:
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class RepeatExpr:
    part: Expression
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class ReferenceExpr:
    """A rule, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class LexemeExpr:
    """A regular part, read as one lexeme by engines that tokenize a text before they parse it.

    Such an engine takes the longest possible piece. So a text that ends at a tag is one piece
    together with that tag.
    """

    part: Expression


Expression: TypeAlias = (
    LiteralExpr
    | TokenExpr
    | CharSet
    | TextExpr
    | StringEndExpr
    | SequenceExpr
    | ChoiceExpr
    | RepeatExpr
    | ReferenceExpr
    | LexemeExpr
)

EMPTY: Expression = SequenceExpr(())
NEVER: Expression = ChoiceExpr(())


# The most that the expensive parts of a grammar may cost an engine in all: rough milliseconds.
_HIGHEST_COST = 10_000


class Rules:
    """Rules by name. Rules with equal bodies are kept only once."""

    def __init__(self) -> None:
        self._cost = 0
        self.bodies: dict[str, Expression] = {}
        self._references: dict[Expression, ReferenceExpr] = {}
        self._numbers: dict[str, int] = {}

    def named(self, hint: str, body: Expression) -> Expression:
        """A reference to a rule with this body. A body that is as short as a name is returned as it
        is."""
        if isinstance(body, ReferenceExpr) or body in (EMPTY, NEVER):
            return body
        name = self._references.get(body)
        if name is None:
            name = self._references[body] = self.reserved(hint)
            self.bodies[name.name] = body
        return name

    def affords(self, milliseconds: int) -> bool:
        """Whether the budget allows a part of this cost. If so, the cost is taken from it."""
        if self._cost + milliseconds > _HIGHEST_COST:
            return False
        self._cost += milliseconds
        return True

    def reserved(self, hint: str) -> ReferenceExpr:
        """A reference to a rule whose body is set later, so that it may refer to itself."""
        while True:
            number = self._numbers[hint] = self._numbers.get(hint, 0) + 1
            name = hint if number == 1 else f"{hint}{number}"
            if name not in self.bodies:
                return ReferenceExpr(name)


def literal(text: str) -> Expression:
    return LiteralExpr(text) if text else EMPTY


def sequence(*parts: Expression) -> Expression:
    """The parts one after the other."""
    flat: list[Expression] = []
    for part in parts:
        if part == NEVER:
            return NEVER
        for piece in part.parts if isinstance(part, SequenceExpr) else (part,):
            last = flat[-1] if flat else None
            if isinstance(piece, LiteralExpr) and isinstance(last, LiteralExpr):
                flat[-1] = LiteralExpr(last.text + piece.text)
            else:
                flat.append(piece)
    return flat[0] if len(flat) == 1 else SequenceExpr(tuple(flat))


def choice(*options: Expression) -> Expression:
    """One of the options."""
    flat: dict[Expression, None] = {}  # a set that keeps the order
    for option in options:
        flat.update(dict.fromkeys(option.options if isinstance(option, ChoiceExpr) else (option,)))
    return next(iter(flat)) if len(flat) == 1 else ChoiceExpr(tuple(flat))


def repeat(part: Expression, least: int, most: int | None) -> Expression:
    if most == 0 or part == EMPTY or (part == NEVER and least == 0):
        return EMPTY
    if part == NEVER:
        return NEVER
    return part if least == most == 1 else RepeatExpr(part, least, most)


def optional(part: Expression) -> Expression:
    return repeat(part, 0, 1)


def lexeme(part: Expression) -> Expression:
    return part if part in (EMPTY, NEVER) or isinstance(part, LexemeExpr) else LexemeExpr(part)


def until(text: Expression, end: Expression) -> Expression:
    """A text and its end. The text is one lexeme, with the first part of the end unless that is a
    token."""
    first, *rest = end.parts if isinstance(end, SequenceExpr) else (end,)
    if isinstance(first, TokenExpr):
        return sequence(lexeme(text), first, *rest)
    return sequence(lexeme(sequence(text, first)), *rest)


def pieces_of(part: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression."""
    if isinstance(part, SequenceExpr):
        return part.parts
    if isinstance(part, ChoiceExpr):
        return part.options
    return (part.part,) if isinstance(part, (RepeatExpr, LexemeExpr)) else ()


def rebuilt(part: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """An expression with each of its direct parts changed; one without parts as it is."""
    if isinstance(part, SequenceExpr):
        return sequence(*map(change, part.parts))
    if isinstance(part, ChoiceExpr):
        return choice(*map(change, part.options))
    if isinstance(part, RepeatExpr):
        return repeat(change(part.part), part.least, part.most)
    return lexeme(change(part.part)) if isinstance(part, LexemeExpr) else part


# Sets of characters.


def chars(*ranges: tuple[int, int] | str) -> CharSet:
    """The characters of the ranges; a string stands for its characters."""
    listed: list[tuple[int, int]] = []
    for span in ranges:
        listed += [(ord(c), ord(c)) for c in span] if isinstance(span, str) else [span]
    return CharSet(tuple(_joined(listed)))


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def complement(*excluded: tuple[int, int] | str) -> CharSet:
    """Every character except these."""
    ranges, start = [], 0
    for first, last in chars(*excluded, _SURROGATES).ranges:
        if start < first:
            ranges.append((start, first - 1))
        start = last + 1
    if start <= LAST_CHARACTER:
        ranges.append((start, LAST_CHARACTER))
    return CharSet(tuple(ranges))


def minus(one: CharSet, *excluded: tuple[int, int] | str) -> CharSet:
    """The characters of one without the others."""
    allowed = complement(*excluded).ranges
    pairs = ((max(a, c), min(b, d)) for a, b in one.ranges for c, d in allowed)
    return CharSet(tuple((first, last) for first, last in pairs if first <= last))


def characters_in(part: Expression, wanted: Iterable[str]) -> set[str]:
    """The `wanted` characters, and perhaps others, that texts of a regular expression may hold."""
    if isinstance(part, CharSet):
        return {character for character in wanted if part.has(character)}
    if isinstance(part, LiteralExpr):
        return set(part.text)
    return set().union(*(characters_in(piece, wanted) for piece in pieces_of(part)))


def one_of(characters: CharSet) -> Expression:
    """The set as an expression: an empty set matches nothing, and one character is a literal."""
    if not characters.ranges:
        return NEVER
    (first, last), *more = characters.ranges
    return LiteralExpr(chr(first)) if first == last and not more else characters


# The inside of a JSON string.


# Characters that a string cannot hold unescaped.
ESCAPED_IN_STRINGS = '"\\' + "".join(map(chr, range(0x20)))
_HEX = chars("0123456789abcdefABCDEF")
# Without the escaped solidus, which is never needed: after it a word could be completed.
STRING_ESCAPE = sequence(
    literal("\\"), choice(chars('"\\bfnrt'), sequence(literal("u"), repeat(_HEX, 4, 4)))
)


def has_no_surrogates(text: str) -> bool:
    """Whether a text has no lone surrogates, which cannot be written as UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def expanded_string_end(part: StringEndExpr) -> Expression:
    """The same, written as a text, escapes and more text."""
    text = TextExpr((*ESCAPED_IN_STRINGS, *part.without))
    more = sequence(repeat(sequence(STRING_ESCAPE, text), 0, None), literal('"'))
    if not part.filled:
        return sequence(text, more)
    begun = TextExpr(text.without, filled=True)
    return lexeme(choice(sequence(begun, more), sequence(STRING_ESCAPE, text, more)))


# Removing rules that no text can satisfy, and those that nothing refers to.


def satisfiable_rules(bodies: dict[str, Expression]) -> frozenset[str]:
    """The rules that some text satisfies: none satisfies a value that must hold itself."""
    possible: set[str] = set()
    before = -1
    while before < len(possible):
        before = len(possible)
        # In the order of creation: most refer to earlier ones, so one round finds them.
        for name, body in bodies.items():
            if name not in possible and _is_possible(body, possible):
                possible.add(name)
    return frozenset(possible)


def _is_possible(part: Expression, possible: set[str]) -> bool:
    if isinstance(part, ReferenceExpr):
        return part.name in possible
    if isinstance(part, SequenceExpr):
        return all(_is_possible(piece, possible) for piece in part.parts)
    if isinstance(part, ChoiceExpr):
        return any(_is_possible(option, possible) for option in part.options)
    if isinstance(part, RepeatExpr):
        return part.least == 0 or _is_possible(part.part, possible)
    return not isinstance(part, LexemeExpr) or _is_possible(part.part, possible)


def without_dead_ends(
    root: Expression, bodies: dict[str, Expression], names: frozenset[str]
) -> tuple[Expression, dict[str, Expression]]:
    """The same root and rules, with only those rules that are possible and needed."""
    root = _kept(root, names)
    needed: dict[str, Expression] = {}
    waiting = list(_references(root))
    while waiting:
        name = waiting.pop(0)
        if name not in needed:
            needed[name] = _kept(bodies[name], names)
            waiting += _references(needed[name])
    return root, needed


def _kept(part: Expression, names: frozenset[str]) -> Expression:
    if isinstance(part, ReferenceExpr):
        return part if part.name in names else NEVER
    return rebuilt(part, lambda piece: _kept(piece, names))


def _references(part: Expression) -> Iterator[str]:
    if isinstance(part, ReferenceExpr):
        yield part.name
    for piece in pieces_of(part):
        yield from _references(piece)
