"""Shapes -> rules: the values that fit a schema, as JSON or as the raw text of a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsv4._encode.tools import to_json
from dsv4.errors import Location, refusal
from dsv4.grammar import expressions as ex
from dsv4.grammar.expressions import Expression, Rules
from dsv4.grammar.json_rules import JsonRules, integer_rule, number_rule
from dsv4.grammar.pattern_rules import NotRegular, pattern_cost, pattern_rule
from dsv4.grammar.schema_shapes import UNENFORCED, Conjunction, SchemaDocument, Shape
from dsv4.schema import TYPES, has_type

# Members of an object, or parameters of a call: their choice, number and order.


# Any order needs a rule for each set of members that may still come: two to the power of this.
MOST_IN_ANY_ORDER = 6
# In a grammar with more rules, which take an engine seconds, the declared order is used.
MOST_RULES = 16_384


@dataclass(frozen=True)
class Member:
    """One member: its expression, and whether it is required."""

    written: Expression
    required: bool


@dataclass(frozen=True)
class Members:
    """The members of an object.

    `other` is the expression of an undeclared one, NEVER if there must be none. `between` separates
    two members.
    """

    declared: tuple[Member, ...]
    other: Expression
    between: Expression

    def arranged(self, rules: Rules, any_order: bool) -> Expression:
        """All members, in any order or in the given one. More than a few are always in the given
        order, because any order would need too many rules."""
        few = len(self.declared) <= MOST_IN_ANY_ORDER and len(rules.bodies) < MOST_RULES
        if any_order and few:
            return _in_any_order(self, rules)
        return _in_order(self, rules)


def _in_any_order(members: Members, rules: Rules) -> Expression:
    declared, other = members.declared, members.other
    rests: dict[frozenset[int], Expression] = {}

    def rest(left: frozenset[int]) -> Expression:
        """The possible text while these members are still to come."""
        if not left and other == ex.NEVER:
            return ex.EMPTY
        if left not in rests:
            reference = rests[left] = rules.reserved("rest")
            rules.bodies[reference.name] = ways(left, members.between)
        return rests[left]

    def ways(left: frozenset[int], before: Expression) -> Expression:
        end = ex.NEVER if any(declared[n].required for n in left) else ex.EMPTY
        ways = [ex.sequence(declared[n].written, rest(left - {n})) for n in sorted(left)]
        if other != ex.NEVER:
            ways.append(ex.sequence(other, rest(left)))
        # The text before all of them is written only once: this makes engines several times faster.
        return ex.choice(end, ex.sequence(before, ex.choice(*ways)))

    return ways(frozenset(range(len(declared))), ex.EMPTY)


def _in_order(members: Members, rules: Rules) -> Expression:
    other, between = members.other, members.between

    def with_others(chosen: Expression) -> Expression:
        if other == ex.NEVER:
            return chosen
        reference = rules.reserved("rest")
        more = ex.sequence(between, other, reference)
        rules.bodies[reference.name] = ex.choice(chosen, more)
        return reference

    # From the last to the first, because a rule refers to those that may follow. Undeclared members
    # may come before a declared one is chosen, so that each text has only one reading.
    first: Expression = ex.EMPTY
    later: Expression = ex.EMPTY
    rest = with_others(later)
    for member in reversed(members.declared):
        written = ex.sequence(member.written, rest)
        skipped_first, skipped = (ex.NEVER, ex.NEVER) if member.required else (first, later)
        first = rules.named("rest", ex.choice(written, skipped_first))
        later = rules.named("rest", ex.choice(ex.sequence(between, written), skipped))
        rest = with_others(later)
    return ex.choice(first, ex.sequence(other, rest))


# Values.


# The most items that are counted: with more, engines refuse, or take seconds.
MOST_ITEMS = 1000
# The most digits of a bound that is enforced.
MOST_DIGITS = 40
# The work of engines grows with the square of the number of optional members: these take seconds.
MOST_MEMBERS = 400
# Listed values, and characters of them, beyond which a list is not enforced.
MOST_LISTED = 4096
MOST_LISTED_CHARACTERS = 65_536
# Keywords beside a list of values that do not require more than the list does.
_ABOUT_LISTED = ("type", "enum", *UNENFORCED)
# In a schema that refers to itself, schemas that must all hold may meet in any combination.
MOST_COMBINED = 500
# The most characters of declared names for which an undeclared name is kept different from them.
MOST_NAMES = 96


# Functions that turn a bound into the least or the greatest allowed integer.
WholeBound: TypeAlias = Callable[[float], int]
_LEAST: dict[str, WholeBound] = {
    "minimum": math.ceil,
    "exclusiveMinimum": lambda n: math.floor(n) + 1,
}
_MOST: dict[str, WholeBound] = {
    "maximum": math.floor,
    "exclusiveMaximum": lambda n: math.ceil(n) - 1,
}


class ValueRules:
    """The values that fit the schemas of one document.

    `json` writes them, and has the words that they must not hold.
    """

    def __init__(
        self, document: SchemaDocument, json: JsonRules, rules: Rules, any_order: bool
    ) -> None:
        self.document = document
        self.relaxations = document.relaxations
        self.json = json
        self.rules = rules
        self.any_order = any_order
        # Values by the places of their schemas: finished ones, and those in progress, with the rule
        # that they need if they refer to themselves.
        self._by_places: dict[tuple[Location, ...], Expression] = {}
        self._open: dict[tuple[Location, ...], ex.ReferenceExpr | None] = {}

    # As JSON.

    def value(self, together: Conjunction) -> Expression:
        """A value that fits all of these schemas."""
        together = self.document.resolved(together)
        places = tuple(part.location for part in together)
        if places in self._open:
            reference = self._open[places] = self._open[places] or self.rules.reserved("value")
            return reference
        if places not in self._by_places:
            self._by_places[places] = self._new_value(together, places)
        return self._by_places[places]

    def _new_value(self, together: Conjunction, places: tuple[Location, ...]) -> Expression:
        if len(places) > 1 and sum(len(rules) > 1 for rules in self._by_places) > MOST_COMBINED:
            problem = f"found more than {MOST_COMBINED} combinations under allOf, expected fewer"
            raise refusal(self.document.location, problem)
        self._open[places] = None
        shapes = self.document.shapes(together)
        anything = Shape() in shapes
        body = self.json.value() if anything else ex.choice(*map(self._shape, shapes))
        reference = self._open.pop(places)
        if reference is None:
            return self.rules.named("value", body)
        self.rules.bodies[reference.name] = body
        return reference

    def _shape(self, shape: Shape) -> Expression:
        constants = self.constants(shape)
        if constants is not None:
            return self.listed(constants)
        return ex.choice(*(self._typed(shape, kind) for kind in self.kinds(shape)))

    def kinds(self, shape: Shape) -> list[str]:
        """The types that values of a shape may have. "number" includes "integer"."""
        kinds = [kind for kind in TYPES if kind in shape.types]
        if (listed := shape.get("enum")) is not None:
            kinds = [kind for kind in kinds if any(has_type(value, (kind,)) for value in listed)]
        if "number" in kinds and "integer" in kinds:
            kinds.remove("integer")
        self._note_unenforced(shape, kinds)
        return kinds

    def constants(self, shape: Shape) -> list[Any] | None:
        """The values that a shape lists; None if it does not list any."""
        keyword = shape.keywords.get("enum")
        if keyword is None:
            return None
        if not self._affords(keyword.value):
            reason = "there are too many values: only their types are enforced"
            self.relaxations.note(keyword.location, reason)
            return None
        about = {name: word for name, word in shape.keywords.items() if name in _ABOUT_LISTED}
        if shape != Shape(about):
            reason = "its values are compared only by their types, and not with other keywords"
            self.relaxations.note(keyword.location, reason)
        return [value for value in keyword.value if has_type(value, shape.types)]

    def listed(self, constants: list[Any]) -> Expression:
        """One of these values, as one lexeme: llguidance gives up if more than 2,000 rules or
        lexemes may come next."""
        return ex.lexeme(ex.choice(*map(self.json.constant, constants)))

    def _affords(self, listed: list[Any]) -> bool:
        if len(listed) > MOST_LISTED:
            return False
        length = sum(len(to_json(value)) for value in listed)
        return length <= MOST_LISTED_CHARACTERS and self.rules.affords(length // 64)

    def _note_unenforced(self, shape: Shape, kinds: list[str]) -> None:
        for name, row in UNENFORCED.items():
            kind = row["type"]
            about = {kind, "integer"} if kind == "number" else {kind}
            if name in shape.keywords and (kind == "any" or about & set(kinds)):
                self.relaxations.note(shape.keywords[name].location, row["reason"])

    def _typed(self, shape: Shape, kind: str) -> Expression:
        makers: dict[str, Callable[[Shape], Expression]] = {
            "null": lambda _: ex.literal("null"),
            "boolean": lambda _: ex.choice(ex.literal("true"), ex.literal("false")),
            "integer": self._integer,
            "number": self._number,
            "string": self._string,
            "array": self._array,
            "object": self._object,
        }
        return makers[kind](shape)

    def _integer(self, shape: Shape) -> Expression:
        lowest = max(self._whole_bounds(shape, _LEAST), default=None)
        highest = min(self._whole_bounds(shape, _MOST), default=None)
        return self.rules.named("integer", integer_rule(lowest, highest))

    def _whole_bounds(self, shape: Shape, bounds: Mapping[str, WholeBound]) -> Iterator[int]:
        for name, whole in bounds.items():
            bound = shape.get(name)
            if bound is None or bound in (math.inf, -math.inf):
                continue
            if abs(bound) < 10**MOST_DIGITS:
                yield whole(bound)
            else:
                reason = f"bounds of more than {MOST_DIGITS} digits are not looked at"
                self.relaxations.note(shape.keywords[name].location, reason)

    def _number(self, shape: Shape) -> Expression:
        """A number. Of its bounds, only the sign is enforced."""
        negative = positive = True
        for name in (*_LEAST, *_MOST):
            bound = shape.get(name)
            if bound is None:
                continue
            negative = negative and (name in _MOST or bound < 0)
            positive = positive and (name in _LEAST or bound > 0)
            if bound != 0 or name.startswith("exclusive"):
                reason = "of the bounds of a number with a point, only the sign is enforced"
                self.relaxations.note(shape.keywords[name].location, reason)
        return self.rules.named("number", number_rule(negative, positive))

    # Strings.

    def _string(self, shape: Shape) -> Expression:
        rule = self.patterned(shape, self.json.escaped)
        if rule is not None:
            return self.rules.named("string", ex.lexeme(self.json.quoted(rule)))
        return self.json.string(self.filled(shape))

    def patterned(
        self, shape: Shape, written: Callable[[Expression], Expression]
    ) -> Expression | None:
        """The texts that a pattern allows; None without a pattern that can be enforced.

        A text that held one of the words would end early. If the pattern allows one, its sets of
        characters lose one character of each word.
        """
        keyword = shape.keywords.get("pattern")
        if keyword is None:
            return None
        try:
            part = self._affordable(keyword.value)
        except NotRegular as problem:
            self.relaxations.note(keyword.location, f"the pattern makes no rules: {problem}")
            return None
        for rule in (written(part), written(_without(part, self.json.words))):
            if self.json.keeps_apart(rule):
                for name in ("minLength", "maxLength"):
                    self._note_length(shape, name, 0)
                return rule
        self.relaxations.note(keyword.location, "its texts hold markup, which would end the value")
        return None

    def _affordable(self, source: str) -> Expression:
        if source not in self.json.patterns:
            part = pattern_rule(source)
            if not self.rules.affords(pattern_cost(part)):
                raise NotRegular("too many patterns stand in one grammar")
            self.json.patterns[source] = part
        return self.json.patterns[source]

    def filled(self, shape: Shape) -> bool:
        """Whether a text must not be empty. Other limits on lengths are not enforced."""
        self._note_length(shape, "minLength", 1)
        self._note_length(shape, "maxLength", 0)
        return bool(shape.get("minLength", 0) > 0)

    def _note_length(self, shape: Shape, name: str, enforced: int) -> None:
        value = shape.get(name)
        if value is not None and (name == "maxLength" or value > enforced):
            self.relaxations.note(shape.keywords[name].location, "lengths are not counted")

    # Arrays.

    def _array(self, shape: Shape) -> Expression:
        least = self._item_bound(shape, "minItems") or 0
        most = self._item_bound(shape, "maxItems")
        if most is not None and least > most:
            return ex.NEVER
        prefix = [self.value(part) for part in shape.prefix]
        other = self.value(shape.items) if shape.items else self.json.value()
        return self.json.bracketed("[", self._items(prefix, other, least, most), "]")

    def _item_bound(self, shape: Shape, name: str) -> int | None:
        bound: int | None = shape.get(name)
        if bound is not None and bound > MOST_ITEMS:
            reason = f"items are not counted beyond {MOST_ITEMS}"
            self.relaxations.note(shape.keywords[name].location, reason)
            return MOST_ITEMS if name == "minItems" else None
        return bound

    def _items(
        self, prefix: list[Expression], other: Expression, least: int, most: int | None
    ) -> Expression:
        """The first items one by one, each of which may be the last; then any number of others."""
        comma = self.json.comma
        left = None if most is None else max(0, most - len(prefix))
        more = ex.repeat(ex.sequence(comma, other), max(0, least - len(prefix)), left)
        if not prefix:
            fewer = None if left is None else left - 1
            if left == 0:
                return ex.EMPTY if least == 0 else ex.NEVER
            some = ex.sequence(
                other, ex.repeat(ex.sequence(comma, other), max(0, least - 1), fewer)
            )
            return ex.choice(ex.EMPTY, some) if least == 0 else some
        rest: Expression = more
        for n in range(len(prefix) - 1, -1, -1):
            before = comma if n else ex.EMPTY
            here = ex.sequence(before, prefix[n], self.rules.named("items", rest))
            if most is not None and n >= most:
                here = ex.NEVER
            rest = ex.choice(ex.EMPTY, here) if n >= least else here
        return rest

    # Objects.

    def _object(self, shape: Shape) -> Expression:
        names, additional = self.declared(shape)
        members = []
        for name, together, required in names:
            value = self.value(together)
            if value != ex.NEVER:
                key = self.json.key(name)
                members.append(
                    Member(self.rules.named("member", ex.sequence(key, value)), required)
                )
            elif required:
                return ex.NEVER
        other: Expression = ex.NEVER
        if additional is not None and (value := self.value(additional)) != ex.NEVER:
            key = self.json.other_key(self.apart(shape, tuple(name for name, *_ in names)))
            other = self.rules.named("member", ex.sequence(key, value))
        arranged = Members(tuple(members), other, self.json.comma)
        return self.json.bracketed("{", arranged.arranged(self.rules, self.any_order), "}")

    def declared(
        self, shape: Shape
    ) -> tuple[list[tuple[str, Conjunction, bool]], Conjunction | None]:
        """The declared members in order, and the schemas of undeclared ones; None if not allowed.

        A schema that declares members and does not mention others is taken to allow no others. A
        required member counts as declared.
        """
        required = shape.get("required", ())
        additional = shape.additional
        if additional is None and not shape.declares:
            additional = ()
        properties = {**shape.properties}
        for name in required:
            properties.setdefault(name, shape.additional or ())
        if len(properties) > MOST_MEMBERS:
            problem = f"found {len(properties)} members, expected at most {MOST_MEMBERS}"
            raise refusal(self.document.location, problem)
        return [(name, properties[name], name in required) for name in properties], additional

    def apart(self, shape: Shape, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names that an undeclared member must not have; empty if there are too many."""
        if sum(map(len, names)) <= MOST_NAMES:
            return names
        reason = "an undeclared member may have a declared one's name, because there are many"
        self.relaxations.note(self._additional_location(shape), reason)
        return ()

    def _additional_location(self, shape: Shape) -> Location:
        together = shape.additional or ()
        if together:
            return together[0].location
        return (*self.document.location, "additionalProperties")


def _rarest(word: str) -> str:
    """The character of a word that is rarest in other texts."""
    return next((character for character in word if not character.isascii()), word[0])


def _without(part: Expression, words: tuple[str, ...]) -> Expression:
    """A regular expression whose sets of characters lack one character of each word."""
    if isinstance(part, ex.CharSet):
        return ex.one_of(ex.minus(part, "".join(map(_rarest, words))))
    return ex.rebuilt(part, lambda piece: _without(piece, words))
