"""JSON as deepseek-recipe reads and writes it: the numbers and limits of a Rust library."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from dsv4._encode.json_text import to_json
from dsv4.errors import short_repr
from dsv4.profiles.places import refused

# Integers outside become floats.
SMALLEST, LARGEST = -(2**63), 2**64 - 1
DEPTH = 127


class _NotJson(ValueError):
    """Text that strict JSON does not allow."""


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text holds; None for any other text."""
    try:
        value = _decoder.decode(text)
        return _checked(value, DEPTH) if isinstance(value, dict) else None
    except (ValueError, OverflowError, RecursionError):
        return None


def checked(value: Any, path: str, big_integers: bool) -> Any:
    """A value of the request's body as it arrives, or an error where it cannot."""
    try:
        return _checked(value, DEPTH, big_integers)
    except (_NotJson, OverflowError, RecursionError) as error:
        raise refused(path, f"found {short_repr(value)}: {error}") from None


def _constant(name: str) -> Any:
    raise _NotJson(f"{name} is no JSON")


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    # Python reads no more than a few thousand digits, and no float has that many.
    return float(text) if len(text) > 20 else int(text)


_decoder = json.JSONDecoder(parse_constant=_constant, parse_int=_integer)


def _checked(value: Any, depth: int, big_integers: bool = True) -> Any:
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
        raise _NotJson(f"more than {DEPTH} levels of nesting")
    if isinstance(value, dict):
        return {_key(key): _checked(item, depth - 1, big_integers) for key, item in value.items()}
    return [_checked(item, depth - 1, big_integers) for item in value]


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise _NotJson(f"the key {short_repr(key)} is no text")
    return _text(key)


def _text(text: str) -> str:
    # A surrogate has no bytes in UTF-8.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _NotJson("a lone surrogate")
    return str.__str__(text)


def _number(value: int, big_integers: bool) -> int | float:
    if SMALLEST <= value <= LARGEST:
        return value
    if not big_integers:
        raise _NotJson("an integer outside the range of 64 bits")
    return float(value)


def v4_json(value: Any) -> str:
    """JSON as V4's renderer writes it: as Python does, but for some small floats."""
    if isinstance(value, dict):
        items = (f"{to_json(key)}: {v4_json(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(v4_json, value)) + "]"
    return _v4_float(value) if isinstance(value, float) else to_json(value)


def _v4_float(value: float) -> str:
    text = float.__repr__(value)
    digits, mark, exponent = text.partition("e-0")
    if not mark:
        return text
    if exponent != "5":
        return f"{digits}e-{exponent}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"
