"""The common part of backends that are HTTP servers, and the questions to a server about itself,
which are asked once for each of its starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import (
    Form,
    ImageSupport,
    LogprobsMode,
    Model,
    read_names,
    read_number,
    read_text,
)
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.upstream import Upstream
from dsv4.tokens import Tokenizer

T = TypeVar("T")


class EngineAnswer(Generic[T]):
    """The answer to one question. It is asked again when the engine may have been restarted."""

    def __init__(self, ask: Callable[[], Awaitable[T]], starts: Callable[[], int]) -> None:
        """`starts` returns another number when the engine may be another process than before."""
        self._ask = ask
        self._starts = starts
        self._latest: tuple[int, T] | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> T:
        """The answer. Raises the errors of the question."""
        async with self._lock:  # requests that come meanwhile wait for one answer
            latest = self._latest
            if latest is None or latest[0] != self._starts():
                self._latest = None
                answer = await self._ask()
                latest = self._latest = (self._starts(), answer)
            return latest[1]


class HttpBackend:
    """A server behind HTTP. The defaults here hold for servers of OpenAI's forms."""

    grammar_form: Form | None = None
    # The kind of its log-probabilities, where the settings do not name another.
    usual_logprobs: LogprobsMode | None = None

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None = None) -> None:
        modes: dict[str, LogprobsMode] = {"raw": "raw", "processed": "processed"}
        self.logprobs_mode: str | None = modes.get(settings.logprobs_mode, self.usual_logprobs)
        self._upstream = Upstream(settings)
        self._tokenizer = tokenizer
        self._model = settings.upstream_model
        self._images = EngineAnswer(self._image_support, lambda: self._upstream.starts)

    async def check_images(self) -> ImageSupport:
        """The server's answer about images. Raises a `BackendError` where it does not answer."""
        return await self._images.get()

    async def _image_support(self) -> ImageSupport:
        return ImageSupport(False, "a backend of this kind takes none")

    async def _name(self) -> str:
        """The model name to send."""
        if self._model is None:
            self._model = (await self.models())[0].name
        return self._model

    async def models(self) -> list[Model]:
        """The models that it serves."""
        return read_models(await self._upstream.ask("/v1/models"))

    async def aclose(self) -> None:
        """Frees its resources."""
        await self._upstream.aclose()


def read_models(answer: JsonObject) -> list[Model]:
    """The models of an answer in OpenAI's form. vLLM also reports their context length and the
    checkpoint: for an adapter, the model that it belongs to."""
    return [
        Model(
            str(model["id"]),
            read_number(model.get("max_model_len")),
            read_names(model.get("root"), model.get("parent")),
            read_text(model.get("owned_by")) or "",
        )
        for model in answer.get("data") or ()
        if isinstance(model, dict) and "id" in model
    ] or [Model("default")]
