"""What may follow a text that stands in the prompt already.

A prompt may end in the middle of a completion: a prefix, an open turn, the opening of a block whose
call is wanted. The grammar then begins there. What is left of an expression after a character is
its derivative (Brzozowski, 1964).
"""

from __future__ import annotations

from collections.abc import Iterator

from dsv4.grammar.automaton import search_for
from dsv4.grammar.rules import (
    EMPTY,
    NEVER,
    Chars,
    Choice,
    Expression,
    Lexeme,
    Literal,
    Reference,
    Repeat,
    Rules,
    Sequence,
    StringEnd,
    Text,
    Token,
    choice,
    lexeme,
    literal,
    repeat,
    sequence,
)
from dsv4.grammar.strings import expanded


def after(part: Expression, text: str, rules: Rules) -> tuple[Expression, int]:
    """What is left of an expression after a text, and how much of the text it allows."""
    for n, character in enumerate(text):
        rest = _derived(part, character, rules)
        if rest == NEVER:
            return NEVER, n
        part = rest
    return part, len(text)


def _derived(part: Expression, character: str, rules: Rules) -> Expression:
    return choice(*(_derived_one(way, character, rules) for way in _ways(part, rules)))


def _ways(part: Expression, rules: Rules) -> Iterator[Expression]:
    """What an expression may be, with choices and references resolved.

    Not by recursion: rules that pass on to the next may be many.
    """
    waiting, seen = [part], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Choice):
            waiting += reversed(part.options)
        elif not isinstance(part, Reference):
            yield part
        elif part.name not in seen:
            seen.add(part.name)
            waiting.append(rules.bodies[part.name])


def _derived_one(part: Expression, character: str, rules: Rules) -> Expression:
    if isinstance(part, (Literal, Token)):
        return literal(part.text[1:]) if part.text[0] == character else NEVER
    if isinstance(part, Chars):
        return EMPTY if part.has(character) else NEVER
    if isinstance(part, Text):
        state = search_for(part.without).step(part.begun, character)
        return NEVER if state is None else Text(part.without, state)
    if isinstance(part, StringEnd):
        return _derived(expanded(part), character, rules)
    if isinstance(part, Lexeme):
        return lexeme(_derived(part.part, character, rules))
    if isinstance(part, Repeat):
        most = None if part.most is None else part.most - 1
        more = repeat(part.part, max(0, part.least - 1), most)
        return sequence(_derived(part.part, character, rules), more)
    assert isinstance(part, Sequence), part
    return _derived_sequence(part, character, rules)


def _derived_sequence(part: Sequence, character: str, rules: Rules) -> Expression:
    ways = []
    for n, piece in enumerate(part.parts):
        ways.append(sequence(_derived(piece, character, rules), *part.parts[n + 1 :]))
        if not _may_be_empty(piece, rules):
            break
    return choice(*ways)


def _may_be_empty(part: Expression, rules: Rules) -> bool:
    return any(_one_may_be_empty(way, rules) for way in _ways(part, rules))


def _one_may_be_empty(part: Expression, rules: Rules) -> bool:
    if isinstance(part, Text):
        return not part.filled
    if isinstance(part, Sequence):
        return all(_may_be_empty(piece, rules) for piece in part.parts)
    if isinstance(part, Lexeme):
        return _may_be_empty(part.part, rules)
    return isinstance(part, Repeat) and (part.least == 0 or _may_be_empty(part.part, rules))
