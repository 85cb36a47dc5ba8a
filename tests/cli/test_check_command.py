"""dsv4 check"""

from __future__ import annotations

import json
from typing import Any

import pytest
from running import CONVERSATION, as_json, dsv4, printed, refused

from builders import assistant, system, user
from dsv4.checking import KINDS


def found(*messages: Any, options: tuple[str, ...] = (), **request: Any) -> list[tuple[str, str]]:
    """The places and kinds of findings."""
    done = dsv4("check", "--json", *options, stdin=as_json(*messages, **request))
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == bool(findings), done.stderr
    assert all(finding["kind"] in KINDS for finding in findings)
    return [(finding["place"], finding["kind"]) for finding in findings]


def call(name: str = "f", id: str | None = None, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}}


def calls(*listed: dict[str, Any]) -> dict[str, Any]:
    return assistant("", tool_calls=list(listed))


def result(id: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "42"}


def test_nothing_to_say() -> None:
    assert printed("check", CONVERSATION) == ""
    assert found(user(), calls(call(), call()), result(), result()) == []


def test_every_error_is_found() -> None:
    messages = (user(5), calls(call(id="a", arguments="[1]")), result("a"), {"role": "x"}, user())
    assert found(*messages, reasoning_effort="low", tools=[{}]) == [
        ("effort", "not_encodable"),
        ("tools[0].function", "not_encodable"),
        ("messages[0].content", "not_encodable"),
        ("messages[1].tool_calls[0].function.arguments", "not_encodable"),
        ("messages[3].role", "not_encodable"),
    ]


@pytest.mark.parametrize("messages", [[], "text", None])
def test_messages_that_are_none(messages: object) -> None:
    done = dsv4("check", stdin=json.dumps({"messages": messages}))
    assert done.returncode == 1
    assert done.stdout.startswith(b"stdin: messages: error: ")


def test_results_without_a_call() -> None:
    kind = "result_without_call"
    assert found(user(), result("a")) == [("messages[1]", kind)]
    assert found(user(), calls(call(id="a")), result("a"), result("a")) == [("messages[3]", kind)]
    assert found(user(), calls(call(id="a")), result("a"), result("b")) == [("messages[3]", kind)]


def test_results_that_do_not_say_what_they_answer() -> None:
    assert found(user(), calls(call(id="a")), result()) == [("messages[2]", "result_without_call")]


def test_calls_without_a_result() -> None:
    listed = calls(call(id="a"), call(id="b"))
    place = "messages[1].tool_calls[0]"
    assert found(user(), listed, result("b")) == [(place, "call_without_result")]


def test_calls_at_the_end_may_have_none() -> None:
    assert found(user(), calls(call())) == [("messages[1]", "nothing_to_generate")]


def test_tools_that_nobody_declared() -> None:
    place = "messages[1].tool_calls[0].function.name"
    messages = (user(), calls(call("g")), result())
    assert found(*messages, tools=[{"name": "f"}]) == [(place, "undeclared_tool")]


def test_arguments_that_are_not_json() -> None:
    place = "messages[1].tool_calls[0].function.arguments"
    assert found(user(), calls(call(arguments="{a")), result()) == [(place, "arguments_not_json")]


def test_tools_of_one_name() -> None:
    doubled = [{"name": "f"}, {"function": {"name": "f"}}]
    assert found(user(), tools=doubled) == [("tools[1]", "duplicate_tool")]


THOUGHT = (user(), assistant(reasoning="Hm."), user("Bye"))


def test_reasoning_that_is_dropped() -> None:
    dropped = [("messages[1].reasoning", "dropped_reasoning")]
    assert found(*THOUGHT) == dropped
    assert found(*THOUGHT, options=("--mode", "chat")) == dropped
    assert found(*THOUGHT, options=("--keep-thinking",)) == []


def test_tools_that_keep_it() -> None:
    assert found(*THOUGHT, tools=[{"name": "f"}]) == [("tools", "tools_keep_reasoning")]


def test_tasks_that_are_lost() -> None:
    assert found(user(), user(task="query")) == [("messages[1].task", "lost_task")]
    assert found(user(task="query"), system(), user()) == [("messages[0].task", "lost_task")]
    assert found(user(task="query")) == []


def test_other_fields_that_are_lost() -> None:
    lost = user(tools=[{"name": "f"}], response_format={"type": "object"})
    assert found(lost) == [
        ("messages[0].tools", "lost_tools"),
        ("messages[0].response_format", "lost_response_format"),
    ]


def test_messages_that_vanish() -> None:
    developer = {"role": "developer", "content": "Be kind."}
    assert found(developer, user()) == [("messages[0]", "dropped_message")]


def test_special_tokens_in_text() -> None:
    assert found(user("Say <think>.")) == [("messages[0].content", "special_token_in_text")]


def test_nothing_to_generate() -> None:
    assert found(user(), assistant()) == [("messages[1]", "nothing_to_generate")]
    assert found(user(), assistant(prefix=True)) == []


TEXT = "text, null or a list of text blocks"


def test_for_people() -> None:
    done = dsv4("check", stdin=as_json(user(5), user("\x1b<think>"), assistant()))
    assert done.returncode == 1
    finished = "nothing to generate: the last turn is finished"
    spelled = "the text spells the special token <think>"
    assert done.stdout.decode().splitlines() == [
        f"stdin: messages[0].content: error: found 5, expected {TEXT} [not_encodable]",
        f"stdin: messages[1].content: warning: {spelled} [special_token_in_text]",
        f"stdin: messages[2]: warning: {finished} [nothing_to_generate]",
        "1 error, 2 warnings",
    ]


def test_lines() -> None:
    done = dsv4("check", stdin=f"{as_json(user())}\n{as_json(user(5))}\n")
    assert done.stdout.startswith(b"stdin:2: messages[0].content: error: ")


def test_kinds_can_be_ignored() -> None:
    assert found(*THOUGHT, options=("--ignore", "dropped_reasoning")) == []
    assert "--ignore: found 'x', expected one of" in refused("check", "--ignore", "x", stdin="[]")
