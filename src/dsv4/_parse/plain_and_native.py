"""Calls without the DSML token, and calls as older models write them (recovery.md, rules 1, 13, 14
and 47). Each is found whole, or else is text.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import NamedTuple

from dsv4._completion.events import ArgumentsDelta
from dsv4._completion.json_text import json_string, member_text, object_in, without_duplicates
from dsv4._completion.limits import LONGEST_NAME
from dsv4._completion.patterns import pattern
from dsv4._completion.reasons import Ended
from dsv4._format import spellings
from dsv4._parse.call_reader import CallReader, begin_call
from dsv4._parse.json_calls import json_calls_in
from dsv4._parse.lexer import read_tag
from dsv4._parse.reading import Block, Reading
from dsv4._parse.speculation import Speculation
from dsv4._parse.tag import TOKENS, Tag
from dsv4._parse.tag_rules import is_plain_call
from dsv4._parse.text_buffer import Steps, TextBuffer

_NATIVE_CALL = pattern(spellings.NATIVE_CALL, re.DOTALL)
_NATIVE_HEAD = pattern(spellings.NATIVE_HEAD)
_NAME_END = pattern(r"[\n<]")
_NATIVE_OPENING = pattern(spellings.NATIVE_OPENING)
_NATIVE_CALLS_END = pattern(spellings.NATIVE_CALLS_END)
# Closing tags that stand behind the JSON of a call, and close nothing.
_STRAY_CLOSERS = pattern(r"(?<=[\]}])(?:\s*</\w{1,32}>)+\s*\Z")
_JSON_NAME = pattern(r'"name"\s*:\s*"([^"\\]*)"')


class OddCalls(NamedTuple):
    """Calls that were found, and their end. None: everything up to there is text."""

    calls: list[tuple[str, str]] | None
    end: int
    wraps: bool = False  # the close of a wrapper may follow
    cut: tuple[str, str] | None = None  # a call that was cut, and the known part of its arguments
    has_rest: bool = False  # something was left that could not be read


def find_plain_calls(reading: Reading, first: Tag, tag: Tag) -> Steps[OddCalls]:
    """A call, or JSON calls, in tags without the DSML token.

    `first` is the tag at which it begins: `tag`, or a wrapper right before it. A `tag` that is not
    an invoke holds JSON.
    """
    buffer, rules, at = reading.buffer, reading.rules, tag.end
    is_json = not rules.is_plain_invoke(tag)
    labels = {tag.label, first.label}
    while (ahead := (yield from buffer.next_tag(at))) is not None:
        at = ahead.start + 1
        is_own = ahead.label in labels or (ahead.kind == "invoke" and not is_json)
        if ahead.closing and is_own and not ahead.marked:
            inner = buffer.slice(tag.end, ahead.start)
            wraps = first is not tag and ahead.label != first.label
            calls = _json_calls(reading, inner) if is_json else _plain_call(reading, tag, inner)
            is_lost = not calls and (not is_json or _names_declared(reading, inner))
            return OddCalls(calls, ahead.end, wraps, has_rest=is_lost)
        if _begins_other(ahead):
            # Not a bracket that doubles the next tag's.
            doubles = isinstance(rules.doubled(ahead.start - 1), Tag)
            return OddCalls(None, ahead.start - doubles)
    # The text ends: it is not a call. If it ends in the JSON of a call, it was cut (rule 16).
    if is_json and _names_declared(reading, buffer.slice(first.start, buffer.end)):
        reading.note_cut()
    return OddCalls(None, buffer.next_mark(at))


def _names_declared(reading: Reading, text: str) -> bool:
    """Whether JSON, as far as it can be read, names a declared tool."""
    name = _JSON_NAME.search(text)
    return name is not None and reading.tools.declares(name[1])


def _begins_other(tag: Tag) -> bool:
    """Whether a tag cannot be in a plain call: it has the token, is a token, or opens a call."""
    again = is_plain_call(tag.label) and not tag.closing and tag.name is not None
    return tag.marked or tag.kind in TOKENS or again


def _json_calls(reading: Reading, text: str) -> list[tuple[str, str]] | None:
    calls = json_calls_in(_STRAY_CLOSERS.sub("", text).strip())
    is_declared = all(reading.tools.declares(name) for name, _ in calls.read)
    return calls.read if calls.read and is_declared and not calls.unread else None


def _plain_call(reading: Reading, tag: Tag, text: str) -> list[tuple[str, str]]:
    """A list of one call without the DSML token, read as if it and its block had the token.

    The list is empty if not all of the call's arguments are understood (rule 30).
    """
    name = reading.tools.as_declared(tag.attributes.get("name")) or ""
    attributes = {**tag.attributes, "name": name}
    if not text.strip() and len(attributes) == 1:
        return [(name, "{}")]
    inside = Reading(reading.settings.inside_plain_call, TextBuffer(read_tag), reasoning=False)
    inside.block = Block(may_be_empty=False, met_before=0)
    inside.buffer.append(text, inert=True)  # it has no token in it, whatever it spells
    inside.buffer.append(f"{reading.tags.invoke_close}{reading.tags.block_close}")
    inside.buffer.final, inside.buffer.ended = True, Ended.END
    opening = Tag("invoke", 0, "", label="invoke", marked=True, attributes=attributes)

    def read_on(reading: Reading) -> Steps[None]:
        if not reading.tally.calls_seen:
            yield from begin_call(reading, opening)
        while reading.call is not None:
            yield from CallReader(reading).read()
        reading.settle()
        reading.end_call()

    speculation = Speculation(inside, read_on)
    speculation.run()
    if not speculation.certain.tally.calls_completed:
        return []
    texts = [e.text for e in speculation.events() if isinstance(e, ArgumentsDelta)]
    return [(name, without_duplicates("".join(texts)))]


def find_native_calls(reading: Reading, tag: Tag) -> Steps[OddCalls]:
    """Calls as V3 and V3.1 wrote them."""
    buffer, at = reading.buffer, tag.end
    if not (yield from _names_tool(reading, tag)):
        return OddCalls(None, tag.end)
    while (ahead := (yield from buffer.next_tag(at))) is not None and not _ends_native(ahead):
        at = ahead.start + 1
    end = buffer.end if ahead is None else ahead.start
    if ahead is not None and ahead.kind not in ("eos", "native"):
        return OddCalls(None, end)
    calls, rest = native_calls(buffer.slice(tag.start, end))
    head = _NATIVE_HEAD.match(rest) if ahead is None and not buffer.stopped else None
    first = calls[0][0] if calls else "" if head is None else head[1]
    if not first or not reading.tools.may_be_tool(first):
        return OddCalls(None, end)
    cut = head and (head[1], member_text("arguments", json_string(rest[head.end() :])))
    after = end if ahead is None or ahead.kind == "eos" else ahead.end
    return OddCalls(calls, after, cut=cut, has_rest=bool(rest.strip()))


def _ends_native(tag: Tag) -> bool:
    """Whether native calls end at a tag, by their own close or by anything else."""
    is_own_close = tag.kind == "native" and tag.closing
    return is_own_close or tag.marked or tag.kind in ("eos", "think", "role")


def _names_tool(reading: Reading, tag: Tag) -> Steps[bool]:
    """Whether the token of a call and a tool's name follow a native token (rule 47).

    A sentence that only mentions the token is shown as it comes.
    """
    tools, first = reading.tools, tag
    if _NATIVE_OPENING.match(tag.raw):
        first = yield from reading.rules.look_ahead(tag.end)
    if first.kind != "native" or first.closing:
        return False
    name = yield from _name_at(reading, first.end)
    if name == spellings.NATIVE_TYPE and not tools.declares(name):
        name = yield from _name_at(reading, first.end + len(name) + spellings.NATIVE_SEP_LENGTH)
    return name is not None and tools.may_be_tool(name)


def _name_at(reading: Reading, start: int) -> Steps[str | None]:
    """The text up to a line's end or a tag, if it may be a tool's name; None if it cannot be."""
    buffer, tools, at = reading.buffer, reading.tools, start
    names, limit = (spellings.NATIVE_TYPE, *tools.declared), start + LONGEST_NAME + 1
    while (match := buffer.search(_NAME_END, at, min(buffer.end, limit))) is None:
        at = buffer.end
        begun = buffer.slice(start, at).strip()
        may_follow = not tools.given or any(map(str.startswith, names, repeat(begun)))
        if not may_follow or at >= limit or not (yield from buffer.more()):
            return None
    return buffer.slice(start, buffer.place(match.start())).strip()


def native_calls(text: str) -> tuple[list[tuple[str, str]], str]:
    """The calls in a native block, and the rest of it after them."""
    calls = []
    opening = _NATIVE_OPENING.match(text)
    at = 0 if opening is None else opening.end()
    while (match := _NATIVE_CALL.match(text, at)) is not None:
        arguments = object_in(match[2])
        if arguments is None:
            break
        calls.append((match[1].strip(), arguments.text.strip()))
        at = match.end()
    return calls, _NATIVE_CALLS_END.sub("", text[at:])
