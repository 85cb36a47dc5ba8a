"""An account of the content that a chat server sends in unknown fields.

Such fields have vendors' metadata, copies of other fields, and sometimes the answer itself. Their
content must have been read in some other place by the end, or the answer is a failure.
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

# Fields of an event, beside its choices, whose texts may be the answer; and one field of Azure's
# choices.
OUTSIDE = (
    *("event.content", "event.text", "event.delta", "event.response", "event.output"),
    *("event.answer", "event.generated_text", "event.completion", "event.output_text"),
    "choice.messages",
)
# The same for a delta or a message in a delta.
_TEXTS = frozenset((*OUTSIDE, *INNER))
# Fields that hold text in an unknown value; and names of fields whose text is not a part of the
# answer: search results, the request's texts, the arguments of calls.
_WORDS = (*PART_TEXTS, "reasoning_content", "reasoning_text", "transcript", "output_text")
_MATERIAL = re.compile(
    "search|citation|source|document|retriev|ground|filter|verbose|annotation"
    "|arguments|input|args|parameters"
)


class UnknownFields:
    """The content of one answer's unknown fields."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self._names: set[str] = set()
        # By the speaker, which is a choice or a message, and by the name of the field.
        self._words: dict[tuple[object, str], list[str]] = {}
        self._has_thoughts = False
        self._calls = UpstreamCalls(tool_names)
        self.have_calls = False

    def note(self, fields: Mapping[str, Any], speaker: object) -> list[str]:
        """Takes in a delta or a message, and returns the names of its unknown fields."""
        names = unknown_fields(fields)
        self._names.update(names)
        for value in map(fields.__getitem__, names):
            self._has_thoughts |= has_thoughts(value)
            if looks_like_calls(value):
                self.have_calls = True
                with suppress(BackendError):  # then they are not calls
                    for piece in call_pieces({"tool_calls": value}):
                        self._calls.add(piece)
        for name in (fields.keys() - KNOWN_FIELDS) | (fields.keys() & INNER):
            words = _words_of(fields[name] if name in _TEXTS else {name: fields[name]})
            # Some send the same text in two fields of one value.
            self._words.setdefault((speaker, name), []).append("".join(dict.fromkeys(words)))
        return names

    @property
    def say_something(self) -> bool:
        return bool(self._names) or self.have_calls or any(map(any, self._words.values()))

    def have_more(self, calls: Iterable[ToolCall]) -> bool:
        """Whether the unknown fields have more calls than were read."""
        read = [call.arguments for call in calls]
        unknown = [call for call in self._calls if call.name]
        with_arguments = sum(not call.says_nothing for call in unknown)
        return len(unknown) > len(read) or with_arguments > sum(text != "{}" for text in read)

    def lost(self, message: Message, sampled: str) -> set[str]:
        """The names of the fields with content that was not read: it is neither in a `message` nor
        in the text that was `sampled`."""
        has_lost_thoughts = self._has_thoughts and not message.reasoning
        has_nothing = has_lost_thoughts or not (message.content or message.tool_calls)
        lost = set(self._names) if has_nothing else set()
        told = {(message.content or "").strip(), sampled.strip()}
        for (_, name), words in self._words.items():
            text = "".join(words)
            # Other servers have their text beside the choices, or in a delta within the delta.
            is_outside = name in _TEXTS and not {text.strip(), words[-1].strip()} & told
            may_be_more = not message.content or name == "audio"  # "audio" is the content as sound
            if text and (is_outside or (may_be_more and text.strip() not in sampled)):
                lost.add(name)
        return lost


# The fields of an event or a choice that are read.
_READ = KNOWN_FIELDS | {"choices"}


def unread(fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The unknown fields of an event or a choice that have content."""
    unknown = {name: fields[name] for name in fields if name not in _READ}
    said = {name for name, item in unknown.items() if "".join(_words_of({name: item})).strip()}
    return {f"{place}.{name}": unknown[name] for name in said}


def _words_of(value: object) -> list[str]:
    """The texts in an unknown value, at any depth."""
    words: list[str] = []
    left = [value]
    for each in left:  # the list grows meanwhile
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
