"""Rules on turns: what opens them, what is in them, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsv4._encode.turn_rules import NATIVE
from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Found

_ASKING = ("user", "tool", "developer")


def systems_out_of_place(conversation: Conversation) -> Iterator[Found]:
    """In a dialect without a system token, nothing marks a system message but its place."""
    if conversation.prompt.dialect.system_token is not None:
        return
    for index, _ in conversation.of_role("system"):
        if not index:
            continue
        if conversation.role(index - 1) == "system":
            problem = "its text follows that of the system message before it, with nothing between"
            yield Found("glued_system", ("messages", index), f"{problem}: make them one message")
        else:
            problem = "a system message after the first turn has no token of its own"
            where = f"its text is written right after that of messages[{index - 1}]"
            yield Found("system_in_the_middle", ("messages", index), f"{problem}: {where}")


def developer_as_system(conversation: Conversation) -> Iterator[Found]:
    """OpenAI calls the system prompt `developer`; here it is a turn that can disappear."""
    if conversation.opens_as_developer:
        problem = "a developer message is a turn of its own in this format, not the system prompt"
        gone = "" if 0 in conversation.present else ", and is dropped before the last user turn"
        hint = 'give it the role "system"'
        yield Found("developer_as_system", ("messages", 0, "role"), f"{problem}{gone}: {hint}")


def turns_without_token(conversation: Conversation) -> Iterator[Found]:
    """The token of an assistant turn is written by the turn before it, if that one asks."""
    for index, _ in conversation.of_role("assistant"):
        before = conversation.messages[index - 1] if index else {}
        if index in conversation.present and index not in conversation.opened:
            if before.get("task") is not None:
                continue
            where = f"follows a message of role {before.get('role')}" if index else "comes first"
            problem = f"the assistant turn {where}, so the token that opens it is missing"
            yield Found("turn_without_token", ("messages", index), problem)


def open_turns(conversation: Conversation) -> Iterator[Found]:
    for index, message in conversation.of_role("assistant"):
        for field in NATIVE.open_turn_fields:
            if message.get(field) and index != conversation.last:
                problem = "only the last turn can be continued; here it leaves out the end of turn"
                yield Found("prefix_not_last", ("messages", index, field), problem)


def empty_messages(conversation: Conversation) -> Iterator[Found]:
    for index, message in enumerate(conversation.messages):
        vanished = message.get("role") == "developer" and index not in conversation.present
        if not vanished and not _says_something(message):
            role = message.get("role")
            problem = f"the {role} message is empty"
            if role == "assistant" and conversation.reasoning_field(index):
                problem = "there is reasoning, but neither an answer nor a call"
            yield Found("empty_message", ("messages", index), problem)


def _says_something(message: dict[str, Any]) -> bool:
    """Whether there is text, or what counts instead of it. Tools may well return nothing."""
    if message.get("role") == "tool" or _has_text(message.get("content")):
        return True
    if message.get("role") == "assistant":
        is_open = any(message.get(field) for field in NATIVE.open_turn_fields)
        return bool(message.get("tool_calls") or is_open)
    return bool(message.get("tools") or message.get("response_format"))


def _has_text(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    if isinstance(content, (list, tuple)):
        return any(map(_block_has_text, content))
    return content is not None


def _block_has_text(block: Any) -> bool:
    is_text = isinstance(block, dict) and block.get("type") == "text"
    return _has_text(block.get("text")) if is_text else _has_text(block)


def nothing_to_generate(conversation: Conversation) -> Iterator[Found]:
    if conversation.prompt.ending.kind == "nothing":
        finished = conversation.role(conversation.last) == "assistant"
        how = "is finished" if finished else "asks for no answer"
        problem = f"nothing to generate: the last turn {how}"
        yield Found("nothing_to_generate", ("messages", conversation.last), problem)


def nothing_to_learn(conversation: Conversation) -> Iterator[Found]:
    if not any(piece.origin == "model" for piece in conversation.prompt.pieces):
        problem = "no message is the assistant's: there is nothing to learn from"
        yield Found("nothing_to_learn", ("messages",), problem)


RULES = (
    *(systems_out_of_place, developer_as_system, turns_without_token, open_turns),
    *(empty_messages, nothing_to_generate, nothing_to_learn),
)
