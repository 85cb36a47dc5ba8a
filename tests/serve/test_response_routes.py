"""What else the newest SDKs ask of a server: stored responses, token counts, raw completions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import openai
import pytest
from gateway import TOOLS, gateway, key_file, run
from pydantic import TypeAdapter
from standins import THINK_START


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


def test_a_stored_response_is_streamed_again() -> None:
    def work(client: openai.OpenAI) -> None:
        whole = client.responses.create(model="m", input="RUN: ls", tools=[TOOL])
        events = list(client.responses.retrieve(whole.id, stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        adapter: TypeAdapter[Any] = TypeAdapter(openai.types.responses.ResponseStreamEvent)
        for event in events:
            adapter.validate_python(event.to_dict())
        assert events[0].type == "response.created"
        assert events[-1].type == "response.completed"
        assert events[-1].response.to_dict() == client.responses.retrieve(whole.id).to_dict()
        kinds = {event.type for event in events}
        assert {
            "response.reasoning_text.done",
            "response.function_call_arguments.delta",
        } <= kinds
        rest = list(client.responses.retrieve(whole.id, stream=True, starting_after=2))
        assert [event.sequence_number for event in rest] == list(range(3, len(events)))

    with_client(work)


def test_what_a_response_answers_is_listed_in_pages() -> None:
    def work(client: openai.OpenAI) -> None:
        said = [{"role": "user", "content": f"Number {n}"} for n in range(5)]
        response = client.responses.create(model="m", input=said)  # type: ignore[arg-type]
        items = list(client.responses.input_items.list(response.id, limit=2, order="asc"))
        texts = [item.content[0].text for item in items]  # type: ignore[union-attr]
        assert texts == [f"Number {n}" for n in range(5)]
        newest = client.responses.input_items.list(response.id, limit=1)
        assert newest.data[0].content[0].text == "Number 4"  # type: ignore[union-attr]
        assert newest.has_more

    with_client(work)


def test_input_tokens_are_those_of_the_prompt() -> None:
    def work(client: openai.OpenAI) -> None:
        counted = client.responses.input_tokens.count(model="m", input="Hi", tools=[TOOL])
        used = client.responses.create(model="m", input="Hi", tools=[TOOL]).usage
        assert used is not None
        assert counted.input_tokens == used.input_tokens

    with_client(work)


def test_what_is_not_served_says_so_in_openais_words() -> None:
    def work(client: openai.OpenAI) -> None:
        response = client.responses.create(model="m", input="Hi")
        with pytest.raises(openai.BadRequestError, match="Only a response with `background`"):
            client.responses.cancel(response.id)
        with pytest.raises(openai.NotFoundError, match="expected the id of a response"):
            client.responses.cancel("resp_unknown")
        with pytest.raises(openai.BadRequestError, match="not compacted here"):
            client.responses.compact(model="m", input="Hi")
        for ask in (client.conversations.create, lambda: client.conversations.retrieve("conv_1")):
            with pytest.raises(openai.NotFoundError, match="use `previous_response_id`"):
                ask()

    with_client(work)


def test_a_raw_completion_gives_what_follows_a_prompt_as_it_is() -> None:
    prompt = "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜>" + THINK_START

    def work(client: openai.OpenAI) -> None:
        whole = client.completions.create(model="m", prompt=prompt, max_tokens=500)
        text = whole.choices[0].text
        assert text.startswith("Nothing was asked that I have a rule for.</think>This is the demo")
        assert text.endswith("<｜end▁of▁sentence｜>")
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert whole.usage.completion_tokens > 16
        chunks = list(
            client.completions.create(model="m", prompt=prompt, max_tokens=500, stream=True)
        )
        assert "".join(chunk.choices[0].text for chunk in chunks) == text
        # As many tokens as OpenAI gives where nothing is said.
        short = client.completions.create(model="m", prompt=prompt)
        assert short.choices[0].finish_reason == "length"
        assert short.usage is not None
        assert short.usage.completion_tokens == 16
        with pytest.raises(openai.BadRequestError, match="echo: found True"):
            client.completions.create(model="m", prompt=prompt, echo=True)
        with pytest.raises(openai.BadRequestError, match="prompt: found"):
            client.completions.create(model="m", prompt=["two", "prompts"])

    with_client(work)


def test_a_raw_completion_is_counted_and_logged_like_others(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    keys = key_file(tmp_path, "ann:secret\nadmin watcher:w\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(keys)) as g:
            key = {"x-api-key": "secret"}
            await g.post("/v1/completions", {"prompt": "Hi", "model": "m"}, **key)
            status, headers, _ = await g.post("/v1/completions", {"prompt": 5}, **key)
            assert (status, headers["x-request-id"][:5]) == (400, "turn_")
            _, metrics = await g.get("/metrics", **{"x-api-key": "w"})
            assert 'dsv4_key_tokens_total{key="ann",kind="completion"} 16.0' in metrics
            assert 'dsv4_key_requests_total{key="ann",status="400"} 1.0' in metrics

    with caplog.at_level(logging.INFO, "dsv4.serve"):
        run(scenario())
    line = caplog.records[0].dsv4_fields  # type: ignore[attr-defined]
    assert (line["model"], line["completion_tokens"], line["engine"]) == ("m", 16, "demo")


def test_a_raw_completion_needs_a_key_where_others_do(tmp_path: Any) -> None:
    keys = key_file(tmp_path, "ann:secret requests=1\n")

    async def scenario() -> None:
        async with gateway(api_key_file=str(keys)) as g:
            body, key = {"prompt": "Hi"}, {"x-api-key": "secret"}
            assert (await g.post("/v1/completions", body))[0] == 401
            assert (await g.post("/v1/completions", body, **key))[0] == 200
            assert (await g.post("/v1/completions", body, **key))[0] == 429

    run(scenario())
