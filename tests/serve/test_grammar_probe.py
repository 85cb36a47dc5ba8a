"""A grammar is sent only to a server that applies it where it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiohttp import web
from gateway import TOOLS, Gateway, gateway
from standins import VllmServer

import dsv4
from dsv4.grammar import Grammar, for_request
from dsv4.serve.backend import BackendError, Options
from dsv4.serve.backends.vllm import VllmBackend
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer

QUESTION = [{"role": "user", "content": "List the files."}]
REQUEST = dsv4.Request(QUESTION, tools=TOOLS, tool_choice="required")
WHOLE = for_request(REQUEST)
AFTER_REASONING = for_request(REQUEST, reasoning="server")
FITTING = {"grammar": WHOLE, "server": AFTER_REASONING}
OPTIONS = Options(max_tokens=100, grammar=WHOLE, grammar_after_reasoning=lambda: AFTER_REASONING)


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 30))


def sent_grammar(body: Any) -> str | None:
    found: str | None = (body.get("structured_outputs") or {}).get("grammar")
    return found


async def drained(backend: VllmBackend, prompt: dsv4.Prompt, options: Options = OPTIONS) -> None:
    async for _ in backend.stream(prompt, None, options):
        pass


def backend_of(url: str, **settings: Any) -> VllmBackend:
    return VllmBackend(Settings(backend="vllm", upstream=url, **settings))


@pytest.mark.parametrize("applied", ["grammar", "server", None])
def test_what_a_server_applies_grammars_to_is_found_out(
    applied: str | None, tokenizer: Tokenizer
) -> None:
    async def scenario() -> tuple[str | None, str | None]:
        async with VllmServer(tokenizer, "Hi", grammars=applied).running() as url:
            backend = backend_of(url)
            found = await backend.check_grammars()
            await backend.aclose()
            return found, backend.grammar_form

    assert run(scenario()) == (applied, "xgrammar" if applied else None)


def test_a_server_that_refuses_the_field_applies_no_grammars(tokenizer: Tokenizer) -> None:
    class Refusing(VllmServer):
        async def complete(self, request: web.Request) -> web.StreamResponse:
            return web.json_response({"error": {"message": "unknown field"}}, status=400)

    async def scenario() -> str | None:
        async with Refusing(tokenizer, "Hi").running() as url:
            backend = backend_of(url)
            found = await backend.check_grammars()
            await backend.aclose()
            return found

    assert run(scenario()) is None


@pytest.mark.parametrize("applied", FITTING)
def test_the_grammar_that_fits_is_sent(applied: str, tokenizer: Tokenizer) -> None:
    server = VllmServer(tokenizer, "Hi", grammars=applied)

    async def scenario() -> None:
        async with server.running() as url:
            backend = backend_of(url)
            await drained(backend, REQUEST.encode())
            await backend.aclose()

    run(scenario())
    assert [sent_grammar(body) for body in server.requests] == [FITTING[applied].text]


def test_a_prompt_past_the_reasoning_needs_no_probe(tokenizer: Tokenizer) -> None:
    """Whatever was said to think about is in the prompt: all servers apply the grammar at once."""
    server = VllmServer(tokenizer, "Hi", grammars="server")
    grammar = Grammar('root ::= "a" | "b"', "xgrammar")

    async def scenario() -> None:
        async with server.running() as url:
            backend = backend_of(url)
            answers = dsv4.encode(QUESTION, thinking=False)
            thought = dsv4.encode(QUESTION, prefix="Done.</think>\n")
            for prompt in (answers, thought):
                await drained(backend, prompt, Options(max_tokens=9, grammar=grammar))
            await backend.aclose()

    run(scenario())
    assert [sent_grammar(body) for body in server.requests] == [grammar.text] * 2
    assert not server.probes


@pytest.mark.parametrize("applied", [None, "server"])
def test_a_grammar_that_would_be_misapplied_is_not_sent(
    applied: str | None, tokenizer: Tokenizer
) -> None:
    server = VllmServer(tokenizer, "Hi", grammars=applied)

    async def scenario() -> None:
        async with server.running() as url:
            backend = backend_of(url)
            await drained(backend, REQUEST.encode(), Options(max_tokens=9, grammar=WHOLE))

    with pytest.raises(BackendError, match="does not apply grammars while the model thinks") as e:
        run(scenario())
    assert (e.value.status, server.requests) == (400, [])


@pytest.mark.parametrize("said", FITTING)
def test_what_the_setting_says_is_not_asked(said: Any, tokenizer: Tokenizer) -> None:
    server = VllmServer(tokenizer, "Hi", grammars=None)

    async def scenario() -> None:
        async with server.running() as url:
            backend = backend_of(url, upstream_reasoning=said)
            await drained(backend, REQUEST.encode())
            await backend.aclose()

    run(scenario())
    assert [sent_grammar(body) for body in server.requests] == [FITTING[said].text]
    assert not server.probes


def test_many_requests_wait_for_one_probe(tokenizer: Tokenizer) -> None:
    server = VllmServer(tokenizer, "Hi")

    async def scenario() -> None:
        async with server.running() as url:
            backend = backend_of(url)
            await asyncio.gather(*(drained(backend, REQUEST.encode()) for _ in range(8)))
            await drained(backend, REQUEST.encode())
            await backend.aclose()

    run(scenario())
    assert (len(server.requests), len(server.probes)) == (9, 1)


def test_a_server_that_was_restarted_is_asked_again(tokenizer: Tokenizer) -> None:
    """It may have been started with other options: nothing in its answers would tell."""
    before = VllmServer(tokenizer, "Hi", grammars="grammar")
    after = VllmServer(tokenizer, "Hi", grammars="server")

    async def scenario() -> None:
        async with before.running() as url:
            backend = backend_of(url)
            await drained(backend, REQUEST.encode())
        async with after.running(int(url.rpartition(":")[2])):
            await drained(backend, REQUEST.encode())
            await backend.aclose()

    run(scenario())
    assert sent_grammar(before.requests[0]) == WHOLE.text
    assert sent_grammar(after.requests[0]) == AFTER_REASONING.text


FORCED = {
    "messages": QUESTION,
    "tools": TOOLS,
    "tool_choice": "required",
    "thinking": {"type": "enabled"},
}


@pytest.mark.parametrize("applied", FITTING)
def test_a_forced_call_of_a_model_that_thinks(applied: str, tokenizer: Tokenizer) -> None:
    call = dsv4.encode(
        [
            *QUESTION,
            {
                "role": "assistant",
                "reasoning_content": "Look.",
                "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
            },
        ],
        tools=TOOLS,
    )
    completion = str(call)[len(str(REQUEST.encode())) :]
    server = VllmServer(tokenizer, completion, grammars=applied)

    async def scenario() -> Any:
        async with server.running() as url:
            running: Gateway
            async with gateway(settings_backend="vllm", upstream=url) as running:
                return await running.post("/v1/chat/completions", FORCED)

    status, _, answer = run(scenario())
    assert status == 200, answer
    message = answer["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"command": "ls"}'
    assert sent_grammar(server.requests[0]) == FITTING[applied].text
