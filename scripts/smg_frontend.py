"""SMG's router, which writes prompts and reads completions, in front of a stand-in worker that it
reaches by gRPC, as it reaches SGLang's.

Runs in SMG's environment.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from frontends import MODELS, SECONDS, Frontend, free_port
from smg_grpc_proto.generated import sglang_scheduler_pb2 as messages
from smg_grpc_proto.generated import sglang_scheduler_pb2_grpc as service


class SmgFrontend(Frontend):
    """A router for each dialect: its parsers are options of the router."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__(vocabulary)
        self._workers = [self._serve(dialect) for dialect in MODELS]

    def _serve(self, dialect: str) -> Any:
        model, parser = MODELS[dialect]
        worker = grpc.server(ThreadPoolExecutor(4))
        service.add_SglangSchedulerServicer_to_server(_Worker(self, dialect), worker)
        address = f"grpc://127.0.0.1:{worker.add_insecure_port('127.0.0.1:0')}"
        worker.start()
        port = free_port()
        options = {
            **{"--host": "127.0.0.1", "--port": str(port), "--prometheus-port": str(free_port())},
            **{"--worker-urls": address, "--model-path": str(self.folder / model)},
            **{"--reasoning-parser": parser, "--tool-call-parser": parser},
        }
        given = [word for option in options.items() for word in option]
        self.start([str(Path(sys.executable).with_name("smg")), "launch", *given], port, dialect)
        self._wait_for_tokenizer(dialect)
        return worker

    def _wait_for_tokenizer(self, dialect: str) -> None:
        """A model is listed before its tokenizer is loaded."""
        for _ in range(SECONDS):
            try:
                self.prompt(dialect, {"messages": [{"role": "user", "content": "Hi"}]})
            except ValueError:
                time.sleep(1)
            else:
                return
        raise SystemExit("the router has no tokenizer")


class _Worker(service.SglangSchedulerServicer):  # type: ignore[misc] # its package has no types
    """An engine that says what it is told."""

    def __init__(self, frontend: SmgFrontend, dialect: str) -> None:
        self._frontend, self._dialect = frontend, dialect

    def HealthCheck(self, request: Any, context: Any) -> Any:
        return messages.HealthCheckResponse(healthy=True)

    def GetServerInfo(self, request: Any, context: Any) -> Any:
        return messages.GetServerInfoResponse()

    def GetModelInfo(self, request: Any, context: Any) -> Any:
        folder = self._frontend.folder / MODELS[self._dialect][0]
        known = json.loads((folder / "config.json").read_text("utf-8"))
        same = ("architectures", "model_type", "vocab_size", "bos_token_id")
        return messages.GetModelInfoResponse(
            **{"model_path": str(folder), "tokenizer_path": str(folder), "is_generation": True},
            served_model_name=MODELS[self._dialect][0],
            max_context_length=known["max_position_embeddings"],
            eos_token_ids=[known["eos_token_id"]],
            **{name: known[name] for name in same},
        )

    def Generate(self, request: Any, context: Any) -> Iterator[Any]:
        said = self._frontend.generated(self._dialect, request.tokenized.input_ids)
        asked = request.request_id
        if request.stream:
            for id in said:
                chunk = messages.GenerateStreamChunk(token_ids=[id])
                yield messages.GenerateResponse(request_id=asked, chunk=chunk)
        whole = messages.GenerateComplete(output_ids=[*said, 1], finish_reason="stop")
        yield messages.GenerateResponse(request_id=asked, complete=whole)
