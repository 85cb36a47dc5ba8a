"""Any other server of `/v1/completions`: the prompt as text, and as little else as can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4.serve.backend import Backend, Chunks, Form, Model, Options
from dsv4.serve.backends.vllm import read_completion, read_models, sampling
from dsv4.serve.settings import Settings
from dsv4.serve.upstream import Upstream


class Completions(Backend):
    """A server of unknown make."""

    grammar_form: Form | None = None

    def __init__(self, settings: Settings) -> None:
        self._upstream = Upstream(settings)
        self._model = settings.upstream_model

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        asked = partial(self._body, prompt, options)
        return self._upstream.chunks("/v1/completions", asked, read_completion)

    async def _body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if self._model is None:
            self._model = (await self.models())[0].name
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": prompt.text,
            "stream": True,
            "max_tokens": options.max_tokens,
            "add_special_tokens": False,
        }
        return body | sampling(options)

    async def models(self) -> list[Model]:
        return read_models(await self._upstream.get("/v1/models"))

    async def aclose(self) -> None:
        await self._upstream.aclose()
