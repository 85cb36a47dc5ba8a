"""What commands say to somebody who typed something else than they meant."""

from __future__ import annotations

import json

import pytest
from running import as_json, dsv4, printed, refused

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Bergen?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I need it.",
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Bergen"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "Rain"},
]
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
ANTHROPIC = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Weather in Bergen?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I need it.", "signature": ""},
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Bergen"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "Rain"}],
        },
    ],
    "tools": [{"name": "weather", "input_schema": {}}],
}
RESPONSES = {"instructions": "Be brief.", "input": "Weather in Bergen?"}


class TestWordsThatAreNearlyRight:
    def test_a_command(self) -> None:
        assert refused("shwo").endswith("(did you mean show?)")

    def test_an_option(self) -> None:
        assert refused("show", "--efort", "max", "-").endswith("(did you mean --effort?)")

    def test_a_choice(self) -> None:
        assert refused("template", "--for", "jinja").endswith("(did you mean jinja2?)")

    def test_an_address_without_its_option(self) -> None:
        for command in ("heal", "serve", "playground"):
            assert refused(command, "http://gpu").endswith("(did you mean --upstream http://gpu?)")

    def test_a_word_that_is_like_no_other(self) -> None:
        assert refused("qqq").endswith("(see dsv4 --help)")


class TestBodiesOfOtherProtocols:
    def test_anthropic_messages(self) -> None:
        ours = as_json(*CHAT, tools=CHAT_TOOLS)
        assert printed("encode", stdin=json.dumps(ANTHROPIC)) == printed("encode", stdin=ours)

    def test_responses(self) -> None:
        ours = as_json(*CHAT[:2])
        assert printed("encode", stdin=json.dumps(RESPONSES)) == printed("encode", stdin=ours)

    def test_messages_count_more_than_a_field_of_another_protocol(self) -> None:
        stray = dsv4("encode", stdin=as_json(*CHAT[:2], input="something else"))
        assert stray.stdout.decode() == printed("encode", stdin=as_json(*CHAT[:2]))
        assert "input" in stray.stderr.decode()

    def test_a_prompt_and_its_completion(self) -> None:
        pair = json.dumps({"prompt": "Hi", "completion": "Ho"})
        chat = as_json({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"})
        assert printed("encode", stdin=pair) == printed("encode", stdin=chat)

    def test_what_is_wrong_in_them_has_its_place(self) -> None:
        body = json.dumps({"input": [{"type": "message", "role": "user", "content": 5}]})
        assert "input[0].content" in refused("encode", stdin=body, status=1)

    def test_a_wrong_completion(self) -> None:
        body = json.dumps({"prompt": "Hi", "completion": 5})
        assert "completion: found 5, expected text" in refused("encode", stdin=body)


class TestJsonWhereTextIsRead:
    @pytest.mark.parametrize(
        ("command", "text", "hint"),
        [
            ("parse", '{"choices": []}', "choices[0].message.content"),
            ("parse", '{"completion": "x", "settings": {}}', "`dsv4 replay`"),
            ("decode", '{"messages": []}', "`dsv4 encode`"),
        ],
    )
    def test_it_is_told(self, command: str, text: str, hint: str) -> None:
        first, *_ = dsv4(command, stdin=text).stderr.decode().splitlines()
        assert hint in first

    def test_text_that_begins_like_json_is_text(self) -> None:
        assert printed("parse", "--mode", "chat", stdin="{not JSON")


def test_a_server_is_known_without_its_version() -> None:
    messages = as_json({"role": "user", "content": "Hi"})
    newest = dsv4("check", "--profile", "vllm", stdin=messages)
    named = dsv4("check", "--profile", "vllm-0.33", stdin=messages)
    assert (newest.stdout, newest.stderr) == (named.stdout, b"")
