"""Why two servers write different prompts, and the traps of each."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests_of import ROWS, mutated

import dsv4
from dsv4 import profiles
from dsv4.profiles.comparison import DIFFERENCE_COLUMNS, DIFFERENCES
from loading import ROOT, loaded
from parts import part
from rows import each_row

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}


def call(id: str, arguments: str | None = None) -> dict[str, Any]:
    arguments = f'{{"a": "{id}"}}' if arguments is None else arguments
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def calling(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "r"} for c in calls]
    return [USER, {"role": "assistant", "content": "", "tool_calls": list(calls)}, *results]


def kinds(body: Any, first: str, second: str, dialect: str = "v4") -> list[str]:
    return [r.kind for r in profiles.compare(body, first, second, dialect=dialect).reasons]


class TestComparing:
    def test_the_same_prompt_needs_no_reason(self) -> None:
        compared = profiles.compare([USER], "vllm-0.32", "deepseek-api")
        assert compared.same
        assert compared.reasons == ()

    def test_different_prompts_always_have_a_reason(self) -> None:
        for row in part(ROWS, 3):
            names = [name for name, recorded in row["profiles"].items() if recorded is not None]
            for pair in combinations(names, 2):
                compared = profiles.compare(row["request"], *pair, dialect=row["dialect"])
                assert compared.same == (not compared.reasons)

    @given(st.integers(0, 2**32), st.sampled_from(["v4", "v4.1"]))
    def test_so_with_any_request(self, seed: int, dialect: str) -> None:
        body = mutated(seed)
        for pair in combinations(profiles.PROFILES, 2):
            compared = profiles.compare(body, *pair, dialect=dialect)
            assert compared.same == (not compared.reasons)

    def test_where_they_part(self) -> None:
        compared = profiles.compare([USER], "vllm-0.32", "sglang-0.5.23")
        assert compared.shared == len("<｜begin▁of▁sentence｜>")

    @pytest.mark.parametrize(
        ("body", "first", "second", "expected"),
        [
            ({}, "vllm-0.32", "sglang-0.5.23", ["thinking"]),
            ({"reasoning_effort": "medium"}, "vllm-0.32", "recipe-0.2.0", ["effort"]),
            ({"response_format": {"type": "text"}}, "vllm-0.33", "dynamo-1.6", ["text-format"]),
            ({"messages": calling(call("b"), call("a"))}, "vllm-0.32", "recipe-0.2.0",
             ["calls-order", "reasoning-old"]),
            ({"messages": calling(call("a", "x"))}, "vllm-0.32", "recipe-0.2.0",
             ["arguments-malformed", "reasoning-old"]),
            ({"tools": [TOOL], "tool_choice": "none"}, "vllm-0.32", "sglang-0.5.23",
             ["thinking", "tools-place", "choice-none"]),
        ],
    )  # fmt: skip
    def test_reasons(self, body: Any, first: str, second: str, expected: list[str]) -> None:
        assert kinds({"messages": [USER], **body}, first, second) == expected

    def test_a_reason_names_both_servers_and_the_place(self) -> None:
        body = {"messages": calling(call("b"), call("a")), "tools": [TOOL]}
        (reason,) = (
            reason
            for reason in profiles.compare(body, "vllm-0.32", "sglang-0.5.23").reasons
            if reason.kind == "calls-order"
        )
        assert reason.location == ("messages", 1, "tool_calls")
        assert reason.message == (
            "parallel calls. vLLM 0.32: as given; "
            "SGLang 0.5.23: sorted by id, and their results too"
        )

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (
                {"messages": [USER, {"role": "narrator", "content": "x"}]},
                ["refused", "role-unknown"],
            ),
            ({"json_schema": {"type": "object"}}, ["json-schema-own"]),
            ({"add_generation_prompt": False}, ["generation-prompt"]),
            ({"messages": []}, ["messages-none"]),
        ],
    )
    def test_what_only_llama_cpp_does(self, body: Any, expected: list[str]) -> None:
        asked = {"messages": [USER], "reasoning_effort": "low", **body}
        assert kinds(asked, "vllm-0.32", "llama.cpp-2026.10") == expected

    def test_a_newer_release_of_a_server_differs_too(self) -> None:
        body = {"messages": [USER], "response_format": {"type": "json_object"}}
        assert kinds(body, "llama.cpp", "llama.cpp-2026.10") == ["json-object"]

    def test_a_refusal(self) -> None:
        body = {"messages": [{"role": "developer", "content": "x"}]}
        compared = profiles.compare(body, "vllm-0.32", "recipe-0.2.0")
        assert compared.second.prompt is None
        assert compared.reasons[0].kind == "refused"
        assert compared.reasons[0].location == ("messages", 0, "role")

    @pytest.mark.parametrize("wrong", [{"second": "x"}, {"dialect": "v3.2"}])
    def test_names_that_are_not_known(self, wrong: dict[str, str]) -> None:
        options = {"first": "vllm-0.32", "second": "llama.cpp", **wrong}
        with pytest.raises(dsv4.EncodeError):
            profiles.compare([USER], **options)  # type: ignore[arg-type]


class TestTraps:
    @staticmethod
    def kinds(body: Any, name: str, dialect: str = "v4") -> list[str]:
        return [trap.kind for trap in profiles.traps(body, name, dialect=dialect)]

    @each_row(
        "body, name, kind",
        [
            ({"messages": [{"role": "developer", "content": "x"}, USER]},
             "vllm-0.32", "developer-vanishes"),
            ({}, "sglang-0.5.23", "thinking-off"),
            ({"thinking": {"type": "disabled"}}, "vllm-0.32", "thinking-ignored"),
            ({"chat_template_kwargs": {"thinking": False}}, "deepseek-api", "kwargs-ignored"),
            ({"reasoning_effort": "medium"}, "vllm-0.32", "effort-medium"),
            ({}, "vllm-0.32", "effort-default"),
            ({}, "recipe-0.2.0", "effort-default"),
            ({"chat_template_kwargs": {"thinking": True}}, "sglang-0.5.23", "effort-default"),
            ({"reasoning_effort": "xhigh"}, "llama.cpp", "effort-unwritten"),
            ({"model": "DeepSeek-V4-Pro"}, "vllm-0.32", "effort-revised"),
            ({"model": "DeepSeek-V4-Pro", "reasoning_effort": "max"},
             "sglang-0.5.23", "effort-revised"),
            ({"messages": calling(call("a", "x"))}, "vllm-0.32", "arguments-lost"),
            ({"messages": calling(call("b"), call("a"))}, "recipe-0.2.0", "calls-reordered"),
            ({"response_format": {"type": "json_object"}}, "vllm-0.32", "response-format-unseen"),
            ({"tools": [TOOL], "tool_choice": "none"}, "vllm-0.32", "tools-shown"),
            ({"messages": calling(call("a", '{"x": 0.1234567}'))}, "llama.cpp", "floats-rounded"),
        ],
    )  # fmt: skip
    def test_each(self, body: Any, name: str, kind: str) -> None:
        assert kind in self.kinds({"messages": [USER], **body}, name)

    @pytest.mark.parametrize("name", profiles.PROFILES)
    def test_an_answer_at_the_end_is_a_trap_everywhere(self, name: str) -> None:
        messages = [USER, {"role": "assistant", "content": "Hel"}]
        (trap,) = (t for t in profiles.traps(messages, name) if t.kind == "answer-last")
        assert trap.location == ("messages", 1)

    @each_row(
        "body, name",
        [
            ({"reasoning_effort": "low"}, "vllm-0.32"),
            ({"chat_template_kwargs": {"thinking": False}}, "vllm-0.32"),
            ({"chat_template_kwargs": {"reasoning_effort": "high"}}, "vllm-0.32"),
            ({"thinking": {"type": "disabled"}}, "recipe-0.2.0"),
            ({}, "llama.cpp"),
            ({"model": "DeepSeek-V4-Pro-0813", "reasoning_effort": "high"}, "vllm-0.32"),
            ({"tools": [TOOL], "reasoning_effort": "low"}, "vllm-0.32"),
            ({"model": "DeepSeek-V4-Pro", "reasoning_effort": "low"}, "vllm-0.32"),
            ({"reasoning_effort": "high"}, "sglang-0.5.23"),
            ({"chat_template_kwargs": {"thinking": False}}, "sglang-0.5.23"),
            (
                {"messages": [{"role": "developer", "content": "x"}], "reasoning_effort": "low"},
                "vllm-0.32",
            ),
            (
                {"messages": calling(call("a"), call("b")), "reasoning_effort": "low"},
                "recipe-0.2.0",
            ),
            ({"messages": calling(call("a", '{"x": 0.5}'))}, "llama.cpp"),
            ({"messages": calling(call("a", '{"x": 9223372036854775807}'))}, "llama.cpp-2026.10"),
        ],
    )
    def test_plain_requests_have_none(self, body: Any, name: str) -> None:
        assert self.kinds({"messages": [USER], **body}, name) == []

    def test_calls_keep_their_order_on_v4_1(self) -> None:
        body = {"messages": calling(call("b"), call("a"))}
        assert "calls-reordered" not in self.kinds(body, "recipe-0.2.0", "v4.1")

    def test_a_refusal(self) -> None:
        (trap,) = profiles.traps({"messages": [USER], "tools": []}, "vllm-0.32")
        assert (trap.kind, trap.location) == ("refused", ("tools",))
        assert trap.message.startswith("vLLM 0.32 refuses the request: tools: found an empty list")

    def test_half_a_character_in_arguments_is_refused_by_the_tokenizer(self) -> None:
        for arguments, refused in [('{"a": "\\ud800"}', True), ('{"a": "\\ud83d\\ude00"}', False)]:
            body = {"messages": calling(call("a", arguments))}
            assert ("refused" in self.kinds(body, "vllm-0.32")) == refused

    @given(st.integers(0, 2**32), st.sampled_from(list(profiles.PROFILES)))
    def test_any_request(self, seed: int, name: str) -> None:
        for dialect in ("v4", "v4.1"):
            profiles.traps(mutated(seed), name, dialect=dialect)


class TestThePage:
    """The site's page of servers shows the table that the comparison speaks from."""

    SITE = loaded("scripts/site.py")

    def test_it_has_a_row_for_each_topic(self) -> None:
        _, _, *rows = self.SITE.differences_table().splitlines()
        assert [row.split(" | ")[0] for row in rows] == [
            f"| {topic.title}" for topic in DIFFERENCES
        ]
        assert {row.replace("\\|", "").count("|") for row in rows} == {len(DIFFERENCE_COLUMNS) + 2}

    def test_it_has_a_place_on_the_page(self) -> None:
        assert self.SITE.DIFFERENCES_HERE in (ROOT / "docs/servers.md").read_text("utf-8")
