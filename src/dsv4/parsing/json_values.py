"""Texts as JSON (recovery.md, rules 7, 8, 14 and 19)."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from dsv4._format.spellings import CDATA, JSON_ARGUMENTS, JSON_FRAME
from dsv4.parsing.declared import fits
from dsv4.parsing.limits import DEEPEST_JSON
from dsv4.parsing.patterns import pattern

_STRING = pattern(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
# Strings, which are passed over, and the numbers that are none.
_NUMBERLESS = pattern(r'("(?:[^"\\]|\\.)*")|(-?Infinity|NaN)', re.DOTALL)
_SPACE = pattern(r"[ \t\n\r]*")


class _Unknown(float):
    """NaN and the infinities, which RFC 8259 does not have."""


def _whole(digits: str) -> int:
    """A whole number of any length: what it is matters, how much it is does not."""
    return int(digits) if len(digits) < 4000 else int(digits[:3] + "0")


_read = json.JSONDecoder(parse_int=_whole, parse_constant=_Unknown)
# One that also takes line breaks and tabs inside strings.
_read_lines = json.JSONDecoder(parse_int=_whole, parse_constant=_Unknown, strict=False)


def quoted(text: str) -> str:
    """A text as a JSON string."""
    return encode_basestring(text)


def escaped(text: str) -> str:
    """A piece of a text as it stands inside a JSON string."""
    return encode_basestring(text)[1:-1]


class Json(NamedTuple):
    """A text that was read as JSON: its value, and the text as RFC 8259 has it."""

    value: Any
    text: str
    repaired: bool = False


def read_json(text: str) -> Json | None:
    """JSON, with raw line breaks in its strings and NaN mended. None if it is none."""
    if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(text) > DEEPEST_JSON:
        return None
    try:
        value = _read.decode(text)
    except (ValueError, RecursionError):
        try:
            value = _read_lines.decode(text)
        except (ValueError, RecursionError):
            return None
        text = _STRING.sub(lambda string: _respelled(string[0]), text)
        return Json(value, _without_nan(text), True)
    if "N" in text or "I" in text:
        mended = _without_nan(text)
        return Json(value, mended, mended != text)
    return Json(value, text)


def _respelled(string: str) -> str:
    """A JSON string with its control characters escaped."""
    return re.sub(r"[\x00-\x1f]", lambda control: escaped(control[0]), string)


def _without_nan(text: str) -> str:
    return _NUMBERLESS.sub(lambda found: found[1] or f'"{found[2]}"', text)


def _depth(text: str) -> int:
    """How deep the brackets nest."""
    depth = deepest = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def typed(text: str, types: frozenset[str]) -> str:
    """A value whose markup does not say what it is, as JSON: the schema decides, else its looks."""
    text = without_cdata(text)
    if types == {"string"}:
        return quoted(text)
    found = read_json(text)
    if found is None or (isinstance(found.value, str) and not types):
        return quoted(text)
    if isinstance(found.value, _Unknown) or (types and not fits(found.value, types)):
        return quoted(text)
    return found.text


def without_cdata(text: str) -> str:
    start, end = CDATA
    stripped = text.strip()
    if stripped.startswith(start) and stripped.endswith(end) and stripped.count(start) == 1:
        return stripped[len(start) : -len(end)]
    return text


def object_in(text: str) -> Json | None:
    """The JSON object in a text, as it is or once more as a JSON string. None for neither."""
    found = read_json(text)
    if found is not None and isinstance(found.value, str):
        found = read_json(found.value)
    return found if found is not None and isinstance(found.value, dict) else None


def members_of(text: str) -> list[tuple[str, str]]:
    """The members of a JSON object, in order: keys, and values as they are written."""
    members = []
    at = _skip(text, text.index("{") + 1)
    while text[at : at + 1] not in ("", "}"):
        key, at = _read.raw_decode(text, at)
        start = _skip(text, text.index(":", at) + 1)
        _, at = _read.raw_decode(text, start)
        members.append((key, text[start:at]))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return members


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def object_text(members: dict[str, str]) -> str:
    """A JSON object from keys and the JSON texts of their values."""
    return "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in members.items()) + "}"


def without_duplicates(arguments: str) -> str:
    """A JSON object with each key once, its last value as it was written."""
    members = members_of(arguments)
    once: dict[str, str] = {}
    for key, value in members:
        once.pop(key, None)
        once[key] = value
    return arguments if len(once) == len(members) else object_text(once)


def elements_of(text: str) -> list[str]:
    """The elements of a JSON list, as they are written."""
    elements = []
    at = _skip(text, text.index("[") + 1)
    while text[at : at + 1] not in ("", "]"):
        start = at
        _, at = _read.raw_decode(text, at)
        elements.append(text[start:at])
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return elements


# Calls that are written as JSON.


class JsonCalls(NamedTuple):
    """The calls that JSON describes: names and arguments; and how many of them are no calls."""

    read: list[tuple[str, str]]
    unread: int


def calls_in(text: str) -> JsonCalls:
    """The calls in a JSON object or list."""
    found = read_json(text)
    if found is None or not isinstance(found.value, (dict, list)):
        return JsonCalls([], 1)
    text = found.text
    if isinstance(found.value, dict):
        if not isinstance(found.value.get("tool_calls"), list):
            items = [text]
        else:
            items = elements_of(dict(members_of(text))["tool_calls"])
    else:
        items = elements_of(text)
    calls = [call for call in map(_described, items) if call is not None]
    return JsonCalls(calls, len(items) - len(calls))


def _described(item: str) -> tuple[str, str] | None:
    """A call's name and arguments, from its JSON."""
    if not item.startswith("{"):
        return None
    members = dict(members_of(item))
    if members.get("function", "").startswith("{"):
        members = dict(members_of(members["function"]))
    name = _read.decode(members.get("name", "null"))
    if not isinstance(name, str):
        return None
    arguments = next((members[key] for key in JSON_ARGUMENTS if key in members), "null")
    if arguments in ("null", '""'):
        # Not where they may stand under another name (rule 11).
        return (name, "{}") if members.keys() <= JSON_FRAME | {*JSON_ARGUMENTS} else None
    found = object_in(arguments)
    return None if found is None else (name, found.text.strip())
