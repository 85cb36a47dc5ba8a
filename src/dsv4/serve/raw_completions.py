"""`POST /v1/completions`: a prompt that the client has written itself, and what follows it, as it
is. With the keys and limits of the other routes, and nothing read or repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dsv4._completion.events import ContentDelta, End, Event
from dsv4._completion.random_ids import new_id
from dsv4._completion.reasons import Ended, ended_by
from dsv4._encode.prompt import Prompt
from dsv4._format.tokens import markup
from dsv4.api import ApiError, ApiRequest, ContextOverflow
from dsv4.api.errors import wrong
from dsv4.serve import asgi, text_completions
from dsv4.serve.access.api_keys import Key
from dsv4.serve.backend import Chunk
from dsv4.serve.backends.engine_fields import fields_of
from dsv4.serve.body_limits import read_json
from dsv4.serve.choice_reader import ChoiceReader, estimated_tokens
from dsv4.serve.completion_run import CompletionClient
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.markup_ids import markup_ids
from dsv4.serve.prepared_request import EncodedPrompt, ReceivedRequest
from dsv4.serve.prompt_route import PromptedRequest, PromptRoute, PromptRun
from dsv4.serve.storage.stored_turns import SampledTurn
from dsv4.tokens import Tokenizer

# A character has no more tokens than this.
_MOST_HELD = 8


class RawReader(ChoiceReader):
    """Passes text on as it comes, special tokens spelled out."""

    def __init__(self, call: ApiRequest, tokenizer: Tokenizer | None, id: str) -> None:
        """`id` is what the completion is called."""
        super().__init__(call, tokenizer)
        self.id = id
        self._held_ids: list[int] = []
        self._count = 0

    def _read(self, chunk: Chunk) -> list[Event]:
        text = chunk.text
        if chunk.ids is not None and self._tokenizer is not None:
            self._count += len(chunk.ids)
            self._held_ids += chunk.ids
            text = self._tokenizer.decode(self._held_ids)
            if text.endswith("\ufffd") and len(self._held_ids) < _MOST_HELD:
                return []  # the rest of a character is yet to come
            self._held_ids = []
        return self._passed(text)

    def end(self) -> list[Event]:
        rest = "" if self._tokenizer is None else self._tokenizer.decode(self._held_ids)
        is_over = ended_by(self.finish) in (Ended.END, Ended.STOP)
        return self._logged([*self._passed(rest), End("stop" if is_over else "length")])

    def _passed(self, text: str) -> list[Event]:
        if not text:
            return []
        self.sampled_text.append(text)
        return [ContentDelta(text)]

    @property
    def completion_tokens(self) -> int:
        return self.counts.completion or self._count or estimated_tokens(self.sampled)

    @property
    def reasoning_tokens(self) -> int:
        return 0


class RawRun(PromptRun):
    """One generation, of which nothing is kept: it is no turn of a conversation."""

    def _new_reader(self) -> ChoiceReader:
        prepared = self._prepared
        return RawReader(prepared.call, self._server.tokenizer, prepared.turn_ids[0])

    def _turn_to_keep(self, turn_id: str, reader: ChoiceReader) -> SampledTurn | None:
        return None

    def _record(self) -> None:
        pass


class RawCompletionRoute(PromptRoute):
    """The route."""

    _run_class = RawRun

    def __init__(self, server: GatewayState) -> None:
        super().__init__(server, "chat")
        self._label = "completions"
        self._api = text_completions

    def _session_of(self, scope: asgi.Scope, headers: Mapping[str, str]) -> str | None:
        return None

    async def _read(self, data: bytes, key: Key) -> ReceivedRequest:
        server = self._server
        await server.behind.meet()
        body = read_json(data, server.settings.max_depth)
        model = server.model
        call = text_completions.read(body, dialect=model.dialect, settings=model.api_settings)
        self._check_model(call, key)
        return ReceivedRequest(body, call, len(data))

    async def _prepare(
        self, received: ReceivedRequest, client: CompletionClient
    ) -> PromptedRequest:
        server, call, body = self._server, received.call, received.body
        prompt, ids = _prompt(server, body.get("prompt"))
        image = prompt.dialect.image_token
        if any(token is not None and token == image for _, token in prompt.runs()):
            # No engine can replace the placeholder: there is no image here.
            raise ApiError("found the placeholder of an image, expected text alone", path="prompt")
        tokens = estimated_tokens(prompt.text) if ids is None else len(ids)
        if tokens >= server.model.context:
            raise ContextOverflow(tokens, server.model.context)
        extra = fields_of(server.backend).read(body, is_answer=True)
        options = self._options(call, tokens, client)
        return PromptedRequest(
            received=received,
            call=call,
            encoded=EncodedPrompt(prompt, ids, tokens, ids is not None),
            options=replace(options, stop=tuple(call.request.stop or ()), extra=extra),
            turn_ids=(new_id("cmpl-"),),
            shared=None,
        )


def _prompt(server: GatewayState, value: object) -> tuple[Prompt, list[int] | None]:
    """The prompt, from text that spells special tokens, or from ids."""
    tokenizer = server.tokenizer
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)):
        value = value[0]
    if isinstance(value, str) and value:
        parts = markup(value).parts
        prompt = Prompt([*parts], server.model.dialect)
        return prompt, None if tokenizer is None else markup_ids(tokenizer, parts)
    if isinstance(value, list) and value and all(type(id) is int for id in value):
        tokenizer = server.needed_tokenizer
        try:
            return tokenizer.prompt(value), value
        except (ValueError, LookupError, OverflowError):
            raise ApiError("found ids that are not in the vocabulary", path="prompt") from None
    raise wrong(value, "one prompt, as text or as ids", "prompt")
