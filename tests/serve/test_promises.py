"""What the server promises its clients, each promise over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway import TOOLS, events_of, gateway, run
from standins import CompletionsServer, Scripted, SglangServer, VllmServer

from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve import BackendError, Chunk, Logprob
from dsv4.serve.body_limits import MOST_LEVELS, MOST_MESSAGES, MOST_TOOLS
from dsv4.tokens import Tokenizer
from small_vocabulary import write_small_vocabulary

HI = [{"role": "user", "content": "Hi"}]
CHAT: dict[str, Any] = {"messages": HI}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": {"messages": HI, "max_tokens": 100},
    "/v1/responses": {"input": "Hi"},
}
TWO_CALLS = f"Hm.{THINK_END}Both.\n\n<{DSML}tool_calls>\n" + "".join(
    f'<{DSML}invoke name="bash">\n<{DSML}parameter name="command" string="true">{n}'
    f"</{DSML}parameter>\n</{DSML}invoke>\n"
    for n in ("one", "two")
)
TWO_CALLS += f"</{DSML}tool_calls>{EOS}"
# A schema that nothing fits.
NO_VALUES = {"type": "object", "properties": {"a": {"enum": []}}}
every_path = pytest.mark.parametrize("path", BODIES)


def tools_for(path: str) -> list[dict[str, Any]]:
    function = TOOLS[0]["function"]
    if path == "/v1/messages":
        return [{"name": "bash", "input_schema": function["parameters"]}]
    return [{"type": "function", **function}] if path == "/v1/responses" else TOOLS


# Names of models, dialects, contexts.


@every_path
def test_any_model_name_is_echoed_unless_only_the_announced_one_is_taken(path: str) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            _, _, answer = await g.post(path, {**BODIES[path], "model": "claude-opus-9"})
            assert answer["model"] == "claude-opus-9"
        async with gateway(strict_models=True, model="mine") as g:
            status, _, answer = await g.post(path, {**BODIES[path], "model": "claude-opus-9"})
            assert status == 404
            assert "mine" in answer["error"]["message"]
            assert (await g.post(path, {**BODIES[path], "model": "mine"}))[0] == 200
            assert (await g.get("/v1/models/mine"))[0] == 200
            assert (await g.get("/v1/models/other"))[0] == 404

    run(scenario())


def test_dialect_and_context_come_from_the_backend_unless_they_are_set(
    tokenizer: Tokenizer,
) -> None:
    async def scenario() -> None:
        server = SglangServer(tokenizer, EOS)
        async with server.running() as url:
            settings: Any = {"settings_backend": "sglang", "upstream": url}
            async with gateway(**settings) as g:
                assert str(g.server.model.dialect) == "v4.1"
                assert g.server.model.context == 32768
                _, models = await g.get("/v1/models")
                assert models["data"][0]["max_model_len"] == 32768
            async with gateway(**settings, dialect="v4", context=500) as g:
                assert (str(g.server.model.dialect), g.server.model.context) == ("v4", 500)

    run(scenario())


@every_path
def test_a_vocabulary_that_does_not_fit_is_named(path: str, tmp_path: Path) -> None:
    file = str(write_small_vocabulary(tmp_path / "tokenizer.json"))

    async def scenario() -> None:
        async with gateway(dialect="v4.1", tokenizer=file) as g:
            status, _, answer = await g.post(path, BODIES[path])
            assert status == 500
            assert "does not fit v4.1" in answer["error"]["message"]
            assert "--tokenizer" in answer["error"]["message"]

    run(scenario())


# Plain routes.


def test_a_backend_that_comes_later_is_met_by_whatever_is_asked_first(
    tokenizer: Tokenizer,
) -> None:
    async def scenario() -> None:
        for path in ("/v1/models", "/v1/messages/count_tokens"):
            backend = Scripted()
            backend.models = late(backend.models)  # type: ignore[method-assign]
            async with gateway(backend) as g:
                assert g.server.model.name != "deepseek-v4-scripted"
                await (g.get(path) if path == "/v1/models" else g.post(path, CHAT))
                assert g.server.model.name == "deepseek-v4-scripted"

    run(scenario())


def late(answer: Any) -> Any:
    """A function of no arguments, which fails when it is first called."""
    answers = iter([BackendError("not there yet", 503)])

    async def models() -> Any:
        for error in answers:
            raise error
        return await answer()

    return models


def test_heads_query_strings_and_upgrades() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            for path in ("/", "/api/hello", "/health", "/v1/models"):
                async with g.client.head(f"{g.url}{path}?x=1") as response:
                    assert response.status == 200
                    assert await response.read() == b""
            upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
            async with g.client.get(f"{g.url}/v1/responses", headers=upgrade) as response:
                assert response.status in (404, 405, 426)
            async with g.client.get(f"{g.url}/v1/chat/completions") as response:
                assert response.status == 405

    run(scenario())


def test_pages_of_other_origins_are_let_in_only_by_name() -> None:
    asks = {"origin": "http://page", "access-control-request-method": "POST"}

    async def scenario() -> None:
        async with gateway() as g:
            async with g.client.options(f"{g.url}/v1/messages", headers=asks) as response:
                assert "access-control-allow-origin" not in response.headers
            _, headers, _ = await g.post(
                "/v1/messages", BODIES["/v1/messages"], origin="http://page"
            )
            assert "access-control-allow-origin" not in headers
        async with gateway(cors_origins=("http://page",)) as g:
            async with g.client.options(f"{g.url}/v1/messages", headers=asks) as response:
                assert response.headers["access-control-allow-origin"] == "http://page"
            other = {**asks, "origin": "http://other"}
            async with g.client.options(f"{g.url}/v1/messages", headers=other) as response:
                assert "access-control-allow-origin" not in response.headers

    run(scenario())


@every_path
def test_a_look_inside_is_given_where_the_server_allows_it(path: str) -> None:
    wants = {"x-dsv4-debug": "1"}

    async def scenario() -> None:
        async with gateway(debug=True) as g:
            _, _, whole = await g.post(path, BODIES[path], **wants)
            assert whole["dsv4"]["prompt"].endswith("<think>")
            assert THINK_END in whole["dsv4"]["completion"][0]
            assert whole["dsv4"]["diagnostics"] == []
            events = [e for e in await g.stream(path, BODIES[path], **wants) if e != "[DONE]"]
            assert events[-1]["dsv4"]["prompt"] == whole["dsv4"]["prompt"]
            assert "dsv4" not in (await g.post(path, BODIES[path]))[2]
        async with gateway() as g:
            assert "dsv4" not in (await g.post(path, BODIES[path], **wants))[2]

    run(scenario())


def test_metrics_count_what_happened() -> None:
    async def scenario() -> None:
        async with gateway() as g:
            await g.stream("/v1/chat/completions", CHAT)
            await g.post("/v1/messages", BODIES["/v1/messages"])
            await g.post("/v1/messages", b"{")
            _, text = await g.get("/metrics")
            assert 'dsv4_requests_total{protocol="chat",status="200"} 1.0' in text
            assert 'dsv4_requests_total{protocol="messages",status="400"} 1.0' in text
            assert "dsv4_first_token_seconds_count 2.0" in text
            assert "dsv4_request_seconds_count 2.0" in text
            assert "dsv4_streams_running 0.0" in text

    run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_failures_of_the_backend_are_counted(stream: bool) -> None:
    async def scenario() -> None:
        early, late = (BackendError("down", 503),), ("Hm", BackendError("gone", 502))
        for script, counted in ((early, "503"), (late, "502")):
            async with gateway(Scripted(*script)) as g:
                data = json.dumps({**CHAT, "stream": stream})
                async with g.client.post(g.url + "/v1/chat/completions", data=data) as response:
                    with suppress(aiohttp.ClientPayloadError):
                        await response.read()
                metrics = (await g.get("/metrics"))[1]
                assert f'dsv4_backend_errors_total{{status="{counted}"}} 1.0' in metrics

    run(scenario())


def test_what_clients_say_is_not_logged(caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    async def scenario() -> None:
        async with gateway() as g:
            secret = {"messages": [{"role": "user", "content": "xyzzy-secret"}]}
            await g.post("/v1/chat/completions", secret)
            await g.post("/v1/chat/completions", {**secret, "temperature": "xyzzy-hot"})

    with caplog.at_level(logging.DEBUG):
        run(scenario())
    out, err = capfd.readouterr()
    assert "xyzzy" not in caplog.text + out + err


# Limits.


@every_path
def test_more_than_the_bounds_is_refused(path: str) -> None:
    name = "input" if path == "/v1/responses" else "messages"

    async def scenario() -> None:
        async with gateway() as g:
            tools = tools_for(path) * (MOST_TOOLS + 1)
            for n, tool in enumerate(tools):
                tools[n] = json.loads(json.dumps(tool).replace("bash", f"bash{n}"))
            deep: Any = "x"
            for _ in range(MOST_LEVELS + 3):
                deep = [deep]
            for more in (
                {name: HI * (MOST_MESSAGES + 1)},
                {"tools": tools},
                {"metadata": {"deep": deep}},
            ):
                status, headers, body = await g.post(path, {**BODIES[path], **more})
                assert status == 400, body
                assert headers["x-should-retry"] == "false"
            fits = {name: HI * 3, "tools": tools[:2], "metadata": {"a": "b"}}
            assert (await g.post(path, {**BODIES[path], **fits}))[0] == 200

    run(scenario())


def test_a_generation_may_take_only_so_long() -> None:
    async def scenario() -> None:
        backend = Scripted(*([0.02, "more "] * 500))
        async with gateway(backend, total_timeout=0.3) as g:
            status, _, body = await g.post("/v1/chat/completions", CHAT)
            assert status == 504
            assert "total_timeout" in body["error"]["message"]

    run(scenario())


@every_path
def test_load_is_answered_with_a_short_wait(path: str) -> None:
    async def scenario() -> None:
        may_end = asyncio.Event()
        backend = Scripted(may_end, f"{THINK_END}Hi{EOS}")
        async with gateway(backend, streams=1, queue=0) as g:
            first = asyncio.create_task(g.post(path, BODIES[path]))
            while not backend.open:
                await asyncio.sleep(0.01)
            status, headers, body = await g.post(path, {**BODIES[path], "stream": True})
            assert status == 429
            assert int(headers["retry-after"]) <= 5
            assert headers["x-should-retry"] == "true"
            assert body["error"]["type"] == "rate_limit_error"
            may_end.set()
            assert (await first)[0] == 200

    run(scenario())


@every_path
def test_the_wait_that_a_backend_asks_for_is_passed_on(path: str) -> None:
    async def scenario() -> None:
        async with gateway(Scripted(BackendError("loading", 503, 7.0))) as g:
            status, headers, _ = await g.post(path, BODIES[path])
            assert (status, headers["retry-after"]) == (503, "7")

    run(scenario())


# Overflow of the context.


def test_codex_is_told_of_an_overflow_in_its_stream() -> None:
    long = {"input": "word " * 300, "stream": True}

    async def scenario() -> None:
        async with gateway(context=100) as g:
            status, _, text = await g.post("/v1/responses", long, originator="codex_cli_rs")
            assert status == 200
            events = events_of(text)
            assert events[-1]["type"] == "response.failed"
            assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
            assert [e["sequence_number"] for e in events] == list(range(len(events)))
            # Others act on the status.
            status, _, body = await g.post("/v1/responses", long)
            assert status == 400
            assert body["error"]["code"] == "context_length_exceeded"
            assert g.server.gate.running == 0

    run(scenario())


# Streams.


def test_signs_of_life_come_before_anything_else() -> None:
    async def scenario() -> None:
        awaited = asyncio.Event()
        backend = Scripted(awaited, f"I wait.{THINK_END}Hi{EOS}")
        async with gateway(backend, keep_alive=0.1) as g:
            for path, body in BODIES.items():
                awaited.clear()
                data = json.dumps({**body, "stream": True})
                async with g.client.post(g.url + path, data=data) as response:
                    first = await response.content.readany()
                    awaited.set()
                    assert b"I wait." not in first
                    rest = await response.content.read()
                    assert b"I wait." in rest

    run(scenario())


@every_path
def test_a_client_that_goes_away_frees_its_upstream_within_a_tenth_of_a_second(
    path: str, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        upstream = VllmServer(tokenizer, "word " * 2000, pause=0.01)
        async with (
            upstream.running() as url,
            gateway(settings_backend="vllm", upstream=url) as g,
        ):
            data = json.dumps({**BODIES[path], "max_tokens": 5000, "stream": True})
            async with g.client.post(g.url + path, data=data) as response:
                await response.content.readany()
                left = upstream.written
                response.close()
            while not upstream.disconnects:
                await asyncio.sleep(0.005)
            assert g.server.gate.running == 0
            # Ten pieces of ten milliseconds: counted, since a busy machine makes them longer.
            assert upstream.written - left <= 10

    run(scenario())


def test_a_slow_client_loses_nothing_and_holds_little(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        text = "".join(f"{n} " for n in range(3000))
        backend = Scripted(*(f"{n} " for n in range(3000)), f"{THINK_END}Hi{EOS}")
        async with gateway(backend) as g:
            data = json.dumps({**CHAT, "stream": True})
            async with g.client.post(g.url + "/v1/chat/completions", data=data) as response:
                received = b""
                while part := await response.content.read(20_000):
                    received += part
                    await asyncio.sleep(0.005)
        chunks = [e for e in events_of(received.decode()) if e != "[DONE]"]
        said = "".join(
            chunk["choices"][0]["delta"].get("reasoning_content", "") for chunk in chunks
        )
        assert said == text

    run(scenario())


def test_pieces_that_came_together_go_out_together() -> None:
    async def scenario() -> None:
        pieces = [Chunk(text=f"{n} ", more=n < 9) for n in range(10)]
        async with gateway(Scripted(*pieces, f"{THINK_END}Hi{EOS}")) as g:
            chunks = (await g.stream("/v1/chat/completions", CHAT))[:-1]
            deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
            said = [d["reasoning_content"] for d in deltas if d.get("reasoning_content")]
            assert said == ["".join(f"{n} " for n in range(10))]

    run(scenario())


# What a request asks for.


@every_path
@pytest.mark.parametrize("stream", [True, False])
def test_one_call_alone_ends_the_generation(path: str, stream: bool) -> None:
    one = {"parallel_tool_calls": False}
    if path == "/v1/messages":
        one = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}  # type: ignore[dict-item]

    async def scenario() -> None:
        backend = Scripted(*TWO_CALLS, 30.0)
        async with gateway(backend) as g:
            body = {**BODIES[path], "tools": tools_for(path), **one, "stream": stream}
            status, _, answer = await g.post(path, body)
            assert status == 200
            text = answer if isinstance(answer, str) else json.dumps(answer)
            assert "one" in text
            assert "two" not in text
            assert "tool_calls" in text or "tool_use" in text or "completed" in text
            assert backend.open == 0

    run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_several_choices(stream: bool) -> None:
    async def scenario() -> None:
        backend = Scripted("Hm", f"{THINK_END}Hi", EOS)
        async with gateway(backend) as g:
            body = {**CHAT, "n": 3, "stream": stream, "stream_options": {"include_usage": True}}
            _, _, answer = await g.post("/v1/chat/completions", body)
            assert backend.opened == 3
            if not stream:
                assert [c["message"]["content"] for c in answer["choices"]] == ["Hi"] * 3
                return
            chunks = events_of(answer)[:-1]
            for n in range(3):
                mine = [
                    c["choices"][0]
                    for c in chunks
                    if c["choices"] and c["choices"][0]["index"] == n
                ]
                assert "".join(c["delta"].get("content") or "" for c in mine) == "Hi"
                assert mine[0]["delta"]["role"] == "assistant"
                assert mine[-1]["finish_reason"] == "stop"

    run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_log_probabilities_stand_beside_the_texts_of_their_tokens(stream: bool) -> None:
    def token(text: str, value: float) -> Chunk:
        return Chunk(text, logprobs=(Logprob(text, value, ((text, value), ("x", -9.0))),))

    texts = ["Hm", ".", THINK_END, "A", " <", " b", EOS]
    backend = Scripted(*(token(text, -n / 10) for n, text in enumerate(texts)))

    async def scenario() -> None:
        async with gateway(backend) as g:
            body = {**CHAT, "logprobs": True, "top_logprobs": 2, "stream": stream}
            _, _, answer = await g.post("/v1/chat/completions", body)
            found: dict[str, list[Any]] = {"content": [], "reasoning_content": []}
            chunks = events_of(answer)[:-1] if stream else [answer]
            for chunk in chunks:
                for name, tokens in (chunk["choices"][0]["logprobs"] or {}).items():
                    found.setdefault(name, []).extend(tokens or ())
            assert [(t["token"], t["logprob"]) for t in found["content"]] == [
                ("A", -0.3),
                (" <", -0.4),
                (" b", -0.5),
            ]
            assert [t["token"] for t in found["reasoning_content"]] == ["Hm", "."]
            top = found["content"][0]["top_logprobs"]
            assert [(t["token"], t["bytes"]) for t in top] == [("A", [65]), ("x", [120])]
            _, _, without = await g.post("/v1/chat/completions", CHAT)
            assert without["choices"][0]["logprobs"] is None

    run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_log_probabilities_of_a_response_are_those_it_is_to_include(stream: bool) -> None:
    texts = ["Hm", THINK_END, "A", " b", EOS]
    tokens = [Chunk(text, logprobs=(Logprob(text, -0.5),)) for text in texts]

    async def scenario() -> None:
        async with gateway(Scripted(*tokens)) as g:
            for included, expected in (
                (["message.output_text.logprobs"], ["A", " b"]),
                (["reasoning.encrypted_content"], []),
            ):
                body = {"input": "Hi", "include": included}
                if stream:
                    events = await g.stream("/v1/responses", body)
                    answer = events[-1]["response"]
                    deltas = [e for e in events if e["type"] == "response.output_text.delta"]
                    told = [known["token"] for e in deltas for known in e["logprobs"]]
                    assert told == expected
                else:
                    _, _, answer = await g.post("/v1/responses", body)
                (part,) = answer["output"][-1]["content"]
                assert [known["token"] for known in part["logprobs"]] == expected

    run(scenario())


def test_a_forced_call_comes_with_a_grammar_or_in_two_generations(tokenizer: Tokenizer) -> None:
    body = {**CHAT, "tools": TOOLS, "tool_choice": "required", "thinking": {"type": "enabled"}}
    reasoning, calls = TWO_CALLS.split("Both.\n\n")
    opening, rest = calls[: calls.index("\n") + 1], calls[calls.index("\n") + 1 :]

    async def asked(backend: str, upstream: VllmServer) -> list[Any]:
        async with (
            upstream.running() as url,
            gateway(settings_backend=backend, upstream=url) as g,
        ):
            status, _, answer = await g.post("/v1/chat/completions", body)
            assert status == 200, answer
            message = answer["choices"][0]["message"]
            assert message["reasoning_content"] == "Hm."
            assert len(message["tool_calls"]) == 2
            return upstream.requests

    (only,) = run(asked("vllm", VllmServer(tokenizer, TWO_CALLS)))
    assert only["structured_outputs"]
    plain = CompletionsServer(tokenizer, reasoning, rest)
    first, second = run(asked("completions", plain))
    assert second["prompt"] == first["prompt"] + reasoning + "\n\n" + opening


@pytest.mark.parametrize(
    ("path", "more", "place"),
    [
        (
            "/v1/chat/completions",
            {"tools": [{"type": "web"}, {"function": {"name": "f", "parameters": NO_VALUES}}]},
            "tools[1].function.parameters.properties.a.enum",
        ),
        (
            "/v1/messages",
            {"tools": [{"type": "web"}, {"name": "f", "input_schema": NO_VALUES}]},
            "tools[1].input_schema.properties.a.enum",
        ),
        (
            "/v1/responses",
            {
                "tools": [
                    {
                        "type": "namespace",
                        "name": "n",
                        "tools": [{"type": "function", "name": "f", "parameters": NO_VALUES}],
                    }
                ]
            },
            "tools[0].tools[0].parameters.properties.a.enum",
        ),
        (
            "/v1/chat/completions",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": NO_VALUES}}},
            "response_format.json_schema.schema.properties.a.enum",
        ),
        (
            "/v1/messages",
            {"output_config": {"format": {"type": "json_schema", "schema": NO_VALUES}}},
            "output_config.format.schema.properties.a.enum",
        ),
        (
            "/v1/responses",
            {"text": {"format": {"type": "json_schema", "schema": NO_VALUES}}},
            "text.format.schema.properties.a.enum",
        ),
    ],
)
def test_what_cannot_be_enforced_is_named_as_the_client_has_it(
    path: str, more: dict[str, Any], place: str, tokenizer: Tokenizer
) -> None:
    must = {"type": "any"} if path == "/v1/messages" else "required"
    choice = {"tool_choice": must} if "tools" in more else {}

    async def scenario() -> None:
        upstream = VllmServer(tokenizer, TWO_CALLS)
        async with (
            upstream.running() as url,
            gateway(settings_backend="vllm", upstream=url) as g,
        ):
            status, _, answer = await g.post(path, {**BODIES[path], **more, **choice})
            assert status == 400
            assert answer["error"]["message"].startswith(f"{place}: ")

    run(scenario())


@every_path
def test_a_schema_that_no_grammar_can_hold_is_a_400(
    path: str, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dsv4.serve import prompt_route

    def refuses(*_: Any, **__: Any) -> Any:
        raise ValueError("a pattern with a look behind")

    monkeypatch.setattr(prompt_route, "for_request", refuses)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "name": "x", "schema": schema}
    wanted: dict[str, Any] = {
        "/v1/chat/completions": {"response_format": {"type": "json_schema", "json_schema": form}},
        "/v1/messages": {"output_config": {"format": form}},
        "/v1/responses": {"text": {"format": form}},
    }[path]

    async def scenario() -> None:
        upstream = VllmServer(tokenizer, TWO_CALLS)
        async with (
            upstream.running() as url,
            gateway(settings_backend="vllm", upstream=url) as g,
        ):
            status, _, answer = await g.post(path, {**BODIES[path], **wanted})
            assert status == 400, answer
            assert "look behind" in answer["error"]["message"]

    run(scenario())
