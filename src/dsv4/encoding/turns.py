"""Messages -> turns: what merging, sorting and dropping decide (format.md, section 3).

Nothing is copied or moved. A turn is a range of messages: one message, or a run of user and tool
messages that merge into one user turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import Dialect

Message: TypeAlias = dict[str, Any]
_B = TypeVar("_B")

ROLES = ("system", "user", "assistant", "tool", "latest_reminder", "developer")
# What stays before the last user turn when old reasoning is dropped.
LASTING_ROLES = frozenset({"system", "user", "assistant", "tool", "latest_reminder"})


def as_dicts(messages: Sequence[Any], name: str, first_index: int = 0) -> list[Message]:
    """The messages as dicts with a role. `name` is what the caller calls the list."""
    dicts = [as_dict(m, f"{name}[{n}]") for n, m in enumerate(messages, first_index)]
    for index, message in enumerate(dicts, first_index):
        if not isinstance(message.get("role"), str):
            raise unknown_role(message.get("role"), f"{name}[{index}].role")
    return dicts


def as_dict(message: Any, path: str) -> Message:
    """A message as a dict: it is one, or an object that can turn itself into one."""
    if isinstance(message, dict):
        return message
    to_dict = getattr(message, "to_dict", None)
    converted = to_dict() if callable(to_dict) and not isinstance(message, type) else None
    if not isinstance(converted, dict):
        raise EncodeError(path, f'found {shown(message)}, expected a message: a dict with a "role"')
    return converted


def unknown_role(role: Any, path: str) -> EncodeError:
    return EncodeError(path, f"found {shown(role)}, expected one of {', '.join(ROLES)}")


def lasts(message: Message) -> bool:
    """Whether a message stays when it comes before *last*. It may lose its reasoning."""
    return message["role"] in LASTING_ROLES


# Step 1, merging.


def turn_stop(messages: Sequence[Message], start: int) -> int:
    """Where the turn that begins at `start` ends."""
    role = messages[start]["role"]
    if role not in ("user", "tool"):
        return start + 1
    tasked = role == "user" and messages[start].get("task") is not None
    return merged_stop(messages, start + 1, tasked)


def merged_stop(messages: Sequence[Message], start: int, tasked: bool) -> int:
    """How far the messages from `start` on join a user turn that is open.

    A user message joins unless the turn carries a task; a tool result always does.
    """
    joining = ("tool",) if tasked else ("tool", "user")
    stop = start
    while stop < len(messages) and messages[stop]["role"] in joining:
        stop += 1
    return stop


def last_turn(messages: Sequence[Message]) -> int:
    """Where the last turn begins."""
    start = run = len(messages) - 1
    while run >= 0 and messages[run]["role"] in ("user", "tool"):
        start, run = run, run - 1
    while (stop := turn_stop(messages, start)) < len(messages):
        start = stop
    return start


# Step 2, sorting.


def call_order(calls: Any) -> dict[Any, int]:
    """Call id -> position. A repeated id takes its last, an empty id is none."""
    if not isinstance(calls, (list, tuple)):
        return {}
    ids = [call.get("id") if isinstance(call, dict) else None for call in calls]
    return {id: position for position, id in enumerate(ids) if id and isinstance(id, (str, int))}


def in_call_order(
    blocks: Sequence[_B],
    order: dict[Any, int],
    is_result: Callable[[_B], bool],
    call_id: Callable[[_B], Any],
) -> list[_B]:
    """The blocks, results in the order of their calls, all else where it was.

    A result whose call is unknown counts as the first call's.
    """

    def position(block: _B) -> int:
        id = call_id(block)
        return order.get(id, 0) if isinstance(id, (str, int)) else 0

    results = iter(sorted(filter(is_result, blocks), key=position))
    return [next(results) if is_result(block) else block for block in blocks]


def last_calls(context: Sequence[Message]) -> Any:
    for message in reversed(context):
        if message["role"] == "assistant" and message.get("tool_calls"):
            return message["tool_calls"]
    return None


# Step 3, dropping.


def last_asking(messages: Sequence[Message], asking_system: int | None) -> int:
    """The index of *last*, taken at its last message. -1 for none.

    `asking_system` is the index from which system messages ask too, None where they never do.
    """
    index = len(messages) - 1
    while index >= 0:
        role = messages[index]["role"]
        if role == "user" or role == "tool" or role == "developer":
            break
        if role == "system" and asking_system is not None and index >= asking_system:
            break
        index -= 1
    return index


def any_tools(messages: Sequence[Message], users_keep_tools: bool) -> bool:
    """Whether a turn has tools, which switches dropping off."""
    for message in messages:
        if "tools" in message and message["tools"]:
            return _tools_after_merging(messages, users_keep_tools)
    return False


def _tools_after_merging(messages: Sequence[Message], users_keep_tools: bool) -> bool:
    """Merging takes tools off whatever joins a turn, and in most dialects off user turns."""
    losing = ("tool",) if users_keep_tools else ("tool", "user")
    start = 0
    while start < len(messages):
        if messages[start].get("tools") and messages[start]["role"] not in losing:
            return True
        start = turn_stop(messages, start)
    return False


def first_staying(messages: Sequence[Message], last: int) -> int:
    index = 0
    while index < last and not lasts(messages[index]):
        index += 1
    return index


def last_task(context: Sequence[Message], dropped: bool) -> Any:
    """The task of the context's last turn that stays."""
    end = len(context)
    while dropped and end and not lasts(context[end - 1]):
        end -= 1
    if not end:
        return None
    last = context[last_turn(context[:end])]
    return last.get("task") if last["role"] != "tool" else None


def passed_over(messages: Sequence[Message], context: Sequence[Message], dialect: Dialect) -> int:
    """How many messages the released function passes over, with dropping on and a context.

    It counts what dropping the context by itself would leave. What stands at or behind the
    context's own *last*, and yet is dropped, is counted too much: so many turns disappear.
    """
    asking_system = None if dialect.system_token is None else 1
    last = max(last_asking(context, asking_system), 0)
    turns = sum(not lasts(message) for message in context[last:])
    start = 0
    while turns and start < len(messages):
        turns -= 1
        start = turn_stop(messages, start)
    return start
