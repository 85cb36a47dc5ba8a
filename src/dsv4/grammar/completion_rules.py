"""A completion as rules: reasoning, content, calls (docs/format.md, section 8), and the format's
markup as a grammar needs it.

The token that ends a completion is not text, so it is not here: an engine allows it wherever the
rules may end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsv4._format import tokens
from dsv4._format.dialects import Dialect
from dsv4.errors import Location, mismatch, refusal
from dsv4.grammar import expressions as ex
from dsv4.grammar.expressions import Expression, Rules
from dsv4.grammar.json_rules import JsonRules, name_unlike
from dsv4.grammar.schema_shapes import (
    Conjunction,
    Keyword,
    Relaxations,
    SchemaDocument,
    Shape,
    Subschema,
)
from dsv4.grammar.value_rules import Member, Members, ValueRules
from dsv4.schema import Schema

# The format's markup. Other modules of this package do not know its source.


# Suffixes of the long released tokens, each shared by two of them: no other token has them, hardly
# any other text, and they are quicker to look for.
RARE_ENDS: dict[str, str] = {
    **dict.fromkeys((tokens.BOS, tokens.EOS), tokens.EOS[-4:]),
    **dict.fromkeys((tokens.THINK_START, tokens.THINK_END), tokens.THINK_START[1:]),
}
# The ways to write the special tokens that a completion needs: as tokens, or as their text.
Markers: TypeAlias = Literal["tokens", "text"]
MARKERS: tuple[Markers, ...] = ("tokens", "text")


def visible_tokens(dialect: Dialect) -> tuple[str, ...]:
    """The tokens that a server must neither hide nor split."""
    own = dialect.tokens
    return str(dialect.tags.dsml), str(own.think_start), str(own.think_end)


def marker_ids(dialect: Dialect, markers: Markers | Mapping[str, int]) -> dict[str, int]:
    """The ids of the special tokens that a completion needs, if they are to be written as tokens:
    those of a vocabulary, or those of the dialect. Empty if one of them is unknown."""
    if markers == "text":
        return {}
    ids: Mapping[str, int | None] = {str(token): token.id for token in dialect.special_tokens}
    if isinstance(markers, Mapping):
        ids = markers
    wanted = visible_tokens(dialect)
    visible = {marker: id for marker in wanted if (id := ids.get(marker)) is not None}
    return visible if len(visible) == len(wanted) else {}


class CallMarkup:
    """The markup of a completion in one dialect (docs/format.md, section 8).

    `ids` are those of special tokens. A token without an id is written as its text.
    """

    def __init__(self, dialect: Dialect, ids: Mapping[str, int]) -> None:
        own, tags = dialect.tokens, dialect.tags

        def written(text: str) -> Expression:
            return _with_tokens(text, tags.dsml, ids)

        # llguidance always treats this as a token.
        reasoning_end = str(own.think_end)
        self.reasoning_end = ex.TokenExpr(reasoning_end, ids.get(reasoning_end))
        self.block_open = written(tags.block_open)
        self.block_close = written(tags.block_close.lstrip("\n"))
        self.invoke_open = written(tags.invoke_open)
        self.name_end = tags.name_end
        self.invoke_close = written(tags.invoke_close.lstrip("\n") + "\n")
        self.parameter_open = written(tags.parameter_open)
        self.string_true, self.string_false = tags.string_true, tags.string_false
        self.parameter_close = written(tags.parameter_close)
        # The text that a value must not hold, because readers end it there. Without the bracket
        # before it: section 11.5.
        self.value_end = str(tags.parameter_close)[1:-1]
        # The token of all tags; and the tokens that reasoning and content must not hold (section
        # 8).
        self.dsml = str(tags.dsml)
        forbidden = own.bos, own.eos, own.think_start, own.think_end, tags.dsml
        self.forbidden: tuple[str, ...] = tuple(map(str, forbidden))
        self.free_text: Expression = ex.TextExpr(self.forbidden)


def _with_tokens(text: str, dsml: tokens.Special, ids: Mapping[str, int]) -> Expression:
    """The text of a tag, with its special token as a token if its id is known."""
    parts = tokens.markup(text, (dsml,)).parts
    return ex.sequence(
        *(ex.TokenExpr(part, ids[part]) if part in ids else ex.literal(str(part)) for part in parts)
    )


# The completion, and calls as rules: a tool's schema -> its invoke, parameter by parameter.


# Characters that a name in a tag cannot hold.
_NOT_IN_NAMES = '"\n'


@dataclass(frozen=True)
class GrammarTool:
    """A declared tool: its name as the model writes it, its schema, and its location."""

    name: str
    parameters: object
    location: Location


class CompletionRules:
    """The rules for a completion in one dialect: content, and calls of declared tools."""

    def __init__(
        self,
        markup: CallMarkup,
        rules: Rules,
        relaxations: Relaxations,
        any_order: bool,
        markup_in_values: bool,
    ) -> None:
        self.markup = markup
        self.rules = rules
        self.relaxations = relaxations
        self.any_order = any_order
        # Words that a value must not hold.
        self.words: tuple[str, ...] = (markup.value_end if markup_in_values else markup.dsml,)
        self.json: JsonRules = JsonRules(rules, self.words)

    def content_then(
        self, answer: Expression | None, calls: Expression, required: bool, preamble: bool
    ) -> Expression:
        """Only content, or content and calls. `answer` replaces free content."""
        free, opened = self.markup.free_text, self.markup.block_open
        content = ex.lexeme(free) if answer is None else answer
        without_calls = ex.NEVER if required else content
        if calls == ex.NEVER:
            return without_calls
        if not preamble:
            before = opened
        elif answer is None:
            before = ex.until(free, opened)
        else:
            before = ex.sequence(ex.choice(ex.EMPTY, answer), opened)
        return ex.choice(without_calls, ex.sequence(before, calls))

    def calls(self, invokes: tuple[Expression, ...], parallel: bool) -> Expression:
        """The calls of a block, each from its name on, and the block's closing tag."""
        if not invokes:
            return ex.NEVER
        one = ex.sequence(self.markup.invoke_open, ex.choice(*invokes))
        some = ex.repeat(self.rules.named("invoke", one), 1, None if parallel else 1)
        return self.rules.named("calls", ex.sequence(some, self.markup.block_close))

    def invoke(self, tool: GrammarTool) -> Expression:
        """One call from its name on: the tag before the name is common to all."""
        _check_name(tool.name, (*tool.location, "name"), self.markup)
        arguments = self.rules.named("arguments", self._arguments(tool))
        written = ex.sequence(
            ex.literal(tool.name + self.markup.name_end), arguments, self.markup.invoke_close
        )
        return self.rules.named("call", written)

    def _arguments(self, tool: GrammarTool) -> Expression:
        """All parameters. A call without parameters has an empty line, or no line."""
        location = (*tool.location, "parameters")
        schema = _object_schema(tool.parameters, location)
        document = SchemaDocument(schema, location, self.relaxations)
        values = _Parameters(document, self)
        object_only = Shape({"type": Keyword(("object",), location)})
        shapes = [
            merged
            for shape in document.shapes((Subschema(schema, location),))
            if (merged := document.both(shape, object_only)) is not None
        ]
        return ex.choice(*(values.arranged(shape) for shape in shapes))


class _Parameters(ValueRules):
    """The parameters that fit a schema."""

    def __init__(self, document: SchemaDocument, calls: CompletionRules) -> None:
        super().__init__(document, calls.json, calls.rules, calls.any_order)
        self.calls = calls
        self.markup = calls.markup

    def arranged(self, shape: Shape) -> Expression:
        self.kinds(shape)  # notes keywords that are not enforced
        if (listed := self.constants(shape)) is not None:
            place = shape.keywords["enum"].location
            return ex.choice(*(self._constant(v, (*place, n)) for n, v in enumerate(listed)))
        declared, additional = self.declared(shape)
        members = []
        for name, together, required in declared:
            written = self.parameter(name, together)
            if written != ex.NEVER:
                members.append(Member(written, required))
            elif required:
                return ex.NEVER
        names = tuple(name for name, *_ in declared)
        other = ex.NEVER if additional is None else self._other(shape, names, additional)
        rule = Members(tuple(members), other, ex.EMPTY).arranged(self.rules, self.any_order)
        needed = any(member.required for member in members)
        return rule if needed else ex.choice(rule, ex.literal("\n"))

    def parameter(self, name: str, together: Conjunction) -> Expression:
        """One parameter and the end of its line."""
        location = together[0].location if together else self.document.location
        _check_name(name, location, self.markup)
        value = self._typed_value(together)
        opening = ex.sequence(self.markup.parameter_open, ex.literal(name))
        return self.rules.named("parameter", ex.sequence(opening, value))

    def _other(self, shape: Shape, names: tuple[str, ...], additional: Conjunction) -> Expression:
        key = _other_name(self.apart(shape, names), self.markup, self.rules)
        value = self._typed_value(additional, key)
        if value == ex.NEVER:
            return ex.NEVER
        place = self._additional_location(shape)
        self.relaxations.note(place, "an undeclared parameter may be given twice")
        return self.rules.named("parameter", ex.sequence(self.markup.parameter_open, value))

    def _typed_value(self, together: Conjunction, name: Expression = ex.EMPTY) -> Expression:
        """A value, from the attribute that gives its type to the end of the line.

        `name` comes before it: an undeclared name is one piece with the attribute that ends it.
        """
        markup = self.markup
        raw, other = self._values(together)
        closing = markup.parameter_close
        ways = []
        if raw != ex.NEVER:
            opening = _joined(name, ex.literal(markup.string_true))
            closed = self.rules.named("closed", ex.until(raw, closing))
            ways.append(ex.sequence(opening, closed, ex.literal("\n")))
        if other != ex.NEVER:
            opening = _joined(name, ex.literal(markup.string_false))
            value = self.rules.named("value", other)
            ways.append(ex.sequence(opening, value, closing, ex.literal("\n")))
        return ex.choice(*ways)

    def _values(self, together: Conjunction) -> tuple[Expression, Expression]:
        """The fitting strings as raw text, and the other fitting values as JSON."""
        raw: list[Expression] = []
        other: list[Expression] = []
        for shape in self.document.shapes(together):
            constants = self.constants(shape)
            if constants is not None:
                raw += [self._raw_constant(value) for value in constants if isinstance(value, str)]
                other.append(self.listed([v for v in constants if not isinstance(v, str)]))
                continue
            for kind in self.kinds(shape):
                if kind == "string":
                    raw.append(self._raw(shape))
                else:
                    other.append(self._typed(shape, kind))
        return ex.choice(*raw), ex.choice(*other)

    def _raw(self, shape: Shape) -> Expression:
        """A string as raw text."""
        rule = self.patterned(shape, lambda part: part)
        return ex.TextExpr(self.calls.words, filled=self.filled(shape)) if rule is None else rule

    def _raw_constant(self, value: str) -> Expression:
        """A listed string, if a model can write it."""
        ends_early = any(word in value for word in self.calls.words)
        return ex.NEVER if ends_early or not ex.has_no_surrogates(value) else ex.literal(value)

    def _constant(self, value: Mapping[str, object], location: Location) -> Expression:
        """Arguments that the schema lists."""
        parts = []
        for name, member in value.items():
            schema = Subschema({"const": member}, (*location, name))
            parts.append(self.parameter(name, (schema,)))
        return ex.sequence(*parts) if parts else ex.choice(ex.EMPTY, ex.literal("\n"))


def _joined(name: Expression, attribute: Expression) -> Expression:
    return attribute if name == ex.EMPTY else ex.lexeme(ex.sequence(name, attribute))


def _object_schema(schema: object, location: Location) -> Schema:
    """The schema of a tool's parameters; a tool without a schema has no parameters."""
    if schema is None or schema == {}:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, Mapping):
        raise refusal(location, mismatch(schema, "a JSON schema of an object"))
    return schema


def _check_name(name: str, location: Location, markup: CallMarkup) -> None:
    if any(character in name for character in _NOT_IN_NAMES):
        problem = mismatch(name, "a name without quotes and line ends")
        raise refusal(location, f"{problem}: a tag cannot hold them")
    if markup.value_end in name:
        raise refusal(location, mismatch(name, "a name without markup"))
    if not ex.has_no_surrogates(name):
        raise refusal(location, mismatch(name, "whole characters"))


def _other_name(names: tuple[str, ...], markup: CallMarkup, rules: Rules) -> Expression:
    """A name other than these, without the characters of markup."""
    usual = ex.complement(f'"<>\n\r{markup.dsml[0]}')
    rest = rules.named("name", ex.repeat(usual, 0, None))
    return name_unlike(map(tuple, names), usual, rest, end=ex.EMPTY, empty=False)
