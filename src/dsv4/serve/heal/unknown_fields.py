"""An account of what a chat server says in fields that nobody knows.

Such fields have metadata of vendors, what was said elsewhere, and sometimes the answer itself. At
the end, what they say must have been read in some other place, or the answer is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from dsv4._completion.message import Message, ToolCall
from dsv4.serve.backend import BackendError
from dsv4.serve.heal.chat_delta import (
    INNER,
    KNOWN_FIELDS,
    PART_TEXTS,
    call_pieces,
    has_text_by_name,
    has_thoughts,
    looks_like_calls,
    unknown_fields,
)
from dsv4.serve.heal.upstream_calls import UpstreamCalls

# Fields of an event, beside its choices, whose texts may be the answer; and one of Azure's choices.
OUTSIDE = (
    *("event.content", "event.text", "event.delta", "event.response", "event.output"),
    *("event.answer", "event.generated_text", "event.completion", "event.output_text"),
    "choice.messages",
)
# The same for a delta or a message in a delta.
_TEXTS = frozenset((*OUTSIDE, *INNER))
# Fields that hold text in a value that nobody knows; and fields whose text is no part of an answer:
# what was searched or asked, and what a call is made with.
_WORDS = (*PART_TEXTS, "reasoning_content", "reasoning_text", "transcript", "output_text")
_MATERIAL = re.compile(
    "search|citation|source|document|retriev|ground|filter|verbose|annotation"
    "|arguments|input|args|parameters"
)


class UnknownFields:
    """What one answer says in such fields."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self._names: set[str] = set()
        # By who says it, which is a choice or a message, and by the name of the field.
        self._words: dict[tuple[object, str], list[str]] = {}
        self._has_thoughts = False
        self._calls = UpstreamCalls(tool_names)
        self.have_calls = False

    def note(self, fields: Mapping[str, Any], speaker: object) -> list[str]:
        """Takes in what a delta or a message says, and gives the names of its unknown fields."""
        names = unknown_fields(fields)
        self._names.update(names)
        for value in map(fields.__getitem__, names):
            self._has_thoughts |= has_thoughts(value)
            if looks_like_calls(value):
                self.have_calls = True
                with suppress(BackendError):  # which are no calls then
                    for piece in call_pieces({"tool_calls": value}):
                        self._calls.add(piece)
        for name in (fields.keys() - KNOWN_FIELDS) | (fields.keys() & INNER):
            words = _words_of(fields[name] if name in _TEXTS else {name: fields[name]})
            # Some say the same in two fields of one value.
            self._words.setdefault((speaker, name), []).append("".join(dict.fromkeys(words)))
        return names

    @property
    def say_something(self) -> bool:
        return bool(self._names) or self.have_calls or any(map(any, self._words.values()))

    def have_more(self, calls: Iterable[ToolCall]) -> bool:
        """Whether more calls stand there than were read."""
        read = [call.arguments for call in calls]
        unknown = [call for call in self._calls if call.name]
        with_arguments = sum(not call.says_nothing for call in unknown)
        return len(unknown) > len(read) or with_arguments > sum(text != "{}" for text in read)

    def lost(self, message: Message, sampled: str) -> set[str]:
        """The names of those of which something was not read, neither in a `message` nor in all
        that was `sampled`."""
        has_lost_thoughts = self._has_thoughts and not message.reasoning
        has_nothing = has_lost_thoughts or not (message.content or message.tool_calls)
        lost = set(self._names) if has_nothing else set()
        told = {(message.content or "").strip(), sampled.strip()}
        for (_, name), words in self._words.items():
            text = "".join(words)
            # Beside the choices, or in a delta in the delta, other servers have their text.
            is_outside = name in _TEXTS and not {text.strip(), words[-1].strip()} & told
            may_be_more = not message.content or name == "audio"  # which is the content, heard
            if text and (is_outside or (may_be_more and text.strip() not in sampled)):
                lost.add(name)
        return lost


# The fields of an event or a choice that are read.
_READ = KNOWN_FIELDS | {"choices"}


def unread(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What an event or a choice says in fields that nobody knows."""
    unknown = {name: fields[name] for name in fields if name not in _READ}
    said = {name for name, item in unknown.items() if "".join(_words_of({name: item})).strip()}
    return {f"{place}.{name}": unknown[name] for name in said}


def _words_of(value: object) -> list[str]:
    """The texts in a value that nobody knows, at whatever depth."""
    words: list[str] = []
    left = [value]
    for each in left:  # which grows
        if isinstance(each, str):
            words.append(each)
        elif isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += (each[name] for name in each if _may_have_words(name, each[name]))
    return words


def _may_have_words(name: str, value: object) -> bool:
    texts = value if isinstance(value, list) else [value]
    has_texts = any(isinstance(text, str) for text in texts)
    is_text = not has_texts or name in _WORDS or has_text_by_name(name)
    return is_text and _MATERIAL.search(name) is None
