"""Calls whose arguments do not fit their schema, on their way through the gateway."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from gateway import Gateway, gateway, gateway_before, run
from standins import ChatServer
from test_healing import PATHS, answer, folded, whole

from dsv4._cli.main import main
from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import Chunk, Model
from dsv4.serve.observe.logs import JsonFormatter
from dsv4.tokens import Tokenizer

pytest.importorskip("jsonschema_rs")

SCHEMA = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["file_path"],
    "additionalProperties": False,
}
WRITTEN = '{"filePath": 1.50, "limit": "3"}'
FITTED = '{"file_path": "1.50", "limit": 3}'
both_ways = pytest.mark.parametrize("stream", [True, False])


def body_for(path: str, name: str = "read", schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    if path == "/v1/messages":
        tools: list[Any] = [{"name": name, "input_schema": schema}]
        return {"messages": [user()], "tools": tools, "max_tokens": 500, **more}
    if path == "/v1/responses":
        return {"input": "Hi", "tools": [function(name, schema)], **more}
    tools = [{"type": "function", "function": function(name, schema)}]
    return {"messages": [user()], "tools": tools, **more}


def function(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": schema}


def user() -> dict[str, Any]:
    return {"role": "user", "content": "Hi"}


def calling(arguments: str = WRITTEN) -> str:
    """The answer of a chat server that calls the tool."""
    call = {"index": 0, "id": "call_1", "function": {"name": "read", "arguments": arguments}}
    return answer({"content": "I look."}, {"tool_calls": [call]}, finish="tool_calls")


class Engine:
    """A backend that writes one call, again and again."""

    grammar_form = None

    def __init__(self, **values: str) -> None:
        self.prompts: list[list[int]] = []
        self.text = (
            f"Hm.{THINK_END}I look.\n\n<{DSML}tool_calls>\n"
            f'<{DSML}invoke name="read">\n'
            + "".join(
                f'<{DSML}parameter name="{name}" string="false">{value}</{DSML}parameter>\n'
                for name, value in (values or {"filePath": "1.50", "limit": '"3"'}).items()
            )
            + f"</{DSML}invoke>\n</{DSML}tool_calls>{EOS}"
        )

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.prompts.append(list(ids))
        for start in range(0, len(self.text), 7):
            yield Chunk(self.text[start : start + 7])
        yield Chunk(finish="stop")

    async def models(self) -> list[Model]:
        return [Model("deepseek-v4-agent", 1_000_000)]

    async def aclose(self) -> None:
        pass


async def arguments_in(g: Gateway, path: str, stream: bool, body: dict[str, Any]) -> list[str]:
    """The arguments of the calls that a client gets."""
    if stream:
        told = folded(path, await g.stream(path, body))
    else:
        told = whole(path, (await g.post(path, body))[2])
    return [arguments for _, arguments in told["calls"]]


def same(sent: list[str], expected: str) -> bool:
    return [json.loads(each) for each in sent] == [json.loads(expected)]


class TestWhatIsSent:
    @both_ways
    @pytest.mark.parametrize("path", PATHS)
    def test_a_chat_server_s_call_is_made_to_fit(
        self, path: str, stream: bool, tokenizer: Tokenizer
    ) -> None:
        async def scenario() -> list[str]:
            async with gateway_before(ChatServer(tokenizer, calling()).running()) as g:
                return await arguments_in(g, path, stream, body_for(path))

        assert same(run(scenario()), FITTED)

    @both_ways
    @pytest.mark.parametrize("path", PATHS)
    def test_an_engine_s_call_is_made_to_fit(self, path: str, stream: bool) -> None:
        async def scenario() -> list[str]:
            async with gateway(Engine()) as g:
                return await arguments_in(g, path, stream, body_for(path))

        assert same(run(scenario()), FITTED)

    @both_ways
    @pytest.mark.parametrize("parallel", [True, False])
    def test_the_digits_are_those_that_the_model_wrote(self, stream: bool, parallel: bool) -> None:
        async def scenario() -> list[str]:
            async with gateway(Engine()) as g:
                body = body_for(PATHS[0], parallel_tool_calls=parallel)
                return await arguments_in(g, PATHS[0], stream, body)

        assert run(scenario()) == [FITTED]

    @both_ways
    @pytest.mark.parametrize(
        ("settings", "body"),
        [
            ({"fit_arguments": "off"}, body_for(PATHS[0])),
            ({}, body_for(PATHS[0], name="other")),
            ({}, body_for(PATHS[0], schema={"type": "objekt"})),
            ({}, body_for(PATHS[0], schema={"$ref": "http://127.0.0.1:9/s"})),
            ({}, body_for(PATHS[0], schema={**SCHEMA, "required": ["file_path", "more"]})),
        ],
    )
    def test_what_stays(self, settings: Any, body: Any, stream: bool, tokenizer: Tokenizer) -> None:
        async def scenario() -> list[str]:
            upstream = ChatServer(tokenizer, calling()).running()
            async with gateway_before(upstream, **settings) as g:
                return await arguments_in(g, PATHS[0], stream, body)

        assert run(scenario()) == [WRITTEN]

    def test_calls_that_are_streamed_stay_and_whole_answers_do_not(self) -> None:
        async def scenario() -> list[list[str]]:
            async with gateway(Engine(), calls="streamed") as g:
                body = body_for(PATHS[0])
                return [await arguments_in(g, PATHS[0], stream, body) for stream in (True, False)]

        streamed, complete = run(scenario())
        assert same(streamed, WRITTEN)
        assert complete == [FITTED]

    def test_a_custom_tool_has_its_text(self, tokenizer: Tokenizer) -> None:
        async def scenario() -> Any:
            upstream = ChatServer(tokenizer, calling('{"input": "5"}')).running()
            async with gateway_before(upstream) as g:
                body = {"input": "Hi", "tools": [{"type": "custom", "name": "read"}]}
                return (await g.post("/v1/responses", body))[2]["output"][-1]

        assert run(scenario())["input"] == "5"


def debugged(tokenizer: Tokenizer, arguments: str) -> tuple[list[Any], str, str]:
    """The diagnostics of a call, the metrics after it, and the summary of what was healed."""

    async def scenario() -> Any:
        upstream = ChatServer(tokenizer, calling(arguments)).running()
        async with gateway_before(upstream, debug=True) as g:
            headers = {"x-dsv4-debug": "1"}
            answered = (await g.post(PATHS[0], body_for(PATHS[0]), **headers))[2]
            found = answered["dsv4"]["diagnostics"]
            return found, (await g.get("/metrics"))[1], g.server.metrics.healing()

    diagnostics, metrics, summary = run(scenario())
    return [(each["kind"], each["raw"]) for each in diagnostics], metrics, summary


class TestWhatIsReported:
    def test_every_step(self, tokenizer: Tokenizer) -> None:
        found, metrics, summary = debugged(tokenizer, WRITTEN)
        assert sorted(found) == [
            ("fitted_arguments", "filePath: the key became file_path"),
            ("fitted_arguments", "file_path: a number became its digits"),
            ("fitted_arguments", "limit: a text became the JSON that it is"),
        ]
        assert 'dsv4_healed_answers_total{kind="fitted_arguments"} 1.0' in metrics
        assert summary == "1 of 1 answer had arguments that were made to fit"

    def test_what_does_not_fit(self, tokenizer: Tokenizer) -> None:
        found, metrics, summary = debugged(tokenizer, '{"file_path": "a", "limit": "few"}')
        assert found == [("arguments_do_not_fit", 'limit: "few" is not of type "integer"')]
        assert 'dsv4_repairs_total{kind="arguments_do_not_fit"} 1.0' in metrics
        assert summary == "1 answer, none in need of healing"

    @pytest.mark.parametrize(("written", "repairs"), [('{"limit": "few"}', 0), (WRITTEN, 3)])
    def test_the_log_counts_what_was_made_to_fit(
        self, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture, written: str, repairs: int
    ) -> None:
        with caplog.at_level(logging.INFO, "dsv4.serve"):
            debugged(tokenizer, written)
        lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
        counted = (line for line in lines if line.get("path") in (PATHS[0], None))
        counts = [line["repairs"] for line in counted if "repairs" in line]
        assert counts == [repairs, repairs]  # of the request, and of the summary at the end

    def test_nothing_of_what_fits(self, tokenizer: Tokenizer) -> None:
        assert debugged(tokenizer, FITTED)[0] == []


class TestWhatIsKept:
    @pytest.mark.parametrize("heals", [True, False])
    def test_records_have_what_the_model_wrote(
        self, heals: bool, tmp_path: Path, tokenizer: Tokenizer
    ) -> None:
        record = tmp_path / "record.jsonl"

        async def scenario() -> None:
            upstream = ChatServer(tokenizer, calling()).running()
            own = gateway(Engine(), record=str(record))
            async with gateway_before(upstream, record=str(record)) if heals else own as g:
                await g.post(PATHS[0], body_for(PATHS[0]))

        run(scenario())
        [line] = record.read_text("utf-8").splitlines()
        [call] = json.loads(line)["message"]["tool_calls"]
        assert same([call["function"]["arguments"]], WRITTEN)
        assert main(["replay", str(record)]) == 0

    @pytest.mark.parametrize("path", PATHS)
    def test_a_turn_that_comes_back_is_the_one_that_was_sampled(
        self, path: str, tokenizer: Tokenizer
    ) -> None:
        engine = Engine()

        async def scenario() -> None:
            async with gateway(engine) as g:
                body = body_for(path)
                answered = (await g.post(path, body))[2]
                await g.post(path, {**body, **continued(path, body, answered)})

        run(scenario())
        first, second = engine.prompts
        assert second[: len(first)] == first
        assert tokenizer.decode(second).startswith(tokenizer.decode(first) + engine.text)

    def test_a_chat_server_gets_back_what_it_wrote(self, tokenizer: Tokenizer) -> None:
        upstream = ChatServer(tokenizer, calling())

        async def scenario() -> None:
            async with gateway_before(upstream.running(), adapt_for="deepseek-api") as g:
                body = body_for(PATHS[0])
                answered = (await g.post(PATHS[0], body))[2]
                await g.post(PATHS[0], {**body, **continued(PATHS[0], body, answered)})

        run(scenario())
        [call] = upstream.requests[-1]["messages"][1]["tool_calls"]
        assert call["function"]["arguments"] == WRITTEN


def continued(path: str, body: dict[str, Any], answered: dict[str, Any]) -> dict[str, Any]:
    """The request that follows an answer, with the result of its call."""
    if path == "/v1/responses":
        id = answered["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": id, "output": "ok"}
        return {"input": [{**user(), "type": "message"}, *answered["output"], result]}
    if path == "/v1/messages":
        turn = {"role": "assistant", "content": answered["content"]}
        id = answered["content"][-1]["id"]
        block = {"type": "tool_result", "tool_use_id": id, "content": "ok"}
        return {"messages": [*body["messages"], turn, {"role": "user", "content": [block]}]}
    message = answered["choices"][0]["message"]
    id = message["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": id, "content": "ok"}
    return {"messages": [*body["messages"], message, result]}
