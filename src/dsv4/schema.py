"""Reading JSON Schemas: references, types, alternatives and properties.

A schema comes from outside and may be anything. Nothing here raises: a keyword with a wrong value
counts as absent. A caller that has to refuse such a value looks at the keyword itself.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

Schema: TypeAlias = Mapping[str, object]
"""The JSON object that describes a value."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
COMBINATIONS = ("anyOf", "oneOf", "allOf")
_OTHER_SCHEMAS = frozenset({"$ref", *COMBINATIONS})
# Classes of JSON objects. Checking for the usual class first is several times as fast.
_OBJECT = (dict, Mapping)

# References make a small schema describe a large value. So that reading takes time linear in its
# size, only so many parts of a schema are looked at to find the types of one value, and only so
# many steps of a pointer are followed.
MOST_PARTS = 1000
MOST_NESTED = 32
MOST_STEPS = 256


# Types.


_TYPE_OF_CLASS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}
_TYPE_OF_BASE = {**_TYPE_OF_CLASS, Mapping: "object"}


def json_type(value: object) -> str | None:
    """The most specific JSON type of a Python value: an int is an integer. None: it has none."""
    by_class = _TYPE_OF_CLASS.get(value.__class__)
    if by_class is not None:
        return by_class
    return next((name for base, name in _TYPE_OF_BASE.items() if isinstance(value, base)), None)


def has_type(value: object, types: Collection[str]) -> bool:
    """Whether a value has one of the types. An integer is a number, and 1.0 is an integer."""
    type_ = json_type(value)
    return (
        type_ in types
        or (type_ == "integer" and "number" in types)
        or (isinstance(value, float) and "integer" in types and value.is_integer())
    )


def own_types(schema: Schema) -> Iterable[str]:
    """The types that a schema itself names, or else those of the values that it lists."""
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    if named is not None:
        return (name for name in _as_list(named)[: len(TYPES)] if isinstance(name, str))
    types = map(json_type, listed(schema, "enum"))
    return (name for name in types if name is not None)


def possible_types(schema: object, root: object) -> frozenset[str]:
    """The types that a schema names, with all schemas that it refers to and combines. None: any.

    `root` is the schema that references point into.
    """
    if isinstance(schema, dict) and _OTHER_SCHEMAS.isdisjoint(schema):
        return frozenset(islice(own_types(schema), MOST_PARTS))  # most schemas, and fast
    parts = islice(_parts_of(schema, root, set(), 0), MOST_PARTS)
    return frozenset(name for name in parts if name is not None)


def _parts_of(schema: object, root: object, followed: set[str], depth: int) -> Iterator[str | None]:
    """The types in a schema, and None for each schema, so that the caller can count them all."""
    yield None
    if not isinstance(schema, _OBJECT) or depth > MOST_NESTED:
        return
    yield from own_types(schema)
    if _OTHER_SCHEMAS.isdisjoint(schema):
        return
    for keyword in COMBINATIONS:
        for member in listed(schema, keyword):
            yield from _parts_of(member, root, followed, depth + 1)
    for target in _new_targets(schema, root, followed):
        yield from _parts_of(target, root, followed, depth + 1)


# The parts of a schema.


def properties_of(schema: object) -> Mapping[str, object]:
    """The schemas of an object's members, by name."""
    properties = schema.get("properties") if isinstance(schema, _OBJECT) else None
    return properties if isinstance(properties, _OBJECT) else {}


def required_of(schema: object) -> list[str]:
    """The names of the members that an object must have."""
    names = listed(schema, "required") if isinstance(schema, _OBJECT) else ()
    return [name for name in names if isinstance(name, str)]


def listed(schema: Schema, keyword: str) -> Sequence[object]:
    """The list under a keyword: schemas under `anyOf`, `oneOf` and `allOf`, values under `enum`."""
    return _as_list(schema.get(keyword))


def conjunction(schema: object, root: object) -> list[Schema]:
    """All schemas that a value of `schema` must fit: itself, its references, and its `allOf`."""
    if isinstance(schema, dict) and _OTHER_SCHEMAS.isdisjoint(schema):
        return [schema]
    schemas: list[Schema] = []
    waiting, followed = [schema], set[str]()
    while waiting and len(schemas) < MOST_PARTS:
        part = waiting.pop()
        if isinstance(part, _OBJECT):
            schemas.append(part)
            waiting += reversed(listed(part, "allOf"))
            waiting += _new_targets(part, root, followed)
    return schemas


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


# References.


class Target(NamedTuple):
    """The value that a reference points to, and the steps to it from the root."""

    schema: object
    steps: tuple[str | int, ...]


def resolve(pointer: str, root: object) -> Target | None:
    """The target of a pointer `#/…/…` in the schema `root`. None if it leads nowhere."""
    start, *steps = pointer.split("/", MOST_STEPS + 1)
    if start != "#" or len(steps) > MOST_STEPS:
        return None
    place, path = root, list[str | int]()
    for step in map(_unescaped, steps):
        if isinstance(place, _OBJECT) and step in place:
            place = place[step]
            path.append(step)
        elif isinstance(place, (list, tuple)) and _is_index(step) and int(step) < len(place):
            place = place[int(step)]
            path.append(int(step))
        else:
            return None
    return Target(place, tuple(path))


def _new_targets(schema: Schema, root: object, followed: set[str]) -> Iterator[object]:
    """The schemas that a schema refers to, unless they were `followed` before."""
    pointer = schema.get("$ref")
    if isinstance(pointer, str) and pointer not in followed:
        followed.add(pointer)
        target = resolve(pointer, root)
        if target is not None:
            yield target.schema


def _is_index(step: str) -> bool:
    return step.isdecimal() and len(step) < 10  # Python refuses to read very long numbers


def _unescaped(step: str) -> str:
    if "%" in step:
        from urllib.parse import unquote  # slow to import, and hardly ever needed

        step = unquote(step)
    return step.replace("~1", "/").replace("~0", "~")


# Equality.


def json_identity(value: object) -> Hashable:
    """A key that is the same for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, (list, tuple)):
        return (list, tuple(map(json_identity, value)))
    if isinstance(value, _OBJECT):
        return (dict, frozenset((name, json_identity(member)) for name, member in value.items()))
    return (isinstance(value, bool), value)
