"""Texts of parameters as JSON (recovery.md, rules 7 and 8)."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any

from dsv4.format.spellings import CDATA
from dsv4.parsing.declared import fits
from dsv4.parsing.tags import Tag, read_tag

# Deeper than this is no JSON to us: readers of the arguments recurse too.
DEEPEST = 500

NOT_JSON = object()

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def quoted(text: str) -> str:
    """A text as a JSON string."""
    return encode_basestring(text)


def escaped(text: str) -> str:
    """A piece of a text as it stands inside a JSON string."""
    return encode_basestring(text)[1:-1]


def json_value(text: str) -> Any:
    """The value of a JSON text, NOT_JSON if it is none."""
    if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
        return NOT_JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOT_JSON


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


def declared_json(text: str, types: frozenset[str]) -> str:
    """A value whose markup does not say what it is: the schema does, else its looks."""
    text = _without_cdata(text)
    if types == {"string"}:
        return quoted(text)
    value = json_value(text)
    if value is NOT_JSON or (isinstance(value, str) and not types):
        return quoted(text)
    if types and not fits(value, types):
        return quoted(text)
    return text


def _without_cdata(text: str) -> str:
    start, end = CDATA
    stripped = text.strip()
    if stripped.startswith(start) and stripped.endswith(end) and stripped.count(start) == 1:
        return stripped[len(start) : -len(end)]
    return text


def object_text(text: str) -> str | None:
    """The JSON object in a text, as it is or once more as a JSON string. None for neither."""
    value = json_value(text)
    if isinstance(value, str):
        text = value
        value = json_value(text)
    return text if isinstance(value, dict) else None


def only_member(text: str, value: dict[str, Any]) -> str | None:
    """The object that is the only member of a JSON object, as it stands there. None for none."""
    if len(value) != 1:
        return None
    start = text.index(
        ":", json.JSONDecoder().raw_decode(text, _skip(text, text.index("{") + 1))[1]
    )
    start = _skip(text, start + 1)
    _, end = json.JSONDecoder().raw_decode(text, start)
    return object_text(text[start:end])


def calls_in(text: str) -> list[tuple[str, str]] | None:
    """The calls that a JSON object or list describes: names and arguments. None for no calls."""
    value = json_value(text)
    calls = [_described(item) for item in (value if isinstance(value, list) else [value])]
    return [call for call in calls if call] if calls and all(calls) else None


def _described(item: Any) -> tuple[str, str] | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("function")
    function: dict[str, Any] = inner if isinstance(inner, dict) else item
    name, arguments = function.get("name"), function.get("arguments", function.get("parameters"))
    if not isinstance(name, str):
        return None
    if isinstance(arguments, str):
        text = object_text(arguments)
        return None if text is None else (name, text)
    if arguments is not None and not isinstance(arguments, dict):
        return None
    return name, json.dumps(arguments or {}, ensure_ascii=False)


def plain_arguments(text: str, types: dict[str, frozenset[str]]) -> str:
    """The arguments of a call without the DSML token: parameters, or a JSON object."""
    members: dict[str, str] = {}
    at = text.find("<")
    while at >= 0:
        tag = read_tag(text, at, plain=True)
        if isinstance(tag, Tag) and tag.kind == "parameter" and not tag.closing:
            end, after = _plain_close(text, tag.end)
            members[tag.name or ""] = _plain_value(text[tag.end : end], tag, types)
            at = text.find("<", after)
        else:
            at = text.find("<", at + 1)
    if members or not text.strip():
        return "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in members.items()) + "}"
    body = object_text(text)
    return f'{{"arguments": {quoted(text)}}}' if body is None else body.strip()


def _plain_close(text: str, at: int) -> tuple[int, int]:
    """Where the next closing tag of a parameter begins and ends, or the text does."""
    while (at := text.find("</", at)) >= 0:
        tag = read_tag(text, at, plain=True)
        if isinstance(tag, Tag) and tag.kind == "parameter":
            return at, tag.end
        at += 1
    return len(text), len(text)


def _plain_value(text: str, tag: Tag, types: dict[str, frozenset[str]]) -> str:
    string = tag.attributes.get("string")
    if string == "true":
        return quoted(text)
    if string == "false":
        return quoted(text) if json_value(text) is NOT_JSON else text
    return declared_json(text, types.get(tag.name or "", frozenset()))


def without_duplicates(arguments: str) -> str:
    """A JSON object with each key once, its last value as it was written."""
    members: dict[str, str] = {}
    decoder = json.JSONDecoder()
    at = arguments.index("{") + 1
    while arguments[at : at + 1] not in ("", "}"):
        key, at = decoder.raw_decode(arguments, at)
        start = at + 2  # the colon and the space that the stream writes
        _, at = decoder.raw_decode(arguments, _skip(arguments, start))
        members.pop(key, None)
        members[key] = arguments[start:at]
        at = _skip(arguments, at)
        if arguments[at : at + 1] == ",":
            at = _skip(arguments, at + 1)
    return "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in members.items()) + "}"


def _skip(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at
