"""Random calls of every function of DeepSeek's own file, where it can be had.

Where the official function gives a result, so does ours, and the same one. The exceptions are those
of docs/format.md, section 10: a list where a text belongs, of which the official functions of text
print the Python form, is not generated for them; an argument of a wrong kind may be refused.
"""

from __future__ import annotations

import copy
import inspect
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import encoding_dsv41_1017
from dsv4.errors import Error
from parts import ALL
from test_official_file import Conversation, official, pytestmark  # noqa: F401

ROUNDS = 3_000 if ALL else 150
NAMES = [name for name in encoding_dsv41_1017.__all__ if name != "load_cases"]  # reads files
FUNCTIONS = [name for name in NAMES if callable(getattr(encoding_dsv41_1017, name))]
OF_TEXTS = ("_encode_messages_text", "render_message")

IMAGE = encoding_dsv41_1017.IMAGE_PLACEHOLDER
END = encoding_dsv41_1017.eos_token
PARAMETER, CALL, CALLS_NAME = (
    encoding_dsv41_1017.dsml_token + name
    for name in (
        encoding_dsv41_1017.tool_parameter_tag_name,
        encoding_dsv41_1017.tool_call_tag_name,
        encoding_dsv41_1017.tool_calls_block_name,
    )
)
OPENED = (
    f'>\n<{CALL} name="f">\n<{PARAMETER} name="a" string="true">x</{PARAMETER}>\n</{CALL}>\n'
    f"</{CALLS_NAME}>"
)
BLOCK = f"<{CALLS_NAME}{OPENED}"
TEXTS = ["", " ", "c", "</think>", IMAGE, OPENED, OPENED[:-9], ">", ">\n", "<image>"]
TEXTS += ["<image>a.png</image>", f"{OPENED}{END}"]
# Of these an argument is one now and then, though it should be something else.
ODD = [None, "", [], {}, 0, 1, -1, True, "x", [None], {"a": 1}, 1.5, [{}], [{"role": "x"}]]


class Arguments:
    """Arguments of each name that an official function has, from a seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def choice(self, *values: Any) -> Any:
        return self.random.choice(values)

    def conversation(self) -> Conversation:
        return Conversation(self.random.randrange(10**6))

    def messages(self) -> list[dict[str, Any]]:
        return self.conversation().messages

    def messages_of_text(self) -> list[dict[str, Any]]:
        """Messages whose content is text, most of them merged as the functions of text want."""
        messages = self.messages()
        if self.choice(True, True, False):
            messages = official().merge_tool_messages(messages)
        listed = (
            message for message in messages if not isinstance(message.get("content", ""), str)
        )
        for message in listed:
            message["content"] = "l"
        return messages

    def values(self) -> dict[str, Any]:
        objects = [
            {},
            {"a": 1},
            {"a": "x", "b": None},
            {"é": [1, {"x": True}]},
            {"a": 1.0, "b": "<"},
        ]
        return self.choice(*objects)

    def name(self) -> str:
        return self.choice("f", "ns::g", "a::b::c", "")

    def function(self) -> dict[str, Any]:
        parameters = self.choice({}, {"type": "object", "properties": {"a": {"type": "string"}}})
        space = {"namespace": "fs"} if self.choice(True, False, False) else {}
        return {"name": self.choice("f", "g"), "parameters": parameters, **space}

    def call(self) -> dict[str, Any]:
        function = {"name": self.choice("f", "ns::g"), "arguments": json.dumps(self.values())}
        if self.choice(True, False, False, False):
            function["namespace"] = self.choice("fs", "")
        space = {"namespace": self.choice({"name": "fs"}, "fs")} if self.choice(True, False) else {}
        return {"id": "c1", "type": "function", "function": function, **space}

    def parameters(self) -> dict[str, tuple[str, str]]:
        return {
            name: (value, "true") if isinstance(value, str) else (json.dumps(value), "false")
            for name, value in self.values().items()
        }

    def text(self) -> str:
        if self.choice(True, False):
            return self.random.choice(TEXTS)
        parts = (
            self.choice("r</think>c", "c"),
            self.choice("", f"\n\n{BLOCK}"),
            self.choice(END, ""),
        )
        return "".join(parts)

    def named(self, name: str) -> Any:
        few = range(self.random.randrange(3))
        makers: dict[str, Callable[[], Any]] = {
            "messages": self.messages,
            "msg": lambda: self.random.choice(self.messages()),
            "block": lambda: self.conversation().block(
                self.choice("text", "image", "image_url", "x")
            ),
            "blocks": lambda: self.conversation().blocks(results=True),
            "case": lambda: {
                "messages": self.messages(),
                "thinking_mode": self.choice("chat", None),
            },
            "index": lambda: self.random.randrange(-1, 6),
            "thinking_mode": lambda: self.choice("thinking", "chat"),
            "effort": lambda: self.choice(None, "low", "high", "max", "medium", 50, 1),
            "reasoning_effort": lambda: self.choice(None, "low", "high", "max", 75),
            "tool": self.function,
            "tools": lambda: [{"type": "function", "function": self.function()} for _ in few],
            "tool_call": lambda: {"name": "f", "arguments": json.dumps(self.values())},
            "tool_calls": lambda: [self.call() for _ in few],
            "tool_name": self.name,
            "tool_args": self.parameters,
            "name": self.name,
            "namespace": lambda: self.choice(None, "fs", ""),
            "text": self.text,
            "stop": lambda: [self.choice("<", "</think>", "x"), "c"],
            "value": self.values,
            "context": lambda: self.choice(None, self.messages_of_text()),
            "image_placeholder": lambda: IMAGE,
        }
        return makers.get(name, lambda: self.choice(True, False))()

    def of(self, function: Callable[..., Any], name: str, odd: bool) -> list[Any]:
        given: list[Any] = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is not parameter.empty and self.choice(True, False):
                break
            if parameter.name == "messages" and name in OF_TEXTS:
                given.append(self.messages_of_text())
            else:
                given.append(self.named(parameter.name))
        if odd and given:
            given[self.random.randrange(len(given))] = self.random.choice(ODD)
        return given


def result_of(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """The result as JSON has it, or the error."""
    try:
        return json.loads(json.dumps(function(*copy.deepcopy(arguments))))
    except Exception as error:
        return error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_of_the_function(name: str) -> None:
    theirs, ours = getattr(official(), name), getattr(encoding_dsv41_1017, name)
    results = 0
    for seed in range(ROUNDS):
        arguments = Arguments(f"{name} {seed}").of(theirs, name, odd=False)
        expected = result_of(theirs, arguments)
        if not isinstance(expected, Exception):
            assert result_of(ours, arguments) == expected, (seed, arguments)
            results += 1
    assert results > ROUNDS // 10  # or nothing was compared


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_argument_is_read_alike_or_refused(name: str) -> None:
    theirs, ours = getattr(official(), name), getattr(encoding_dsv41_1017, name)
    for seed in range(ROUNDS):
        arguments = Arguments(f"{name} odd {seed}").of(theirs, name, odd=True)
        expected = result_of(theirs, arguments)
        if not isinstance(expected, Exception):
            found = result_of(ours, arguments)
            assert isinstance(found, Error) or found == expected, (seed, arguments)


def test_values_of_the_module() -> None:
    for name in set(NAMES) - {*FUNCTIONS}:
        assert getattr(encoding_dsv41_1017, name) == getattr(official(), name), name


def test_every_name_of_the_official_file_is_there() -> None:
    own = [
        name
        for name, value in vars(official()).items()
        if not name.startswith("__") and getattr(value, "__module__", "") == "official"
    ]
    assert own
    assert {*own} <= {*encoding_dsv41_1017.__all__}
