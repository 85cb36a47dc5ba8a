"""Pasted values: JSON, by itself, in a code fence or in a line of a log, and values as printed by
Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dsv4._inputs.input_files import json_problem
from dsv4._why.pasted_kinds import BrokenJson
from dsv4.api.request_fields import maybe_json

# Python takes a gigabyte to read a literal of ten megabytes.
LONGEST_LITERAL = 1_000_000
_FENCED = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n]*\n(.*?)^[ \t]*\1[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
# A dict as Python prints it, with keys in single quotes, and an SDK's object:
# `ChatCompletion(id='…', choices=[…])`.
_PRINTED = re.compile(r"[\[{\s]+b?'|[A-Z]\w*\(.*\)\s*$", re.DOTALL)


def json_or_broken(text: str) -> Any:
    """The value of a text that should be JSON, or the place of the mistake."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = json_problem(error)
        return BrokenJson(text, problem, error.pos, error.lineno, error.colno)
    except (ValueError, RecursionError) as error:
        return BrokenJson(text, f"not JSON: {error}", 0, 1, 1)


def python_value(text: str) -> Any:
    """The value that Python prints as a text; None if there is none. Objects become dicts."""
    stripped = text.strip()
    if len(stripped) > LONGEST_LITERAL or not _PRINTED.match(stripped):
        return None
    try:
        return _value_of(ast.parse(stripped, mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def json_or_python(text: str) -> Any:
    """The value of a text that is JSON, or that Python printed; None for other texts."""
    value = maybe_json(text)
    return python_value(text) if value is None else value


# An object as JavaScript prints it: keys without quotation marks, texts in single ones.
_SCRIPT_WORD = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|([A-Za-z_$][\w$]*)(\s*:)?""", re.DOTALL
)
_SCRIPT_CONSTANTS = {"null": "None", "undefined": "None", "true": "True", "false": "False"}


def javascript_value(text: str) -> Any:
    """The value that `console.log` prints as a text; None if there is none."""
    if len(text) > LONGEST_LITERAL or text.lstrip()[:1] not in ("{", "[") or ": '" not in text:
        return None

    def as_python(match: re.Match[str]) -> str:
        word, colon = match.groups()
        if word is None:
            return match[0]
        return f"'{word}':" if colon else _SCRIPT_CONSTANTS.get(word, word)

    try:
        return ast.literal_eval(_SCRIPT_WORD.sub(as_python, text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _value_of(node: ast.expr) -> Any:
    match node:
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {_value_of(key): _value_of(value) for key, value in pairs if key is not None}
        case ast.List() | ast.Tuple():
            return [_value_of(item) for item in node.elts]
        case ast.Call():
            return {word.arg: _value_of(word.value) for word in node.keywords if word.arg}
        case ast.Name() | ast.Attribute():
            return None
    return ast.literal_eval(node)


def fenced_texts(text: str) -> Iterator[str]:
    """The texts in the code blocks of a text."""
    return (match[2] for match in _FENCED.finditer(text))


# The most beginnings of an object that are tried.
_MOST_BEGINNINGS = 20


def embedded_values(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects within a text, and an object as Python prints it."""
    text = text.replace('`"', '"')  # PowerShell's escapes
    begins = [match.start() for match in islice(re.finditer(r"\{", text), _MOST_BEGINNINGS)]
    for start in begins:
        try:
            value = json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
        if value:
            yield value
    if begins and isinstance(value := python_value(text[begins[0] : text.rfind("}") + 1]), dict):
        yield value
