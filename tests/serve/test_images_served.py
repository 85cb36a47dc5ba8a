"""Images through the gateway: how each engine gets them, and what becomes of the others."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from gateway import TOOLS, gateway, run
from standins import (
    ChatServer,
    CompletionsServer,
    LlamacppServer,
    SglangServer,
    StandIn,
    VllmServer,
    free_port,
)

from dsv4._format import tokens
from dsv4._format.dialects import dialect_named
from dsv4.errors import ImageError
from dsv4.serve.backend import ImageSupport
from dsv4.serve.backend_watch import images_in_words
from dsv4.serve.banner import banner_text, summary_of_settings
from dsv4.serve.images.image_fetcher import ImageFetcher
from dsv4.serve.images.request_images import RequestImages
from dsv4.serve.settings import Settings
from dsv4.tokens import Tokenizer

PIXEL = b"GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
WIDE = PIXEL[:6] + b"\x80\x07\x38\x04" + PIXEL[10:]  # 1920 × 1080
TOKENS = {PIXEL: 184, WIDE: 968}
IMAGE, BOS = tokens.IMAGE, tokens.BOS
ANSWER = "Hm.</think>A cat."
MARKER = "<__media_7f3a__>"
REMOTE = "https://cats.example/cat.gif"


def packed(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def url_of(picture: bytes, kind: str = "gif") -> str:
    return f"data:image/{kind};base64,{packed(picture)}"


def part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}


def chat(*content: Any, **more: Any) -> dict[str, Any]:
    given = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"messages": [{"role": "user", "content": given}], **more}


TWO = chat("Compare.", part(url_of(PIXEL)), part(url_of(WIDE, "png")))
# The label of the second is put right by its bytes.
SENT = [url_of(PIXEL), url_of(WIDE)]


def sglang(tokenizer: Tokenizer, **set: Any) -> Any:
    return _with(SglangServer(tokenizer, ANSWER), **{"sees": True, **set})


def vllm(tokenizer: Tokenizer, **set: Any) -> StandIn:
    return _with(VllmServer(tokenizer, ANSWER), **set)


def llamacpp(tokenizer: Tokenizer, **set: Any) -> StandIn:
    return _with(LlamacppServer(tokenizer, ANSWER), **{"marker": MARKER, **set})


def _with(server: StandIn, **set: Any) -> StandIn:
    server.model = "deepseek-ai/DeepSeek-V4.1-Flash"
    for name, value in set.items():
        setattr(server, name, value)
    return server


ENGINES = {"sglang": sglang, "vllm": vllm, "llamacpp": llamacpp}


def pictures_in(body: Any) -> list[str]:
    """What an engine got, as `data:` addresses or addresses."""
    if "image_data" in body:
        return list(body["image_data"])
    if "content_parts" in body:
        assert all(part["type"] == "image_url" for part in body["content_parts"])
        return [part["url"] for part in body["content_parts"]]
    prompt = body.get("prompt")
    media = prompt.get("multimodal_data", []) if isinstance(prompt, dict) else []
    return [f"data:image/gif;base64,{data}" for data in media]


def placeholders_in(body: Any) -> int:
    ids = body.get("input_ids") or body.get("token_ids")
    if ids is None:
        prompt = body["prompt"]
        return prompt["prompt_string"].count(MARKER) if isinstance(prompt, dict) else 0
    return list(ids).count(IMAGE.id)


def answered(
    upstream: StandIn, backend: str, body: Any, path: str = "/v1/chat/completions", **settings: Any
) -> tuple[int, Any, Any]:
    """What the gateway answers in front of an engine, by its status, headers and body."""

    async def scenario() -> tuple[int, Any, Any]:
        given = {"dialect": "v4.1", "settings_backend": backend, **settings}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            return await g.post(path, body)

    status, headers, answer = run(scenario())
    return status, headers, answer


@pytest.mark.parametrize("backend", ENGINES)
def test_an_engine_gets_one_picture_for_each_placeholder(
    backend: str, tokenizer: Tokenizer
) -> None:
    upstream = ENGINES[backend](tokenizer)
    status, headers, answer = answered(upstream, backend, TWO)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "A cat.")
    assert "x-dsv4-images" not in headers
    [body] = upstream.requests
    assert (pictures_in(body), placeholders_in(body)) == (SENT, 2)


MESSAGES_PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/gif", "data": packed(PIXEL)},
}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "shot"}}
PROTOCOLS: dict[str, tuple[str, Any]] = {
    "chat": ("/v1/chat/completions", chat("What?", part(url_of(PIXEL)))),
    "responses": (
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "Look."},
                {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": url_of(PIXEL)}],
                },
            ]
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": [CALLED]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "toolu_1",
                            "content": [MESSAGES_PICTURE],
                        }
                    ],
                },
            ],
        },
    ),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("backend", ENGINES)
def test_every_protocol_brings_pictures_of_users_and_tools(
    backend: str, protocol: str, tokenizer: Tokenizer
) -> None:
    upstream = ENGINES[backend](tokenizer)
    path, body = PROTOCOLS[protocol]
    status, _, answer = answered(upstream, backend, body, path)
    assert status == 200, answer
    assert pictures_in(upstream.requests[-1]) == [url_of(PIXEL)]


def test_requests_without_pictures_go_as_ever(tokenizer: Tokenizer) -> None:
    for backend, routes in {"sglang": "input_ids", "vllm": "prompt", "llamacpp": "prompt"}.items():
        upstream = ENGINES[backend](tokenizer)
        assert answered(upstream, backend, chat("Hi"))[0] == 200
        [body] = upstream.requests
        assert isinstance(body[routes], list)
        assert pictures_in(body) == []


def test_pictures_follow_the_order_of_the_prompt(tokenizer: Tokenizer) -> None:
    """Results of tools stand in the order of their calls."""
    calls = [
        {"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        for id in ("a", "b")
    ]
    body = {
        "messages": [
            {"role": "user", "content": "Two shots."},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "b", "content": [part(url_of(WIDE))]},
            {"role": "tool", "tool_call_id": "a", "content": [part(url_of(PIXEL))]},
        ],
        "tools": TOOLS,
    }
    upstream = sglang(tokenizer)
    assert answered(upstream, "sglang", body)[0] == 200
    assert pictures_in(upstream.requests[-1]) == SENT


# What an engine says of itself.


CANNOT: dict[str, tuple[str, Any, str]] = {
    "SGLang with a model for text": ("sglang", {"sees": False}, "no image understanding"),
    "SGLang that does not say": ("sglang", {"sees": None}, "no image understanding"),
    "vLLM without the route": ("vllm", {"scale_out": False}, "--enable-scale-out"),
    "llama.cpp without mmproj": ("llamacpp", {"marker": None}, "--mmproj"),
    "llama.cpp without a marker": ("llamacpp", {"marker": ""}, "media marker"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_an_engine_that_takes_none_gets_text_and_the_client_is_told(
    case: str, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    backend, set, why = CANNOT[case]

    async def scenario() -> None:
        upstream = ENGINES[backend](tokenizer, **set)
        given = {"dialect": "v4.1", "settings_backend": backend}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            status, headers, _ = await g.post("/v1/chat/completions", TWO)
            assert (status, headers["x-dsv4-images"]) == (200, "replaced=2")
            assert pictures_in(upstream.requests[-1]) == []
            _, ready = await g.get("/ready")
            assert ready["images"]["sent"] is False
            assert why in ready["images"]["why"]
            _, metrics = await g.get("/metrics")
            assert 'dsv4_images_total{outcome="replaced"} 2.0' in metrics

    caplog.set_level(logging.INFO, "dsv4.serve")
    run(scenario())
    [line] = [vars(r)["dsv4_fields"] for r in caplog.records if _is_generation(r)]
    assert line["replaced_images"] == 2


def _is_generation(record: logging.LogRecord) -> bool:
    return getattr(record, "dsv4_fields", {}).get("path") == "/v1/chat/completions"


@pytest.mark.parametrize("case", CANNOT)
def test_or_the_client_gets_an_error_that_names_the_place(case: str, tokenizer: Tokenizer) -> None:
    backend, set, _ = CANNOT[case]
    upstream = ENGINES[backend](tokenizer, **set)
    status, _, answer = answered(upstream, backend, TWO, images="refuse")
    assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("protocol", "fields", "place"),
    [
        ("chat", {"messages": [{"role": "system", "content": "A"}] * 2}, "messages[2].content"),
        ("responses", {"instructions": "A"}, "input[0].content"),
        ("messages", {"system": "A", "max_tokens": 9}, "messages[0].content"),
    ],
)
def test_a_text_that_spells_the_token_is_named_where_the_client_wrote_it(
    protocol: Any, fields: dict[str, Any], place: str, tokenizer: Tokenizer
) -> None:
    name = "input" if protocol == "responses" else "messages"
    asked = {"role": "user", "content": "<｜deepseek_image｜>"}
    body = {**fields, name: [*fields.get(name, ()), asked]}
    status, _, answer = answered(sglang(tokenizer), "sglang", body, PROTOCOLS[protocol][0])
    assert status == 400
    assert answer["error"]["message"].startswith(f"{place}: found <｜deepseek_image｜> in a text")


def test_other_backends_and_dialects_take_none(tokenizer: Tokenizer) -> None:
    upstream = CompletionsServer(tokenizer, ANSWER)
    assert answered(upstream, "completions", TWO)[1]["x-dsv4-images"] == "replaced=2"
    upstream = sglang(tokenizer)
    status, headers, _ = answered(upstream, "sglang", TWO, dialect="v4")
    assert (status, headers["x-dsv4-images"]) == (200, "replaced=2")


def test_an_older_sglang_is_asked_by_its_older_route(tokenizer: Tokenizer) -> None:
    upstream = sglang(tokenizer, is_old=True)
    assert answered(upstream, "sglang", TWO)[0] == 200
    assert pictures_in(upstream.requests[-1]) == SENT


def test_an_engine_that_was_restarted_is_asked_again(tokenizer: Tokenizer) -> None:
    async def scenario(stack: AsyncExitStack) -> None:
        before, after, port = sglang(tokenizer, sees=False), sglang(tokenizer), free_port()
        given = {"dialect": "v4.1", "settings_backend": "sglang"}
        async with before.running(port) as url:
            g = await stack.enter_async_context(gateway(upstream=url, **given))
            assert (await g.get("/ready"))[1]["images"]["sent"] is False
        g.server.behind._ready_until = 0.0
        async with after.running(port):
            assert (await g.get("/ready"))[1]["images"] == {"sent": True, "urls": "refuse"}
            status, headers, _ = await g.post("/v1/chat/completions", TWO)
            assert (status, "x-dsv4-images" in headers) == (200, False)

    async def both() -> None:
        async with AsyncExitStack() as stack:
            await scenario(stack)

    run(both())


def test_an_engine_that_gave_no_answer_is_asked_again_later(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream, failing = sglang(tokenizer), True

        async def info(request: web.Request) -> web.Response:
            if failing:
                raise web.HTTPInternalServerError
            return await SglangServer.model_info(upstream, request)

        upstream.new_model_info = info
        given = {"dialect": "v4.1", "settings_backend": "sglang"}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            _, headers, _ = await g.post("/v1/chat/completions", TWO)
            assert headers["x-dsv4-images"] == "replaced=2"
            failing = False
            g.server.behind._ask_for_images_at = 0.0  # as if the time had passed
            _, headers, _ = await g.post("/v1/chat/completions", TWO)
            assert "x-dsv4-images" not in headers

    run(scenario())


def test_one_of_several_engines_that_takes_none_decides(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        sees, blind = sglang(tokenizer), sglang(tokenizer, sees=False)
        async with sees.running() as one, blind.running() as two:
            given = {"dialect": "v4.1", "settings_backend": "sglang"}
            async with gateway(upstream=(one, two), **given) as g:
                assert (await g.get("/ready"))[1]["images"]["sent"] is False

    run(scenario())


# llama.cpp takes text.


def llama_prompt(tokenizer: Tokenizer, body: Any, **set: Any) -> str:
    upstream = llamacpp(tokenizer, **set)
    assert answered(upstream, "llamacpp", body)[0] == 200
    return str(upstream.requests[-1]["prompt"]["prompt_string"])


def test_llamacpp_gets_the_text_with_its_own_marker(tokenizer: Tokenizer) -> None:
    body = chat("What?", part(url_of(PIXEL)), thinking={"type": "disabled"})
    prompt = llama_prompt(tokenizer, body)
    assert prompt == f"{tokens.USER}What?\n\n{MARKER}{tokens.ASSISTANT}{tokens.THINK_END}"
    assert llama_prompt(tokenizer, body, adds_bos=False) == f"{BOS}{prompt}"


@pytest.mark.parametrize(
    "text",
    [
        *(MARKER, str(tokens.USER), str(tokens.THINK_END), f"{tokens.DSML}DSML\uff5c", "<|EOT|>"),
        *(str(BOS), f"x{MARKER}{MARKER}y"),
    ],
)
def test_what_a_user_spells_is_no_token_and_no_marker(text: str, tokenizer: Tokenizer) -> None:
    quiet = {"thinking": {"type": "disabled"}}
    plain = llama_prompt(tokenizer, chat("", part(url_of(PIXEL)), **quiet))
    prompt = llama_prompt(tokenizer, chat(text, part(url_of(PIXEL)), **quiet))
    names = [*tokenizer.vocabulary.added, MARKER]
    counts = [(name, prompt.count(name), plain.count(name)) for name in names]
    assert [each for each in counts if each[1] != each[2]] == []
    assert text in prompt.replace("\u2060", "")


# Tokens.


def test_usage_is_the_engines_and_the_log_has_our_own_count(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dsv4.serve")
    upstream = sglang(tokenizer)
    _, _, answer = answered(upstream, "sglang", TWO)
    compact = len(upstream.requests[-1]["input_ids"])
    assert answer["usage"]["prompt_tokens"] == compact + 2 * 9  # a stand-in's image has ten
    [line] = [vars(r)["dsv4_fields"] for r in caplog.records if _is_generation(r)]
    assert (line["images"], line["counted_tokens"]) == (2, compact - 2 + 184 + 968)


@pytest.mark.parametrize("picture", TOKENS)
def test_counting_counts_every_token_of_an_image(picture: bytes, tokenizer: Tokenizer) -> None:
    source = {"type": "base64", "media_type": "image/gif", "data": packed(picture)}
    text = {"type": "text", "text": "x"}

    def counted(*blocks: Any) -> int:
        body = {"messages": [{"role": "user", "content": list(blocks)}]}
        path = "/v1/messages/count_tokens"
        status, _, answer = answered(sglang(tokenizer), "sglang", body, path)
        assert status == 200
        return int(answer["input_tokens"])

    with_image = counted(text, {"type": "image", "source": source})
    blank_line = 1
    assert with_image - counted(text) - blank_line == TOKENS[picture]


def test_a_prompt_that_is_too_long_with_its_images_is_refused(tokenizer: Tokenizer) -> None:
    upstream = sglang(tokenizer)
    status, _, answer = answered(upstream, "sglang", TWO, context=1100)
    assert status == 400
    assert "1100" in answer["error"]["message"]
    assert upstream.requests == []


def test_prefixes_with_other_pictures_are_not_shared(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        given = {"dialect": "v4.1", "settings_backend": "sglang"}
        async with sglang(tokenizer).running() as url, gateway(upstream=url, **given) as g:

            async def shared(picture: bytes) -> int:
                body = chat(part(url_of(picture)), "What is this?")
                _, headers, _ = await g.post("/v1/chat/completions", body)
                return int(headers["x-dsv4-prefix"])

            assert await shared(PIXEL) == 0
            other = await shared(WIDE)
            assert other < await shared(PIXEL)

    run(scenario())


# Addresses.


class Shelf(ImageFetcher):
    """A fetcher that has its pictures already."""

    def __init__(self, **pictures: bytes) -> None:
        super().__init__()
        self.pictures = pictures
        self.asked: list[str] = []

    async def fetched(self, address: str, most: int) -> bytes:
        self.asked.append(address)
        await asyncio.sleep(0)
        name = address.rpartition("/")[2].partition(".")[0]
        if name not in self.pictures:
            raise ImageError(f"{address}: found the status 404, expected 200")
        return self.pictures[name]


def with_shelf(
    shelf: Shelf, body: Any, upstream: StandIn, path: str = "/v1/chat/completions", **settings: Any
) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        given = {"dialect": "v4.1", "settings_backend": "sglang", "image_urls": "fetch", **settings}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            g.server.images = RequestImages(g.server.settings, shelf)
            status, _, answer = await g.post(path, body)
            return status, answer

    status, answer = run(scenario())
    return status, answer


@pytest.mark.parametrize("backend", ENGINES)
def test_an_address_is_refused_by_default(backend: str, tokenizer: Tokenizer) -> None:
    upstream = ENGINES[backend](tokenizer)
    status, _, answer = answered(upstream, backend, chat("x", part(REMOTE)))
    error = answer["error"]
    assert (status, error["param"]) == (400, "messages[0].content[1]")
    assert "`image_urls`" in error["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("backend", ENGINES)
def test_an_address_is_passed_to_an_engine_that_fetches(backend: str, tokenizer: Tokenizer) -> None:
    upstream = ENGINES[backend](tokenizer)
    body = chat("x", part(REMOTE), part(url_of(PIXEL)))
    status, _, answer = answered(upstream, backend, body, image_urls="pass")
    if backend == "llamacpp":
        assert (status, upstream.requests) == (400, [])
        assert "takes no addresses" in answer["error"]["message"]
    else:
        assert pictures_in(upstream.requests[-1]) == [REMOTE, url_of(PIXEL)]


@pytest.mark.parametrize("backend", ENGINES)
def test_or_the_gateway_fetches_it(backend: str, tokenizer: Tokenizer) -> None:
    upstream, shelf = ENGINES[backend](tokenizer), Shelf(cat=PIXEL, dog=WIDE)
    dog = REMOTE.replace("cat.gif", "dog.png")
    body = chat("x", part(dog), part(REMOTE), part(url_of(PIXEL)), part(dog))
    assert with_shelf(shelf, body, upstream, settings_backend=backend)[0] == 200
    pixel, wide = SENT
    assert pictures_in(upstream.requests[-1]) == [wide, pixel, pixel, wide]
    assert sorted(shelf.asked) == sorted([REMOTE, dog])  # each once


BOMB = PIXEL[:6] + b"\xff\xff\xff\xff" + PIXEL[10:]
BAD_PICTURES = {
    "not there": (None, "status 404"),
    "a page": (b"<html>cats</html>", "an image: found"),
    "cut short": (PIXEL[:12], "cut short"),
    "a bomb": (BOMB, "65535 × 65535 pixels"),
    "empty": (b"", "an image: found"),
}


@pytest.mark.parametrize("kind", BAD_PICTURES)
def test_what_is_fetched_is_checked_as_what_is_sent(kind: str, tokenizer: Tokenizer) -> None:
    data, problem = BAD_PICTURES[kind]
    upstream = sglang(tokenizer)
    shelf = Shelf() if data is None else Shelf(cat=data)
    status, answer = with_shelf(shelf, chat("x", part(REMOTE)), upstream)
    assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
    assert problem in answer["error"]["message"]
    assert upstream.requests == []


def test_pictures_of_a_request_have_one_limit_together(tokenizer: Tokenizer) -> None:
    many = [part(f"https://cats.example/p{n}.gif") for n in range(20)]
    shelf = Shelf(**{f"p{n}": PIXEL + bytes(100) for n in range(20)})
    upstream = sglang(tokenizer)
    assert with_shelf(shelf, chat("x", *many), upstream)[0] == 200
    status, answer = with_shelf(shelf, chat("x", *many), sglang(tokenizer), max_body=2500)
    assert (status, "in all" in answer["error"]["message"]) == (400, True)


def test_a_large_picture_is_sent(tokenizer: Tokenizer) -> None:
    upstream, large = sglang(tokenizer), PIXEL + bytes(300_000)
    assert answered(upstream, "sglang", chat("x", part(url_of(large))))[0] == 200
    assert pictures_in(upstream.requests[-1]) == [url_of(large)]


@pytest.mark.parametrize("count", [100, 101])
def test_a_request_has_a_hundred_images_at_most(count: int, tokenizer: Tokenizer) -> None:
    upstream = sglang(tokenizer)
    body = chat("x", *[part(url_of(PIXEL))] * count)
    status, _, answer = answered(upstream, "sglang", body)
    assert status == (200 if count == 100 else 400), answer


@pytest.mark.parametrize("rule", ["refuse", "pass", "fetch"])
@pytest.mark.parametrize("url", ["file:///etc/passwd", "/etc/passwd", "cat.png", "ftp://x/cat"])
def test_files_and_paths_are_refused_always(rule: str, url: str, tokenizer: Tokenizer) -> None:
    upstream = sglang(tokenizer)
    status, _, answer = answered(upstream, "sglang", chat("x", part(url)), image_urls=rule)
    assert (status, upstream.requests) == (400, [])
    assert "expected an address with http, https or data" in answer["error"]["message"]


def test_counting_fetches_too(tokenizer: Tokenizer) -> None:
    block = {"type": "image", "source": {"type": "url", "url": REMOTE}}
    body = {"messages": [{"role": "user", "content": [block]}]}
    path, shelf = "/v1/messages/count_tokens", Shelf(cat=PIXEL)
    status, answer = with_shelf(shelf, body, sglang(tokenizer), path)
    assert (status, shelf.asked) == (200, [REMOTE])
    assert answer["input_tokens"] > 184
    status, answer = with_shelf(shelf, body, sglang(tokenizer), path, image_urls="refuse")
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


def test_an_image_of_unknown_size_counts_as_the_largest(tokenizer: Tokenizer) -> None:
    block = {"type": "image", "source": {"type": "url", "url": REMOTE}}
    body = {"messages": [{"role": "user", "content": [block]}]}
    path = "/v1/messages/count_tokens"
    _, _, answer = answered(sglang(tokenizer), "sglang", body, path, image_urls="pass")
    known = {"messages": [{"role": "user", "content": [MESSAGES_PICTURE]}]}
    _, _, small = answered(sglang(tokenizer), "sglang", known, path)
    assert answer["input_tokens"] - small["input_tokens"] == 1024 - 184


# In front of a chat server.


DELTA = '[{"choices": [{"delta": {"content": "A cat."}, "finish_reason": "stop"}]}]'


def healed(body: Any, path: str = "/v1/chat/completions", **settings: Any) -> Any:
    async def scenario() -> Any:
        upstream = ChatServer(None, DELTA)  # type: ignore[arg-type]
        given = {"settings_backend": "chat", "dialect": "v4.1", **settings}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            status, headers, answer = await g.post(path, body)
            return status, headers, answer, upstream.requests

    return run(scenario())


@pytest.mark.parametrize("url", [url_of(PIXEL), REMOTE, "data:image/svg+xml;base64,PHN2Zy8+"])
@pytest.mark.parametrize("settings", [{}, {"adapt_for": "vllm"}, {"images": "refuse"}])
def test_parts_go_through_to_a_chat_server_as_they_are(url: str, settings: Any) -> None:
    body = chat("What?", part(url))
    status, headers, _, requests = healed(body, **settings)
    assert (status, "x-dsv4-images" in headers) == (200, False)
    assert requests[-1]["messages"][0]["content"] == body["messages"][0]["content"]


def test_what_a_chat_server_cannot_read_is_told() -> None:
    status, headers, _, requests = healed(TWO, dialect="v4", adapt_for="vllm")
    assert (status, headers["x-dsv4-images"]) == (200, "replaced=2")
    assert "[Unsupported Image]" in str(requests[-1]["messages"])


def test_the_id_of_a_file_is_refused_before_a_chat_server_too() -> None:
    part = {"type": "input_image", "file_id": "file-1"}
    body = {"input": [{"role": "user", "content": [part]}]}
    status, _, answer, requests = healed(body, "/v1/responses")
    assert (status, requests) == (400, [])
    assert "no files are kept" in answer["error"]["message"]


@pytest.mark.parametrize("dialect", ["v4", "v4.1"])
@pytest.mark.parametrize("role", ["user", "system"])
def test_a_chat_server_is_sent_no_files(dialect: str, role: str) -> None:
    content = [{"type": "text", "text": "x"}, part("file:///etc/passwd")]
    messages = [{"role": role, "content": content}, {"role": "user", "content": "y"}]
    status, _, answer, requests = healed({"messages": messages}, dialect=dialect)
    assert (status, requests) == (400, [])
    assert answer["error"]["param"] == "messages[0].content[1]"


# Where no image can stand.


def misplaced(*, messages: bool = False) -> Any:
    """A picture in the system message and one in the assistant's, beside the user's."""
    picture = MESSAGES_PICTURE if messages else part(url_of(PIXEL))
    said = [{"type": "text", "text": "Before."}, picture]
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": said},
    ]
    if messages:
        return {"system": said, "messages": turns, "max_tokens": 9}
    return {"messages": [{"role": "system", "content": said}, *turns]}


def test_pictures_of_the_system_and_the_assistant_are_told_and_counted(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        upstream = sglang(tokenizer)
        given = {"dialect": "v4.1", "settings_backend": "sglang"}
        async with upstream.running() as url, gateway(upstream=url, **given) as g:
            for path, is_messages in (("/v1/chat/completions", False), ("/v1/messages", True)):
                status, headers, _ = await g.post(path, misplaced(messages=is_messages))
                assert (status, headers["x-dsv4-images"]) == (200, "replaced=2")
                assert pictures_in(upstream.requests[-1]) == [url_of(PIXEL)]
            _, metrics = await g.get("/metrics")
            assert 'dsv4_images_total{outcome="replaced"} 4.0' in metrics

    caplog.set_level(logging.INFO, "dsv4.serve")
    run(scenario())
    [line] = [vars(r)["dsv4_fields"] for r in caplog.records if _is_generation(r)]
    assert (line["images"], line["replaced_images"]) == (1, 2)


def test_or_refused(tokenizer: Tokenizer) -> None:
    upstream = sglang(tokenizer)
    status, _, answer = answered(upstream, "sglang", misplaced(), images="refuse")
    assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
    assert "images of this role (system) are not read" in answer["error"]["message"]
    assert upstream.requests == []


def test_what_a_chat_server_is_not_sent_is_told() -> None:
    """Chat Completions has no place for pictures of the system and the assistant of Messages."""
    status, headers, _, requests = healed(misplaced(messages=True), "/v1/messages")
    assert (status, headers["x-dsv4-images"]) == (200, "replaced=2")
    assert str(requests[-1]["messages"]).count("[Unsupported Image]") == 2
    status, headers, _, requests = healed(misplaced())  # as they are
    assert (status, "x-dsv4-images" in headers) == (200, False)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/v1/responses",
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        ),
        (
            "/v1/messages",
            {
                "max_tokens": 9,
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
                    }
                ],
            },
        ),
    ],
)
def test_ids_of_files_before_a_chat_server_without_images(path: str, body: Any) -> None:
    status, headers, _, requests = healed(body, path, dialect="v4")
    assert (status, headers["x-dsv4-images"]) == (200, "replaced=1")
    assert "[Unsupported Image]" in str(requests[-1]["messages"])
    status, _, _, requests = healed(body, path, dialect="v4", images="refuse")
    assert (status, requests) == (400, [])


# At the start.


def banner_line(support: Any, **settings: Any) -> Sequence[str]:
    given = Settings(backend="sglang", upstream=("http://x",), dialect="v4.1", **settings)
    words = images_in_words(dialect_named("v4.1"), given, support)
    summary = replace(summary_of_settings(given), images=words)
    return re.findall("(?m)^  images +(.*)$", banner_text(given, summary))


def test_the_banner_says_what_becomes_of_images() -> None:
    sees = ImageSupport(True, by_address=True)
    assert banner_line(sees) == ["sent to the engine; addresses are refused (--image-urls)"]
    assert "fetches" in banner_line(sees, image_urls="fetch")[0]
    blind = ImageSupport(False, "vLLM has no such route: start it with --enable-scale-out")
    assert banner_line(blind)[0].startswith("replaced by a text: vLLM has no such route")
    assert banner_line(blind, images="refuse")[0].startswith("refused: ")
