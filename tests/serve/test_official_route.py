"""The stand-in for the official API: its refusals, routes, models and counts."""

from __future__ import annotations

from typing import Any

import pytest
from gateway import gateway, run

from dsv4.profiles import official_api
from dsv4.serve import Settings
from dsv4.serve.served_model import ServedModel
from dsv4.serve.settings import SettingError
from loading import loaded

PATHS = {
    "chat": "/beta/chat/completions",
    "messages": "/anthropic/v1/messages",
    "responses": "/responses",
}
USER = {"role": "user", "content": "hi"}


def test_status_and_words_of_every_row() -> None:
    """The rows of tests/profiles/test_official_api.py, through HTTP."""
    recorded = loaded("tests/profiles/test_official_api.py")

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            for row in recorded.ROWS:
                status, _, answer = await g.post(PATHS[row["protocol"]], row["body"])
                wanted, said = recorded.answer(row["body"], row["protocol"])
                if row["reject"]:  # as the API was asked, so its own answer is the oracle
                    wanted, words = recorded.expected(row)
                    said = words or said
                assert status == wanted, row["body"]
                if status == 400:
                    kind = "invalid_request_error"
                    error = {"message": said, "type": kind, "param": None, "code": kind}
                    assert answer == {"error": error}

    run(scenario(), 300)


def test_status_and_words_of_every_rule() -> None:
    """The rows of tests/profiles/official_rules.jsonl, through HTTP."""
    table = loaded("tests/profiles/test_official_rules.py")

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            for row in table.ROWS:
                for model in row["models"]:
                    body = {"model": model, **row["body"]}
                    status, _, answer = await g.post(PATHS[row["protocol"]], body)
                    assert status == row["status"], (answer, row["body"])
                    if "words" in row:
                        assert answer["error"]["message"] == row["words"]

    run(scenario(), 300)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("deepseek-flash", 31),
        ("deepseek-v4-flash", 31),
        ("deepseek-v4-flash-vision-exp", 31),
        ("deepseek-v4-pro", 84),
    ],
)
def test_counts_and_their_fields(model: str, tokens: int) -> None:
    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            body = {"model": model, "messages": [USER]}
            usages = []
            for path in ("/chat/completions", "/v1/chat/completions"):
                _, _, answer = await g.post(path, body)
                usages.append(answer["usage"])
            assert [usage["prompt_tokens"] for usage in usages] == [tokens, tokens]
            assert usages[0]["prompt_cache_hit_tokens"] == 0
            for usage in usages:
                hit, miss = usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]
                assert hit + miss == tokens
                assert usage["prompt_tokens_details"] == {"cached_tokens": hit}
                assert usage["completion_tokens_details"]["reasoning_tokens"] > 0

    run(scenario())


def test_a_prefix_is_taken_under_beta_alone() -> None:
    messages = [USER, {"role": "assistant", "content": "He", "prefix": True}]

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            body = {"model": "deepseek-flash", "messages": messages}
            assert (await g.post("/beta/chat/completions", body))[0] == 200
            status, _, answer = await g.post("/chat/completions", body)
            assert (status, answer["error"]["message"]) == (400, official_api.words("prefix-beta"))

    run(scenario())


def test_the_context_holds_the_prompt_and_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServedModel, "context", 64)

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            body = {"model": "deepseek-flash", "messages": [USER]}
            assert (await g.post("/chat/completions", body))[0] == 200
            assert (await g.post("/chat/completions", {**body, "max_tokens": 33}))[0] == 200
            status, _, answer = await g.post("/chat/completions", {**body, "max_tokens": 34})
            asked = {"context": 64, "total": 65, "prompt": 31, "completion": 34}
            assert (status, answer["error"]["message"]) == (
                400,
                official_api.words("window", **asked),
            )
            long = {**body, "messages": [{"role": "user", "content": "hi " * 99}]}
            status, _, answer = await g.post("/chat/completions", long)
            assert status == 400
            assert "maximum context length is 64 tokens" in answer["error"]["message"]

    run(scenario())


def test_its_models_are_the_apis() -> None:
    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            _, listed = await g.get("/models")
            assert [model["id"] for model in listed["data"]] == list(official_api.LISTED_NAMES)
            assert {model["owned_by"] for model in listed["data"]} == {"deepseek"}

    run(scenario())


@pytest.mark.parametrize(
    ("model", "dialect"), [("deepseek-flash", "v4.1-1017"), ("deepseek-v4-pro", "v4-0731")]
)
def test_the_header_names_the_dialect_of_the_model(model: str, dialect: str) -> None:
    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            _, headers, _ = await g.post("/chat/completions", {"model": model, "messages": [USER]})
            assert headers["x-dsv4-dialect"].startswith(f"{dialect}, effort high, ")

    run(scenario())


def test_a_loop_must_bring_its_reasoning_back() -> None:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "bash", "parameters": schema}}

    async def scenario() -> None:
        async with gateway(stand_in="deepseek-api") as g:
            asked = {"role": "user", "content": "RUN: ls"}
            body: dict[str, Any] = {"model": "deepseek-flash", "messages": [asked], "tools": [tool]}
            _, _, answer = await g.post("/chat/completions", body)
            turn = answer["choices"][0]["message"]
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "ok"}
                for call in turn["tool_calls"]
            ]
            again = {**body, "messages": [asked, turn, *results]}
            assert (await g.post("/chat/completions", again))[0] == 200
            bare = {name: value for name, value in turn.items() if name != "reasoning_content"}
            status, _, refused = await g.post(
                "/chat/completions", {**body, "messages": [asked, bare, *results]}
            )
            assert (status, refused["error"]["message"]) == (400, official_api.words("reasoning"))

    run(scenario())


def test_it_stands_in_for_no_other_server() -> None:
    with pytest.raises(SettingError, match="as: found 'vllm', expected deepseek-api"):
        Settings(stand_in="vllm")
