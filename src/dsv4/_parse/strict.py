"""The strict grammar (format.md, section 8): what a well-formed completion is, and nothing else.

The tolerant state machine cannot be this: in the strict grammar a value ends at the first close,
whatever follows it. A handful of searches read a whole completion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, NAMESPACE_END, Dialect, Tags
from dsv4._parse.call_arguments import CallWriter, json_string, object_text
from dsv4._parse.events import ContentDelta, End, Event, Finish, ReasoningDelta, ToolCallStart
from dsv4._parse.finish_reasons import Ended
from dsv4._parse.parser_options import DeclaredTools
from dsv4._parse.source import pattern
from dsv4.errors import ParseError

_FORBIDDEN = (tokens.BOS, tokens.EOS, tokens.THINK_START, tokens.THINK_END, tokens.DSML)
_PARAMETER = pattern(r'(.*?)" string="(true|false)">(.*)', re.DOTALL)
_NAME = pattern(r'\s*name="')


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


def read_calls(text: str, at: int, tags: Tags) -> tuple[int, list[tuple[str, str]]]:
    """The calls of a block, from after its opening tag's newline on. Returns where it ends."""
    close = tags.block_close[1:]
    calls = []
    while not text.startswith(close, at):
        at = _name_of(text, at, tags)
        line_end = text.find("\n", at)
        if line_end < 0 or not text.startswith(NAME_END, line_end - 2):
            raise ParseError(at, f"found no {NAME_END!r} in the line, expected it after the name")
        name = text[at : line_end - 2]
        at, arguments = _read_parameters(text, line_end + 1, tags)
        calls.append((name, arguments))
    return at + len(close), calls


def _read_parameters(text: str, at: int, tags: Tags) -> tuple[int, str]:
    members: dict[str, str] = {}
    close_start = tags.parameter_close[1:-1]  # from the slash on
    while text.startswith(tags.parameter_open, at):
        start = at + len(tags.parameter_open)
        end = text.find(close_start, start) - 1
        if end < 0:
            raise ParseError(len(text), f"found the end, expected {tags.parameter_close}")
        if text[end] != tags.parameter_close[0]:
            raise ParseError(end, f"found {text[end]!r}, expected {tags.parameter_close[0]!r}")
        parts = _PARAMETER.match(text, start, end)
        if parts is None:
            raise ParseError(start, 'found no string="true" or string="false" after the name')
        key, string, value = parts.groups()
        if key in members:
            raise ParseError(start, f"found the parameter {key!r} twice, expected it once")
        members[key] = json_string(value) if string == "true" else value
        at = _expect(text, end, tags.parameter_close + "\n")
    if not members and text.startswith("\n", at):
        at += 1  # as the encoder writes a call without parameters
    at = _expect(text, at, tags.invoke_close[1:] + "\n")
    return at, object_text(members)


def _name_of(text: str, at: int, tags: Tags) -> int:
    """Where the name of a call begins. Any white space, or none, may stand before the attribute."""
    at = _expect(text, at, tags.invoke_open.partition(" name=")[0])
    name = _NAME.match(text, at)
    if name is None:
        raise ParseError(at, f"found {text[at : at + 8]!r}, expected ' name=\"'")
    return name.end()


def _expect(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        found = text[at : at + len(expected)]
        raise ParseError(at, f"found {found!r}, expected {str(expected)!r}")
    return at + len(expected)


class StrictParser:
    """Reads a whole completion when it has come: before its end nothing is certain."""

    def __init__(
        self,
        thinking: bool,
        tools: DeclaredTools,
        forbidden: bool,
        dialect: Dialect,
        new_id: Callable[[], str],
    ) -> None:
        self._thinking = thinking
        self._tools = tools
        self._forbidden = forbidden
        self._dialect = dialect
        self._new_id = new_id
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
        message = read_strictly(text, self._thinking, self._dialect.tags)
        named = [(*self._named(name), arguments) for name, arguments in message.calls]
        # Where no tool is declared, calls are text; where none is wanted, they are left out.
        shown = not self._tools.none_declared and not self._forbidden
        content = message.content
        if self._tools.none_declared and named:
            content += message.block
        events: list[Event] = []
        if message.reasoning:
            events.append(ReasoningDelta(message.reasoning))
        if content:
            events.append(ContentDelta(content))
        for index, (space, name, arguments) in enumerate(named if shown else ()):
            start = ToolCallStart(index, name, self._new_id(), space)
            CallWriter(name, start, self._tools, events.append).end(arguments)
        finish: Finish = "tool_calls" if named and shown else "stop"
        is_cut = ended is not None and ended.is_cut and not message.has_eos
        events.append(End("length" if is_cut else finish))
        return events

    def _named(self, name: str) -> tuple[str | None, str]:
        """Namespace and name (format.md, section 13.3)."""
        space, cut, bare = name.partition(NAMESPACE_END)
        if not self._dialect.namespaces or not cut:
            return None, name
        if NAMESPACE_END in bare:
            at = self.held.find(name)
            raise ParseError(at, f"found {name!r}, expected one {NAMESPACE_END} in it at most")
        return space, bare
