"""The session files that agents leave on disk (Claude Code, Codex, opencode, pi, Qwen Code), as the
request bodies of their conversations.

Entries name the entry before them, so that a file is a tree: an edited message, a retry, a
sub-agent or a compaction begins a branch, and each leaf is a conversation. The files hold the
client's copy of the model's output, and never the sampled ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from dsv4._inputs.agent_conversations import AgentConversation, AgentReader
from dsv4._inputs.claude_code_sessions import CLAUDE_CODE
from dsv4._inputs.codex_sessions import CODEX
from dsv4._inputs.opencode_sessions import read_opencode
from dsv4._inputs.pi_sessions import PI
from dsv4._inputs.qwen_code_sessions import QWEN_CODE
from dsv4._inputs.session_entries import Entry, dict_of, json_object

SQLITE = b"SQLite format 3\0"
# The most lines, and the most bytes, that are searched for the first entry that identifies the
# agent (the last line is read to its end): some files begin with a system prompt, or a picture.
_FIRST_LINES = 64
_FIRST_BYTES = 1 << 20
# The sentences for each kind of note: for one, and for several.
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


def read_start(file: BinaryIO) -> bytes:
    """The beginning of a file, as much as `is_agent_session` needs."""
    return file.read(_FIRST_BYTES) + file.readline()


def is_agent_session(start: bytes) -> bool:
    """Whether a file that begins with these bytes is an agent's session file."""
    if start.startswith(SQLITE):
        return True
    lines = (json_object(line) for line in start.splitlines())
    entries = (entry for entry in lines if entry is not None)
    return any(_agent_of(entry) is not None for entry in islice(entries, _FIRST_LINES))


def in_words(conversations: Sequence[AgentConversation]) -> str:
    """A description of a session file for the user of a command."""
    listed = ", ".join(f"{n} {one.branch}" for n, one in enumerate(conversations, 1))
    copy = "what the model wrote is the client's copy of it, not the ids that were sampled"
    whose = f"a session file of {agents_in_words(conversations)}"
    return "; ".join((f"{whose}: {copy}", f"conversations: {listed}", *lost_lines(conversations)))


def agents_in_words(conversations: Sequence[AgentConversation]) -> str:
    return " and ".join(dict.fromkeys(one.agent for one in conversations))


def lost_lines(conversations: Sequence[AgentConversation]) -> Iterator[str]:
    """Sentences on possible turns that are in no conversation, and on output of the model that is
    not trained on."""
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
    """The conversations of a session file: `data` is its content, `path` its place, from which a
    database is read. Empty if it is not a session file, or has no conversation yet."""
    if data.startswith(SQLITE):
        return read_opencode(data, path)
    entries, unread = _entries(data)
    return [one._replace(unread=tuple(unread)) for one in conversations_of(entries)]


def conversations_of(entries: Sequence[Entry]) -> list[AgentConversation]:
    """The conversations of a session file whose lines have been read. Empty for other files."""
    found, unknown = list[AgentConversation](), list[str]()
    for agent, own in _sessions(entries):
        found += agent.read(own)
        unknown += [kind for one in own if (kind := _kind_of_turn(one)) and not agent.is_read(one)]
    return [one._replace(unknown=tuple(unknown)) for one in found]


def _entries(data: bytes) -> tuple[list[Entry], list[bytes]]:
    """The objects in the lines of a file, and the lines without one. A last line without a line end
    is not counted: the agent is still writing it."""
    found, unread = list[Entry](), list[bytes]()
    for line in data.splitlines(keepends=True):
        value = json_object(line)
        if value is not None:
            found.append(value)
        elif line.endswith((b"\n", b"\r")) and not line.isspace():
            unread.append(line)
    return found, unread


# The agents of entries.


def _agent_of(entry: Entry) -> AgentReader | None:
    """The program that wrote an entry, by the fields that only it writes."""
    if entry.get("type") == "session_meta" and isinstance(entry.get("payload"), dict):
        return CODEX
    if entry.get("type") == "session" and "cwd" in entry and "version" in entry:
        return PI
    if {"uuid", "parentUuid", "sessionId"} <= entry.keys():
        message = dict_of(entry.get("message"))
        return QWEN_CODE if "parts" in message else CLAUDE_CODE if "content" in message else None
    return None


def _sessions(entries: Sequence[Entry]) -> Iterator[tuple[AgentReader, list[Entry]]]:
    """The sessions in a file in their order, each with its entries. Entries that occur twice, as
    they do after some sessions were resumed, are given once."""
    of_sessions = {
        entry.get("sessionId"): found for entry in entries if (found := _agent_of(entry))
    }
    agent: AgentReader | None = None
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
            starts_anew = writer in (CODEX, PI) and any(map(writer.is_read, own))
            if writer is not agent or starts_anew:
                yield agent, own
                own = []
        agent = writer or agent
        own.append(entry)
    if agent is not None:
        yield agent, own


def _kind_of_turn(entry: Entry) -> str:
    """The type or role of an entry that has the form of a turn; empty for other entries."""
    held = (entry, dict_of(entry.get("message")), dict_of(entry.get("payload")))
    roles = [one["role"] for one in held if isinstance(one.get("role"), str)]
    return str(entry.get("type") or roles[0]) if roles else ""
