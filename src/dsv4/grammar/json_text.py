"""JSON as rules: strings, names of members, any value."""

from __future__ import annotations

import json

from dsv4._encode.json_text import to_json
from dsv4.grammar.automaton import may_hold
from dsv4.grammar.names import unlike
from dsv4.grammar.numbers import number
from dsv4.grammar.rules import (
    Chars,
    Choice,
    Expression,
    Literal,
    Repeat,
    Rules,
    Sequence,
    StringEnd,
    choice,
    complement,
    lexeme,
    literal,
    minus,
    one_of,
    optional,
    repeat,
    sequence,
)
from dsv4.grammar.strings import SPECIAL, is_whole

# JSON is written on one line, as the encoder writes it, with or without a space after a sign. White
# space without end is what models fall into when JSON is all they may write.
_COMMA = lexeme(sequence(literal(","), optional(literal(" "))))
_COLON = lexeme(sequence(literal(":"), optional(literal(" "))))


class JsonText:
    """JSON that holds none of some words, which would end it for whoever reads around it."""

    def __init__(self, rules: Rules, words: tuple[str, ...]) -> None:
        self.rules = rules
        self.words = words
        # The patterns that strings were made for.
        self.patterns: dict[str, Expression] = {}
        self._any: Expression | None = None

    # Signs.

    comma = _COMMA
    colon = _COLON

    def bracketed(self, opening: str, inside: Expression, closing: str) -> Expression:
        return sequence(literal(opening), inside, literal(closing))

    # Strings.

    def string(self, filled: bool = False) -> Expression:
        whole = sequence(literal('"'), StringEnd(self.words, filled))
        return self.rules.named("string", lexeme(whole))

    def quoted(self, inside: Expression) -> Expression:
        return sequence(literal('"'), inside, literal('"'))

    def constant(self, value: object) -> Expression:
        """A value as the encoder writes it, with an escape where it would spell a word."""
        text = to_json(value)
        for word in self.words:
            text = text.replace(word, f"\\u{ord(word[0]):04x}{word[1:]}")
        return literal(text if is_whole(text) else json.dumps(value))

    def escaped(self, part: Expression) -> Expression:
        """A regular expression over characters as one over their JSON."""
        if isinstance(part, Literal):
            return literal(to_json(part.text)[1:-1])
        if isinstance(part, Chars):
            special = [c for c in SPECIAL if part.has(c)]
            plain = one_of(minus(part, SPECIAL))
            return choice(plain, *(literal(to_json(c)[1:-1]) for c in special))
        if isinstance(part, Sequence):
            return sequence(*map(self.escaped, part.parts))
        if isinstance(part, Choice):
            return choice(*map(self.escaped, part.options))
        assert isinstance(part, Repeat), part
        return repeat(self.escaped(part.part), part.least, part.most)

    # Members.

    def key(self, name: str) -> Expression:
        return sequence(self.constant(name), self.colon)

    def other_key(self, names: tuple[str, ...]) -> Expression:
        """The name of a member that is none of these."""
        if not names:
            return sequence(self.string(), self.colon)
        # One that begins with what a word begins with would need a search of its own.
        usual = complement(SPECIAL, "".join(word[0] for word in self.words))
        rest = self.rules.named("inside", StringEnd(self.words))
        inside = unlike(map(_units, names), usual, rest, end=literal('"'), empty=True)
        key = lexeme(sequence(literal('"'), inside))
        return sequence(self.rules.named("key", key), self.colon)

    # Any value.

    def value(self) -> Expression:
        """Any value."""
        if self._any is None:
            self._any = self.rules.reserved("value")
            self.rules.bodies[self._any.name] = choice(self.string(), self.value_but_string())
        return self._any

    def value_but_string(self) -> Expression:
        return choice(self.object(), self.array(), *self.simple())

    def simple(self) -> tuple[Expression, ...]:
        return self.rules.named("number", number()), *map(literal, ("true", "false", "null"))

    def array(self) -> Expression:
        items = sequence(self.value(), repeat(sequence(self.comma, self.value()), 0, None))
        return self.rules.named("array", self.bracketed("[", optional(items), "]"))

    def object(self) -> Expression:
        member = self.rules.named("member", sequence(self.other_key(()), self.value()))
        members = sequence(member, repeat(sequence(self.comma, member), 0, None))
        return self.rules.named("object", self.bracketed("{", optional(members), "}"))

    def keeps_apart(self, part: Expression) -> bool:
        """Whether no text of a regular expression holds one of the words."""
        return not may_hold(part, self.words)


def _units(name: str) -> tuple[str, ...]:
    """A name, character by character, as JSON writes it."""
    return tuple(to_json(character)[1:-1] for character in name)
