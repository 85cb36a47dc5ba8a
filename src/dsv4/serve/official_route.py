"""The stand-in for DeepSeek's own API, `--as deepseek-api`: requests are read, refused and counted
as the API does, and the backend of the gateway answers them.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from dsv4.api import ApiError, ApiRequest, ContextOverflow
from dsv4.api.api_request import ProtocolName
from dsv4.api.protocols import PROTOCOLS
from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError
from dsv4.profiles import official_api
from dsv4.profiles.decoded_prompts import decoded_prompt
from dsv4.profiles.official_request import OfficialRequest, read_official
from dsv4.profiles.server_requests import OFFICIAL_DIALECTS
from dsv4.profiles.text_shields import shielded, unshielded
from dsv4.serve import asgi
from dsv4.serve.backend import AnyBackend, Chunks, Counts
from dsv4.serve.completion_run import CompletionClient
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.prepared_request import ReceivedRequest
from dsv4.serve.prompt_route import PromptedRequest, PromptRoute, PromptRun

BETA_PREFIX = "/beta"
# Fields that do not affect the prompt, and are read as on other routes.
_OPTIONS = ("max_tokens", "stream", "stream_options", "stop", "logprobs", "top_logprobs")
_LENGTH_FIELDS = ("max_tokens", "max_output_tokens")
# The length of an answer where a request names none: without thinking, with it, with effort max.
_LENGTHS = {"off": 8_192, "low": 65_536, "high": 65_536, "max": 131_072}


class OfficialRun(PromptRun):
    """One generation, whose usage always reports the tokens shared with an earlier prompt, as the
    API does."""

    def _stream_of(self, backend: AnyBackend, choice: int) -> Chunks:
        return self._with_cached(super()._stream_of(backend, choice))

    async def _with_cached(self, chunks: Chunks) -> Chunks:
        counts = Counts(self._prepared.encoded.tokens, self._prepared.shared or 0)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield replace(chunk, counts=counts) if chunk.finish else chunk


class OfficialRoute(PromptRoute):
    """The route of one protocol. `is_beta` says that it is under `/beta`."""

    _run_class = OfficialRun
    _keeps_responses = False

    def __init__(self, server: GatewayState, protocol: ProtocolName, is_beta: bool = False) -> None:
        super().__init__(server, protocol)
        self._is_beta = is_beta

    async def _prepare(
        self, received: ReceivedRequest, client: CompletionClient
    ) -> PromptedRequest:
        """The request, unless its prompt and the length that it asks for exceed the context. The
        default length is the rest of the context."""
        length = received.call.max_tokens
        try:
            prepared = await super()._prepare(received, client)
        except ContextOverflow as error:
            raise self._beyond_context(error.tokens, length) from None
        tokens = prepared.encoded.tokens
        asks = any(received.body.get(name) is not None for name in _LENGTH_FIELDS)
        if tokens + (length if asks else 1) > self._server.model.context:
            raise self._beyond_context(tokens, length)
        return prepared

    def _beyond_context(self, tokens: int, length: int) -> ApiError:
        context, total = self._server.model.context, tokens + length
        return ApiError(
            official_api.words(
                "window", context=context, total=total, prompt=tokens, completion=length
            )
        )

    def _error_body(self, scope: asgi.Scope, error: ApiError) -> tuple[int, JsonObject]:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        body = {"message": error.message, "type": kind, "param": None, "code": kind}
        return error.status, {"error": body}

    def _read_call(self, body: JsonObject) -> ApiRequest:
        try:
            official = read_official(shielded(body), self._protocol)
        except EncodeError as error:
            raise ApiError(unshielded(error.problem)) from None
        if official.conversation.continued and not self._is_beta:
            raise ApiError(official_api.words("prefix-beta"))
        return self._call(official, str(body.get("model")))

    def _call(self, official: OfficialRequest, model: str) -> ApiRequest:
        """The request for the API's own prompt, with its other options."""
        chat, conversation = official.chat, official.conversation
        effort = conversation.effort if conversation.thinking else "off"
        options = {name: chat[name] for name in _OPTIONS if chat.get(name) is not None}
        options = {"max_tokens": _LENGTHS[effort], **options, "model": model}
        asked = {"messages": [{"role": "user", "content": ""}], **options}
        settings = self._server.model.api_settings
        dialect = OFFICIAL_DIALECTS[official.dialect]
        call = PROTOCOLS["chat"].read(asked, dialect=dialect, settings=settings)
        request = replace(decoded_prompt(official.prompt, dialect).request, stop=call.request.stop)
        return replace(call, request=request, protocol=self._protocol)
