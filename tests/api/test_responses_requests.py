"""What only Responses has."""

from __future__ import annotations

from typing import Any

import pytest
from request_bodies import body, call, prompt, result, tools, user

import dsv4
from dsv4.api import ApiError, responses
from dsv4.api.neutral_request import mark_id, mark_text, marked_id, marked_text
from rows import each_row


def read(*items: Any, dialect: str = "v4", **fields: Any) -> Any:
    return responses.read(body("responses", *items, **fields), dialect=dialect)


def test_input_may_be_text() -> None:
    assert str(responses.read({"input": "Hi"}).request.encode()) == prompt(
        "responses", body("responses")
    )


def test_instructions_come_first() -> None:
    turns = ({"role": "developer", "content": "B"}, user("Hi"))
    request = read(*turns, instructions="A")
    assert request.request.messages[0] == {"role": "system", "content": "A\n\nB"}


def test_messages_need_no_type_and_have_many_parts() -> None:
    parts = [{"type": "input_text", "text": "A"}, {"type": "text", "text": "B"}]
    one = {"role": "user", "content": parts}
    other = {"type": "message", "id": "msg_1", "status": "completed", **one}
    assert prompt("responses", body("responses", one)) == prompt(
        "responses", body("responses", other)
    )
    assert "A\n\nB" in prompt("responses", body("responses", one))


def test_a_refusal_is_what_was_said() -> None:
    said = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert "</think>No.<" in prompt(
        "responses", body("responses", user("Q"), said, user("R"), tools=tools("responses", "f"))
    )


@each_row(
    "item, reasoning",
    [
        (
            {
                "content": [{"type": "reasoning_text", "text": "T"}],
                "summary": [{"type": "summary_text", "text": "S"}],
            },
            "T",
        ),
        ({"content": None, "summary": [{"type": "summary_text", "text": "S"}]}, "S"),
        ({"content": "T", "summary": "S"}, "T"),
        (
            {"content": [{"type": "reasoning_text", "text": text} for text in ("T", "", "U")]},
            "T\n\nU",
        ),
        (
            {
                "content": [],
                "summary": [
                    {"type": "summary_text", "text": "S"},
                    {"type": "summary_text", "text": "S2"},
                ],
            },
            "S\n\nS2",
        ),
        ({"summary": [], "encrypted_content": mark_text("sealed ü")}, "sealed ü"),
        ({"summary": [], "encrypted_content": mark_id("turn_1")}, ""),
        ({"summary": "S", "encrypted_content": mark_id("turn_1")}, "S"),
        ({"summary": [], "encrypted_content": "somebody's"}, ""),
        ({"summary": [], "encrypted_content": "dsv4.2.!!!"}, ""),
        ({"summary": [], "encrypted_content": None, "status": "in_progress"}, ""),
    ],
)
def test_reasoning_comes_back_in_several_shapes(item: Any, reasoning: str) -> None:
    turns = (
        user("Q"),
        {"type": "reasoning", "id": "rs_1", **item},
        *call("responses", "a", "f", {}),
        *result("responses", "a", "R"),
    )
    text = prompt("responses", body("responses", *turns, tools=tools("responses", "f")))
    assert f"<think>{reasoning}</think>\n\n<" in text


def test_a_run_of_items_is_one_turn_and_a_result_ends_it() -> None:
    turns = (
        user("Q"),
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "T"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
        *call("responses", "a", "f", {}),
        *call("responses", "b", "g", {}),
        *result("responses", "a", "RA"),
        {"role": "assistant", "content": "B"},
        user("And?"),
    )
    request = read(*turns, tools=tools("responses", "f"))
    assert [m["role"] for m in request.request.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert "<think>T</think>A\n\n<" in str(request.request.encode())


def test_what_comes_back_with_reasoning_is_kept() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "blob"}
    request = read(
        {"role": "system", "content": "S"},
        user("Q"),
        item,
        {"role": "assistant", "content": "A"},
        user("R"),
    )
    assert request.marks == {2: ("blob",)}


def test_results_may_be_parts() -> None:
    output = [{"type": "input_text", "text": "A"}, {"type": "input_image", "image_url": "data:x"}]
    turns = (
        user("Q"),
        *call("responses", "a", "f", {}),
        {"type": "function_call_output", "call_id": "a", "output": output},
    )
    assert "<tool_result>A\n\n[Unsupported Image]</tool_result>" in prompt(
        "responses", body("responses", *turns)
    )


def test_unknown_items_are_named_on_their_side() -> None:
    turns = (user("Q"), {"type": "web_search_call", "id": "ws"}, {"type": "mcp_list_tools"})
    text = prompt("responses", body("responses", *turns))
    assert "[Unsupported web_search_call]<｜end" in text
    assert "<｜User｜>[Unsupported mcp_list_tools]" in text


# Tools.

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"}
CUSTOM = {"type": "custom", "name": "patch", "description": "Patches.", "format": GRAMMAR}
SPACE = {
    "type": "namespace",
    "name": "agents",
    "description": "About agents.",
    "tools": [
        {**tools("responses", "close")[0], "description": "Closes."},
        *tools("responses", "open"),
    ],
}


def test_a_custom_tool_has_one_text() -> None:
    (tool,) = read(tools=[CUSTOM]).request.tools
    assert tool["name"] == "patch"
    assert tool["description"].startswith("Patches.\n")
    assert "start: /x+/" in tool["description"]
    assert tool["parameters"]["required"] == ["input"]
    turns = (
        user("Q"),
        {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": '{"x'},
    )
    text = prompt(
        "responses",
        body(
            "responses", *turns, {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"}
        ),
    )
    assert 'name="input" string="true">{"x</' in text
    assert "<tool_result>ok</tool_result>" in text


@pytest.mark.parametrize(("dialect", "between"), [("v4", "__"), ("v4-0731", "__"), ("v4.1", "::")])
def test_a_namespace_is_part_of_the_name(dialect: str, between: str) -> None:
    item = {
        "type": "function_call",
        "call_id": "a",
        "name": "close",
        "namespace": "agents",
        "arguments": "{}",
    }
    request = read(user("Q"), item, *result("responses", "a", "R"), tools=[SPACE], dialect=dialect)
    shown = [(tool["name"], tool["description"]) for tool in request.request.tools]
    assert shown == [
        (f"agents{between}close", "About agents.\nCloses."),
        (f"agents{between}open", "About agents.\n"),
    ]
    assert f'name="agents{between}close"' in str(request.request.encode())
    names = {name: (tool.namespace, tool.name) for name, tool in request.names.items()}
    assert names == {
        f"agents{between}close": ("agents", "close"),
        f"agents{between}open": ("agents", "open"),
    }


def test_two_ways_to_one_name_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        read(tools=[*tools("responses", "agents__close"), SPACE])
    assert caught.value.path == "tools[1].tools[0].name"


def test_a_namespaced_tool_can_be_chosen() -> None:
    choice = {"type": "function", "name": "close", "namespace": "agents"}
    assert read(tools=[SPACE], tool_choice=choice).request.tool_choice == "agents__close"


def test_hosted_tools_are_left_out_and_listed() -> None:
    hosted = [
        {"type": "web_search", "external_web_access": True},
        {"type": "tool_search", "execution": "client"},
    ]
    request = read(tools=[*hosted, *tools("responses", "f")])
    assert [tool["name"] for tool in request.request.tools] == ["f"]
    assert request.ignored == ("web_search", "tool_search")


def test_a_format_is_written_into_the_prompt() -> None:
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "array"}}
    text = prompt("responses", body("responses", text={"format": form, "verbosity": "low"}))
    assert text == prompt(
        "chat", body("chat", response_format={"type": "json_schema", "json_schema": form})
    )


def test_logprobs_are_asked_for_in_include() -> None:
    assert not read(include=["reasoning.encrypted_content"]).logprobs
    assert read(include=["message.output_text.logprobs"], top_logprobs=2).logprobs


def test_the_dialect_may_be_a_value() -> None:
    request = responses.read(body("responses"), dialect=dsv4.DIALECTS["v4.1"])
    assert request.request.encode().dialect.name == "v4.1"


@each_row("length", range(20))
def test_a_mark_holds_its_text_whatever_its_length(length: int) -> None:
    text = "é" + "x" * length
    for mark, marked, other in (
        (mark_id, marked_id, marked_text),
        (mark_text, marked_text, marked_id),
    ):
        assert marked(mark(text)) == text
        assert marked(f"{mark(text)}!") is None
        assert other(mark(text)) is None


def test_what_a_shell_wrote() -> None:
    outputs = [
        {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}},
        {"stdout": "c", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
    ]
    asked = body(
        "responses",
        user("Hi"),
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "s", "output": outputs},
    )
    written = prompt("responses", asked)
    assert '["ls"]' in written
    assert "a\nb\n[exit code 2]\n\nc\n\n[timed out]" in written


def test_a_compaction_is_read_where_it_can_be() -> None:
    for item, text in (
        ({"summary": "Before."}, "Before."),
        ({"encrypted_content": "?"}, "[Unsupported compaction]"),
    ):
        assert text in prompt("responses", body("responses", {"type": "compaction", **item}))
