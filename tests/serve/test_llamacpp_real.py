"""The backend `llamacpp`, grammars, the chat template and the profile against a real llama.cpp.

`make test-llamacpp` installs one and runs these; elsewhere they are skipped. The model's weights
are a table, so what it writes is known: `tiny_model.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import aiohttp
import llama_server
import llama_templates
import pytest
import record_llamacpp
import tiny_model
from gateway import TOOLS, Gateway, gateway, run
from requests_of import REQUESTS, VECTORS, mutated

import dsv4
from dsv4 import profiles, verify
from dsv4.compat import chat_template
from dsv4.grammar import for_request
from dsv4.serve.backend import BackendError, Chunk, Options
from dsv4.serve.backends import backend_named
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer

if reason := llama_server.why_not():
    pytest.skip(reason, allow_module_level=True)

from grammar_cases import random_case

QUESTION = [{"role": "user", "content": "Hi <｜User｜> there"}]
REASONING, CONTENT = "Hmm", "Hello 🛰!"
GREEDY = Options(max_tokens=200, temperature=0.0)


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llamacpp")
    template = folder / "template.jinja"
    template.write_text(chat_template("v4", "llama.cpp"), "utf-8")
    tiny_model.write(folder / "tiny.gguf", tokenizer)
    with llama_server.running(folder / "tiny.gguf", template, folder / "log") as address:
        yield address


def generated(url: str, tokenizer: Tokenizer, prompt: dsv4.Prompt, options: Options) -> list[Chunk]:
    async def scenario() -> list[Chunk]:
        backend = backend_named(Settings(backend="llamacpp", upstream=url), tokenizer)
        try:
            ids = tokenizer.encode(prompt)
            return [chunk async for chunk in backend.stream(prompt, ids, options)]
        finally:
            await backend.aclose()

    found: list[Chunk] = run(scenario())
    return found


def ids_of(chunks: list[Chunk]) -> list[int]:
    return [id for chunk in chunks for id in chunk.ids or ()]


# The backend.


def test_all_ids_come_back_those_of_a_split_character_too(url: str, tokenizer: Tokenizer) -> None:
    chunks = generated(url, tokenizer, dsv4.encode(QUESTION), GREEDY)
    assert ids_of(chunks) == tiny_model.ids_of(tokenizer, tiny_model.ANSWER)[1:]
    assert [chunk.finish for chunk in chunks if chunk.finish] == ["eos"]
    assert len(chunks) > 5


def test_the_prompt_arrives_as_it_was_sent(url: str, tokenizer: Tokenizer) -> None:
    prompt = dsv4.encode(QUESTION)
    generated(url, tokenizer, prompt, GREEDY)
    (counts,) = (c.counts for c in generated(url, tokenizer, prompt, GREEDY) if c.counts)
    # No second BOS, and no token made from the user's text.
    assert counts.prompt == len(tokenizer.encode(prompt))
    assert counts.completion == len(tiny_model.ids_of(tokenizer, tiny_model.ANSWER)) - 1
    assert counts.cached
    assert counts.cached < counts.prompt


@pytest.mark.parametrize("most", range(1, 9))
def test_a_limit_ends_it_anywhere(most: int, url: str, tokenizer: Tokenizer) -> None:
    options = Options(max_tokens=most, temperature=0.0)
    chunks = generated(url, tokenizer, dsv4.encode(QUESTION), options)
    assert [chunk.finish for chunk in chunks if chunk.finish] == ["length"]
    written = tiny_model.ids_of(tokenizer, tiny_model.ANSWER)[1:]
    found = ids_of(chunks)
    assert found == written[: len(found)]
    # Of a character that is cut nothing comes.
    assert len(found) == most or "�" in tokenizer.decode(written[:most])


def test_options_are_understood(url: str, tokenizer: Tokenizer) -> None:
    chosen = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "seed": 7}
    penalties = {"presence_penalty": 0.1, "frequency_penalty": 0.1}
    options = Options(max_tokens=20, **chosen, **penalties)
    chunks = generated(url, tokenizer, dsv4.encode(QUESTION), options)
    assert ids_of(chunks) == tiny_model.ids_of(tokenizer, tiny_model.ANSWER)[1:]


def test_the_model_and_its_context_are_found(url: str, tokenizer: Tokenizer) -> None:
    async def scenario() -> Any:
        backend = backend_named(Settings(backend="llamacpp", upstream=url), tokenizer)
        try:
            return await backend.models()
        finally:
            await backend.aclose()

    (model,) = run(scenario())
    assert "tiny" in model.name
    assert model.context == llama_server.CONTEXT


# Through the gateway, in each protocol.


async def idle(url: str) -> bool:
    async with aiohttp.ClientSession() as client, client.get(f"{url}/slots") as response:
        return not any(slot["is_processing"] for slot in await response.json())


def through(url: str, scenario: Any) -> Any:
    async def whole() -> Any:
        settings = {"settings_backend": "llamacpp", "upstream": url, "dialect": "v4"}
        async with gateway(**settings) as running:
            return await scenario(running)

    # Where a token is refused llama.cpp tries all others, which takes it a tenth of a second.
    return run(whole(), 600)


@pytest.mark.parametrize("streamed", [False, True])
def test_chat(streamed: bool, url: str) -> None:
    body = {"messages": QUESTION, "temperature": 0}

    async def scenario(running: Gateway) -> Any:
        if not streamed:
            return await running.post("/v1/chat/completions", body)
        return await running.stream("/v1/chat/completions", body)

    if streamed:
        events = through(url, scenario)
        deltas = [e["choices"][0]["delta"] for e in events if e != "[DONE]" and e["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == CONTENT
        assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == REASONING
    else:
        status, _, answer = through(url, scenario)
        message = answer["choices"][0]["message"]
        assert (status, message["content"], message["reasoning_content"]) == (
            200,
            CONTENT,
            REASONING,
        )
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == 9
        assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2


def test_responses(url: str) -> None:
    async def scenario(running: Gateway) -> Any:
        return await running.post("/v1/responses", {"input": "Hi", "temperature": 0})

    _, _, answer = through(url, scenario)
    reasoning, message = answer["output"]
    assert reasoning["content"][0]["text"] == REASONING
    assert message["content"][0]["text"] == CONTENT


def test_messages(url: str) -> None:
    async def scenario(running: Gateway) -> Any:
        body = {"messages": QUESTION, "max_tokens": 100, "temperature": 0}
        return await running.post("/v1/messages", body)

    _, _, answer = through(url, scenario)
    thinking, text = answer["content"]
    assert (thinking["thinking"], text["text"]) == (REASONING, CONTENT)


def test_a_turn_that_comes_back_is_found_in_the_cache(url: str, tokenizer: Tokenizer) -> None:
    """The second prompt begins with the first and what was sampled, split character included."""
    first = [{"role": "user", "content": "A question of its own"}]

    async def scenario(running: Gateway) -> Any:
        body = {"messages": first, "temperature": 0, "tools": TOOLS}
        _, _, one = await running.post("/v1/chat/completions", body)
        turn = one["choices"][0]["message"]
        more = [*first, turn, {"role": "user", "content": "And?"}]
        _, _, two = await running.post("/v1/chat/completions", {**body, "messages": more})
        return one["usage"], two["usage"]

    one, two = through(url, scenario)
    cached = two["prompt_tokens_details"]["cached_tokens"]
    # The last token that was sampled was not read again.
    assert cached >= one["prompt_tokens"] + one["completion_tokens"] - 1


def test_a_client_that_leaves_frees_the_server(url: str) -> None:
    endless = [*QUESTION, {"role": "assistant", "content": tiny_model.ENDLESS, "prefix": True}]
    body = {"messages": endless, "thinking": {"type": "disabled"}, "stream": True, "temperature": 0}

    async def scenario(running: Gateway) -> bool:
        address = f"{running.url}/v1/chat/completions"
        async with running.client.post(address, json=body) as response:
            await response.content.readuntil(b" loop")
            assert not await idle(url)
        for _ in range(100):
            if await idle(url):
                return True
            await asyncio.sleep(0.01)
        return False

    assert through(url, scenario)


def test_a_prompt_that_is_too_long_is_refused_before_it_is_sent(url: str) -> None:
    async def scenario(running: Gateway) -> Any:
        body = {"messages": [{"role": "user", "content": "word " * llama_server.CONTEXT}]}
        return await running.post("/v1/chat/completions", body)

    status, _, answer = through(url, scenario)
    assert status == 400
    assert "maximum context length is 4096" in answer["error"]["message"]


# Grammars.

VALUES = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "minimum": 3},
        "share": {"type": "number"},
        "kind": {"enum": ["one", "two"]},
        "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
        "inner": {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
    },
    "required": ["text", "count", "share", "kind", "list", "inner"],
    "additionalProperties": False,
}
FULL = [{"type": "function", "function": {"name": "all_kinds", "parameters": VALUES}}]


@pytest.mark.parametrize(("tools", "thinking"), [(TOOLS, True), (TOOLS, False), (FULL, False)])
def test_a_call_is_forced(tools: Any, thinking: bool, url: str) -> None:
    body = {
        "messages": QUESTION,
        "tools": tools,
        "tool_choice": "required",
        "thinking": {"type": "enabled" if thinking else "disabled"},
        "temperature": 0,
        "max_tokens": 500,
    }

    async def scenario(running: Gateway) -> Any:
        return await running.post("/v1/chat/completions", body)

    status, _, answer = through(url, scenario)
    assert status == 200, answer
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    declared = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    for call in choice["message"]["tool_calls"]:
        check(json.loads(call["function"]["arguments"]), declared[call["function"]["name"]])
    assert choice["message"].get("reasoning_content") == (REASONING if thinking else None)


def test_an_answer_is_held_to_its_schema(url: str, tokenizer: Tokenizer) -> None:
    request = dsv4.Request(QUESTION, response_format=VALUES)
    grammar = for_request(request, form="gbnf")
    options = Options(max_tokens=500, temperature=0.0, grammar=grammar)
    ids = ids_of(generated(url, tokenizer, request.encode(), options))
    message = dsv4.parse(tokenizer.decode(ids))
    assert message.reasoning == REASONING
    check(json.loads(message.content), VALUES)


def test_a_call_can_be_read_from_its_text(url: str, tokenizer: Tokenizer) -> None:
    """As docs/grammar.md shows: the grammar's fields keep the markup in the text."""
    request = dsv4.Request(QUESTION, tools=TOOLS, tool_choice="required")
    body = {
        "prompt": tokenizer.encode(request.encode()),
        "n_predict": 200,
        **{"temperature": 0, "top_k": 0, "min_p": 0.0, "top_p": 1.0},
        **for_request(request, form="gbnf").fields("llamacpp"),
    }
    message = dsv4.parse(posted(url, "/completion", body)["content"], tools=TOOLS)
    assert [call.name for call in message.tool_calls] == ["bash"]
    assert not message.diagnostics


@pytest.mark.parametrize("seed", range(40))
def test_grammars_of_all_kinds_are_read(seed: int, url: str) -> None:
    """Its parser takes them. What they let through is tested in tests/grammar."""
    case = random_case(seed, dialects=("v4",))
    fields = for_request(case.request, form="gbnf").fields("llamacpp")
    answer = posted(url, "/completion", {"prompt": [0], "n_predict": 1, **fields})
    assert "error" not in answer, answer


def test_a_grammar_that_cannot_be_read_is_an_error_that_says_so(url: str) -> None:
    class Broken:
        def fields(self, _: str) -> dict[str, str]:
            return {"grammar": "root ::= ("}

    options = Options(max_tokens=5, grammar=Broken())  # type: ignore[arg-type]
    with pytest.raises(BackendError) as caught:
        generated(url, Tokenizer.load(), dsv4.encode(QUESTION), options)
    assert caught.value.status == 400
    assert "grammar" in caught.value.message


def check(value: Any, schema: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(value, schema)


# Its own chat, healed.


def test_its_chat_server_can_be_healed(url: str) -> None:
    async def scenario() -> Any:
        async with gateway(settings_backend="chat", upstream=url) as running:
            body = {"messages": QUESTION, "temperature": 0, "max_tokens": 50}
            return await running.post("/v1/messages", body)

    status, _, answer = run(scenario())
    assert status == 200, answer
    assert answer["content"][-1]["text"] == CONTENT


# The chat template.

# It writes an empty description where there is none, so this one has its own.
DESCRIBED = [
    {
        "type": "function",
        "function": {"name": "bash", "description": "Runs it.", "parameters": VALUES},
    }
]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "bash", "arguments": json.dumps({"command": 'echo "é 🛰" <b>'})},
}
CONVERSATIONS: dict[str, list[Any]] = {
    "question": QUESTION,
    "system": [{"role": "system", "content": "Be brief."}, *QUESTION],
    "answers": [
        *QUESTION,
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Well"},
        {"role": "user", "content": "And\n\n  now?"},
    ],
    "calls": [
        *QUESTION,
        {"role": "assistant", "content": "", "reasoning_content": "So", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "é 🛰"},
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("thinking", [False, True])
def test_its_engine_writes_with_the_template_what_the_encoder_does(
    name: str, thinking: bool, url: str
) -> None:
    messages = CONVERSATIONS[name]
    tools = DESCRIBED if name == "calls" else None
    body = {"messages": messages, "chat_template_kwargs": {"thinking": thinking}}
    if tools:
        body["tools"] = tools
    answer = posted(url, "/apply-template", body)
    # It takes the BOS off, which its tokenizer adds again.
    expected = dsv4.encode(messages, tools=tools, thinking=thinking, bos=False)
    assert answer.get("prompt") == str(expected), answer


@pytest.mark.parametrize("thinking", [None, True, False])
def test_its_own_chat_works_with_the_template(thinking: bool | None, url: str) -> None:
    """With tools it makes a parser from what the template writes."""
    body = {"messages": CONVERSATIONS["calls"], "tools": DESCRIBED, "temperature": 0}
    if thinking is not None:
        body["chat_template_kwargs"] = {"thinking": thinking}
    answer = posted(url, "/v1/chat/completions", {**body, "max_tokens": 20})
    assert "error" not in answer, answer
    assert answer["choices"][0]["message"]["content"] == CONTENT


def posted(url: str, path: str, body: Any) -> Any:
    async def scenario() -> Any:
        address = url + path
        async with aiohttp.ClientSession() as client, client.post(address, json=body) as response:
            return await response.json()

    return run(scenario(), 600)


# What `dsv4 verify` says of it.


def test_verify_names_nothing_that_is_not_so(url: str) -> None:
    """It has our template and its own way with requests, which no profile has."""
    report = verify.run(verify.HttpServer(f"{url}/v1"), "tiny")
    assert report.verdict.outcome == "not explained"
    named = {f"inject-{place}" for place in ("user", "result", "tool", "history")}
    assert set(report.verdict.faults) <= named
    groups = {name: report.groups[name] for name in ("counting", "thinking", "content", "safety")}
    assert groups == {"counting": "pass", "thinking": "pass", "content": "pass", "safety": "fault"}
    assert report.evidence[:3] == ("E1", "E2", "E3")
    shown = {mismatch.probe for mismatch in report.verdict.unexplained}
    # Tools stay at "none" and have a description, floats are rounded.
    assert {"choice-none", "tools-two", "arguments-float"} <= shown


# With its own template: the profile.

PROFILE = "llama.cpp-2026.10"
RANDOM_BODIES = 400


@pytest.fixture(scope="session")
def own_templates(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer
) -> Callable[[str], AbstractContextManager[str]]:
    """Servers with templates of llama.cpp's own, by name."""
    folder = tmp_path_factory.mktemp("own")
    tiny_model.write(folder / "tiny.gguf", tokenizer)

    def serve(name: str) -> AbstractContextManager[str]:
        try:
            template = llama_templates.template(name)
        except llama_templates.NoTemplates as reason:
            pytest.skip(str(reason))
        return llama_server.running(folder / "tiny.gguf", template, folder / f"{name}.log")

    return serve


@pytest.fixture(scope="session")
def own_url(own_templates: Callable[[str], AbstractContextManager[str]]) -> Iterator[str]:
    with own_templates(llama_templates.JULY) as address:
        yield address


def json_lines(file: Path) -> list[Any]:
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def encoder_request(row: Any) -> Any:
    """What a vector of an encoder asks for, as a request."""
    options = row.get("options", {})
    kwargs = {"thinking": options.get("thinking_mode") != "chat"}
    if "drop_thinking" in options:
        kwargs["drop_thinking"] = options["drop_thinking"]
    body = {"messages": row["messages"], "chat_template_kwargs": kwargs}
    body["reasoning_effort"] = options.get("reasoning_effort")
    tools = [tool for message in row["messages"] for tool in message.get("tools") or ()]
    return {**body, "tools": tools} if tools else body


BODIES: dict[str, Callable[[], list[Any]]] = {
    "recorded": lambda: [row["request"] for row in record_llamacpp.recorded()],
    "profiles": lambda: REQUESTS,
    "counts": lambda: [row["request"] for row in json_lines(VECTORS / "verify-counts.jsonl")],
    "probes": lambda: [probe.request for probe in verify.probes()],
    "encoders": lambda: [
        encoder_request(row)
        for file in sorted(VECTORS.glob("encode-*.jsonl"))
        for row in json_lines(file)
    ],
    "random": lambda: [mutated(n) for n in random.Random(0).sample(range(10**6), RANDOM_BODIES)],
}


def forecast(body: Any) -> str | None:
    try:
        return profiles.render(body, PROFILE)
    except dsv4.Error:
        return None


@pytest.mark.parametrize("kind", BODIES)
def test_prompts_and_refusals_are_those_of_the_profile(kind: str, own_url: str) -> None:
    bodies = BODIES[kind]()
    answers = [(body, record_llamacpp.prompt_of(own_url, body)) for body in bodies]
    wrong = [
        f"{body}\n  server {seen!r}\n  profile {forecast(body)!r}"
        for body, seen in answers
        if seen != forecast(body)
    ]
    refused = sum(seen is None for _, seen in answers)
    print(f"{kind}: {len(bodies)} requests, {refused} refused, {len(wrong)} different")
    assert not wrong, f"{len(wrong)} of {len(bodies)}:\n" + "\n".join(wrong[:10])


def test_the_record_is_what_it_writes(own_url: str) -> None:
    for row in record_llamacpp.recorded():
        assert record_llamacpp.prompt_of(own_url, row["request"]) == row["prompt"]


class CountsAlone(verify.HttpServer):
    """Does not ask for the prompt itself."""

    def post(self, path: str, body: Mapping[str, Any]) -> verify.Reply:
        return verify.Reply(404) if path.startswith("/../") else super().post(path, body)


@pytest.mark.parametrize("client", [verify.HttpServer, CountsAlone])
@pytest.mark.parametrize("mode", ["quick", "default", "full"])
def test_verify_names_it_without_a_fault(mode: Any, client: Any, own_url: str) -> None:
    report = verify.run(client(f"{own_url}/v1"), "tiny", mode=mode)
    verdict = report.verdict
    assert (verdict.outcome, verdict.faults, verdict.alternatives) == ("explained", (), ())
    assert verdict.best is not None
    assert str(verdict.best.hypothesis) == f"{PROFILE} v4-0731"
    assert ("E0" in report.evidence) == (mode == "full" and client is verify.HttpServer)
    if mode != "quick":
        assert verdict.explained == verdict.of > 60
        # Special tokens in texts act on it, and the tiny model calls nothing.
        faulty = {name for name, found in report.groups.items() if found == "fault"}
        assert faulty == {"safety", "output"}


def test_verify_names_the_efforts_of_its_template_of_april(
    own_templates: Callable[[str], AbstractContextManager[str]],
) -> None:
    with own_templates(llama_templates.APRIL) as address:
        verdict = verify.run(verify.HttpServer(f"{address}/v1"), "tiny").verdict
    assert verdict.best is not None
    assert (verdict.best.hypothesis.profile, verdict.faults) == (PROFILE, ("effort-april",))
