"""The prompt of a request, and its ids where there is a tokenizer."""

from __future__ import annotations

import asyncio

from dsv4._encode.prompt import Prompt
from dsv4.api import ApiError, ApiRequest
from dsv4.serve.choice_reader import estimated_tokens
from dsv4.serve.gateway_state import GatewayState
from dsv4.tokens import VocabularyError

# Encoding a prompt of this many bytes takes longer than other streams should wait.
LARGE_BODY = 200_000


async def encode_prompt(
    call: ApiRequest, server: GatewayState, size: int
) -> tuple[Prompt, list[int] | None]:
    """The prompt of a request of `size` bytes, and its ids."""
    if size > LARGE_BODY:
        return await asyncio.to_thread(encoded_now, call, server)
    return encoded_now(call, server)


def encoded_now(call: ApiRequest, server: GatewayState) -> tuple[Prompt, list[int] | None]:
    """The same, in the calling thread."""
    model = server.model
    if model.guesses_dialect:
        raise ApiError(f"The server cannot make prompts: {model.dialect_problem}.", status=500)
    prompt = call.request.encode()
    try:
        return prompt, model.ids_of(prompt)
    except VocabularyError:
        raise ApiError(
            f"The server cannot make prompts: {model.vocabulary_problem}.", status=500
        ) from None


def prompt_length(prompt: Prompt, ids: list[int] | None) -> int:
    """How many tokens a prompt has: about as many, where there are no ids."""
    return estimated_tokens(prompt.text) if ids is None else len(ids)
