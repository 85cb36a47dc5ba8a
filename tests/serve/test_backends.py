"""Each backend over real sockets, against a server that behaves as the real one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from standins import CompletionsServer, LlamacppServer, SglangServer, StandIn, VllmServer

import dsv4
from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.serve.backend import BackendError, Chunk, Logprob, Options
from dsv4.serve.backends import backend_named
from dsv4.serve.settings import SettingError, Settings
from dsv4.tokens import Tokenizer

COMPLETION = f"Let me think: é 🛰.{THINK_END}Done.\n\n<{DSML}tool_calls>\n…</{DSML}tool_calls>{EOS}"
PROMPT = dsv4.encode([{"role": "user", "content": "Hi <｜User｜> there"}])
SERVERS: dict[str, Callable[..., StandIn]] = {
    "vllm": VllmServer,
    "sglang": SglangServer,
    "llamacpp": LlamacppServer,
    "completions": CompletionsServer,
}


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 30))


async def generated(
    name: str, server: StandIn, tokenizer: Tokenizer, options: Options, **settings: Any
) -> list[Chunk]:
    async with server.running() as url:
        backend = backend_named(Settings(backend=name, upstream=url, **settings), tokenizer)
        try:
            ids = tokenizer.encode(PROMPT)
            return [chunk async for chunk in backend.stream(PROMPT, ids, options)]
        finally:
            await backend.aclose()


def text_of(chunks: list[Chunk], tokenizer: Tokenizer) -> str:
    ids = [id for chunk in chunks for id in chunk.ids or ()]
    return tokenizer.decode(ids) if ids else "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("name", SERVERS)
def test_the_completion_comes_whole(name: str, tokenizer: Tokenizer) -> None:
    server = SERVERS[name](tokenizer, COMPLETION)
    chunks = run(generated(name, server, tokenizer, Options(max_tokens=1000)))
    # Some take the EOS off, and say the reason instead.
    assert text_of(chunks, tokenizer).removesuffix(EOS) == COMPLETION.removesuffix(EOS)
    ended = "eos" if name == "llamacpp" else "stop"
    assert [chunk.finish for chunk in chunks if chunk.finish] == [ended]


def test_ids_of_sglang_may_come_as_what_is_new(tokenizer: Tokenizer) -> None:
    server = SglangServer(tokenizer, COMPLETION, incremental=True)
    chunks = run(generated("sglang", server, tokenizer, Options(max_tokens=1000)))
    assert text_of(chunks, tokenizer) == COMPLETION


GIVEN_UP = {
    "vllm": {"choices": [{"index": 0, "text": "", "finish_reason": "abort"}]},
    "completions": {"choices": [{"index": 0, "text": "", "finish_reason": "error"}]},
    "sglang": {
        "text": "",
        "meta_info": {"finish_reason": {"type": "abort", "message": "out of memory"}},
    },
}


@pytest.mark.parametrize("name", GIVEN_UP)
def test_what_a_server_gave_up_is_no_completion(name: str, tokenizer: Tokenizer) -> None:
    server = SERVERS[name](tokenizer, COMPLETION)

    async def gives_up(request: web.Request, number: int) -> web.Response:
        text = f"data: {json.dumps(GIVEN_UP[name])}\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    server.fault = gives_up
    with pytest.raises(BackendError, match=r"gave up: (abort|error|out of memory)"):
        run(generated(name, server, tokenizer, Options(max_tokens=10)))


# What servers say where a stop string of their own ended the text, and how old ones say it.
ENDINGS = {
    "vllm": ({"choices": [{"text": "", "finish_reason": "stop", "stop_reason": "&&"}]}, "stop"),
    "completions": (
        {"choices": [{"text": "", "finish_reason": "stop", "stop_reason": None}]},
        "stop",
    ),
    "sglang": ({"text": "", "meta_info": {"finish_reason": {"type": "stop", "matched": "&&"}}}, ""),
    "llamacpp": ({"stop": True, "stop_type": "word", "stopping_word": "&&"}, "stop"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_a_stop_string_is_told_from_the_models_own_end(case: str, tokenizer: Tokenizer) -> None:
    name = case.partition(" ")[0]
    last, finish = ENDINGS[case]
    server = SERVERS[name](tokenizer, COMPLETION)

    async def ends(request: web.Request, number: int) -> web.Response:
        text = f"data: {json.dumps(last)}\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    server.fault = ends
    (chunk,) = run(generated(name, server, tokenizer, Options(max_tokens=10)))
    expected = "&&" if "&&" in json.dumps(last) else None
    assert (chunk.finish, chunk.stop_string) == (finish or "stop", expected)


@pytest.mark.parametrize("name", SERVERS)
def test_a_limit_is_always_sent_and_its_end_is_seen(name: str, tokenizer: Tokenizer) -> None:
    server = SERVERS[name](tokenizer, "word " * 500)
    chunks = run(generated(name, server, tokenizer, Options(max_tokens=300)))
    assert [chunk.finish for chunk in chunks if chunk.finish] == ["length"]
    assert len(text_of(chunks, tokenizer).split()) in (299, 300)


@pytest.mark.parametrize("name", ["vllm", "sglang", "llamacpp"])
def test_the_prompt_goes_as_ids(name: str, tokenizer: Tokenizer) -> None:
    server = SERVERS[name](tokenizer, COMPLETION)
    run(generated(name, server, tokenizer, Options(max_tokens=10)))
    body = server.requests[0]
    given = body["input_ids"] if name == "sglang" else body["prompt"]
    assert given == tokenizer.encode(PROMPT)
    assert given.count(tokenizer.special_id("<｜User｜>")) == 1


@pytest.mark.parametrize("name", ["vllm", "sglang", "llamacpp"])
def test_counts_are_read(name: str, tokenizer: Tokenizer) -> None:
    server = SERVERS[name](tokenizer, COMPLETION)
    chunks = run(generated(name, server, tokenizer, Options(max_tokens=1000)))
    counts = [chunk.counts for chunk in chunks if chunk.counts][-1]
    assert counts.prompt == len(tokenizer.encode(PROMPT))
    assert counts.cached
    assert counts.completion == len(server.ids(COMPLETION))


def test_options_reach_each_server_under_its_names(tokenizer: Tokenizer) -> None:
    options = Options(
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        seed=3,
        stop=("END",),
        min_p=0.1,
        logit_bias=((5, -100), (7, 1.5)),
    )
    sent = {}
    for name, make in SERVERS.items():
        server = make(tokenizer, COMPLETION)
        run(generated(name, server, tokenizer, options))
        sent[name] = server.requests[0]
    common = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "stop": ["END"], "min_p": 0.1}
    for body in (sent["vllm"], sent["completions"], sent["llamacpp"]):
        assert body.items() >= {**common, "seed": 3}.items()
    bias = {"5": -100, "7": 1.5}
    for body in (sent["vllm"], sent["completions"], sent["sglang"]["sampling_params"]):
        assert body["logit_bias"] == bias
    assert sent["llamacpp"]["logit_bias"] == [[5, -100], [7, 1.5]]
    assert sent["sglang"]["sampling_params"].items() >= {**common, "sampling_seed": 3}.items()


@pytest.mark.parametrize("name", SERVERS)
def test_models_and_their_context(name: str, tokenizer: Tokenizer) -> None:
    async def scenario() -> Any:
        async with SERVERS[name](tokenizer, "").running() as url:
            backend = backend_named(Settings(backend=name, upstream=url), tokenizer)
            try:
                return (await backend.models())[0]
            finally:
                await backend.aclose()

    expected = {"vllm": 65536, "sglang": 32768, "llamacpp": 16384, "completions": 65536}
    assert run(scenario()).context == expected[name]


@pytest.mark.parametrize("name", SERVERS)
def test_closing_the_iterator_frees_the_upstream_at_once(name: str, tokenizer: Tokenizer) -> None:
    async def scenario() -> int:
        server = SERVERS[name](tokenizer, "word " * 1000, pause=0.01)
        async with server.running() as url:
            backend = backend_named(Settings(backend=name, upstream=url), tokenizer)
            stream = backend.stream(PROMPT, tokenizer.encode(PROMPT), Options(max_tokens=10000))
            await anext(stream)
            await stream.aclose()
            for _ in range(20):
                if server.disconnects:
                    break
                await asyncio.sleep(0.005)
            await backend.aclose()
            return server.disconnects

    assert run(scenario()) == 1


@pytest.mark.parametrize("text", [None, b"", b"two words", b"\xff"])
def test_a_file_without_a_key_is_refused(text: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key"
    if text is not None:
        path.write_bytes(text)
    settings = Settings(backend="vllm", upstream="http://gpu", upstream_key_file=str(path))
    with pytest.raises(SettingError, match="upstream_key_file: "):
        backend_named(settings, None)


def test_a_server_that_is_not_there(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        backend = backend_named(Settings(backend="vllm", upstream="http://127.0.0.1:1"), tokenizer)
        try:
            async for _ in backend.stream(PROMPT, [0], Options(max_tokens=1)):
                pass
        finally:
            await backend.aclose()

    with pytest.raises(BackendError) as caught:
        run(scenario())
    assert caught.value.status == 503


@pytest.mark.parametrize("name", SERVERS)
def test_a_stream_that_ends_without_a_word_was_cut(name: str, tokenizer: Tokenizer) -> None:
    first = {
        "sglang": {"text": "Half", "output_ids": [5], "meta_info": {"completion_tokens": 1}},
        "llamacpp": {"content": "Half", "tokens": [5], "stop": False},
    }.get(name, {"choices": [{"index": 0, "text": "Half", "finish_reason": None}]})

    async def ends(request: web.Request, number: int) -> web.Response:
        return web.Response(text=f"data: {json.dumps(first)}\n\n", content_type="text/event-stream")

    server = SERVERS[name](tokenizer, COMPLETION)
    server.fault = ends
    with pytest.raises(BackendError, match="broke off"):
        run(generated(name, server, tokenizer, Options(max_tokens=1000)))


def test_log_probabilities_of_sglang_come_as_all_so_far(tokenizer: Tokenizer) -> None:
    def event(count: int) -> str:
        known = [[-0.5, 5, "Half"], [-0.25, 6, " way"]][:count]
        meta = {"completion_tokens": count, "output_token_logprobs": known}
        meta |= {"output_top_logprobs": [[[-0.5, 5, "Half"], [-3.0, 7, "x"]], None][:count]}
        meta |= {"finish_reason": {"type": "stop"} if count == 2 else None}
        return f"data: {json.dumps({'text': '', 'meta_info': meta})}\n\n"

    async def knows(request: web.Request, number: int) -> web.Response:
        return web.Response(text=event(1) + event(2), content_type="text/event-stream")

    server = SglangServer(tokenizer, COMPLETION)
    server.fault = knows
    chunks = run(generated("sglang", server, tokenizer, Options(max_tokens=9, logprobs=2)))
    assert server.requests[0]["return_logprob"] is True
    assert server.requests[0]["top_logprobs_num"] == 2
    assert [chunk.logprobs for chunk in chunks] == [
        (Logprob("Half", -0.5, (("Half", -0.5), ("x", -3.0)), 5, (5, 7)),),
        (Logprob(" way", -0.25, id=6),),
    ]


def test_log_probabilities_of_llamacpp(tokenizer: Tokenizer) -> None:
    known = {"id": 5, "token": "Half", "logprob": -0.5}
    known["top_logprobs"] = [{"id": 5, "token": "Half", "logprob": -0.5}]
    told = {"content": "Half", "tokens": [5], "stop": True, "completion_probabilities": [known]}

    async def knows(request: web.Request, number: int) -> web.Response:
        return web.Response(text=f"data: {json.dumps(told)}\n\n", content_type="text/event-stream")

    server = LlamacppServer(tokenizer, COMPLETION)
    server.fault = knows
    chunks = run(generated("llamacpp", server, tokenizer, Options(max_tokens=9, logprobs=0)))
    assert server.requests[0]["n_probs"] == 1
    assert chunks[0].logprobs == (Logprob("Half", -0.5, (("Half", -0.5),), 5, (5,)),)


def test_log_probabilities_of_vllm_come_by_ids(tokenizer: Tokenizer) -> None:
    """A part of a character has no text of its own. The sampled token comes first, then the
    likeliest, as vLLM 0.32 sends them."""
    known = {"tokens": ["token_id:5"], "token_logprobs": [-3.0]}
    tops = [{"token_id:5": -3.0, "token_id:7": -0.5}]
    choice = {"text": "", "logprobs": known | {"top_logprobs": tops}, "finish_reason": "stop"}

    async def knows(request: web.Request, number: int) -> web.Response:
        event = f"data: {json.dumps({'choices': [choice]})}\n\n"
        return web.Response(text=event, content_type="text/event-stream")

    server = VllmServer(tokenizer, COMPLETION)
    server.fault = knows
    chunks = run(generated("vllm", server, tokenizer, Options(max_tokens=9, logprobs=2)))
    assert server.requests[0]["return_tokens_as_token_ids"] is True
    top = (("token_id:5", -3.0), ("token_id:7", -0.5))
    assert chunks[0].logprobs == (Logprob("token_id:5", -3.0, top, 5, (5, 7)),)


@pytest.mark.parametrize(
    ("ids", "values", "expected"),
    [
        ([5], [-3.0], [-3.0]),
        (None, [-3.0], (Logprob("token_id:5", -3.0, (("token_id:5", -3.0),), 5, (5,)),)),
        ([5], [None], ()),
        ([5], ["x"], None),
        (None, ["x"], None),
    ],
)
def test_log_probabilities_of_vllm_are_numbers_where_no_other_tokens_are_asked_for(
    tokenizer: Tokenizer, ids: Any, values: Any, expected: Any
) -> None:
    """Nothing else is kept of them in a session, and every token brings some."""
    known = {"tokens": ["token_id:5"], "token_logprobs": values}
    logprobs = known | {"top_logprobs": [{"token_id:5": values[0]}], "text_offset": [0]}
    choice = {"text": "", "token_ids": ids, "logprobs": logprobs, "finish_reason": "stop"}

    async def knows(request: web.Request, number: int) -> web.Response:
        event = f"data: {json.dumps({'choices': [choice]})}\n\n"
        return web.Response(text=event, content_type="text/event-stream")

    server = VllmServer(tokenizer, COMPLETION)
    server.fault = knows
    chunks = generated("vllm", server, tokenizer, Options(max_tokens=9, logprobs=0))
    if expected is None:
        with pytest.raises(BackendError, match="an event of another form"):
            run(chunks)
    else:
        assert [*run(chunks)[0].logprobs] == [*expected]
