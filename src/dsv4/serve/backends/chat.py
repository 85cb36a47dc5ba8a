"""Any Chat Completions server: the request as it is; `dsv4.serve.healing` puts the answer right."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from dsv4.serve.backend import Chunk, Counts, Form, Model
from dsv4.serve.backends.vllm import read_counts, read_models
from dsv4.serve.settings import Settings
from dsv4.serve.upstream import Upstream


class Chat:
    """A server that makes its own prompts. It takes requests, not prompts."""

    grammar_form: Form | None = None

    def __init__(self, settings: Settings) -> None:
        self._upstream = Upstream(settings)
        self._model = settings.upstream_model

    async def stream_request(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """The answer to a request in Chat Completions' form."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        if self._model is not None:
            asked["model"] = self._model
        async for event in self._upstream.events("/v1/chat/completions", asked):
            yield _chunk(event)

    async def models(self) -> list[Model]:
        return read_models(await self._upstream.get("/v1/models"))

    async def aclose(self) -> None:
        await self._upstream.aclose()


def _chunk(event: Any) -> Chunk:
    choices = event.get("choices") if isinstance(event, dict) else None
    choice = choices[0] if choices else {}
    reason = choice.get("finish_reason")
    counts: Counts | None = read_counts(event.get("usage") if isinstance(event, dict) else None)
    return Chunk(
        delta=choice.get("delta") or {},
        finish=None if reason is None else "length" if reason == "length" else "stop",
        counts=counts,
    )
