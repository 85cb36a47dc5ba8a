"""Finds what unexplained requests have in common, so that each is reported in the right group.

A text that is added to every system message changes requests about systems, and those about tools
that have a system message too. All of them have a system message, so that is where to look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dsv4.profiles.request_changes import messages_in
from dsv4.profiles.server_requests import Object

# A request with so many messages is a conversation; with fewer it is a question.
TURNS = "turns"
LEAST_TURNS = 3
# The aspects that a request may have, and the group of faults that each belongs to.
ASPECTS: Mapping[str, str] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("thinking", "chat_template_kwargs"), "thinking"),
    "reasoning_effort": "effort",
    **dict.fromkeys(("tools", "tool_choice", "response_format"), "tools"),
    **dict.fromkeys((TURNS, "assistant", "tool", "tool_calls", "reasoning_content"), "history"),
}
# At least two requests must have an aspect in common; a single one stays in its own group.
LEAST_IN_COMMON = 2
# An aspect is not a cause if most requests that have it are as they should be.
LEAST_SHARE = 0.5


def common_causes(unexplained: Collection[str], requests: Mapping[str, Object]) -> dict[str, str]:
    """The group of the aspect that requests have in common, by their names. Requests without one
    are left out.

    `unexplained` names some of the `requests`, which are all that were seen.
    """
    having = having_each_aspect(requests)
    open_names, groups = set(unexplained), dict[str, str]()
    while open_names:
        likely = [
            (len(names & open_names), len(names & set(unexplained)) / len(names), aspect)
            for aspect, names in having.items()
            if len(names & open_names) >= LEAST_IN_COMMON
        ]
        likely = [each for each in likely if each[1] >= LEAST_SHARE]
        if not likely:
            break
        aspect = max(likely, key=lambda each: each[:2])[2]
        groups |= dict.fromkeys(having[aspect] & open_names, ASPECTS[aspect])
        open_names -= having[aspect]
    return groups


def having_each_aspect(requests: Mapping[str, Object]) -> dict[str, set[str]]:
    """The names of the requests that have each aspect."""
    own = {name: _aspects(body) for name, body in requests.items()}
    return {aspect: {name for name in own if aspect in own[name]} for aspect in ASPECTS}


def _aspects(body: Object) -> Collection[Any]:
    """The fields of a request and its messages that are not empty, and the roles."""
    messages = messages_in(body)
    fields = {key for each in (body, *messages) for key, value in each.items() if value}
    turns = {TURNS} if len(messages) >= LEAST_TURNS else set()
    return fields | turns | {message.get("role") for message in messages}
