"""The demo model: its rules, so that clients can be tested against it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway import TOOLS, gateway, run

from dsv4.serve.backends.demo_model import BREAKERS, asked_again

PATH = "/v1/chat/completions"


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def answered(*bodies: dict[str, Any]) -> list[Any]:
    """The choices that these requests are answered with."""

    async def scenario() -> list[Any]:
        async with gateway() as g:
            answers = [(await g.post(PATH, body))[2] for body in bodies]
            return [answer["choices"][0] for answer in answers]

    found: list[Any] = run(scenario())
    return found


def calls_of(choice: Any) -> list[tuple[str, Any]]:
    calls = choice["message"].get("tool_calls", [])
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]


@pytest.mark.parametrize("more", ["", "\nBREAK: no-closers"])
def test_a_loop_has_as_many_turns_as_were_asked_for(more: str) -> None:
    messages: list[Any] = [{"role": "user", "content": f"RUN: echo {{turn}}\nTURNS: 3{more}"}]
    ran = []

    async def scenario() -> None:
        async with gateway() as g:
            for _ in range(3):
                body = {"messages": messages, "tools": TOOLS}
                _, _, answer = await g.post(PATH, body)
                take(answer["choices"][0]["message"])

    def take(message: Any) -> None:
        messages.append(message)
        for call in message.get("tool_calls", ()):
            ran.append(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})

    run(scenario())
    assert ran == ["echo 1", "echo 2"]
    assert messages[-1]["content"] == "DONE: ok"
    # Some servers make a developer's message of a user's.
    assert asked_again([{**messages[0], "role": "developer"}, *messages[1:3]]).startswith("RUN: ")


def test_a_command_becomes_a_call_of_the_shell() -> None:
    text = {"type": "string"}
    listed = {"type": "array", "items": text}
    other = tool("lookup", query=text)
    cases = {
        "Bash": (
            tool("Bash", command=text, description=text),
            {"command": "ls", "description": ""},
        ),
        "exec_command": (tool("exec_command", cmd=text), {"cmd": "ls"}),
        "shell": (tool("shell", command=listed), {"command": ["bash", "-lc", "ls"]}),
        "odd": (tool("odd", command=text), {"command": "ls"}),
    }
    bodies = [ask("Do\nRUN: ls", tools=[other, given]) for given, _ in cases.values()]
    found = [calls_of(choice)[0] for choice in answered(*bodies)]
    for (name, arguments), (called, given) in zip(
        ((name, expected) for name, (_, expected) in cases.items()), found, strict=True
    ):
        assert called == name
        assert given.keys() == arguments.keys()
        assert all(given[key] == value for key, value in arguments.items() if value)


def test_lines_are_calls_in_their_order() -> None:
    text = 'RUN: echo one\nCALL: look {"q": [1, {"a": null}]}\nRUN: echo two'
    (choice,) = answered(ask(text, tools=[*TOOLS, tool("look", q={})]))
    assert calls_of(choice) == [
        ("bash", {"command": "echo one"}),
        ("look", {"q": [1, {"a": None}]}),
        ("bash", {"command": "echo two"}),
    ]
    assert choice["message"]["reasoning_content"]
    assert choice["finish_reason"] == "tool_calls"


def test_half_a_character_is_none() -> None:
    (choice,) = answered(ask('CALL: bash {"command": "a\\ud83d"}', tools=TOOLS))
    assert calls_of(choice) == [("bash", {"command": "a\ufffd"})]


def test_what_comes_last_decides_and_without_tools_there_is_text() -> None:
    called = {
        "role": "assistant",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        ],
    }
    result = {"role": "tool", "tool_call_id": "c", "content": "first line\nsecond"}
    said = ask("RUN: ls", tools=TOOLS)
    then = [*said["messages"], called, result]
    done, reminded, again, toolless = answered(
        {**said, "messages": then},
        {**said, "messages": [*then, {"role": "system", "content": "RUN: nothing"}]},
        {**said, "messages": [*then, {"role": "user", "content": "RUN: pwd"}]},
        ask("RUN: ls"),
    )
    assert done["message"]["content"] == "DONE: first line"
    assert reminded["message"]["content"] == "DONE: first line"
    assert calls_of(again) == [("bash", {"command": "pwd"})]
    assert "demo backend" in toolless["message"]["content"]


def test_an_answer_that_the_client_has_begun_gets_no_more_reasoning() -> None:
    begun = {"role": "assistant", "content": "Sure, ", "prefix": True}
    said = ask("Hi", tools=TOOLS)
    (choice,) = answered({**said, "messages": [*said["messages"], begun]})
    assert choice["message"]["content"].startswith("This is the demo backend")
    assert "reasoning_content" not in choice["message"]
    assert calls_of(choice) == []


def test_a_format_gets_the_smallest_value_that_fits() -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3},
            "n": {"type": "integer", "minimum": 5},
            "kind": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
        },
        "required": ["title", "n", "kind", "list"],
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    (choice,) = answered(ask("Hi", response_format=wanted))
    value = json.loads(choice["message"]["content"])
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(value, schema)


TREE = {"$ref": "#/$defs/tree"}
ODD_SCHEMAS = [
    {"type": "array", "minItems": 10**9, "items": {"type": "array", "minItems": 10**9}},
    {"type": "string", "minLength": 10**9},
    {**TREE, "$defs": {"tree": {"required": ["a", "b"], "properties": {"a": TREE, "b": TREE}}}},
    {"allOf": [{"$ref": "#"}, {"properties": [], "required": 4}]},
    {"type": "object", "required": [1, None, {}]},
    {"type": [[]]},
    {"type": {}},
]


def test_a_schema_that_asks_for_the_impossible_is_answered_still() -> None:
    asked = [{"type": "json_schema", "json_schema": {"schema": schema}} for schema in ODD_SCHEMAS]
    for choice in answered(*(ask("Hi", response_format=form) for form in asked)):
        assert len(choice["message"]["content"]) < 10**6
        json.loads(choice["message"]["content"])


@pytest.mark.parametrize("stream", [True, False])
def test_every_malformed_completion_comes_out_without_markup(stream: bool) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            for kind in sorted(BREAKERS):
                body = ask(f"RUN: echo hi\nBREAK: {kind}", tools=TOOLS)
                if stream:
                    text = json.dumps(await g.stream(PATH, body), ensure_ascii=False)
                else:
                    text = json.dumps((await g.post(PATH, body))[2], ensure_ascii=False)
                assert "DSML" not in text, (kind, text)
                assert "think>" not in text, (kind, text)
                cut = '"finish_reason": "length"' in text
                assert ("echo hi" in text) != cut, (kind, text)

    run(scenario())


def test_a_limit_cuts_it() -> None:
    (choice,) = answered(ask("Hi", max_tokens=3))
    assert choice["finish_reason"] == "length"
