"""Calls that are written as JSON (recovery.md, rules 5, 13 and 14)."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from dsv4._completion.json_text import elements_of, members_of, object_in, read_json, values_in
from dsv4._completion.patterns import pattern
from dsv4._format.spellings import JSON_ARGUMENTS, JSON_FRAME

_LIST_OF_CALLS = pattern(r'\s*(?:\{\s*"tool_calls"\s*:\s*)?\[')  # the beginning of one


class JsonCalls(NamedTuple):
    """The calls that JSON describes, as names and arguments, and the number of items that are not
    calls."""

    read: list[tuple[str, str]]
    unread: int


def json_calls_in(text: str) -> JsonCalls:
    """The calls in a JSON object or list."""
    reading = read_json(text)
    if reading is None or not isinstance(reading.value, (dict, list)):
        return JsonCalls([], 1)
    text = reading.text
    if isinstance(reading.value, dict):
        is_list = isinstance(reading.value.get("tool_calls"), list)
        items = elements_of(dict(members_of(text))["tool_calls"]) if is_list else [text]
    else:
        items = elements_of(text)
    calls = [call for call in map(_described, items) if call is not None]
    return JsonCalls(calls, len(items) - len(calls))


def _described(item: str) -> tuple[str, str] | None:
    """A call's name and arguments, from its JSON."""
    if not item.startswith("{"):
        return None
    members = dict(members_of(item))
    if members.get("function", "").startswith("{"):
        members = dict(members_of(members["function"]))
    named = read_json(members.get("name", "null"))
    if named is None or not isinstance(named.value, str):
        return None
    arguments = next((members[key] for key in JSON_ARGUMENTS if key in members), "null")
    if arguments in ("null", '""'):
        # Not if another key may hold them (rule 11).
        return (named.value, "{}") if members.keys() <= JSON_FRAME | {*JSON_ARGUMENTS} else None
    inner = object_in(arguments)
    return None if inner is None else (named.value, inner.text.strip())


def complete_calls(text: str) -> list[tuple[str, str]]:
    """The calls in a list that was cut, without the call in which it was cut.

    A list inside of arguments does not count: what is quoted never runs.
    """
    elements: list[str] = []
    opening = _LIST_OF_CALLS.match(text)
    if opening is not None:
        with suppress(ValueError, RecursionError):
            elements.extend(values_in(text, opening.end()))
    return [call for call in map(_described, elements) if call is not None]
