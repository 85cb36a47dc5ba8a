"""vLLM's copy of the released functions: where it differs, and that it differs nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

import encoding_dsv4
from builders import assistant, call, calling, is_json, system, user, vectors
from dsv4 import EncodeError, Error, OptionError
from dsv4.compat import vllm
from rows import each_row


def test_reasoning_wins_unless_it_is_empty() -> None:
    def shown(**fields: Any) -> str:
        prompt = vllm.encode_messages([user(), assistant("", **fields)], "thinking")
        return prompt.split("<think>")[1].split("</think>")[0]

    assert shown(reasoning="a") == "a"
    assert shown(reasoning_content="b") == "b"
    assert shown(reasoning="a", reasoning_content="b") == "a"
    assert shown(reasoning="", reasoning_content="b") == "b"


BROKEN = "found '{\"a\": 1', which is not valid JSON: "


def test_arguments_that_are_not_json_are_refused() -> None:
    with pytest.raises(EncodeError) as caught:
        vllm.encode_messages([user(), calling(call(), call("f", '{"a": 1'))], "chat")
    assert caught.value.path == "messages[1].tool_calls[1].function.arguments"
    assert caught.value.problem.startswith(BROKEN)
    with pytest.raises(EncodeError) as caught:
        vllm.render_message(0, [calling(call("f", '{"a": 1'))], "chat")
    assert caught.value.path == "messages[0].tool_calls[0].function.arguments"
    with pytest.raises(OptionError) as caught:
        vllm.encode_arguments_to_dsml({"name": "f", "arguments": '{"a": 1'})
    assert caught.value.path == "arguments"


def test_the_two_do_not_share_what_they_remember() -> None:
    messages = [calling(call("f", "not JSON, seen by both"))]
    encoding_dsv4.encode_messages(messages, "chat")
    with pytest.raises(EncodeError):
        vllm.encode_messages(messages, "chat")
    assert "seen by both" in encoding_dsv4.encode_messages(messages, "chat")


def test_a_tool_needs_no_name_here_either() -> None:
    messages = [system(tools=[{"function": {"description": "x"}}])]
    assert '{"description": "x"}' in vllm.encode_messages(messages, "chat")


def all_arguments_are_json(messages: list[dict[str, Any]]) -> bool:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return all(is_json(call["function"]["arguments"]) for call in calls)


@each_row("case", vectors("encode-v4.jsonl"))
def test_all_else_is_as_released(case: dict[str, Any]) -> None:
    if "error" in case or not all_arguments_are_json(case["messages"]):
        with pytest.raises(Error):
            vllm.encode_messages(case["messages"], **case["options"])
    else:
        assert vllm.encode_messages(case["messages"], **case["options"]) == case["prompt"]
