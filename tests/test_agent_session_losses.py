"""What of an agent's session is not trained on, or in no conversation: what was cut, taken back or
compacted, and what the client wrote. The files are made up of what agents' sources write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dsv4._inputs.agent_sessions import AgentConversation, lost_lines, read_agent_session
from dsv4._inputs.line_shapes import line_conversation
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
    found = read(lines)
    assert [told(one) for one in found] == turns
    assert list(lost_lines(found)) == list(said)


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
