"""The strict grammar (format.md, section 8): what a well-formed completion is, and nothing else.

The tolerant state machine cannot be this: in the strict grammar a value ends at the first close,
whatever follows it. `StrictBlock` reads a block of calls in pieces, or at once with a handful of
searches; the strict parser, blocks in code fences and the doubts of the tolerant parser use it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from functools import cache
from typing import NamedTuple

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, NAMESPACE_END, Tags
from dsv4._format.spellings import BAR, COMPLETION_TOKENS, FENCE_LENGTH, FENCES, HOLDS_ALL
from dsv4._parse.call_arguments import CallWriter, json_string, object_text, read_json
from dsv4._parse.declared import DeclaredTools
from dsv4._parse.events import ContentDelta, End, Event, Finish, ReasoningDelta, ToolCallStart
from dsv4._parse.limits import LONGEST_NAME, MOST_CALLS, MOST_PARAMETERS
from dsv4._parse.parser_options import ParserSettings
from dsv4._parse.patterns import pattern
from dsv4._parse.reasons import Ended
from dsv4._parse.text_buffer import BLANK, MARKS
from dsv4.errors import ParseError

_FORBIDDEN = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
_NAME = pattern(r'\s*name="')
_MAYBE_NAME = pattern(r'\s*(?:n(?:a(?:m(?:e=?"?)?)?)?)?\Z')
_LINE_END = pattern("\n")
_KEY_END = pattern('" string="(true|false)">')
# What no name and no key holds, for a reader that reads tags one by one (recovery.md, rule 18).
_NO_NAME = pattern(
    "|".join(["\n", tokens.DSML, *(re.escape(spelling) for spelling, _, _ in COMPLETION_TOKENS)])
)
_LONGEST_CLOSE = 32


@cache
def _any_of(*spellings: str) -> re.Pattern[str]:
    return pattern("|".join(map(re.escape, spellings)))


class StrictMessage(NamedTuple):
    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    block: str  # the text of the calls
    has_eos: bool


class StrictText(str):
    """A text in which some stretches are ordinary, and spell no special token."""

    inert: list[tuple[int, int]]

    def __new__(cls, text: str, inert: list[tuple[int, int]]) -> StrictText:
        self = super().__new__(cls, text)
        self.inert = inert
        return self

    def find(self, token: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        """Where a token stands that is one."""
        at = super().find(token, start, end)
        while at >= 0 and any(a < at + len(token) and at < b for a, b in self.inert):
            at = super().find(token, at + 1, end)
        return at

    def acting(self) -> str:
        """The text, with something else where an ordinary stretch has a bar of a token."""
        parts, at = [], 0
        for start, end in self.inert:
            parts += [self[at:start], self[start:end].replace(BAR, BLANK)]
            at = end
        return "".join([*parts, self[at:]])


def read_strictly(text: str, thinking: bool, tags: Tags) -> StrictMessage:
    """A whole completion. Raises a `ParseError` where it leaves the grammar."""
    reasoning, at = "", 0
    if thinking:
        end = text.find(tokens.THINK_END)
        if end < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.THINK_END}")
        reasoning, at = _clean(text, 0, end), end + len(tokens.THINK_END)
    block, eos = text.find(tags.block_open, at), text.find(tokens.EOS, at)
    if block < 0 or 0 <= eos < block:
        if eos < 0:
            raise ParseError(len(text), f"found the end, expected {tokens.EOS}")
        content, end = _clean(text, at, eos), eos
        calls: list[tuple[str, str]] = []
        written = ""
    else:
        content = _clean(text, at, block)
        end, calls = read_calls(text, block + len(tags.block_open), tags)
        written = text[block:end]
    has_eos = text.startswith(tokens.EOS, end)
    end += len(tokens.EOS) if has_eos else 0
    if end != len(text):
        raise ParseError(end, f"found {text[end : end + 20]!r}, expected the end")
    return StrictMessage(reasoning, content, calls, written, has_eos)


def _clean(text: str, start: int, end: int) -> str:
    """Reasoning or content, which hold no token of the format."""
    found = [(at, token) for token in _FORBIDDEN if (at := text.find(token, start, end)) >= 0]
    if found:
        at, token = min(found)
        raise ParseError(at, f"found {token}, expected text")
    return text[start:end]


class StrictCall(NamedTuple):
    """Where the parts of a call stand."""

    name: slice
    parameters: list[tuple[slice, bool, slice]]  # key, whether it is a string, value


class StrictBlock:
    """Reads a block of calls, in pieces, from behind its opening tag on.

    `feed` raises a `ParseError` where the text leaves the grammar. While a value is read, text in
    which no close stands may be left out.
    """

    def __init__(
        self, tags: Tags, start: int, *, longest: int | None = None, value_stops: Sequence[str] = ()
    ) -> None:
        self._tags = tags
        self._longest = longest  # characters of a name or a key
        self._close_start = tags.parameter_close[1:-1]  # from the slash on
        self._parameter_close = tags.parameter_close + "\n"
        self._invoke_open = tags.invoke_open.partition(" name=")[0]
        self._invoke_close = tags.invoke_close[1:] + "\n"
        self._value_stop = _any_of(*value_stops) if value_stops else None
        self._text = ""
        self._base = start  # the place of the text's first character
        self._at = start  # what stands before this is read
        self._final = False
        self._steps = self._read()
        self.calls: list[StrictCall] = []
        self.closed_at = start  # the close of the last value
        self.end: int | None = None  # where the block ends, once it has
        self.lacks_bracket = False  # the text ends in the close of a call, without its bracket

    def feed(self, text: str, start: int, final: bool = False) -> None:
        """Reads on, with `text`, which stands at `start`. With `final` no more will come."""
        if start == self._base + len(self._text):
            kept = max(self._at - self._base - 1, 0)
            self._text = self._text[kept:] + text if kept else self._text + text
            self._base += kept
        else:
            self._text, self._base, self._at = text, start, start
        self._final = final
        if self.end is None:
            next(self._steps, None)

    @property
    def position(self) -> int:
        """How far the text was read."""
        return self._at

    # What is all there is taken at once, without a generator: completions mostly come whole.

    def _read(self) -> Generator[None, None, None]:
        if not self._takes("\n"):
            yield from self._expect("\n")
        close = self._tags.block_close[1:]
        while not self._takes(close):
            if self._begins(close):
                yield
            else:
                yield from self._invoke()
                if self.lacks_bracket:
                    break
        self.end = self._at

    def _invoke(self) -> Generator[None, None, None]:
        if not self._takes(self._invoke_open):
            yield from self._expect(self._invoke_open)
        # Any white space, or none, may stand before the attribute.
        while (name := self._match(_NAME)) is None or name.end() == len(self._text):
            if self._final or not _MAYBE_NAME.match(self._text, self._at - self._base):
                break
            yield
        if name is None:
            found = self._text[self._at - self._base :][:8]
            raise ParseError(self._at, f"found {found!r}, expected ' name=\"'")
        self._at = self._base + name.end()
        end = self._found_name_end() or (yield from self._search(_LINE_END, self._at))
        if end is None or not self._text.startswith(NAME_END, end.start() - 2):
            problem = f"found no {NAME_END!r} in the line, expected it after the name"
            raise ParseError(self._at, problem)
        line_end = self._base + end.start()
        self.calls.append(StrictCall(slice(self._at, line_end - 2), []))
        self._at = line_end + 1
        yield from self._parameters()

    def _parameters(self) -> Generator[None, None, None]:
        tags, call = self._tags, self.calls[-1]
        keys: set[str] = set()
        while (taken := self._takes(tags.parameter_open)) or self._begins(tags.parameter_open):
            if not taken:
                yield
                continue
            start = self._at
            key_end = self._found(_KEY_END) or (yield from self._search(_KEY_END, start))
            key, found, is_string, value_start = "", None, False, start
            if key_end is not None:
                found = slice(start, self._base + key_end.start())
                key = self._text[start - self._base : key_end.start()]
                is_string = key_end[1] == "true"
                value_start = self._base + key_end.end()
                self._at = start if self._final else value_start
            end = self._found_close()
            if end is None:
                end = yield from self._close(start)
            if found is None or value_start > end:
                raise ParseError(start, 'found no string="true" or string="false" after the name')
            if key in keys:
                raise ParseError(start, f"found the parameter {key!r} twice, expected it once")
            keys.add(key)
            call.parameters.append((found, is_string, slice(value_start, end)))
            self._at = self.closed_at = end
            if not self._takes(self._parameter_close):
                yield from self._expect(self._parameter_close)
        while not keys and not self._takes("\n") and self._begins("\n"):
            yield  # as the encoder writes a call without parameters
        if self._longest is None and self._text[self._at - self._base :] == self._invoke_close[:-2]:
            self.lacks_bracket = True
            self._at += len(self._invoke_close) - 2
        elif not self._takes(self._invoke_close):
            yield from self._expect(self._invoke_close)

    def _found_name_end(self) -> re.Match[str] | None:
        """The line end behind a name, in which others may stand; None for a careful reader."""
        if self._longest is not None:
            return None
        found: re.Match[str] | None = None
        stops = (self._invoke_close[:-2], self._tags.parameter_open.partition(" name=")[0])
        start = self._at - self._base
        stop = min((at for text in stops if (at := self._text.find(text, start)) >= 0), default=-1)
        for end in _LINE_END.finditer(self._text, start, stop if stop >= 0 else len(self._text)):
            if self._text.startswith(NAME_END, end.start() - 2):
                found = end
        return found or _LINE_END.search(self._text, start)

    def _found_close(self) -> int | None:
        """Where a value ends, if its close is here and nothing else is to be looked for."""
        found = self._text.find(self._close_start, self._at - self._base)
        if self._value_stop is not None or found < 1 or self._text[found - 1] != "<":
            return None
        return self._base + found - 1

    def _close(self, start: int) -> Generator[None, None, int]:
        """Where a value ends: at its first close, whatever follows."""
        close = self._tags.parameter_close
        while (found := self._text.find(self._close_start, self._at - self._base)) < 0:
            self._check_stops(len(self._text))
            if self._final:
                raise ParseError(self._base + len(self._text), f"found the end, expected {close}")
            # A close may have begun, and what follows may stand anywhere.
            self._at = max(self._at, self._base + len(self._text) - _LONGEST_CLOSE)
            yield
        self._check_stops(found)
        before = self._text[found - 1 : found]
        if before != close[0]:
            place = max(self._base + found - 1, start)
            raise ParseError(place, f"found {before!r}, expected {close[0]!r}")
        return self._base + found - 1

    def _check_stops(self, end: int) -> None:
        if self._value_stop is not None:
            found = self._value_stop.search(self._text, self._at - self._base, end)
            if found is not None:
                raise ParseError(self._base + found.start(), f"found {found[0]}, expected a value")

    def _takes(self, text: str) -> bool:
        """Consumes `text` if it comes next, and returns whether it did."""
        if not self._text.startswith(text, self._at - self._base):
            return False
        self._at += len(text)
        return True

    def _begins(self, text: str) -> bool:
        """Whether a text that does not come next may still come, with more."""
        index = self._at - self._base
        return not self._final and text.startswith(self._text[index : index + len(text)])

    def _expect(self, expected: str) -> Generator[None, None, None]:
        while not self._takes(expected):
            if not self._begins(expected):
                found = self._text[self._at - self._base :][: len(expected)]
                raise ParseError(self._at, f"found {found!r}, expected {str(expected)!r}")
            yield

    def _found(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        """What is looked for, if it is here, and nothing else is to be checked."""
        if self._longest is not None:
            return None
        return wanted.search(self._text, self._at - self._base)

    def _search(
        self, wanted: re.Pattern[str], at: int
    ) -> Generator[None, None, re.Match[str] | None]:
        """What is looked for, if it comes before anything that no name holds, and soon enough."""
        start = at
        while (found := wanted.search(self._text, at - self._base)) is None:
            end = self._base + len(self._text)
            self._check_name(start, end)
            if self._final:
                return None
            at = max(start, end - _LONGEST_CLOSE)
            yield
        self._check_name(start, self._base + found.start())
        return found

    def _check_name(self, start: int, end: int) -> None:
        if self._longest is None:
            return
        odd = _NO_NAME.search(self._text, start - self._base, end - self._base)
        if odd is not None:
            raise ParseError(self._base + odd.start(), f"found {odd[0]!r}, expected a name")
        if end - start > self._longest:
            raise ParseError(start, f"found more than {self._longest} characters, expected a name")

    def _match(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        return wanted.match(self._text, self._at - self._base)


def read_calls(text: str, at: int, tags: Tags) -> tuple[int, list[tuple[str, str]]]:
    """The calls of a block, from after its opening tag's newline on. Returns where it ends.

    As the released functions do, it takes a name with line ends in it, and a text that ends in the
    close of a call, without its bracket.
    """
    block = StrictBlock(tags, 0)
    acting = text.acting() if isinstance(text, StrictText) else text
    start = at - 1
    block.feed(acting[start:] if start else acting, start, final=True)
    calls = []
    for call in block.calls:
        members = {
            text[key]: json_string(text[value]) if is_string else text[value]
            for key, is_string, value in call.parameters
        }
        calls.append((text[call.name], object_text(members)))
    assert block.end is not None
    return block.end, calls


def read_plainly(
    text: str, thinking: bool, tags: Tags, tools: DeclaredTools
) -> StrictMessage | None:
    """A whole completion that no rule of recovery.md could read in another way than the grammar.

    None for any other, well-formed or not: one with a mark in its prose or in a value, for example.
    """
    end = text.find(tokens.THINK_END) if thinking else 0
    at = end + len(tokens.THINK_END) if thinking else 0
    if end < 0 or _has_mark(text[:end]):
        return None
    block = text.find(tags.block_open, at)
    if block < 0:
        has_eos = text.endswith(tokens.EOS)
        content = text[at : len(text) - len(tokens.EOS)] if has_eos else text[at:]
        if _has_mark(content):
            return None
        return StrictMessage(text[:end], content, [], "", has_eos)
    content = text[at:block]
    if _has_mark(content) or any(fence * FENCE_LENGTH in content for fence in FENCES):
        return None
    reading = StrictBlock(tags, 0, longest=LONGEST_NAME)
    start = block + len(tags.block_open) - 1
    try:
        reading.feed(text[start:], start, final=True)
    except ParseError:
        return None
    has_eos = text.startswith(tokens.EOS, reading.end)
    after = (reading.end or 0) + (len(tokens.EOS) if has_eos else 0)
    if after != len(text) or not 0 < len(reading.calls) <= MOST_CALLS:
        return None
    calls = []
    for call in reading.calls:
        name, arguments = text[call.name], _plain_arguments(text, call, tools)
        if arguments is None or not _is_plain_name(name) or not tools.may_be_tool(name):
            return None
        calls.append((name, arguments))
    return StrictMessage(text[:end], content, calls, text[block : reading.end], has_eos)


def _plain_arguments(text: str, call: StrictCall, tools: DeclaredTools) -> str | None:
    members = {}
    for key, is_string, span in call.parameters:
        name, value = text[key], text[span]
        if not _is_plain_name(name) or _has_mark(value) or name in HOLDS_ALL:
            return None
        if not is_string:
            found = read_json(value)
            if found is None or found.repaired:
                return None
            value = found.text
        members[name] = json_string(value) if is_string else value
    return object_text(members) if len(members) <= MOST_PARAMETERS else None


def _is_plain_name(name: str) -> bool:
    """Whether the tolerant reading takes the name as it stands, too."""
    return name.replace("_", "a").replace("-", "a").isalnum()


def _has_mark(text: str) -> bool:
    return any(mark in text for mark in MARKS)


class StrictParser:
    """Collects a completion, and reads it when it has ended."""

    def __init__(self, settings: ParserSettings, thinking: bool) -> None:
        self._settings = settings
        self._thinking = thinking
        self._parts: list[str] = []
        self._length = 0
        self._inert: list[tuple[int, int]] = []

    def feed(self, text: str, inert: bool) -> None:
        if inert:
            self._inert.append((self._length, self._length + len(text)))
        self._parts.append(text)
        self._length += len(text)

    @property
    def holds(self) -> bool:
        return self._length > 0

    @property
    def held(self) -> str:
        return "".join(self._parts)

    def finish(self, ended: Ended | None) -> list[Event]:
        """All events. Raises a `ParseError` where the text leaves the grammar."""
        text = StrictText(self.held, self._inert) if self._inert else self.held
        message = read_strictly(text, self._thinking, self._settings.dialect.tags)
        named = [(*self._named(name), arguments) for name, arguments in message.calls]
        # Where no tool is declared, calls are text; where none is wanted, they are left out.
        tools = self._settings.tools
        shown = not tools.none_declared and not self._settings.forbidden
        content = message.content
        if tools.none_declared and named:
            content += message.block
        events: list[Event] = []
        if message.reasoning:
            events.append(ReasoningDelta(message.reasoning))
        if content:
            events.append(ContentDelta(content))
        for index, (space, name, arguments) in enumerate(named if shown else ()):
            start = ToolCallStart(index, name, self._settings.new_id(), space)
            CallWriter(name, start, tools, events.append).end(arguments)
        finish: Finish = "tool_calls" if named and shown else "stop"
        is_cut = ended is not None and ended.is_cut and not message.has_eos
        events.append(End("length" if is_cut else finish))
        return events

    def _named(self, name: str) -> tuple[str | None, str]:
        """Namespace and name (format.md, section 13.3)."""
        space, cut, bare = name.partition(NAMESPACE_END)
        if not self._settings.dialect.namespaces or not cut:
            return None, name
        if NAMESPACE_END in bare:
            at = self.held.find(name)
            raise ParseError(at, f"found {name!r}, expected one {NAMESPACE_END} in it at most")
        return space, bare
