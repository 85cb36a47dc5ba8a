"""GBNF, which llama.cpp reads."""

from __future__ import annotations

from dsv4.grammar.automaton import unrolled
from dsv4.grammar.rules import Chars, Text
from dsv4.grammar.writing import Writer, shorter

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


class GbnfWriter(Writer):
    """Writes GBNF, with a rule for each state of the search for words: there these cost nothing."""

    def string(self, text: str) -> str:
        return '"' + "".join(_NAMED.get(c) or _escaped(c) for c in text) + '"'

    def characters(self, part: Chars) -> str:
        negated, ranges = shorter(part)
        spelled = "".join(
            _in_set(first) + ("" if first == last else "-" + _in_set(last))
            for first, last in ranges
        )
        return f"[{'^' if negated else ''}{spelled}]"

    def new_text(self, part: Text) -> str:
        return self.with_new_rules(unrolled(part, self.rules))


def _in_set(code: int) -> str:
    character = chr(code)
    if character.isalnum() and character.isascii():
        return character
    return f"\\x{code:02x}" if code < 0x80 else _escaped(character)


def _escaped(character: str) -> str:
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
