"""Names that are none of the declared ones."""

from __future__ import annotations

from collections.abc import Iterable

from dsv4.grammar.rules import (
    NEVER,
    Chars,
    Expression,
    chars,
    choice,
    literal,
    minus,
    one_of,
    sequence,
)

# What a name that begins like a declared one may go on with. All characters would take an engine
# ten times as long, for each letter of each declared name.
_USUAL = chars((48, 57), (65, 90), (97, 122), "_-. ")


def unlike(
    names: Iterable[tuple[str, ...]],
    usual: Chars,
    rest: Expression,
    end: Expression,
    empty: bool,
) -> Expression:
    """A name that is none of these, which are given character by character, as they are written.

    `usual` are the characters that it may hold, `rest` is what may follow one that leads away from
    every name, and `end` what follows a name that one of these only begins with. `empty` says
    whether it may be empty.
    """
    nexts: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        if name:
            nexts.setdefault(name[0], []).append(name[1:])
        else:
            empty = False
    away = one_of(minus(usual, "".join(c for c in nexts if len(c) == 1)))
    ways = [
        sequence(literal(c), unlike(more, _USUAL, rest, end, True)) for c, more in nexts.items()
    ]
    return choice(end if empty else NEVER, sequence(away, rest), *ways)
