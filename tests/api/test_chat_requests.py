"""What only Chat Completions has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from request_bodies import body, call, prompt, result, tools, user

import dsv4
from dsv4.api import ApiError, Sampling, Settings, chat
from dsv4.api.chat_requests import are_plain_turns
from dsv4.api.neutral_request import CACHE_BYTES, CACHE_ENTRIES, ReadCache
from rows import each_row


def read(*turns: Any, **fields: Any) -> Any:
    return chat.read(body("chat", *turns, **fields))


def test_developer_is_a_system_message() -> None:
    turns = ({"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, user("Hi"))
    assert read(*turns).request.messages[0] == {"role": "system", "content": "A\n\nB"}


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
BLOCKS = [
    {"type": "text", "text": "B"},
    {"type": "tool_result", "tool_use_id": "a", "content": "R"},
    {"type": "future"},
]


class TestWhatOnlyTheReleasedEncodersReadOfAMessage:
    """Fields of messages hold whatever stands beside the messages: a body with a `model` lost its
    tools without a word."""

    @pytest.mark.parametrize("beside", [{"model": "deepseek-v4.1"}, {"max_tokens": 9}])
    @pytest.mark.parametrize(
        "messages",
        [
            [{"role": "system", "content": "S", "tools": tools("chat", "f")}, user("Q")],
            [{"role": "system", "content": "", "tools": tools("chat", "f")}, user("Q")],
            [{"role": "system", "content": "S", "response_format": SCHEMA}, user("Q")],
            [{**user("Q"), "task": "query"}],
            [{**user("Q"), "task": "read_url", "extracted_url": "https://a.example"}],
            [{**user("Q"), "content_blocks": BLOCKS}],
            [user("Q"), {"role": "assistant", "content": "A", "task": "title"}, user("R")],
            [user("Q"), {"role": "assistant", "content_blocks": BLOCKS}, user("R")],
            [user("Q"), {"role": "assistant", "content": "A", "content_blocks": BLOCKS}, user("R")],
        ],
    )
    def test_is_written_as_by_the_encoder(self, messages: Any, beside: dict[str, Any]) -> None:
        dialect: Any = "v4.1" if "model" in beside else "v4"
        written = dsv4.encode(messages, dialect=dialect, effort="high" if dialect != "v4" else None)
        assert dsv4.api.read({"messages": messages, **beside}).request.encode().text == written.text

    def test_tools_join_those_of_the_request(self) -> None:
        messages = (
            {"role": "developer", "content": "S", "tools": tools("chat", "f", "g")},
            user("Q"),
        )
        call = read(*messages, tools=tools("chat", "h", "f"))
        assert [tool["name"] for tool in call.request.tools] == ["h", "f", "g"]
        assert call.names["g"].path == "messages[0].tools[1].function"

    def test_another_schema_under_one_name_is_refused(self) -> None:
        other = [{"type": "function", "function": {"name": "f", "description": "another"}}]
        with pytest.raises(ApiError) as caught:
            read(
                {"role": "system", "content": "S", "tools": other},
                user("Q"),
                tools=tools("chat", "f"),
            )
        assert caught.value.path == "messages[0].tools[0].function"

    def test_two_response_formats_are_refused(self) -> None:
        system = {"role": "system", "content": "S", "response_format": SCHEMA}
        with pytest.raises(ApiError) as caught:
            read(system, user("Q"), response_format={"type": "json_object"})
        assert caught.value.path == "messages[0].response_format"


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_content_is_text_or_parts_on_every_role(role: str) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    before, after = [user("Q"), *call("chat", "a", "f", {})], [user("R")]

    def with_content(content: Any) -> str:
        message = {"role": role, "content": content, "tool_call_id": "a"}
        return prompt("chat", body("chat", *before, message, *after))

    assert with_content(parts) == with_content("one\n\ntwo")


def test_content_beside_calls_may_be_missing() -> None:
    turn = call("chat", "a", "f", {})[0]
    prompts = set()
    for content in ({"content": None}, {"content": ""}, {}, {"content": []}):
        message = {k: v for k, v in turn.items() if k != "content"} | content
        prompts.add(prompt("chat", body("chat", user("Q"), message, *result("chat", "a", "R"))))
    assert len(prompts) == 1


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_content": "A"}, "A"),
        ({"reasoning": "B"}, "B"),
        ({"reasoning_content": "A", "reasoning": "B"}, "A"),
        ({"reasoning_content": "", "reasoning": "B"}, "B"),
        ({"reasoning_content": None}, ""),
    ],
)
def test_reasoning_has_two_names(fields: Any, reasoning: str) -> None:
    turn = {**call("chat", "a", "f", {})[0], **fields}
    text = prompt(
        "chat", body("chat", user("Q"), turn, *result("chat", "a", "R"), tools=tools("chat", "f"))
    )
    assert f"<think>{reasoning}</think>" in text


def test_a_prefix_with_reasoning_alone_continues_the_reasoning() -> None:
    last = {"role": "assistant", "content": "", "reasoning_content": "Let me", "prefix": True}
    assert prompt("chat", body("chat", user("Q"), last)).endswith("<think>Let me")
    off = prompt("chat", body("chat", user("Q"), last, thinking={"type": "disabled"}))
    assert off.endswith("</think>")


def test_a_prefix_with_reasoning_and_text_continues_the_text() -> None:
    last = {"role": "assistant", "content": "It is", "reasoning_content": "Easy.", "prefix": True}
    assert prompt("chat", body("chat", user("Q"), last)).endswith("<think>Easy.</think>It is")


def test_the_parser_continues_what_the_prompt_leaves_open() -> None:
    last = {"role": "assistant", "content": "", "reasoning_content": "Let me", "prefix": True}
    parser = read(user("Q"), last).parser()
    events = [*parser.feed(" see.</think>Yes"), *parser.finish()]
    assert [type(event).__name__ for event in events][:2] == ["ReasoningDelta", "ContentDelta"]


@each_row(
    "first, second, joined",
    [
        ({"weight": 0}, {}, {"weight": 0}),
        ({}, {"train": False}, {"train": False}),
        # Where both say it, the last one counts.
        ({"weight": 0}, {"weight": 1}, {"weight": 1}),
        ({}, {}, {}),
    ],
)
def test_messages_that_are_one_turn_say_together_whether_it_is_trained_on(
    first: Any, second: Any, joined: Any
) -> None:
    turns = [
        {"role": "assistant", "content": text, **own} for text, own in (("b", first), ("c", second))
    ]
    _, turn, _ = chat.read({"messages": [user("a"), *turns, user("d")]}).request.messages
    assert {name: turn[name] for name in ("weight", "train") if name in turn} == joined
    assert turn["content"] == "b\n\nc"


def test_old_calls_are_calls() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    turns = (user("Q"), old, {"role": "function", "name": "f", "content": "R"})
    text = prompt("chat", body("chat", *turns))
    assert 'invoke name="f"' in text
    assert "<tool_result>R</tool_result>" in text


def test_a_refusal_is_what_was_said() -> None:
    turn = {"role": "assistant", "content": None, "refusal": "I cannot."}
    assert "I cannot." in prompt("chat", body("chat", user("Q"), turn, user("R")))
    turn["content"] = "Well."
    assert "Well.\n\nI cannot." in prompt("chat", body("chat", user("Q"), turn, user("R")))


def test_functions_without_their_wrapper_are_tools() -> None:
    bare = [tool["function"] for tool in tools("chat", "f")]
    assert prompt("chat", body("chat", tools=bare)) == prompt(
        "chat", body("chat", tools=tools("chat", "f"))
    )
    named = {**tools("chat", "f")[0], "name": "g"}  # a wrapper, whatever else it has
    assert [tool["name"] for tool in read(tools=[named]).request.tools] == ["f"]


def test_hosted_tools_are_left_out_and_listed() -> None:
    request = read(tools=[{"type": "web_search"}, *tools("chat", "f")])
    assert [tool["name"] for tool in request.request.tools] == ["f"]
    assert request.ignored == ("web_search",)


def test_what_a_server_needs() -> None:
    request = read(
        model="m",
        stream=True,
        stream_options={"include_usage": True},
        n=2,
        logprobs=True,
        top_logprobs=3,
        seed=7,
        temperature=0,
        top_p=0.5,
        top_k=40,
        presence_penalty=1,
        frequency_penalty=-1.5,
        logit_bias={"5": -100, "128825": 2.5},
        stop=["a", "b"],
        user="u",
        prompt_cache_key="k",
        max_tokens=5,
        max_completion_tokens=6,
    )
    assert (request.model, request.user, request.cache_key) == ("m", "u", "k")
    assert request.stream
    assert request.include_usage
    assert (request.n, request.logprobs, request.top_logprobs) == (2, True, 3)
    assert request.sampling == Sampling(0, 0.5, 40, 7, 1, -1.5, ((5, -100), (128825, 2.5)))
    assert request.request.stop == ("a", "b")
    assert request.max_tokens == 6


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, '{"type": "object"}'),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}},
            '{"type": "array"}',
        ),
    ],
)
def test_a_format_is_written_into_the_prompt(form: Any, shown: str | None) -> None:
    text = prompt("chat", body("chat", response_format=form))
    assert ("## Response Format:" in text) == (shown is not None)
    assert shown is None or f"to reply:\n{shown}" in text


def test_effort_in_the_template_options() -> None:
    assert read(chat_template_kwargs={"reasoning_effort": "max"}).request.effort == "max"
    with pytest.raises(ApiError) as caught:
        read(chat_template_kwargs={"reasoning_effort": 5})
    assert caught.value.path == "chat_template_kwargs.reasoning_effort"


# Messages that are turns as they are.

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASK: dict[str, Any] = {"role": "user", "content": "x"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "y"}


@pytest.mark.parametrize(
    "messages",
    [
        [ASK],
        [{"role": "system", "content": "s"}, ASK],
        [ASK, {"role": "assistant", "content": "a", "reasoning_content": "Hm é"}, ASK],
        [ASK, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT],
        [ASK, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT, RESULT, ASK],
    ],
)
def test_plain_messages_are_passed_on(messages: list[Any]) -> None:
    body = {"messages": messages}
    call = chat.read(body)
    assert all(m is given for m, given in zip(call.request.messages, messages, strict=True))
    assert call.request.messages is not messages
    careful = chat.read({"messages": [*messages[:-1], {**messages[-1], "name": "n"}]})
    assert call.request.encode() == careful.request.encode()


@each_row(
    "messages",
    [
        [{"role": "system", "content": "x-anthropic-billing-header: y\nz"}, ASK],
        [{"role": "system", "content": ""}, ASK],
        [ASK, {"role": "system", "content": "s"}],
        [{**ASK, "content": "\ud800"}],
        [{**ASK, "content": None}],
        [ASK, {"role": "assistant", "content": "a", "reasoning_content": "\ud800"}, ASK],
        [ASK, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "a"}, ASK],
        [ASK, {"role": "assistant", "content": "", "tool_calls": [{**CALL, "index": 0}]}, RESULT],
        [ASK, {"role": "assistant", "content": "", "tool_calls": [CALL, 5]}, RESULT],
        [{"role": "developer", "content": "s"}, ASK],
        [{**RESULT, "tool_call_id": 5}],
        [ASK, {"role": "assistant", "content": "a"}],
        ["x"],
        [],
    ],
)
def test_other_messages_are_read_with_care(messages: list[Any]) -> None:
    assert not are_plain_turns(messages)


# Options, which are remembered.


def test_options_that_differ_by_type_alone_are_not_taken_for_each_other() -> None:
    assert chat.read({"messages": [ASK], "temperature": 1}).sampling.temperature == 1
    one = chat.read({"messages": [ASK], "temperature": 1.0}).sampling.temperature
    assert one.__class__ is float
    with pytest.raises(ApiError) as caught:
        chat.read({"messages": [ASK], "temperature": True})
    assert caught.value.path == "temperature"


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    for _ in range(2):
        call = chat.read({"messages": [ASK], "temperature": numpy.float64(0.7)})
        assert call.sampling.temperature == 0.7
        assert chat.read({"messages": [ASK], "x": numpy.arange(3)}).model == "deepseek-v4"


def test_remembered_options_do_not_follow_the_callers_changes() -> None:
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    body = {"messages": [ASK], "response_format": form}
    first = chat.read(body)
    before = str(first.request.encode())
    schema["changed"] = 1
    assert str(first.request.encode()) == before
    assert '"changed"' in str(chat.read(body).request.encode())
    del schema["changed"]
    assert str(chat.read(body).request.encode()) == before


def test_options_are_remembered_for_a_dialect_and_settings() -> None:
    body = {"messages": [ASK], "reasoning_effort": "max"}
    settings = [Settings(model="a"), Settings(model="b")]
    read = [chat.read(body, dialect=d, settings=s) for d in ("v4", "v4.1") for s in settings]
    assert [call.model for call in read] == ["a", "b", "a", "b"]
    assert [call.request.dialect.name for call in read] == ["v4", "v4", "v4.1", "v4.1"]
    assert [call.settings for call in read] == [*settings, *settings]
    assert read[0].request.encode() != read[2].request.encode()


def test_what_differs_between_clients_is_not_remembered() -> None:
    first = chat.read({"messages": [ASK], "user": "a", "metadata": {"id": 1}})
    second = chat.read({"messages": [ASK], "prompt_cache_key": "k", "metadata": {"id": 2}})
    assert (first.user, first.cache_key) == ("a", None)
    assert (second.user, second.cache_key) == (None, "k")
    assert first.names is second.names


def test_the_same_request_again_is_an_equal_one() -> None:
    body = {"messages": [ASK], "stop": ["x"], "seed": 5, "tools": [], "user": "u"}
    first, second = chat.read(body), chat.read(json.dumps(body).encode())
    assert first == second
    assert first.request == dsv4.Request(
        [ASK], effort="high", dialect=first.request.dialect, stop=("x",)
    )


def test_what_is_remembered_is_bounded() -> None:
    known: ReadCache[int] = ReadCache()
    for n in range(CACHE_ENTRIES + 5):
        known.keep(n, n, size=1)
    assert known.get(4) is None
    assert known.get(5) == 5
    known.keep("large", 1, size=CACHE_BYTES + 1)
    assert known.get("large") is None
