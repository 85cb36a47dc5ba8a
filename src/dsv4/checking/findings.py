"""A finding: where something is, what kind of thing it is, and what to know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning"]
Location: TypeAlias = tuple[str | int, ...]

KINDS = (
    "not_encodable",
    *("result_without_call", "call_without_result", "undeclared_tool", "arguments_not_json"),
    *("duplicate_tool", "dropped_reasoning", "tools_keep_reasoning", "dropped_message"),
    *("lost_task", "lost_tools", "lost_response_format"),
    *("special_token_in_text", "nothing_to_generate"),
)


@dataclass(frozen=True)
class Finding:
    """Something that `dsv4.check` found.

    `level` is "error" where the conversation cannot be encoded, else "warning". `kind` is one of
    `KINDS`. `location` leads to the place, as in `("messages", 3, "content")`: empty for the body
    as a whole. `message` says what was found.
    """

    level: Level
    kind: str
    location: Location
    message: str

    @property
    def path(self) -> str:
        """The location as people write it: `messages[3].content`."""
        return path_of(self.location)

    @property
    def index(self) -> int | None:
        """The index of the message that the finding is about, if it is about one."""
        return index_of(self.location)


def path_of(location: Location) -> str:
    spelled = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return spelled.removeprefix(".")


def index_of(location: Location) -> int | None:
    if len(location) > 1 and location[0] == "messages" and isinstance(location[1], int):
        return location[1]
    return None
