"""Calls without the DSML token, and calls as older models write them: found whole, or else text
(recovery.md, rules 1, 13 and 14).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dsv4._format.spellings import (
    ELEMENT_ATTRIBUTES,
    NATIVE_CALL,
    NATIVE_CALLS_END,
    NATIVE_HEAD,
    NATIVE_OPENING,
    PLAIN_INVOKES,
)
from dsv4._parse.call_arguments import (
    is_item,
    json_calls_in,
    json_string,
    list_text,
    object_in,
    object_text,
    typed_json,
)
from dsv4._parse.lexer import read_tag
from dsv4._parse.patterns import pattern
from dsv4._parse.reading import Reading
from dsv4._parse.steps import Steps
from dsv4._parse.tag import TOKENS, Tag
from dsv4._parse.text_buffer import TextBuffer

_NATIVE_CALL = pattern(NATIVE_CALL, re.DOTALL)
_NATIVE_HEAD = pattern(NATIVE_HEAD)
_NATIVE_OPENING = pattern(NATIVE_OPENING)
_NATIVE_CALLS_END = pattern(NATIVE_CALLS_END)
# Closing tags that stand behind the JSON of a call, and close nothing.
_STRAY_CLOSERS = pattern(r"(?<=[\]}])(?:\s*</\w{1,32}>)+\s*\Z")
_JSON_NAME = pattern(r'"name"\s*:\s*"([^"\\]*)"')


class OddCalls(NamedTuple):
    """Calls that were found, and where they end. None: all text up to there is text."""

    calls: list[tuple[str, str]] | None
    end: int
    wraps: bool = False  # the close of a wrapper may follow
    cut: tuple[str, str] | None = None  # a call that was cut, and what is known of its arguments
    has_rest: bool = False  # something was left that could not be read


def find_plain_calls(reading: Reading, first: Tag, tag: Tag) -> Steps[OddCalls]:
    """A call, or JSON calls, in tags without the DSML token.

    `first` is where it begins: at `tag`, or at a wrapper right before it. A tag that is no invoke
    holds JSON.
    """
    buffer, rules, at = reading.buffer, reading.rules, tag.end
    is_json = not rules.is_plain_invoke(tag)
    wrapped = first is not tag
    while (found := (yield from buffer.next_tag(at))) is not None:
        at = found.start + 1
        if not found.marked and found.closing:
            own = found.label == tag.label or (found.kind == "invoke" and not is_json)
            if own or (wrapped and found.label == first.label):
                calls = _plain_calls(reading, tag, buffer.slice(tag.end, found.start), is_json)
                return OddCalls(calls, found.end, wrapped and found.label != first.label)
        again = found.label.rpartition(":")[2] in PLAIN_INVOKES and not found.closing
        if found.marked or found.kind in TOKENS or (again and found.name is not None):
            # Not a bracket that doubles the next tag's.
            doubles = isinstance(rules.doubled(found.start - 1), Tag)
            return OddCalls(None, found.start - doubles)
    # The text ends: it is no call. Inside the JSON of one it was cut (rule 16).
    name = _JSON_NAME.search(buffer.slice(first.start, buffer.end))
    if is_json and name is not None and reading.tools.declares(name[1]):
        reading.note_cut()
    return OddCalls(None, buffer.next_mark(at))


def _plain_calls(
    reading: Reading, tag: Tag, inner: str, is_json: bool
) -> list[tuple[str, str]] | None:
    tools = reading.tools
    if is_json:
        calls = json_calls_in(_STRAY_CLOSERS.sub("", inner).strip())
        known = all(tools.declares(name) for name, _ in calls.read)
        return calls.read if calls.read and known and not calls.unread else None
    name = tools.as_declared(tag.attributes.get("name")) or ""
    return [(name, plain_arguments(inner, tools.keys(name)))]


def plain_arguments(text: str, keys: dict[str, frozenset[str]]) -> str:
    """The arguments of a call without the DSML token: parameters, elements, or a JSON object."""
    members: dict[str, str] = {}
    lists: dict[str, list[str]] = {}  # of values that came one by one (rule 28)
    at = text.find("<")
    while at >= 0:
        tag = _tag_in(text, at)
        key = None if tag is None or tag.closing else _key(tag, keys)
        if tag is None or key is None:
            at = text.find("<", at + 1)
            continue
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
        at = text.find("<", after)
    if members or not text.strip():
        return object_text(members | {key: list_text(items) for key, items in lists.items()})
    body = object_in(text)
    return f'{{"arguments": {json_string(text)}}}' if body is None else body.text.strip()


def _tag_in(text: str, at: int) -> Tag | None:
    buffer = TextBuffer(read_tag)
    buffer.append(text[at : at + 2048])
    buffer.final = True
    tag = buffer.tag_at(0)
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
    says = not (tag.self_closed and "value" not in tag.attributes and tag.string == "true")
    return typed_json(text, tag.string if says else None, types)


def find_native_calls(reading: Reading, tag: Tag) -> Steps[OddCalls]:
    """Calls as V3 and V3.1 wrote them."""
    buffer, at = reading.buffer, tag.end
    while (found := (yield from buffer.next_tag(at))) is not None:
        if found.kind == "native" and found.closing:
            return _native_found(reading, tag, found.start, found.end)
        if found.kind == "eos":
            return _native_found(reading, tag, found.start, found.start)
        if found.marked or found.kind in ("think", "role"):
            return OddCalls(None, found.start)
        at = found.start + 1
    return _native_found(reading, tag, buffer.end, buffer.end)


def _native_found(reading: Reading, tag: Tag, end: int, after: int) -> OddCalls:
    buffer = reading.buffer
    calls, rest = native_calls(buffer.slice(tag.start, end))
    ended = buffer.final and end == buffer.end
    head = _NATIVE_HEAD.match(rest) if ended and not buffer.stopped else None
    first = calls[0][0] if calls else "" if head is None else head[1]
    if not first or not reading.tools.may_be_tool(first):
        return OddCalls(None, end)
    cut = None
    if head is not None:
        cut = head[1], f'"arguments": {json_string(rest[head.end() :])}'
    return OddCalls(calls, after, cut=cut, has_rest=bool(rest.strip()))


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
