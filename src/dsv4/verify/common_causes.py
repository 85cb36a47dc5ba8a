"""What requests that are not explained have in common, so that each stands in the right group.

A text that is added to every system message changes requests about systems, and those about tools
that have a system message too. The system message is what all of them have, so that is where to
look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dsv4.profiles.request_changes import messages_in
from dsv4.profiles.server_requests import Object

# A conversation, from so many messages on, as opposed to a question.
TURNS = "turns"
LEAST_TURNS = 3
# What a request may have, and the group of faults of it.
ASPECTS: Mapping[str, str] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("thinking", "chat_template_kwargs"), "thinking"),
    "reasoning_effort": "effort",
    **dict.fromkeys(("tools", "tool_choice", "response_format"), "tools"),
    **dict.fromkeys((TURNS, "assistant", "tool", "tool_calls", "reasoning_content"), "history"),
}
# Two requests have something in common; one has its own group.
LEAST_IN_COMMON = 2
# An aspect is no cause if most requests that have it are as they should be.
LEAST_SHARE = 0.5


def common_causes(unexplained: Collection[str], requests: Mapping[str, Object]) -> dict[str, str]:
    """The group of what requests have in common, by their names, for those where anything is.

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
    """By each aspect, the names of the requests that have it."""
    own = {name: _aspects(body) for name, body in requests.items()}
    return {aspect: {name for name in own if aspect in own[name]} for aspect in ASPECTS}


def _aspects(body: Object) -> Collection[Any]:
    """The fields of a request and of its messages that say something, and the roles."""
    messages = messages_in(body)
    fields = {key for each in (body, *messages) for key, value in each.items() if value}
    turns = {TURNS} if len(messages) >= LEAST_TURNS else set()
    return fields | turns | {message.get("role") for message in messages}
