"""The sessions of pi: entries with `id` and `parentId`, and its own blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsv4._inputs.agent_conversations import (
    CUT,
    AgentConversation,
    AgentReader,
    Body,
    LossNote,
    with_notes,
)
from dsv4._inputs.chat_sessions import (
    chat_answer,
    chat_call,
    chat_content,
    chat_conversations,
    unless_cut,
)
from dsv4._inputs.session_entries import Entry, EntryTree, dict_of, objects_of


def _read(entries: Sequence[Entry]) -> list[AgentConversation]:
    tree = EntryTree()
    places = {str(entry.get("id")): n for n, entry in enumerate(entries)}
    for n, entry in enumerate(entries):
        if isinstance(entry.get("id"), str) and entry.get("type") != "session":
            message = _message(entry)
            if message is not None and entry.get("type") == "compaction":
                message["kept_from"] = places.get(str(entry.get("firstKeptEntryId")), n)
            messages = [{**message, "place": n}] if message else []
            tree.add(entry["id"], entry.get("parentId"), *messages)
    session = next((str(e.get("id", "")) for e in entries if e.get("type") == "session"), "")
    found = chat_conversations("pi", session, [path for _, path in tree.paths()])
    return with_notes(found, [note for entry in entries for note in _notes(entry)])


_CUT_REASONS = ("aborted", "error", "length")
_SUMMARIES = ("compaction", "branch_summary")


def _message(entry: Entry) -> Body | None:
    if entry.get("type") in _SUMMARIES:
        return {"role": "user", "content": str(entry.get("summary", ""))}
    is_custom = entry.get("type") == "custom_message"  # a message to the model from an extension
    message = {**entry, "role": "user"} if is_custom else dict_of(entry.get("message"))
    content, role = message.get("content"), message.get("role")
    blocks = objects_of(content) or [{"type": "text", "text": str(content or "")}]
    if role == "toolResult":
        result = {"role": "tool", "tool_call_id": message.get("toolCallId")}
        return {**result, "content": chat_content(blocks)}
    if role == "assistant":
        calls = [
            chat_call(block.get("id"), block.get("name"), block.get("arguments"))
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        thoughts = [
            block.get("thinking")
            for block in blocks
            if block.get("type") == "thinking" and not block.get("redacted")
        ]
        answer = chat_answer(blocks, thoughts, calls, message.get("model"))
        return unless_cut(answer, message.get("stopReason") in _CUT_REASONS)
    return {"role": "user", "content": chat_content(blocks)} if role == "user" else None


def _notes(entry: Entry) -> Iterator[LossNote]:
    message = dict_of(entry.get("message"))
    if message.get("role") == "assistant" and message.get("stopReason") in _CUT_REASONS:
        yield CUT
    redacted = [b for b in objects_of(message.get("content")) if b.get("redacted")]
    yield from [LossNote("unread", "redacted thinking")] * len(redacted)


def _is_turn(entry: Entry) -> bool:
    is_answer = dict_of(entry.get("message")).get("role") == "assistant"
    return is_answer or _message(entry) is not None


PI = AgentReader(_read, _is_turn)
