"""llguidance's variant of Lark."""

from __future__ import annotations

from dsv4.grammar.automaton import Search
from dsv4.grammar.rules import Chars, Lexeme, Reference, Text
from dsv4.grammar.writing import Writer, shorter

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_ANYTHING = "(?s:.*)"


class LarkWriter(Writer):
    """Writes Lark: a lexeme is a terminal, named in capitals, and all else is rules.

    A text without some words is the complement of those that hold one.
    """

    root = "start"
    define = "{name}: {body}"

    def string(self, text: str) -> str:
        return '"' + "".join(_NAMED.get(c) or _in_string(c) for c in text) + '"'

    def characters(self, part: Chars) -> str:
        negated, ranges = shorter(part)
        spelled = "".join(
            _in_expression(chr(first)) + ("" if first == last else "-" + _in_expression(chr(last)))
            for first, last in ranges
        )
        return f"/[{'^' if negated else ''}{spelled}]/"

    def lexeme(self, part: Lexeme) -> str:
        return self.terminal(part)

    def terminal(self, part: Lexeme) -> str:
        known = self.lexemes.get(part)
        if known is None:
            known = self.lexemes[part] = self.rules.reserved("piece").name.upper()
            body = self.expression(part.part)
            self.written[known] = self.line(known, body)
        return known

    def __init__(self, bodies):  # type: ignore[no-untyped-def]
        super().__init__(bodies)
        self.lexemes: dict[Lexeme, str] = {}

    def text(self, part: Text) -> str:
        if part not in self.texts:
            name = self.texts[part] = self.rules.reserved("text").name.upper()
            some = _ANYTHING[:-2] + "+)" if part.filled else _ANYTHING
            held = "|".join(_held(part))
            self.written[name] = self.line(name, f"/{some}/ & ~/{held}/")
        return self.texts[part]

    def reference(self, part: Reference) -> str:
        return part.name


def _held(part: Text) -> list[str]:
    """What must not be: a word anywhere, or at the start the rest of one that was begun."""
    search = Search(part.without)
    begun = [part.begun[n:] for n in range(len(part.begun))]
    rests = [
        word[len(start) :] for word in search.words for start in begun if word.startswith(start)
    ]
    words = "|".join("".join(map(_in_expression, word)) for word in part.without)
    found = [f"{_ANYTHING}({words}){_ANYTHING}"]
    return found + ["".join(map(_in_expression, rest)) + _ANYTHING for rest in rests]


def _in_string(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _in_expression(character: str) -> str:
    """Never `\\u` for ASCII, which the engine does not read."""
    if character in "\n\r\t":
        return _NAMED[character]
    if character.isascii() and not character.isalnum() and character.isprintable():
        return character if character in " <>\"'=,:;%@!_`~#&" else f"\\{character}"
    return character if character.isprintable() else f"\\x{{{ord(character):x}}}"
