"""What a delta of a chat server says, in whatever form: its reasoning, its text, its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dsv4.errors import short_repr
from dsv4.serve.backend import BackendError

# Whether a text is reasoning, and the text.
SpokenText: TypeAlias = tuple[bool, str]

# Servers that send both of them send the same text in both.
_REASONING = ("reasoning_content", "reasoning", "thinking")
# What a part of a list calls its text, by its type, and whether that is reasoning.
_PARTS = {
    "text": ("text", False),
    "output_text": ("text", False),
    "refusal": ("refusal", False),
    "thinking": ("thinking", True),
    "reasoning": ("text", True),
}


def spoken_texts(delta: Mapping[str, Any]) -> Iterator[SpokenText]:
    """The texts of a delta, in the order of its fields. Raises a `BackendError` for what is no
    text: nothing that a server says is passed over."""
    for name in _REASONING:
        if value := delta.get(name):
            yield from ((True, text) for _, text in _texts(value, name))
            break
    # No protocol here has another place for a refusal.
    for name in ("content", "refusal"):
        if value := delta.get(name):
            yield from _texts(value, name)


def _texts(value: object, place: str) -> Iterator[SpokenText]:
    if isinstance(value, str):
        yield False, value
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from _part_texts(part, f"{place}[{n}]")
    else:
        raise _garbage(value, place)


def _part_texts(part: object, place: str) -> Iterator[SpokenText]:
    if isinstance(part, str):
        yield False, part
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in _PARTS:
        raise _garbage(part, place)
    name, is_reasoning = _PARTS[kind]
    for inner, text in _texts(part.get(name) or "", f"{place}.{name}"):
        yield inner or is_reasoning, text


def called(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The pieces of calls in a delta. Raises a `BackendError` for what is none."""
    pieces = delta.get("tool_calls")
    if isinstance(pieces, dict):
        pieces = [pieces]
    if pieces is not None and not isinstance(pieces, list):
        raise _garbage(pieces, "tool_calls")
    for n, piece in enumerate(pieces or ()):
        if not isinstance(piece, dict):
            raise _garbage(piece, f"tool_calls[{n}]")
        if not isinstance(piece.get("function"), (dict, type(None))):
            raise _garbage(piece["function"], f"tool_calls[{n}].function")
        yield piece
    if isinstance(old := delta.get("function_call"), dict):  # of servers from before tools
        yield {"index": 0, "function": old}


def _garbage(value: object, place: str) -> BackendError:
    problem = f"the backend sent another {place} of a delta than is known"
    return BackendError(problem, quoted=short_repr(value, 40))
