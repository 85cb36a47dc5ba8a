"""Every answer of a chat server is accounted for: python fuzz/upstream_law.py [--count N]

Changes the form of good answers (`upstream_changes.py`), lets `dsv4 heal` read them, and holds what
a client is told, streamed or whole, in one of three protocols, against what the model said: exactly
that, or, where the answer was damaged, a failure in the protocol's own form. Prints how many are
lost, told as complete though they are not, or refused though nothing was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from upstream_changes import DAMAGING, KEEPING, Changed, changed_answer
from upstream_plans import TOOL_NAMES, Good

from dsv4.api.protocols import PROTOCOLS
from dsv4.serve.backend import BackendError
from dsv4.serve.backends.openai_compatible import ChatServerBackend
from dsv4.serve.choice_reader import total_usage
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.serve.reported_route import client_error
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.http_client import HttpConnection

JsonObject = dict[str, Any]


# The upstream: an answer, byte for byte.


class ScriptedTransport:
    """Sends an answer, piece by piece, to whoever asks for one."""

    def __init__(self, connection: HttpConnection, answer: Changed) -> None:
        self._connection = connection
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._left = deque(answer.wire)
        self._is_paused = self._is_closed = False

    def write(self, data: bytes) -> None:
        self._loop.call_soon(self._send)

    def _send(self) -> None:
        while self._left and not self._is_paused and not self._is_closed:
            self._connection.data_received(self._left.popleft())
        # Whoever waits for more than was sent learns so, as by the silence of a real server.
        ends = self._answer.is_damaged or self._answer.ends in ("close", "reset")
        if ends and not self._left and not self._is_closed:
            self._is_closed = True
            error = ConnectionResetError() if self._answer.ends == "reset" else None
            self._connection.connection_lost(error)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._send)

    def is_closing(self) -> bool:
        return self._is_closed

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connection.connection_lost(None)


class ScriptedClient:
    """Stands for `HttpClient`: whatever is asked, the answer is the same."""

    starts = 1

    def __init__(self, answer: Changed) -> None:
        self._answer = answer

    async def request(
        self, method: str, path: str, body: bytes = b"", more: str = ""
    ) -> HttpConnection:
        connection = HttpConnection()
        connection.connection_made(ScriptedTransport(connection, self._answer))  # type: ignore[arg-type]
        await connection.ask(body)
        return connection

    def release(self, answer: HttpConnection) -> None:
        pass


SETTINGS = Settings(backend="chat", upstream=("http://127.0.0.1:1",), upstream_model="m")


def backend_of(answer: Changed) -> ChatServerBackend:
    backend = ChatServerBackend(SETTINGS)
    backend._upstream._client = ScriptedClient(answer)  # type: ignore[assignment]
    return backend


# The client.


class Told(NamedTuple):
    """What a client is told, in whatever protocol."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, Any], ...]
    ids: tuple[str, ...]
    finish: str
    usage: tuple[int, int] | None = None


class Failed(NamedTuple):
    """A failure in the protocol's own form."""

    words: str


def told_whole(protocol: str, body: JsonObject) -> Told | Failed:
    if "error" in body and body["error"]:
        return Failed(body["error"]["message"])
    return TELLERS[protocol](body)


def chat_whole(body: JsonObject) -> Told:
    choice = body["choices"][0]
    message, usage = choice["message"], body["usage"]
    calls = message.get("tool_calls") or ()
    return Told(
        message.get("reasoning_content") or "",
        message["content"] or "",
        tuple((c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls),
        tuple(c["id"] for c in calls),
        choice["finish_reason"],
        (usage["prompt_tokens"], usage["completion_tokens"]),
    )


def messages_whole(body: JsonObject) -> Told:
    blocks, usage = body["content"], body["usage"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    ends = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
    cached = usage.get("cache_read_input_tokens") or 0
    return Told(
        "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
        "".join(b["text"] for b in blocks if b["type"] == "text"),
        tuple((c["name"], c["input"]) for c in calls),
        tuple(c["id"] for c in calls),
        ends.get(body["stop_reason"], body["stop_reason"]),
        (usage["input_tokens"] + cached, usage["output_tokens"]),
    )


def responses_whole(body: JsonObject) -> Told:
    items, usage = body["output"], body["usage"]
    # An incomplete item is no call that anybody runs.
    calls = [i for i in items if i["type"] == "function_call" and i["status"] == "completed"]
    texts = {
        kind: "".join(p["text"] for i in items if i["type"] == kind for p in i.get("content") or ())
        for kind in ("reasoning", "message")
    }
    finish = "tool_calls" if calls else "stop"
    return Told(
        texts["reasoning"],
        texts["message"],
        tuple((c["name"], json.loads(c["arguments"])) for c in calls),
        tuple(c["call_id"] for c in calls),
        finish if body["status"] == "completed" else body["status"],
        (usage["input_tokens"], usage["output_tokens"]),
    )


TELLERS: dict[str, Callable[[JsonObject], Told]] = {
    "chat": chat_whole,
    "messages": messages_whole,
    "responses": responses_whole,
}


def told_stream(protocol: str, data: bytes) -> Told | Failed:
    """What the frames of a stream say, read as its clients read them."""
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    is_done = bool(lines) and lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    errors = [e for e in events if e.get("error") or e.get("type") == "response.failed"]
    if errors:
        assert errors == events[-1:], "something follows an error"
        assert not is_done, "an end follows an error"
        error = errors[0].get("error") or errors[0]["response"]["error"]
        return Failed(error["message"])
    if protocol == "responses":
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), "no end"
        return responses_whole(events[-1]["response"])
    return chat_stream(events, is_done) if protocol == "chat" else messages_stream(events)


def chat_stream(events: list[JsonObject], is_done: bool) -> Told:
    assert is_done, "no end"
    message: JsonObject = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish = usage = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            delta = choice["delta"]
            finish = choice["finish_reason"] or finish
            for name in ("content", "reasoning_content"):
                message[name] += delta.get(name) or ""
            for call in delta.get("tool_calls") or ():
                if "id" in call:
                    message["tool_calls"].append({"id": call["id"], "function": call["function"]})
                else:
                    function = message["tool_calls"][call["index"]]["function"]
                    function["arguments"] += call["function"]["arguments"]
    return chat_whole({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def messages_stream(events: list[JsonObject]) -> Told:
    assert events[-1]["type"] == "message_stop", "no end"
    blocks: list[JsonObject] = []
    body: JsonObject = {"content": blocks}
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for name in ("text", "thinking"):
                if name in delta:
                    blocks[-1][name] += delta[name]
            blocks[-1]["json"] += delta.get("partial_json", "")
        elif event["type"] == "message_delta":
            body |= {"stop_reason": event["delta"]["stop_reason"], "usage": event["usage"]}
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
    return messages_whole(body)


# The way between, in process.

SCHEMA = {"type": "object", "properties": {}}
SAID = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, JsonObject] = {
    "chat": {
        "messages": SAID,
        "tools": [
            {"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in TOOL_NAMES
        ],
    },
    "messages": {
        "messages": SAID,
        "max_tokens": 500,
        "tools": [{"name": n, "input_schema": SCHEMA} for n in TOOL_NAMES],
    },
    "responses": {
        "input": "Hi",
        "tools": [{"type": "function", "name": n, "parameters": SCHEMA} for n in TOOL_NAMES],
    },
}
CALLS = {
    (name, stream): PROTOCOLS[name].read({**body, "model": "m", "stream": stream})  # type: ignore[index]
    for name, body in BODIES.items()
    for stream in (True, False)
}


async def told_in_process(answer: Changed, protocol: str, stream: bool) -> Told | Failed:
    """What a client is told of an answer, by the reader and the protocol's writer alone."""
    api, call = PROTOCOLS[protocol], CALLS[protocol, stream]  # type: ignore[index]
    reader = HealingReader(call, None, UpstreamHabits())
    writer = api.Writer(call)
    data = api.frames(writer.start(input_tokens=1))
    try:
        async for chunk in backend_of(answer).stream_request(BODIES["chat"]):
            data += writer.frames(reader.feed(chunk))
        data += writer.frames(reader.end())
    except BackendError as error:
        if not stream:
            return told_whole(protocol, api.error(client_error(error))[1])
        return told_stream(protocol, data + api.frames(writer.fail(client_error(error))))
    usage, reason = total_usage([reader], 1), reader.finish
    if not stream:
        return told_whole(protocol, api.whole(call, reader.events, usage=usage, reason=reason))
    return told_stream(protocol, data + api.frames(writer.finish(usage=usage, reason=reason)))


# The law.


def wrong(answer: Changed, told: Told | Failed, protocol: str) -> str | None:
    """What is wrong with what a client is told; None if nothing is."""
    good = answer.good
    if isinstance(told, Failed):
        return None if answer.is_damaged else f"refused: {told.words}"
    calls = tuple((call.name, json.loads(call.arguments)) for call in good.calls)
    if answer.is_cut:
        return None if is_cut_short(told, good, calls) else f"told {told}, which was cut"
    expected = Told(good.reasoning, good.content, calls, told.ids, good.finish, told.usage)
    if answer.knows_ids and protocol != "messages" and not answer.is_damaged:
        expected = expected._replace(ids=tuple(call.id for call in good.calls))
    if answer.knows_usage and not answer.is_damaged:
        expected = expected._replace(usage=(good.prompt, good.completion))
    if told != expected:
        return f"told {told}\nexpected {expected}"
    return None


def is_cut_short(told: Told, good: Good, calls: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a client is told a beginning of what the model said, and that it was cut: unless it
    has calls that are whole, and then those."""
    texts = ((told.reasoning, good.reasoning), (told.content, good.content))
    begins = all(whole.startswith(part.rstrip("\ufffd")) for part, whole in texts)
    ends = ("tool_calls",) if told.calls else CUT_ENDS
    rest = iter(calls)  # calls that are written side by side end in any order
    return begins and all(call in rest for call in told.calls) and told.finish in ends


# How the three protocols say that an answer was cut.
CUT_ENDS = ("length", "content_filter", "refusal", "incomplete")


async def verdict(answer: Changed, protocol: str, stream: bool) -> str | None:
    try:
        told = await told_in_process(answer, protocol, stream)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return wrong(answer, told, protocol)


def ways(seed: object) -> tuple[str, bool]:
    """The protocol of a seed, and whether its client streams."""
    rng = random.Random(f"way {seed}")
    return rng.choice(list(TELLERS)), rng.random() < 0.5


async def violations(seeds: list[str]) -> list[tuple[str, Changed, str]]:
    """Every seed whose changed answer is not told as it should be."""
    found = []
    for seed in seeds:
        answer = changed_answer(seed)
        if problem := await verdict(answer, *ways(seed)):
            found.append((seed, answer, problem))
    return found


async def alone(count: int) -> list[tuple[str, Changed, str]]:
    """The same for every change by itself."""
    found = []
    for change in (*KEEPING, *DAMAGING):
        for n in range(count):
            seed = f"alone {n}"
            answer = changed_answer(seed, change)
            if problem := await verdict(answer, *ways(seed)):
                found.append((f"{change.name}, {n}", answer, problem))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", default="law")
    parser.add_argument("--show", type=int, default=5, help="how many to print in full")
    parser.add_argument("--alone", action="store_true", help="each change by itself")
    options = parser.parse_args()
    logging.disable()
    if options.alone:
        found = asyncio.run(alone(options.count))
    else:
        seeds = [f"{options.seed} {n}" for n in range(options.count)]
        found = asyncio.run(violations(seeds))
    for seed, answer, problem in found[: options.show]:
        print(f"{seed}: {', '.join(answer.changes)}\n{problem}\n")
    for change, number in Counter(c for _, a, _ in found for c in a.changes).most_common(40):
        print(f"{number:6} {change}")
    print(f"{len(found)} of {options.count} changed answers are not told as they should be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
