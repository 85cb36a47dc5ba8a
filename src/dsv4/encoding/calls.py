"""Tool calls as markup: `function.arguments` -> parameters -> text (format.md, section 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from dsv4.encoding.fragments import CALLS
from dsv4.encoding.json_text import FAILURES, QUICKER, not_json, to_json
from dsv4.encoding.prompt import Fragment
from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import STRING_FALSE, STRING_TRUE, Tags
from dsv4.format.tokens import Markup

# Agents send the same calls again with every request. What their arguments came to is remembered
# for at most this many strings, of at most this many characters each, unless it is a text of more
# than so many: a small parameter is mostly markup, and strings of nothing else would come to ten
# times their length.
#
# A text has two bytes a character, or four if it holds one beyond U+FFFF. So what is held for one
# spelling of the tags is at most 4096 * (4096 + 2 * 8192) bytes for strings in Latin script, which
# is 80 MiB; for any strings, 192 MiB; for calls of 500 characters, 8 MiB.
REMEMBERED_ARGUMENTS = 4096
REMEMBERED_LENGTH = 4096
REMEMBERED_TEXT = 8192

# The one parameter of arguments that are not JSON.
RAW_PARAMETER = "arguments"

_decoder = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


class Parameters(Fragment):
    """The parameters of one call, joined with newlines.

    Most prompts are never looked at in pieces. So it notes how long each parameter is, and cuts its
    parts out of its text when they are asked for.
    """

    __slots__ = ("_lengths", "_tags")
    label = announces = CALLS
    opens = asks = False
    _lengths: tuple[int, ...]
    _tags: Tags

    @classmethod
    def joined(cls, parameters: list[str], tags: Tags) -> Parameters:
        # Not by calling the class, which takes twice as long.
        self = str.__new__(cls, "\n".join(parameters))
        self._lengths = tuple(map(len, parameters))
        self._tags = tags
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Fragment, (Markup(self.parts), self.label)

    @property
    def parts(self) -> tuple[str, ...]:
        opening, closing = self._tags.parameter_open, self._tags.parameter_close
        parts: list[str] = []
        start = 0
        for length in self._lengths:
            end = start + length
            inside = self[start + len(opening) : end - len(closing)]
            parts += *opening.parts, inside, *closing.parts, "\n"
            start = end + 1
        return tuple(parts[:-1])


@lru_cache
def parameters_writer(tags: Tags, raw_arguments: bool) -> Callable[[Any], str]:
    """A function that turns the arguments of one call into its parameters, joined with newlines.

    It raises an `EncodeError` whose path starts at the arguments.
    """
    opening, closing = str(tags.parameter_open), str(tags.parameter_close)

    def written(arguments: Iterable[tuple[str, Any]]) -> Parameters:
        parameters = []
        try:
            for key, value in arguments:
                if value.__class__ is str:
                    parameters.append(f"{opening}{key}{STRING_TRUE}{value}{closing}")
                else:
                    text = QUICKER.get(value.__class__, to_json)(value)
                    parameters.append(f"{opening}{key}{STRING_FALSE}{text}{closing}")
        except FAILURES as error:
            raise not_json(value, f".{key}", error) from None
        return Parameters.joined(parameters, tags)

    def from_string(arguments: str) -> Parameters:
        try:
            value = _read_json(arguments)
        except (ValueError, RecursionError) as error:
            if not raw_arguments:
                problem = f"found {shown(arguments)}, which is not valid JSON: {error}"
                raise EncodeError("", problem) from None
            value = {RAW_PARAMETER: arguments}
        if not isinstance(value, dict):
            raise EncodeError("", f"found {shown(arguments)}, expected a JSON object")
        return written(value.items())

    @lru_cache(REMEMBERED_ARGUMENTS)
    def remembered(arguments: str) -> Parameters | None:
        made = from_string(arguments)
        return made if len(made) <= REMEMBERED_TEXT else None

    def write(arguments: Any) -> str:
        if arguments.__class__ is str:
            known = remembered(arguments) if len(arguments) <= REMEMBERED_LENGTH else None
            return from_string(arguments) if known is None else known
        if arguments is None:
            return ""
        if isinstance(arguments, dict):
            return written(_exact_texts(arguments))
        if isinstance(arguments, str):
            return from_string(str.__str__(arguments))
        problem = f"found {shown(arguments)}, expected a JSON object, as text or as it is"
        raise EncodeError("", problem)

    return write


def _read_json(text: str) -> Any:
    """What `json.loads` gives, which spends a third of its time looking for space around."""
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:  # no value begins here
        pass
    return _decoder.decode(text)


def _exact_texts(arguments: dict[Any, Any]) -> list[tuple[str, Any]]:
    """Key and value of each argument of a caller's object, whose texts may be of any class."""
    return [
        (
            key if key.__class__ is str else _exact_key(key),
            str.__str__(value) if isinstance(value, str) else value,
        )
        for key, value in arguments.items()
    ]


def _exact_key(key: Any) -> str:
    if not isinstance(key, str):
        raise EncodeError("", f"found the key {shown(key)}, expected text")
    return str.__str__(key)
