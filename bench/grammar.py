"""Grammars: how long they take to make, to compile and to ask for a mask.

    python bench/grammar.py

The peer is xgrammar's own structural tag for DeepSeek-V4, compiled by the same engine for the same
tools with the real vocabulary. The compiler is not allowed to remember earlier grammars. Times are
the best of several, in milliseconds of this process; read the ratios.

The tools are as agents have them: each with a schema of its own, of one to eight parameters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

import dsv4
from dsv4.grammar import for_request

# The engine is brought up as the tests do it, without torch.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "grammar"))
engines = import_module("grammar_engines")
compiler, ids_of = engines.compiler, engines.ids_of
vocabulary, xgrammar = engines.vocabulary, engines.xgrammar
KINDS: tuple[dict[str, Any], ...] = (
    {"type": "string", "description": "Text."},
    {"type": "integer", "minimum": 0, "maximum": 2000},
    {"type": "boolean"},
    {"type": "string", "enum": ["fast", "slow", "auto"]},
    {"type": "array", "items": {"type": "string"}},
    {
        "type": "object",
        "properties": {
            "old": {"type": "string"},
            "new": {"type": "string"},
            "all": {"type": "boolean"},
        },
        "required": ["old", "new"],
    },
    {"type": "number"},
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"line": {"type": "integer"}, "text": {"type": "string"}},
            "required": ["line"],
        },
    },
)
NAMES = ("path", "limit", "recursive", "mode", "files", "edit", "ratio", "lines")


def tool(n: int) -> dict[str, Any]:
    """A tool whose schema no other tool has."""
    count = 1 + n % len(KINDS)
    names = [f"{NAMES[k]}_{n}" if k % 2 else NAMES[k] for k in range(count)]
    properties = {name: KINDS[(n + k) % len(KINDS)] for k, name in enumerate(names)}
    parameters = {"type": "object", "properties": properties, "required": names[: 1 + n % 3]}
    return {"type": "function", "function": {"name": f"tool_{n}", "parameters": parameters}}


# What costs a grammar most beside the peer's: one parameter of such a kind, and nothing else.
SMALL: dict[str, dict[str, Any]] = {
    "texts": KINDS[4],
    "texts, not empty": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "an object": KINDS[5],
    "any object": {"type": "object"},
    "six members": {
        "type": "object",
        "properties": {name: KINDS[n] for n, name in enumerate(NAMES[:6])},
        "required": ["path", "limit"],
    },
}


def tool_with(schema: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    return {"type": "function", "function": {"name": "tool", "parameters": parameters}}


def best(run: Callable[[], object], times: int = 5) -> float:
    """Milliseconds of the fastest run."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return 1000 * min(found)


def requested(tools: list[Any], choice: str) -> dsv4.Request:
    return dsv4.Request([{"role": "user", "content": "Hi"}], tools=tools, tool_choice=choice)


def compile_times(tools: list[Any], choice: str) -> tuple[float, float, float]:
    """Making our text, compiling it, and compiling the peer's from its making on."""
    request = requested(tools, choice)
    made = best(lambda: for_request(request))
    text = for_request(request).text
    ours = best(lambda: compiler().compile_grammar(text))
    theirs = best(lambda: compiler().compile_structural_tag(peer(tools, choice)))
    return made, ours, theirs


def peer(tools: list[Any], choice: str) -> Any:
    return xgrammar().get_model_structural_tag(
        "deepseek_v4", tools=tools, tool_choice=choice, reasoning="enabled"
    )


def mask_times(tools: list[Any]) -> tuple[float, float]:
    """Microseconds for a mask, averaged over a completion."""
    called = tools[-1]["function"]
    arguments = {
        name: sample(schema) for name, schema in called["parameters"]["properties"].items()
    }
    message = {
        "role": "assistant",
        "reasoning_content": "The user wants a change. Let me look at the files first. " * 5,
        "content": "I will look.",
        "tool_calls": [{"function": {"name": called["name"], "arguments": arguments}}],
    }
    history = [{"role": "user", "content": "Hi"}]
    before = str(dsv4.encode(history, tools=tools))
    ids = ids_of(str(dsv4.encode([*history, message], tools=tools))[len(before) :])
    grammars = (
        compiler().compile_grammar(for_request(requested(tools, "auto")).text),
        compiler().compile_structural_tag(peer(tools, "auto")),
    )
    ours, theirs = (best(lambda g=g: walk(g, ids)) * 1000 / len(ids) for g in grammars)
    return ours, theirs


def walk(grammar: Any, ids: list[int]) -> None:
    matcher = xgrammar().GrammarMatcher(grammar)
    mask = numpy.full((1, (len(vocabulary()) + 31) // 32), -1, dtype=numpy.int32)
    for id in ids:
        matcher.fill_next_token_bitmask(mask)
        assert matcher.accept_token(id)


def sample(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: sample(inside) for name, inside in schema["properties"].items()}
    if schema["type"] == "array":
        return [sample(schema["items"])] * 3
    return {"string": "a few words / and more", "integer": 12, "boolean": True, "number": 1.5}[
        schema["type"]
    ]


def report(name: str, tools: list[Any], choice: str) -> None:
    made, ours, theirs = compile_times(tools, choice)
    ratio = (made + ours) / theirs
    print(f"{name:>16} {choice:>9} {made:8.1f} {ours:8.1f} {theirs:8.1f} {ratio:6.2f}", flush=True)


def main() -> None:
    compiler().compile_grammar('root ::= "a"')
    columns = f"{'choice':>9} {'make':>8} {'compile':>8} {'peer':>8} {'ratio':>6}"
    print(f"{'tools':>16} {columns}")
    for count in (1, 20, 100):
        tools = [tool(n) for n in range(count)]
        for choice in ("auto", "required"):
            report(str(count), tools, choice)
    print(f"\n{'one tool with':>16} {columns}")
    for name, schema in SMALL.items():
        for choice in ("auto", "required"):
            report(name, [tool_with(schema)], choice)
    print(f"\n{'tools':>5} {'mask, µs':>9} {'peer':>8} {'ratio':>6}")
    for count in (1, 20, 100):
        ours, theirs = mask_times([tool(n) for n in range(count)])
        print(f"{count:5} {ours:9.1f} {theirs:8.1f} {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()
