"""Tool calls as markup: `function.arguments` -> parameters -> text (SPEC.md section 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from dsv4.encode.fragments import CALLS
from dsv4.encode.json_text import json_at
from dsv4.encode.prompt import Fragment
from dsv4.errors import EncodeError, shown
from dsv4.spec.dialects import STRING_FALSE, STRING_TRUE, Tags
from dsv4.spec.tokens import Markup

# Agents send the same calls again with every request. What their arguments came to is remembered
# for at most this many strings, of at most this many characters each.
REMEMBERED_ARGUMENTS = 4096
REMEMBERED_LENGTH = 4096

# The one parameter of arguments that are not JSON.
RAW_PARAMETER = "arguments"


@lru_cache
def parameters_writer(tags: Tags, raw_arguments: bool) -> Callable[[Any], str]:
    """A function that turns the arguments of one call into its parameters, joined with newlines.

    It raises an `EncodeError` whose path starts at the arguments.
    """

    def from_string(arguments: str) -> Fragment:
        return _joined(_from_object(_object(arguments, raw_arguments)), tags)

    remembered = lru_cache(REMEMBERED_ARGUMENTS)(from_string)

    def write(arguments: Any) -> str:
        if arguments.__class__ is str:
            if len(arguments) <= REMEMBERED_LENGTH:
                return remembered(arguments)
            return from_string(arguments)
        if arguments is None:
            return ""
        if isinstance(arguments, dict):
            return _joined(_from_object(arguments), tags)
        if isinstance(arguments, str):
            return from_string(str.__str__(arguments))
        problem = f"found {shown(arguments)}, expected a JSON object, as text or as it is"
        raise EncodeError("", problem)

    return write


def _object(arguments: str, raw_arguments: bool) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        if not raw_arguments:
            problem = f"found {shown(arguments)}, which is not valid JSON: {error}"
            raise EncodeError("", problem) from None
        return {RAW_PARAMETER: arguments}
    if not isinstance(value, dict):
        raise EncodeError("", f"found {shown(arguments)}, expected a JSON object")
    return value


def _from_object(arguments: dict[Any, Any]) -> Iterator[tuple[str, str, str]]:
    """Key, what follows it, and text of each parameter."""
    for key, value in arguments.items():
        if not isinstance(key, str):
            raise EncodeError("", f"found the key {shown(key)}, expected text")
        if isinstance(value, str):
            yield str.__str__(key), STRING_TRUE, str.__str__(value)
        else:
            yield str.__str__(key), STRING_FALSE, json_at(value, f".{key}")


def _joined(parameters: Iterable[tuple[str, str, str]], tags: Tags) -> Fragment:
    parts: list[str] = []
    for key, string, text in parameters:
        if parts:
            parts.append("\n")
        parts += *tags.parameter_open.parts, key, string, text, *tags.parameter_close.parts
    return Fragment(Markup(parts), CALLS)
