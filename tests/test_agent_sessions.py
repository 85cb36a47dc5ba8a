"""Session files of real agents, as their conversations: tests/agent_sessions has what each left in
its home after a few turns, a fork, a sub-agent, a picture and a compaction."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dsv4._inputs.agent_conversations import AgentConversation
from dsv4._inputs.agent_sessions import (
    in_words,
    is_agent_session,
    read_agent_session,
    read_start,
)
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4.dataset import BadLine, DatasetOptions, encode_files

FOLDER = Path(__file__).with_name("agent_sessions")
FILES = sorted(path for path in FOLDER.iterdir())


def conversations(name: str) -> list[AgentConversation]:
    return read_agent_session((FOLDER / name).read_bytes(), FOLDER / name)


def messages(conversation: AgentConversation, dialect: Any = None) -> list[Any]:
    read = RequestOverrides(dialect=dialect).read(conversation.body, rules="body")
    return list(read.request.messages)


def story(conversation: AgentConversation) -> list[str]:
    """What users said, what was called, and what came back, in a word each."""
    told = []
    for message in messages(conversation):
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            told += [f"{call['function']['name']}()" for call in calls] or ["answer"]
        elif message["role"] == "tool":
            told.append("result")
        elif message["role"] == "user" and "RUN: " in str(message["content"]):
            told.append(str(message["content"]).split("RUN: ")[1].splitlines()[0])
    return told


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
class TestEveryFile:
    def test_it_is_recognised_by_its_first_bytes(self, path: Path) -> None:
        assert is_agent_session(path.read_bytes()[:4096])

    def test_each_conversation_is_a_request_with_a_prompt(self, path: Path) -> None:
        found = conversations(path.name)
        assert found
        for conversation in found:
            read = RequestOverrides().read(conversation.body, rules="body")
            assert "<｜User｜>" in str(read.request.encode())
            assert [m for m in read.request.messages if m.get("reasoning_content")]  # type: ignore[union-attr]

    def test_every_call_has_its_result(self, path: Path) -> None:
        for conversation in conversations(path.name):
            told = messages(conversation)
            called = [c["id"] for m in told for c in m.get("tool_calls") or ()]
            returned = [m["tool_call_id"] for m in told if m["role"] == "tool"]
            assert called == returned


class TestBranches:
    def test_claude_code_goes_on_behind_a_compaction(self) -> None:
        before, after = conversations("claude-1.jsonl")
        assert (before.branch, after.branch) == ("compacted", "main")
        assert story(before)[-4:] == ["echo forked", "Bash()", "result", "answer"]
        assert story(after) == ["echo after", "Bash()", "result", "answer"]
        assert "This session is being continued" in str(messages(after))

    def test_the_sub_agent_of_claude_code_has_a_file_of_its_own(self) -> None:
        (one,) = conversations("claude-2.jsonl")
        assert one.branch == "sub-agent"
        assert story(one) == ["echo from the sub-agent", "Bash()", "result", "answer"]

    def test_lines_of_one_turn_and_results_of_parallel_calls_are_one_turn(self) -> None:
        (one,) = conversations("claude-parallel-1.jsonl")
        first = ["echo one", "Bash()", "Bash()", "result", "result", "answer"]
        assert story(one) == [*first, "echo three", "Bash()", "result", "answer"]

    def test_codex_replaces_its_history_when_it_compacts(self) -> None:
        *before, last = conversations("codex-compacted-1.jsonl")
        assert [one.branch for one in before] == ["compacted"] * len(before)
        assert len(before) >= 1
        assert last.branch == "main"
        assert "Another language model started" in str(last.body["input"])

    def test_opencode_has_a_session_for_each_sub_agent(self) -> None:
        by_branch = {one.branch: one for one in conversations("opencode-1.db")}
        assert story(by_branch["sub-agent"]) == [
            "echo from the sub-agent",
            "bash()",
            "result",
            "answer",
        ]
        assert "task()" in story(by_branch["main"])

    def test_an_edited_message_begins_a_branch(self) -> None:
        """pi's tree: the second message is sent again with another text."""
        lines = [json.loads(line) for line in (FOLDER / "pi-1.jsonl").read_text().splitlines()]
        users = [one for one in lines if one.get("message", {}).get("role") == "user"]
        edited = {**users[1], "id": "edited", "message": {"role": "user", "content": "Other"}}
        data = "\n".join(json.dumps(one) for one in [*lines, edited]).encode()
        branch, main = read_agent_session(data)
        assert (branch.branch, main.branch) == ("branch", "main")
        assert messages(main)[-1]["content"] == "Other"
        assert messages(main)[:-1] == messages(branch)[: len(messages(main)) - 1]


BROKEN = {"cut": b'{"type": "mess\n', "no object": b"[1]\n", "no text": b"\xff\xfe\n"}


class TestUnreadableLines:
    @pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
    @pytest.mark.parametrize("name", ["pi-1.jsonl", "codex-1.jsonl", "claude-1.jsonl"])
    def test_a_line_in_the_middle_is_counted_and_said(self, name: str, line: bytes) -> None:
        first, *others = (FOLDER / name).read_bytes().splitlines(keepends=True)
        found = read_agent_session(b"".join([first, line, b"\n", *others]))
        assert [one.unread for one in found] == [(line,)] * len(found)
        assert in_words(found).endswith("; 1 line could not be read, so that turns may be missing")
        assert [one.body for one in found] == [one.body for one in conversations(name)]

    def test_a_last_line_that_is_being_written_is_none_of_them(self) -> None:
        data = (FOLDER / "pi-1.jsonl").read_bytes() + b'{"type": "mess'
        assert [one.unread for one in read_agent_session(data)] == [()]
        assert [one.unread for one in read_agent_session(data + b"\n")] == [(b'{"type": "mess\n',)]

    def test_damaged_rows_of_a_database_are_counted(self, tmp_path: Path) -> None:
        damaged = tmp_path / "opencode.db"
        damaged.write_bytes((FOLDER / "opencode-1.db").read_bytes())
        with closing(sqlite3.connect(damaged)) as database, database:
            database.execute("UPDATE part SET data = '{' WHERE id = (SELECT MIN(id) FROM part)")
        assert {one.unread for one in read_agent_session(damaged.read_bytes())} == {(b"{\n",)}

    def test_a_data_set_does_not_train_past_one(self, tmp_path: Path) -> None:
        pytest.importorskip("tokenizers")
        source = tmp_path / "session.jsonl"
        data = (FOLDER / "claude-parallel-1.jsonl").read_bytes()
        first, *others = data.splitlines(keepends=True)
        source.write_bytes(b"".join([first, b"{\n", *others]))
        options = DatasetOptions(jobs=1)
        with pytest.raises(BadLine, match="not JSON"):
            encode_files([source], tmp_path / "out.jsonl", options)
        skipping = replace(options, on_error="skip", overwrite=True)
        summary = encode_files([source], tmp_path / "out.jsonl", skipping)
        assert (summary.conversations, summary.bad) == (1, 1)


class TestOddFiles:
    """A file is read to the same conversations, whatever an editor or a copy did to it."""

    @pytest.mark.parametrize(
        "path", [p for p in FILES if p.suffix == ".jsonl"], ids=lambda p: p.name
    )
    def test_marks_line_ends_and_repeated_lines_change_nothing(self, path: Path) -> None:
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        odd = [b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\n\n")]
        if "codex" not in path.name:  # whose entries have no names
            odd.append(b"".join(line for line in lines for _ in range(2)))
        for one in odd:
            assert is_agent_session(one)
            assert read_agent_session(one) == conversations(path.name)

    @pytest.mark.parametrize("second", ["pi-1", "qwen-1", "codex-1", "claude-1"])
    @pytest.mark.parametrize("first", ["qwen-1", "codex-compacted-1", "claude-parallel-1"])
    def test_two_sessions_in_a_file_are_both_read(self, first: str, second: str) -> None:
        names = (f"{first}.jsonl", f"{second}.jsonl")
        found = read_agent_session(b"".join((FOLDER / name).read_bytes() for name in names))
        expected = [each.body for name in names for each in conversations(name)]
        bodies = [each.body for each in found]
        assert len(bodies) == len(expected) - (first == second)
        assert all(body in bodies for body in expected)

    def test_a_first_line_of_many_bytes_hides_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "session.jsonl"
        first, *others = (FOLDER / "qwen-1.jsonl").read_bytes().splitlines(keepends=True)
        entry = json.loads(first)
        entry["message"]["parts"][0]["text"] = "x" * (2 << 20)
        path.write_bytes(b"".join([json.dumps(entry).encode(), b"\n", *others]))
        with path.open("rb") as file:
            assert is_agent_session(read_start(file))

    @pytest.mark.parametrize(
        "name", ["pi-1.jsonl", "codex-1.jsonl", "claude-1.jsonl", "qwen-1.jsonl"]
    )
    def test_turns_of_unknown_kinds_are_named(self, name: str) -> None:
        data = (FOLDER / name).read_bytes()
        new = {"type": "quux", "message": {"role": "oracle", "content": "It rains."}}
        found = read_agent_session(data + json.dumps(new).encode() + b"\n")
        assert [one.body for one in found] == [one.body for one in conversations(name)]
        assert "1 entry of a kind that is not known ('quux') looked like turns" in in_words(found)
        assert not any(one.unknown for one in conversations(name))


class TestContent:
    def test_pictures_stay_pictures(self) -> None:
        for name in ("codex-1.jsonl", "opencode-1.db", "pi-1.jsonl", "claude-3.jsonl"):
            main = conversations(name)[-1]
            read = RequestOverrides(dialect="v4.1").read(main.body, rules="body")
            assert len(read.request.encode().images) == 1, name

    def test_claude_code_keeps_its_system_prompt_and_tools(self) -> None:
        main = conversations("claude-3.jsonl")[-1]
        assert {"Bash", "Read"} <= {tool["name"] for tool in main.body["tools"]}
        assert main.body["system"]
        assert main.body["model"] == "deepseek-v4"


class TestRequests:
    def test_each_turn_of_the_model_has_the_request_that_it_answered(self) -> None:
        (main,) = conversations("pi-1.jsonl")
        lengths = [len(body["messages"]) for body in main.requests()]
        assert lengths == [1, 3, 5, 7]
        (codex,) = conversations("codex-1.jsonl")
        assert all(body["input"][-1]["type"] != "reasoning" for body in codex.requests())


class TestOtherFiles:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b"no JSON at all\n" * 3,
            b'{"messages": [{"role": "user", "content": "Hi"}]}\n',
            b'{"type": "session_meta", "payload": 4}\n',
            b'{"uuid": 1}\n[]\nnull\n',
            b"SQLite format 3\0",
        ],
    )
    def test_what_is_none_has_no_conversations(self, data: bytes) -> None:
        assert read_agent_session(data) == []

    def test_a_line_that_is_being_written_is_passed_over(self) -> None:
        data = (FOLDER / "pi-1.jsonl").read_bytes()
        whole = len(messages(read_agent_session(data)[0]))
        cut = data[: data.rstrip(b"\n").rfind(b"\n") + 40]
        assert len(messages(read_agent_session(cut)[0])) == whole - 1

    def test_a_circle_of_parents_ends(self) -> None:
        data = (FOLDER / "qwen-1.jsonl").read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in data]
        entries[0]["parentUuid"] = entries[-1]["uuid"]
        read_agent_session("\n".join(map(json.dumps, entries)).encode())
