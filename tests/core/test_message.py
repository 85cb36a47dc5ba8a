"""A read completion as a message: for OpenAI's clients, and for encoding again."""

from __future__ import annotations

import json
import pickle
import re

import pytest

import dsv4
import encoding_dsv4
from builders import EOS, user
from completions import *
from dsv4.compat import vllm

TEXT = f"Hm.</think>Look.{block(calling('bash', command='ls', timeout=5), calling('ping'))}{EOS}"


@pytest.fixture
def message() -> dsv4.Message:
    return dsv4.parse(TEXT, tools=TOOLS, new_id=iter(("call_a", "call_b")).__next__)


def test_what_it_has(message: dsv4.Message) -> None:
    assert message == dsv4.Message(
        content="Look.",
        reasoning="Hm.",
        tool_calls=(
            dsv4.ToolCall("bash", '{"command": "ls", "timeout": 5}', 0),
            dsv4.ToolCall("ping", "{}", 1),
        ),
        finish="tool_calls",
        incomplete=(),
        diagnostics=(),
    )


def test_it_is_a_value(message: dsv4.Message) -> None:
    assert message == dsv4.parse(TEXT, tools=TOOLS) == pickle.loads(pickle.dumps(message))
    assert len({message, dsv4.parse(TEXT, tools=TOOLS)}) == 1
    with pytest.raises(AttributeError):
        message.content = "x"  # type: ignore[misc]


class TestToDict:
    def test_an_openai_message(self, message: dsv4.Message) -> None:
        assert message.to_dict() == {
            "role": "assistant",
            "content": "Look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {
                        "name": "bash",
                        "arguments": '{"command": "ls", "timeout": 5}',
                    },
                },
                {
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "ping", "arguments": "{}"},
                },
            ],
        }

    def test_ids_are_made_once(self) -> None:
        messages = [dsv4.parse(TEXT, tools=TOOLS) for _ in range(3)]
        ids = [call.id for message in messages for call in message.tool_calls]
        assert len(set(ids)) == 6
        assert all(re.fullmatch(r"call_[0-9A-Za-z]{24}", id) for id in ids)
        for message in messages:
            assert message.to_dict() == message.to_dict()
            calls = message.to_dict()["tool_calls"]
            assert [call["id"] for call in calls] == [call.id for call in message.tool_calls]

    def test_ids_take_no_part_in_comparisons(self) -> None:
        first, second = (dsv4.parse(TEXT, tools=TOOLS) for _ in range(2))
        assert first == second
        assert first.tool_calls[0].id != second.tool_calls[0].id

    def test_results_find_their_calls(self, message: dsv4.Message) -> None:
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": call.name}
            for call in reversed(message.tool_calls)
        ]
        prompts = [
            str(dsv4.encode([user(), given, *results], tools=TOOLS))
            for given in (message, message.to_dict())
        ]
        assert prompts[0] == prompts[1]
        assert prompts[0].index("<tool_result>bash") < prompts[0].index("<tool_result>ping")

    def test_the_name_of_reasoning(self, message: dsv4.Message) -> None:
        named = message.to_dict(reasoning_field="reasoning")
        assert named["reasoning"] == "Hm."
        assert "reasoning_content" not in named

    def test_what_is_not_there_is_left_out(self) -> None:
        assert dsv4.parse("Hi", thinking=False).to_dict() == {"role": "assistant", "content": "Hi"}
        assert dsv4.parse("", thinking=False).to_dict() == {"role": "assistant", "content": ""}

    def test_incomplete_calls_are_left_out(self) -> None:
        cut = dsv4.parse(f"{BLOCK}{BASH}{COMMAND}l", thinking=False, tools=TOOLS)
        assert cut.incomplete == (dsv4.ToolCall("bash", '{"command": "l"}', 0),)
        assert "tool_calls" not in cut.to_dict()

    def test_it_is_json(self, message: dsv4.Message) -> None:
        assert json.loads(json.dumps(message.to_dict())) == message.to_dict()


class TestEncodingAgain:
    def test_the_message_or_its_dict(self, message: dsv4.Message) -> None:
        prompts = [
            str(dsv4.encode([user(), given], tools=TOOLS))
            for given in (message, message.to_dict(), message.to_dict(reasoning_field="reasoning"))
        ]
        assert len(set(prompts)) == 1
        # A call without parameters has an empty line there, which the completion had not.
        assert prompts[0].endswith(TEXT.replace('"ping">\n', '"ping">\n\n'))

    def test_the_released_names_take_it_too(self, message: dsv4.Message) -> None:
        prompt = str(dsv4.encode([user(), message]))
        for module in (encoding_dsv4, vllm):
            assert module.encode_messages([user(), message.to_dict()], "thinking") == prompt
            assert module.encode_messages([user(), message], "thinking") == prompt

    def test_reasoning_is_dropped_before_a_new_question(self) -> None:
        message = dsv4.parse(f"Hm.</think>Hi.{EOS}")
        assert "Hm." not in str(dsv4.encode([user(), message, user()]))


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        (f"a</think>b{EOS}", "stop"),
        ("a</think>b", "stop"),
        ("a</think>", "stop"),
        (f"a</think>{block(calling('ping'))}{EOS}", "tool_calls"),
        (f"a</think>{block(calling('ping'))}", "tool_calls"),
        (f"a</think>{block(calling('ping'))} and more{EOS}", "tool_calls"),
        ("a", "length"),
        (f"a{EOS}", "stop"),
        (f"a{block(calling('ping'))}{EOS}", "tool_calls"),
        (f"a{block(calling('ping'))}", "tool_calls"),
        (f"a</think>{BLOCK}{BASH}{COMMAND}l", "length"),
        (f"a</think>{BLOCK}{calling('ping')}{BASH}{COMMAND}l", "length"),
        (f"a</think>{BLOCK}{BASH}{COMMAND}l{EOS}", "tool_calls"),
    ],
)
def test_finish(text: str, finish: str) -> None:
    assert dsv4.parse(text, tools=TOOLS).finish == finish


class TestDuplicates:
    """The stream cannot take back what it wrote; the message has each parameter once."""

    TEXT = (
        f"{BLOCK}{BASH}{COMMAND}a{PARAMETER_END}{TIMEOUT}[1,  2]{PARAMETER_END}"
        f"{COMMAND}b{PARAMETER_END}{INVOKE_END}{BLOCK_END}"
    )

    def test_in_the_stream(self) -> None:
        events = events_of([self.TEXT], thinking=False, tools=TOOLS)
        stream = "".join(e.text for e in events if isinstance(e, dsv4.ArgumentsDelta))
        assert stream == '{"command": "a", "timeout": [1,  2], "command": "b"}'
        assert json.loads(stream) == {"command": "b", "timeout": [1, 2]}

    def test_in_the_message(self) -> None:
        message = dsv4.parse(self.TEXT, thinking=False, tools=TOOLS)
        assert message.tool_calls[0].arguments == '{"timeout": [1,  2], "command": "b"}'

    def test_of_a_call_that_was_cut(self) -> None:
        cut = self.TEXT[: self.TEXT.index(f"b{PARAMETER_END}")]
        message = dsv4.parse(cut, thinking=False, tools=TOOLS)
        assert message.incomplete[0].arguments == '{"timeout": [1,  2], "command": ""}'


def test_values_keep_their_spelling() -> None:
    text = block(
        f"{BASH}\n{TIMEOUT}[1.50, 1e3,\n 12345678901234567890]{PARAMETER_END}\n{INVOKE_END}\n"
    )
    message = dsv4.parse(text, thinking=False, tools=TOOLS)
    assert message.tool_calls[0].arguments == '{"timeout": [1.50, 1e3,\n 12345678901234567890]}'
