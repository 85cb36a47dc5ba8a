"""Repairs arguments that do not fit their tool's schema, if nothing is lost by it.

A step is taken only at a place that the validator names, the whole is validated again after each,
and nothing is changed unless everything fits in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from dsv4._completion.json_text import json_string, list_text, object_text
from dsv4._fit.schema_validator import (
    SchemaProblem,
    SchemaValidator,
    has_validator,
    validator_of,
)
from dsv4._format.spellings import HOLDS_ALL
from dsv4.errors import Location, OptionError, mismatch, path_of
from dsv4.schema import (
    Schema,
    conjunction,
    has_type,
    possible_types,
    properties_of,
    required_of,
)
from dsv4.version import how_to_install

# The most work for one call. Each character of a version that is validated counts as one, each
# problem in it as a hundred.
_MOST_WORK, _WORK_OF_PROBLEM = 1_000_000, 100


@dataclass(frozen=True, slots=True)
class FittedArguments:
    """The arguments of a call after `fit_arguments`.

    `arguments` is the fitting value: a text if a text was given, else a dict. If no repair was
    needed or possible, it is the given value. `repairs` lists the repairs, each as a place and a
    step. `problem` is the validator's message about the first problem that is left; None if
    everything fits, or the schema cannot be used.
    """

    arguments: Any
    repairs: tuple[str, ...] = ()
    problem: str | None = None


def fit_arguments(arguments: str | Mapping[str, Any], schema: Schema) -> FittedArguments:
    """Makes the arguments of a call fit the schema of its tool, if nothing is lost by it.

    `arguments` is a JSON object, or its text; `schema` is the tool's JSON Schema. Arguments that
    fit are never changed. Needs the extra `serve` or `check`.
    """
    if not isinstance(arguments, (str, Mapping)):
        raise OptionError(mismatch(arguments, "a JSON object or its text"), ("arguments",))
    if not isinstance(schema, Mapping):
        raise OptionError(mismatch(schema, "a JSON schema"), ("schema",))
    if not has_validator():
        raise ImportError(f"fit_arguments needs jsonschema-rs: {how_to_install('check')}")
    is_text = isinstance(arguments, str)
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
        tree: _Tree = _tolerant.decode(text)
    except (TypeError, ValueError, RecursionError):
        return FittedArguments(arguments, problem="the arguments are no JSON")
    if not isinstance(tree, dict):
        return FittedArguments(arguments, problem="the arguments are no JSON object")
    try:
        found = _fitted(tree, text, validator_of(dict(schema)))
        if found.tree is tree:
            return FittedArguments(arguments, problem=found.problem)
        fitted = _written(found.tree)
        return FittedArguments(fitted if is_text else json.loads(fitted), found.repairs)
    except RecursionError:  # nested too deep to be validated
        return FittedArguments(arguments)


def _fitted(tree: _Tree, text: str, validator: SchemaValidator | None) -> _Found:
    """A tree that fits; the same tree if it fits already, or cannot be made to fit. `text` is the
    text that it was read from."""
    problems = validator.problems(_plain(tree)) if validator else None
    if validator is None or not problems:
        return _Found(tree)
    try:
        found = _search(_read(text), problems, validator)
    except ValueError:  # a key occurs twice: one of its values would be lost
        found = None
    return found or _Found(tree, problem=_in_words(problems[0]))


def _in_words(problem: SchemaProblem) -> str:
    return f"{path_of(problem.path)}: {problem.text}" if problem.path else problem.text


# Arguments as a tree in which numbers are kept as the model wrote them.


class _Digits(str):
    """A number as it was written."""

    __slots__ = ()


_Tree: TypeAlias = "dict[str, _Tree] | list[_Tree] | str | bool | None"


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key comes twice")
    return members


_decoder_of = partial(
    json.JSONDecoder, parse_int=_Digits, parse_float=_Digits, parse_constant=_no_json
)
_tolerant, _strict = _decoder_of(), _decoder_of(object_pairs_hook=_members)


def _read(text: str) -> _Tree:
    """The tree of a text. Raises a `ValueError` if the text is not JSON, or has a key twice."""
    tree: _Tree = _strict.decode(text)
    return tree


def _written(tree: _Tree) -> str:
    """A tree as JSON."""
    if isinstance(tree, _Digits):
        return str(tree)
    if isinstance(tree, str):
        # Half of a surrogate pair cannot be encoded, and stays an escape.
        return json_string(tree) if _encodable(tree) == tree else json.dumps(tree)
    if isinstance(tree, dict):
        return object_text({key: _written(member) for key, member in tree.items()})
    return list_text(list(map(_written, tree))) if isinstance(tree, list) else json.dumps(tree)


def _plain(tree: _Tree) -> Any:
    """A tree as the validator takes it."""
    if isinstance(tree, _Digits):
        return _number(tree)
    if isinstance(tree, str):
        return _encodable(tree)
    if isinstance(tree, dict):
        return {key: _plain(member) for key, member in tree.items()}
    return list(map(_plain, tree)) if isinstance(tree, list) else tree


def _encodable(text: str) -> str:
    """A text without halves of surrogate pairs, which the validator does not accept."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _number(digits: str) -> int | Decimal:
    """The exact value of a number; an approximate value if the number is extremely large."""
    try:
        if not digits.lstrip("-").isdecimal():
            return Decimal(digits)
        if len(digits) < _MOST_DIGITS:
            return int(digits)
        return Decimal(f"{digits[:20]}e{len(digits) - 20}")
    except ArithmeticError:
        return Decimal("9e9999")


# Python refuses to read integers with more digits.
_MOST_DIGITS = 4_000


# The steps.


class _Edit(NamedTuple):
    """A changed tree, and the step that changed it. A step that removes a member is tried last, so
    that a null that one of the alternatives accepts stays a null."""

    tree: _Tree
    repair: str
    is_last: bool = False


class _Found(NamedTuple):
    """A tree, the repairs that led to it, and the problem that is left in it."""

    tree: _Tree
    repairs: tuple[str, ...] = ()
    problem: str | None = None


def _search(
    tree: _Tree, problems: list[SchemaProblem] | None, validator: SchemaValidator
) -> _Found | None:
    """The first tree that fits. The likeliest steps are tried first."""
    waiting = [_Found(tree)]
    seen = {_written(tree)}
    left = _MOST_WORK
    while waiting and left > 0:
        current = waiting.pop()
        if problems is None:
            problems = validator.problems(_plain(current.tree))
            if problems == []:
                return current
        left -= _WORK_OF_PROBLEM * len(problems or ())
        further = []
        for edit in _first_edits(current.tree, problems or [], validator.schema):
            text = _written(edit.tree)
            if text not in seen:
                seen.add(text)
                left -= len(text)
                further.append(_Found(edit.tree, (*current.repairs, edit.repair)))
        waiting += reversed(further)
        problems = None
    return None


def _first_edits(tree: _Tree, problems: list[SchemaProblem], root: Schema) -> list[_Edit]:
    """The steps for the first problem that has any. All others must be repaired as well."""
    for problem in problems:
        edits = [edit for leaf in _leaves(problem) for edit in _edits(tree, leaf, root)]
        if edits:
            return sorted(edits, key=lambda edit: edit.is_last)
    return []


def _leaves(problem: SchemaProblem) -> Iterator[SchemaProblem]:
    """The innermost problems of a problem, for each of the alternatives."""
    if not problem.inside:
        yield problem
    for each in problem.inside:
        yield from _leaves(each)


def _edits(tree: _Tree, problem: SchemaProblem, root: Schema) -> Iterator[_Edit]:
    place: Any = tree
    for step in problem.path:
        place = place[step]
    if problem.keyword in _ABOUT_VALUES:
        for step_of in (_as_json, _left_out, _as_digits, _as_list):
            for new in step_of(place, problem):
                repair = f"{path_of(problem.path)}: {_WORDS[step_of]}"
                is_last = step_of is _left_out
                yield _Edit(_replaced(tree, problem.path, new), repair, is_last)
    elif problem.keyword in _ABOUT_KEYS and isinstance(place, dict):
        parts = conjunction(_schema_of(problem, root), root)
        declared = {name: of for part in parts for name, of in properties_of(part).items()}
        required = [name for part in parts for name in required_of(part)]
        if not problem.path:
            yield from _unwrapped(place, declared, required, root)
        for old, new in _renames(place, {*declared, *required}):
            members = {new if key == old else key: member for key, member in place.items()}
            repair = f"{path_of((*problem.path, old))}: the key became {new}"
            yield _Edit(_replaced(tree, problem.path, members), repair)


_ABOUT_VALUES = {"type", "enum", "const"}
_ABOUT_KEYS = {"required", "additionalProperties", "unevaluatedProperties"}


class _Nothing:
    """The type of a value that removes its member."""


_New: TypeAlias = "_Tree | _Nothing"


def _as_json(value: _Tree, problem: SchemaProblem) -> Iterator[_New]:
    """Turns a text that is JSON of the declared type into its value."""
    if not isinstance(value, str) or isinstance(value, _Digits):
        return
    try:
        new = _PYTHONS.get(value.strip(), _NO_TREE)
        new = _read(value) if new is _NO_TREE else new
        if not problem.types or _has_type(new, problem.types):
            yield new
    except (ValueError, RecursionError):
        return


def _has_type(value: _Tree, types: tuple[str, ...]) -> bool:
    """Whether a value may have one of the types. Any number passes for an integer here: the
    validator decides."""
    if isinstance(value, _Digits):
        return "integer" in types or "number" in types
    return has_type(value, types)


_NO_TREE: Any = object()
_PYTHONS = {"True": True, "False": False}


def _left_out(value: _Tree, problem: SchemaProblem) -> Iterator[_New]:
    """Removes a member whose value is null, or the text "null"."""
    if problem.path and isinstance(problem.path[-1], str) and value in (None, "null"):
        yield _Nothing()


def _as_digits(value: _Tree, problem: SchemaProblem) -> Iterator[_New]:
    """Turns a number into its digits, if text is declared."""
    if isinstance(value, _Digits) and (not problem.types or "string" in problem.types):
        yield str(value)


def _as_list(value: _Tree, problem: SchemaProblem) -> Iterator[_New]:
    """Turns a value into a list of one, if a list is declared: but not null, and not the text of a
    list, which may be broken."""
    is_text = isinstance(value, str) and not isinstance(value, _Digits)
    is_other = isinstance(value, list) or value is None
    if is_other or (is_text and (value == "null" or str(value).lstrip().startswith("["))):
        return
    if "array" in problem.types:
        yield [value]


_WORDS: dict[Callable[[_Tree, SchemaProblem], Iterator[_New]], str] = {
    _as_json: "a text became the JSON that it is",
    _left_out: "a null was left out",
    _as_digits: "a number became its digits",
    _as_list: "a value became a list of one",
}

_WRAPPERS = (*HOLDS_ALL, "parameters")


def _unwrapped(
    arguments: dict[str, _Tree], declared: Mapping[str, object], required: list[str], root: Schema
) -> Iterator[_Edit]:
    """Removes the only key, if it is a wrapper of the arguments, or of a single text."""
    key, inside = next(iter(arguments.items()), ("", None))
    if len(arguments) != 1 or key not in _WRAPPERS or key in declared:
        return
    for inner in (inside, *_as_json(inside, SchemaProblem((), "", types=("object",)))):
        if isinstance(inner, dict) and inner:
            yield _Edit(inner, f"{key}: the wrapper was taken off")
    is_text = isinstance(inside, str) and not isinstance(inside, _Digits)
    if is_text and len(required) == 1:
        [name] = required
        if "string" in possible_types(declared.get(name), root):
            yield _Edit({name: inside}, f"{key}: the lone text became {name}")


def _renames(members: dict[str, _Tree], declared: set[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a key and the missing key that differs only in case, `_` and `-`, if unambiguous."""
    unknown = [key for key in members if key not in declared]
    missing = [name for name in declared if name not in members]
    for key in unknown:
        names = [name for name in missing if _bare(name) == _bare(key)]
        twins = [other for other in unknown if _bare(other) == _bare(key)]
        if len(names) == len(twins) == 1 and _bare(key):
            yield key, names[0]


def _bare(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _schema_of(problem: SchemaProblem, root: Schema) -> object:
    """The schema that a problem's keyword is in."""
    place: Any = root
    try:
        for step in problem.schema_path[:-1]:
            place = place[step]
    except (LookupError, TypeError):
        return {}
    return place


def _replaced(tree: _Tree, path: Location, new: _New) -> _Tree:
    """A copy of a tree with another value at a place. Parts off the path are shared."""
    if not path:
        return new  # type: ignore[return-value]
    step, rest = path[0], path[1:]
    copy: Any = tree.copy()  # type: ignore[union-attr]
    if isinstance(new, _Nothing) and not rest:
        del copy[step]
    else:
        copy[step] = _replaced(copy[step], rest, new)
    return copy  # type: ignore[no-any-return]
