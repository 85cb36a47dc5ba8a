"""A finding: where something is, what kind of thing it is, and what to know about it."""

from __future__ import annotations

from typing import NamedTuple

from dsv4.checking.kinds import Level
from dsv4.errors import Location, path_of


class Finding(NamedTuple):
    """Something that `dsv4.check` found.

    `level` is "error" where the conversation cannot be encoded, "warning" where something is most
    likely wrong with it, and "note" where the format does something that you may want to know.
    `kind` is one of `dsv4.checking.KINDS`. `location` leads to the place, as in `("messages", 3,
    "content")`: empty for the body as a whole. `message` says what was found.
    """

    level: Level
    kind: str
    location: Location
    message: str

    @property
    def path(self) -> str:
        """The location as people write it: `messages[3].content`."""
        return path_of(self.location)


class Found(NamedTuple):
    """What a rule found. How serious it is depends on what the conversation is for."""

    kind: str
    location: Location
    message: str


def index_of(location: Location) -> int | None:
    """The index of the message that a location leads to, if it leads to one."""
    if len(location) > 1 and location[0] == "messages" and isinstance(location[1], int):
        return location[1]
    return None
