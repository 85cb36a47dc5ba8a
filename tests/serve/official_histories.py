"""Random histories for the official API in three protocols, as clients that split turns, lose
results, double ids and write nulls send them.
"""

from __future__ import annotations

import random
from typing import Any

Body = dict[str, Any]
TEXTS = ("hi", "", "json please", "a\n\nb", "ok")
SCHEMAS: tuple[Any, ...] = (
    *({"type": "object", "properties": {"x": {"type": "string"}}}, {}, None),
    *({"type": "object", "required": None}, {"type": None}, {"type": "string"}),
    {"properties": {"x": {"type": "strin"}}},
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
IMAGE = "https://example.com/a.png"


def history(seed: int, protocol: str, model: str) -> Body:
    """A request of a protocol for a model."""
    dice = random.Random(f"{seed} {protocol} {model}")
    make = {"chat": _Chat, "messages": _Messages, "responses": _Responses}[protocol]
    return make(dice).body(model)


class _Author:
    """Writes a history turn by turn; what a protocol calls things is a subclass's."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.many = 0

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def text(self) -> str:
        return self.dice.choice(TEXTS)

    def id(self) -> str:
        """One of few: some come twice in a turn."""
        self.many += 1
        return self.dice.choice((f"c{self.many}", f"c{self.many}", "c1", "dup"))

    def results(self, ids: list[str]) -> list[str]:
        """The ids of the results that come back: some are lost, doubled, shuffled or made up."""
        found = [id for id in ids if self.chance(0.9)]
        if self.chance(0.1):
            found += found[:1]
        if self.chance(0.2):
            self.dice.shuffle(found)
        if self.chance(0.05):
            found.append("nobody")
        return found


class _Chat(_Author):
    def body(self, model: str) -> Body:
        messages: list[Any] = []
        if self.chance(0.5):
            messages.append({"role": self.dice.choice(("system", "developer")), "content": "s"})
        for _ in range(self.dice.randint(1, 4)):
            messages.append({"role": "user", "content": self.content()})
            for _ in range(self.dice.randint(0, 3)):
                messages += self.turn()
        if self.chance(0.2):
            messages.append({"role": "user", "content": self.content()})
        if self.chance(0.1):
            messages.append({"role": "assistant", "content": "H", "prefix": True})
        if self.chance(0.1):
            messages.insert(0, {"role": "latest_reminder", "content": "2026-11-09,Monday"})
        body: Body = {"model": model, "messages": messages}
        if self.chance(0.6):
            names = self.dice.sample(("f", "g", "a b", "x" * 140, "mcp.y"), self.dice.randint(0, 3))
            body["tools"] = [self.tool(name) for name in names]
        return {**body, **self.options()}

    def tool(self, name: str) -> Body:
        function = {"name": name, "parameters": self.dice.choice(SCHEMAS)}
        return {"type": "function", "function": function}

    def content(self) -> Any:
        parts = [{"type": "text", "text": self.text()}]
        if self.chance(0.1):
            parts.append({"type": "image_url", "image_url": {"url": IMAGE}})
        return self.dice.choice((self.text(), parts, self.text(), None))

    def turn(self) -> list[Any]:
        ids = [self.id() for _ in range(self.dice.choice((0, 0, 1, 1, 2, 3)))]
        calls = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": self.arguments()}}
            for id in ids
        ]
        turn: Body = {"role": "assistant", "content": self.dice.choice((self.text(), None))}
        if calls or self.chance(0.1):
            turn["tool_calls"] = calls
        thought = self.dice.choice(("absent", None, "", " ", "r"))
        if thought != "absent":
            field = self.dice.choice(("reasoning_content", "reasoning_content", "reasoning"))
            turn[field] = thought
        messages = [turn]
        if calls and self.chance(0.3):  # in two messages
            rest = {name: value for name, value in turn.items() if name != "tool_calls"}
            messages = [rest, {"role": "assistant", "content": None, "tool_calls": calls}]
        for id in self.results(ids):
            if self.chance(0.05):
                messages.append({"role": "system", "content": "s"})
            messages.append({"role": "tool", "tool_call_id": id, "content": self.content()})
        return messages

    def arguments(self) -> Any:
        return self.dice.choice(("{}", '{"x": 1}', "no json", {"x": 1}, None))

    def options(self) -> Body:
        choices: tuple[Any, ...] = (
            *("auto", "none", "required"),
            *({"type": "function", "function": {"name": name}} for name in ("f", "nope")),
        )
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
        odd: dict[str, tuple[Any, ...]] = {
            "thinking": ({"type": "enabled"}, {"type": "disabled"}),
            "reasoning_effort": EFFORTS,
            "enable_thinking": (True, False),
            "reasoning": ({"effort": "high"}, {"effort": "none"}),
            "tool_choice": choices,
            "response_format": ({"type": "json_object"}, schema, {"type": "text"}),
            "max_tokens": (1, 500_000),
            "max_completion_tokens": (5, 500_000),
            "temperature": (0, 1.5, 2.0),
            "stream": (True, False),
        }
        return {name: self.dice.choice(values) for name, values in odd.items() if self.chance(0.15)}


class _Messages(_Author):
    def body(self, model: str) -> Body:
        messages: list[Any] = []
        for _ in range(self.dice.randint(1, 4)):
            messages.append({"role": "user", "content": self.content()})
            for _ in range(self.dice.randint(0, 3)):
                messages += self.turn()
        messages.append({"role": "user", "content": self.content()})
        named = self.dice.choice((model, model, "claude-sonnet-5", f"{model}[1m]"))
        body: Body = {"model": named, "max_tokens": 500_000, "messages": messages}
        if self.chance(0.5):
            body["system"] = self.dice.choice(("s", [{"type": "text", "text": "s"}]))
        if self.chance(0.6):
            schema = self.dice.choice([each for each in SCHEMAS if isinstance(each, dict)])
            body["tools"] = [{"name": "f", "input_schema": schema}]
            if self.chance(0.3):
                kinds = ({"type": "any"}, {"type": "auto"}, {"type": "tool", "name": "f"})
                body["tool_choice"] = self.dice.choice(kinds)
        if self.chance(0.3):
            switches = ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"})
            body["thinking"] = self.dice.choice(switches)
        if self.chance(0.2):
            body["output_config"] = {"effort": self.dice.choice(("low", "high", "max"))}
        return body

    def content(self) -> Any:
        return self.dice.choice(("hi", [{"type": "text", "text": self.text() or "x"}]))

    def turn(self) -> list[Any]:
        blocks: list[Any] = []
        if self.chance(0.5):
            blocks.append({"type": "thinking", "thinking": "r", "signature": "s"})
        if self.chance(0.6):
            blocks.append({"type": "text", "text": self.text() or "x"})
        ids = [self.id() for _ in range(self.dice.choice((0, 1, 1, 2)))]
        blocks += [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]
        if not blocks:
            blocks = [{"type": "text", "text": "x"}]
        turns = [{"role": "assistant", "content": blocks}]
        if len(blocks) > 1 and self.chance(0.2):
            turns = [{"role": "assistant", "content": [block]} for block in blocks]
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": id, "content": "r"} for id in self.results(ids)
        ]
        if results and self.chance(0.3):
            results.insert(self.dice.randint(0, len(results)), {"type": "text", "text": "t"})
        return [*turns, {"role": "user", "content": results}] if results else turns


class _Responses(_Author):
    def body(self, model: str) -> Body:
        items: list[Any] = []
        for _ in range(self.dice.randint(1, 4)):
            items.append({"role": "user", "content": self.text() or "x"})
            for _ in range(self.dice.randint(0, 3)):
                items += self.turn()
        items.append({"role": self.dice.choice(("user", "developer")), "content": "go on"})
        items.append({"role": "user", "content": "json"})
        body: Body = {"model": model, "input": items}
        if self.chance(0.5):
            body["instructions"] = "s"
        if self.chance(0.6):
            body["tools"] = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
        if self.chance(0.3):
            body["reasoning"] = {"effort": self.dice.choice(EFFORTS)}
        if self.chance(0.2):
            body["max_output_tokens"] = 500_000
        if self.chance(0.2):
            schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
            body["text"] = {"format": self.dice.choice((schema, {"type": "json_object"}))}
        return body

    def turn(self) -> list[Any]:
        items: list[Any] = []
        if self.chance(0.5):
            summary = [{"type": "summary_text", "text": "s"}] if self.chance(0.5) else []
            item: Body = {"type": "reasoning", "id": "r", "summary": summary}
            if self.chance(0.5):
                item["content"] = [{"type": "reasoning_text", "text": "r"}]
            items.append(item)
        if self.chance(0.5):
            text = [{"type": "output_text", "text": "t"}]
            items.append({"type": "message", "role": "assistant", "content": text})
        ids = [self.id() for _ in range(self.dice.choice((0, 1, 1, 2)))]
        items += [
            {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"} for id in ids
        ]
        return items + [
            {"type": "function_call_output", "call_id": id, "output": "o"}
            for id in self.results(ids)
        ]
