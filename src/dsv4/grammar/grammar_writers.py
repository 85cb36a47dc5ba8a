"""Writers of grammars: the common part of all forms, GBNF for llama.cpp, and llguidance's variant
of Lark.
"""

from __future__ import annotations

from dsv4.grammar import expressions as ex
from dsv4.grammar.automaton import WordSearch, unrolled
from dsv4.grammar.expressions import Expression, Rules

# Common to all three forms of grammar: rules, sequences, alternatives, repetitions.


# In strings, GBNF and Lark escape these the same way.
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}


class GrammarWriter:
    """Writes rules. A subclass for each form spells the parts that differ."""

    root = "root"
    define = "{name} ::= {body}"

    def __init__(self, bodies: dict[str, Expression]) -> None:
        self.rules: Rules = Rules()
        self.bodies = bodies
        self.written: dict[str, str] = {}
        self.texts: dict[ex.TextExpr, str] = {}

    def grammar(self, root: Expression) -> str:
        """The whole grammar, its root first."""
        self.rules.bodies.update(self.bodies)
        lines = [self.line(self.root, self.expression(root))]
        lines += [self.line(name, self.expression(body)) for name, body in self.bodies.items()]
        return "\n".join([*lines, *self.written.values(), ""])

    def line(self, name: str, body: str) -> str:
        return self.define.format(name=name, body=body)

    def expression(self, part: Expression) -> str:
        if isinstance(part, ex.ChoiceExpr):
            return self.alternatives(part)
        if isinstance(part, ex.SequenceExpr):
            return self.sequence(part) or self.string("")
        return self.closed(part)

    def closed(self, part: Expression) -> str:
        """An expression that binds at least as tightly as a repetition."""
        if isinstance(part, ex.LiteralExpr):
            return self.string(part.text)
        if isinstance(part, ex.TokenExpr):
            return self.token(part)
        if isinstance(part, ex.CharSet):
            return self.characters(part)
        if isinstance(part, ex.ReferenceExpr):
            return self.reference(part)
        if isinstance(part, ex.TextExpr):
            return self.text(part)
        if isinstance(part, ex.StringEndExpr):
            return self.string_end(part)
        if isinstance(part, ex.LexemeExpr):
            return self.lexeme(part)
        if isinstance(part, ex.RepeatExpr):
            return self.repeated(part)
        return f"({self.expression(part)})" if part != ex.EMPTY else self.string("")

    def alternatives(self, part: ex.ChoiceExpr) -> str:
        """One of the options. The empty option makes the others optional, because not every form
        can spell it."""
        if ex.EMPTY not in part.options:
            return " | ".join(map(self.expression, part.options))
        rest = ex.choice(*(option for option in part.options if option != ex.EMPTY))
        return f"({self.expression(rest)})?"

    def sequence(self, part: ex.SequenceExpr) -> str:
        return " ".join(map(self.closed, part.parts))

    def repeated(self, part: ex.RepeatExpr) -> str:
        once = self.closed(part.part)
        # No form accepts two counts in a row.
        return (f"({once})" if isinstance(part.part, ex.RepeatExpr) else once) + _count(part)

    def reference(self, part: ex.ReferenceExpr) -> str:
        return part.name

    def text(self, part: ex.TextExpr) -> str:
        if part not in self.texts:
            self.texts[part] = self.new_text(part)
        return self.texts[part]

    # Rules that only one form needs.

    def new_rule(self, hint: str, body: str) -> str:
        name = self.rules.reserved(hint).name
        self.written[name] = self.line(name, body)
        return name

    def with_new_rules(self, part: Expression, follows: str = "") -> str:
        """Writes an expression, and the rules that were made for it, each with `follows` added."""
        for name, body in list(self.rules.bodies.items()):
            if name not in self.bodies and name not in self.written:
                self.written[name] = ""  # they may refer to each other
                self.written[name] = self.line(name, f"({self.expression(body)}){follows}")
        return self.closed(part)

    # The parts that differ between forms.

    def token(self, part: ex.TokenExpr) -> str:
        return self.string(part.text)

    def string(self, text: str) -> str:
        raise NotImplementedError

    def characters(self, part: ex.CharSet) -> str:
        """A set by its ranges or, if it extends to the last character, by the ranges not in it."""
        negated, ranges = "", part.ranges
        if ranges[-1][1] == ex.LAST_CHARACTER:
            negated, ranges = "^", ex.complement(*ranges).ranges or ((0, 0),)
        spelled = "".join(
            self.in_set(chr(first)) + ("" if first == last else "-" + self.in_set(chr(last)))
            for first, last in ranges
        )
        return f"[{negated}{spelled}]"

    def in_set(self, character: str) -> str:
        raise NotImplementedError

    def new_text(self, part: ex.TextExpr) -> str:
        raise NotImplementedError

    def string_end(self, part: ex.StringEndExpr) -> str:
        return self.closed(ex.expanded_string_end(part))

    def lexeme(self, part: ex.LexemeExpr) -> str:
        return self.closed(part.part)


def _count(part: ex.RepeatExpr) -> str:
    marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (part.least, part.most) in marks:
        return marks[part.least, part.most]
    if part.least == part.most:
        return f"{{{part.least}}}"
    return f"{{{part.least},{'' if part.most is None else part.most}}}"


def escaped(character: str) -> str:
    """A character as it is if it can be printed, otherwise by its number."""
    code = ord(character)
    if character.isprintable():
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# GBNF, which llama.cpp reads.


class GbnfWriter(GrammarWriter):
    """Writes GBNF, with a rule for each state of the search for words, which cost nothing there."""

    def token(self, part: ex.TokenExpr) -> str:
        return super().token(part) if part.id is None else f"<[{part.id}]>"

    def string(self, text: str) -> str:
        return '"' + "".join(_ESCAPES.get(c) or _gbnf_escaped(c) for c in text) + '"'

    def in_set(self, character: str) -> str:
        if character.isalnum() and character.isascii():
            return character
        return f"\\x{ord(character):02x}" if character.isascii() else _gbnf_escaped(character)

    def new_text(self, part: ex.TextExpr) -> str:
        return self.with_new_rules(unrolled(part, self.rules))


def _gbnf_escaped(character: str) -> str:
    is_short = ord(character) < 0x100 and not character.isprintable()
    return f"\\x{ord(character):02x}" if is_short else escaped(character)


# llguidance's variant of Lark.


_ANYTHING = "(?s:.*)"
_SOMETHING = "(?s:.+)"


class LarkWriter(GrammarWriter):
    """Writes Lark: a lexeme becomes a terminal, named in capitals, and everything else rules.

    A text without some words is the complement of the texts that hold one. To llguidance, the think
    tokens are never text, and are named by their spelling.
    """

    root = "start"
    define = "{name}: {body}"

    def __init__(self, bodies: dict[str, Expression]) -> None:
        super().__init__(bodies)
        self.terminals: dict[ex.LexemeExpr, str] = {}
        self.inside = False

    def token(self, part: ex.TokenExpr) -> str:
        return part.text if part.id is None else f"<[{part.id}]>"

    def string(self, text: str) -> str:
        return '"' + "".join(_ESCAPES.get(c) or escaped(c) for c in text) + '"'

    def characters(self, part: ex.CharSet) -> str:
        return f"/{super().characters(part)}/"

    def in_set(self, character: str) -> str:
        return _lark_in_regex(character)

    def lexeme(self, part: ex.LexemeExpr) -> str:
        if part not in self.terminals:
            name = self.terminals[part] = self.rules.reserved("piece").name.upper()
            outside, self.inside = self.inside, True
            self.written[name] = self.line(name, self.expression(part.part))
            self.inside = outside
        return self.terminals[part]

    def reference(self, part: ex.ReferenceExpr) -> str:
        """A rule; inside a terminal, which cannot have rules, another terminal of the same body."""
        return self.lexeme(ex.LexemeExpr(self.bodies[part.name])) if self.inside else part.name

    def new_text(self, part: ex.TextExpr) -> str:
        name = self.rules.reserved("text").name.upper()
        some = _SOMETHING if part.filled else _ANYTHING
        self.written[name] = self.line(name, f"/{some}/ & ~/{'|'.join(_held(part))}/")
        return name


def _held(part: ex.TextExpr) -> list[str]:
    """The forbidden texts: with a word anywhere, or with the rest of a begun word at the start."""
    search = WordSearch(part.without)
    begun = [part.begun[n:] for n in range(len(part.begun))]
    rests = [
        word[len(start) :] for word in search.words for start in begun if word.startswith(start)
    ]
    words = "|".join("".join(map(_lark_in_regex, word)) for word in part.without)
    results = [f"{_ANYTHING}({words}){_ANYTHING}"]
    return results + ["".join(map(_lark_in_regex, rest)) + _ANYTHING for rest in rests]


def _lark_in_regex(character: str) -> str:
    """A character in a regular expression; never `\\u` for ASCII, which the engine cannot read."""
    if character in "\n\r\t":
        return _ESCAPES[character]
    if character.isascii() and not character.isalnum() and character.isprintable():
        return character if character in " <>\"'=,:;%@!_`~#&" else f"\\{character}"
    return character if character.isprintable() else f"\\x{{{ord(character):x}}}"
