"""The session files that agents leave on disk (Claude Code, Codex, opencode, pi, Qwen Code), as the
request bodies of their conversations.

Entries name the entry before them, so that a file is a tree: an edited message, a retry, a
sub-agent or a compaction begins a branch, and each leaf is a conversation. The files hold the
client's copy of what the model wrote, and never the ids that were sampled.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

from dsv4._inputs.database_file import open_database
from dsv4.api.neutral_request import marked_text
from dsv4.api.own_bodies import is_of_model
from dsv4.api.responses_requests import ITEM_READERS

Entry: TypeAlias = Mapping[str, Any]
Body: TypeAlias = dict[str, Any]

SQLITE = b"SQLite format 3\0"
# Before the first entry that tells whose file it is, there are at most so many others, in so many
# bytes and the rest of a line: some begin with a system prompt, or with a picture.
_FIRST_LINES = 64
_FIRST_BYTES = 1 << 20


class LossNote(NamedTuple):
    """Something of a session that is left out or not trained on: why, and what the agent calls it
    where that is not enough."""

    kind: Literal["cut", "undone", "client", "unread"]
    name: str = ""


CUT = LossNote("cut")
UNDONE = LossNote("undone")
# Of each kind, what is said of one, and of several.
_NOTES_IN_WORDS = {
    "cut": (
        "1 answer was cut, aborted or failed, and is not trained on",
        "{count:,} answers were cut, aborted or failed, and are not trained on",
    ),
    "undone": (
        "1 turn that the user took back is left out",
        "{count:,} turns that the user took back are left out",
    ),
    "client": (
        "1 text that the client wrote in the model's place is left out",
        "{count:,} texts that the client wrote in the model's place are left out",
    ),
    "unread": (
        "1 part that is not read ({names}) is left out",
        "{count:,} parts that are not read ({names}) are left out",
    ),
}


class AgentConversation(NamedTuple):
    """One conversation of a session file.

    `agent` is the program that wrote the file, `session` its id there, `branch` how the
    conversation came about ("main", "branch", "sub-agent", "compacted"), and `body` the request
    that continues it, in the protocol that is nearest to the file. `unread` are the lines of the
    file that are no entries: what they held is missing in some conversation. So is what the entries
    hold that look like turns, but of a kind that is not known: `unknown` has the kind of each.
    `notes` tell what else of a session is in none of its conversations, or not trained on; its last
    conversation has them.
    """

    agent: str
    session: str
    branch: str
    body: Body
    unread: tuple[bytes, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[LossNote, ...] = ()

    def requests(self) -> Iterator[Body]:
        """The requests that its answers came from, as far as the file tells: the conversation up to
        each turn of the model's."""
        name = "input" if "input" in self.body else "messages"
        items = self.body[name]
        is_model = [is_of_model(item) for item in items]
        for n in range(1, len(items)):
            if is_model[n] and not is_model[n - 1]:
                body = {field: value for field, value in self.body.items() if field != "weight"}
                yield {**body, name: items[:n]}


def read_start(file: BinaryIO) -> bytes:
    """As much of a file as `is_agent_session` needs."""
    return file.read(_FIRST_BYTES) + file.readline()


def is_agent_session(start: bytes) -> bool:
    """Whether a file that begins with these bytes is an agent's session file."""
    if start.startswith(SQLITE):
        return True
    lines = (_json_object(line) for line in start.splitlines())
    entries = (entry for entry in lines if entry is not None)
    return any(_agent_of(entry) is not None for entry in islice(entries, _FIRST_LINES))


def in_words(conversations: Sequence[AgentConversation]) -> str:
    """What a file is, for those who gave it to a command."""
    listed = ", ".join(f"{n} {one.branch}" for n, one in enumerate(conversations, 1))
    copy = "what the model wrote is the client's copy of it, not the ids that were sampled"
    whose = f"a session file of {agents_in_words(conversations)}"
    return "; ".join((f"{whose}: {copy}", f"conversations: {listed}", *lost_lines(conversations)))


def agents_in_words(conversations: Sequence[AgentConversation]) -> str:
    return " and ".join(dict.fromkeys(one.agent for one in conversations))


def lost_lines(conversations: Sequence[AgentConversation]) -> Iterator[str]:
    """What of a file is in no conversation, although it may have been a turn, or is not trained on,
    although the model wrote it."""
    unread, unknown = conversations[0].unread, conversations[0].unknown
    if unread:
        lines = "1 line" if len(unread) == 1 else f"{len(unread):,} lines"
        yield f"{lines} could not be read, so that turns may be missing"
    if unknown:
        entries = "1 entry" if len(unknown) == 1 else f"{len(unknown):,} entries"
        kinds = ", ".join(map(repr, dict.fromkeys(unknown)))
        yield f"{entries} of a kind that is not known ({kinds}) looked like turns and were left out"
    notes = [note for one in conversations for note in one.notes]
    for kind, (one_of_it, several) in _NOTES_IN_WORDS.items():
        found = [note for note in notes if note.kind == kind]
        names = ", ".join(map(repr, dict.fromkeys(note.name for note in found)))
        if found:
            words = one_of_it if len(found) == 1 else several
            yield words.format(count=len(found), names=names)


def read_agent_session(
    data: bytes, path: str | os.PathLike[str] | None = None
) -> list[AgentConversation]:
    """The conversations of a session file: `data` is what it holds, `path` where it is, which a
    database is read from. Empty where it is none, or has no conversation yet."""
    if data.startswith(SQLITE):
        return _read_opencode(data, path)
    entries, unread = _entries(data)
    return [one._replace(unread=tuple(unread)) for one in conversations_of(entries)]


def conversations_of(entries: Sequence[Entry]) -> list[AgentConversation]:
    """The conversations of a session file whose lines have been read; empty where it is none."""
    found, unknown = list[AgentConversation](), list[str]()
    for agent, own in _sessions(entries):
        found += agent.read(own)
        unknown += [kind for one in own if (kind := _kind_of_turn(one)) and not agent.is_read(one)]
    return [one._replace(unknown=tuple(unknown)) for one in found]


def _entries(data: bytes) -> tuple[list[Entry], list[bytes]]:
    """The objects in the lines of a file, and the lines that have none. A last line without its end
    is one that the agent is still writing."""
    found, unread = list[Entry](), list[bytes]()
    for line in data.splitlines(keepends=True):
        value = _json_object(line)
        if value is not None:
            found.append(value)
        elif line.endswith((b"\n", b"\r")) and not line.isspace():
            unread.append(line)
    return found, unread


def _json_object(data: str | bytes) -> Entry | None:
    with suppress(ValueError, TypeError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            return value
    return None


# Whose entries they are.


class _Agent(NamedTuple):
    """How the file of a program is read, and whether a turn in an entry is: or is known to be none,
    or a copy."""

    read: Callable[[Sequence[Entry]], list[AgentConversation]]
    is_read: Callable[[Entry], bool]


def _agent_of(entry: Entry) -> _Agent | None:
    """The program that wrote an entry, by the fields that only it writes."""
    if entry.get("type") == "session_meta" and isinstance(entry.get("payload"), dict):
        return _CODEX
    if entry.get("type") == "session" and "cwd" in entry and "version" in entry:
        return _PI
    if {"uuid", "parentUuid", "sessionId"} <= entry.keys():
        message = _dict(entry.get("message"))
        return _QWEN if "parts" in message else _CLAUDE if "content" in message else None
    return None


def _sessions(entries: Sequence[Entry]) -> Iterator[tuple[_Agent, list[Entry]]]:
    """The sessions in a file, one behind the other, each with its entries: without those that are
    there twice, as they are after some sessions were resumed."""
    of_sessions = {
        entry.get("sessionId"): found for entry in entries if (found := _agent_of(entry))
    }
    agent: _Agent | None = None
    own: list[Entry] = []
    seen = set[str]()
    for entry in entries:
        name = entry.get("id" if "parentId" in entry else "uuid")
        if isinstance(name, str):
            if name in seen:
                continue
            seen.add(name)
        writer = _agent_of(entry) or of_sessions.get(entry.get("sessionId", ""))
        if agent is not None and writer is not None:
            starts_anew = writer in (_CODEX, _PI) and any(map(writer.is_read, own))
            if writer is not agent or starts_anew:
                yield agent, own
                own = []
        agent = writer or agent
        own.append(entry)
    if agent is not None:
        yield agent, own


def _kind_of_turn(entry: Entry) -> str:
    """What an entry calls itself that has the form of a turn; empty for others."""
    held = (entry, _dict(entry.get("message")), _dict(entry.get("payload")))
    roles = [one["role"] for one in held if isinstance(one.get("role"), str)]
    return str(entry.get("type") or roles[0]) if roles else ""


# Trees.


class _Tree:
    """Entries with their parents, of which some carry a message."""

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._messages: dict[str, list[Entry]] = {}

    def add(self, key: str, parent: str | None, *messages: Entry) -> None:
        """Adds an entry; messages of an entry that is there already are added to its own."""
        if key not in self._parents:
            self._parents[key] = parent
        if messages:
            self._messages.setdefault(key, []).extend(messages)

    def paths(self) -> Iterator[tuple[str, list[Entry]]]:
        """Each leaf, with the messages from the root to it."""
        continued = {self._above(key) for key in self._messages}
        for leaf in self._messages:
            if leaf in continued:
                continue
            path: list[list[Entry]] = []
            at: str | None = leaf
            while at is not None:
                path.append(self._messages[at])
                at = self._above(at)
            yield leaf, [message for messages in reversed(path) for message in messages]

    def _above(self, key: str) -> str | None:
        """The nearest entry above one that carries a message. A circle has no top."""
        seen = {key}
        above = self._parents.get(key)
        while above is not None and above not in self._messages:
            if above in seen:
                return None
            seen.add(above)
            above = self._parents.get(above)
        return None if above in seen else above


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _with_branches(agent: str, session: str, bodies: Sequence[Body]) -> list[AgentConversation]:
    """Conversations of a tree: the last leaf is where the session stands."""
    last = len(bodies) - 1
    return [
        AgentConversation(agent, session, "main" if n == last else "branch", body)
        for n, body in enumerate(bodies)
    ]


def _with_weights(field: str, items: Sequence[Entry]) -> Body:
    """Messages or items with their weights beside them, which neither has a place for."""
    weights = [int(is_of_model(item) and item.get("weight") != 0) for item in items]
    bare = [{name: v for name, v in item.items() if name != "weight"} for item in items]
    return {field: bare, **({"weight": weights} if bare != items else {})}


def _noted(found: list[AgentConversation], notes: Iterable[LossNote]) -> list[AgentConversation]:
    """The conversations of a session, the last of them with its notes."""
    return [*found[:-1], *(one._replace(notes=tuple(notes)) for one in found[-1:])]


# Claude Code: entries with `uuid` and `parentUuid`, and messages of the Messages protocol.


def _read_claude(entries: Sequence[Entry]) -> list[AgentConversation]:
    trees: dict[str, _Tree] = {}
    groups: dict[str, str] = {}  # the entries that are lines of one turn
    cut = _claude_cut(entries)
    for entry in entries:
        uuid, message = entry.get("uuid"), _claude_message(entry)
        if message is not None and _claude_answer(entry) in cut:
            message["weight"] = 0
        if not isinstance(uuid, str):
            continue
        parent = groups.get(str(entry.get("parentUuid")), entry.get("parentUuid"))
        key = _claude_key(entry, message, parent)
        groups[uuid] = key
        tree = trees.setdefault(_claude_branch(entry), _Tree())
        tree.add(key, None if parent == key else parent, *([message] if message else []))
    shapes = _ClaudeShapes(entries)
    session = next((str(entry["sessionId"]) for entry in entries if "sessionId" in entry), "")
    compacted = {groups.get(str(entry.get("logicalParentUuid"))) for entry in entries}
    found: list[AgentConversation] = []
    for branch, tree in trees.items():
        paths = list(tree.paths())
        bodies = [shapes.body(path) for _, path in paths]
        named = _with_branches("Claude Code", session, bodies)
        for (leaf, _), one in zip(paths, named, strict=True):
            own = "compacted" if leaf in compacted else branch
            found.append(one._replace(branch=own or one.branch))
    return _noted(found, [*[CUT] * len(cut), *_claude_notes(entries)])


# Ends of answers that are not their own.
_CLAUDE_CUT = ("max_tokens", "model_context_window_exceeded", "refusal")
_CLAUDE_INTERRUPTED = "[Request interrupted by user]"
_CLAUDE_CLIENT = "<synthetic>"


def _claude_answer(entry: Entry) -> str | None:
    """The id of the answer that an entry has a block of."""
    message = _dict(entry.get("message"))
    if message.get("role") != "assistant" or _is_of_claude_client(entry):
        return None
    return str(message.get("id") or entry.get("uuid"))


def _claude_cut(entries: Sequence[Entry]) -> set[str]:
    """The answers that were cut. One that the user interrupted has no reason to have stopped, and
    the next entry says so; older releases write the reason of no answer."""
    interrupted = {str(entry.get("parentUuid")) for entry in entries if _is_interruption(entry)}
    cut = set[str]()
    for entry in entries:
        answer, end = _claude_answer(entry), _dict(entry.get("message")).get("stop_reason")
        is_interrupted = end is None and str(entry.get("uuid")) in interrupted
        if answer is not None and (end in _CLAUDE_CUT or is_interrupted):
            cut.add(answer)
    return cut


def _is_interruption(entry: Entry) -> bool:
    blocks = _claude_blocks(_dict(entry.get("message")))
    return [_dict(block).get("text") for block in blocks] == [_CLAUDE_INTERRUPTED]


def _claude_notes(entries: Sequence[Entry]) -> Iterator[LossNote]:
    for entry in entries:
        if _is_of_claude_client(entry):
            yield LossNote("client")
        attached = _dict(entry.get("attachment"))
        if attached and _claude_message(entry) is None:
            yield LossNote("unread", str(attached.get("type")))


def _is_of_claude_client(entry: Entry) -> bool:
    """Whether the client wrote an answer itself: it says what failed, or that there is none."""
    is_synthetic = _dict(entry.get("message")).get("model") == _CLAUDE_CLIENT
    return bool(is_synthetic or entry.get("isApiErrorMessage"))


def _claude_branch(entry: Entry) -> str:
    return "sub-agent" if entry.get("isSidechain") else ""


def _claude_key(entry: Entry, message: Entry | None, parent: object) -> str:
    """The lines of one answer are one entry, and so are the results of its calls: each block has a
    line, and the results of parallel calls are on different branches of the tree."""
    if message is not None and message["role"] == "assistant" and message.get("id"):
        return f"{message['id']} of {entry.get('sessionId')}"
    blocks = _objects(message["content"]) if message is not None else []
    if any(block.get("type") == "tool_result" for block in blocks):
        return f"results of {parent}"
    return str(entry["uuid"])


def _claude_message(entry: Entry) -> dict[str, Any] | None:
    """The message of an entry; attachments are what the client itself put into the prompt."""
    if _is_of_claude_client(entry):
        return None
    message = _dict(entry.get("message"))
    if entry.get("type") in ("user", "assistant") and "content" in message:
        return {"entry": entry, **message}
    rendered = [part.get("content") for part in _objects(entry.get("rendered"))]
    texts = [{"type": "text", "text": text} for text in rendered if isinstance(text, str)]
    role = entry.get("renderedRole")
    return {"role": role, "content": texts} if texts and role in ("user", "system") else None


class _ClaudeShapes:
    """The system prompts and tools of requests, which newer releases write beside the messages."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        shapes = {
            entry.get("shapeHash"): _dict(entry.get("shape"))
            for entry in entries
            if entry.get("type") == "api-request-shape"
        }
        self._requests = {
            entry.get("id"): (_dict(entry.get("params")), shapes.get(entry.get("shapeHash"), {}))
            for entry in entries
            if entry.get("type") == "api-request"
        }

    def body(self, path: Sequence[Entry]) -> Body:
        answers = [message for message in path if message["role"] == "assistant"]
        asked_by = [_dict(message.get("entry")).get("requestRef") for message in answers]
        known = [self._requests[one] for one in asked_by if one in self._requests]
        params, shape = known[-1] if known else ({}, {})
        model = next((m["model"] for m in reversed(answers) if m.get("model")), None)
        options: Body = {n: params[n] for n in ("thinking", "output_config") if n in params}
        return {
            **({"model": model} if model else {}),
            "max_tokens": params.get("max_tokens", 1),
            **options,
            **{name: shape[name] for name in ("system", "tools") if name in shape},
            **_with_weights("messages", list(_joined_turns(path))),
        }


def _joined_turns(path: Sequence[Entry]) -> Iterator[Body]:
    """Messages in which blocks of one role that follow each other are one message. An answer that
    was cut before it said anything is none, nor is one that was at once begun again."""
    for role, group in groupby(path, key=lambda message: str(message["role"])):
        *_, last = turn = list(group)
        messages = [m for m in turn if "weight" not in m or _same_answer(m, last)]
        blocks = [block for message in messages for block in _claude_blocks(message)]
        weight = {"weight": 0} if any("weight" in message for message in messages) else {}
        if blocks and not (weight and all(_is_thought(block) for block in blocks)):
            yield {"role": role, "content": blocks, **weight}


def _same_answer(one: Entry, other: Entry) -> bool:
    return _claude_answer(_dict(one["entry"])) == _claude_answer(_dict(other["entry"]))


def _claude_blocks(message: Entry) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _list(content)


def _is_thought(block: object) -> bool:
    return _dict(block).get("type") in ("thinking", "redacted_thinking")


def _is_claude_turn(entry: Entry) -> bool:
    is_no_turn = entry.get("type") == "api-request-blob" or _is_of_claude_client(entry)
    return is_no_turn or _claude_message(entry) is not None


_CLAUDE = _Agent(_read_claude, _is_claude_turn)


# Codex: items of the Responses protocol, one after the other.


def _read_codex(entries: Sequence[Entry]) -> list[AgentConversation]:
    windows: list[list[Body]] = [[]]
    notes: list[LossNote] = []
    meta: dict[str, Any] = {}
    model = None
    for entry in entries:
        kind, payload = entry.get("type"), _dict(entry.get("payload"))
        if kind == "session_meta":
            meta = meta or payload
        elif kind == "turn_context":
            model = payload.get("model") or model
        elif kind == "event_msg" and (change := _CODEX_EVENTS.get(str(payload.get("type")))):
            windows[-1], noted = change(windows[-1], payload)
            notes += noted
        elif kind == "response_item" and _is_readable(payload):
            windows[-1].append(_public_item(payload))
        elif kind == "response_item":
            notes.append(LossNote("unread", str(payload.get("type"))))
        elif kind == "compacted":
            kept, left_out = _codex_replacement(payload)
            windows.append(kept)
            notes += left_out
    notes += [LossNote("unread", name) for name in _codex_unread(meta)]
    instructions = _dict(meta.get("base_instructions")).get("text")
    common = {"model": model, "instructions": instructions}
    body = {name: value for name, value in common.items() if value is not None}
    last = len(windows) - 1
    found = [
        AgentConversation(
            "Codex",
            str(meta.get("id", "")),
            "main" if n == last else "compacted",
            {**body, **_with_weights("input", items)},
        )
        for n, items in enumerate(windows)
        if items
    ]
    return _noted(found, notes)


_Changed: TypeAlias = tuple[list[Body], list[LossNote]]


def _codex_aborted(items: list[Body], event: Entry) -> _Changed:
    """An answer that was broken off is at their end, or before the text that says so."""
    end = next((n for n in range(len(items), 0, -1) if not _is_said(items[n - 1], _ABORTED)), 0)
    start = next((n for n in range(end, 0, -1) if not is_of_model(items[n - 1])), 0)
    if start == end:
        return items, []
    answer = [{**item, "weight": 0} for item in items[start:end]]
    says_something = any(item.get("type") != "reasoning" for item in answer)
    return [*items[:start], *(answer if says_something else ()), *items[end:]], [CUT]


def _codex_rolled_back(items: list[Body], event: Entry) -> _Changed:
    """The user took back the last turns."""
    begun = [n for n, item in enumerate(items) if _begins_codex_turn(item)]
    count = event.get("num_turns")
    undone = begun[-count:] if isinstance(count, int) and count > 0 else []
    return (items[: undone[0]] if undone else items), [UNDONE] * len(undone)


_CODEX_EVENTS: Mapping[str, Callable[[list[Body], Entry], _Changed]] = {
    "turn_aborted": _codex_aborted,
    "thread_rolled_back": _codex_rolled_back,
}
_ABORTED = ("<turn_aborted>",)
# How the texts begin that Codex itself gives the model as the user's.
_CODEX_CONTEXT = (
    *("# AGENTS.md instructions", "<user_instructions>", "<environment_context>", "<skill>"),
    *("<user_shell_command>", "<subagent_notification>", *_ABORTED),
)


def _begins_codex_turn(item: Entry) -> bool:
    return item.get("role") == "user" and not _is_said(item, _CODEX_CONTEXT)


def _is_said(item: Entry, beginnings: tuple[str, ...]) -> bool:
    """Whether an item is a user's message that begins with one of these."""
    content = item.get("content")
    texts = [content] if isinstance(content, str) else [p.get("text") for p in _objects(content)]
    first = str(texts[0] if texts else "").lstrip()
    return item.get("role") == "user" and first.startswith(beginnings)


def _codex_replacement(payload: Entry) -> _Changed:
    """What stands in the place of all before it. Answers in it were written behind something else,
    where they are trained on."""
    kept = payload.get("replacement_history")
    summary = {"type": "message", "role": "user", "content": payload.get("message") or ""}
    items = _objects(kept) if isinstance(kept, list) else [summary]
    names = [str(item.get("type")) for item in items if not _is_readable(item)]
    public = [_public_item(item) for item in items if _is_readable(item)]
    weighed = [{**item, "weight": 0} if is_of_model(item) else item for item in public]
    return weighed, [LossNote("unread", name) for name in names]


def _is_readable(item: Entry) -> bool:
    """Whether a prompt can say what an item is. Calls of unknown kinds are not passed over: what
    comes behind them is the answer to their results."""
    kind = str(item.get("type") or "message")
    if kind.startswith("compaction"):
        return bool(item.get("summary") or marked_text(str(item.get("encrypted_content"))))
    return kind in ITEM_READERS or kind.endswith("_call")


def _codex_unread(meta: Entry) -> Iterator[str]:
    """What the head of a session says of its prompts and is not read. Older releases write the
    user's instructions there, which are among the items too, and not their own."""
    return (name for name in ("instructions", "dynamic_tools") if meta.get(name))


def _public_item(item: Mapping[str, Any]) -> Body:
    """An item without what Codex keeps for itself."""
    return {name: value for name, value in item.items() if not name.startswith("internal_")}


_CODEX = _Agent(_read_codex, lambda entry: entry.get("type") in ("response_item", "compacted"))


# pi: entries with `id` and `parentId`; its own blocks.


def _read_pi(entries: Sequence[Entry]) -> list[AgentConversation]:
    tree = _Tree()
    places = {str(entry.get("id")): n for n, entry in enumerate(entries)}
    for n, entry in enumerate(entries):
        if isinstance(entry.get("id"), str) and entry.get("type") != "session":
            message = _pi_message(entry)
            if message is not None and entry.get("type") == "compaction":
                message["kept_from"] = places.get(str(entry.get("firstKeptEntryId")), n)
            messages = [{**message, "place": n}] if message else []
            tree.add(entry["id"], entry.get("parentId"), *messages)
    session = next((str(e.get("id", "")) for e in entries if e.get("type") == "session"), "")
    found = _chat_conversations("pi", session, [path for _, path in tree.paths()])
    return _noted(found, [note for entry in entries for note in _pi_notes(entry)])


_PI_CUT = ("aborted", "error", "length")
_PI_SUMMARIES = ("compaction", "branch_summary")


def _pi_message(entry: Entry) -> Body | None:
    if entry.get("type") in _PI_SUMMARIES:
        return {"role": "user", "content": str(entry.get("summary", ""))}
    is_custom = entry.get("type") == "custom_message"  # of an extension, to the model
    message = {**entry, "role": "user"} if is_custom else _dict(entry.get("message"))
    content, role = message.get("content"), message.get("role")
    blocks = _objects(content) or [{"type": "text", "text": str(content or "")}]
    if role == "toolResult":
        result = {"role": "tool", "tool_call_id": message.get("toolCallId")}
        return {**result, "content": _chat_content(blocks)}
    if role == "assistant":
        calls = [
            _chat_call(block.get("id"), block.get("name"), block.get("arguments"))
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        thoughts = [
            block.get("thinking")
            for block in blocks
            if block.get("type") == "thinking" and not block.get("redacted")
        ]
        answer = _chat_answer(blocks, thoughts, calls, message.get("model"))
        return _unless_cut(answer, message.get("stopReason") in _PI_CUT)
    return {"role": "user", "content": _chat_content(blocks)} if role == "user" else None


def _pi_notes(entry: Entry) -> Iterator[LossNote]:
    message = _dict(entry.get("message"))
    if message.get("role") == "assistant" and message.get("stopReason") in _PI_CUT:
        yield CUT
    redacted = [b for b in _objects(message.get("content")) if b.get("redacted")]
    yield from [LossNote("unread", "redacted thinking")] * len(redacted)


def _is_pi_turn(entry: Entry) -> bool:
    is_answer = _dict(entry.get("message")).get("role") == "assistant"
    return is_answer or _pi_message(entry) is not None


_PI = _Agent(_read_pi, _is_pi_turn)


# Qwen Code: entries with `uuid` and `parentUuid`; Gemini's parts.


def _read_qwen(entries: Sequence[Entry]) -> list[AgentConversation]:
    tree = _Tree()
    for n, entry in enumerate(entries):
        if isinstance(entry.get("uuid"), str):
            messages = [{**message, "place": n} for message in _qwen_turns(entry, n)]
            tree.add(entry["uuid"], entry.get("parentUuid"), *messages)
    session = next((str(entry["sessionId"]) for entry in entries if "sessionId" in entry), "")
    found = _chat_conversations("Qwen Code", session, [path for _, path in tree.paths()])
    return _noted(found, [note for entry in entries for note in _qwen_notes(entry)])


_COMPRESSION = "chat_compression"


def _qwen_history(entry: Entry) -> list[Body]:
    """What stands in the place of all before a compression. Qwen Code writes some answers in it
    itself, and the model wrote the others behind something else."""
    contents = _objects(_dict(entry.get("systemPayload")).get("compressedHistory"))
    messages = [each for content in contents for each in _qwen_messages({"message": content})]
    return [_untrained(message) for message in messages]


def _qwen_turns(entry: Entry, place: int) -> Iterator[Body]:
    if entry.get("subtype") != _COMPRESSION:
        yield from _qwen_messages(entry)
        return
    for n, message in enumerate(_qwen_history(entry)):
        yield message if n else {**message, "kept_from": place}


# What is read of the parts of a role, and what stands beside it.
_QWEN_PARTS = {
    "user": {"text", "functionResponse", "inlineData"},
    "model": {"text", "functionCall"},
}
_QWEN_PARTS_BESIDE = ("thought", "thoughtSignature")


def _qwen_notes(entry: Entry) -> Iterator[LossNote]:
    if entry.get("subtype") == _COMPRESSION and not _qwen_history(entry):
        yield LossNote("unread", _COMPRESSION)
    message = _dict(entry.get("message"))
    read = _QWEN_PARTS.get(str(message.get("role")), set())
    for part in _objects(message.get("parts")):
        names = [name for name in part if name not in _QWEN_PARTS_BESIDE]
        if names and read.isdisjoint(names):
            yield LossNote("unread", names[0])
        if _dict(part.get("functionResponse")).get("parts"):
            yield LossNote("unread", "functionResponse.parts")


def _qwen_messages(entry: Entry) -> Iterator[Body]:
    message = _dict(entry.get("message"))
    parts = _objects(message.get("parts"))
    texts = [{"type": "text", **part} for part in parts if "text" in part]
    for result in (_dict(part.get("functionResponse")) for part in parts):
        if result:
            response = _dict(result.get("response"))
            output = response.get("output") or response.get("error", response.get("output"))
            text = output if isinstance(output, str) else json.dumps(response, ensure_ascii=False)
            yield {"role": "tool", "tool_call_id": result.get("id"), "content": text}
    if message.get("role") == "model":
        calls = [
            _chat_call(call.get("id"), call.get("name"), call.get("args"))
            for call in (_dict(part.get("functionCall")) for part in parts)
            if call
        ]
        thoughts = [part["text"] for part in texts if part.get("thought")]
        said = [part for part in texts if not part.get("thought")]
        yield _chat_answer(said, thoughts, calls, entry.get("model"))
    elif message.get("role") == "user":
        blocks = [_qwen_block(part) for part in parts if "text" in part or "inlineData" in part]
        if blocks:
            yield {"role": "user", "content": _chat_content(blocks)}


def _qwen_block(part: Mapping[str, Any]) -> Body:
    data = _dict(part.get("inlineData"))
    if data:
        return {"type": "image", "mimeType": data.get("mimeType"), "data": data.get("data")}
    return {"type": "text", "text": part.get("text", "")}


_QWEN = _Agent(_read_qwen, lambda entry: any(_qwen_messages(entry)))


# opencode: a database of sessions, their messages and the parts of these.

_OPENCODE_PARTS = """
    SELECT message.session_id, message.id, message.data, part.id, part.data
    FROM message LEFT JOIN part ON part.message_id = message.id
    ORDER BY message.session_id, message.time_created, message.id, part.id
"""


class _OpencodeMessage(NamedTuple):
    head: Body
    parts: list[Body]  # each with its `id`


def _read_opencode(data: bytes, path: str | os.PathLike[str] | None) -> list[AgentConversation]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(path) if path is not None else Path(folder, "session.db")
        if path is None:
            place.write_bytes(data)
        try:
            with closing(open_database(place, timeout=5, must_exist=True)) as database:
                listed = database.execute("SELECT * FROM session")
                names = [column[0] for column in listed.description]
                heads = [dict(zip(names, row, strict=True)) for row in listed]
                rows = database.execute(_OPENCODE_PARTS).fetchall()
        except sqlite3.Error:  # a database of another program
            return []
    sessions: dict[str, dict[str, _OpencodeMessage]] = {}
    unread: dict[bytes, None] = {}

    def read(text: str) -> Body:
        value = _json_object(text)
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
        for one in _opencode_session(session, about.get(session, {}), messages)
    ]


def _opencode_session(
    session: str, about: Mapping[str, Any], messages: Mapping[str, _OpencodeMessage]
) -> list[AgentConversation]:
    revert = _json_object(about.get("revert") or "") or {}
    kept = _not_reverted(messages, revert)
    places = {id: n for n, id in enumerate(kept)}
    listed = list(kept.values())
    path = [turn for n in range(len(listed)) for turn in _opencode_turns(listed, n, places)]
    branch = "sub-agent" if about.get("parent_id") else "main"
    found = _chat_conversations("opencode", session, [path], branch, oldest_first=True)
    undone = [m for id, m in messages.items() if id not in kept and m.head.get("role") == "user"]
    notes = [note for message in kept.values() for note in _opencode_notes(*message)]
    return _noted(found, [*[UNDONE] * len(undone), *notes])


def _not_reverted(
    messages: Mapping[str, _OpencodeMessage], revert: Entry
) -> dict[str, _OpencodeMessage]:
    """The messages before the one, or the part of one, that the user went back to."""
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
_OPENCODE_CUT = ("length", "content-filter", "error")
# What opencode tells the model where these stand.
_OPENCODE_TEXTS = {
    "compaction": "What did we do so far?",
    "subtask": "The following tool was executed by the user",
}
_OPENCODE_INTERRUPTED = "[Tool execution was interrupted]"
_UNFINISHED = ("pending", "running")


def _opencode_turns(
    messages: Sequence[_OpencodeMessage], place: int, places: Mapping[str, int]
) -> Iterator[Body]:
    """What the message at a place says. One that asks for a summary begins a conversation, if the
    summary was written; it may name the first message that is kept. No file has the prompt that a
    summary answers."""
    message, after = messages[place], messages[min(place + 1, len(messages) - 1)]
    asking = [part for part in message.parts if part.get("type") == "compaction"]
    is_written = _is_opencode_summary(after.head) and not after.head.get("error")
    begins: Body = {}
    if asking and is_written:
        begins["kept_from"] = places.get(str(asking[0].get("tail_start_id")), place)
    for turn in _opencode_messages(*message):
        own = _untrained(turn) if _is_opencode_summary(message.head) else turn
        yield {**own, "place": place, **begins}


def _is_opencode_summary(head: Body) -> bool:
    return head.get("role") == "assistant" and head.get("summary") is True


def _opencode_messages(head: Body, parts: Sequence[Body]) -> Iterator[Body]:
    if head.get("role") == "user":
        blocks = [block for part in parts if (block := _opencode_block(part)) is not None]
        if blocks:
            yield {"role": "user", "content": _chat_content(blocks)}
        return
    for step, is_cut in _opencode_steps(head, parts):
        tools = [part for part in step if part.get("type") == "tool"]
        calls = [
            _chat_call(part.get("callID"), part.get("tool"), _dict(part.get("state")).get("input"))
            for part in tools
        ]
        thoughts = [part.get("text") for part in step if part.get("type") == "reasoning"]
        texts = [part for part in step if not part.get("ignored")]
        answer = _unless_cut(_chat_answer(texts, thoughts, calls, head.get("modelID")), is_cut)
        if answer is not None:
            yield answer
            yield from map(_opencode_result, tools)


def _opencode_steps(head: Body, parts: Sequence[Body]) -> list[tuple[list[Body], bool]]:
    """The answers in a message, each with its calls, and whether it was cut. What the message says
    of its end is said of the last."""
    steps: list[list[Body]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and any(map(_is_said_by_model, steps[-1])):
            steps.append([])
        steps[-1].append(part)
    is_open = "completed" not in _dict(head.get("time") or {"completed": 0})
    is_cut = bool(head.get("error")) or head.get("finish") in _OPENCODE_CUT or is_open
    *others, last = steps
    return [*((step, _is_cut_step(step)) for step in others), (last, is_cut or _ends_early(last))]


def _is_said_by_model(part: Body) -> bool:
    return part.get("type") in ("text", "reasoning", "tool")


def _is_cut_step(step: Sequence[Body]) -> bool:
    """Whether a step before another was cut: one that failed and was tried again has no end."""
    kinds = [part.get("type") for part in step]
    return _ends_early(step) or ("step-start" in kinds and "step-finish" not in kinds)


def _ends_early(step: Sequence[Body]) -> bool:
    """Whether a step says so, or has a call of which the arguments were still being written."""
    reasons = [part.get("reason") for part in step if part.get("type") == "step-finish"]
    states = [_dict(part.get("state")).get("status") for part in step]
    return any(reason in _OPENCODE_CUT for reason in reasons) or "pending" in states


def _opencode_result(part: Body) -> Body:
    state = _dict(part.get("state"))
    text = state.get("output", state.get("error"))
    if state.get("status") in _UNFINISHED:
        text = _OPENCODE_INTERRUPTED
    images = [block for each in _attachments(part) if (block := _image(each))]
    content = _chat_content([{"type": "text", "text": str(text or "")}, *images])
    return {"role": "tool", "tool_call_id": part.get("callID"), "content": content}


def _opencode_block(part: Mapping[str, Any]) -> Body | None:
    """What a part of a user's message says to the model, if anything."""
    kind = str(part.get("type"))
    if kind in _OPENCODE_TEXTS:
        return {"type": "text", "text": _OPENCODE_TEXTS[kind]}
    if kind == "text" and not part.get("ignored"):
        return {"type": "text", "text": part.get("text", "")}
    return _image(part)


def _image(part: Mapping[str, Any]) -> Body | None:
    is_image = part.get("type") == "file" and str(part.get("mime", "")).startswith("image/")
    return {"type": "image_url", "image_url": {"url": part.get("url")}} if is_image else None


# Their texts are parts of their own.
_FILES_AS_TEXT = ("text/plain", "application/x-directory")


def _opencode_notes(head: Body, parts: Sequence[Body]) -> Iterator[LossNote]:
    if head.get("role") == "assistant":
        yield from [CUT] * sum(is_cut for _, is_cut in _opencode_steps(head, parts))
    elif head.get("system"):
        yield LossNote("unread", "system")
    files = [p for p in parts if p.get("type") == "file" and p.get("mime") not in _FILES_AS_TEXT]
    for part in parts:
        files += _attachments(part)
    yield from (LossNote("unread", str(file.get("mime"))) for file in files if not _image(file))


def _attachments(part: Body) -> list[Body]:
    return _objects(_dict(part.get("state")).get("attachments"))


# Chat Completions, which the last three are read into. A message has its `place` among the entries
# too, and where a summary begins a conversation, the place from which on messages are `kept_from`
# the one before. An answer that was cut is marked so (`is_cut`).


def _chat_conversations(
    agent: str,
    session: str,
    paths: Sequence[Sequence[Entry]],
    branch: str = "main",
    oldest_first: bool = False,
) -> list[AgentConversation]:
    """Conversations of a tree, and those that were compacted on the way, once each. What is kept
    stands before a summary (`oldest_first`), or behind it."""
    found: list[AgentConversation] = []
    ends = set[int]()
    for n, path in enumerate(paths):
        *compacted, last = _windows(_without_retried(path), oldest_first)
        new = [one for one in compacted if one and one[-1]["place"] not in ends]
        ends.update(one[-1]["place"] for one in new)
        name = branch if n == len(paths) - 1 else "branch"
        named = [*[("compacted", one) for one in new], *([(name, last)] if last else [])]
        found += [AgentConversation(agent, session, kind, _chat_body(one)) for kind, one in named]
    return found


def _without_retried(path: Sequence[Entry]) -> list[Entry]:
    """A path without the answers that were cut and at once begun again: no later one was written
    behind them."""
    roles = [*(str(message["role"]) for message in path[1:]), ""]
    return [
        message
        for message, following in zip(path, roles, strict=False)
        if not ("is_cut" in message and following == "assistant")
    ]


def _windows(path: Sequence[Entry], oldest_first: bool) -> list[list[Entry]]:
    """What the model saw at once. What is kept was written behind something else, where it is
    trained on."""
    windows: list[list[Entry]] = [[]]
    for message in path:
        if "kept_from" in message:
            before = [each for each in windows[-1] if each["place"] >= message["kept_from"]]
            kept: list[Entry] = [_untrained(each) for each in before]
            windows.append([*kept, message] if oldest_first else [message, *kept])
        else:
            windows[-1].append(message)
    return windows


_OWN_FIELDS = ("model", "place", "kept_from", "is_cut")


def _chat_body(messages: Sequence[Entry]) -> Body:
    """The request that continues a conversation. The model is that of its last answer."""
    models = [message["model"] for message in messages if message.get("model")]
    return {
        **({"model": models[-1]} if models else {}),
        "messages": [
            {name: value for name, value in message.items() if name not in _OWN_FIELDS}
            for message in messages
        ],
    }


def _untrained(message: Entry) -> Body:
    return {**message, **({"weight": 0} if message["role"] == "assistant" else {})}


def _unless_cut(answer: Body, is_cut: bool) -> Body | None:
    """An answer, which is not trained on if it was cut, and is none if it then says nothing."""
    if not is_cut:
        return answer
    says_something = answer["content"].strip() or answer.get("tool_calls")
    return {**_untrained(answer), "is_cut": True} if says_something else None


def _chat_call(id: object, name: object, arguments: object) -> Body:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def _chat_answer(
    blocks: Sequence[Body], thoughts: Sequence[Any], calls: list[Body], model: object
) -> Body:
    texts = [block["text"] for block in blocks if block.get("type") == "text" and "text" in block]
    reasoning = "".join(text for text in thoughts if isinstance(text, str))
    return {
        "role": "assistant",
        "content": "".join(texts),
        **({"reasoning_content": reasoning} if reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
        "model": model,
    }


def _chat_content(blocks: Sequence[Body]) -> str | list[Body]:
    """Blocks as Chat has them; texts alone are one text."""
    found = [_chat_block(block) for block in blocks]
    if all(block["type"] == "text" for block in found):
        return "\n".join(str(block["text"]) for block in found)
    return found


def _chat_block(block: Body) -> Body:
    if block.get("type") == "image":
        url = f"data:{block.get('mimeType')};base64,{block.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if block.get("type") == "image_url":
        return block
    return {"type": "text", "text": block.get("text", "")}
