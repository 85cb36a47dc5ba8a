"""The parser beside deepseek-recipe's, in one run: python bench/parse.py

Prints what one 4-character chunk costs, in CPU time, whole-text parsing, and how time grows with
size.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import dsv4
from dsv4._format import tokens
from dsv4._format.dialects import V4
from dsv4.compat.release import parse_message_from_completion_text

CHUNK = 4
SIZES = (100_000, 200_000, 400_000)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            },
        },
    }
]


def prose(size: int) -> str:
    """Plain sentences, a line every 60 characters or so."""
    lines = (f"This is sentence number {n}, neither long nor short.\n" for n in range(size // 50))
    return "".join(lines)[:size].rstrip("\n") + "."


def call(argument: str) -> str:
    tags = V4.tags
    parameters = "".join(
        f'{tags.parameter_open}{key}" string="true">{value}{tags.parameter_close}\n'
        for key, value in (("path", "notes.txt"), ("content", argument))
    )
    return (
        f'{tags.block_open}{tags.invoke_open}write_file">\n{parameters}'
        f"{tags.invoke_close[1:]}{tags.block_close}"
    )


def completion() -> str:
    """80 KB: reasoning, content, one call with a 10 KB argument."""
    return f"{prose(50_000)}{tokens.THINK_END}{prose(20_000)}{call(prose(10_000))}{tokens.EOS}"


def chunks_of(text: str, size: int = CHUNK) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


def ours(chunks: list[str]) -> None:
    parser = dsv4.StreamParser(thinking=True, tools=TOOLS)
    feed = parser.feed
    for chunk in chunks:
        for _ in feed(chunk):
            pass
    parser.finish()


def peer(read_back: bool) -> Callable[[list[str]], None]:
    try:
        import deepseek_recipe as recipe
    except ImportError:
        sys.exit("deepseek-recipe is not installed: pip install deepseek-recipe==0.2.0")

    def run(chunks: list[str]) -> None:
        request = recipe.ChatCompletionRequest(
            {
                "model": "DeepSeek-V4-Pro",
                "messages": [{"role": "user", "content": "Hi"}],
                "tools": TOOLS,
                "stream": True,
            }
        )
        converted = request.convert(recipe.ConversionOptions())
        generator = recipe.ChatCompletionRequest.chunk_generator(converted, "id", "model")
        processor = recipe.StreamProcessor(generator, converted.parsing_options)
        push, text = processor.push, recipe.InferenceChunk.text
        push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage()))
        for chunk in chunks:
            for event in push(text(chunk, 1)):
                if read_back:
                    json.loads(event.to_json())
        for event in processor.finish():
            if read_back:
                json.loads(event.to_json())

    return run


def best(run: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()  # which other programs on the machine change least
        run()
        times.append(time.process_time() - start)
    return min(times)


def compare_streaming() -> None:
    chunks = chunks_of(completion())
    rivals = {
        "dsv4": ours,
        "deepseek-recipe, push only": peer(read_back=False),
        "deepseek-recipe, events read": peer(read_back=True),
    }
    times = dict.fromkeys(rivals, float("inf"))
    for _ in range(5):  # taking turns, so that all see the same machine
        for name, run in rivals.items():
            times[name] = min(times[name], best(lambda run=run: run(chunks), 1))  # type: ignore[misc]
    print(f"80 KB completion in {len(chunks)} chunks of {CHUNK} characters")
    for name, seconds in times.items():
        ratio = seconds / times["dsv4"]
        print(f"  {name:30} {seconds / len(chunks) * 1e6:7.2f} µs a chunk {ratio:7.1f} x")


def compare_whole() -> None:
    text = completion()
    strict = best(lambda: parse_message_from_completion_text(text, "thinking"), 20)
    tolerant = best(lambda: dsv4.parse(text, tools=TOOLS), 20)
    print("80 KB completion in one chunk")
    print(f"  strict, a handful of searches  {strict * 1e6:9.0f} µs")
    print(f"  tolerant                       {tolerant * 1e6:9.0f} µs {tolerant / strict:9.1f} x")


def growth() -> None:
    """How time grows with size. `attacks.py` has the texts that are made to cost much."""
    json_call = call("").replace('content" string="true"', 'content" string="false"')
    start, end = json_call[: json_call.rindex(">" + str(V4.tags.parameter_close)) + 1], ""
    loads: dict[str, Callable[[int], str]] = {
        "prose": prose,
        "a string argument": lambda size: call(prose(size)),
        "a JSON argument": lambda size: start + json.dumps([prose(60)] * (size // 64)) + end,
        "HTML in an argument": lambda size: call('<div class="x">a</div>\n' * (size // 24)),
    }
    print("time for 100, 200, 400 KB in chunks of 4, against the first")
    for name, make in loads.items():
        chunked = [chunks_of(make(size)) for size in SIZES]
        times = [best(partial(ours, chunks), 3) for chunks in chunked]
        ratios = "  ".join(f"{t / times[0]:5.2f}" for t in times)
        print(f"  {name:26} {times[0] * 1e3:8.1f} ms   {ratios}")


if __name__ == "__main__":
    compare_streaming()
    compare_whole()
    growth()
