"""The vendors' own clients, over a real socket: a loop with a tool in each protocol."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import openai
import pytest
from gateway import TOOLS, gateway, key_file, run

RUN = "Please\nRUN: echo hi"
FUNCTION = TOOLS[0]["function"]
streamed_or_whole = pytest.mark.parametrize("stream", [True, False])


def in_thread(work: Any, **settings: Any) -> Any:
    """What a client does that blocks, while the gateway runs in the loop."""

    async def scenario() -> Any:
        async with gateway(**settings) as g:
            return await asyncio.to_thread(work, g.url)

    return run(scenario())


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


@streamed_or_whole
def test_chat_completions(stream: bool) -> None:
    def work(url: str) -> None:
        with openai_client(url) as client:

            def asked(messages: list[Any]) -> Any:
                options: Any = {"model": "any", "messages": messages, "tools": TOOLS}
                if not stream:
                    return client.chat.completions.create(**options)
                with client.chat.completions.stream(**options) as events:
                    for _ in events:
                        pass
                    return events.get_final_completion()

            messages: list[Any] = [{"role": "user", "content": RUN}]
            first = asked(messages).choices[0]
            assert first.finish_reason == "tool_calls"
            assert first.message.reasoning_content
            (call,) = first.message.tool_calls
            assert json.loads(call.function.arguments) == {"command": "echo hi"}
            messages += [
                first.message,
                {"role": "tool", "tool_call_id": call.id, "content": "hi"},
            ]
            second = asked(messages)
            assert second.choices[0].message.content == "DONE: hi"
            assert second.usage.prompt_tokens > 0

    in_thread(work)


@streamed_or_whole
def test_responses(stream: bool) -> None:
    def work(url: str) -> None:
        with openai_client(url) as client:

            def asked(given: list[Any]) -> Any:
                tools: Any = [{"type": "function", **FUNCTION, "strict": False}]
                options: Any = {"model": "any", "input": given, "tools": tools}
                if not stream:
                    return client.responses.create(**options)
                with client.responses.stream(**options) as events:
                    for _ in events:
                        pass
                    return events.get_final_response()

            given: list[Any] = [{"role": "user", "content": RUN}]
            first = asked(given)
            calls = [item for item in first.output if item.type == "function_call"]
            assert json.loads(calls[0].arguments) == {"command": "echo hi"}
            given += [item.to_dict() for item in first.output]
            result = {"type": "function_call_output", "call_id": calls[0].call_id, "output": "hi"}
            second = asked([*given, result])
            assert second.output_text == "DONE: hi"
            assert second.status == "completed"

    in_thread(work)


@streamed_or_whole
def test_messages(stream: bool) -> None:
    def work(url: str) -> None:
        with anthropic_client(url) as client:

            def asked(messages: list[Any]) -> Any:
                tools: Any = [{"name": "bash", "input_schema": FUNCTION["parameters"]}]
                options: Any = {"model": "any", "max_tokens": 500, "tools": tools}
                if not stream:
                    return client.messages.create(messages=messages, **options)
                with client.messages.stream(messages=messages, **options) as events:
                    for _ in events:
                        pass
                    return events.get_final_message()

            messages: list[Any] = [{"role": "user", "content": RUN}]
            first = asked(messages)
            assert first.stop_reason == "tool_use"
            assert first.content[0].type == "thinking"
            call = first.content[-1]
            assert call.input == {"command": "echo hi"}
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "hi"}
            messages += [
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ]
            second = asked(messages)
            assert second.content[-1].text == "DONE: hi"
            assert second.stop_reason == "end_turn"

    in_thread(work)


def test_models_and_counts_are_read_by_both() -> None:
    def work(url: str) -> None:
        with openai_client(url) as theirs, anthropic_client(url) as others:
            assert [model.id for model in theirs.models.list()] == ["dsv4-demo"]
            assert [model.id for model in others.models.list()] == ["dsv4-demo"]
            assert theirs.models.retrieve("dsv4-demo").id == "dsv4-demo"
            said: Any = [{"role": "user", "content": "Hi"}]
            counted = others.messages.count_tokens(model="any", messages=said)
            answer = others.messages.create(model="any", messages=said, max_tokens=9)
            assert counted.input_tokens == answer.usage.input_tokens

    in_thread(work)


def test_errors_are_of_the_kinds_that_the_clients_know() -> None:
    said: Any = [{"role": "user", "content": "word " * 300}]

    def work(url: str) -> None:
        with openai_client(url) as theirs, anthropic_client(url) as others:
            with pytest.raises(openai.BadRequestError, match="maximum context length is 100"):
                theirs.chat.completions.create(model="any", messages=said)
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
                others.messages.create(model="any", messages=said, max_tokens=5)
            with pytest.raises(openai.BadRequestError, match="temperature"):
                theirs.responses.create(model="any", input="Hi", temperature="hot")  # type: ignore[call-overload]

    in_thread(work, context=100)


def test_a_client_without_a_key_is_told_so(tmp_path: Any) -> None:
    keys = key_file(tmp_path, "ann:secret\n")

    def work(url: str) -> None:
        with openai_client(url) as theirs, anthropic_client(url) as others:
            with pytest.raises(openai.AuthenticationError):
                theirs.models.list()
            with pytest.raises(anthropic.AuthenticationError):
                others.messages.create(
                    model="any", messages=[{"role": "user", "content": "Hi"}], max_tokens=5
                )

    in_thread(work, api_key_file=str(keys))
