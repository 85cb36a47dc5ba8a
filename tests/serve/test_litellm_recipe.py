"""litellm's own proxy in front of `dsv4 serve` and `dsv4 heal`, with deploy/litellm.yaml as it
stands: fallback, budget, calls and reasoning.

`make test-litellm` installs one and runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway import TOOLS, events_of, gateway, run
from standins import THINK_END, Scripted, free_port

from dsv4.serve import BackendError, Chunk

LITELLM = os.environ.get("LITELLM_VENV")
if not LITELLM:
    pytest.skip("LITELLM_VENV names no environment with litellm", allow_module_level=True)

RECIPE = Path(__file__).parents[2] / "deploy" / "litellm.yaml"
MASTER_KEY = f"sk-{secrets.token_hex(24)}"
STARTING = 180  # seconds that it may take
HELLO = {"model": "deepseek-v4", "messages": [{"role": "user", "content": "Hi"}]}
CALL = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="bash">\n'
    '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)


class Vendor:
    """A chat server that leaks calls into its content, and bills what a test says."""

    def __init__(self) -> None:
        self.requests = 0
        self.prompt_tokens = 10

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "deepseek-v4"}]})

    async def _complete(self, request: web.Request) -> web.Response:
        self.requests += 1
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": 5}
        usage["total_tokens"] = self.prompt_tokens + 5
        delta = {"reasoning_content": "The vendor thinks.", "content": f"Here:\n\n{CALL}"}
        choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
        event = {"id": "1", "choices": [choice], "usage": usage}
        text = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
        return web.Response(text=text, content_type="text/event-stream")


@asynccontextmanager
async def litellm_proxy(serve: str, heal: str, folder: Path) -> AsyncIterator[str]:
    port = free_port()
    program = Path(str(LITELLM), "bin", "litellm").absolute()
    environment = {
        **os.environ,
        "DSV4_SERVE": f"{serve}/v1",
        "DSV4_HEAL": f"{heal}/v1",
        "DSV4_KEY": "any",
        "LITELLM_MASTER_KEY": MASTER_KEY,
        # Prices of models would be fetched from the internet.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    environment.pop("PYTHONPATH", None)  # it is of another environment
    command = [str(program), "--config", str(RECIPE), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--telemetry", "False"], cwd=folder, env=environment, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        await _started(process, url, folder / "log")
        yield url
    finally:
        process.kill()
        process.wait()


async def _started(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + STARTING
    async with aiohttp.ClientSession() as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                async with client.get(f"{url}/health/liveliness"):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.5)
    raise AssertionError(log.read_text("utf-8", "replace")[-2_000:])


class Asked:
    """A client of the proxy."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url

    async def post(self, **more: Any) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {MASTER_KEY}"}
        url = f"{self._url}/v1/chat/completions"
        async with self._client.post(url, json={**HELLO, **more}, headers=headers) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else events_of(text)


def joined(events: list[Any], field: str) -> str:
    """What the deltas of a stream say in a field."""
    deltas = [each["choices"][0]["delta"] for each in events[:-1] if each["choices"]]
    return "".join(delta.get(field) or "" for delta in deltas)


def test_the_recipe_as_it_stands(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = Scripted(f"Ours.{THINK_END}", Chunk(text="Hello.", finish="eos"))
        vendor = Vendor()
        async with (
            gateway(engine) as serve,
            vendor.running() as upstream,
            gateway(settings_backend="chat", upstream=(upstream,)) as heal,
            litellm_proxy(serve.url, heal.url, tmp_path) as url,
        ):
            asked = Asked(serve.client, url)
            await check_own_engine(asked, vendor)
            engine.script = (BackendError("the engine is gone", 503),)
            await check_fallback(asked, vendor)
            await check_budget(asked, vendor)

    run(scenario(), 300)


async def check_own_engine(asked: Asked, vendor: Vendor) -> None:
    status, body = await asked.post()
    message = body["choices"][0]["message"]
    assert (status, message["content"]) == (200, "Hello.")
    assert message["reasoning_content"] == "Ours."
    _, events = await asked.post(stream=True)
    assert events[-1] == "[DONE]"
    assert joined(events, "content") == "Hello."
    assert joined(events, "reasoning_content") == "Ours."
    assert vendor.requests == 0


async def check_fallback(asked: Asked, vendor: Vendor) -> None:
    """The vendor answers, and what it leaks is healed on the way."""
    for stream in (False, True):
        status, body = await asked.post(stream=stream, tools=TOOLS)
        assert status == 200, body
        if stream:
            deltas = [e["choices"][0]["delta"] for e in body[:-1] if e["choices"]]
            calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        else:
            calls = body["choices"][0]["message"]["tool_calls"]
        assert calls[0]["function"]["name"] == "bash"
        arguments = "".join(call["function"]["arguments"] or "" for call in calls)
        assert json.loads(arguments) == {"command": "ls"}
    assert vendor.requests == 2


async def check_budget(asked: Asked, vendor: Vendor) -> None:
    """A bill of 11 dollars, and the vendor is not asked again today."""
    vendor.prompt_tokens = 40_000_000
    assert (await asked.post())[0] == 200
    for _ in range(100):  # it counts after it has answered
        before = vendor.requests
        status, body = await asked.post()
        if status != 200:
            break
        await asyncio.sleep(0.2)
    assert status in (429, 503), body
    assert vendor.requests == before
