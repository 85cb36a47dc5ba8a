"""xgrammar's EBNF, which vLLM and SGLang read."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from dsv4.grammar.automaton import search_for, unrolled
from dsv4.grammar.markup import RARE_ENDS
from dsv4.grammar.quick_strings import QuickString, is_quick
from dsv4.grammar.rules import (
    Chars,
    Expression,
    Lexeme,
    Literal,
    Reference,
    Repeat,
    Sequence,
    StringEnd,
    Text,
    Token,
    chars,
    literal,
)
from dsv4.grammar.strings import ESCAPE, SPECIAL
from dsv4.grammar.writing import Writer, shorter

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# What may follow the end of a JSON string: white space, a sign, or the tag that ends a value.
_FOLLOWS_STRING = r" (=[\n ,:<\]}])"


class EbnfWriter(Writer):
    """Writes EBNF with xgrammar's macro for a text without some words.

    The macro costs the engine next to nothing, rules that say the same a sixth of a second. Never a
    `\\x` escape: the engine reads as many hexadecimal digits as follow.
    """

    def __init__(self, bodies: dict[str, Expression]) -> None:
        super().__init__(bodies)
        self.string_ends: dict[StringEnd, str] = {}
        self.quick_strings: dict[str, QuickString] = {}
        self.loops: dict[Repeat, str] = {}
        # Texts that something follows: the rule's name, and what that may begin with.
        self.ended: dict[Text, tuple[str, set[str]]] = {}

    def string(self, text: str) -> str:
        return '"' + "".join(_escaped(c, {'"': '\\"', **_NAMED}) for c in text) + '"'

    def characters(self, part: Chars) -> str:
        negated, ranges = shorter(part)
        known = {**_NAMED, "]": "\\]", "[": "\\[", "^": "\\^", "-": "\\-"}
        spelled = "".join(
            _escaped(chr(first), known)
            + ("" if first == last else "-" + _escaped(chr(last), known))
            for first, last in ranges
        )
        return f"[{'^' if negated else ''}{spelled}]"

    def grammar(self, root: Expression) -> str:
        written = super().grammar(root)
        ends = [
            self.line(name, f"{self._macro(part)} (={self.characters(chars(''.join(follows)))})")
            for part, (name, follows) in self.ended.items()
        ]
        return "\n".join([written.rstrip("\n"), *ends, ""])

    def sequence(self, part: Sequence) -> str:
        pieces = [
            self.ended_text(_text_in(piece), _first(following)) or self.closed(piece)
            for piece, following in zip_longest(part.parts, part.parts[1:])
        ]
        return " ".join(pieces)

    def ended_text(self, part: Text | None, follows: str | None) -> str | None:
        """A text that something follows. To know what makes masks five times as quick."""
        if part is None or follows is None or part.begun or part.filled:
            return None
        part = _shortened(part)
        if part not in self.ended:
            self.ended[part] = (self.rules.reserved("text").name, set())
        name, first = self.ended[part]
        first.add(follows)
        return name

    def _macro(self, part: Text) -> str:
        return f"TagDispatch(excludes=({', '.join(map(self.string, part.without))},))"

    def text(self, part: Text) -> str:
        return super().text(_shortened(part))

    def new_text(self, part: Text) -> str:
        if not part.begun and not part.filled:
            return self.new_rule("text", self._macro(part))
        root = Reference(self.text(Text(part.without)))
        # A text that must not be empty does not begin with a bar: each state would cost the engine
        # as much as a whole text.
        words = part.without if part.begun else tuple(map(_cut_at_bar, part.without))
        made = unrolled(Text(words, part.begun, part.filled), self.rules, root=root)
        return self.new_rule("text", self.with_new_rules(made))

    def string_end(self, part: StringEnd) -> str:
        """With the macro, a mask would have to be looked up at every quote of the vocabulary.

        So a string is rules, with what may follow it, which tells the engine what tokens are right.
        """
        if part not in self.string_ends:
            made = self._quick if is_quick(part.without) else self._searched
            self.string_ends[part] = self.with_new_rules(made(part), _FOLLOWS_STRING)
        return self.string_ends[part]

    def _quick(self, part: StringEnd) -> Expression:
        word = part.without[0]
        if word not in self.quick_strings:
            self.quick_strings[word] = QuickString(word, self.rules)
        string = self.quick_strings[word]
        return string.filled() if part.filled else string.whole()

    def _searched(self, part: StringEnd) -> Expression:
        """Where many words must not come: each state of the search would cost as much as a string.

        So after what a word begins with, the macro takes over, without the rests of words.
        """
        rests = tuple(dict.fromkeys(RARE_ENDS.get(word, word[1:]) for word in part.without))
        rest = Reference(self._rare_string_end(rests))
        heads = dict.fromkeys(word[0] for word in part.without)
        return unrolled(
            Text((*SPECIAL, *heads), filled=part.filled),
            self.rules,
            end=literal('"'),
            escape=ESCAPE,
            after_words=dict.fromkeys(heads, rest),
        )

    def _rare_string_end(self, without: tuple[str, ...]) -> str:
        inside = Text((*SPECIAL, *without))
        for follows in '"\\':
            text = self.ended_text(inside, follows)
        more = self.rules.reserved("string").name
        again = f"{self.string(chr(34))} | {self.expression(ESCAPE)} {text} {more}"
        self.written[more] = self.line(more, f"({again}){_FOLLOWS_STRING}")
        return self.new_rule("string", f"({text} {more}){_FOLLOWS_STRING}")

    def repeated(self, part: Repeat) -> str:
        """A group that may come any number of times as a rule that calls itself.

        For a group that holds a wide set, the engine's own repetition takes a third of a second for
        a mask.
        """
        if part.most is not None or isinstance(part.part, Chars):
            return super().repeated(part)
        if part not in self.loops:
            name = self.loops[part] = self.rules.reserved("loop").name
            once = self.closed(part.part)
            self.written[name] = self.line(name, f"({once} {name})?")
        first = [self.closed(part.part)] * part.least
        return f"({' '.join([*first, self.loops[part]])})"


def _text_in(part: Expression) -> Text | None:
    inside = part.part if isinstance(part, Lexeme) else part
    return inside if isinstance(inside, Text) else None


def _first(part: Expression | None) -> str | None:
    """The character that an expression begins with, if it is one."""
    return part.text[0] if isinstance(part, (Literal, Token)) else None


def _shortened(part: Text) -> Text:
    """A text with the ends of words for the words: each character of them costs the engine."""
    words = tuple(dict.fromkeys(RARE_ENDS.get(word, word) for word in part.without))
    if words == part.without:
        return part
    return replace(part, without=words, begun=search_for(words).walk("", part.begun) or "")


def _cut_at_bar(word: str) -> str:
    """A word up to its first character beyond ASCII."""
    return next((word[: n + 1] for n, c in enumerate(word) if not c.isascii()), word)


def _escaped(character: str, known: dict[str, str]) -> str:
    if character in known:
        return known[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
