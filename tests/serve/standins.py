"""Servers that behave as backends do, on real sockets, their quirks included.

Each is given the completions that it is to generate, as text with special tokens spelled, and keeps
the requests that it got. What a request does not ask for, it does not do: a gateway that forgets a
field is seen by what comes back.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web

from dsv4._format import tokens
from dsv4._format.tokens import Special, markup
from dsv4.serve import Chunk, Model
from dsv4.tokens import Tokenizer

# For tests that look at nothing else of the format.
EOS, THINK_END, THINK_START = tokens.EOS, tokens.THINK_END, tokens.THINK_START

# Tokens that such a server counts as special, so that `skip_special_tokens` removes them: in
# V4's tokenizer.json only these two have the flag, but servers add the stop tokens' like.
SKIPPED = {0, 1}


class StandIn:
    """What all of them share. `faults` maps the number of a request to what happens then."""

    routes: ClassVar[dict[str, str]] = {}

    def __init__(self, tokenizer: Tokenizer, *completions: str, pause: float = 0.0) -> None:
        self.tokenizer = tokenizer
        self.completions = list(completions)
        self.pause = pause
        self.requests: list[Any] = []
        self.headers: list[Any] = []
        self.written = 0
        self.disconnects = 0
        self.model = "deepseek-ai/DeepSeek-V4"
        self._connections: set[asyncio.Transport] = set()
        self._is_dead = False
        self.fault: Callable[[web.Request, int], Any] | None = None

    # Text and ids of the model.

    def ids(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in markup(text).parts:
            if isinstance(part, Special):
                ids.append(self.tokenizer.special_id(part))
            else:
                ids += self.tokenizer.encode_text(part)
        return ids

    def next_completion(self) -> str:
        return self.completions.pop(0) if len(self.completions) > 1 else self.completions[0]

    # The server.

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[str]:
        app = web.Application(client_max_size=2**30)
        for path, method in self.routes.items():
            app.router.add_route("*", path, getattr(self, method))
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        port = runner.addresses[0][1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()

    def dies(self) -> None:
        """Breaks off every stream, and answers nobody from then on."""
        self._is_dead = True
        for connection in self._connections:
            connection.abort()

    async def sent(self, request: web.Request, events: list[bytes]) -> web.StreamResponse:
        """Sends server-sent events, unless a fault is wished for."""
        number = len(self.requests)
        self.requests.append(json.loads(await request.read()))
        if request.transport is not None:
            self._connections.add(request.transport)
        self.headers.append(dict(request.headers))
        if self.fault is not None:
            response = await _awaited(self.fault(request, number))
            if response is not None:
                return response
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        try:
            for event in events:
                await response.write(event)
                self.written += 1
                if self.pause:
                    await asyncio.sleep(self.pause)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.disconnects += 1
            raise
        return response


@contextmanager
def in_a_thread(*servers: StandIn) -> Iterator[list[str]]:
    """The addresses of servers that run beside a test without a loop."""
    ready, done = threading.Event(), threading.Event()
    urls: list[str] = []

    async def run() -> None:
        async with AsyncExitStack() as stack:
            urls.extend([await stack.enter_async_context(server.running()) for server in servers])
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait()
    try:
        yield urls
    finally:
        done.set()
        thread.join()


async def _awaited(value: Any) -> Any:
    return await value if asyncio.iscoroutine(value) else value


def lower(headers: dict[str, str]) -> dict[str, str]:
    """Headers by their names as the newer protocols write them."""
    return {name.lower(): value for name, value in headers.items()}


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


ONE_WORD = re.compile(r'root ::= "(\w+)"')


def experts_at(place: int, id: int) -> list[list[int]]:
    """The experts that a stand-in chooses for a token: two of each of three layers."""
    return [[(id + layer) % 250, (place + layer) % 250] for layer in range(3)]


def all_experts(ids: list[int]) -> list[int]:
    """Those of all tokens but the last, in one list."""
    rows = [experts_at(place, id) for place, id in enumerate(ids[:-1])]
    return [number for row in rows for layer in row for number in layer]


def expanded(prompt: list[int], pictures: list[str]) -> list[int]:
    """The ids of a prompt with all those of its images: each has ten, whatever it shows. Raises
    where there is not one for each placeholder."""
    if prompt.count(tokens.IMAGE.id) != len(pictures):
        raise web.HTTPBadRequest(text=json.dumps({"message": "placeholders and images differ"}))
    return [each for id in prompt for each in [id] * (10 if id == tokens.IMAGE.id else 1)]


class VllmServer(StandIn):
    """vLLM's `/v1/completions`, and its `/inference/v1/generate`, which tells experts and versions
    of the weights at the end of a stream. `versions` are spans over the output.

    `grammars` is what it applies a grammar to: "grammar" is all of a completion; "server", with a
    reasoning parser, is what follows the reasoning; None is nothing, as if it knew no such field.
    It obeys grammars of one word. Requests with those are in `probes`, not among the others.
    """

    routes: ClassVar[dict[str, str]] = {
        "/v1/completions": "complete",
        "/inference/v1/generate": "generate",
        "/v1/models": "list_models",
        "/openapi.json": "list_routes",
    }
    tells_experts = True
    scale_out = True  # whether it was started with --enable-scale-out
    versions: list[dict[str, Any]] | None = None

    async def list_routes(self, request: web.Request) -> web.Response:
        fields = {"token_ids": {}, "content_parts": {}, "sampling_params": {}}
        paths = {
            "/v1/completions": {},
            **({"/inference/v1/generate": {}} if self.scale_out else {}),
        }
        schemas = {"GenerateRequest": {"properties": fields}} if self.scale_out else {}
        shown = {"paths": {path: {} for path in paths}, "components": {"schemas": schemas}}
        return web.json_response(shown)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        sampling, prompt = body["sampling_params"], body["token_ids"]
        prompt = expanded(prompt, [part["url"] for part in body.get("content_parts") or ()])
        all_ids = self.ids(self.next_completion())
        ids = all_ids[: sampling.get("max_tokens", 16)]
        events = []
        for n, id in enumerate(ids, 1):
            last = n == len(ids)
            known = {"token_id": id, "logprob": -n / 8, "rank": 1, "top_logprobs": []}
            choice: dict[str, Any] = {"index": 0, "token_ids": [id], "finish_reason": None}
            choice["logprobs"] = {"content": [known]} if "logprobs" in sampling else None
            if last:
                choice["finish_reason"] = "length" if len(ids) < len(all_ids) else "stop"
                choice["weight_versions"] = self.versions
            if last and self.tells_experts:
                choice["routed_experts"] = self._npy([*prompt, *ids])
            events.append(event({"request_id": "r", "choices": [choice]}))
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        return await self.sent(request, [*events, event({"choices": [], "usage": usage}), DONE])

    def _npy(self, ids: list[int]) -> str:
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(ids) - 1}, 3, 2), }}"
        text = header.ljust(117) + "\n"
        head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
        return base64.b64encode(head + bytes(all_experts(ids))).decode()

    def __init__(self, *args: Any, grammars: str | None = "grammar", **options: Any) -> None:
        super().__init__(*args, **options)
        self.grammars = grammars
        self.probes: list[Any] = []

    async def _answer_probe(self, request: web.Request, body: Any, word: str) -> web.Response:
        self.probes.append(body)
        thinks = body["prompt"].endswith(THINK_START)
        applied = self.grammars == "grammar" or (self.grammars == "server" and not thinks)
        written = self._choice(body, self.ids(word if applied else "Hmm"), "stop")
        return web.Response(body=event(written) + DONE, content_type="text/event-stream")

    async def list_models(self, request: web.Request) -> web.Response:
        if self._is_dead:
            raise web.HTTPServiceUnavailable
        model = {"id": self.model, "object": "model", "max_model_len": 65536}
        return web.json_response({"object": "list", "data": [model]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        grammar = (body.get("structured_outputs") or {}).get("grammar", "")
        if word := ONE_WORD.fullmatch(grammar):
            return await self._answer_probe(request, body, word[1])
        all_ids = self.ids(self.next_completion())
        ids = all_ids[: body.get("max_tokens", 16)]
        cut = len(ids) < len(all_ids)
        events = [event(self._choice(body, some, None)) for some in self._pieces(ids)]
        # The engine takes the EOS off the text, but not off the ids.
        events.append(event(self._choice(body, [], "length" if cut else "stop")))
        prompt = body["prompt"]
        if (body.get("stream_options") or {}).get("include_usage"):
            count = len(prompt) if isinstance(prompt, list) else len(self.ids(prompt))
            usage = {"prompt_tokens": count, "completion_tokens": len(ids)}
            usage["prompt_tokens_details"] = {"cached_tokens": count // 2}
            events.append(event({"choices": [], "usage": usage}))
        return await self.sent(request, [*events, DONE])

    def _pieces(self, ids: list[int]) -> list[list[int]]:
        return [[id] for id in ids]

    def _choice(self, body: Any, ids: list[int], finish: str | None) -> Any:
        choice: dict[str, Any] = {
            "index": 0,
            "text": self._text(body, ids),
            "finish_reason": finish,
        }
        if body.get("return_token_ids"):
            choice["token_ids"] = ids
        return {"id": "cmpl-1", "object": "text_completion", "choices": [choice]}

    def _text(self, body: Any, ids: list[int]) -> str:
        if body.get("skip_special_tokens", True):
            ids = [id for id in ids if id not in SKIPPED]
        between = " " if body.get("spaces_between_special_tokens", True) else ""
        return between.join(self.tokenizer.decode([id]) for id in ids)


class CompletionsServer(VllmServer):
    """Some other server of `/v1/completions`: only text, no usage, no ids, EOS taken off."""

    def _pieces(self, ids: list[int]) -> list[list[int]]:
        """Tokens that make up one character come together."""
        pieces: list[list[int]] = [[]]
        for id in ids:
            pieces[-1].append(id)
            if not self.tokenizer.decode(pieces[-1]).endswith("�"):
                pieces.append([])
        return [piece for piece in pieces if piece]

    def _choice(self, body: Any, ids: list[int], finish: str | None) -> Any:
        assert isinstance(body["prompt"], str)
        text = self.tokenizer.decode([id for id in ids if id not in SKIPPED])
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}


class SglangServer(StandIn):
    """SGLang's `/generate`: every event has all of the text so far."""

    routes: ClassVar[dict[str, str]] = {
        "/generate": "generate",
        "/model_info": "new_model_info",
        "/get_model_info": "model_info",
        "/get_server_info": "server_info",
    }

    def __init__(self, *args: Any, incremental: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self.incremental = incremental
        self.tells_experts = True
        self.versions: list[dict[str, Any]] | None = None
        self.version = "7"
        self.logprobs_lost = 0  # so many of the last event do not come
        self.sees: bool | None = None  # None is a release that does not say so
        self.is_old = False  # and has one of the routes alone

    async def new_model_info(self, request: web.Request) -> web.Response:
        if self.is_old:
            raise web.HTTPNotFound
        return await self.model_info(request)

    async def model_info(self, request: web.Request) -> web.Response:
        known = {} if self.sees is None else {"has_image_understanding": self.sees}
        return web.json_response({"model_path": "deepseek-ai/DeepSeek-V4.1-Flash", **known})

    async def server_info(self, request: web.Request) -> web.Response:
        return web.json_response({"context_length": 32768})

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        sampling = body["sampling_params"]
        prompt = expanded(body.get("input_ids") or [], body.get("image_data") or [])
        all_ids = self.ids(self.next_completion())
        ids = all_ids[: sampling.get("max_new_tokens", 128)]
        finish = {"type": "length"} if len(ids) < len(all_ids) else {"type": "stop", "matched": 1}
        events = []
        for n in range(1, len(ids) + 1):
            shown = ids[:n]
            if sampling.get("skip_special_tokens", True):
                shown = [id for id in shown if id not in SKIPPED]
            between = " " if sampling.get("spaces_between_special_tokens", True) else ""
            meta: dict[str, Any] = {
                "prompt_tokens": len(prompt),
                "cached_tokens": 3,
                "completion_tokens": n,
                "finish_reason": finish if n == len(ids) else None,
            }
            given = ids[n - 1 : n] if self.incremental else ids[:n]
            if self.incremental:
                shown = shown[-1:]
            if body.get("return_logprob"):
                known = [[-m / 8, id, None] for m, id in enumerate(ids[:n], 1)]
                known = known[-1:] if self.incremental else known
                lost = self.logprobs_lost if n == len(ids) else 0
                meta["output_token_logprobs"] = known[: len(known) - lost]
            meta["weight_version"] = self.version
            if n == len(ids):
                if self.versions is not None:
                    meta["weight_versions"] = self.versions
                if body.get("return_routed_experts") and self.tells_experts:
                    numbers = array("i", all_experts([*body["input_ids"], *ids]))
                    meta["routed_experts"] = base64.b64encode(numbers.tobytes()).decode()
            text = between.join(self.tokenizer.decode([id]) for id in shown)
            events.append(event({"text": text, "output_ids": given, "meta_info": meta}))
        return await self.sent(request, [*events, DONE])


class LlamacppServer(StandIn):
    """llama.cpp's `/completion`: control tokens are empty text, and of the tokens that make up one
    character only the last one's id comes."""

    routes: ClassVar[dict[str, str]] = {
        "/completion": "complete",
        "/v1/models": "list_models",
        "/props": "properties",
        "/tokenize": "tokenize",
    }
    marker: str | None = None  # for images, where it was started with --mmproj
    adds_bos = True

    def __init__(self, tokenizer: Tokenizer, *completions: str, **options: Any) -> None:
        super().__init__(tokenizer, *completions, **options)
        added = tokenizer.vocabulary.added
        self._control = {id for text, id in added.items() if text.startswith("<｜")}
        self._spelled = {id: text.encode() for text, id in added.items()}

    def _bytes(self, id: int) -> bytes:
        return self._spelled.get(id) or self.tokenizer.bytes_of(id)

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "deepseek-v4.gguf"}]})

    async def properties(self, request: web.Request) -> web.Response:
        seen = {"modalities": {"vision": self.marker is not None, "audio": False}}
        seen |= {} if self.marker is None else {"media_marker": self.marker}
        return web.json_response({"default_generation_settings": {"n_ctx": 16384}, **seen})

    async def tokenize(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        added = [0] if body.get("add_special") and self.adds_bos else []
        return web.json_response({"tokens": [*added, *self.ids(body["content"])]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        all_ids = self.ids(self.next_completion())
        ids = all_ids[: body["n_predict"]]
        events, held = [], b""
        for n, id in enumerate(ids, 1):
            held += b"" if id in self._control else self._bytes(id)
            try:
                text, held = held.decode(), b""
            except UnicodeDecodeError:
                continue
            tokens = [id] if body.get("return_tokens") else []
            partial = {"content": text, "tokens": tokens, "stop": False, "tokens_predicted": n}
            events.append(event(partial))
        last = {
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": "limit" if len(ids) < len(all_ids) else "eos",
            "tokens_evaluated": len(body["prompt"]),
            "tokens_predicted": len(ids),
            "timings": {"cache_n": 2},
        }
        return await self.sent(request, [*events, event(last)])


class ChatServer(StandIn):
    """A Chat Completions server whose answers leak. `completions` are lists of deltas as JSON."""

    routes: ClassVar[dict[str, str]] = {
        "/v1/chat/completions": "complete",
        "/v1/models": "list_models",
    }

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "leaky", "object": "model"}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        events = [event(chunk) for chunk in json.loads(self.next_completion())]
        return await self.sent(request, [*events, DONE])


class Scripted:
    """A backend in the process that does what a test says: waits so many seconds, or for an event,
    breaks, or gives text or a chunk."""

    grammar_form = None

    def __init__(self, *script: Any) -> None:
        self.script = script
        self.open = 0
        self.opened = 0
        self.steps = 0

    async def stream(self, prompt: Any, ids: Any, options: Any) -> AsyncIterator[Chunk]:
        self.open += 1
        self.opened += 1
        try:
            for step in self.script:
                self.steps += 1
                if isinstance(step, float):
                    await asyncio.sleep(step)
                elif isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    yield Chunk(step) if isinstance(step, str) else step
        finally:
            self.open -= 1

    async def models(self) -> list[Model]:
        return [Model("deepseek-v4-scripted", 100_000)]

    async def aclose(self) -> None:
        pass


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def redis_server(folder: Path, port: int = 0, arguments: Sequence[str] = ()) -> Iterator[str]:
    """The URL of a Redis server of the tests' own, which keeps its data in a folder where it is
    given a port. Skips the test where none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    keeps = ["--appendonly", "yes", "--appendfsync", "always"] if port else []
    port = port or free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    server = subprocess.Popen([*command, *keeps, *arguments], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
