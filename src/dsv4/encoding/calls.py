"""Tool calls as markup: `function.arguments` -> parameters -> text (docs/format.md, section 4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from dsv4.encoding.door import maybe_dict
from dsv4.encoding.fragments import CALLS
from dsv4.encoding.json_text import FAILURES, QUICKER, not_json, to_json
from dsv4.encoding.memory import MEMORY, Shelf
from dsv4.encoding.pieces import GOES_ON, Fragment
from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import STRING_FALSE, STRING_TRUE, Arguments, Tags
from dsv4.format.endings import NOTHING

# The one parameter of arguments that are not a JSON object.
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
    message = GOES_ON
    begins = None
    ending = NOTHING
    _lengths: tuple[int, ...]
    _tags: Tags

    @classmethod
    def joined(cls, parameters: list[str], tags: Tags) -> Parameters:
        # Not by calling the class, which takes twice as long.
        self = str.__new__(cls, "\n".join(parameters))
        self._lengths = tuple(map(len, parameters))
        self._tags = tags
        return self

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


class ParametersWriter:
    """Turns the arguments of one call into its parameters, joined with newlines.

    What a text of arguments came to is remembered: agents send the same calls again with every
    request. `shelf.young` may be asked directly, by the text.
    """

    def __init__(self, tags: Tags, rule: Arguments) -> None:
        self._tags = tags
        self._rule = rule
        self._opening, self._closing = str(tags.parameter_open), str(tags.parameter_close)
        self.shelf: Shelf[Parameters] = MEMORY.shelf()

    def write(self, arguments: Any) -> str:
        """The parameters. Raises an `EncodeError` whose location starts at the arguments."""
        if arguments.__class__ is str:
            known = self.shelf.recall(arguments)
            if known is None:
                known = self._from_text(arguments)
                self.shelf.keep(arguments, known)
            return known
        if isinstance(arguments, str):
            return self._from_text(str.__str__(arguments))
        given = maybe_dict(arguments)
        if given is not None:
            return self._joined(_exact_texts(given))
        if self._rule == "anything":
            return self._joined([(RAW_PARAMETER, arguments)])
        if arguments is None:
            return ""
        problem = f"found {shown(arguments)}, expected a JSON object, as text or as it is"
        raise EncodeError((), problem)

    def _from_text(self, arguments: str) -> Parameters:
        try:
            value = _read_json(arguments)
            if self._rule == "anything" and isinstance(value, str):
                value = _read_json(value)  # encoded twice
        except (ValueError, RecursionError) as error:
            if self._rule == "object":
                problem = f"found {shown(arguments)}, which is not valid JSON: {error}"
                raise EncodeError((), problem) from None
            value = {RAW_PARAMETER: arguments}
        if not isinstance(value, dict):
            if self._rule != "anything":
                raise EncodeError((), f"found {shown(arguments)}, expected a JSON object")
            value = {RAW_PARAMETER: arguments}
        return self._joined(value.items())

    def _joined(self, arguments: Iterable[tuple[str, Any]]) -> Parameters:
        opening, closing = self._opening, self._closing
        parameters = []
        try:
            for key, value in arguments:
                if value.__class__ is str:
                    parameters.append(f"{opening}{key}{STRING_TRUE}{value}{closing}")
                else:
                    text = QUICKER.get(value.__class__, to_json)(value)
                    parameters.append(f"{opening}{key}{STRING_FALSE}{text}{closing}")
        except FAILURES as error:
            raise not_json(value, (key,), error) from None
        return Parameters.joined(parameters, self._tags)


parameters_writer = lru_cache(ParametersWriter)


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
        raise EncodeError((), f"found the key {shown(key)}, expected text")
    return str.__str__(key)
