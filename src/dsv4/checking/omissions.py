"""Rules on what the conversation has and the prompt does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Found, Location
from dsv4.format.dialects import UNSUPPORTED


def dropped_reasoning(conversation: Conversation) -> Iterator[Found]:
    for index, field in _with_reasoning(conversation):
        if (index, "reasoning") in conversation.written:
            continue
        if not conversation.request.thinking:
            problem = "chat mode writes no reasoning"
        elif index and conversation.messages[index - 1].get("task") is not None:
            problem = "the answer to a task has no reasoning"
        else:
            problem = "reasoning before the last user turn is dropped"
        yield Found("dropped_reasoning", ("messages", index, field), problem)


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


def lost_fields(conversation: Conversation) -> Iterator[Found]:
    """Fields that are not written where they stand."""
    for index, message in enumerate(conversation.messages):
        for field in ("task", "tools", "response_format"):
            given = message.get(field) if field != "task" else message.get(field) is not None
            written = (index, field) in conversation.written
            if given and not written and index in conversation.present:
                problem = _why_lost(conversation, index, field)
                yield Found(f"lost_{field}", ("messages", index, field), problem)


def _why_lost(conversation: Conversation, index: int, field: str) -> str:
    role, before = conversation.role(index), conversation.role(index - 1)
    if role == "tool" or (role == "user" and before in ("user", "tool")):
        return f"the message joins the turn before it, and its {field} is lost"
    if field == "task":
        return "what follows is no answer, so the task is not written"
    return f"messages of role {role} write no {field}"


def vanished(conversation: Conversation) -> Iterator[Found]:
    for index, _ in conversation.of_role("developer"):
        if index not in conversation.present and not (
            index == 0 and conversation.opens_as_developer
        ):
            problem = "a developer message before the last user turn is dropped as a whole"
            yield Found("dropped_message", ("messages", index), problem)


def unsupported_content(conversation: Conversation) -> Iterator[Found]:
    for piece in conversation.prompt.pieces:
        if piece.origin == "template" and piece.field == "content" and piece.text == UNSUPPORTED[0]:
            problem = "the prompt only says that a block is unsupported: its content is lost"
            yield Found("unsupported_content", conversation.location_of(piece), problem)


def _listed(indices: Sequence[int]) -> str:
    few = ", ".join(f"messages[{index}]" for index in indices[:3])
    return f"{few} and {len(indices) - 3} more" if len(indices) > 3 else few


RULES = (dropped_reasoning, kept_reasoning, lost_fields, vanished, unsupported_content)
