"""Calls without the DSML token, and calls as older models write them: held until they close, or
else text (recovery.md, rules 1, 13 and 14).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dsv4._format.spellings import (
    ELEMENT_ATTRIBUTES,
    NATIVE_CALL,
    NATIVE_CALLS_END,
    NATIVE_HEAD,
    NATIVE_OPENING,
    PLAIN_INVOKES,
)
from dsv4._parse import events as kinds
from dsv4._parse.call_arguments import (
    is_item,
    json_calls_in,
    json_string,
    keys_given_in,
    list_text,
    object_in,
    object_text,
    read_json,
    typed_json,
)
from dsv4._parse.events import DiagnosticKind
from dsv4._parse.lexer import read_tag
from dsv4._parse.machine import Machine, Move, ParserState
from dsv4._parse.patterns import pattern
from dsv4._parse.prose import ProseReader
from dsv4._parse.source import TextSource
from dsv4._parse.tag import TOKENS, Tag
from dsv4._parse.tag_rules import is_plain_invoke

_NATIVE_CALL = pattern(NATIVE_CALL, re.DOTALL)
_NATIVE_HEAD = pattern(NATIVE_HEAD)
_NATIVE_OPENING = pattern(NATIVE_OPENING)
_NATIVE_CALLS_END = pattern(NATIVE_CALLS_END)
# Closing tags that stand behind the JSON of a call, and close nothing.
_STRAY_CLOSERS = pattern(r"(?<=[\]}])(?:\s*</\w{1,32}>)+\s*\Z")
_JSON_NAME = pattern(r'"name"\s*:\s*"([^"\\]*)"')


class PlainCallReader:
    """A call, or JSON calls, in tags without the DSML token.

    `first` is where it begins: at `tag`, or at a wrapper right before it. A tag that is no invoke
    holds JSON.
    """

    def __init__(self, machine: Machine, prose: ProseReader, first: Tag, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._first = first
        self._tag = tag
        self._is_json = not is_plain_invoke(machine.rules, tag)
        self._at = tag.end
        self._inner = self._at - machine.source.pos
        machine.source.set_aside(self._at)

    def read(self) -> Move | None:
        source = self._source
        while True:
            self._at, tag = source.next_tag(self._at)
            if tag is None:
                source.set_aside(self._at)
                return None
            if self._closes(tag):
                return self._close(tag)
            if self._gives_up(tag):
                source.set_aside(self._at)
                return self._release()
            self._at += 1

    def _closes(self, tag: Tag) -> bool:
        if tag.marked or not tag.closing:
            return False
        own = tag.label == self._tag.label or (tag.kind == "invoke" and not self._is_json)
        wraps = self._first is not self._tag and tag.label == self._first.label
        return own or wraps

    def _gives_up(self, tag: Tag) -> bool:
        if tag.marked or tag.kind in TOKENS:
            return True
        again = tag.label.rpartition(":")[2] in PLAIN_INVOKES and not tag.closing
        return again and tag.name is not None

    def _release(self) -> Move:
        """It was no call: what was held is text, but for a bracket that doubles the next tag's."""
        to = self._source.pos
        self._source.put_back()
        doubles = to < self._source.end and self._machine.rules.doubled(to - 1)
        return (ParserState.PROSE, None, to - 1 if isinstance(doubles, Tag) else to)

    def end(self) -> Move | None:
        """The text ends: it is no call. Inside the JSON of one it was cut (rule 16)."""
        source = self._source
        name = _JSON_NAME.search(source.peek_aside() + source.slice(source.pos, source.end))
        if self._is_json and name is not None and self._machine.tools.declares(name[1]):
            self._machine.note_cut()
        return self._release()

    def _close(self, tag: Tag) -> Move:
        machine, source = self._machine, self._source
        source.set_aside(tag.start)
        inner = source.peek_aside()[self._inner :]
        calls = self._calls(inner)
        if calls is None:
            source.set_aside(tag.end)
            return self._release()
        source.put_back()
        halted = self._prose.enter_calls(self._first)
        if halted is not None:
            return halted
        kind: DiagnosticKind = kinds.FORBIDDEN_CALL if machine.forbidden else kinds.PLAIN_MARKUP
        machine.report(kind, self._first.start, tag.end)
        source.advance(tag.end)
        wraps = self._first is not self._tag and tag.label != self._first.label
        self._prose.plain_wrapper = wraps or self._prose.plain_wrapper
        for name, arguments in calls:
            if arguments is not None:
                machine.whole_call(name, arguments, tag.end)
            else:  # it lacks an argument that it came with (rule 30)
                machine.part_of_call(name, f'"arguments": {json_string(inner)}', "unreadable")
                machine.report_raw(kinds.DROPPED_CALL, tag.end, "")
        return (ParserState.AFTER,)

    def _calls(self, inner: str) -> Sequence[tuple[str, str | None]] | None:
        tools = self._machine.tools
        if self._is_json:
            calls = json_calls_in(_STRAY_CLOSERS.sub("", inner).strip())
            known = all(tools.declares(name) for name, _ in calls.read)
            return calls.read if calls.read and known and not calls.unread else None
        name = tools.as_declared(self._tag.attributes.get("name")) or ""
        return [(name, plain_arguments(inner, tools.keys(name)))]


def plain_arguments(text: str, keys: dict[str, frozenset[str]]) -> str | None:
    """The arguments of a call without the DSML token: parameters, elements, or a JSON object.

    None: text between them gives another one.
    """
    members: dict[str, str] = {}
    between, done = "", 0
    lists: dict[str, list[str]] = {}  # of values that came one by one (rule 28)
    at = text.find("<")
    while at >= 0:
        tag = _tag_in(text, at)
        key = None if tag is None or tag.closing else _key(tag, keys)
        if tag is None or key is None:
            at = text.find("<", at + 1)
            continue
        between += text[done : tag.start]
        if tag.self_closed:
            value, after = tag.attributes.get("value", tag.attributes.get("string", "")), tag.end
        else:
            end, after = _close_of(text, tag, keys)
            value = text[tag.end : end]
        types = keys.get(key, frozenset())
        given, before = _plain_value(value, tag, types), members.pop(key, None)
        if before is not None and "array" in types and is_item(before) and is_item(given):
            lists.setdefault(key, [before]).append(given)
        else:
            lists.pop(key, None)
        members[key] = given
        done = after
        at = text.find("<", after)
    if members and not keys_given_in(between + text[done:], keys) <= members.keys():
        return None
    if members or not text.strip():
        return object_text(members | {key: list_text(items) for key, items in lists.items()})
    body = object_in(text)
    return f'{{"arguments": {json_string(text)}}}' if body is None else body.text.strip()


def _tag_in(text: str, at: int) -> Tag | None:
    source = TextSource(read_tag)
    source.append(text[at : at + 2048])
    source.final = True
    tag = source.tag_at(0)
    if not isinstance(tag, Tag) or tag.broken:
        return None
    tag.start += at
    tag.end += at
    return tag


def _key(tag: Tag, keys: dict[str, frozenset[str]]) -> str | None:
    if tag.kind == "parameter" and tag.name is not None:
        return tag.name if tag.name in keys or tag.name.strip() not in keys else tag.name.strip()
    return tag.label if tag.label in keys and tag.attributes.keys() <= ELEMENT_ATTRIBUTES else None


def _close_of(text: str, opening: Tag, keys: dict[str, frozenset[str]]) -> tuple[int, int]:
    """Where the value of a parameter ends, and its closing tag: one after which calls can go on."""
    at, last = opening.end, None
    while (at := text.find("</", at)) >= 0:
        tag = _tag_in(text, at)
        if tag is not None and tag.closing and tag.label == opening.label:
            rest = text[tag.end :].lstrip()
            following = _tag_in(rest, 0) if rest.startswith("<") else None
            opens = following is not None and not following.closing
            if not rest or (opens and following is not None and _key(following, keys) is not None):
                return at, tag.end
            last = last or (at, tag.end)
        at += 1
    return last or (len(text), len(text))


def _plain_value(text: str, tag: Tag, types: frozenset[str]) -> str:
    if tag.string == "true" and not (tag.self_closed and "value" not in tag.attributes):
        return json_string(text)
    if tag.string == "false":
        found = read_json(text)
        return json_string(text) if found is None else found.text
    return typed_json(text, types)


class NativeCallsReader:
    """Calls as V3 and V3.1 wrote them."""

    def __init__(self, machine: Machine, prose: ProseReader, tag: Tag) -> None:
        self._machine = machine
        self._source = machine.source
        self._prose = prose
        self._first = tag
        self._at = tag.end
        self._inner = tag.start - machine.source.pos
        machine.source.set_aside(tag.end)

    def read(self) -> Move | None:
        source = self._source
        while True:
            self._at, tag = source.next_tag(self._at)
            if tag is None:
                source.set_aside(self._at)
                return None
            if tag.kind == "native" and tag.closing:
                return self._close(tag.start, tag.end)
            if tag.kind == "eos":
                return self._close(tag.start, tag.start)
            if tag.marked or tag.kind in ("think", "role"):
                return self._release(tag.start)
            self._at += 1

    def end(self) -> Move | None:
        source = self._source
        source.set_aside(source.end)
        return self._close(source.end, source.end)

    def _close(self, end: int, after: int) -> Move:
        source, machine = self._source, self._machine
        source.set_aside(end)
        text = source.peek_aside()[self._inner :]
        calls, rest = native_calls(text)
        ended = source.final and end == source.end
        cut = _NATIVE_HEAD.match(rest) if ended and not source.stopped else None
        first = calls[0][0] if calls else "" if cut is None else cut[1]
        if not first or not machine.tools.may_be_tool(first):
            return self._release(end)
        source.put_back()
        if (halted := self._prose.enter_calls(self._first)) is not None:
            return halted
        machine.report(
            kinds.FORBIDDEN_CALL if machine.forbidden else kinds.NATIVE_MARKUP,
            self._first.start,
            after,
        )
        source.advance(after)
        for name, arguments in calls:
            machine.whole_call(name, arguments, after)
        if cut is not None:
            machine.part_of_call(cut[1], f'"arguments": {json_string(rest[cut.end() :])}')
        if rest.strip() and ended:
            machine.report_cut(source.end)
        elif rest.strip():
            machine.report_raw(kinds.DROPPED_CALL, after, "")
        return (ParserState.AFTER,)

    def _release(self, to: int) -> Move:
        self._source.set_aside(to)
        self._source.put_back()
        return (ParserState.PROSE, None, to)


def native_calls(text: str) -> tuple[list[tuple[str, str]], str]:
    """The calls in a native block, and what is left of it after them."""
    calls = []
    opening = _NATIVE_OPENING.match(text)
    at = 0 if opening is None else opening.end()
    while (found := _NATIVE_CALL.match(text, at)) is not None:
        arguments = object_in(found[2])
        if arguments is None:
            break
        calls.append((found[1].strip(), arguments.text.strip()))
        at = found.end()
    return calls, _NATIVE_CALLS_END.sub("", text[at:])
