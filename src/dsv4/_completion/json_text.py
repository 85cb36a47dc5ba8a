"""JSON texts, as the arguments of calls are: reading and repairing them (recovery.md, rules 7, 8,
14 and 19), taking them apart and putting them together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from itertools import accumulate
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

from dsv4._completion.limits import DEEPEST_JSON
from dsv4._completion.patterns import pattern
from dsv4._format.spellings import CDATA
from dsv4.schema import has_type

# A value that `json` reads from a text.
JsonValue: TypeAlias = str | bool | int | float | list[Any] | dict[str, Any] | None


_STRING = pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# Strings, and the numbers that JSON does not have.
_MENDABLE = pattern(r'("[^"\\]*(?:\\.[^"\\]*)*")|(-?Infinity|NaN)', re.DOTALL)
_CONTROLS = {code: encode_basestring(chr(code))[1:-1] for code in range(0x20)}
_NESTING = {"[": 1, "{": 1, "]": -1, "}": -1}
_BRACKET = pattern(r"[][{}]")
_BETWEEN = pattern(r"[ \t\n\r,:]*")


class _NonFiniteNumber(float):
    """NaN and the infinities, which RFC 8259 does not have."""


def _any_integer(digits: str) -> int:
    """An integer of any length. Only its type is needed, not its value."""
    return int(digits) if len(digits) < 4000 else int(digits[:3] + "0")


def _decoder_of(strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=_any_integer, parse_constant=_NonFiniteNumber, strict=strict)


_strict_decoder = _decoder_of(strict=True)
_decoder = _decoder_of(strict=False)  # it also takes line breaks and tabs inside strings


def json_string(text: str) -> str:
    """A text as a JSON string."""
    return encode_basestring(text)


class JsonReading(NamedTuple):
    """A text that was read as JSON: its value, and the text as RFC 8259 has it."""

    value: JsonValue
    text: str
    repaired: bool = False


def read_json(text: str) -> JsonReading | None:
    """Reads JSON; repairs raw line breaks in strings and NaN. None if it is not JSON."""
    if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(text) > DEEPEST_JSON:
        return None
    for decoder in (_strict_decoder, _decoder):
        try:
            value = decoder.decode(text)
        except (ValueError, RecursionError):
            continue
        is_right = decoder is _strict_decoder and "N" not in text and "I" not in text
        mended = text if is_right else _MENDABLE.sub(_mended, text)
        return JsonReading(value, mended, mended != text)
    return None


def read_value(text: str) -> JsonReading | None:
    """Reads JSON, also with one more end of its tags around it (rule 38): `>42`, `">42`, `42</`."""
    reading = read_json(text)
    if reading is None and (inner := _without_brackets(text.strip())) != text:
        reading = read_json(inner)
        return None if reading is None else reading._replace(repaired=True)
    return reading


def _without_brackets(text: str) -> str:
    begin = '">' if text.startswith('">') else ">"
    return text.removeprefix(begin).removesuffix("</")


def _mended(match: re.Match[str]) -> str:
    """A string with its control characters escaped, or a string in place of something that is not a
    JSON number (rules 14 and 19): `{"a": NaN}` becomes `{"a": "NaN"}`."""
    string: str = match[1] or f'"{match[2]}"'
    return string if string.isprintable() else string.translate(_CONTROLS)


def _depth(text: str) -> int:
    """The depth to which brackets nest."""
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_NESTING.__getitem__, brackets)), default=0)


def typed_json(text: str, string: str | None, types: frozenset[str]) -> str:
    """A value as JSON: by the type in its markup, else by the schema, else by the text (rule 7)."""
    if string == "false":
        reading = read_json(text)
        return json_string(text) if reading is None else reading.text
    if string != "true":
        text = without_cdata(text)
        reading = None if types == {"string"} else read_json(text)
        if reading is not None and _may_be(reading.value, types):
            return reading.text
    return json_string(text)


def _may_be(value: JsonValue, types: frozenset[str]) -> bool:
    """Whether a text that reads as this JSON is meant as JSON, if the markup does not say."""
    if isinstance(value, _NonFiniteNumber):
        return False
    return has_type(value, types) if types else not isinstance(value, str)


def without_cdata(text: str) -> str:
    start, end = CDATA
    stripped = text.strip()
    if stripped.startswith(start) and stripped.endswith(end) and stripped.count(start) == 1:
        return stripped[len(start) : -len(end)]
    return text


def object_in(text: str) -> JsonReading | None:
    """The JSON object in a text, as it is or inside a JSON string. None if there is neither."""
    reading = read_json(text)
    if reading is not None and isinstance(reading.value, str):
        reading = read_json(reading.value)
    return reading if reading is not None and isinstance(reading.value, dict) else None


def begins_with_object(text: str) -> bool:
    """Whether a text that opens a brace closes it too, as JSON does."""
    try:
        _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def values_in(text: str, at: int) -> Generator[str, None, None]:
    """The values of a JSON list or object, keys among them, as they are written."""
    at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
    while text[at : at + 1] not in ("", "]", "}"):
        start = at
        _, at = _decoder.raw_decode(text, at)
        yield text[start:at]
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]


def elements_of(text: str) -> list[str]:
    """The elements of a JSON list, as they are written."""
    return list(values_in(text, text.index("[") + 1))


def members_of(text: str) -> list[tuple[str, str]]:
    """The members of a JSON object, in order: keys, and values as they are written."""
    parts = list(values_in(text, text.index("{") + 1))
    return [
        (_decoder.decode(key), value) for key, value in zip(parts[::2], parts[1::2], strict=True)
    ]


def member_text(key: str, json_text: str) -> str:
    return f"{encode_basestring(key)}: {json_text}"


def object_text(members: dict[str, str]) -> str:
    """A JSON object from keys and the JSON texts of their values."""
    return "{" + ", ".join(member_text(*member) for member in members.items()) + "}"


def without_duplicates(arguments: str) -> str:
    """A JSON object with each key once, its last value as it was written."""
    members = members_of(arguments)
    once: dict[str, str] = {}
    for key, value in members:
        once.pop(key, None)
        once[key] = value
    return arguments if len(once) == len(members) else object_text(once)


def is_item(json_text: str) -> bool:
    """Whether a value may be one of several that make a list: a string, or another scalar."""
    return json_text.lstrip()[:1] not in ("{", "[")


def list_text(items: list[str]) -> str:
    return f"[{', '.join(items)}]"
