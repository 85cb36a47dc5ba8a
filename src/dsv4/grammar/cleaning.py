"""Rules without dead ends: what no text can satisfy goes, and so does what nothing refers to."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4.grammar.rules import (
    NEVER,
    Choice,
    Expression,
    Lexeme,
    Reference,
    Repeat,
    Sequence,
    choice,
    lexeme,
    repeat,
    sequence,
)


def possible(bodies: dict[str, Expression]) -> frozenset[str]:
    """The rules that some text satisfies: a value that must hold itself has none."""
    found: set[str] = set()
    before = -1
    while before < len(found):
        before = len(found)
        # In the order in which they were made: most refer to earlier ones, so one round finds them.
        for name, body in bodies.items():
            if name not in found and _is_possible(body, found):
                found.add(name)
    return frozenset(found)


def _is_possible(part: Expression, found: set[str]) -> bool:
    if isinstance(part, Reference):
        return part.name in found
    if isinstance(part, Sequence):
        return all(_is_possible(piece, found) for piece in part.parts)
    if isinstance(part, Choice):
        return any(_is_possible(option, found) for option in part.options)
    if isinstance(part, Repeat):
        return part.least == 0 or _is_possible(part.part, found)
    return not isinstance(part, Lexeme) or _is_possible(part.part, found)


def cleaned(
    root: Expression, bodies: dict[str, Expression], kept: frozenset[str]
) -> tuple[Expression, dict[str, Expression]]:
    """The same texts with the possible rules alone, and of these the ones that are needed."""
    root = _kept(root, kept)
    needed: dict[str, Expression] = {}
    waiting = list(_references(root))
    while waiting:
        name = waiting.pop(0)
        if name not in needed:
            needed[name] = _kept(bodies[name], kept)
            waiting += _references(needed[name])
    return root, needed


def _kept(part: Expression, kept: frozenset[str]) -> Expression:
    if isinstance(part, Reference):
        return part if part.name in kept else NEVER
    if isinstance(part, Sequence):
        return sequence(*(_kept(piece, kept) for piece in part.parts))
    if isinstance(part, Choice):
        return choice(*(_kept(option, kept) for option in part.options))
    if isinstance(part, Repeat):
        return repeat(_kept(part.part, kept), part.least, part.most)
    return lexeme(_kept(part.part, kept)) if isinstance(part, Lexeme) else part


def _references(part: Expression) -> Iterator[str]:
    if isinstance(part, Reference):
        yield part.name
    elif isinstance(part, (Sequence, Choice)):
        for piece in part.parts if isinstance(part, Sequence) else part.options:
            yield from _references(piece)
    elif isinstance(part, (Repeat, Lexeme)):
        yield from _references(part.part)
