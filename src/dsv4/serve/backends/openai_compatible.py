"""Any other OpenAI-compatible server: `/v1/completions` with the prompt as text, or
`/v1/chat/completions` with the request itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4.api.request_fields import JsonObject
from dsv4.serve.backend import (
    Backend,
    Chunk,
    Chunks,
    Form,
    Logprob,
    Model,
    Options,
    read_finish,
    read_text,
)
from dsv4.serve.backends.vllm import read_completion, read_counts, read_models, sampling_fields
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.http_client import HttpConnection
from dsv4.serve.upstreams.upstream import Upstream


class CompletionsBackend(Backend):
    """A server of `/v1/completions`: it gets the prompt as text, and as few fields as possible."""

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
        return body | sampling_fields(options)

    async def models(self) -> list[Model]:
        return read_models(await self._upstream.get("/v1/models"))

    async def aclose(self) -> None:
        await self._upstream.aclose()


class ChatServerBackend:
    """A server of `/v1/chat/completions`: it makes its own prompts, and gets the request as it is.
    `healing_reader.py` repairs its answers."""

    grammar_form: Form | None = None

    def __init__(self, settings: Settings) -> None:
        self._upstream = Upstream(settings)
        self._model = settings.upstream_model
        self._names: list[str] | None = None

    def stream_request(self, body: JsonObject) -> Chunks:
        """The answer to a request in Chat Completions' form."""
        return self._upstream.chunks("/v1/chat/completions", partial(self._body, body), _chat_chunk)

    def passed(
        self, method: str, path: str, data: bytes
    ) -> AbstractAsyncContextManager[HttpConnection]:
        """The answer to a request of any other route."""
        return self._upstream.passed(method, path, data)

    async def _body(self, body: JsonObject) -> JsonObject:
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        asked["model"] = await self._model_for(body.get("model"))
        asked.pop("n", None)  # each choice is a request of its own
        return asked

    async def _model_for(self, name: object) -> object:
        """The model to ask for: clients name what they like, and few servers take that."""
        if self._model is not None:
            return self._model
        if self._names is None:
            self._names = [model.name for model in await self.models()]
        return name if name in self._names else self._names[0]

    async def models(self) -> list[Model]:
        return read_models(await self._upstream.get("/v1/models"))

    async def aclose(self) -> None:
        await self._upstream.aclose()


def _chat_chunk(event: JsonObject, more: bool) -> Chunk:
    choices = event.get("choices")
    choice = choices[0] if choices else {}
    return Chunk(
        delta=choice.get("delta") or {},
        logprobs=_chat_logprobs(choice.get("logprobs")),
        finish=read_finish(choice.get("finish_reason")),
        stop_string=read_text(choice.get("stop_reason")),
        counts=read_counts(event.get("usage")),
        id=event.get("id"),
        more=more,
    )


def _chat_logprobs(given: object) -> tuple[Logprob, ...]:
    if not isinstance(given, dict):
        return ()
    return tuple(
        Logprob(
            known["token"],
            known["logprob"],
            tuple((top["token"], top["logprob"]) for top in known.get("top_logprobs") or ()),
        )
        for field in ("reasoning_content", "content")
        for known in given.get(field) or ()
    )
