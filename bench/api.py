"""The protocols beside deepseek-recipe's, in one run: python bench/api.py

Prints what it takes from a request to its prompt, from a model's text to bytes for the client in
each protocol, and whether a chunk costs the same late in a stream. bench/README.md explains it.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from loads import Message, agent_200, chat_4
from parse import TOOLS, chunks_of, completion, prose

from dsv4.api import Settings, Usage, chat, messages, responses
from dsv4.api.request_fields import parse_json

try:
    import deepseek_recipe as recipe
except ImportError:
    sys.exit("deepseek-recipe is not installed: pip install deepseek-recipe==0.2.0")

Run = Callable[[], object]
ROUNDS = 15


def in_turns(runs: dict[str, Run], number: int) -> dict[str, float]:
    """The best CPU time of each, in seconds. They take turns, so that all see the same machine."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.thread_time()
            for _ in range(number):
                run()
            best[name] = min(best[name], (time.thread_time() - start) / number)
    return best


def show(title: str, times: dict[str, float]) -> None:
    """Times, and how many times as long each takes as the first."""
    print(title)
    first = next(iter(times.values()))
    for name, seconds in times.items():
        print(f"  {name:30} {seconds * 1e6:9.2f} µs {seconds / first:7.2f} x")


# From a request to its prompt.


def body_of(load: list[Message]) -> dict[str, Any]:
    # At the effort "low" both write no text for it, and so the same prompt.
    body: dict[str, Any] = {"model": "DeepSeek-V4-Pro", "reasoning_effort": "low"}
    body["messages"] = [{k: v for k, v in m.items() if k != "tools"} for m in load]
    if "tools" in load[0]:
        body["tools"] = load[0]["tools"]
    return body


def ours(body: Any) -> str:
    return str(chat.read(body).request.encode())


ENCODING, OPTIONS = recipe.DeepseekV4Encoding(), recipe.ConversionOptions()


def peer(body: Any) -> str:
    conversation = recipe.ChatCompletionRequest(body).convert(OPTIONS).conversation
    return str(ENCODING.render_conversation(conversation).prompt)


# What reads JSON, where Python's own does not.
READER = "jiter" if importlib.util.find_spec("jiter") else "json"


def compare_requests() -> None:
    for name, load, number in (("chat of 4", chat_4(), 200), ("agent of 200", agent_200(), 3)):
        body = body_of(load)
        data = json.dumps(body).encode()
        if not ours(body) == ours(data) == peer(body):
            sys.exit(f"{name}: the prompts differ")
        fresh = (dict(body, seed=n) for n in itertools.count())
        runs: dict[str, Run] = {
            "dsv4": lambda body=body: ours(body),
            "deepseek-recipe": lambda body=body: peer(body),
            "dsv4, options never seen": lambda fresh=fresh: ours(next(fresh)),
        }
        show(f"{name}, dict to prompt", in_turns(runs, number))
        runs = {
            f"dsv4, {READER}": lambda data=data: ours(data),
            "deepseek-recipe": lambda data=data: peer(data),
            "dsv4, json": lambda data=data: ours(parse_json(data, None)),
        }
        show(f"{name}, bytes to prompt", in_turns(runs, number))


# From a model's text to bytes for the client.

FUNCTION = TOOLS[0]["function"]
MODULES = {"chat": chat, "responses": responses, "messages": messages}
QUESTION = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": QUESTION, "tools": TOOLS},
    "responses": {
        "input": "Hi",
        "tools": [{"type": "function", **FUNCTION}],
        "reasoning": {"effort": "high"},
    },
    "messages": {
        "messages": QUESTION,
        "max_tokens": 1000,
        "thinking": {"type": "enabled", "budget_tokens": 1000},
        "tools": [{"name": FUNCTION["name"], "input_schema": FUNCTION["parameters"]}],
    },
}
PEERS = {
    "chat": recipe.ChatCompletionRequest,
    "responses": recipe.ResponsesRequest,
    "messages": recipe.MessagesRequest,
}


def stream_ours(protocol: str, chunks: list[str], settings: Settings | None = None) -> int:
    module = MODULES[protocol]
    call = module.read({**BODIES[protocol], "stream": True}, settings=settings)
    parser = call.parser()
    writer = module.Writer(call)
    feed, frames = parser.feed, writer.frames
    size = len(module.frames(writer.start()))
    for chunk in chunks:
        size += len(frames(feed(chunk)))
    size += len(frames(parser.finish()))
    return size + len(module.frames(writer.finish(usage=Usage(1, 0, len(chunks)))))


def stream_peer(protocol: str, chunks: list[str]) -> int:
    """Its events as JSON text: a server would still have to make frames of them."""
    request = PEERS[protocol]({**BODIES[protocol], "model": "DeepSeek-V4-Pro", "stream": True})
    converted = request.convert(OPTIONS)
    generator = PEERS[protocol].chunk_generator(converted, "id", "model")
    processor = recipe.StreamProcessor(generator, converted.parsing_options)
    push, text = processor.push, recipe.InferenceChunk.text
    size = 0
    for event in push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage())):
        size += len(event.to_json())
    for chunk in chunks:
        for event in push(text(chunk, 1)):
            size += len(event.to_json())
    for event in processor.finish():
        size += len(event.to_json())
    return size


def compare_streams() -> None:
    chunks = chunks_of(completion())
    for protocol in MODULES:
        runs: dict[str, Run] = {
            "dsv4, to frames": lambda p=protocol: stream_ours(p, chunks),
            "deepseek-recipe, to JSON": lambda p=protocol: stream_peer(p, chunks),
            "dsv4, calls streamed": lambda p=protocol: stream_ours(p, chunks, STREAMED),
        }
        times = in_turns(runs, 1)
        each = {name: seconds / len(chunks) for name, seconds in times.items()}
        show(f"{protocol}: 80 KB in {len(chunks)} chunks of 4 characters, a chunk", each)


def compare_chinese() -> None:
    """Texts beyond ASCII, which have to be looked at for line ends that some clients trip over."""
    chunks = chunks_of(
        "\u6cb3\u6d41\u7ecf\u8fc7\u57ce\u5e02\uff0c\u7136\u540e" * 2000 + "</think>\u597d"
    )
    for protocol in MODULES:
        runs: dict[str, Run] = {
            "dsv4, to frames": lambda p=protocol: stream_ours(p, chunks),
            "deepseek-recipe, to JSON": lambda p=protocol: stream_peer(p, chunks),
        }
        times = in_turns(runs, 1)
        each = {name: seconds / len(chunks) for name, seconds in times.items()}
        show(f"{protocol}: Chinese in {len(chunks)} chunks of 4 characters, a chunk", each)


STREAMED = Settings(calls="streamed")


def growth() -> None:
    """What a chunk takes, by the length of the stream it comes in."""
    print("a chunk of reasoning in streams of 100, 200 and 400 KB, against the first")
    for protocol in MODULES:
        times = []
        for size in (100_000, 200_000, 400_000):
            chunks = chunks_of(prose(size))
            run = {"": lambda p=protocol, c=chunks: stream_ours(p, c)}
            times.append(in_turns(run, 1)[""] / len(chunks))
        ratios = "  ".join(f"{t / times[0]:5.2f}" for t in times)
        print(f"  {protocol:12} {times[0] * 1e6:6.2f} µs   {ratios}")


if __name__ == "__main__":
    compare_requests()
    compare_streams()
    compare_chinese()
    growth()
