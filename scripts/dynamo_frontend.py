"""Dynamo's frontend, which writes prompts and reads completions, in front of a stand-in worker.

Runs in Dynamo's environment. Worker and frontend are processes of one machine, which find each
other through a folder.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from frontends import MODELS, Frontend, free_port


class DynamoFrontend(Frontend):
    """One frontend for both dialects."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__(vocabulary)
        os.environ |= {
            **{"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(self.folder / "discovery")},
            **{"DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq", "HF_HUB_OFFLINE": "1"},
            "HOME": str(self.folder),  # where it caches what it knows of models
            **{"DYN_LOG": "error", "DYN_SELF_HOST_METADATA": "0"},
        }
        threading.Thread(target=self._work, daemon=True).start()
        port = free_port()
        options = ["--http-host", "127.0.0.1", "--http-port", str(port)]
        self.start([sys.executable, "-m", "dynamo.frontend", *options], port, *MODELS)

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
            for id in self.generated(dialect, request["token_ids"]):
                yield {"token_ids": [id]}
            yield {"token_ids": [1], "finish_reason": "stop"}

        model, parser = MODELS[dialect]
        endpoint = runtime.endpoint(f"dynamo.{parser}.generate")
        options = ModelRuntimeConfig()
        options.tool_call_parser = options.reasoning_parser = parser
        await register_model(
            *(ModelInput.Tokens, ModelType.Chat, endpoint, str(self.folder / model), model),
            runtime_config=options,
            worker_type=WorkerType.Aggregated,
            ignore_weights=True,
        )
        await endpoint.serve_endpoint(generate)
