"""What only Messages has."""

from __future__ import annotations

from typing import Any

import pytest
from request_bodies import body, call, prompt, result, tools, user

from dsv4.api import ApiError, Sampling, messages


def read(*turns: Any, **fields: Any) -> Any:
    return messages.read(body("messages", *turns, **fields))


def blocks(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_system_is_text_or_blocks() -> None:
    for system in ("A\n\nB", [text("A"), text("B")], [text("A"), text(""), text("B")]):
        assert read(system=system).request.messages[0] == {"role": "system", "content": "A\n\nB"}
    request = read({"role": "system", "content": "B"}, user("Hi"), system="A")
    assert request.request.messages[0] == {"role": "system", "content": "A\n\nB"}


def test_results_stand_before_and_after_text() -> None:
    turns = (user("Q"), *call("messages", "a", "f", {}))
    outcome = {"type": "tool_result", "tool_use_id": "a", "content": "R"}
    for content, shown in (
        ([outcome, text("T")], "<tool_result>R</tool_result>\n\nT"),
        ([text("T"), outcome], "T\n\n<tool_result>R</tool_result>"),
        ([outcome], "<｜User｜><tool_result>R</tool_result><"),
    ):
        assert shown in prompt("messages", body("messages", *turns, blocks(*content)))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("R", "R"),
        (None, ""),
        ([], ""),
        ([text("A"), text("B")], "A\n\nB"),
        ([{"type": "tool_reference", "tool_name": "WebFetch"}], "WebFetch"),
        (
            [{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}],
            "[Unsupported Image]",
        ),
        ([{"type": "image", "source": {"type": "file", "file_id": "f"}}], "[Unsupported Image]"),
        ([{"type": "search_result", "title": "t"}], "t"),
        ([{"type": "map", "title": "t"}], "[Unsupported map]"),
    ],
)
def test_what_a_result_says(content: Any, shown: str) -> None:
    outcome = {"type": "tool_result", "tool_use_id": "a", "content": content}
    turns = (user("Q"), *call("messages", "a", "f", {}))
    assert f"<tool_result>{shown}</tool_result>" in prompt(
        "messages", body("messages", *turns, blocks(outcome))
    )
    failed = {**outcome, "is_error": True}
    text_of = prompt("messages", body("messages", *turns, blocks(failed)))
    between = "\n\n" if "'image'" in str(content) else ""
    assert f"<tool_result>Error: {between}{shown}</tool_result>" in text_of


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "Text."}, "Text."),
        ({"type": "content", "content": [text("A"), text("B")]}, "A\n\nB"),
        ({"type": "content", "content": "C"}, "C"),
        (
            {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
            "[Unsupported Document]",
        ),
        ({"type": "url", "url": "http://x/y.pdf"}, "[Unsupported Document]"),
        (None, "[Unsupported Document]"),
    ],
)
def test_a_document_is_its_text(source: Any, shown: str) -> None:
    document = {"type": "document", "source": source}
    assert f"<｜User｜>{shown}<" in prompt("messages", body("messages", blocks(document)))


def test_thinking_between_other_blocks_is_one_turn() -> None:
    content = [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        text("A"),
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking", "thinking": "two", "signature": "s2"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        text("B"),
    ]
    turns = (user("Q"), {"role": "assistant", "content": content}, *result("messages", "a", "R"))
    request = read(*turns, tools=tools("messages", "f"))
    assert "<think>one\n\ntwo</think>A\n\nB\n\n<" in str(request.request.encode())
    assert request.marks == {1: ("s1", "s2")}


def test_thinking_alone_at_the_end_is_continued() -> None:
    last = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Let me"}]}
    assert prompt("messages", body("messages", user("Q"), last)).endswith("<think>Let me")


def test_server_tools_are_left_out_and_deferred_ones_are_not() -> None:
    server = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    deferred = {**tools("messages", "f")[0], "defer_loading": True}
    custom = {**tools("messages", "g")[0], "type": "custom"}
    request = read(tools=[server, deferred, custom])
    assert [tool["name"] for tool in request.request.tools] == ["f", "g"]
    assert request.ignored == ("web_search",)


def test_what_a_server_needs() -> None:
    request = read(
        max_tokens=9,
        stop_sequences=["x"],
        stream=True,
        temperature=1,
        top_p=1,
        top_k=5,
        metadata={"user_id": '{"a": 1}', "other": 2},
    )
    assert request.sampling == Sampling(1, 1, 5)
    assert (request.max_tokens, request.stream, request.user) == (9, True, '{"a": 1}')
    assert request.request.stop == ("x",)


def test_a_budget_above_the_most_tokens_is_fine() -> None:
    thinking = {"type": "enabled", "budget_tokens": 32000}
    assert read(max_tokens=8000, thinking=thinking).max_tokens == 8000


def test_an_effort_alone_does_not_ask_for_thinking() -> None:
    fields = {"tools": tools("messages", "f"), "tool_choice": {"type": "any"}}
    request = read(output_config={"effort": "high"}, **fields)
    assert not request.request.thinking


def test_whether_calls_may_be_parallel_is_yes_or_no() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": "no"}
    with pytest.raises(ApiError) as caught:
        read(user("Hi"), tools=tools("messages", "f"), tool_choice=choice)
    assert caught.value.path == "tool_choice.disable_parallel_tool_use"


def test_texts_that_stand_in_other_blocks() -> None:
    blocks = [
        {
            "type": "search_result",
            "title": "T",
            "source": "https://example.com",
            "content": [{"type": "text", "text": "Found."}],
        },
        {
            "type": "document",
            "title": "D",
            "context": "About it.",
            "source": {"type": "text", "media_type": "text/plain", "data": "Text."},
        },
        {"type": "document", "title": "P", "source": {"type": "file", "file_id": "f"}},
        {"type": "compaction", "content": "Before."},
    ]
    texts = "T\nhttps://example.com\n\nFound.\n\nD\n\nAbout it.\n\nText.\n\nP\n\n"
    assert f"{texts}[Unsupported Document]\n\nBefore.<" in prompt(
        "messages", body("messages", user(blocks))
    )
