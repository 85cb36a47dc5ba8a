"""The search for words in a text, state by state, and the rest of an expression after a text.

A state is the longest suffix of the text so far that is the start of a word. The search begins in
the empty state, and most characters lead back to it. A prompt may end in the middle of a
completion; the allowed rest is the derivative of the expression (Brzozowski, 1964).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from dsv4.grammar import expressions as ex
from dsv4.grammar.expressions import Expression, Rules

# The search for words.


class WordSearch:
    """Finds the first of some words in a text, character by character."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.starts: set[str] = {word[:n] for word in words for n in range(len(word))} | {""}
        self.alphabet: str = "".join(sorted(set("".join(words))))
        self._moves: dict[str, tuple[Mapping[str, str], ex.CharSet]] = {}

    def step(self, state: str, character: str) -> str | None:
        """The state after one more character; None if a word is complete."""
        read = state + character
        if read.endswith(self.words):
            return None
        while read not in self.starts:
            read = read[1:]
        return read

    def walk(self, state: str, text: str) -> str | None:
        """The state after a text; None if a word is complete."""
        after: str | None = state
        for character in text:
            after = None if after is None else self.step(after, character)
        return after

    def moves(self, state: str) -> tuple[Mapping[str, str], ex.CharSet]:
        """The characters that lead to non-empty states, and the set of those that lead to the empty
        one."""
        if state not in self._moves:
            self._moves[state] = self._new_moves(state)
        return self._moves[state]

    def _new_moves(self, state: str) -> tuple[Mapping[str, str], ex.CharSet]:
        steps = {character: self.step(state, character) for character in self.alphabet}
        moves = {character: after for character, after in steps.items() if after}
        elsewhere = "".join(character for character, after in steps.items() if after != "")
        return moves, ex.complement(elsewhere)


# Cached, because the same few searches read long prefixes, character by character, and write many
# grammars.
search_for = lru_cache(16)(WordSearch)


def unrolled(
    text: ex.TextExpr,
    rules: Rules,
    *,
    root: Expression | None = None,
    end: Expression = ex.EMPTY,
    escape: Expression = ex.NEVER,
    after_words: Mapping[str, Expression] = MappingProxyType({}),
) -> Expression:
    """A text without words as one rule for each state of the search.

    `root` is the expression of the empty state, if an engine has its own for it; `end` ends the
    text, and `escape` may replace a character of it. A word in `after_words` is allowed if its
    value there follows.
    """
    search = search_for(text.without)
    names: dict[str, Expression] = {} if root is None else {"": root}

    def at(state: str) -> Expression:
        if state not in names:
            reference = names[state] = rules.reserved("text")
            rules.bodies[reference.name] = ways(state, end)
        return names[state]

    def ways(state: str, end: Expression) -> Expression:
        moves, back = search.moves(state)
        onward = [ex.sequence(ex.literal(c), at(after)) for c, after in moves.items()]
        # Not as one group: engines are much quicker with plain alternatives.
        plain, escaped = ex.sequence(ex.one_of(back), at("")), ex.sequence(escape, at(""))
        words = [
            ex.sequence(ex.literal(word[-1]), following)
            for word, following in after_words.items()
            if (state + word[-1]).endswith(word)
        ]
        return ex.choice(end, plain, escaped, *onward, *words)

    return ways(text.begun, ex.NEVER) if text.filled else at(text.begun)


# The rest after a text that the prompt already has: a prefix, an open turn, the opening of a block
# whose call is forced.


def rest_after(part: Expression, text: str, rules: Rules) -> tuple[Expression, int]:
    """The rest of an expression after a text, and how many characters of the text it allows."""
    for n, character in enumerate(text):
        rest = _derived(part, character, rules)
        if rest == ex.NEVER:
            return ex.NEVER, n
        part = rest
    return part, len(text)


def _derived(part: Expression, character: str, rules: Rules) -> Expression:
    return ex.choice(*(_derived_one(way, character, rules) for way in _ways(part, rules)))


def _ways(part: Expression, rules: Rules) -> Iterator[Expression]:
    """The alternatives of an expression, with choices and references resolved.

    Without recursion: chains of rules that refer to the next may be long.
    """
    waiting, passed = [part], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, ex.ChoiceExpr):
            waiting += reversed(part.options)
        elif not isinstance(part, ex.ReferenceExpr):
            yield part
        elif part.name not in passed:
            passed.add(part.name)
            waiting.append(rules.bodies[part.name])


def _derived_one(part: Expression, character: str, rules: Rules) -> Expression:
    if isinstance(part, (ex.LiteralExpr, ex.TokenExpr)):
        return ex.literal(part.text[1:]) if part.text[0] == character else ex.NEVER
    if isinstance(part, ex.CharSet):
        return ex.EMPTY if part.has(character) else ex.NEVER
    if isinstance(part, ex.TextExpr):
        state = search_for(part.without).step(part.begun, character)
        return ex.NEVER if state is None else ex.TextExpr(part.without, state)
    if isinstance(part, ex.StringEndExpr):
        return _derived(ex.expanded_string_end(part), character, rules)
    if isinstance(part, ex.LexemeExpr):
        return ex.lexeme(_derived(part.part, character, rules))
    if isinstance(part, ex.RepeatExpr):
        most = None if part.most is None else part.most - 1
        more = ex.repeat(part.part, max(0, part.least - 1), most)
        return ex.sequence(_derived(part.part, character, rules), more)
    assert isinstance(part, ex.SequenceExpr), part
    return _derived_sequence(part, character, rules)


def _derived_sequence(part: ex.SequenceExpr, character: str, rules: Rules) -> Expression:
    ways = []
    for n, piece in enumerate(part.parts):
        ways.append(ex.sequence(_derived(piece, character, rules), *part.parts[n + 1 :]))
        if not _may_be_empty(piece, rules):
            break
    return ex.choice(*ways)


def _may_be_empty(part: Expression, rules: Rules) -> bool:
    return any(_one_may_be_empty(way, rules) for way in _ways(part, rules))


def _one_may_be_empty(part: Expression, rules: Rules) -> bool:
    if isinstance(part, ex.TextExpr):
        return not part.filled
    if isinstance(part, ex.SequenceExpr):
        return all(_may_be_empty(piece, rules) for piece in part.parts)
    if isinstance(part, ex.LexemeExpr):
        return _may_be_empty(part.part, rules)
    return isinstance(part, ex.RepeatExpr) and (part.least == 0 or _may_be_empty(part.part, rules))
