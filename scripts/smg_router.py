"""smg's router, which writes prompts and reads completions, in front of a worker that stands in for
vLLM: it says what it is told, and keeps the ids that it was asked with.

Runs in smg's environment. Worker and router are on one machine, and talk by gRPC.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import grpc
from chat_requests import SECONDS, free_port, post_chat
from model_folder import MODELS, write_model
from smg_grpc_proto import vllm_engine_pb2 as messages
from smg_grpc_proto import vllm_engine_pb2_grpc as wire
from tokenizers import Tokenizer

EOS = 1


class _Worker(wire.VllmEngineServicer):
    """An engine that says what it is told."""

    def __init__(self, folder: Path, model: str, kind: str) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.completion = ""
        self.prompt_ids: list[int] = []
        self._about = messages.GetModelInfoResponse(
            **{"model_path": str(folder), "tokenizer_path": str(folder)},
            **{"served_model_name": model, "model_type": kind},
            **{"is_generation": True, "max_context_length": 1 << 20, "max_req_input_len": 1 << 20},
            **{"vocab_size": 129280, "bos_token_id": 0, "eos_token_ids": [EOS]},
        )

    def HealthCheck(self, request: Any, context: Any) -> Any:
        return messages.HealthCheckResponse(healthy=True)

    def GetModelInfo(self, request: Any, context: Any) -> Any:
        return self._about

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return messages.GetServerInfoResponse(server_type="vllm-grpc", data_parallel_size=1)

    def Generate(self, request: Any, context: Any) -> Iterator[Any]:
        self.prompt_ids = list(request.tokenized.input_ids)
        ids = self.tokenizer.encode(self.completion, add_special_tokens=False).ids
        end = {"output_ids": [*ids, EOS], "finish_reason": "stop", "matched_token_id": EOS}
        yield messages.GenerateResponse(complete=messages.GenerateComplete(**end))


class SmgRouter:
    """A router of one dialect, for as long as this process lives."""

    def __init__(self, dialect: str, vocabulary: Path) -> None:
        self._model, self._kind = MODELS[dialect]
        self._folder = Path(mkdtemp(), self._model)
        write_model(self._folder, dialect, vocabulary)
        self._worker = _Worker(self._folder, self._model, self._kind)
        self._server = grpc.server(ThreadPoolExecutor(2))
        wire.add_VllmEngineServicer_to_server(self._worker, self._server)
        engine_port, port = self._server.add_insecure_port("127.0.0.1:0"), free_port()
        self._server.start()
        self._url = f"http://127.0.0.1:{port}/v1"
        atexit.register(self._started(port, engine_port).kill)
        self._wait()

    def _started(self, port: int, engine_port: int) -> subprocess.Popen[bytes]:
        options = {
            **{"host": "127.0.0.1", "port": port, "worker-urls": f"grpc://127.0.0.1:{engine_port}"},
            **{"prometheus-host": "127.0.0.1", "prometheus-port": free_port()},
            **{"model-path": self._folder, "log-level": "error"},
            **{"reasoning-parser": self._kind, "tool-call-parser": self._kind},
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen(
            [sys.executable, "-m", "smg", "launch", "--disable-retries", *words],
            stdout=(self._folder / "router.log").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def _wait(self) -> None:
        for _ in range(SECONDS * 10):
            time.sleep(0.1)
            with suppress(OSError, ValueError):  # which lists models before it has their tokenizers
                self.prompt({"messages": [{"role": "user", "content": "Hi"}]})
                return
        raise SystemExit(f"no router: {(self._folder / 'router.log').read_text('utf-8')}")

    def prompt(self, body: Any) -> str:
        """The prompt that the worker is asked with. Raises a `ValueError` for what is refused."""
        self._worker.prompt_ids = []
        self.message("", body)
        ids, tokenizer = self._worker.prompt_ids, self._worker.tokenizer
        return str(tokenizer.decode(ids, skip_special_tokens=False))

    def message(self, completion: str, body: Any) -> Any:
        """What becomes of a completion."""
        self._worker.completion = completion
        answer = json.loads(post_chat(self._url, {**body, "model": self._model}))
        return answer["choices"][0]["message"]
