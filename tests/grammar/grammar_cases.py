"""Completions as the encoder writes them, spoiled ones, and an independent judge of both."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import jsonschema
from random_tools import Maker

import dsv4
from dsv4.grammar import Relaxation

USER = {"role": "user", "content": "Go on."}
EOS = "<｜end▁of▁sentence｜>"


@dataclass(frozen=True)
class Case:
    """Declared tools and a completion."""

    tools: list[Any]
    message: dict[str, Any]
    thinking: bool
    dialect: str
    tool_choice: Any = "auto"

    @property
    def request(self) -> dsv4.Request:
        return dsv4.Request(
            [USER],
            tools=self.tools,
            tool_choice=self.tool_choice,
            thinking=self.thinking,
            dialect=self.dialect,
        )

    @property
    def text(self) -> str:
        """The completion, with its EOS."""
        whole, before = self._prompt([USER, self.message]), self._prompt([USER])
        assert str(whole).startswith(str(before))
        return str(whole)[len(str(before)) :]

    def _prompt(self, messages: list[Any]) -> dsv4.Prompt:
        options = {"tools": self.tools, "thinking": self.thinking, "dialect": self.dialect}
        return dsv4.encode(messages, **options)


def random_case(seed: int, dialects: tuple[str, ...] = ("v4", "v4.1")) -> Case:
    maker = Maker(seed)
    random = maker.random
    made = [maker.tool(f"tool_{n}" if n else "t") for n in range(random.randint(1, 4))]
    called = random.choices(made, k=random.choice([0, 1, 1, 1, 2, 3]))
    calls = [
        {"function": {"name": function(tool)["name"], "arguments": json.dumps(arguments)}}
        for tool, arguments in called
    ]
    thinking = random.random() < 0.6
    content = random.choice(["", "", "Let me see.", maker.text()])
    message: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": calls}
    if thinking:
        message["reasoning_content"] = maker.text()
    choice: Any = "auto"
    if calls and thinking and random.random() < 0.3:
        choice = random.choice(["required", calls[0]["function"]["name"]])
        if choice != "required":
            message["tool_calls"] = [c for c in calls if c["function"]["name"] == choice]
    return Case([tool for tool, _ in made], message, thinking, random.choice(dialects), choice)


def function(tool: dict[str, Any]) -> dict[str, Any]:
    return tool.get("function", tool)  # type: ignore[no-any-return]


# The judge.


def fits(text: str, case: Case, relaxed: Iterable[Relaxation]) -> bool:
    """Whether a completion parses strictly, names declared tools, and fits what is enforced."""
    try:
        message = dsv4.parse(text, thinking=case.thinking, dialect=case.dialect, strict=True)
    except dsv4.ParseError:
        return False
    enforced = enforced_tools(case.tools, relaxed)
    forced = case.tool_choice not in ("auto", "none")
    if forced and not message.tool_calls:
        return False
    return all(_call_fits(call, enforced, case.tool_choice) for call in message.tool_calls)


def _call_fits(call: Any, tools: list[Any], choice: Any) -> bool:
    schemas = {function(tool)["name"]: function(tool).get("parameters") for tool in tools}
    named = choice not in ("auto", "required") and call.name != choice
    if call.name not in schemas or named:
        return False
    try:
        value = json.loads(call.arguments)
    except ValueError:
        return False
    return jsonschema.Draft202012Validator(schemas[call.name]).is_valid(value)


def enforced_tools(tools: list[Any], relaxed: Iterable[Relaxation]) -> list[Any]:
    """The tools without the keywords that the grammar names as relaxed, and closed where a schema
    that declares members does not say whether others may come."""
    tools = copy.deepcopy(tools)
    for relaxation in relaxed:
        assert relaxation.location[0] == "tools"
        found: Any = tools
        for step in relaxation.location[1:-1]:
            found = found[step]
        if relaxation.keyword != "additionalProperties":
            found.pop(relaxation.keyword, None)
    return [_closed(tool) for tool in tools]


def _closed(schema: Any, inside_all_of: bool = False) -> Any:
    if isinstance(schema, list):
        return [_closed(item, inside_all_of) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _closed(value, key == "allOf") for key, value in schema.items() if key != "enum"}
    made |= {key: schema[key] for key in ("enum", "const") if key in schema}
    declares = isinstance(schema.get("properties"), dict)
    if declares and "additionalProperties" not in schema and not inside_all_of:
        made["additionalProperties"] = False
    return made


# Spoiling.


def spoiled(case: Case, random: Random) -> tuple[str, str]:
    """A completion with one thing wrong, and what that is."""
    text = case.text.removesuffix(EOS)
    dsml = "<｜DSML｜" if case.dialect == "v4" else "<｜DSML｜ "
    close = dsml.replace("<", "</")
    kinds = {
        "text after": lambda: text + "\nmore" if close in text else text + "</think>",
        "a token as text": lambda: _insert(text, random, ("<think>", "</think>", "｜DSML｜", EOS)),
        "wrong tool": lambda: text.replace('invoke name="t', 'invoke name="u', 1),
        "wrong parameter": lambda: text.replace('parameter name="', 'parameter name="no_', 1),
        "missing close": lambda: _without_one(text, close + "parameter>", random),
        "missing invoke close": lambda: _without_one(text, close + "invoke>\n", random),
        "missing block close": lambda: text[: text.rfind(close)] if close in text else text,
        "wrong type": lambda: _other_type(text, random),
        "missing parameter": lambda: _without_parameter(text, random),
        "twice": lambda: _parameter_twice(text, random),
        "broken value": lambda: _broken_value(text, random),
        "cut": lambda: text[: random.randrange(len(text))] if text else text,
    }
    kind = random.choice(list(kinds))
    return kinds[kind](), kind


def _insert(text: str, random: Random, tokens: tuple[str, ...]) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(tokens) + text[at:]


def _places(text: str, part: str) -> list[int]:
    return [n for n in range(len(text)) if text.startswith(part, n)]


def _without_one(text: str, part: str, random: Random) -> str:
    places = _places(text, part)
    at = random.choice(places) if places else 0
    return text[:at] + text[at + len(part) :] if places else text


def _parameters(text: str) -> list[tuple[int, int]]:
    """Where the parameters' lines begin and end."""
    starts = sorted(
        _places(text, "<｜DSML｜parameter name=") + _places(text, "<｜DSML｜ parameter name=")
    )
    spans = []
    for start in starts:
        end = min((e for e in (text.find("parameter>\n", start + 12),) if e >= 0), default=-1)
        if end >= 0:
            spans.append((start, end + len("parameter>\n")))
    return spans


def _without_parameter(text: str, random: Random) -> str:
    spans = _parameters(text)
    if not spans:
        return text
    start, end = random.choice(spans)
    return text[:start] + text[end:]


def _parameter_twice(text: str, random: Random) -> str:
    spans = _parameters(text)
    if not spans:
        return text
    start, end = random.choice(spans)
    return text[:end] + text[start:end] + text[end:]


def _other_type(text: str, random: Random) -> str:
    pairs = ('string="true"', 'string="false"')
    one, other = random.sample(pairs, 2)
    places = _places(text, one)
    if not places:
        return text
    at = random.choice(places)
    return text[:at] + other + text[at + len(one) :]


def _broken_value(text: str, random: Random) -> str:
    places = _places(text, 'string="false">')
    if not places:
        return text
    at = random.choice(places) + len('string="false">')
    return text[:at] + random.choice(["-", "[", '"x', "0", "{", "9", "nul"]) + text[at:]
