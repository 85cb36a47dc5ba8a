"""What of an agent's session is not trained on, or in no conversation: what was cut, taken back or
compacted, and what the client wrote. The files are made up of what agents' sources write."""

from __future__ import annotations

import json
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from builders import png
from dsv4._inputs.agent_conversations import AgentConversation
from dsv4._inputs.agent_sessions import lost_lines, read_agent_session
from dsv4._inputs.line_shapes import line_conversation
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4.dataset import DatasetOptions, encode_files

Made = Mapping[str, Any]


def told(conversation: AgentConversation) -> list[str]:
    """The turns in a word each: a user's `?`, a model's `!` where it is trained on."""
    marks = {"user": "?", "tool": "=", "system": "#"}
    messages: list[Any] = list(line_conversation(conversation.body).request.messages)
    lines = []
    for message in messages:
        mark = marks.get(message["role"]) or ("." if message.get("weight") == 0 else "!")
        names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        thought = [f"({message['reasoning_content']})"] if message.get("reasoning_content") else []
        text = str(message["content"]).replace("\n\n", " ")
        lines.append(" ".join([*thought, *([text] if text else []), *names]) + mark)
    return lines


def read(lines: Iterable[Made]) -> list[AgentConversation]:
    return read_agent_session("\n".join(map(json.dumps, lines)).encode() + b"\n")


def check(lines: Iterable[Made], turns: list[list[str]], *said: str) -> None:
    check_found(read(lines), turns, *said)


def check_found(found: list[AgentConversation], turns: list[list[str]], *said: str) -> None:
    assert [told(one) for one in found] == turns
    assert list(lost_lines(found)) == list(said)
    assert [one.branch for one in found] == [*["compacted"] * (len(turns) - 1), "main"]


CUT = "1 answer was cut, aborted or failed, and is not trained on"
UNDONE = "1 turn that the user took back is left out"
CLIENT = "1 text that the client wrote in the model's place is left out"


def unread(*names: str) -> str:
    which = ", ".join(map(repr, names))
    if len(names) == 1:
        return f"1 part that is not read ({which}) is left out"
    return f"{len(names)} parts that are not read ({which}) are left out"


def chain(id: str, parent: str, entries: Iterable[Made]) -> list[Made]:
    """Entries that follow each other."""
    listed = list(entries)
    return [{id: f"e{n}", parent: f"e{n - 1}" if n else None, **e} for n, e in enumerate(listed)]


# Claude Code.


def claude(*entries: Made) -> list[Made]:
    return chain("uuid", "parentUuid", ({"sessionId": "s", **entry} for entry in entries))


def asked(text: str) -> Made:
    return {"type": "user", "message": {"role": "user", "content": text}}


def answered(*texts: str, id: str = "", **fields: Any) -> Made:
    blocks = [{"type": "text", "text": text} for text in texts]
    message = {"role": "assistant", "content": blocks, "model": "m", **fields}
    return {"type": "assistant", "message": {**message, **({"id": id} if id else {})}}


INTERRUPTED = asked("[Request interrupted by user]")
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "s"}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_claude_code_leaves_a_cut_answer_out_of_the_loss(reason: str) -> None:
    cut = answered("half", stop_reason=reason)
    entries = claude(asked("Hi"), cut, asked("On"), answered("Yes", stop_reason="end_turn"))
    check(entries, [["Hi?", "half.", "On?", "Yes!"]], CUT)


def test_claude_code_names_the_reason_in_the_last_line_of_an_answer() -> None:
    lines = [answered("a", id="m1"), answered("b", id="m1", stop_reason="max_tokens")]
    check(claude(asked("Hi"), *lines), [["Hi?", "a b."]], CUT)


def test_an_answer_that_was_cut_before_it_said_anything_is_no_turn() -> None:
    thought = answered(stop_reason="max_tokens")
    thought["message"]["content"].append(THOUGHT)
    entries = claude(asked("Hi"), thought, asked("On"), answered("Yes"))
    check(entries, [["Hi?", "On?", "Yes!"]], CUT)


def test_claude_code_says_that_the_user_interrupted() -> None:
    on = [asked("On"), answered("Yes")]
    turns = ["Hi?", "half.", "[Request interrupted by user] On?", "Yes!"]
    check(claude(asked("Hi"), answered("half"), INTERRUPTED, *on), [turns], CUT)
    whole = answered("half", stop_reason="end_turn")
    turns[1] = "half!"
    check(claude(asked("Hi"), whole, INTERRUPTED, *on), [turns])


def test_what_claude_code_itself_wrote_is_no_answer() -> None:
    client = answered("No response requested.", model="<synthetic>")
    entries = claude(asked("Hi"), client, asked("On"), answered("Yes"))
    check(entries, [["Hi On?", "Yes!"]], CLIENT)


def test_attachments_without_their_text_are_named() -> None:
    attached = {"type": "attachment", "attachment": {"type": "todo_reminder"}}
    empty = {"type": "attachment", "attachment": {}}
    entries = claude(asked("Hi"), attached, empty, answered("Yes"))
    check(entries, [["Hi?", "Yes!"]], unread("todo_reminder"))


# Codex.

META = {"type": "session_meta", "payload": {"id": "s"}}
SEALED = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}


def item(type: str, **fields: Any) -> Made:
    return {"type": "response_item", "payload": {"type": type, **fields}}


def said(role: str, text: str) -> Made:
    return item("message", role=role, content=[{"type": "input_text", "text": text}])


def event(type: str, **fields: Any) -> Made:
    return {"type": "event_msg", "payload": {"type": type, **fields}}


def user(text: str) -> Made:
    return said("user", text)


def model(text: str) -> Made:
    return said("assistant", text)


ABORTED = event("turn_aborted", reason="interrupted")
BACK = event("thread_rolled_back", num_turns=1)
CALL = item("function_call", call_id="1", name="f", arguments="{}")
RESULT = item("function_call_output", call_id="1", output="R")
GHOST = item("ghost_snapshot", ghost_commit={})
HISTORY = [user("Hi")["payload"], model("Old")["payload"], {"type": "compaction"}]
COMPACTED = {"type": "compacted", "payload": {"replacement_history": HISTORY}}

CODEX = {
    "aborted": (
        [user("Hi"), model("half"), ABORTED, user("On"), model("Yes")],
        [["Hi?", "half.", "On?", "Yes!"]],
        [CUT],
    ),
    "aborted, and told the model": (
        [user("Hi"), CALL, RESULT, model("half"), user("<turn_aborted>"), ABORTED, model("Yes")],
        [["Hi?", "f!", "R=", "half.", "<turn_aborted>?", "Yes!"]],
        [CUT],
    ),
    "aborted while it thought": (
        [user("Hi"), {"type": "response_item", "payload": SEALED}, ABORTED, user("On")],
        [["Hi?", "On?"]],
        [CUT],
    ),
    "aborted in a tool": ([user("Hi"), CALL, RESULT, ABORTED], [["Hi?", "f!", "R="]], []),
    "rolled back": (
        [user("Hi"), model("Yes"), user("No"), CALL, RESULT, BACK, user("On"), model("Yes")],
        [["Hi?", "Yes!", "On?", "Yes!"]],
        [UNDONE],
    ),
    "rolled back to what Codex itself says": (
        [user("<environment_context>"), user("No"), user("<turn_aborted>"), BACK, user("On")],
        [["<environment_context>?", "On?"]],
        [UNDONE],
    ),
    "compacted to what cannot be read": (
        [user("Hi"), model("Old"), COMPACTED, user("On"), model("Yes")],
        [["Hi?", "Old!"], ["Hi?", "Old.", "On?", "Yes!"]],
        [unread("compaction")],
    ),
    "a snapshot": (
        [user("Hi"), GHOST, model("Yes")],
        [["Hi?", "Yes!"]],
        [unread("ghost_snapshot")],
    ),
}


@pytest.mark.parametrize("case", CODEX)
def test_codex(case: str) -> None:
    lines, turns, notes = CODEX[case]
    check([META, *lines], turns, *notes)


@pytest.mark.parametrize("name", ["instructions", "dynamic_tools"])
def test_prompts_of_codex_that_are_not_read_are_named(name: str) -> None:
    head = {**META, "payload": {"id": "s", name: ["x"]}}
    check([head, user("Hi"), model("Yes")], [["Hi?", "Yes!"]], unread(name))


# pi.


def pi(*entries: Made) -> list[Made]:
    head = {"type": "session", "version": 3, "id": "s", "cwd": "/"}
    return [head, *chain("id", "parentId", entries)]


def pi_said(role: str, *content: Made | str, **fields: Any) -> Made:
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"type": "message", "message": {"role": role, "content": blocks, **fields}}


def pi_asked(text: str) -> Made:
    return pi_said("user", text)


def pi_answered(*content: Made | str, **fields: Any) -> Made:
    return pi_said("assistant", *content, **fields)


REDACTED = {"type": "thinking", "thinking": "[redacted]", "redacted": True}
CUSTOM = {"type": "custom_message", "customType": "x", "content": "Note", "display": True}
PI_SUMMARY = {"type": "compaction", "summary": "Sum", "firstKeptEntryId": "e2"}

PI = {
    "redacted": (
        [pi_asked("Hi"), pi_answered(REDACTED, "Yes")],
        [["Hi?", "Yes!"]],
        [unread("redacted thinking")],
    ),
    "an extension's message": (
        [pi_asked("Hi"), CUSTOM, pi_answered("Yes")],
        [["Hi?", "Note?", "Yes!"]],
        [],
    ),
    "compacted": (
        [
            *(pi_asked("Hi"), pi_answered("Yes"), pi_asked("On"), pi_answered("Kept")),
            *(PI_SUMMARY, pi_asked("More"), pi_answered("Last")),
        ],
        [
            ["Hi?", "Yes!", "On?", "Kept!"],
            ["Sum?", "On?", "Kept.", "More?", "Last!"],
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", PI)
def test_pi(case: str) -> None:
    lines, turns, notes = PI[case]
    check(pi(*lines), turns, *notes)


@pytest.mark.parametrize("reason", ["aborted", "error", "length"])
def test_pi_names_an_answer_that_was_cut(reason: str) -> None:
    on = [pi_asked("On"), pi_answered("Yes", stopReason="stop")]
    cut = pi_answered("half", stopReason=reason)
    check(pi(pi_asked("Hi"), cut, *on), [["Hi?", "half.", "On?", "Yes!"]], CUT)
    check(pi(pi_asked("Hi"), pi_answered(stopReason=reason), *on), [["Hi?", "On?", "Yes!"]], CUT)


def test_an_answer_that_was_begun_again_stands_before_none() -> None:
    cut = pi_answered("half", stopReason="error")
    check(pi(pi_asked("Hi"), cut, pi_answered("Yes")), [["Hi?", "Yes!"]], CUT)
    cut = answered("half", id="m1", stop_reason="max_tokens")
    check(claude(asked("Hi"), cut, answered("Yes", id="m2")), [["Hi?", "Yes!"]], CUT)


# Qwen Code.


def qwen(*entries: Made) -> list[Made]:
    return chain("uuid", "parentUuid", ({"sessionId": "s", **entry} for entry in entries))


def parts(role: str, *listed: Made | str) -> Made:
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in listed]}


def qwen_said(role: str, *listed: Made | str) -> Made:
    return {"type": "assistant" if role == "model" else role, "message": parts(role, *listed)}


FAILED = {"functionResponse": {"id": "1", "response": {"output": "", "error": "No"}}}
QWEN_CALL = {"functionCall": {"id": "1", "name": "f", "args": {}}}


def compressed(*history: Made) -> Made:
    payload = {"info": {}, "compressedHistory": history}
    return {"type": "system", "subtype": "chat_compression", "systemPayload": payload}


HI_YES = [qwen_said("user", "Hi"), qwen_said("model", "Yes")]
ON_YES = [qwen_said("user", "On"), qwen_said("model", "Yes")]
SUMMARY = [parts("user", "Sum"), parts("model", "Got it")]
QWEN = {
    "compressed": (
        [*HI_YES, compressed(*SUMMARY), *ON_YES],
        [["Hi?", "Yes!"], ["Sum?", "Got it.", "On?", "Yes!"]],
        [],
    ),
    "compressed to nothing": (
        [*HI_YES, compressed(), *ON_YES],
        [["Hi?", "Yes!", "On?", "Yes!"]],
        [unread("chat_compression")],
    ),
    "an error beside an empty output": (
        [qwen_said("user", "Hi"), qwen_said("model", QWEN_CALL), qwen_said("user", FAILED)],
        [["Hi?", "f!", "No="]],
        [],
    ),
    "a file": (
        [qwen_said("user", "See", {"fileData": {"fileUri": "x"}}), qwen_said("model", "Yes")],
        [["See?", "Yes!"]],
        [unread("fileData")],
    ),
}


@pytest.mark.parametrize("case", QWEN)
def test_qwen_code(case: str) -> None:
    lines, turns, notes = QWEN[case]
    check(qwen(*lines), turns, *notes)


# opencode.


def text(said: str, **fields: Any) -> Made:
    return {"type": "text", "text": said, **fields}


def tool(id: str = "1", **state: Any) -> Made:
    state = {"status": "completed", "input": {}, "output": "R", **state}
    return {"type": "tool", "callID": id, "tool": "f", "state": state}


def of_user(*parts: Made | str, **head: Any) -> tuple[Made, list[Made]]:
    return {"role": "user", **head}, [text(p) if isinstance(p, str) else dict(p) for p in parts]


def of_model(*parts: Made | str, **head: Any) -> tuple[Made, list[Made]]:
    return {**of_user()[0], "role": "assistant", "modelID": "m", **head}, of_user(*parts)[1]


START = {"type": "step-start"}


def finish(reason: str) -> Made:
    return {"type": "step-finish", "reason": reason}


COMPACTION = {"type": "compaction", "auto": True}
ABORT = {"name": "MessageAbortedError", "data": {}}
PIXEL = f"data:image/png;base64,{b64encode(png(28, 28)).decode()}"
PICTURE = {"type": "file", "mime": "image/png", "url": PIXEL}
PAPER = {"type": "file", "mime": "application/pdf", "url": "data:x"}
HI = of_user("Hi")
HALF_THEN = [["Hi?", "half.", "On?", "Yes!"]]
ON = (of_user("On"), of_model("Yes"))
SUMMED = ["What did we do so far??", "Sum.", "On?", "Yes!"]

OPENCODE: dict[str, tuple[Any, Any, Any, Any]] = {
    "an error": ({}, [HI, of_model("half", error=ABORT), *ON], HALF_THEN, [CUT]),
    "an error at once": (
        {},
        [HI, of_model(error={"name": "APIError"}), *ON],
        [["Hi?", "On?", "Yes!"]],
        [CUT],
    ),
    "a length": ({}, [HI, of_model("half", finish="length"), *ON], HALF_THEN, [CUT]),
    "a step's length": ({}, [HI, of_model("half", finish("length")), *ON], HALF_THEN, [CUT]),
    "never completed": ({}, [HI, of_model("half", time={"created": 1}), *ON], HALF_THEN, [CUT]),
    "arguments that were being written": (
        {},
        [HI, of_model("half", tool(status="pending", output=None))],
        [["Hi?", "half f.", "[Tool execution was interrupted]="]],
        [CUT],
    ),
    "a tool that was running": (
        {},
        [HI, of_model(tool(status="running", output=None)), *ON],
        [["Hi?", "f!", "[Tool execution was interrupted]=", "On?", "Yes!"]],
        [],
    ),
    "steps": (
        {},
        [
            HI,
            of_model(
                *(START, {"type": "reasoning", "text": "T1"}, "First", tool(), finish("stop")),
                *(START, {"type": "reasoning", "text": "T2"}, "Second", finish("stop")),
            ),
        ],
        [["Hi?", "(T1) First f!", "R=", "(T2) Second!"]],
        [],
    ),
    "the last of several steps": (
        {},
        [HI, of_model(START, "First", tool(), finish("stop"), START, "half", error=ABORT)],
        [["Hi?", "First f!", "R=", "half."]],
        [CUT],
    ),
    "a step that was tried again": (
        {},
        [HI, of_model(START, "half", {"type": "retry"}, START, "Yes", finish("stop"))],
        [["Hi?", "Yes!"]],
        [CUT],
    ),
    "ignored": (
        {},
        [of_user("Hi", text("No", ignored=True)), of_model("Yes", text("No", ignored=True))],
        [["Hi?", "Yes!"]],
        [],
    ),
    "undone": (
        {"messageID": "m2"},
        [HI, of_model("Yes"), of_user("No"), of_model("No")],
        [["Hi?", "Yes!"]],
        [UNDONE],
    ),
    "undone in part": (
        {"messageID": "m1", "partID": "p002"},
        [HI, of_model("half", "No"), of_user("No")],
        [["Hi?", "half."]],
        [CUT, UNDONE],
    ),
    "compacted": (
        {},
        [HI, of_model("Yes"), of_user(COMPACTION), of_model("Sum", summary=True), *ON],
        [["Hi?", "Yes!"], SUMMED],
        [],
    ),
    "compacted but for the last turn": (
        {},
        [
            *(HI, of_model("Yes"), of_user("Kept"), of_model("Kept")),
            *(of_user({**COMPACTION, "tail_start_id": "m2"}), of_model("Sum", summary=True), *ON),
        ],
        [["Hi?", "Yes!", "Kept?", "Kept!"], ["Kept?", "Kept.", *SUMMED]],
        [],
    ),
    "compacted in vain": (
        {},
        [HI, of_model("Yes"), of_user(COMPACTION), of_model(summary=True, error=ABORT), *ON],
        [["Hi?", "Yes!", "What did we do so far??", "On?", "Yes!"]],
        [CUT],
    ),
    "a file of another kind": (
        {},
        [of_user("Hi", PAPER), of_model(tool(attachments=[PAPER]))],
        [["Hi?", "f!", "R="]],
        ["2 parts that are not read ('application/pdf') are left out"],
    ),
    "a system prompt": (
        {},
        [of_user("Hi", system="Be kind"), of_model("Yes")],
        [["Hi?", "Yes!"]],
        [unread("system")],
    ),
}


def opencode(revert: Made, messages: Iterable[tuple[Made, list[Made]]], path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE session (id, parent_id, revert)")
        database.execute("CREATE TABLE message (id, session_id, time_created, data)")
        database.execute("CREATE TABLE part (id, message_id, data)")
        written = json.dumps(revert) if revert else None
        database.execute("INSERT INTO session VALUES ('s', NULL, ?)", (written,))
        numbers = count()
        for n, (head, parts) in enumerate(messages):
            row = (f"m{n}", n, json.dumps(head))
            database.execute("INSERT INTO message VALUES (?, 's', ?, ?)", row)
            for part in parts:
                one = (f"p{next(numbers):03}", f"m{n}", json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, ?)", one)
    return path.read_bytes()


@pytest.mark.parametrize("case", OPENCODE)
def test_opencode(case: str, tmp_path: Path) -> None:
    revert, messages, turns, notes = OPENCODE[case]
    found = read_agent_session(opencode(revert, messages, tmp_path / "opencode.db"))
    check_found(found, turns, *notes)


def test_pictures_of_opencodes_tools_are_read(tmp_path: Path) -> None:
    messages = [HI, of_model(tool(attachments=[PICTURE]))]
    (one,) = read_agent_session(opencode({}, messages, tmp_path / "opencode.db"))
    read = RequestOverrides(dialect="v4.1").read(one.body, rules="body")
    assert len(read.request.encode().images) == 1


# Through the commands' door.


def test_a_data_set_masks_what_was_cut(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    source, out = tmp_path / "session.jsonl", tmp_path / "out.jsonl"
    lines = [META, user("Hi"), model("half"), ABORTED, user("On"), model("Yes")]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    encode_files([source], out, DatasetOptions(jobs=1))
    (row,) = map(json.loads, out.read_text("utf-8").splitlines())
    # "</think>" , "Yes" and the end.
    assert sum(row["loss_mask"]) == 3
