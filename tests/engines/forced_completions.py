"""Calls and answers that a request forces, each written by the model as it should be."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from protocol_clients import chat_reading, posted, together
from vllm_process import Scripts

import dsv4

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["text", "count"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("note", "search")
]
SCHEMA: dict[str, Any] = TOOLS[0]["function"]["parameters"]
KINDS = ("required", "named", "schema")
HOW_MANY = 50


def arguments(number: int) -> dict[str, Any]:
    texts = ("ls -la", "é 🛰", 'a "b" <c>', "two\nlines", "", "x" * 40, "{}", "</b>", "1", "a｜b")
    return {"text": f"{texts[number % len(texts)]}", "count": number}


class Forced:
    """One request, and the completion that its script has."""

    def __init__(self, kind: str, thinking: bool, number: int, scripts: Scripts) -> None:
        self.arguments = arguments(number)
        self._kind, self._thinking = kind, thinking
        said = scripts.add(f"forced-{kind}-{thinking:d}-{number}", scripts.ids(self._completion()))
        switch = {"type": "enabled" if thinking else "disabled"}
        self.body: dict[str, Any] = {
            "messages": [{"role": "user", "content": f"json {said}"}],
            "thinking": switch,
            "max_tokens": 200,
            "temperature": 0,
        }
        if kind == "schema":
            form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
            self.body["response_format"] = form
        else:
            named = {"type": "function", "function": {"name": "search"}}
            self.body |= {"tools": TOOLS, "tool_choice": named if kind == "named" else "required"}

    def _completion(self) -> str:
        text = json.dumps(self.arguments, ensure_ascii=False)
        turn: dict[str, Any] = {"role": "assistant", "content": ""}
        if self._kind == "schema":
            turn["content"] = text
        else:
            name = "search" if self._kind == "named" else "note"
            turn["tool_calls"] = [{"function": {"name": name, "arguments": text}}]
        if self._thinking:
            turn["reasoning_content"] = "Let me see."
        question = [{"role": "user", "content": "x"}]
        choice: Any = {"required": "required", "named": "search"}.get(self._kind, "auto")
        # Without thinking the prompt opens the call, and the model goes on from there.
        options: dict[str, Any] = {"tools": TOOLS, "thinking": self._thinking}
        before = dsv4.encode(question, tool_choice=choice, **options)
        whole = dsv4.encode([*question, turn], **options)
        assert str(whole).startswith(str(before))
        return str(whole)[len(str(before)) :]

    async def problem(self, client: aiohttp.ClientSession, url: str) -> str | None:
        """What is wrong with the answer; None if nothing is."""
        try:
            read = chat_reading(await posted(client, f"{url}/v1/chat/completions", self.body))
        except Exception as error:
            return f"{self.body}: {error!r}"
        if self._kind == "schema":
            right = json.loads(read.content or "null") == self.arguments
        else:
            name = "search" if self._kind == "named" else "note"
            right = read.calls == [(name, self.arguments)] and read.finish == "tool_calls"
        right = right and read.reasoning == ("Let me see." if self._thinking else "")
        return None if right else f"{self.body}: {read}"


def problems(kind: str, thinking: bool, url: str, scripts: Scripts) -> list[str]:
    """What is wrong with answers of a gateway whose model writes what requests force."""
    forced = [Forced(kind, thinking, number, scripts) for number in range(HOW_MANY)]
    found = together(lambda client, each: each.problem(client, url), forced)
    return [problem for problem in found if problem]
