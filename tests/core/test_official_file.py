"""Random conversations through DeepSeek's own file, where it can be had.

The file of DeepSeek-V4.1-Flash-1017 is inside the wheel of ftllm 1.9.0, with a few lines of ftllm's
own. `make test-official` fetches the wheel. The file is taken out of it in memory, checked by its
SHA-256, and run; it is never stored. Without the wheel these tests are skipped.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import re
import types
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import dsv4
import encoding_dsv41_1017
from parts import ALL

WHEEL = os.environ.get("FTLLM_WHEEL", "")
SHA_256 = "13231c592e958fb39e2af6001dae69d90e7a36b265702b9b390236fb387599e2"
CONVERSATIONS = range(20_000 if ALL else 3_000)

pytestmark = pytest.mark.skipif(
    not WHEEL, reason="the official file is in a wheel that `make test-official` fetches"
)


@cache
def official() -> Any:
    with zipfile.ZipFile(WHEEL) as wheel:
        lines = wheel.read("ftllm/encoding_dsv41.py").decode().splitlines(keepends=True)
    text = "".join(_without_additions(lines))
    assert hashlib.sha256(text.encode()).hexdigest() == SHA_256
    module = types.ModuleType("official")
    exec(compile(text, "official", "exec"), module.__dict__)
    return module


def _without_additions(lines: list[str]) -> list[str]:
    """ftllm adds a docstring, an argument, and seven lines before a condition."""
    end = next(n for n, line in enumerate(lines) if n and '"""' in line)
    lines = lines[end + 2 :]
    at = next(n for n, line in enumerate(lines) if "Only server-recorded output" in line)
    lines = [*lines[:at], lines[at + 7].replace("elif wo_eos", "if wo_eos"), *lines[at + 8 :]]
    return [line for line in lines if not re.match(r"\s*tool_history\b", line)]


class Conversation:
    """Messages and options, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.messages = [self.message() for _ in range(self.random.randrange(1, 8))]
        self.options: dict[str, Any] = {
            "thinking_mode": self.random.choice(["thinking", "thinking", "chat"]),
            "drop_thinking": self.often(0.8),
        }
        if self.often(0.2):
            self.options["reasoning_effort"] = self.random.choice(["low", "max", 33])

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def blocks(self, results: bool) -> list[Any]:
        kinds = ["text", "text", "image_url", "image", "audio", "x"]
        kinds += ["tool_result"] * results
        return [self.block(self.random.choice(kinds)) for _ in range(self.random.randrange(4))]

    def block(self, kind: str) -> dict[str, Any]:
        number = self.random.randrange(99)
        if kind == "tool_result":
            content = self.blocks(results=False) if self.often(0.5) else "r"
            id = self.random.choice(["c1", "c2", "c3", "?"])
            return {"type": kind, "tool_use_id": id, "content": content}
        fields: dict[str, Any] = {
            "text": {"text": self.random.choice(["a", "", "b\n"])},
            "image_url": {"image_url": {"url": f"{number}.png"}},
            "image": {"source": {"type": "base64", "data": f"AA{number}"}},
        }.get(kind, {})
        return {"type": kind, **fields}

    def message(self) -> dict[str, Any]:
        roles = ["system", "user", "user", "assistant", "assistant", "tool", "tool"]
        role = self.random.choice([*roles, "latest_reminder"])
        message: dict[str, Any] = {"role": role}
        results = role == "user"
        listed = self.often(0.35) and role != "latest_reminder"
        message["content"] = self.blocks(results) if listed else self.random.choice("xy") * 2
        if self.often(0.12) and role != "latest_reminder":
            message["content_blocks"] = self.blocks(results)
            # Of what is left out then, or fails there, the project makes something on purpose.
            if not message["content_blocks"] and listed and role != "tool":
                del message["content_blocks"]
        if role == "assistant" and self.often(0.6):
            message["reasoning_content"] = f"thought {self.random.randrange(9)}"
        if role == "assistant" and self.often(0.6):
            ids = self.random.sample(["c1", "c2", "c3"], self.random.randrange(1, 4))
            function = {"name": "f", "arguments": '{"a": 1}'}
            message["tool_calls"] = [{"id": id, "function": function} for id in ids]
        if role == "tool":
            message["tool_call_id"] = self.random.choice(["c1", "c2", "c3"])
        if role == "user" and self.often(0.04):
            message["task"] = self.random.choice(["action", "query", "title"])
        if role in ("user", "system", "tool") and self.often(0.04):
            message["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        return message


def result_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return json.loads(json.dumps(function(*copy.deepcopy(arguments), **options)))
    except Exception:
        return "refused"


def test_prompts_and_images_of_the_module() -> None:
    for seed in CONVERSATIONS:
        case = Conversation(seed)
        options = {**case.options, "return_multi_modal_data": True}
        expected = result_of(official().encode_messages, case.messages, **options)
        found = result_of(encoding_dsv41_1017.encode_messages, case.messages, **options)
        assert found == expected, (seed, case.messages, case.options)


def test_prompts_of_the_native_encoder() -> None:
    for seed in CONVERSATIONS:
        case = Conversation(seed)
        expected = result_of(official().encode_messages, case.messages, **case.options)
        if expected != "refused":
            prompt = dsv4.encode(
                case.messages,
                thinking=case.options["thinking_mode"] == "thinking",
                drop_thinking=case.options["drop_thinking"],
                effort=case.options.get("reasoning_effort"),
                dialect="v4.1-1017",
            )
            assert str(prompt) == expected, (seed, case.messages, case.options)


@pytest.mark.parametrize(
    "name",
    [
        *("merge_tool_messages", "find_last_user_index", "process_image_messages"),
        *("sort_tool_results_by_call_order", "_drop_thinking_messages"),
    ],
)
def test_functions_of_messages(name: str) -> None:
    for seed in CONVERSATIONS:
        messages = Conversation(seed).messages
        expected = result_of(getattr(official(), name), messages)
        assert result_of(getattr(encoding_dsv41_1017, name), messages) == expected, (seed, messages)
