"""JSON as deepseek-recipe, a Rust program, reads and writes it: its numbers and limits, and its
error messages for fields of the wrong type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, NoReturn

from dsv4._encode.tools import to_json
from dsv4.errors import EncodeError, short_repr
from dsv4.profiles.server_requests import Object, server_refusal

# Integers outside these bounds become floats.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1
DEEPEST_NESTING = 127


class _NotJson(ValueError):
    """Raised for values that strict JSON does not allow."""


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a text; None for any other text."""
    try:
        value = _decoder.decode(text)
        return _checked(value, DEEPEST_NESTING) if isinstance(value, dict) else None
    except (ValueError, OverflowError, RecursionError):
        return None


def checked_json(value: object, path: str, big_integers: bool) -> Any:
    """A value of the request's body as it arrives. Raises if it cannot arrive."""
    try:
        return _checked(value, DEEPEST_NESTING, big_integers)
    except (_NotJson, OverflowError, RecursionError) as error:
        raise server_refusal(path, f"found {short_repr(value)}: {error}") from None


def _constant(name: str) -> NoReturn:
    raise _NotJson(f"{name} is no JSON")


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    # Python reads no more than a few thousand digits, and no float has that many.
    return float(text) if len(text) > 20 else int(text)


_decoder = json.JSONDecoder(parse_constant=_constant, parse_int=_integer)


def _checked(value: object, depth: int, big_integers: bool = True) -> Any:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _number(value, big_integers)
    if isinstance(value, float):
        if not isfinite(value):
            raise _NotJson("a number out of range")
        return value
    if not isinstance(value, (dict, list, tuple)):
        raise _NotJson(f"a value of type {type(value).__name__} is no JSON")
    if not depth:
        raise _NotJson(f"more than {DEEPEST_NESTING} levels of nesting")
    if isinstance(value, dict):
        return {_key(key): _checked(item, depth - 1, big_integers) for key, item in value.items()}
    return [_checked(item, depth - 1, big_integers) for item in value]


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _NotJson(f"the key {short_repr(key)} is no text")
    return _text(key)


def _text(text: str) -> str:
    # A surrogate has no bytes in UTF-8.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _NotJson("a lone surrogate")
    return str.__str__(text)


def _number(value: int, big_integers: bool) -> int | float:
    if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    if not big_integers:
        raise _NotJson("an integer outside the range of 64 bits")
    return float(value)


def json_with(float_text: Callable[[float], str], value: object) -> str:
    """JSON as Python writes it, except for floats."""
    if isinstance(value, dict):
        items = (f"{to_json(key)}: {json_with(float_text, item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json_with(float_text, item) for item in value) + "]"
    return float_text(value) if isinstance(value, float) else to_json(value)


def _v4_float(value: float) -> str:
    text = float.__repr__(value)
    digits, mark, exponent = text.partition("e-0")
    if not mark:
        return text
    if exponent != "5":
        return f"{digits}e-{exponent}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"


# JSON as V4's renderer writes it: as Python does, except for some small floats.
v4_json = partial(json_with, _v4_float)


# Fields.


def _described(value: object) -> str:
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f"string {json.dumps(value, ensure_ascii=False)}"
    return "null" if value is None else "map" if isinstance(value, dict) else "sequence"


def wrong_type(value: object, expected: str, path: str) -> EncodeError:
    return server_refusal(path, f"invalid type: {_described(value)}, expected {expected}")


def present(fields: Object, name: str, path: str) -> Any:
    """The value of a field that must be there."""
    if name not in fields:
        raise server_refusal(f"{path}.{name}" if path else name, f"missing field `{name}`")
    return fields[name]


def text_of(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "a string", path)
    return value


def maybe_text_of(value: object, path: str) -> str | None:
    return None if value is None else text_of(value, path)


def text_in(fields: Object, name: str, path: str) -> str:
    return text_of(present(fields, name, path), f"{path}.{name}")


def map_of(value: object, path: str, kind: str) -> Object:
    """An object; `kind` is its name in the Rust program."""
    if not isinstance(value, dict):
        raise wrong_type(value, f"struct {kind}", path)
    return value


def map_in(fields: Object, name: str, path: str, kind: str) -> Object:
    """The object in a field that must be there."""
    return map_of(present(fields, name, path), f"{path}.{name}", kind)


def maybe_map_of(value: object, path: str, kind: str) -> Object:
    """An object, empty where it is absent or null."""
    return {} if value is None else map_of(value, path, kind)


def tagged(value: object, path: str, kind: str) -> Object:
    """An object with a field that tells its kind; `kind` is its name in the Rust program."""
    if not isinstance(value, dict):
        raise wrong_type(value, f"internally tagged enum {kind}", path)
    return value


def list_of(value: object, path: str) -> Sequence[Any]:
    """A list, empty where it is absent or null."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise wrong_type(value, "a sequence", path)
    return value


def maybe_bool_of(value: object, path: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise wrong_type(value, "a boolean", path)
    return value


def variant_of(value: object, expected: Sequence[str], path: str) -> str:
    """One of a few texts."""
    if not isinstance(value, str):
        raise wrong_type(value, "string or map", path)
    if value not in expected:
        names = [f"`{name}`" for name in expected]
        listed = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
        raise server_refusal(path, f"unknown variant `{value}`, expected {listed}")
    return value


def variant_in(fields: Object, name: str, expected: Sequence[str], path: str) -> str:
    return variant_of(present(fields, name, path), expected, f"{path}.{name}")


def tag_of(fields: Object, name: str, path: str) -> str:
    """The field that tells the kind of an object."""
    value = present(fields, name, path)
    if not isinstance(value, str):
        raise wrong_type(value, "variant identifier", f"{path}.{name}")
    return value


def tag_in(fields: Object, name: str, expected: Sequence[str], path: str) -> str:
    """The field that tells the kind of an object, which must be one of a few."""
    return variant_of(tag_of(fields, name, path), expected, f"{path}.{name}")


# Types of fields, by their names in error messages; "" stands for any type.
_KINDS: Mapping[str, type] = {"a string": str, "a boolean": bool, "": object}


def check_present(fields: Object, kinds: Mapping[str, str], path: str) -> None:
    """Refuse an object that lacks one of these fields, or has one of the wrong type."""
    for name, kind in kinds.items():
        if name in fields and not isinstance(fields[name], _KINDS[kind]):
            raise wrong_type(fields[name], kind, f"{path}.{name}" if path else name)
    for name in kinds:
        present(fields, name, path)


def check_given(fields: Object, kinds: Mapping[str, str], path: str) -> None:
    """Refuse an object in which one of these fields is given with the wrong type."""
    given = (name for name in kinds if fields.get(name) is not None)
    check_present(fields, {name: kinds[name] for name in given}, path)
