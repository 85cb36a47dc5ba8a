"""Rules on what the conversation has and the prompt does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsv4._format.texts import UNSUPPORTED
from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Found
from dsv4.errors import Location

_REASONING = {
    "old_reasoning": "reasoning before the last user turn is dropped",
    "chat_mode": "chat mode writes no reasoning",
    "task_answer": "the answer to a task has no reasoning",
}
_LOST = {
    "joined": "the message joins the turn before it, and its {field} is lost",
    "not_asked": "what follows is no answer, so the {field} is not written",
    "unread": "messages of role {role} write no {field}",
}


def omitted(conversation: Conversation) -> Iterator[Found]:
    """What the prompt says of itself that it left out."""
    for index, field, rule in conversation.prompt.dropped:
        location = ("messages", index, field)
        if rule in _REASONING:
            yield Found("dropped_reasoning", location, _REASONING[rule])
        elif rule in _LOST and field in ("task", "tools", "response_format"):
            role = conversation.role(index)
            problem = _LOST[rule].format(field=field, role=role)
            yield Found(f"lost_{field}", location, problem)
        elif rule == "vanished" and not (index == 0 and conversation.opens_as_developer):
            problem = "a developer message before the last user turn is dropped as a whole"
            yield Found("dropped_message", ("messages", index), problem)
        elif rule == "unseen_block":
            problem = "a block that is neither text nor an image is left out"
            yield Found("unsupported_content", location, problem)


def kept_reasoning(conversation: Conversation) -> Iterator[Found]:
    """Tools switch dropping off: said once, where there is something that would be dropped."""
    if not (conversation.request.thinking and conversation.request.drop_thinking):
        return
    # Not before results: in a round of calls, the reasoning is meant to stay.
    last = max((n for n, _ in conversation.of_role("user", "developer")), default=-1)
    kept = [
        index
        for index, _ in _with_reasoning(conversation)
        if index < last and (index, "reasoning") in conversation.written
    ]
    if kept:
        tools = conversation.tools
        place: Location = tools[0].location[:-1] if tools else ("messages",)
        problem = f"tools keep all reasoning in the prompt: that of {_listed(kept)} as well"
        yield Found("tools_keep_reasoning", place, problem)


def _with_reasoning(conversation: Conversation) -> Iterator[tuple[int, str]]:
    for index, _ in conversation.of_role("assistant"):
        field = conversation.reasoning_field(index)
        if field is not None:
            yield index, field


def unsupported_content(conversation: Conversation) -> Iterator[Found]:
    for piece in conversation.prompt.pieces:
        if piece.origin == "template" and piece.field == "content" and piece.text == UNSUPPORTED[0]:
            problem = "the prompt only says that a block is unsupported: its content is lost"
            yield Found("unsupported_content", conversation.location_of(piece), problem)


def _listed(indices: Sequence[int]) -> str:
    few = ", ".join(f"messages[{index}]" for index in indices[:3])
    return f"{few} and {len(indices) - 3} more" if len(indices) > 3 else few


RULES = (omitted, kept_reasoning, unsupported_content)
