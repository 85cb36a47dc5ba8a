"""dsv4 check: what it reads, what it prints, and what it fixes. The rules have a test of theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import CONVERSATION, as_json, dsv4, printed, refused

from builders import assistant, system, user

DROPPED = [user(), assistant(reasoning="Hm."), user("Bye")]


def findings(*arguments: object, **options: Any) -> list[dict[str, Any]]:
    done = dsv4("check", "--json", *arguments, **options)
    return [json.loads(line) for line in done.stdout.splitlines()]


def kinds(*arguments: object, **options: Any) -> list[str]:
    return [finding["kind"] for finding in findings(*arguments, **options)]


class TestWhatIsPrinted:
    def test_nothing(self) -> None:
        assert printed("check", CONVERSATION) == "nothing found\n"
        assert printed("check", "--json", CONVERSATION) == ""

    def test_for_people(self) -> None:
        stdin = as_json(user(None), system(5), user("\x1b<think>"), assistant())
        done = dsv4("check", stdin=stdin)
        assert done.returncode == 1
        spelled = "the text spells the special token <think>"
        finished = "nothing to generate: the last turn is finished"
        text = "text, null or a list of text blocks"
        assert done.stdout.decode().splitlines() == [
            "stdin: messages[0]: warning: the user message is empty [empty_message]",
            f"stdin: messages[1].content: error: found 5, expected {text} [not_encodable]",
            f"stdin: messages[2].content: warning: {spelled} [special_token_in_text]",
            f"stdin: messages[3]: note: {finished} [nothing_to_generate]",
            "1 error, 2 warnings, 1 note",
        ]

    def test_for_programs(self) -> None:
        assert findings(stdin=as_json(user("\x9b<think>"))) == [
            {
                "file": "stdin",
                "level": "warning",
                "kind": "special_token_in_text",
                "path": "messages[0].content",
                "location": ["messages", 0, "content"],
                "message": "the text spells the special token <think>",
            }
        ]

    def test_notes_alone_are_no_failure(self) -> None:
        done = dsv4("check", stdin=as_json(*DROPPED))
        assert done.returncode == 0
        assert done.stdout.decode().endswith("[dropped_reasoning]\n1 note\n")

    def test_what_is_found_again_is_said_once(self) -> None:
        lines = f"{as_json(*DROPPED)}\n" * 50 + f"{as_json(user(5))}\n"
        done = dsv4("check", stdin=lines)
        first, second, summary = done.stdout.decode().splitlines()
        assert first.startswith("stdin:1: messages[1].reasoning: note: ")
        assert first.endswith("[dropped_reasoning] (50 times)")
        assert second.startswith("stdin:51: messages[0].content: error: ")
        assert summary == "1 error, 50 notes in 51 conversations"

    def test_many_of_a_kind_are_counted(self) -> None:
        lines = "".join(f"{as_json({'role': f'r{n}'})}\n" for n in range(100))
        said = dsv4("check", stdin=lines).stdout.decode().splitlines()
        assert len(said) == 22
        assert said[20].endswith("error: 80 more of this kind [not_encodable]")

    def test_values_are_quoted_as_json(self) -> None:
        done = dsv4("check", stdin=as_json({"role": None}, {"role": "It's"}))
        assert b"found null, expected" in done.stdout
        assert b'found "It\'s", expected' in done.stdout


class TestWhatIsRead:
    def test_several_files(self, tmp_path: Path) -> None:
        for name in ("a.json", "b.json"):
            (tmp_path / name).write_text(as_json(user(5)))
        found = findings("a.json", "b.json", cwd=tmp_path)
        assert [finding["file"] for finding in found] == ["a.json", "b.json"]

    def test_each_file_with_the_same_mistake_is_named(self, tmp_path: Path) -> None:
        for name in ("a.json", "b.json"):
            (tmp_path / name).write_text(as_json(user("")))
        said = dsv4("check", "a.json", "b.json", cwd=tmp_path).stdout.decode().splitlines()
        assert [line.partition(":")[0] for line in said[:-1]] == ["a.json", "b.json"]

    def test_a_file_that_is_not_there_hides_no_other(self, tmp_path: Path) -> None:
        (tmp_path / "b.json").write_text(as_json(user("")))
        done = dsv4("check", "a.json", "b.json", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == b"dsv4: a.json: no such file or directory\n"
        assert b"b.json: messages[0]: warning: the user message is empty" in done.stdout

    def test_a_file_that_is_not_there_has_no_findings(self, tmp_path: Path) -> None:
        done = dsv4("check", "a.json", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, b"")

    @pytest.mark.parametrize(
        ("name", "data", "place"),
        [
            ("whole.json", b'[\n"', "whole.json:2:1: error: not JSON"),
            ("lines.jsonl", b'[\n"', "lines.jsonl:1:2: error: not JSON"),
            ("deep.json", b"[" * 200_000, "deep.json:1: error: the JSON is nested"),
            ("deep.jsonl", b"[" * 200_000, "deep.jsonl:1: error: the JSON is nested"),
        ],
    )
    def test_where_a_file_is_bad(self, tmp_path: Path, name: str, data: bytes, place: str) -> None:
        (tmp_path / name).write_bytes(data)
        said = dsv4("check", name, cwd=tmp_path).stdout.decode()
        assert said.startswith(place)

    def test_a_bad_line_is_a_finding(self) -> None:
        found = findings(stdin=f"{as_json(user())}\n[1\n\n{as_json(user(5))}\n")
        assert [(finding["file"], finding["kind"]) for finding in found] == [
            ("stdin:2:3", "not_json"),
            ("stdin:4", "not_encodable"),
        ]
        assert found[0]["message"] == 'not JSON: expecting "," delimiter'

    def test_so_is_a_bad_file(self, tmp_path: Path) -> None:
        (tmp_path / "bad.json").write_bytes(b"\xff")
        assert kinds("bad.json", cwd=tmp_path) == ["not_json"]
        assert kinds(stdin="") == ["not_json"]

    def test_a_name_in_jsonl_means_lines(self, tmp_path: Path) -> None:
        (tmp_path / "one.jsonl").write_text(as_json(user(5)))
        assert findings("one.jsonl", cwd=tmp_path)[0]["file"] == "one.jsonl:1"

    def test_tools_from_a_file(self, tmp_path: Path) -> None:
        tools = tmp_path / "tools.json"
        tools.write_text(json.dumps([{"name": "f"}, {"name": "f"}]))
        assert kinds("--tools", tools, stdin=as_json(user())) == ["duplicate_tool"]


class TestOptions:
    @pytest.mark.parametrize(
        "ignore", [["dropped_reasoning"], ["empty_message, dropped_reasoning"]]
    )
    def test_ignored_kinds(self, ignore: list[str]) -> None:
        assert kinds("--ignore", *ignore, stdin=as_json(*DROPPED)) == []

    def test_a_kind_that_does_not_exist(self) -> None:
        assert '--ignore: found "x", expected' in refused("check", "--ignore", "x", stdin="[]")

    def test_the_purpose(self) -> None:
        finished = as_json(user(), assistant(reasoning="Hm."))
        assert dsv4("check", "--for", "inference", stdin=finished).returncode == 1
        assert printed("check", "--for", "training", stdin=finished) == "nothing found\n"

    def test_an_option_that_is_wrong_is_misuse(self) -> None:
        assert dsv4("encode", "--effort", "x", stdin=as_json(user())).returncode == 2


class TestFix:
    def test_what_is_fixed(self) -> None:
        call = {"name": "f", "arguments": "{}"}
        body = {
            "messages": [
                system("A"),
                system("B"),
                {"role": "user", "contents": "Hi"},
                {"role": "assistant", "content": None, "function_call": call},
                {"role": "function", "name": "f", "content": "42"},
                assistant("Well"),
                user(),
            ],
            "functions": [{"name": "f"}],
            "enable_thinking": False,
        }
        done = dsv4("check", "--fix", stdin=json.dumps(body))
        assert done.returncode == 0
        calls = [{"id": "call_3", "type": "function", "function": call}]
        assert json.loads(done.stdout) == {
            "messages": [
                system("A\n\nB"),
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "call_3", "content": "42"},
                assistant("Well"),
                user(),
            ],
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "thinking": {"type": "disabled"},
        }
        assert len(done.stderr.splitlines()) == 5
        assert printed("check", stdin=done.stdout) == "nothing found\n"

    def test_what_is_right_stays_as_it_is(self) -> None:
        done = dsv4("check", "--fix", CONVERSATION)
        assert json.loads(done.stdout) == json.loads(CONVERSATION.read_text("utf-8"))
        assert done.stderr == b"dsv4: nothing to fix\n"

    def test_what_is_left_counts(self) -> None:
        done = dsv4("check", "--fix", stdin=json.dumps([user(5), user("Hi")]))
        assert done.returncode == 1
        expected = b"dsv4: 1 error left, which cannot be fixed without guessing\n"
        assert done.stderr == expected

    @pytest.mark.parametrize(
        ("body", "fixed"),
        [
            ([system(""), system("A"), user()], [system("A"), user()]),
            (
                {"messages": [user()], "function_call": {"name": "f"}},
                {
                    "messages": [user()],
                    "tool_choice": {"type": "function", "function": {"name": "f"}},
                },
            ),
        ],
        ids=["an empty system message", "function_call"],
    )
    def test_without_guessing(self, body: Any, fixed: Any) -> None:
        done = dsv4("check", "--fix", stdin=json.dumps(body))
        assert json.loads(done.stdout) == fixed

    def test_never_in_place(self, tmp_path: Path) -> None:
        file = tmp_path / "a.json"
        file.write_text(as_json(user()))
        assert "is both input and output" in refused("check", "--fix", "-o", file, file)
        assert "only --fix writes" in refused("check", "-o", file, stdin="[]")
