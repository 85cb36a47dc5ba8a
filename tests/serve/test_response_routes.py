"""What else the newest SDKs ask of a server: stored responses and token counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from gateway import TOOLS, gateway, run


def with_client(work: Callable[[openai.OpenAI], Any], **settings: Any) -> Any:
    """What `work` gives, done in a thread with the SDK's client."""

    async def scenario() -> Any:
        async with gateway(**settings) as g:
            client = openai.OpenAI(base_url=f"{g.url}/v1", api_key="any", max_retries=0)
            try:
                return await asyncio.to_thread(work, client)
            finally:
                client.close()

    return run(scenario())


TOOL: Any = {"type": "function", **TOOLS[0]["function"], "strict": False}  # type: ignore[dict-item]


def test_input_tokens_are_those_of_the_prompt() -> None:
    def work(client: openai.OpenAI) -> None:
        counted = client.responses.input_tokens.count(model="m", input="Hi", tools=[TOOL])
        used = client.responses.create(model="m", input="Hi", tools=[TOOL]).usage
        assert used is not None
        assert counted.input_tokens == used.input_tokens

    with_client(work)


def test_a_stored_response_is_returned_until_it_is_deleted() -> None:
    def work(client: openai.OpenAI) -> None:
        created = client.responses.create(model="m", input="Hi")
        assert client.responses.retrieve(created.id).to_dict() == created.to_dict()
        client.responses.delete(created.id)
        with pytest.raises(openai.NotFoundError, match="expected the id of a response"):
            client.responses.retrieve(created.id)

    with_client(work)


def test_what_is_not_served_says_so_in_openais_words() -> None:
    def work(client: openai.OpenAI) -> None:
        with pytest.raises(openai.NotFoundError, match="/v1/conversations, which is not served"):
            client.conversations.create()
        with pytest.raises(openai.NotFoundError, match="/v1/completions, which is not served"):
            client.completions.create(model="m", prompt="Hi")

    with_client(work)
