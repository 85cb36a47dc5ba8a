"""Dynamo's frontend, which writes prompts and reads completions, in front of a worker that stands
in for an engine: it says what it is told, and keeps the ids that it was asked with.

Runs in Dynamo's environment. Worker and frontend are processes of one machine, which find each
other through a folder.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from chat_requests import SECONDS, free_port, post_chat
from model_folder import MODELS, write_model


class DynamoFrontend:
    """A frontend that serves both dialects for as long as this process lives."""

    def __init__(self, vocabulary: Path) -> None:
        from tokenizers import Tokenizer

        self._folder = Path(mkdtemp())
        self._tokenizers = {}
        for dialect, (model, _) in MODELS.items():
            write_model(self._folder / model, dialect, vocabulary)
            file = str(self._folder / model / "tokenizer.json")
            self._tokenizers[dialect] = Tokenizer.from_file(file)
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/v1"
        self._said = ""
        self._asked: list[int] = []
        os.environ |= {
            **{"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(self._folder / "discovery")},
            **{"DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1"},
            "HOME": str(self._folder),  # where it caches what it knows of models
            **{"DYN_LOG": "error", "DYN_SELF_HOST_METADATA": "0"},
        }
        threading.Thread(target=self._work, daemon=True).start()
        self._process = self._started(port)
        atexit.register(self._process.kill)
        self._wait()

    def _started(self, port: int) -> subprocess.Popen[bytes]:
        options = ["--http-host", "127.0.0.1", "--http-port", str(port)]
        return subprocess.Popen(
            [sys.executable, "-m", "dynamo.frontend", *options],
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / "frontend.log").open("wb"),
        )

    def _work(self) -> None:
        from dynamo.runtime import dynamo_worker

        async def worker(runtime: Any) -> None:
            await asyncio.gather(*(self._serve(runtime, dialect) for dialect in MODELS))

        with_runtime: Any = dynamo_worker()(worker)
        asyncio.run(with_runtime())

    async def _serve(self, runtime: Any, dialect: str) -> None:
        """An engine that says what it is told."""
        from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model

        async def generate(request: Any, context: Any) -> Any:
            self._asked = request["token_ids"]
            encoded = self._tokenizers[dialect].encode(self._said, add_special_tokens=False)
            for id in encoded.ids:
                yield {"token_ids": [id]}
            yield {"token_ids": [1], "finish_reason": "stop"}

        model, parser = MODELS[dialect]
        endpoint = runtime.endpoint(f"dynamo.{parser}.generate")
        options = ModelRuntimeConfig()
        options.tool_call_parser = options.reasoning_parser = parser
        await register_model(
            *(ModelInput.Tokens, ModelType.Chat, endpoint, str(self._folder / model), model),
            runtime_config=options,
            worker_type=WorkerType.Aggregated,
            ignore_weights=True,
        )
        await endpoint.serve_endpoint(generate)

    def _wait(self) -> None:
        for _ in range(SECONDS * 10):
            time.sleep(0.1)
            try:
                with urllib.request.urlopen(f"{self._url}/models", timeout=5) as answer:
                    if len(json.load(answer)["data"]) == len(MODELS):
                        return
            except OSError:
                continue
        raise SystemExit(f"no frontend: {(self._folder / 'frontend.log').read_text('utf-8')}")

    def _post(self, dialect: str, body: Any, *, stream: bool = False) -> bytes:
        return post_chat(self._url, {**body, "model": MODELS[dialect][0], "stream": stream})

    def prompt(self, dialect: str, body: Any) -> str:
        """The prompt that the worker is asked with. Raises a `ValueError` for what is refused."""
        self._said, self._asked = "", []
        self._post(dialect, body)
        return str(self._tokenizers[dialect].decode(self._asked, skip_special_tokens=False))

    def message(self, dialect: str, said: str, body: Any) -> Any:
        """What becomes of a completion."""
        self._said = said
        return json.loads(self._post(dialect, body))["choices"][0]["message"]

    def chunks(self, dialect: str, said: str, body: Any) -> list[Any]:
        """The same, streamed: the chunks of the answer."""
        self._said = said
        events = self._post(dialect, body, stream=True).decode("utf-8").splitlines()
        data = [line[len("data: ") :] for line in events if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]
