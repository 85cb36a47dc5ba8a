"""The sessions of Claude Code: entries with `uuid` and `parentUuid`, and messages of the Messages
protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from dsv4._inputs.agent_conversations import (
    CUT,
    AgentConversation,
    AgentReader,
    Body,
    LossNote,
    with_notes,
    with_weights,
)
from dsv4._inputs.session_entries import Entry, EntryTree, dict_of, list_of, objects_of


def _read(entries: Sequence[Entry]) -> list[AgentConversation]:
    trees: dict[str, EntryTree] = {}
    groups: dict[str, str] = {}  # the key of the turn that an entry is a line of
    cut = _cut_answers(entries)
    for entry in entries:
        uuid, message = entry.get("uuid"), _message(entry)
        if message is not None and _answer(entry) in cut:
            message["weight"] = 0
        if not isinstance(uuid, str):
            continue
        parent = groups.get(str(entry.get("parentUuid")), entry.get("parentUuid"))
        key = _key(entry, message, parent)
        groups[uuid] = key
        tree = trees.setdefault(_branch(entry), EntryTree())
        tree.add(key, None if parent == key else parent, *([message] if message else []))
    shapes = _RequestShapes(entries)
    session = next((str(entry["sessionId"]) for entry in entries if "sessionId" in entry), "")
    compacted = {groups.get(str(entry.get("logicalParentUuid"))) for entry in entries}
    found: list[AgentConversation] = []
    for branch, tree in trees.items():
        paths = list(tree.paths())
        for n, (leaf, path) in enumerate(paths, 1):
            own = "compacted" if leaf in compacted else branch
            # The session continues at the last leaf.
            name = own or ("main" if n == len(paths) else "branch")
            found.append(AgentConversation("Claude Code", session, name, shapes.body(path)))
    return with_notes(found, [*[CUT] * len(cut), *_notes(entries)])


# Stop reasons of answers that the model did not end itself.
_CUT_REASONS = ("max_tokens", "model_context_window_exceeded", "refusal")
_INTERRUPTED = "[Request interrupted by user]"
_CLIENT = "<synthetic>"


def _answer(entry: Entry) -> str | None:
    """The id of the answer that an entry has a block of."""
    message = dict_of(entry.get("message"))
    if message.get("role") != "assistant" or _is_of_client(entry):
        return None
    return str(message.get("id") or entry.get("uuid"))


def _cut_answers(entries: Sequence[Entry]) -> set[str]:
    """The ids of answers that were cut. An interrupted one has no stop reason, and the next entry
    reports the interruption; older releases do not write the stop reasons of any answer."""
    interrupted = {str(entry.get("parentUuid")) for entry in entries if _is_interruption(entry)}
    cut = set[str]()
    for entry in entries:
        answer, end = _answer(entry), dict_of(entry.get("message")).get("stop_reason")
        is_interrupted = end is None and str(entry.get("uuid")) in interrupted
        if answer is not None and (end in _CUT_REASONS or is_interrupted):
            cut.add(answer)
    return cut


def _is_interruption(entry: Entry) -> bool:
    blocks = _blocks(dict_of(entry.get("message")))
    return [dict_of(block).get("text") for block in blocks] == [_INTERRUPTED]


def _notes(entries: Sequence[Entry]) -> Iterator[LossNote]:
    for entry in entries:
        if _is_of_client(entry):
            yield LossNote("client")
        attached = dict_of(entry.get("attachment"))
        if attached and _message(entry) is None:
            yield LossNote("unread", str(attached.get("type")))


def _is_of_client(entry: Entry) -> bool:
    """Whether the client wrote an answer itself: about a failure, or about a missing answer."""
    is_synthetic = dict_of(entry.get("message")).get("model") == _CLIENT
    return bool(is_synthetic or entry.get("isApiErrorMessage"))


def _branch(entry: Entry) -> str:
    return "sub-agent" if entry.get("isSidechain") else ""


def _key(entry: Entry, message: Entry | None, parent: object) -> str:
    """The key of an entry in the tree. The lines of one answer share a key, and so do the results
    of its calls: each block has a line, and results of parallel calls are on different branches."""
    if message is not None and message["role"] == "assistant" and message.get("id"):
        return f"{message['id']} of {entry.get('sessionId')}"
    blocks = objects_of(message["content"]) if message is not None else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return f"results of {parent}"
    return str(entry["uuid"])


def _message(entry: Entry) -> dict[str, Any] | None:
    """The message of an entry; attachments are texts that the client itself put into the prompt."""
    if _is_of_client(entry):
        return None
    message = dict_of(entry.get("message"))
    if entry.get("type") in ("user", "assistant") and "content" in message:
        return {"entry": entry, **message}
    rendered = [part.get("content") for part in objects_of(entry.get("rendered"))]
    texts = [{"type": "text", "text": text} for text in rendered if isinstance(text, str)]
    role = entry.get("renderedRole")
    return {"role": role, "content": texts} if texts and role in ("user", "system") else None


class _RequestShapes:
    """The system prompts and tools of requests, which newer releases store beside the messages."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        shapes = {
            entry.get("shapeHash"): dict_of(entry.get("shape"))
            for entry in entries
            if entry.get("type") == "api-request-shape"
        }
        self._requests = {
            entry.get("id"): (dict_of(entry.get("params")), shapes.get(entry.get("shapeHash"), {}))
            for entry in entries
            if entry.get("type") == "api-request"
        }

    def body(self, path: Sequence[Entry]) -> Body:
        answers = [message for message in path if message["role"] == "assistant"]
        asked_by = [dict_of(message.get("entry")).get("requestRef") for message in answers]
        known = [self._requests[one] for one in asked_by if one in self._requests]
        params, shape = known[-1] if known else ({}, {})
        model = next((m["model"] for m in reversed(answers) if m.get("model")), None)
        options: Body = {n: params[n] for n in ("thinking", "output_config") if n in params}
        return {
            **({"model": model} if model else {}),
            "max_tokens": params.get("max_tokens", 1),
            **options,
            **{name: shape[name] for name in ("system", "tools") if name in shape},
            **with_weights("messages", list(_joined_turns(path))),
        }


def _joined_turns(path: Sequence[Entry]) -> Iterator[Body]:
    """The messages of a path, with consecutive messages of one role joined. An answer that was cut
    before it said anything is left out, and so is one that was immediately begun again."""
    for role, group in groupby(path, key=lambda message: str(message["role"])):
        *_, last = turn = list(group)
        messages = [m for m in turn if "weight" not in m or _same_answer(m, last)]
        blocks = [block for message in messages for block in _blocks(message)]
        weight = {"weight": 0} if any("weight" in message for message in messages) else {}
        if blocks and not (weight and all(_is_thought(block) for block in blocks)):
            yield {"role": role, "content": blocks, **weight}


def _same_answer(one: Entry, other: Entry) -> bool:
    return _answer(dict_of(one["entry"])) == _answer(dict_of(other["entry"]))


def _blocks(message: Entry) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)


def _is_thought(block: object) -> bool:
    return dict_of(block).get("type") in ("thinking", "redacted_thinking")


def _is_turn(entry: Entry) -> bool:
    is_no_turn = entry.get("type") == "api-request-blob" or _is_of_client(entry)
    return is_no_turn or _message(entry) is not None


CLAUDE_CODE = AgentReader(_read, _is_turn)
