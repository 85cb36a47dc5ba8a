"""The source of each part of a prompt in its request, and the reverse.

A request is read and encoded a second time, with a numbered mark in place of each of its texts. In
the resulting prompt, the marks show the place of each text, however a protocol joined, split, moved
or dropped them; the text between marks is the format's. Compared with the real prompt this gives
the span of each text: if the prompt has the text itself, or the text as JSON writes it, the span is
exact, and anything else (a repaired text, say) extends to the format's next words.

All other parts (special tokens, tags, numbers in arguments) belong to the element around them: the
role of a message, a call, a tool, an option.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from json import decoder
from typing import Any, NamedTuple

from dsv4._encode.prompt import Piece, Prompt
from dsv4._inputs.input_files import json_problem, line_and_column
from dsv4._inputs.text_origins import MessageOrigins, TextMarks
from dsv4._playground.page_problem import PageProblem
from dsv4.errors import Location

# JSON text with the place of every value in it, counted in UTF-16 units as browsers count.
#
# `json.loads` reads the text and reports errors in it; a second walk over the text, which is then
# known to be valid, finds the place of each value.


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)


class Utf16Offsets:
    """Converts offsets in a text from characters to UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._wide = [] if text.isascii() else [n for n, c in enumerate(text) if c > "\uffff"]

    def __call__(self, at: int) -> int:
        return at + bisect_left(self._wide, at) if self._wide else at


# The only function of `json` that returns the end of a string.
scan_json_string: Callable[[str, int], tuple[str, int]] = decoder.scanstring  # type: ignore[attr-defined]
# Deeper values are not conversations, and would exhaust the stack of recursive functions.
MAX_DEPTH = 200


class SourceRange(NamedTuple):
    """The range of a value: its first character, and the one after its last."""

    start: int
    end: int


class JsonSource:
    """A JSON text, its `value`, and the range of each part of it.

    `pictures` are those that the text has names for: in the value, they replace their names.
    Raises a `PageProblem` with line and column for text that is not JSON.
    """

    def __init__(self, text: str, pictures: Mapping[str, str] | None = None) -> None:
        self.text = text
        self.value = _load_json(text)
        if pictures:
            self.value = _with_pictures(self.value, pictures)
        # The ranges by location, in code points. If a name occurs twice, the last counts.
        self.ranges: dict[Location, SourceRange] = _value_ranges(text)

    @cached_property
    def _utf16(self) -> Utf16Offsets:
        return Utf16Offsets(self.text)

    def in_units(self, place: SourceRange) -> SourceRange:
        """A range in UTF-16 units."""
        return SourceRange(*map(self._utf16, place))

    def nearest(self, location: Location) -> SourceRange | None:
        """The range of a location, or of the innermost value around it that exists."""
        for size in range(len(location), -1, -1):
            range_ = self.ranges.get(location[:size])
            if range_ is not None:
                return range_
        return None

    def problem(self, message: str, location: Location) -> PageProblem:
        """The problem with a value, with its line."""
        place = self.nearest(location)
        if place is None:
            return PageProblem(message, location=location)
        line, column = line_and_column(self.text, place.start)
        start, end = self.in_units(place)
        return PageProblem(
            message, location=location, start=start, end=end, line=line, column=column
        )


# The prefix of the name of a picture that is kept beside the text.
PICTURE = "picture:"


def _with_pictures(value: Any, pictures: Mapping[str, str], field: str | int | None = None) -> Any:
    """A value with the pictures that it names: as addresses, or as base64 in Anthropic's `data`."""
    if isinstance(value, dict):
        return {name: _with_pictures(v, pictures, name) for name, v in value.items()}
    if isinstance(value, list):
        return [_with_pictures(item, pictures) for item in value]
    if not isinstance(value, str) or not value.startswith(PICTURE):
        return value
    url = pictures.get(value[len(PICTURE) :])
    if url is None:
        return value
    return url.partition(",")[2] if field == "data" else url


def _load_json(text: str) -> Any:
    if not text.strip():
        raise PageProblem("found nothing, expected JSON", start=0, end=0, line=1, column=1)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        at = Utf16Offsets(text)(error.pos)
        line, column = error.lineno, error.colno
        message = json_problem(error)
        raise PageProblem(message, start=at, end=at + 1, line=line, column=column) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a number with too many digits
        raise PageProblem(f"not JSON: {error}") from None
    return value


def _too_deep() -> PageProblem:
    return PageProblem(f"found values nested too deep, expected at most {MAX_DEPTH} levels")


# The separator between values, and a value that is not a text, a list or an object.
_SEPARATORS = re.compile(r"[ \t\n\r]*[,:]?[ \t\n\r]*")
_BARE_VALUE = re.compile(r"[^\s,\]}]+")


def _value_ranges(text: str) -> dict[Location, SourceRange]:
    """The range of every value of a JSON text. Containers are open until their bracket closes."""
    places: dict[Location, SourceRange] = {}
    # For each open container: its location, its start, and the index or name of the next value.
    open_: list[tuple[Location, int, int | None]] = []
    name: str | int | None = None
    at = _skip_separators(text, 0)
    while True:
        if open_ and text[at] in "]}":
            location, start, _ = open_.pop()
            at += 1
            places[location] = SourceRange(start, at)
        else:
            if open_:
                location, start, index = open_[-1]
                if index is None:
                    name, at = scan_json_string(text, at + 1)
                    at = _skip_separators(text, at)
                else:
                    name = index
                    open_[-1] = location, start, index + 1
                location = (*location, name)
            else:
                location = ()
            start = at
            char = text[at]
            if char in "[{":
                if len(open_) >= MAX_DEPTH:
                    raise _too_deep()
                open_.append((location, start, 0 if char == "[" else None))
                at = _skip_separators(text, at + 1)
                continue
            at = scan_json_string(text, at + 1)[1] if char == '"' else _end_of_bare_value(text, at)
            places[location] = SourceRange(start, at)
        if not open_:
            return places
        at = _skip_separators(text, at)


def _skip_separators(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()


def _end_of_bare_value(text: str, at: int) -> int:
    match = _BARE_VALUE.match(text, at)
    return at if match is None else match.end()


class SourceSpan(NamedTuple):
    """Characters of the prompt, and the location of their source in the request, None if none."""

    start: int
    end: int
    location: Location | None


def spans_of_texts(text: str, marked: str, marks: TextMarks) -> list[SourceSpan]:
    """The spans of a request's texts, from comparing its prompt with the prompt with marks."""
    spans: list[SourceSpan] = []
    parts = marks.pattern.split(marked)  # format's text, number, text, number, …, text
    at = len(parts[0]) if text.startswith(parts[0]) else 0
    for n in range(1, len(parts), 2):
        leaf, after = marks.leaves[int(parts[n])], parts[n + 1]
        end = _end(text, at, leaf.text, after, is_last=n == len(parts) - 2)
        spans.append(SourceSpan(at, end, leaf.location))
        at = end + len(after) if text.startswith(after, end) else end
    return spans


def _end(text: str, at: int, value: str, after: str, is_last: bool) -> int:
    """The end of a value that begins at `at`, with the format's text `after` it."""
    for written in (value, json.dumps(value, ensure_ascii=False)[1:-1]):
        end = at + len(written)
        if text.startswith(written, at) and text.startswith(after, end):
            return end
    if not after:
        return len(text) if is_last else at
    place = text.find(after, at)
    return len(text) if place < 0 else place


# Parts of the prompt that are not texts of the request.

_OPTIONS: dict[str, tuple[Location, ...]] = {
    "effort": (("reasoning_effort",), ("reasoning", "effort"), ("output_config", "effort")),
    "response_format": (
        *(("response_format",), ("text", "format")),
        *(("output_config", "format"), ("output_format",)),
    ),
    "tools": (("tools",),),
}


def spans_of(
    prompt: Prompt, texts: Sequence[SourceSpan], origins: MessageOrigins
) -> list[SourceSpan]:
    """The whole prompt in spans: its texts, and the parts between them."""
    pieces = prompt.pieces
    owners = _PieceOwners(prompt, origins, texts)
    spans: list[SourceSpan] = []
    at, n = 0, 0
    for number, piece in enumerate(pieces):
        end = at + len(piece.text)
        while n < len(texts) and texts[n].end <= at:
            n += 1
        around = owners.of(number, piece, at)
        for cut in _cut(at, end, texts, n, around):
            spans += owners.by_tool(cut, piece) if piece.field == "tools" else (cut,)
        at = end
    return spans


def _cut(
    start: int, end: int, texts: Sequence[SourceSpan], n: int, around: Location | None
) -> Iterator[SourceSpan]:
    """A part of the prompt in spans: its texts, and the parts between them."""
    at = start
    while n < len(texts) and texts[n].start < end:
        span = texts[n]
        if span.start > at:
            yield SourceSpan(at, span.start, around)
        until = min(span.end, end)
        if until > max(span.start, at):
            yield SourceSpan(max(span.start, at), until, span.location)
        at = max(at, until)
        n += 1
    if at < end:
        yield SourceSpan(at, end, around)


class _PieceOwners:
    """The element of the request that each piece of a prompt belongs to."""

    def __init__(
        self, prompt: Prompt, origins: MessageOrigins, texts: Sequence[SourceSpan]
    ) -> None:
        self._origins = origins
        self._text = prompt.text
        self._calls = _calls_in(prompt, origins, texts)
        self._names: dict[Location, list[str]] = {}
        self._tool = 0

    def of(self, number: int, piece: Piece, at: int) -> Location | None:
        if number in self._calls:
            return self._calls[number]
        return _OWNER_BY_FIELD.get(piece.field, _message_location)(piece, self._origins)

    def by_tool(self, span: SourceSpan, piece: Piece) -> Iterator[SourceSpan]:
        """The span of the schemas, cut by tool: one in each line, in the order of declaration."""
        if piece.origin != "caller" or span.location is None:
            yield span
            return
        at = span.start
        for line in self._text[span.start : span.end].splitlines(keepends=True):
            tool = self._next_tool(span.location, line)
            yield SourceSpan(at, at + len(line), tool)
            at += len(line)

    def _next_tool(self, tools: Location, line: str) -> Location:
        """The tool of a line: the next one with its name, because some may not be shown."""
        if tools not in self._names:
            self._names[tools] = self._origins.tool_names(tools)
        names = self._names[tools]
        named = _NAME.search(line)
        name = json.loads(named[1]) if named else None
        for n in range(self._tool, len(names)):
            # The prompt may have the namespace before a name.
            if names[n] and name is not None and name.endswith(names[n]):
                self._tool = n + 1
                return (*tools, n)
        return tools


_NAME = re.compile(r'"name": ?("(?:[^"\\]|\\.)*")')


def _calls_in(
    prompt: Prompt, origins: MessageOrigins, texts: Sequence[SourceSpan]
) -> dict[int, Location]:
    """The call that each piece of a block of calls belongs to; after its name, its arguments."""
    opening = prompt.dialect.tags.invoke_open.parts
    names = {span.start: span.location for span in texts if span.location and _is_name(span)}
    calls: dict[int, Location] = {}
    call: Location | None = None
    at = 0
    for number, piece in enumerate(prompt.pieces):
        if piece.field != "tool_calls":
            call = None
        elif at in names:
            name = names[at] or ()
            whole = name[:-2] if name[-2:] == ("function", "name") else name[:-1]
            for before in range(number - len(opening), number):
                calls[before] = whole
            arguments = (*name[:-1], "arguments"), (*name[:-1], "input")
            call = origins.option(*arguments) or whole
        if call is not None and at not in names:
            calls[number] = call
        at += len(piece.text)
    return calls


def _is_name(span: SourceSpan) -> bool:
    return span.location is not None and span.location[-1] == "name"


def _message_location(piece: Piece, origins: MessageOrigins) -> Location | None:
    return None if piece.message is None else origins.message(piece.message)


def _field_of(name: str) -> Callable[[Piece, MessageOrigins], Location | None]:
    def of(piece: Piece, origins: MessageOrigins) -> Location | None:
        return None if piece.message is None else origins.field(piece.message, name)

    return of


def _option(name: str) -> Callable[[Piece, MessageOrigins], Location | None]:
    """A function that locates an option: in the message that has its own, else in the request."""

    def of(piece: Piece, origins: MessageOrigins) -> Location | None:
        if piece.message is not None:
            message = origins.message(piece.message)
            own = None if message is None else origins.option((*message, name))
            if own is not None:
                return own
        return origins.option(*_OPTIONS[name]) or _message_location(piece, origins)

    return of


_OWNER_BY_FIELD: dict[str, Callable[[Piece, MessageOrigins], Location | None]] = {
    "header": _field_of("role"),
    "task": _field_of("task"),
    "effort": _option("effort"),
    "tools": _option("tools"),
    "response_format": _option("response_format"),
    "separator": lambda piece, origins: None,
    "bos": lambda piece, origins: None,
}
