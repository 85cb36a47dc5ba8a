"""xgrammar's EBNF, which vLLM and SGLang read.

Each state in which nearly every character is allowed costs that engine as much as a whole string.
So a JSON string that must not hold a closing tag has one such state, which allows no bar. A bar is
read together with the characters before it, up to one that shows that no tag has begun. Text after
the beginning of a tag is rare, and has rules that allow few characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from dsv4.grammar import expressions as ex
from dsv4.grammar.automaton import search_for, unrolled
from dsv4.grammar.completion_rules import RARE_ENDS
from dsv4.grammar.expressions import Expression, Rules, sequence
from dsv4.grammar.grammar_writers import GrammarWriter, escaped

# JSON strings that cannot complete a closing tag.


_QUOTE = ex.literal('"')
# The characters allowed where a closing tag has begun: ASCII without spaces and capitals, with
# which thousands of tokens begin.
_FEW: ex.CharSet = ex.minus(ex.chars((0x21, 0x7E)), ex.ESCAPED_IN_STRINGS, (0x41, 0x5A))


def is_quick(words: tuple[str, ...]) -> bool:
    """Whether there is one word, and it has two bars, the first after a solidus."""
    return len(words) == 1 and words[0][0].isascii() and words[0][1] in words[0][2:]


class QuickString:
    """The inside of a JSON string and its closing quote, without a word."""

    def __init__(self, word: str, rules: Rules) -> None:
        self.rules = rules
        self.solidus, self.bar = word[0], word[1]
        self.middle, _, self.tail = word[2:].partition(self.bar)
        self.bars: Expression = ex.repeat(ex.chars(self.bar), 1, None)
        self.usual = ex.minus(ex.complement(ex.ESCAPED_IN_STRINGS), self.bar)
        self.begun: dict[int, ex.ReferenceExpr] = {}
        # The state without a bar just before, and the one with a bar.
        self.plain = rules.reserved("string")
        self.barred = rules.reserved("string")
        bars = ex.repeat(ex.chars(self.bar), 0, None)
        self.anywhere: Expression = rules.named("string", sequence(bars, self.barred))
        rules.bodies[self.plain.name] = ex.choice(_QUOTE, *self._ways())
        rules.bodies[self.barred.name] = ex.choice(self.plain, *self._to_bars(len(self.middle)))

    def filled(self) -> Expression:
        """The same, not empty. No character precedes its first one, so a bar may follow."""
        first = ex.minus(self.usual, self.solidus)
        return self.rules.named(
            "string",
            ex.choice(
                sequence(self.bars, self.barred),
                sequence(first, self.anywhere),
                sequence(ex.STRING_ESCAPE, self.anywhere),
                *self._solidus_ways(),
            ),
        )

    def _ways(self) -> tuple[Expression, ...]:
        """The possible continuations except the end."""
        return (
            sequence(ex.minus(self.usual, self.solidus), self.plain),
            sequence(ex.STRING_ESCAPE, self.anywhere),
            *self._solidus_ways(),
            *self._bar_ways(),
        )

    def _bar_ways(self) -> Iterator[Expression]:
        """A character, the text between it and a bar, and the bar.

        The text between is a suffix of the middle; the character shows that it is not all of it.
        """
        for start in range(len(self.middle), -1, -1):
            excluded = self.middle[start - 1] if start else ""
            if start == len(self.middle):
                excluded += self.solidus
            end = ex.literal(self.middle[start:])
            yield sequence(ex.minus(self.usual, excluded), end, self.bars, self.barred)

    def _solidus_ways(self) -> tuple[Expression, ...]:
        begun = ex.literal(self.solidus + self.bar)
        return (
            sequence(ex.literal(self.solidus), self.plain),
            sequence(begun, self._after_solidus()),
        )

    def _to_bars(self, most: int) -> list[Expression]:
        """Suffixes of the middle that come right after a bar, and the next bar."""
        return [
            sequence(ex.literal(self.middle[-length:]), self.bars, self.barred)
            for length in range(1, most + 1)
        ]

    def _after_solidus(self) -> Expression:
        """The possible text after a solidus and one bar: a tag may have begun."""
        return self.rules.named(
            "string",
            ex.choice(
                self.plain,
                sequence(self.bars, self.barred),
                *self._to_bars(len(self.middle) - 1),
                sequence(ex.literal(self.middle + self.bar), self._after(0)),
            ),
        )

    def _after(self, length: int) -> Expression:
        """The possible text after the second bar and the first `length` characters of the tail.

        After a letter, the string may end or the tail continue. Elsewhere other text may follow.
        """
        following = self.tail[length : length + 1]
        if length == len(self.tail):
            return ex.NEVER
        if length and self.tail[length - 1].isalpha():
            return ex.choice(_QUOTE, sequence(ex.literal(following), self._after(length + 1)))
        if length not in self.begun:
            reference = self.begun[length] = self.rules.reserved("string")
            away = ex.one_of(ex.minus(_FEW, following + self.solidus))
            self.rules.bodies[reference.name] = ex.choice(
                _QUOTE,
                sequence(away, self.plain),
                sequence(ex.STRING_ESCAPE, self.anywhere),
                sequence(self.bars, self.barred),
                *self._solidus_ways(),
                sequence(ex.literal(following), self._after(length + 1)),
            )
        return self.begun[length]


# The writer.


_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Lookahead after the end of a JSON string: white space, a sign, or the tag that ends a value.
_FOLLOWS_STRING = r" (=[\n ,:<\]}])"


class EbnfWriter(GrammarWriter):
    """Writes EBNF with xgrammar's macro for a text without some words.

    The macro costs the engine next to nothing; equivalent rules cost a sixth of a second. `\\x`
    escapes are never written, because the engine reads as many hexadecimal digits as follow.
    """

    def __init__(self, bodies: dict[str, Expression]) -> None:
        super().__init__(bodies)
        self.string_ends: dict[ex.StringEndExpr, str] = {}
        self.quick_strings: dict[str, QuickString] = {}
        self.loops: dict[ex.RepeatExpr, str] = {}
        # Texts that something follows: the rule's name, and the first characters that may follow.
        self.ended: dict[ex.TextExpr, tuple[str, set[str]]] = {}

    def string(self, text: str) -> str:
        return '"' + "".join('\\"' if c == '"' else _escaped(c) for c in text) + '"'

    def in_set(self, character: str) -> str:
        return f"\\{character}" if character in "][^-" else _escaped(character)

    def token(self, part: ex.TokenExpr) -> str:
        return super().token(part) if part.id is None else f"Token({part.id})"

    def grammar(self, root: Expression) -> str:
        written = super().grammar(root)
        ends = [
            self.line(name, f"{self._macro(part)} (={self.characters(ex.chars(''.join(follows)))})")
            for part, (name, follows) in self.ended.items()
        ]
        return "\n".join([written.rstrip("\n"), *ends, ""])

    def sequence(self, part: ex.SequenceExpr) -> str:
        pieces = [
            self.ended_text(_text_in(piece), _first(following)) or self.closed(piece)
            for piece, following in zip_longest(part.parts, part.parts[1:])
        ]
        return " ".join(pieces)

    def ended_text(self, part: ex.TextExpr | None, follows: str | None) -> str | None:
        """The rule of a text that something follows; None if there is no such text. Masks are five
        times as quick if the engine knows what follows."""
        if part is None or follows is None or part.begun or part.filled:
            return None
        part = _shortened(part)
        if part not in self.ended:
            self.ended[part] = (self.rules.reserved("text").name, set())
        name, first = self.ended[part]
        first.add(follows)
        return name

    def _macro(self, part: ex.TextExpr) -> str:
        return f"TagDispatch(excludes=({', '.join(map(self.string, part.without))},))"

    def text(self, part: ex.TextExpr) -> str:
        return super().text(_shortened(part))

    def new_text(self, part: ex.TextExpr) -> str:
        if not part.begun and not part.filled:
            return self.new_rule("text", self._macro(part))
        root = ex.ReferenceExpr(self.text(ex.TextExpr(part.without)))
        # A text that must not be empty does not begin with a bar, because each further state would
        # cost the engine as much as a whole text.
        words = part.without if part.begun else tuple(map(_cut_at_bar, part.without))
        rule = unrolled(ex.TextExpr(words, part.begun, part.filled), self.rules, root=root)
        return self.new_rule("text", self.with_new_rules(rule))

    def string_end(self, part: ex.StringEndExpr) -> str:
        """The end of a string as rules, with a lookahead that tells the engine which tokens fit.

        With the macro, a mask would have to be looked up at every quote of the vocabulary.
        """
        if part not in self.string_ends:
            write = self._quick if is_quick(part.without) else self._searched
            self.string_ends[part] = self.with_new_rules(write(part), _FOLLOWS_STRING)
        return self.string_ends[part]

    def _quick(self, part: ex.StringEndExpr) -> Expression:
        word = part.without[0]
        if word not in self.quick_strings:
            self.quick_strings[word] = QuickString(word, self.rules)
        string = self.quick_strings[word]
        return string.filled() if part.filled else string.anywhere

    def _searched(self, part: ex.StringEndExpr) -> Expression:
        """A string without many words, for which each state of a search would cost too much.

        So after the first character of a word, the macro takes over, without the rests of words.
        """
        rests = tuple(dict.fromkeys(RARE_ENDS.get(word, word[1:]) for word in part.without))
        rest = ex.ReferenceExpr(self._rare_string_end(rests))
        heads = dict.fromkeys(word[0] for word in part.without)
        return unrolled(
            ex.TextExpr((*ex.ESCAPED_IN_STRINGS, *heads), filled=part.filled),
            self.rules,
            end=ex.literal('"'),
            escape=ex.STRING_ESCAPE,
            after_words=dict.fromkeys(heads, rest),
        )

    def _rare_string_end(self, without: tuple[str, ...]) -> str:
        inside = ex.TextExpr((*ex.ESCAPED_IN_STRINGS, *without))
        self.ended_text(inside, '"')
        text = self.ended_text(inside, "\\")
        more = self.rules.reserved("string").name
        again = f"{self.string(chr(34))} | {self.expression(ex.STRING_ESCAPE)} {text} {more}"
        self.written[more] = self.line(more, f"({again}){_FOLLOWS_STRING}")
        return self.new_rule("string", f"({text} {more}){_FOLLOWS_STRING}")

    def repeated(self, part: ex.RepeatExpr) -> str:
        """A repetition without an upper bound, as a rule that refers to itself.

        For a group that holds a wide set, the engine's own repetition takes a third of a second for
        a mask.
        """
        if part.most is not None or isinstance(part.part, ex.CharSet):
            return super().repeated(part)
        if part not in self.loops:
            name = self.loops[part] = self.rules.reserved("loop").name
            once = self.closed(part.part)
            self.written[name] = self.line(name, f"({once} {name})?")
        first = [self.closed(part.part)] * part.least
        return f"({' '.join([*first, self.loops[part]])})"


def _text_in(part: Expression) -> ex.TextExpr | None:
    inside = part.part if isinstance(part, ex.LexemeExpr) else part
    return inside if isinstance(inside, ex.TextExpr) else None


def _first(part: Expression | None) -> str | None:
    """The character that an expression begins with, if it is one."""
    return part.text[0] if isinstance(part, (ex.LiteralExpr, ex.TokenExpr)) else None


def _shortened(part: ex.TextExpr) -> ex.TextExpr:
    """A text with suffixes in place of its words: each character of a word costs the engine."""
    words = tuple(dict.fromkeys(RARE_ENDS.get(word, word) for word in part.without))
    if words == part.without:
        return part
    return replace(part, without=words, begun=search_for(words).walk("", part.begun) or "")


def _cut_at_bar(word: str) -> str:
    """A word up to its first character beyond ASCII."""
    return next((word[: n + 1] for n, c in enumerate(word) if not c.isascii()), word)


def _escaped(character: str) -> str:
    return _NAMED.get(character) or escaped(character)
