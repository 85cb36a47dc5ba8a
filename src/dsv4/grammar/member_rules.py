"""Members of an object or parameters of a call, as rules: which ones, how often, in which order."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4.grammar.rules import EMPTY, NEVER, Expression, Rules, choice, sequence

# Any order takes a rule for each set of members that may still come: two to the power of this.
MOST_IN_ANY_ORDER = 6
# In a grammar of more rules, which take an engine seconds, the order is the declared one.
MOST_RULES = 16_384


@dataclass(frozen=True)
class Member:
    """One member: how it is written, and whether it must be there."""

    written: Expression
    required: bool


@dataclass(frozen=True)
class Members:
    """The members of an object.

    `other` is how an undeclared one is written, NEVER where there must be none. `between` stands
    between two members.
    """

    declared: tuple[Member, ...]
    other: Expression
    between: Expression

    def arranged(self, rules: Rules, any_order: bool) -> Expression:
        """All of them. Beyond a few, any order would take too many rules: then in the given one."""
        few = len(self.declared) <= MOST_IN_ANY_ORDER and len(rules.bodies) < MOST_RULES
        if any_order and few:
            return _InAnyOrder(self, rules).first()
        return _InOrder(self, rules).first()


class _InAnyOrder:
    def __init__(self, members: Members, rules: Rules) -> None:
        self.members = members
        self.rules = rules
        self.made: dict[frozenset[int], Expression] = {}

    def first(self) -> Expression:
        return self.ways(frozenset(range(len(self.members.declared))), EMPTY)

    def rest(self, left: frozenset[int]) -> Expression:
        """What may follow where these are still to come."""
        if not left and self.members.other == NEVER:
            return EMPTY
        if left not in self.made:
            reference = self.made[left] = self.rules.reserved("rest")
            self.rules.bodies[reference.name] = self.ways(left, self.members.between)
        return self.made[left]

    def ways(self, left: frozenset[int], before: Expression) -> Expression:
        declared = self.members.declared
        end = NEVER if any(declared[n].required for n in left) else EMPTY
        ways = [sequence(declared[n].written, self.rest(left - {n})) for n in sorted(left)]
        other = self.members.other
        if other != NEVER:
            ways.append(sequence(other, self.rest(left)))
        # What stands before all of them is written once: engines take a multiple of the time else.
        return choice(end, sequence(before, choice(*ways)))


class _InOrder:
    def __init__(self, members: Members, rules: Rules) -> None:
        self.members = members
        self.rules = rules

    def first(self) -> Expression:
        declared, other, between = self.members.declared, self.members.other, self.members.between
        # From the last to the first: what may follow is made before what it follows. Undeclared
        # ones are let in before a declared one is chosen, so that there is one way to read each.
        chosen_first: Expression = EMPTY
        chosen: Expression = EMPTY
        rest = self.with_others(chosen)
        for member in reversed(declared):
            skipped_first = NEVER if member.required else chosen_first
            skipped = NEVER if member.required else chosen
            chosen_first = self.named(choice(sequence(member.written, rest), skipped_first))
            chosen = self.named(choice(sequence(between, member.written, rest), skipped))
            rest = self.with_others(chosen)
        return choice(chosen_first, sequence(other, rest))

    def with_others(self, chosen: Expression) -> Expression:
        if self.members.other == NEVER:
            return chosen
        reference = self.rules.reserved("rest")
        other = sequence(self.members.between, self.members.other, reference)
        self.rules.bodies[reference.name] = choice(chosen, other)
        return reference

    def named(self, body: Expression) -> Expression:
        return self.rules.named("rest", body)
