"""Random walks through the grammars of requests, by ids, for an engine to take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from grammar_cases import function, random_case
from grammar_engines import END_ID, XGrammar
from random_walks import walk

import dsv4
from dsv4.grammar import for_request
from dsv4.tokens import IdParser, Tokenizer

__all__ = ["END_ID", "Walk", "random_walks"]


@dataclass(frozen=True)
class Walk:
    """Ids that the grammar of a request allows, and the calls that they make."""

    name: str
    tools: list[Any]
    thinking: bool
    ids: list[int]
    calls: list[tuple[str, Any]]

    def body(self, said: str) -> dict[str, Any]:
        return {
            "messages": [{"role": "user", "content": said}],
            "tools": self.tools,
            "tool_choice": "required",
            "thinking": {"type": "enabled" if self.thinking else "disabled"},
            "max_tokens": len(self.ids) + 1,
            "temperature": 0,
        }


def random_walks(seed: int, count: int) -> Iterator[Walk]:
    """Walks through the grammar of a random set of tools, one of which must be called."""
    case = random_case(seed, dialects=("v4",))
    tools = [{"type": "function", "function": function(tool)} for tool in case.tools]
    request = dsv4.Request(
        [{"role": "user", "content": "x"}],
        tools=tools,
        tool_choice="required",
        thinking=case.thinking,
    )
    engine = XGrammar(for_request(request).text)
    tokenizer = Tokenizer.load()
    for number in range(count):
        ids = walk(engine, Random(seed * 1000 + number))
        if ids is None:
            continue
        parser = IdParser(tokenizer, request.parser())
        events = [*parser.feed_ids([*ids, END_ID]), *parser.finish()]
        made = dsv4.assemble(events).tool_calls
        calls = [(call.name, json.loads(call.arguments)) for call in made]
        assert calls, "a walk without the call that its grammar forces"
        yield Walk(f"walk-{seed}-{number}", tools, case.thinking, ids, calls)
