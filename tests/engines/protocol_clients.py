"""A row of a corpus asked for by each protocol, and its answer as a reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import aiohttp
from corpus_rows import Reading, Row

Body = dict[str, Any]
Item, Result = TypeVar("Item"), TypeVar("Result")

# As many as the server generates at once.
AT_ONCE = 16
FINISHES = {
    **{"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"},
    **{"completed": None, "incomplete": "length"},
}


def together(ask: Callable[[aiohttp.ClientSession, Item], Any], items: Iterable[Item]) -> list[Any]:
    """What `ask` gives for each item, many at once."""

    async def scenario() -> list[Any]:
        gate = asyncio.Semaphore(AT_ONCE)
        timeout = aiohttp.ClientTimeout(total=600)
        # A busy server closes connections that wait, and one of those may be just about to be used.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:

            async def one(item: Item) -> Any:
                async with gate:
                    return await ask(client, item)

            return await asyncio.gather(*(one(item) for item in items))

    return asyncio.run(scenario())


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:500]}")
        self.status = status


async def posted(client: aiohttp.ClientSession, url: str, body: Body) -> Any:
    """The JSON of an answer, or the data of its events."""
    async with client.post(url, json=body) as response:
        text = await response.text()
        if response.status != 200:
            raise Refused(response.status, text)
        if response.content_type == "application/json":
            return json.loads(text)
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def limit(row: Row, ids: list[int]) -> int:
    """A row that was cut is cut by the limit; others have room for an EOS that does not come."""
    return len(ids) if row.is_cut else len(ids) + 8


# Chat Completions.


def chat_body(row: Row, said: str, most: int, **more: Any) -> Body:
    messages: list[Any] = [{"role": "user", "content": said}]
    if row.prefix:
        messages.append({"role": "assistant", "content": row.prefix, "prefix": True})
    body: Body = {"messages": messages, "max_tokens": most, "temperature": 0, **more}
    if row.tools:
        body |= {"tools": row.tools, "tool_choice": row.tool_choice}
    return body


def chat_reading(answer: Any) -> Reading:
    choice = answer["choices"][0]
    message = choice["message"]
    calls = [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return _reading(_reasoning(message), message.get("content"), calls, choice["finish_reason"])


def _reasoning(message: Body) -> str | None:
    return message.get("reasoning_content") or message.get("reasoning")


def chat_stream_reading(events: list[Any]) -> Reading:
    reasoning, content, finish = "", "", None
    calls: dict[int, list[str]] = {}
    for event in events:
        for choice in event["choices"]:
            delta = choice["delta"]
            reasoning += _reasoning(delta) or ""
            content += delta.get("content") or ""
            finish = choice.get("finish_reason") or finish
            for call in delta.get("tool_calls") or ():
                known = calls.setdefault(call["index"], ["", ""])
                known[0] += call["function"].get("name") or ""
                known[1] += call["function"].get("arguments") or ""
    return _reading(reasoning, content, [(name, text) for name, text in calls.values()], finish)


def _reading(
    reasoning: str | None, content: str | None, calls: list[tuple[str, str]], finish: str | None
) -> Reading:
    return Reading(
        reasoning or "", content or "", [(name, _loads(text)) for name, text in calls], finish
    )


def _loads(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments  # which no reading has


# Messages.


def messages_body(row: Row, said: str, most: int) -> Body:
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in row.tools
    ]
    messages: list[Any] = [{"role": "user", "content": said}]
    if row.prefix:
        messages.append({"role": "assistant", "content": row.prefix})
    body: Body = {"messages": messages, "max_tokens": most, "temperature": 0, "model": "m"}
    if tools:
        body |= {"tools": tools, "tool_choice": {"type": row.tool_choice}}
    return body | {"thinking": {"type": "adaptive" if row.thinking else "disabled"}}


def messages_reading(answer: Any) -> Reading:
    return _blocks_reading(answer["content"], answer["stop_reason"])


def messages_stream_reading(events: list[Any]) -> Reading:
    blocks: list[Body] = []
    reason, partial = "", ""
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
            partial = ""
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[-1]
            if delta["type"] == "input_json_delta":
                partial += delta["partial_json"]
                block["input"] = _loads(partial) if partial.endswith("}") else {}
            elif delta["type"] != "signature_delta":
                key = "text" if delta["type"] == "text_delta" else "thinking"
                block[key] += delta[key]
        elif event["type"] == "message_delta":
            reason = event["delta"]["stop_reason"]
    return _blocks_reading(blocks, reason)


def _blocks_reading(blocks: list[Body], reason: str) -> Reading:
    return Reading(
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        FINISHES[reason],
    )


# Responses.


def responses_body(row: Row, said: str, most: int) -> Body:
    tools = [{"type": "function", **tool["function"]} for tool in row.tools]
    body: Body = {"input": said, "max_output_tokens": most, "temperature": 0}
    if tools:
        body |= {"tools": tools, "tool_choice": row.tool_choice}
    return body | {"reasoning": {"effort": "high" if row.thinking else "none"}}


def responses_reading(answer: Any) -> Reading:
    items = answer["output"]
    texts = {"reasoning": "", "message": ""}
    for item in items:
        if item["type"] in texts:
            texts[item["type"]] += "".join(part["text"] for part in item["content"])
    calls = [
        (item["name"], _loads(item["arguments"]))
        for item in items
        if item["type"] == "function_call" and item["status"] == "completed"
    ]
    finish = FINISHES[answer["status"]] or ("tool_calls" if calls else "stop")
    return Reading(texts["reasoning"], texts["message"], calls, finish)


def responses_stream_reading(events: list[Any]) -> Reading:
    return responses_reading(events[-1]["response"])
