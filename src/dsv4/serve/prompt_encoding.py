"""The prompt of a request, its ids where there is a tokenizer, and its number of tokens."""

from __future__ import annotations

import asyncio

from dsv4._inputs.text_origins import origins_of, place_in_body
from dsv4.api import ApiError, ApiRequest
from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError, path_of
from dsv4.serve.choice_reader import estimated_tokens
from dsv4.serve.gateway_state import GatewayState
from dsv4.serve.prepared_request import EncodedPrompt
from dsv4.tokens import VocabularyError

# Encoding a prompt of this many bytes takes longer than other streams should wait.
LARGE_BODY = 200_000


async def encode_prompt(
    call: ApiRequest, body: JsonObject, server: GatewayState, size: int
) -> EncodedPrompt:
    """The prompt of a request that was read from a `body` of `size` bytes."""
    if size > LARGE_BODY or call.images:
        return await asyncio.to_thread(encoded_now, call, body, server)
    return encoded_now(call, body, server)


def encoded_now(call: ApiRequest, body: JsonObject, server: GatewayState) -> EncodedPrompt:
    """The same, in the calling thread."""
    model = server.model
    if model.guesses_dialect:
        raise ApiError(f"The server cannot make prompts: {model.dialect_problem}.", status=500)
    try:
        prompt = call.request.encode()
    except EncodeError as error:  # it names a message made here, which the client never saw
        origins = origins_of(body, lambda each: model.read(each, call.protocol).request)
        path = path_of(place_in_body(error.location, body, origins))
        raise ApiError(error.problem, path=path) from None
    try:
        ids = model.ids_of(prompt)
    except VocabularyError:
        raise ApiError(
            f"The server cannot make prompts: {model.vocabulary_problem}.", status=500
        ) from None
    if ids is None:
        return EncodedPrompt(prompt, None, estimated_tokens(prompt.text), False)
    if not prompt.images or model.tokenizer is None:
        return EncodedPrompt(prompt, ids, len(ids), True)
    counts = model.tokenizer.image_tokens(prompt)
    rule = prompt.dialect.image_rule
    most = 1 if rule is None else rule.most_tokens
    tokens = len(ids) - len(counts) + sum(most if each is None else each for each in counts)
    return EncodedPrompt(prompt, ids, tokens, None not in counts)
