"""A chat server's habits, as its answers have shown them, kept as long as the process runs."""

from __future__ import annotations

import logging
from typing import Literal, TypeAlias

from dsv4.errors import short_repr
from dsv4.serve.settings import ReasoningInContent

_log = logging.getLogger("dsv4.serve")

# The place of a server's reasoning: in a field of its own, in the content, or nowhere that was
# seen; "unknown" while too few answers have come.
ReasoningPlace: TypeAlias = Literal["unknown", "field", "content", "none"]

# After so many answers without a sign of reasoning, no more content is held back for it.
_MOST_UNSURE = 3
# The most unknown fields that are reported by name.
_MOST_UNKNOWN = 20


class UpstreamHabits:
    """The place where a chat server puts its reasoning.

    A server without a reasoning parser, whose prompt ends in an open thinking tag, writes the
    thought and the closing tag into the content. Nothing else in its answers shows that.
    """

    def __init__(self, setting: ReasoningInContent = "auto") -> None:
        places: dict[ReasoningInContent, ReasoningPlace] = {"never": "field", "always": "content"}
        self._is_fixed = setting != "auto"
        self.reasoning_place: ReasoningPlace = places.get(setting, "unknown")
        self._unsure = 0
        self.unknown_fields: set[str] = set()

    @property
    def reasons_in_content(self) -> bool | None:
        """Whether content begins with reasoning. None while that is unknown."""
        return None if self.reasoning_place == "unknown" else self.reasoning_place == "content"

    def saw_unknown(self, name: str) -> None:
        """Notes that an answer has an unknown field."""
        if name not in self.unknown_fields and len(self.unknown_fields) < _MOST_UNKNOWN:
            self.unknown_fields.add(name)
            _log.warning("the chat server sends a field that is not known: %s", short_repr(name))

    def saw_field(self) -> None:
        """Notes that an answer has reasoning in a field of its own."""
        self._learn("field", "the chat server sends reasoning in a field of its own")

    def saw_in_content(self) -> None:
        """Notes that an answer has the end of its thinking in the content, and no other
        reasoning."""
        if self.reasoning_place != "field":
            problem = "the chat server writes its reasoning into the content"
            self._learn("content", f"{problem}: it is read as reasoning up to the end of thinking")

    def saw_neither(self) -> None:
        """Notes that an answer was whole, and had no reasoning anywhere."""
        self._unsure += 1
        if self.reasoning_place == "content":
            self._learn("unknown", "the chat server has written no reasoning into the content")
        elif self.reasoning_place == "unknown" and self._unsure >= _MOST_UNSURE:
            self._learn("none", "the chat server has sent no reasoning so far")

    def _learn(self, place: ReasoningPlace, message: str) -> None:
        if place == self.reasoning_place or self._is_fixed:
            return
        self.reasoning_place, self._unsure = place, 0
        _log.info("%s", message)
