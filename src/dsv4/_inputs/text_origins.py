"""The places of a request's messages in the body that it was read from.

Readers join, move and rename the messages of clients. So a body is read a second time with a mark
in place of each text, and the marks show the new place of every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dsv4.api.own_bodies import has_system_field, is_sharegpt, written_location
from dsv4.errors import Error, Location
from dsv4.request import Request

# Fields that hold text to be read. Other texts (roles, types, ids) belong to the protocol: marks in
# their place would change the request.
_TEXT_FIELDS = {
    *("content", "text", "input", "output", "instructions", "system", "value", "refusal"),
    *("reasoning_content", "reasoning", "thinking"),
}
# Fields that hold declarations and options.
_NOT_WALKED = {"tools", "response_format", "tool_choice", "metadata", "model", "format", "source"}
_CALL_TYPES = ("tool_use", "function_call", "custom_tool_call")
_MARK = "dsv4mark"


class SourceText(NamedTuple):
    """A text of the request, and its place."""

    location: Location
    text: str


class TextMarks:
    """A value with marks in place of its texts, and the texts that they stand for."""

    def __init__(self, value: object) -> None:
        self.leaves: list[SourceText] = []
        word = _MARK
        while word in str(value):
            word += "k"
        self._word = word
        self.pattern = re.compile(word + r"(\d+)x")
        self.value = self._marked(value, (), is_text=False)

    def _mark(self, location: Location, text: str) -> str:
        """A text's mark. An empty text stays empty: it is often read as no text at all."""
        if not text:
            return text
        self.leaves.append(SourceText(location, text))
        return f"{self._word}{len(self.leaves) - 1}x"

    def _marked(self, value: object, location: Location, is_text: bool) -> object:
        """A value with marks. `is_text` says that its field holds text, perhaps in a list."""
        if isinstance(value, str):
            return self._mark(location, value) if is_text else value
        if isinstance(value, list):
            return [self._marked(v, (*location, n), is_text) for n, v in enumerate(value)]
        if isinstance(value, dict):
            is_call = value.get("type") in _CALL_TYPES or "arguments" in value
            return {k: self._field(k, v, (*location, k), is_call) for k, v in value.items()}
        return value

    def _field(self, name: str, value: object, location: Location, is_call: bool) -> object:
        if name in _NOT_WALKED:
            return value
        if name == "arguments" and isinstance(value, str):
            return self._arguments(value, location)
        if name in ("arguments", "input") and isinstance(value, dict) and is_call:
            return self._strings(value, location, own=True)
        return self._marked(value, location, name in _TEXT_FIELDS or (name == "name" and is_call))

    def _arguments(self, text: str, location: Location) -> str:
        """Arguments, which are JSON inside of a text: their texts are marked, their form stays."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return self._mark(location, text)
        return json.dumps(self._strings(value, location, own=False), ensure_ascii=False)

    def _strings(self, value: object, location: Location, own: bool) -> object:
        """A value with marks for texts at any depth. Without `own`, which says that texts have
        places of their own in the source, all of them get the location of the whole."""
        if isinstance(value, str):
            return self._mark(location, value)
        if isinstance(value, list):
            return [self._strings(v, _inside(location, n, own), own) for n, v in enumerate(value)]
        if isinstance(value, dict):
            return {k: self._strings(v, _inside(location, k, own), own) for k, v in value.items()}
        return value

    def found_in(self, text: str) -> Iterator[SourceText]:
        """The texts that marks in a text stand for."""
        return (self.leaves[int(match[1])] for match in self.pattern.finditer(text))


def _inside(location: Location, step: str | int, own: bool) -> Location:
    return (*location, step) if own else location


class MessageOrigins:
    """The places of a request's messages in its source."""

    def __init__(
        self, value: object, request: Request | None, marks: TextMarks, exact: bool
    ) -> None:
        """`exact` says that the messages are those of the source, one by one."""
        self._value = value
        self._marks = marks
        read = request.messages if request is not None else ()
        self._messages: list[Any] = list(read) if isinstance(read, Sequence) else []
        self._list = _list_in(value) if exact else None

    def message(self, index: int) -> Location | None:
        """The place of the message with an index."""
        if self._list is not None:
            return (*self._list, index)
        first = next(self.texts(index), None)
        if first is None:
            return None
        location = first.location
        return location[: 2 if location[0] in ("messages", "input") and len(location) > 2 else 1]

    def texts(self, index: int, field: str | None = None) -> Iterator[SourceText]:
        """The texts of a message, or of one of its fields."""
        if not 0 <= index < len(self._messages):
            return
        message = self._messages[index]
        value = message if field is None else _value_at(message, (field,))
        for text in _all_texts(value):
            yield from self._marks.found_in(text)

    def field(self, index: int, field: str) -> Location | None:
        """The place of a field of a message, or of the message if the source has no such field."""
        for leaf in self.texts(index, field):
            return leaf.location
        message = self.message(index)
        if message is None:
            return None
        whole = (*message, field)
        return message if _value_at(self._value, whole) is _ABSENT else whole

    def tool_names(self, location: Location) -> list[str]:
        """The names of the tools in a list, with an empty name for an item that is not a tool."""
        value = _value_at(self._value, location)
        return list(map(tool_name, value)) if isinstance(value, list) else []

    def option(self, *paths: Location) -> Location | None:
        """The first of some places that the source has."""
        return next((p for p in paths if _value_at(self._value, p) is not _ABSENT), None)


def _list_in(value: object) -> Location | None:
    if isinstance(value, list):
        return ()
    return ("messages",) if isinstance(value, dict) and "messages" in value else None


_ABSENT = object()


def _value_at(value: object, location: Location) -> object:
    """The value at a location, or `_ABSENT`."""
    for step in location:
        if isinstance(value, dict):
            value = value.get(step, _ABSENT)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return _ABSENT
    return value


def _all_texts(value: object) -> Iterator[str]:
    """The texts in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _all_texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _all_texts(item)


def tool_name(tool: object) -> str:
    """The name of a tool of any protocol, empty if it has none."""
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


# Places in the user's own body, for errors and findings.


def origins_of(body: object, read: Callable[[Any], Request]) -> MessageOrigins:
    """The origins of the messages of a body, which `read` turns into a request."""
    marks = TextMarks(body)
    try:
        return MessageOrigins(body, read(marks.value), marks, exact=False)
    except Error:  # the reading of a text may depend on its content, which the marks replace
        return MessageOrigins(body, None, marks, exact=False)


def place_in_body(location: Location, body: object, origins: MessageOrigins) -> Location:
    """The place in a body of a location in its request, if messages may have been joined or
    moved."""
    if location[:1] != ("messages",):
        return written_location(location, body)
    index = location[1] if len(location) > 1 else None
    message = origins.message(index) if isinstance(index, int) else None
    if message is None:
        return location
    place = (*message, *location[2:])
    while len(place) > len(message) and _value_at(body, place) is _ABSENT:
        place = place[:-1]
    return place


def place_in_own_body(location: Location, body: object) -> Location:
    """The place in a body of a location in its request, if the messages are the body's own, with at
    most a system prompt before them."""
    if not isinstance(body, dict) or location[:1] != ("messages",) or len(location) < 2:
        return written_location(location, body)
    index, rest = location[1], location[2:]
    assert isinstance(index, int)
    first = has_system_field(body)
    if first and index == 0:
        return ("system", *rest[1:])
    if is_sharegpt(body):
        return ("conversations", index - first)
    return ("messages", index - first, *rest) if "messages" in body else location
