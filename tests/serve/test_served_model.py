"""Which release the model behind the gateway is of, and what the gateway says about it."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from gateway import gateway, gateway_before, run
from standins import ChatServer, VllmServer, in_a_thread

from dsv4 import DIALECTS
from dsv4.profiles.official_api import dialect_at
from dsv4.serve import Model
from dsv4.serve.served_model import (
    ServedModel,
    dialect_of_model,
    dialect_problem,
    model_asked_for,
    prompt_facts,
)
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.workers.uvicorn_runner import serve
from dsv4.tokens import Tokenizer

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def settings(**given: Any) -> Settings:
    return Settings(**{"backend": "vllm", "upstream": "http://gpu", **given})


class TestDialect:
    @pytest.mark.parametrize(
        ("name", "checkpoints", "dialect"),
        [
            ("DeepSeek-V4.1", (), "v4.1"),
            ("my-model", ("/models/DeepSeek-V4-Pro-0813",), "v4-0731"),
            # What was loaded says more than what an operator called it.
            ("deepseek-v4", ("deepseek-ai/DeepSeek-V4-Flash-0731",), "v4-0731"),
            ("deepseek-v4", ("/models/checkpoint",), "v4"),
        ],
    )
    def test_told_by_a_name(self, name: str, checkpoints: tuple[str, ...], dialect: str) -> None:
        found = dialect_of_model(Model(name, None, checkpoints))
        assert found is DIALECTS[dialect]

    @pytest.mark.parametrize("url", ["https://api.deepseek.com", "https://API.deepseek.com/v1"])
    def test_the_official_api_goes_by_the_name_of_the_model(self, url: str) -> None:
        def served(name: str, **given: Any) -> str:
            model = ServedModel(settings(upstream=url, **given), None, makes_prompts=False)
            model.note([Model(name)])
            return str(model.dialect)

        assert served("deepseek-v4-pro") == "v4-0731"
        assert served("deepseek-flash") == served("deepseek-v4-flash") == "v4.1-1017"
        assert served("deepseek-flash", dialect="v4") == "v4"
        assert dialect_at(["http://api.deepseek.com.example"], "deepseek-flash") is None

    def test_told_by_the_name_that_the_operator_reports(self) -> None:
        assert dialect_of_model(Model("m"), "deepseek-v4.1") is DIALECTS["v4.1"]
        assert dialect_of_model(Model("m")) is None

    def test_a_name_that_tells_nothing_asks_for_the_dialect(self) -> None:
        problem = dialect_problem(Model("m", None, ("/models/m",)), settings())
        assert problem == (
            "no dialect is known for the model 'm', '/models/m' of the backend, "
            f"expected --dialect with one of {', '.join(DIALECTS)}"
        )

    def test_a_backend_that_names_no_model_has_told_nothing_wrong(self) -> None:
        assert dialect_problem(Model("default"), settings()) == ""
        assert dialect_problem(Model("tiny"), Settings()) == ""

    def test_the_model_that_requests_go_to_counts(self) -> None:
        models = [Model("a"), Model("DeepSeek-V4.1", 5)]
        assert model_asked_for(models, None).name == "DeepSeek-V4.1"
        assert model_asked_for([Model("a"), Model("b")], None).name == "a"
        assert model_asked_for([], None).name == "default"
        assert model_asked_for(models, "DeepSeek-V4.1").context == 5
        assert model_asked_for(models, "DeepSeek-V3.2") == Model("DeepSeek-V3.2")


class UnknownVllm(VllmServer):
    """A server whose model has a name that tells nothing."""

    root: str | None = None

    async def list_models(self, request: web.Request) -> web.Response:
        model = {"id": "our-model", "object": "model", "root": self.root}
        return web.json_response({"object": "list", "data": [model]})


class TestGateway:
    def test_the_checkpoint_of_an_engine_tells(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            upstream = UnknownVllm(tokenizer, "Hm.")
            upstream.root = "deepseek-ai/DeepSeek-V4-Pro-0813"
            async with (
                upstream.running() as url,
                gateway(settings_backend="vllm", upstream=url) as g,
            ):
                status, ready = await g.get("/ready")
                assert status == 200
                assert (ready["dialect"], ready["effort"]) == ("v4-0731", "high")
                assert ready["effort_text"].startswith('"Reasoning Effort: ')
                assert (await g.get("/v1/models"))[1]["data"][0]["max_model_len"] == 1_048_576

        run(scenario())

    def test_no_prompt_is_made_on_a_guess(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            upstream = UnknownVllm(tokenizer, "Hm.")
            async with (
                upstream.running() as url,
                gateway(settings_backend="vllm", upstream=url) as g,
            ):
                for status, body in (
                    await g.get("/ready"),
                    (await g.post("/v1/chat/completions", CHAT))[::2],
                ):
                    assert status in (500, 503)
                    assert "expected --dialect" in body["error"]["message"]
                assert upstream.requests == []

        run(scenario())

    def test_the_server_does_not_start_on_a_guess(self, tokenizer: Tokenizer) -> None:
        with (
            in_a_thread(UnknownVllm(tokenizer, "Hm.")) as (url,),
            pytest.raises(SettingError, match="dialect: no dialect is known for the model"),
        ):
            serve(settings(upstream=url, port=0), print)

    def test_healing_needs_no_name(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> None:
            chunk = '[{"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}]'
            upstream = ChatServer(tokenizer, chunk)
            async with gateway_before(upstream.running()) as g:
                status, headers, _ = await g.post("/v1/chat/completions", CHAT)
                assert status == 200
                assert headers["x-dsv4-dialect"] == "v4, effort high, no text"
                assert "'leaky'" in g.server.model.dialect_problem

        run(scenario())


class TestFacts:
    @pytest.mark.parametrize(
        ("dialect", "given", "expected"),
        [
            ("v4", {}, "v4, effort high, no text"),
            (
                "v4-0731",
                {},
                'v4-0731, effort high, "Reasoning Effort: Absolute maximum with no shortcuts',
            ),
            ("v4.1", {"effort": "low"}, 'v4.1, effort low, "Reasoning Effort: 50 (range 1-100,'),
            ("v4.1", {"thinking": False}, "v4.1, effort none, no text: thinking is off"),
        ],
    )
    def test_in_short(self, dialect: str, given: Any, expected: str) -> None:
        facts = prompt_facts(DIALECTS[dialect], settings(**given))
        assert facts.in_short.startswith(expected)
        assert facts.in_short.isascii()

    def test_contexts(self) -> None:
        assert DIALECTS["v4-0731"].context == 1_048_576
        assert DIALECTS["v3.2"].context == 131_072
