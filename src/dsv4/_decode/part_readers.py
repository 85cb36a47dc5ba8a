"""Readers of the parts of turns: tools sections, response formats, calls, results, images.

A part is recognised only if it is written exactly as the format writes it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dsv4._encode.prompt import BLANK_LINE
from dsv4._encode.tools import JSON_ERRORS, scan_json, to_json
from dsv4._format.dialects import Dialect, Tags

# The tools section and the response format at the end of a system or developer text.


_json_decoder = json.JSONDecoder()


@dataclass(frozen=True)
class Section:
    """A tools section, a response format, or one after the other, at `start` to `end`."""

    start: int
    end: int
    tools: list[Any] | None
    response_format: Any

    def put_on(self, message: dict[str, Any]) -> None:
        """Puts the section's tools and response format on a message."""
        if self.tools:
            message["tools"] = self.tools
        if self.response_format is not None:
            message["response_format"] = self.response_format


def sections(text: str, dialect: Dialect) -> list[Section]:
    """Every section in a text that is written exactly as the format writes it."""
    return list(_SectionReader(text, dialect).read())


class _SectionReader:
    """Reads the sections in a text."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text, self._end = text, len(text)
        self._opening, self._closing = BLANK_LINE + dialect.tools_open, dialect.tools_close
        self._format = BLANK_LINE + dialect.texts.response_format

    def read(self) -> Iterator[Section]:
        next_tools, next_format = self._find(self._opening, 0), self._find(self._format, 0)
        while min(next_tools, next_format) < self._end:
            if next_tools < next_format:
                section = self._tools_at(next_tools)
                at = section.end if section else next_tools + 1
                next_tools = self._find(self._opening, at)
                if section and (form := self._format_at(at)):
                    section = Section(section.start, form.end, section.tools, form.response_format)
                    at = section.end
            else:
                section = self._format_at(next_format)
                at = section.end if section else next_format + 1
            next_format = self._find(self._format, at)
            if section:
                yield section

    def _find(self, wanted: str, at: int) -> int:
        """The place of a text, or the end if it does not occur."""
        place = self._text.find(wanted, at)
        return self._end if place < 0 else place

    def _tools_at(self, at: int) -> Section | None:
        # A line break in a JSON string is written as an escape: the first closing text is the end.
        start = at + len(self._opening)
        stop = self._text.find(self._closing, start)
        if stop < 0:
            return None
        try:
            functions = [_read_exact_json(line) for line in self._text[start:stop].split("\n")]
        except ValueError:
            return None
        if not all(_is_function(function) for function in functions):
            return None
        tools = [{"type": "function", "function": function} for function in functions]
        return Section(at, stop + len(self._closing), tools, None)

    def _format_at(self, at: int) -> Section | None:
        if not self._text.startswith(self._format, at):
            return None
        start = at + len(self._format)
        line = self._text[start : self._find("\n", start)]  # JSON is written in one line
        try:
            value, length = _json_decoder.raw_decode(line)
            same = to_json(value) == line[:length]
        except JSON_ERRORS:
            return None
        return Section(at, start + length, None, value) if same and value else None


def _is_function(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and bool(value["name"])


def _read_exact_json(text: str) -> Any:
    """The value of JSON that is written as the format writes it; else a `ValueError`."""
    try:
        value, end = scan_json(text, 0)
        if end == len(text) and to_json(value) == text:
            return value
    except (StopIteration, *JSON_ERRORS):
        pass
    raise ValueError(text)


# Blocks of calls, read back if they are written exactly as the format writes them.


# A text may spell the opening of a block that is not a block. After this many, no more are tried,
# so that the work stays in proportion to the text.
MAX_ATTEMPTS = 64


class CallBlocks:
    """The blocks of calls in a text: the start, the end and the calls of each."""

    def __init__(self, text: str, tags: Tags) -> None:
        self._text = text
        self._block_open, self._block_close = str(tags.block_open), str(tags.block_close)
        self._invoke_open, self._invoke_close = str(tags.invoke_open), str(tags.invoke_close)
        self._open, self._close = str(tags.parameter_open), str(tags.parameter_close)
        self._name_end, self._dsml = tags.name_end, str(tags.dsml)
        # The text behind a parameter's name, which may hold anything but markup.
        self._types = {str(tags.string_true): True, str(tags.string_false): False}
        types = "|".join(map(re.escape, self._types))
        self._name_and_type = re.compile(f"(?s:(?!{re.escape(tags.dsml)}).)*?({types})")
        # The text at the end of a parameter's value: the call goes on, or ends.
        self._goes_on = f"{self._close}\n{self._open}"
        self._ends = self._close + self._invoke_close
        self.by_start: dict[int, tuple[int, list[Any]]] = dict(self._all())
        self._starts = list(self.by_start)

    def _all(self) -> Iterator[tuple[int, tuple[int, list[Any]]]]:
        attempts, at = MAX_ATTEMPTS, 0
        while attempts and (start := self._text.find(self._block_open, at)) >= 0:
            try:
                end, calls = self._block(start + len(self._block_open))
            except ValueError:
                attempts, at = attempts - 1, start + 1
            else:
                yield start, (end, calls)
                at = end

    def ending_at(self, start: int, end: int) -> tuple[int, list[Any]] | None:
        """The block that ends a stretch of text: its start, and its calls."""
        if not self._text.endswith(self._block_close, start, end):
            return None
        index = bisect_left(self._starts, start)
        for at in self._starts[index : index + MAX_ATTEMPTS]:
            stop, calls = self.by_start[at]
            if stop >= end:
                return (at, calls) if stop == end else None
        return None

    def next_in(self, start: int, end: int) -> int | None:
        """The start of the first block in a stretch of text."""
        index = bisect_left(self._starts, start)
        if index == len(self._starts):
            return None
        at = self._starts[index]
        return at if self.by_start[at][0] <= end else None

    def _block(self, at: int) -> tuple[int, list[Any]]:
        text = self._text
        calls: list[Any] = []
        while True:
            at, name, arguments = self._call(at)
            function = {"name": name, "arguments": arguments}
            calls.append({"id": f"call_{len(calls)}", "type": "function", "function": function})
            if text.startswith(self._block_close, at):
                return at + len(self._block_close), calls
            at = self._past("\n", at)

    def _call(self, at: int) -> tuple[int, str, str]:
        """Reads a call: its end, the tool's name, and its arguments as JSON."""
        text = self._text
        start = self._past(self._invoke_open, at)
        stop = text.find(self._name_end, start)
        if stop < 0 or text.find(self._dsml, start, stop) >= 0:
            raise ValueError
        at = stop + len(self._name_end)
        arguments: dict[str, str] = {}
        if not text.startswith(self._invoke_close, at):
            at = self._parameters(self._past(self._open, at), arguments)
        members = ", ".join([f"{to_json(key)}: {value}" for key, value in arguments.items()])
        return at + len(self._invoke_close), text[start:stop], f"{{{members}}}"

    def _parameters(self, at: int, arguments: dict[str, str]) -> int:
        """Reads parameters from the name of the first on. Returns the end of the last one."""
        text = self._text
        while True:
            key_end, start, is_text = self._key_end(at)
            key = text[at:key_end]
            end, goes_on = self._value_end(start)
            if key in arguments:
                raise ValueError
            value = text[start:end]
            if not is_text and _read_exact_json(value).__class__ is str:
                raise ValueError  # it would be written as text
            arguments[key] = to_json(value) if is_text else value
            if not goes_on:
                return end + len(self._close)
            at = end + len(self._goes_on)

    def _key_end(self, start: int) -> tuple[int, int, bool]:
        """The end of a name, the start of the value, and whether that is text."""
        match = self._name_and_type.match(self._text, start)
        if match is None:
            raise ValueError
        return match.start(1), match.end(), self._types[match[1]]

    def _value_end(self, start: int) -> tuple[int, bool]:
        """The end of a value: a closing tag after which the call goes on, or ends."""
        text = self._text
        end = text.find(self._close, start)
        while end >= 0:
            if text.startswith(self._ends, end):
                return end, False
            if text.startswith(self._goes_on, end):
                return end, True
            end = text.find(self._close, end + 1)
        raise ValueError

    def _past(self, wanted: str, at: int) -> int:
        if not self._text.startswith(wanted, at):
            raise ValueError
        return at + len(wanted)


# User turns and other texts -> messages: results of tools, and images.


class UserTurnPart(NamedTuple):
    """A stretch of a user turn: the result of a tool, or other text."""

    is_result: bool
    start: int
    end: int


def user_turn_parts(text: str, start: int, end: int, dialect: Dialect) -> list[UserTurnPart]:
    """A user turn, cut into results and the stretches of text between them.

    A result ends at the first closing tag that ends the turn or is followed by a blank line. But if
    an image stands right before a closing tag, that tag ends the result.
    """
    results: list[UserTurnPart] = []
    at, words = start, dialect.texts
    bounds = _ResultBounds(text, end, dialect)
    while (opening := bounds.next_start(at)) is not None:
        closing = bounds.end_of(opening)
        if closing is None:
            break
        if opening > at:
            results.append(UserTurnPart(False, at, opening - len(BLANK_LINE)))
        results.append(UserTurnPart(True, opening + len(words.result_start), closing))
        at = closing + len(words.result_end)
        if at == end:
            return results
        at += len(BLANK_LINE)
    return [*results, UserTurnPart(False, at, end)]


class _ResultBounds:
    """Finds the bounds of results in a turn that ends at `end`, from left to right only."""

    def __init__(self, text: str, end: int, dialect: Dialect) -> None:
        image = dialect.image_token
        self._text, self._end, self._words = text, end, dialect.texts
        self._shut_image = None if image is None else image + dialect.texts.result_end
        self._image_at = -1 if image is not None else end

    def next_start(self, at: int) -> int | None:
        """The start of the next result: right here, or behind a blank line."""
        opening = self._words.result_start
        if self._text.startswith(opening, at, self._end):
            return at
        place = self._text.find(BLANK_LINE + opening, at, self._end)
        return None if place < 0 else place + len(BLANK_LINE)

    def end_of(self, opening: int) -> int | None:
        """The place of the closing tag of the result that opens here."""
        closing = self._words.result_end
        at = self._text.find(closing, opening, self._end)
        while at >= 0:
            after = at + len(closing)
            if after == self._end:
                return at
            if self._text.startswith(BLANK_LINE, after, self._end) and not self._cuts(after):
                return at
            at = self._text.find(closing, at + 1, self._end)
        return None

    def _cuts(self, after: int) -> bool:
        """Whether a result that ended here would leave the end of another without its beginning."""
        if self._shut_image is None or self._next_image(after) == self._end:
            return False
        opening = self.next_start(after + len(BLANK_LINE))
        return opening is None or self._image_at < opening

    def _next_image(self, at: int) -> int:
        if self._image_at < at and self._shut_image is not None:
            place = self._text.find(self._shut_image, at, self._end)
            self._image_at = self._end if place < 0 else place
        return self._image_at


# The block for an image of which only the token is known: `encode` requires a source.
UNKNOWN_IMAGE = {"type": "image", "source": {"type": "unknown"}}


class ImageContent:
    """Texts with images in them, for a dialect that has an image token.

    `records` are those of the prompt's images, in its order, if they are known; `unknown` counts
    the images without one.
    """

    def __init__(self, token: str | None, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self._token = token
        self._records = iter(records)
        self.unknown = 0

    def content(self, text: str) -> Any:
        """A text as a message's content: unchanged, or a list of blocks if it has images in it."""
        if self._token is None or self._token not in text:
            return text
        return list(self._blocks(text, self._token))

    def _blocks(self, text: str, token: str) -> Iterator[dict[str, Any]]:
        """The blocks of a text. Each image is one; separators around it are in no text block."""
        first, *others = text.split(token)
        last = len(others) - 1
        if first:
            yield _text_block(first.removesuffix(BLANK_LINE))
        for n, stretch in enumerate(others):
            yield self._next_image()
            if n < last and stretch != BLANK_LINE:
                yield _text_block(stretch.removeprefix(BLANK_LINE).removesuffix(BLANK_LINE))
            elif n == last and stretch:
                yield _text_block(stretch.removeprefix(BLANK_LINE))

    def _next_image(self) -> dict[str, Any]:
        record = next(self._records, None)
        if record is None:
            self.unknown += 1
            return dict(UNKNOWN_IMAGE)
        if record.keys() == {"type", "url"}:
            return {"type": "image_url", "image_url": {"url": record["url"]}}
        return dict(record)


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
