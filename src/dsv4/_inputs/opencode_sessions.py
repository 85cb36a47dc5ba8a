"""The sessions of opencode: a database of sessions, their messages and the parts of these."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from dsv4._inputs.agent_conversations import (
    CUT,
    UNDONE,
    AgentConversation,
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
    untrained,
)
from dsv4._inputs.database_file import open_database
from dsv4._inputs.session_entries import Entry, dict_of, json_object, objects_of

_PARTS_QUERY = """
    SELECT message.session_id, message.id, message.data, part.id, part.data
    FROM message LEFT JOIN part ON part.message_id = message.id
    ORDER BY message.session_id, message.time_created, message.id, part.id
"""


class _OpencodeMessage(NamedTuple):
    head: Body
    parts: list[Body]  # each with its `id`


def read_opencode(data: bytes, path: str | os.PathLike[str] | None) -> list[AgentConversation]:
    """The conversations of a database: `data` is its content, `path` its place. Empty for the
    database of another program."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(path) if path is not None else Path(folder, "session.db")
        if path is None:
            place.write_bytes(data)
        try:
            with closing(open_database(place, timeout=5, must_exist=True)) as database:
                listed = database.execute("SELECT * FROM session")
                names = [column[0] for column in listed.description]
                heads = [dict(zip(names, row, strict=True)) for row in listed]
                rows = database.execute(_PARTS_QUERY).fetchall()
        except sqlite3.Error:  # a database of another program
            return []
    sessions: dict[str, dict[str, _OpencodeMessage]] = {}
    unread: dict[bytes, None] = {}

    def read(text: str) -> Body:
        value = json_object(text)
        if value is None:
            unread[str(text).encode() + b"\n"] = None
        return dict(value or {})

    for session, message, head, part_id, part in rows:
        messages = sessions.setdefault(session, {})
        _, parts = messages.setdefault(message, _OpencodeMessage(read(head), []))
        if part is not None:
            parts.append({**read(part), "id": part_id})
    about = {head.get("id"): head for head in heads}
    return [
        one._replace(unread=tuple(unread))
        for session, messages in sessions.items()
        if any(message.parts for message in messages.values())
        for one in _conversations(session, about.get(session, {}), messages)
    ]


def _conversations(
    session: str, about: Mapping[str, Any], messages: Mapping[str, _OpencodeMessage]
) -> list[AgentConversation]:
    revert = json_object(about.get("revert") or "") or {}
    kept = _not_reverted(messages, revert)
    places = {id: n for n, id in enumerate(kept)}
    listed = list(kept.values())
    path = [turn for n in range(len(listed)) for turn in _turns(listed, n, places)]
    branch = "sub-agent" if about.get("parent_id") else "main"
    found = chat_conversations("opencode", session, [path], branch, oldest_first=True)
    undone = [m for id, m in messages.items() if id not in kept and m.head.get("role") == "user"]
    notes = [note for message in kept.values() for note in _notes(*message)]
    return with_notes(found, [*[UNDONE] * len(undone), *notes])


def _not_reverted(
    messages: Mapping[str, _OpencodeMessage], revert: Entry
) -> dict[str, _OpencodeMessage]:
    """The messages before the message, or the part of one, that the user reverted to."""
    ids, last = list(messages), str(revert.get("messageID"))
    if last not in messages:
        return dict(messages)
    kept = {id: messages[id] for id in ids[: ids.index(last)]}
    head, parts = messages[last]
    names = [part["id"] for part in parts]
    before = parts[: names.index(revert["partID"])] if revert.get("partID") in names else []
    if before:
        kept[last] = _OpencodeMessage({**head, "error": _REVERTED}, before)
    return kept


_REVERTED = {"name": "reverted"}
_CUT_REASONS = ("length", "content-filter", "error")
# The texts that opencode sends to the model in place of these parts.
_TEXTS = {
    "compaction": "What did we do so far?",
    "subtask": "The following tool was executed by the user",
}
_INTERRUPTED = "[Tool execution was interrupted]"
_UNFINISHED = ("pending", "running")


def _turns(
    messages: Sequence[_OpencodeMessage], place: int, places: Mapping[str, int]
) -> Iterator[Body]:
    """The turns of the message at a place. One that asks for a summary begins a conversation, if
    the summary was written; it may name the first message that is kept. The prompt that a summary
    answers is not in the file, so the summary is not trained on."""
    message, after = messages[place], messages[min(place + 1, len(messages) - 1)]
    asking = [part for part in message.parts if part.get("type") == "compaction"]
    is_written = _is_summary(after.head) and not after.head.get("error")
    begins: Body = {}
    if asking and is_written:
        begins["kept_from"] = places.get(str(asking[0].get("tail_start_id")), place)
    for turn in _messages(*message):
        own = untrained(turn) if _is_summary(message.head) else turn
        yield {**own, "place": place, **begins}


def _is_summary(head: Body) -> bool:
    return head.get("role") == "assistant" and head.get("summary") is True


def _messages(head: Body, parts: Sequence[Body]) -> Iterator[Body]:
    if head.get("role") == "user":
        blocks = [block for part in parts if (block := _block(part)) is not None]
        if blocks:
            yield {"role": "user", "content": chat_content(blocks)}
        return
    for step, is_cut in _steps(head, parts):
        tools = [part for part in step if part.get("type") == "tool"]
        calls = [
            chat_call(part.get("callID"), part.get("tool"), dict_of(part.get("state")).get("input"))
            for part in tools
        ]
        thoughts = [part.get("text") for part in step if part.get("type") == "reasoning"]
        texts = [part for part in step if not part.get("ignored")]
        answer = unless_cut(chat_answer(texts, thoughts, calls, head.get("modelID")), is_cut)
        if answer is not None:
            yield answer
            yield from map(_result, tools)


def _steps(head: Body, parts: Sequence[Body]) -> list[tuple[list[Body], bool]]:
    """The answers in a message, each with its calls, and whether it was cut. The message's own end
    applies to the last."""
    steps: list[list[Body]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and any(map(_is_said_by_model, steps[-1])):
            steps.append([])
        steps[-1].append(part)
    is_open = "completed" not in dict_of(head.get("time") or {"completed": 0})
    is_cut = bool(head.get("error")) or head.get("finish") in _CUT_REASONS or is_open
    *others, last = steps
    return [*((step, _is_cut_step(step)) for step in others), (last, is_cut or _ends_early(last))]


def _is_said_by_model(part: Body) -> bool:
    return part.get("type") in ("text", "reasoning", "tool")


def _is_cut_step(step: Sequence[Body]) -> bool:
    """Whether a step before another was cut: a step that failed and was retried has no end."""
    kinds = [part.get("type") for part in step]
    return _ends_early(step) or ("step-start" in kinds and "step-finish" not in kinds)


def _ends_early(step: Sequence[Body]) -> bool:
    """Whether a step reports an early end, or has a call with unfinished arguments."""
    reasons = [part.get("reason") for part in step if part.get("type") == "step-finish"]
    states = [dict_of(part.get("state")).get("status") for part in step]
    return any(reason in _CUT_REASONS for reason in reasons) or "pending" in states


def _result(part: Body) -> Body:
    state = dict_of(part.get("state"))
    text = state.get("output", state.get("error"))
    if state.get("status") in _UNFINISHED:
        text = _INTERRUPTED
    images = [block for each in _attachments(part) if (block := _image(each))]
    content = chat_content([{"type": "text", "text": str(text or "")}, *images])
    return {"role": "tool", "tool_call_id": part.get("callID"), "content": content}


def _block(part: Mapping[str, Any]) -> Body | None:
    """The block that the model sees of a part of a user's message, None if there is none."""
    kind = str(part.get("type"))
    if kind in _TEXTS:
        return {"type": "text", "text": _TEXTS[kind]}
    if kind == "text" and not part.get("ignored"):
        return {"type": "text", "text": part.get("text", "")}
    return _image(part)


def _image(part: Mapping[str, Any]) -> Body | None:
    is_image = part.get("type") == "file" and str(part.get("mime", "")).startswith("image/")
    return {"type": "image_url", "image_url": {"url": part.get("url")}} if is_image else None


# Files whose texts are parts of their own.
_FILES_AS_TEXT = ("text/plain", "application/x-directory")


def _notes(head: Body, parts: Sequence[Body]) -> Iterator[LossNote]:
    if head.get("role") == "assistant":
        yield from [CUT] * sum(is_cut for _, is_cut in _steps(head, parts))
    elif head.get("system"):
        yield LossNote("unread", "system")
    files = [p for p in parts if p.get("type") == "file" and p.get("mime") not in _FILES_AS_TEXT]
    for part in parts:
        files += _attachments(part)
    yield from (LossNote("unread", str(file.get("mime"))) for file in files if not _image(file))


def _attachments(part: Body) -> list[Body]:
    return objects_of(dict_of(part.get("state")).get("attachments"))
