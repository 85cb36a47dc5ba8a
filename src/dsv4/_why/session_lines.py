"""The session files of agents: JSON lines, most of which are turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsv4._inputs.agent_conversations import AgentConversation
from dsv4._inputs.agent_sessions import agents_in_words, conversations_of, lost_lines
from dsv4._why.pasted_kinds import PastedSession

_ROLES = ("system", "developer", "user", "assistant", "tool")
# The field in which a line has its turn -> the field in which a request has a list of such turns.
_HOLDERS = {"message": "messages", "payload": "input", "item": "input"}


def read_session(values: Sequence[Any]) -> PastedSession | None:
    """The turns of a session; None if the lines are not a session."""
    known = conversations_of([value for value in values if isinstance(value, dict)])
    if known:
        return session_of(known)
    turns = [turn for value in values if (turn := _turn(value)) is not None]
    if len(turns) < 2 or len({turn["role"] for _, turn in turns}) < 2:
        return None
    return PastedSession({turns[0][0]: [turn for _, turn in turns]}, len(turns))


def session_of(conversations: Sequence[AgentConversation]) -> PastedSession:
    """The last conversation of a known agent's file."""
    body = conversations[-1].body
    turns = body["messages"] if "messages" in body else body["input"]
    agents, lost = agents_in_words(conversations), tuple(lost_lines(conversations))
    return PastedSession(body, len(turns), agents, len(conversations), lost)


def _turn(line: object) -> tuple[str, Mapping[str, Any]] | None:
    if not isinstance(line, dict) or "messages" in line:
        return None
    held = [(field, line.get(name)) for name, field in _HOLDERS.items()]
    for field, value in (*held, ("messages", line)):
        if isinstance(value, dict) and value.get("role") in _ROLES and "content" in value:
            return field, value
    return None
