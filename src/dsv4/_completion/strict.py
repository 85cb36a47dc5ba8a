"""The strict grammar (format.md, section 8): it accepts well-formed completions, and nothing else.

The tolerant state machine cannot do this: in the strict grammar a value ends at the first close,
whatever follows it. `StrictBlock` reads a block of calls, whole or in pieces; the strict parser,
blocks in code fences and the doubts of the tolerant parser use it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from dsv4._completion.json_text import json_string, object_text
from dsv4._completion.limits import LONGEST_TAG
from dsv4._completion.patterns import pattern
from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, Tags
from dsv4._format.spellings import COMPLETION_TOKENS
from dsv4.errors import ParseError

T = TypeVar("T")
# A reader that yields waits for more text.
_Waiting: TypeAlias = Generator[None, None, T]

_FORBIDDEN = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
_NAME = pattern(r'\s*name="')
_MAYBE_NAME = pattern(r"\s*(?:n(?:a(?:m(?:e=?)?)?)?)?\Z")
_LINE_END = pattern("\n")
_KEY_END = pattern('" string="(true|false)">')
# Text that no name and no key holds, where tags are read one by one (recovery.md, rule 18).
_NOT_IN_NAME = pattern(
    "|".join(map(re.escape, ("\n", tokens.DSML, *(spelling for spelling, *_ in COMPLETION_TOKENS))))
)
_LONGEST_CLOSE = 32


class StrictMessage(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    block: str  # the text of the calls
    has_eos: bool


class StrictCall(NamedTuple):
    """The places of a call's parts."""

    name: slice
    parameters: list[tuple[slice, bool, slice]]  # key, whether it is a string, value

    def named_in(self, text: str) -> tuple[str, str]:
        """The call's name and its arguments."""
        members = {
            text[key]: json_string(text[value]) if is_string else text[value]
            for key, is_string, value in self.parameters
        }
        return text[self.name], object_text(members)


def read_strictly(
    text: str, thinking: bool, tags: Tags, acting: str | None = None
) -> StrictMessage:
    """Reads a whole completion. Raises a `ParseError` where it leaves the grammar.

    `acting` is the text in which other characters replace ordinary text that spells a token.
    """
    acting = acting or text
    thought = at = 0
    if thinking:
        thought = acting.find(tokens.THINK_END)
        if thought < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.THINK_END}")
        _refuse(acting, _FORBIDDEN, "text", 0, thought)
        at = thought + len(tokens.THINK_END)
    block, end = acting.find(tags.block_open, at), acting.find(tokens.EOS, at)
    calls: list[StrictCall] = []
    if block < 0 or 0 <= end < block:
        if end < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.EOS}")
        block = end
    _refuse(acting, _FORBIDDEN, "text", at, block)
    if block != end:
        end, calls = _read_block(acting, block + len(tags.block_open), tags)
    has_eos = acting.startswith(tokens.EOS, end)
    after = end + len(tokens.EOS) if has_eos else end
    if after != len(text):
        raise ParseError(after, f"found {text[after : after + 20]!r}, expected the end")
    named = [call.named_in(text) for call in calls]
    return StrictMessage(text[:thought], text[at:block], named, text[block:end], has_eos)


def _read_block(text: str, at: int, tags: Tags) -> tuple[int, list[StrictCall]]:
    block = StrictBlock(tags, 0, is_whole=True)
    start = at - 1
    block.feed(text[start:] if start else text, start, final=True)
    assert block.end is not None
    return block.end, block.calls


def read_calls(text: str, at: int, tags: Tags) -> tuple[int, list[tuple[str, str]]]:
    """The end of a block, and its calls, from after its opening tag's newline on."""
    end, calls = _read_block(text, at, tags)
    return end, [call.named_in(text) for call in calls]


# Reading in pieces.


def _refuse(
    text: str, refused: Sequence[str], expected: str, start: int, end: int, base: int = 0
) -> None:
    """Raises a `ParseError` where the first of some texts stands."""
    places = [(at, one) for one in refused if (at := text.find(one, start, end)) >= 0]
    if places:
        at, one = min(places)
        raise ParseError(base + at, f"found {one}, expected {expected}")


class StrictBlock:
    """Reads a block of calls, in pieces, from behind its opening tag on.

    `feed` raises a `ParseError` where the text leaves the grammar. While a value is read, text
    without a close in it may be left out. A text that comes as a whole may have everything that the
    released functions accept: a name with line ends in it, and at its end the close of a call
    without its bracket.
    """

    def __init__(
        self, tags: Tags, start: int, *, is_whole: bool = False, value_stops: Sequence[str] = ()
    ) -> None:
        self._tags = tags
        self._is_whole = is_whole
        self._invoke_close = tags.invoke_close[1:] + "\n"
        self._value_close = f"{tags.parameter_close}\n"
        self._value_stops = value_stops
        self._text = ""
        self._base = start  # the place of the text's first character
        self._at = start  # everything before this is read
        self._final = False
        self._steps = self._read()
        self.calls: list[StrictCall] = []
        self.closed_at = start  # the close of the last value
        self.end: int | None = None  # the end of the block, once it has come

    def feed(self, text: str, start: int, final: bool = False) -> None:
        """Reads `text`, which stands at `start`. With `final` no more will come."""
        if start == self._base + len(self._text):
            kept = max(self._at - self._base - 1, 0)
            self._text = self._text[kept:] + text if kept else self._text + text
            self._base += kept
        else:
            self._text, self._base, self._at = text, start, start
        self._final = final
        if self.end is None:
            next(self._steps, None)

    def _read(self) -> _Waiting[None]:
        yield from self._expect("\n")
        while not (yield from self._takes(self._tags.block_close[1:])):
            yield from self._invoke()
            yield from self._parameters()
            if not (yield from self._takes(self._invoke_close)):
                unclosed = self._invoke_close[:-2]
                if self._is_whole and self._text[self._at - self._base :] == unclosed:
                    self._at += len(unclosed)
                    break
                yield from self._expect(self._invoke_close)
        self.end = self._at

    def _invoke(self) -> _Waiting[None]:
        yield from self._expect(self._tags.invoke_open.partition(" name=")[0])
        # Any white space, or none, may stand before the attribute.
        while (name := _NAME.match(self._text, self._at - self._base)) is None:
            if self._final or not _MAYBE_NAME.match(self._text, self._at - self._base):
                text = self._text[self._at - self._base :][:8]
                raise ParseError(self._at, f"found {text!r}, expected ' name=\"'")
            yield
        self._at = self._base + name.end()
        if self._is_whole:
            end = self._whole_name_end(self._at - self._base)
        else:
            line_end = yield from self._search(_LINE_END)
            end = -1 if line_end is None else line_end.start()
        if end < 0 or not self._text.startswith(NAME_END, end - 2):
            problem = f"found no {NAME_END!r} in the line, expected it after the name"
            raise ParseError(self._at, problem)
        self.calls.append(StrictCall(slice(self._at, self._base + end - 2), []))
        self._at = self._base + end + 1

    def _whole_name_end(self, start: int) -> int:
        """The line end behind a name that may have line ends in it. -1: there is none."""
        stops = (self._invoke_close[:-2], self._tags.parameter_open.partition(" name=")[0])
        places = [at for stop in stops if (at := self._text.find(stop, start)) >= 0]
        last = self._text.rfind(NAME_END, start, min(places, default=len(self._text)))
        return self._text.find("\n", start) if last < 0 else last + 2

    def _parameters(self) -> _Waiting[None]:
        keys: set[str] = set()
        while (yield from self._takes(self._tags.parameter_open)):
            start = self._at
            key_end = _KEY_END.search(self._text, start - self._base) if self._is_whole else None
            key_end = key_end or (yield from self._search(_KEY_END))
            key, key_slice, is_string, value = "", slice(start, start), False, start
            if key_end is not None:
                key = self._text[start - self._base : key_end.start()]
                key_slice = slice(start, start + len(key))
                is_string, value = key_end[1] == "true", self._base + key_end.end()
            end = yield from self._close(start)
            if key_end is None or value > end:
                raise ParseError(start, 'found no string="true" or string="false" after the name')
            if key in keys:
                raise ParseError(start, f"found the parameter {key!r} twice, expected it once")
            keys.add(key)
            self.calls[-1].parameters.append((key_slice, is_string, slice(value, end)))
            self._at = self.closed_at = end
            if not self._text.startswith(self._value_close, end - self._base):
                yield from self._expect(self._value_close)
            self._at = end + len(self._value_close)
        if not keys:
            yield from self._takes("\n")  # as the encoder writes a call without parameters

    def _close(self, start: int) -> _Waiting[int]:
        """The end of a value: its first close, whatever follows."""
        close = self._tags.parameter_close
        while (found := self._text.find(close[1:-1], self._at - self._base)) < 0:
            self._refuse(self._value_stops, "a value", len(self._text))
            if self._final:
                raise ParseError(self._base + len(self._text), f"found the end, expected {close}")
            # A close may have begun, and the text that follows may stand anywhere.
            self._at = max(self._at, self._base + len(self._text) - _LONGEST_CLOSE)
            yield
        self._refuse(self._value_stops, "a value", found)
        before = self._text[found - 1 : found]
        if before != close[0]:
            place = max(self._base + found - 1, start)
            raise ParseError(place, f"found {before!r}, expected {close[0]!r}")
        return self._base + found - 1

    def _takes(self, text: str) -> _Waiting[bool]:
        """Consumes `text` if it comes next, and returns whether it did."""
        while not self._text.startswith(text, index := self._at - self._base):
            if self._final or not text.startswith(self._text[index : index + len(text)]):
                return False
            yield
        self._at += len(text)
        return True

    def _expect(self, expected: str) -> _Waiting[None]:
        if not (yield from self._takes(expected)):
            text = self._text[self._at - self._base :][: len(expected)]
            raise ParseError(self._at, f"found {text!r}, expected {str(expected)!r}")

    def _search(self, wanted: re.Pattern[str]) -> _Waiting[re.Match[str] | None]:
        """The match that ends a name. Raises if the name is too long or holds what none does."""
        at = self._at
        while (match := wanted.search(self._text, at - self._base)) is None and not self._final:
            self._check_name(len(self._text))
            at = max(self._at, self._base + len(self._text) - _LONGEST_CLOSE)
            yield
        self._check_name(len(self._text) if match is None else match.start())
        return match

    def _check_name(self, end: int) -> None:
        if self._is_whole:
            return
        refused = _NOT_IN_NAME.search(self._text, self._at - self._base, end)
        if refused is not None:
            place = self._base + refused.start()
            raise ParseError(place, f"found {refused[0]}, expected a name")
        if self._base + end - self._at > LONGEST_TAG:
            raise ParseError(self._at, f"found more than {LONGEST_TAG} characters, expected a name")

    def _refuse(self, refused: Sequence[str], expected: str, end: int) -> None:
        if refused:
            _refuse(self._text, refused, expected, self._at - self._base, end, self._base)
