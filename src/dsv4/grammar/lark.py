"""llguidance's variant of Lark."""

from __future__ import annotations

from dsv4.grammar.automaton import Search
from dsv4.grammar.rules import Chars, Expression, Lexeme, Reference, Text, Token
from dsv4.grammar.writing import Writer, shorter

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_ANYTHING = "(?s:.*)"
_SOMETHING = "(?s:.+)"


class LarkWriter(Writer):
    """Writes Lark: a lexeme is a terminal, named in capitals, and all else is rules.

    A text without some words is the complement of those that hold one. The think tokens are never
    text to llguidance, and are named by their spelling.
    """

    root = "start"
    define = "{name}: {body}"

    def __init__(self, bodies: dict[str, Expression]) -> None:
        super().__init__(bodies)
        self.terminals: dict[Lexeme, str] = {}
        self.inside = False

    def token(self, part: Token) -> str:
        return part.text

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
        if part not in self.terminals:
            name = self.terminals[part] = self.rules.reserved("piece").name.upper()
            outside, self.inside = self.inside, True
            self.written[name] = self.line(name, self.expression(part.part))
            self.inside = outside
        return self.terminals[part]

    def reference(self, part: Reference) -> str:
        """A rule; inside a terminal, which knows no rules, another terminal of the same body."""
        return self.lexeme(Lexeme(self.given[part.name])) if self.inside else part.name

    def new_text(self, part: Text) -> str:
        name = self.rules.reserved("text").name.upper()
        some = _SOMETHING if part.filled else _ANYTHING
        self.written[name] = self.line(name, f"/{some}/ & ~/{'|'.join(_held(part))}/")
        return name


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
