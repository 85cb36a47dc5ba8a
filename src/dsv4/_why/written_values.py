"""Values as people paste them: JSON, alone, in a code fence or in a line of a log, and what Python
prints of one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from dsv4._inputs.input_files import json_problem
from dsv4._why.pasted_kinds import BrokenJson
from dsv4.api.request_fields import maybe_json

# Python takes a gigabyte to read a literal of ten megabytes.
LONGEST_LITERAL = 1_000_000
_FENCED = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n]*\n(.*?)^[ \t]*\1[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
# What Python prints of a dict, whose keys are in single quotes, and of an SDK's object:
# `ChatCompletion(id='…', choices=[…])`.
_PRINTED = re.compile(r"[\[{\s]+'|[A-Z]\w*\(.*\)\s*$", re.DOTALL)


def json_or_broken(text: str) -> Any:
    """The value of a text that should be JSON, or where it is not."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = json_problem(error)
        return BrokenJson(text, problem, error.pos, error.lineno, error.colno)
    except (ValueError, RecursionError) as error:
        return BrokenJson(text, f"not JSON: {error}", 0, 1, 1)


def python_value(text: str) -> Any:
    """The value that Python prints in this way; None where it is none. Objects are dicts."""
    stripped = text.strip()
    if len(stripped) > LONGEST_LITERAL or not _PRINTED.match(stripped):
        return None
    try:
        return _value_of(ast.parse(stripped, mode="eval").body)
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


def fenced_values(text: str) -> Iterator[Any]:
    """The JSON values in the code blocks of a text."""
    for match in _FENCED.finditer(text):
        value = maybe_json(match[2])
        if value is not None:
            yield value


def embedded_value(text: str) -> Any:
    """The first JSON object that stands in a text; None where there is none."""
    start = text.find("{")
    if start == -1:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return python_value(text[start : text.rfind("}") + 1])
