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
from dsv4.profiles.official_api import PROFILE_NAME, is_official_host
from dsv4.serve.backend import Chunks, Model, Options
from dsv4.serve.backends import vllm
from dsv4.serve.backends.chat_events import ChatEvents
from dsv4.serve.backends.http_backend import HttpBackend
from dsv4.serve.served_model import model_asked_for
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.http_client import HttpConnection
from dsv4.tokens import Tokenizer


class CompletionsBackend(HttpBackend):
    """A server of `/v1/completions`: it gets the prompt as text, and as few fields as possible."""

    def stream(self, prompt: Prompt, ids: Sequence[int] | None, options: Options) -> Chunks:
        body = partial(self._body, prompt, options)
        return self._upstream.chunks("/v1/completions", body, vllm.read_completion, by_form=True)

    async def _body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": await self._name(),
            "prompt": prompt.text,
            "stream": True,
            "max_tokens": options.max_tokens,
            "add_special_tokens": False,
        }
        return body | vllm.sampling_fields(options)


class ChatServerBackend(HttpBackend):
    """A server of `/v1/chat/completions`: it makes its own prompts, and gets the request as it is.
    `healing_reader.py` repairs its answers."""

    def __init__(self, settings: Settings, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(settings, tokenizer)
        self._models: list[Model] | None = None
        self._is_official = settings.adapt_for == PROFILE_NAME or is_official_host(
            settings.first_upstream
        )

    def stream_request(self, body: JsonObject) -> Chunks:
        """The answer to a request in Chat Completions' form."""
        make_body = partial(self._body, body)
        path, read = self._path_for(body), ChatEvents().read
        return self._upstream.chunks(path, make_body, read, by_form=True)

    def _path_for(self, body: JsonObject) -> str:
        """The route of a request: the official API continues answers on another."""
        last = (body.get("messages") or [{}])[-1]
        goes_on = self._is_official and isinstance(last, dict) and last.get("prefix")
        return "/beta/chat/completions" if goes_on else "/v1/chat/completions"

    def passed(
        self, method: str, path: str, data: bytes
    ) -> AbstractAsyncContextManager[HttpConnection]:
        """The answer to a request of any other route."""
        return self._upstream.passed(method, path, data)

    async def _body(self, body: JsonObject) -> JsonObject:
        new_body = {**body, "stream": True, "stream_options": {"include_usage": True}}
        new_body["model"] = await self._model_for(body.get("model"))
        new_body.pop("n", None)  # each choice is a request of its own
        return new_body

    async def _model_for(self, name: object) -> object:
        """The model name to send. Clients use any name they like, and few servers accept that: a
        server with a single model gets its own name for it. With several models, the client must
        choose."""
        if self._model is not None:
            return self._model
        if self._models is None:
            self._models = await self.models()
        if name and len(self._models) > 1:
            return name
        return model_asked_for(self._models, None).name
