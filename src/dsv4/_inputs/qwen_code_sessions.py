"""The sessions of Qwen Code: entries with `uuid` and `parentUuid`, and Gemini's parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsv4._inputs.agent_conversations import (
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
    untrained,
)
from dsv4._inputs.session_entries import Entry, EntryTree, dict_of, objects_of


def _read(entries: Sequence[Entry]) -> list[AgentConversation]:
    tree = EntryTree()
    for n, entry in enumerate(entries):
        if isinstance(entry.get("uuid"), str):
            messages = [{**message, "place": n} for message in _turns(entry, n)]
            tree.add(entry["uuid"], entry.get("parentUuid"), *messages)
    session = next((str(entry["sessionId"]) for entry in entries if "sessionId" in entry), "")
    found = chat_conversations("Qwen Code", session, [path for _, path in tree.paths()])
    return with_notes(found, [note for entry in entries for note in _notes(entry)])


_COMPRESSION = "chat_compression"


def _history(entry: Entry) -> list[Body]:
    """The messages that replace all messages before a compression. Their answers are not trained
    on: Qwen Code wrote some itself, and the model wrote the others in another context."""
    contents = objects_of(dict_of(entry.get("systemPayload")).get("compressedHistory"))
    messages = [each for content in contents for each in _messages({"message": content})]
    return [untrained(message) for message in messages]


def _turns(entry: Entry, place: int) -> Iterator[Body]:
    if entry.get("subtype") != _COMPRESSION:
        yield from _messages(entry)
        return
    for n, message in enumerate(_history(entry)):
        yield message if n else {**message, "kept_from": place}


# The fields that are read of the parts of a role, and the fields that may be beside them.
_PARTS = {
    "user": {"text", "functionResponse", "inlineData"},
    "model": {"text", "functionCall"},
}
_PARTS_BESIDE = ("thought", "thoughtSignature")


def _notes(entry: Entry) -> Iterator[LossNote]:
    if entry.get("subtype") == _COMPRESSION and not _history(entry):
        yield LossNote("unread", _COMPRESSION)
    message = dict_of(entry.get("message"))
    read = _PARTS.get(str(message.get("role")), set())
    for part in objects_of(message.get("parts")):
        names = [name for name in part if name not in _PARTS_BESIDE]
        if names and read.isdisjoint(names):
            yield LossNote("unread", names[0])
        if dict_of(part.get("functionResponse")).get("parts"):
            yield LossNote("unread", "functionResponse.parts")


def _messages(entry: Entry) -> Iterator[Body]:
    message = dict_of(entry.get("message"))
    parts = objects_of(message.get("parts"))
    texts = [{"type": "text", **part} for part in parts if "text" in part]
    for result in (dict_of(part.get("functionResponse")) for part in parts):
        if result:
            response = dict_of(result.get("response"))
            output = response.get("output") or response.get("error", response.get("output"))
            text = output if isinstance(output, str) else json.dumps(response, ensure_ascii=False)
            yield {"role": "tool", "tool_call_id": result.get("id"), "content": text}
    if message.get("role") == "model":
        calls = [
            chat_call(call.get("id"), call.get("name"), call.get("args"))
            for call in (dict_of(part.get("functionCall")) for part in parts)
            if call
        ]
        thoughts = [part["text"] for part in texts if part.get("thought")]
        said = [part for part in texts if not part.get("thought")]
        yield chat_answer(said, thoughts, calls, entry.get("model"))
    elif message.get("role") == "user":
        blocks = [_block(part) for part in parts if "text" in part or "inlineData" in part]
        if blocks:
            yield {"role": "user", "content": chat_content(blocks)}


def _block(part: Mapping[str, Any]) -> Body:
    data = dict_of(part.get("inlineData"))
    if data:
        return {"type": "image", "mimeType": data.get("mimeType"), "data": data.get("data")}
    return {"type": "text", "text": part.get("text", "")}


QWEN_CODE = AgentReader(_read, lambda entry: any(_messages(entry)))
