"""The sessions of Codex: a sequence of items of the Responses protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dsv4._inputs.agent_conversations import (
    CUT,
    UNDONE,
    AgentConversation,
    AgentReader,
    Body,
    LossNote,
    with_notes,
    with_weights,
)
from dsv4._inputs.session_entries import Entry, dict_of, objects_of
from dsv4.api.neutral_request import marked_text
from dsv4.api.own_bodies import is_of_model
from dsv4.api.responses_requests import ITEM_READERS


def _read(entries: Sequence[Entry]) -> list[AgentConversation]:
    windows: list[list[Body]] = [[]]
    notes: list[LossNote] = []
    meta: dict[str, Any] = {}
    model = None
    for entry in entries:
        kind, payload = entry.get("type"), dict_of(entry.get("payload"))
        if kind == "session_meta":
            meta = meta or payload
        elif kind == "turn_context":
            model = payload.get("model") or model
        elif kind == "event_msg" and (change := _EVENTS.get(str(payload.get("type")))):
            windows[-1], noted = change(windows[-1], payload)
            notes += noted
        elif kind == "response_item" and _is_readable(payload):
            windows[-1].append(_public_item(payload))
        elif kind == "response_item":
            notes.append(LossNote("unread", str(payload.get("type"))))
        elif kind == "compacted":
            kept, left_out = _replacement(payload)
            windows.append(kept)
            notes += left_out
    notes += [LossNote("unread", name) for name in _unread(meta)]
    instructions = dict_of(meta.get("base_instructions")).get("text")
    common = {"model": model, "instructions": instructions}
    body = {name: value for name, value in common.items() if value is not None}
    last = len(windows) - 1
    found = [
        AgentConversation(
            "Codex",
            str(meta.get("id", "")),
            "main" if n == last else "compacted",
            {**body, **with_weights("input", items)},
        )
        for n, items in enumerate(windows)
        if items
    ]
    return with_notes(found, notes)


_Changed: TypeAlias = tuple[list[Body], list[LossNote]]


def _aborted(items: list[Body], event: Entry) -> _Changed:
    """The items after an answer was aborted. It is at the end, or before the text that says so."""
    end = next((n for n in range(len(items), 0, -1) if not _is_said(items[n - 1], _ABORTED)), 0)
    start = next((n for n in range(end, 0, -1) if not is_of_model(items[n - 1])), 0)
    if start == end:
        return items, []
    answer = [{**item, "weight": 0} for item in items[start:end]]
    says_something = any(item.get("type") != "reasoning" for item in answer)
    return [*items[:start], *(answer if says_something else ()), *items[end:]], [CUT]


def _rolled_back(items: list[Body], event: Entry) -> _Changed:
    """The items after the user took back the last turns."""
    begun = [n for n, item in enumerate(items) if _begins_turn(item)]
    count = event.get("num_turns")
    undone = begun[-count:] if isinstance(count, int) and count > 0 else []
    return (items[: undone[0]] if undone else items), [UNDONE] * len(undone)


_EVENTS: Mapping[str, Callable[[list[Body], Entry], _Changed]] = {
    "turn_aborted": _aborted,
    "thread_rolled_back": _rolled_back,
}
_ABORTED = ("<turn_aborted>",)
# The beginnings of texts that Codex itself sends to the model as the user's.
_CONTEXT = (
    *("# AGENTS.md instructions", "<user_instructions>", "<environment_context>", "<skill>"),
    *("<user_shell_command>", "<subagent_notification>", *_ABORTED),
)


def _begins_turn(item: Entry) -> bool:
    return item.get("role") == "user" and not _is_said(item, _CONTEXT)


def _is_said(item: Entry, beginnings: tuple[str, ...]) -> bool:
    """Whether an item is a user's message that begins with one of these."""
    content = item.get("content")
    texts = [content] if isinstance(content, str) else [p.get("text") for p in objects_of(content)]
    first = str(texts[0] if texts else "").lstrip()
    return item.get("role") == "user" and first.startswith(beginnings)


def _replacement(payload: Entry) -> _Changed:
    """The items that replace all items before a compaction. Answers in them are not trained on
    here: they were written in another context, where they are trained on."""
    kept = payload.get("replacement_history")
    summary = {"type": "message", "role": "user", "content": payload.get("message") or ""}
    items = objects_of(kept) if isinstance(kept, list) else [summary]
    names = [str(item.get("type")) for item in items if not _is_readable(item)]
    public = [_public_item(item) for item in items if _is_readable(item)]
    weighed = [{**item, "weight": 0} if is_of_model(item) else item for item in public]
    return weighed, [LossNote("unread", name) for name in names]


def _is_readable(item: Entry) -> bool:
    """Whether a prompt can represent an item. Calls of unknown kinds are not skipped: the items
    after them respond to their results."""
    kind = str(item.get("type") or "message")
    if kind.startswith("compaction"):
        return bool(item.get("summary") or marked_text(str(item.get("encrypted_content"))))
    return kind in ITEM_READERS or kind.endswith("_call")


def _unread(meta: Entry) -> Iterator[str]:
    """The fields in the head of a session that affect its prompts and are not read. Older releases
    write the user's instructions there, which are among the items too, instead of Codex's own."""
    return (name for name in ("instructions", "dynamic_tools") if meta.get(name))


def _public_item(item: Mapping[str, Any]) -> Body:
    """An item without Codex's internal fields."""
    return {name: value for name, value in item.items() if not name.startswith("internal_")}


CODEX = AgentReader(_read, lambda entry: entry.get("type") in ("response_item", "compacted"))
