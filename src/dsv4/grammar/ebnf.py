"""xgrammar's EBNF, which vLLM and SGLang read."""

from __future__ import annotations

from dsv4.grammar.automaton import unrolled
from dsv4.grammar.rules import Chars, Reference, Text
from dsv4.grammar.writing import Writer, shorter

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


class EbnfWriter(Writer):
    """Writes EBNF with xgrammar's macro for a text without some words.

    The macro costs the engine next to nothing, rules that say the same a sixth of a second. Never a
    `\\x` escape: the engine reads as many hexadecimal digits as follow.
    """

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

    def text(self, part: Text) -> str:
        if part not in self.texts:
            self.texts[part] = self._new_text(part)
        return self.texts[part]

    def _new_text(self, part: Text) -> str:
        if not part.begun and not part.filled:
            name = self.rules.reserved("text").name
            words = ", ".join(map(self.string, part.without))
            self.written[name] = self.line(name, f"TagDispatch(excludes=({words},))")
            return name
        return self._begun_text(part)

    def _begun_text(self, part: Text) -> str:
        """The states of the search up to where it is back at its start, and the macro from there."""
        root = Reference(self.text(Text(part.without)))
        # A text that must not be empty does not begin with a bar: each state would cost the engine
        # as much as a whole text.
        words = part.without if part.begun else tuple(map(_cut_at_bar, part.without))
        known = set(self.rules.bodies)
        made = unrolled(Text(words, part.begun, part.filled), self.rules, root)
        for name in [name for name in self.rules.bodies if name not in known]:
            self.written[name] = self.line(name, self.expression(self.rules.bodies[name]))
        name = self.rules.reserved("text").name
        self.written[name] = self.line(name, self.expression(made))
        return name


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
