"""Marks that tell a caller's text from a server's own words in a finished prompt.

A prompt of a server is one text, in which a special token that a user spelled looks like a real
one. So each spelling in a caller's text gets a mark inside, with a different mark for each place
that texts come from. To count tokens, the marks of a place are removed before the special tokens
are found if the server lets them act there, and afterwards if it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from dsv4._format.tokens import V4_1_TOKENS, spelled
from dsv4.profiles.server_requests import Object

TextPlace: TypeAlias = Literal["user", "result", "tool", "history"]
TEXT_PLACES: tuple[TextPlace, ...] = get_args(TextPlace)

# Noncharacters, which no text of a request has: Unicode reserves them for such use.
SHIELDS: Mapping[TextPlace, str] = {place: chr(0xFDD0 + n) for n, place in enumerate(TEXT_PLACES)}
# The mark that keeps a server from cutting a billing line. It is removed from every prompt.
BILLING_SHIELD = chr(0xFDD0 + len(SHIELDS))

_SPELLING = spelled(V4_1_TOKENS)
_PLACES: Mapping[str, TextPlace] = {"user": "user", "tool": "result", "assistant": "history"}


def unshielded(prompt: str, places: Iterable[TextPlace] = TEXT_PLACES) -> str:
    """A prompt without the marks of these places, whether plain or escaped for JSON."""
    for mark in (BILLING_SHIELD, *(SHIELDS[place] for place in places)):
        prompt = prompt.replace(mark, "").replace(f"\\u{ord(mark):x}", "")
    return prompt


def unshielded_value(value: Any) -> Any:
    """A JSON value without any marks in its texts."""
    return _each_text(value, unshielded)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with each of its texts changed, names included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_each_text(item, change) for item in value]
    if isinstance(value, dict):
        return {_each_text(key, change): _each_text(item, change) for key, item in value.items()}
    return value


def shielded(body: Object) -> Object:
    """The body with a mark in each spelling of a special token; the same object if it has none."""
    changed = dict(body)
    messages = body.get("messages")
    if isinstance(messages, list):
        changed["messages"] = [_message(message) for message in messages]
    if "tools" in body:
        changed["tools"] = _marked(body["tools"], SHIELDS["tool"])
    return body if changed == body else changed


def _message(message: object) -> object:
    place = _PLACES.get(str(message.get("role"))) if isinstance(message, dict) else None
    return message if place is None else _marked(message, SHIELDS[place])


def _marked(value: Any, mark: str) -> Any:
    spelling = partial(_SPELLING.sub, lambda match: f"{match[0][0]}{mark}{match[0][1:]}")
    return _each_text(value, spelling)
