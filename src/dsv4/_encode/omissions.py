"""What the format leaves out of a prompt, and by which rule (docs/encoding.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Literal, NamedTuple, TypeAlias

from dsv4._encode.inputs import IMAGE_TYPES, MessageFields, is_nonempty, maybe_list, type_of
from dsv4._encode.turn_rules import Conventions, survives_dropping, turn_stop
from dsv4._format.dialects import Dialect

OmissionRule: TypeAlias = Literal[
    "old_reasoning",  # it comes before the last user turn, and nothing keeps it
    "chat_mode",  # there is no reasoning without thinking
    "task_answer",  # what answers a task has no reasoning
    "vanished",  # the role does not stay before the last user turn
    "joined",  # the message joined a user turn, which keeps the fields of its first message
    "not_asked",  # the task is followed by something that does not answer it
    "tool_choice",  # no tools are shown with tool_choice="none"
    "unseen_block",  # a block that is neither text nor an image, on another role than a user's
    "unread",  # the format has no use for this field on this role
]
"""Why something is not in the prompt."""


class Omission(NamedTuple):
    """Something that the prompt does not show.

    `message` is the index in the caller's messages, `field` the name of the field, or "message" for
    all of it, and `rule` says why.
    """

    message: int
    field: str
    rule: OmissionRule


# What is read of each role besides its content. No text is lost with ids: they order results.
_READ: dict[str, tuple[str, ...]] = {
    "system": ("tools", "response_format", "task"),
    "developer": ("tools", "response_format", "task"),
    "user": ("task",),
    "assistant": ("tool_calls", "task"),
    "tool": ("tool_call_id",),
    "latest_reminder": ("task",),
}
_ANSWERING = ("assistant", "latest_reminder")


def omissions(
    messages: Sequence[MessageFields],
    dialect: Dialect,
    rules: Conventions,
    shown_from: float,
    vanishing_before: int,
    task_before: object,
) -> tuple[Omission, ...]:
    """All that was left out, in the order of the messages."""
    found: list[Omission] = []
    task, start = task_before, 0
    while start < len(messages):
        first, stop = messages[start], turn_stop(messages, start)
        if start < vanishing_before and not survives_dropping(first):
            found.append(Omission(start, "message", "vanished"))
            start = stop
            continue
        if first["role"] == "assistant":
            hidden = _reasoning_rule(task, start, shown_from)
            if hidden:
                found += (
                    Omission(start, name, hidden)
                    for name in rules.reasoning_fields
                    if is_nonempty(first.get(name))
                )
        for index in range(start, stop):
            found += _of_message(messages[index], index, index > start, dialect, rules)
        task = first.get("task") if first["role"] != "tool" else None
        if task is not None and stop < len(messages) and messages[stop]["role"] not in _ANSWERING:
            found.append(Omission(start, "task", "not_asked"))
        start = stop
    return tuple(found)


# V3.2 reads neither tasks nor what leaves a turn open, and ignores ids.
_READ_V32: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("system", "developer"), ("tools", "response_format")),
    "assistant": ("tool_calls", "reasoning_content", "reasoning"),
    "tool": ("tool_call_id",),
}


def omissions_v32(
    messages: Sequence[MessageFields],
    rules: Conventions,
    shown_from: float,
    vanished: Set[int],
) -> tuple[Omission, ...]:
    """The same for V3.2's layout."""
    found: list[Omission] = []
    for index, message in enumerate(messages):
        if index in vanished:
            found.append(Omission(index, "message", "vanished"))
            continue
        read = {"role", "content", *_READ_V32.get(message["role"], ())}
        hidden = _reasoning_rule(None, index, shown_from)
        for field in filter(lambda field: is_nonempty(message[field]), message):
            if field in rules.reasoning_fields and message["role"] == "assistant" and hidden:
                found.append(Omission(index, field, hidden))
            elif field == "tools" and not rules.shows_tools and field in read:
                found.append(Omission(index, field, "tool_choice"))
            elif field not in read:
                found.append(Omission(index, field, "unread"))
    return tuple(found)


def _reasoning_rule(task: object, index: int, shown_from: float) -> OmissionRule | None:
    if task is not None:
        return "task_answer"
    if shown_from == float("inf"):
        return "chat_mode"
    return "old_reasoning" if index <= shown_from else None


def _of_message(
    message: MessageFields, index: int, joined: bool, dialect: Dialect, rules: Conventions
) -> Iterator[Omission]:
    role = message["role"]
    read = {"role", "content", *_READ.get(role, ())}
    if role == "assistant":
        read.update(rules.reasoning_fields, rules.open_turn_fields)
    task = message.get("task")
    if role == "user" and isinstance(task, str) and task == "read_url" and rules.url_field:
        read.add(rules.url_field)
    blocks = dialect.lists_are_blocks and message.get("content_blocks") is not None
    if blocks:
        read.add("content_blocks")
        if role == "user" and message.get("content") is not None:
            yield Omission(index, "content", "unread")
    for field, value in message.items():
        if not is_nonempty(value):
            continue
        if field == "tools" and not rules.shows_tools and "tools" in read:
            yield Omission(index, "tools", "tool_choice")
        elif joined and field not in ("role", "content", "content_blocks", "tool_call_id"):
            yield Omission(index, field, "joined")
        elif field not in read:
            yield Omission(index, field, "unread")
    if dialect.lists_are_blocks and role != "user":
        field = "content_blocks" if blocks else "content"
        for item in maybe_list(message.get(field)) or ():
            if type_of(item) not in ("text", *IMAGE_TYPES):
                yield Omission(index, field, "unseen_block")
