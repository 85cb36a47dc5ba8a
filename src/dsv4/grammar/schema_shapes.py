"""JSON schemas -> shapes: alternatives without references and combinations; and the keywords that a
grammar does not enforce.

A schema is first rewritten as a choice of alternatives, each of which merges all schemas that must
hold, so that the code that makes rules from a shape sees only plain keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from dsv4._format.texts import read_table
from dsv4.errors import Location, mismatch, path_of, refusal, short_repr
from dsv4.schema import TYPES, Schema, json_identity, resolve

# Keywords that a grammar does not enforce.


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One keyword that the grammar does not enforce, or not in full.

    `location` is its place in the caller's data, `path` the same as text
    (`tools[0].function.parameters.properties.email.format`), `keyword` its last step, and `reason`
    says what is not checked, or why.
    """

    location: Location
    reason: str

    @property
    def path(self) -> str:
        """The location as people write it."""
        return path_of(self.location)

    @property
    def keyword(self) -> str:
        """The keyword's name."""
        return str(self.location[-1])

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Relaxations:
    """The relaxations of one grammar, each place once, in the order in which they were found.

    If the caller wants an exact grammar, the first one is an error.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._noted: dict[Location, Relaxation] = {}

    def note(self, location: Location, reason: str) -> None:
        if self._exact:
            raise refusal(location, f"cannot be enforced: {reason}; expected none with exact=True")
        self._noted.setdefault(location, Relaxation(location, reason))

    def listed(self) -> tuple[Relaxation, ...]:
        return tuple(self._noted.values())


# Shapes.


# A schema with many alternatives under several allOf could become any number of shapes.
MOST_SHAPES = 256
# Schemas nested deeper than this are of no use to a model, and dangerous to recursive functions.
MOST_NESTED = 64


class Subschema(NamedTuple):
    """A schema and its location."""

    schema: object
    location: Location


# Schemas that must all hold. An empty tuple allows any value.
Conjunction: TypeAlias = tuple[Subschema, ...]


class Keyword(NamedTuple):
    """The value of a keyword and its location."""

    value: Any
    location: Location


@dataclass(frozen=True)
class Shape:
    """The requirements of one alternative of a schema.

    `additional` is None if the schema does not mention undeclared members.
    """

    keywords: dict[str, Keyword] = field(default_factory=dict)
    properties: dict[str, Conjunction] = field(default_factory=dict)
    declares: bool = False
    additional: Conjunction | None = None
    prefix: tuple[Conjunction, ...] = ()
    items: Conjunction = ()

    def get(self, keyword: str, default: object = None) -> Any:
        value = self.keywords.get(keyword)
        return default if value is None else value.value

    @property
    def types(self) -> tuple[str, ...]:
        named: tuple[str, ...] = self.get("type", TYPES)
        return named


# Reading one schema's own keywords.


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _whole(value: object) -> object:
    """An integer that is written as a float, as that integer: in JSON Schema, `2.0` means 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value)


# The simple keywords: the check of the value, and the words for an error.
_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_is_count, "a count")),
    **dict.fromkeys(("minProperties", "maxProperties"), (_is_count, "a count")),
    **dict.fromkeys(("minimum", "maximum"), (_is_number, "a number")),
    "enum": (_is_list, "a list of values"),
    "pattern": (_is_text, "a regular expression"),
}
# Bounds that are numbers in current drafts, and flags beside the bound in the oldest.
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
# The keywords that no rule enforces: the type of value that each is about, the words for it, and
# the value that makes no requirement.
UNENFORCED: dict[str, dict[str, Any]] = read_table("unenforced_keywords", __file__)
_SOMETHING = object()


def own_shape(schema: Schema, location: Location) -> Shape:
    """The keywords of one schema, except references and combinations."""
    keywords: dict[str, Keyword] = {}
    for name, value in schema.items():
        place = (*location, name)
        if name in _CHECKS:
            fits, expected = _CHECKS[name]
            number = _whole(value) if fits is _is_count else value
            if not fits(number):
                raise refusal(place, mismatch(value, expected))
            keywords[name] = Keyword(number, place)
        elif name in _EXCLUSIVE:
            _read_exclusive(schema, name, place, keywords)
        elif name in UNENFORCED and value != UNENFORCED[name].get("says_nothing", _SOMETHING):
            keywords[name] = Keyword(value, place)
    for name, read in (("type", _types), ("required", _names)):
        if name in schema:
            place = (*location, name)
            keywords[name] = Keyword(read(schema[name], place), place)
    if "const" in schema:
        _narrow(keywords, "enum", Keyword([schema["const"]], (*location, "const")))
    return Shape(keywords, **_structure(schema, location))


def _read_exclusive(
    schema: Schema, name: str, place: Location, keywords: dict[str, Keyword]
) -> None:
    value = schema[name]
    if value is True:
        value = schema.get(_EXCLUSIVE[name])
    if _is_number(value):
        keywords[name] = Keyword(value, place)
    elif schema[name] is not False:
        raise refusal(place, mismatch(schema[name], "a number"))


def _types(value: object, location: Location) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, (list, tuple)) and listed and all(kind in TYPES for kind in listed):
        return tuple(dict.fromkeys(listed))
    expected = f"one of {', '.join(TYPES)}, or a list of these"
    raise refusal(location, mismatch(value, expected))


def _names(value: object, location: Location) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(dict.fromkeys(value))
    raise refusal(location, mismatch(value, "a list of names"))


def _structure(schema: Schema, location: Location) -> dict[str, Any]:
    """The keywords that hold schemas themselves."""
    fields: dict[str, Any] = {}
    properties = schema.get("properties")
    if properties is not None:
        place = (*location, "properties")
        if not isinstance(properties, Mapping):
            raise refusal(place, mismatch(properties, "an object of schemas"))
        wrong = next((name for name in properties if not isinstance(name, str)), None)
        if wrong is not None:
            raise refusal(place, f"found the name {short_repr(wrong)}, expected text")
        fields["declares"] = True
        fields["properties"] = {
            name: (Subschema(value, (*place, name)),) for name, value in properties.items()
        }
    if "patternProperties" in schema:  # any member, because names are not compared with patterns
        fields["additional"] = ()
    elif "additionalProperties" in schema:
        place = (*location, "additionalProperties")
        fields["additional"] = (Subschema(schema["additionalProperties"], place),)
    prefix, rest = _items(schema, location)
    return {**fields, "prefix": prefix, "items": rest}


def _items(schema: Schema, location: Location) -> tuple[tuple[Conjunction, ...], Conjunction]:
    """The schemas of the first items, and that of the others. Older drafts list the first in
    `items`."""
    older = isinstance(schema.get("items"), list)
    names = ("items", "additionalItems") if older else ("prefixItems", "items")
    listed = schema.get(names[0], [])
    place = (*location, names[0])
    if not isinstance(listed, (list, tuple)):
        raise refusal(place, mismatch(listed, "a list of schemas"))
    prefix = tuple((Subschema(value, (*place, n)),) for n, value in enumerate(listed))
    rest = (Subschema(schema[names[1]], (*location, names[1])),) if names[1] in schema else ()
    return prefix, rest


# Two shapes that must both hold.


def _narrow(keywords: dict[str, Keyword], name: str, other: Keyword) -> None:
    own = keywords.get(name)
    if own is None:
        keywords[name] = other
        return
    value = _CONJUNCTION_OF[name](own.value, other.value)
    keywords[name] = Keyword(value, own.location if value == own.value else other.location)


def _common_types(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    whole = "integer" if "number" in one + other else None
    either = set(one) & set(other) | ({whole} & (set(one) | set(other)) if whole else set())
    if "number" in set(one) & set(other):
        either.discard("integer")
    return tuple(kind for kind in TYPES if kind in either)


def _common_values(one: list[Any], other: list[Any]) -> list[Any]:
    identities = set(map(json_identity, other))
    return [value for value in one if json_identity(value) in identities]


_CONJUNCTION_OF: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "required": lambda one, other: tuple(dict.fromkeys(one + other)),
    "type": _common_types,
    "enum": _common_values,
}


class SchemaDocument:
    """A schema with references into it, and the shapes of its parts."""

    def __init__(self, root: object, location: Location, relaxations: Relaxations) -> None:
        self.root = root
        self.location = location
        self.relaxations = relaxations
        # The shapes of a schema are kept: many references may lead to it.
        self._shapes: dict[Location, list[Shape]] = {}

    def shapes(
        self, together: Conjunction, following: frozenset[Location] = frozenset()
    ) -> list[Shape]:
        """The alternatives of schemas that must all hold; empty if no value fits them."""
        alternatives = [Shape()]
        for part in together:
            alternatives = self._both(
                alternatives, self._alternatives(part, following), part.location
            )
        return alternatives

    def _alternatives(self, part: Subschema, following: frozenset[Location]) -> list[Shape]:
        if part.location not in self._shapes:
            self._shapes[part.location] = self._new_alternatives(part, following)
        return self._shapes[part.location]

    def _new_alternatives(self, part: Subschema, following: frozenset[Location]) -> list[Shape]:
        schema, location = part
        if schema is True or schema is False:
            return [Shape()] if schema else []
        if not isinstance(schema, Mapping):
            raise refusal(location, mismatch(schema, "a JSON schema"))
        if len(location) > len(self.location) + 2 * MOST_NESTED:
            raise refusal(self.location, f"found schemas nested deeper than {MOST_NESTED}")
        shapes = [own_shape(schema, location)]
        if "$ref" in schema:
            shapes = self._both(
                shapes, self._referred(schema["$ref"], location, following), location
            )
        own = shapes
        for n, member in enumerate(self._listed(schema, "allOf", location)):
            inside = self._alternatives(Subschema(member, (*location, "allOf", n)), following)
            shapes = self._both(shapes, inside, location)
        if own and not shapes:
            place = (*location, "allOf")
            self.relaxations.note(place, "its schemas contradict each other")
            shapes = own
        for word in ("anyOf", "oneOf"):
            if word in schema:
                shapes = self._both(
                    shapes, self._any_of(schema, word, location, following), location
                )
        return shapes

    def _any_of(
        self, schema: Schema, word: str, location: Location, following: frozenset[Location]
    ) -> list[Shape]:
        place = (*location, word)
        shapes: list[Shape] = []
        for n, member in enumerate(self._listed(schema, word, location)):
            shapes += self._alternatives(Subschema(member, (*place, n)), following)
        _check_number(len(shapes), place)
        if word == "oneOf":
            self.relaxations.note(place, "a value may fit more than one of its schemas")
        return shapes

    def _listed(self, schema: Schema, word: str, location: Location) -> list[Any]:
        listed = schema.get(word, [])
        if not isinstance(listed, (list, tuple)) or (word in schema and not listed):
            place = (*location, word)
            raise refusal(place, mismatch(listed, "a list of schemas"))
        return list(listed)

    # References.

    def resolved(self, together: Conjunction) -> Conjunction:
        """The same schemas with references replaced by their targets, each schema once."""
        schemas = (self._resolved(part) for part in together)
        return tuple({part.location: part for part in schemas}.values())

    def _resolved(self, part: Subschema) -> Subschema:
        passed: set[Location] = set()
        while (pointer := _only_refers(part.schema)) is not None:
            if part.location in passed:
                raise self._circle(pointer, part.location)
            passed.add(part.location)
            part = self.target(pointer, part.location)
        return part

    def _referred(
        self, pointer: object, location: Location, following: frozenset[Location]
    ) -> list[Shape]:
        target = self.target(pointer, location)
        if target.location in following:
            raise self._circle(pointer, location)
        return self._alternatives(target, following | {target.location})

    def _circle(self, pointer: object, location: Location) -> Exception:
        problem = f"found {short_repr(pointer)}, which refers to itself and to no value"
        return refusal((*location, "$ref"), problem)

    def target(self, pointer: object, location: Location) -> Subschema:
        """The schema that `#/…/…` points to."""
        place = (*location, "$ref")
        if not isinstance(pointer, str) or pointer[:1] != "#" or pointer[1:2] not in ("", "/"):
            expected = "a reference into the same schema, as #/$defs/name"
            raise refusal(place, mismatch(pointer, expected))
        schema = resolve(pointer, self.root)
        if schema is None:
            raise refusal(place, f"found {short_repr(pointer)}, which is not there")
        return Subschema(schema.schema, (*self.location, *schema.steps))

    # Conjunction.

    def _both(self, ones: list[Shape], others: list[Shape], location: Location) -> list[Shape]:
        _check_number(len(ones) * len(others), location)
        both = (self.both(one, other) for one in ones for other in others)
        return [shape for shape in both if shape is not None]

    def both(self, one: Shape, other: Shape) -> Shape | None:
        """The shape of the values that fit both; None if no value does."""
        merged = self._merged(one, other)
        return merged if _possible(merged) else None

    def _merged(self, one: Shape, other: Shape) -> Shape:
        if other == Shape():
            return one
        if one == Shape():
            return other
        return replace(
            one,
            keywords=self._merged_keywords(one.keywords, other.keywords),
            properties=dict(_merged_properties(one, other)),
            declares=one.declares or other.declares,
            additional=_merged_additional(one.additional, other.additional),
            prefix=tuple(_merged_prefix(one, other)),
            items=one.items + other.items,
        )

    def _merged_keywords(
        self, one: dict[str, Keyword], other: dict[str, Keyword]
    ) -> dict[str, Keyword]:
        merged = dict(one)
        for name, keyword in other.items():
            if name in _CONJUNCTION_OF or name not in merged:
                _narrow(merged, name, keyword)
            elif merged[name].value != keyword.value:
                reason = f"another {name} holds together with it, which is looked at instead"
                self.relaxations.note(keyword.location, reason)
        return merged


_NOTES = {"title", "description", "default", "examples", "deprecated", "$comment"}


def _only_refers(schema: object) -> str | None:
    """The pointer of a schema that is only a reference, apart from notes; otherwise None."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
        return None
    return schema["$ref"] if schema.keys() <= {"$ref", *_NOTES} else None


def _check_number(alternatives: int, location: Location) -> None:
    if alternatives > MOST_SHAPES:
        problem = f"found {alternatives} alternatives, expected at most {MOST_SHAPES}"
        raise refusal(location, problem)


def _merged_properties(one: Shape, other: Shape) -> Iterator[tuple[str, Conjunction]]:
    """The members of both shapes. A member that only one shape declares must also fit the other's
    schema of undeclared members."""
    for name in dict.fromkeys((*one.properties, *other.properties)):
        mine = one.properties.get(name, one.additional or ())
        theirs = other.properties.get(name, other.additional or ())
        yield name, mine + theirs


def _merged_additional(one: Conjunction | None, other: Conjunction | None) -> Conjunction | None:
    return None if one is None and other is None else (one or ()) + (other or ())


def _merged_prefix(one: Shape, other: Shape) -> Iterator[Conjunction]:
    for n in range(max(len(one.prefix), len(other.prefix))):
        mine = one.prefix[n] if n < len(one.prefix) else one.items
        theirs = other.prefix[n] if n < len(other.prefix) else other.items
        yield mine + theirs


def _possible(shape: Shape) -> bool:
    """Whether some value may fit, as far as the keywords tell."""
    return shape.types != () and shape.get("enum") != []
