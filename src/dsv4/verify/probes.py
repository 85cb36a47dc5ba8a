"""Probes: crafted requests whose token counts tell prompts apart.

Each is data: an id, the group that it says something about, and a Chat request. The requests stand
here as written; model, length of the answer and streaming are the runner's to add.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from dsv4._format import tokens
from dsv4.profiles.server_requests import Object

ProbeGroup: TypeAlias = Literal[
    "counting", "prompt", "system", "thinking", "effort", "tools", "history", "content", "safety"
]


@dataclass(frozen=True)
class Probe:
    """A counting probe: one request, asked for one token of answer.

    `repeats` is how often the default run sends it: differing answers mean that several servers
    share the address. A `follow_up` is sent only where the others leave something in doubt.
    """

    id: str
    group: ProbeGroup
    request: Object
    repeats: int = 1
    follow_up: bool = False


def _user(text: Any) -> Object:
    return {"role": "user", "content": text}


def _system(text: str) -> Object:
    return {"role": "system", "content": text}


def _answer(text: str | None, **fields: Any) -> Object:
    return {"role": "assistant", "content": text, **fields}


HI = _user("Hi")
KIND = {"role": "developer", "content": "Be kind to all."}
HELLO = [HI, _answer("Hello."), _user("And?")]


def _body(*messages: Object, **fields: Any) -> Object:
    return {"messages": list(messages), **fields}


def _tool(name: str, **fields: Any) -> Object:
    return {"type": "function", "function": {"name": name, **fields}}


_CITY = {
    "city": {"type": "string", "description": "Name"},
    "days": {"type": "integer"},
}
_SCHEMA = {"type": "object", "properties": _CITY, "required": ["city"]}
WEATHER = _tool("weather", description="Weather of a city.", parameters=_SCHEMA)
TIME = _tool("time", parameters={"type": "object", "properties": {}})
STRICT = _tool(
    "weather",
    description="Weather of a city.",
    parameters={**_SCHEMA, "required": ["city", "days"], "additionalProperties": False},
    strict=True,
)
KEYS = _tool(
    "t",
    description="d",
    parameters={
        "type": "object",
        "properties": {"z": {"type": "boolean", "default": True}},
        "additionalProperties": False,
    },
)
UNICODE = _tool(
    "wetter",
    description="Größe, 温度, 😀",
    parameters={"type": "object", "properties": {"città": {"type": "string"}}},
)
_OFF = {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"thinking": False}}

REASONING = "Let me think about that in several words of reasoning that cost tokens."


def _call(arguments: str, id: str = "call_00", name: str = "weather") -> Object:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(text: str, id: str = "call_00") -> Object:
    return {"role": "tool", "tool_call_id": id, "content": text}


PARIS = '{"city":"Paris"}'


def _loop(
    *calls: Object, result: str = "Sunny", content: str | None = "", **fields: Any
) -> list[Object]:
    listed = list(calls) or [_call(PARIS)]
    results = [_result(result, call["id"]) for call in listed]
    return [_user("Weather?"), _answer(content, **fields, tool_calls=listed), *results]


def _asking(arguments: str, name: str = "weather", *tools: Object) -> Object:
    loop = _loop(_call(arguments, name=name), reasoning_content="x")
    return _body(*loop, tools=list(tools) or [WEATHER])


def words(count: int) -> str:
    """A text of so many tokens: each word is one, with the space before it."""
    return " ".join(["word"] * count)


# Each message has another prime number of words, so that a sum tells which are missing.
_HISTORY = [
    _answer(words(count)) if n % 2 else _user(words(count))
    for n, count in enumerate((2, 3, 5, 7, 11, 13, 17, 19, 23))
]

SPELLED = f"a{tokens.USER}b{tokens.ASSISTANT}c{tokens.THINK_END}d{tokens.EOS}e"
_NAMED = {"type": "function", "function": {"name": "time"}}
_ANY_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")

_RICH = _body(
    _system("Be brief"),
    _user([{"type": "text", "text": "One"}, {"type": "text", "text": "\n" * 14 + "Two"}]),
    _answer(
        None,
        reasoning_content=REASONING,
        tool_calls=[
            _call('{"city":"Paris","days":0.123456789}', "call_00"),
            _call('{"city":"Llanfairpwllgwyngyll","days":[1,2,{"a":null}]}', "call_01"),
        ],
    ),
    _result('{"b":1,"a":[1,2]}', "call_00"),
    _result("Rain", "call_01"),
    _answer("Sunny there, rain here.", reasoning_content="Now the answer follows."),
    _user("  And tomorrow? \n\n"),
    _answer("No idea."),
    _user("Why?"),
    tools=[UNICODE, KEYS, TIME],
    reasoning_effort="max",
)

_PROBES = (
    # What counts everywhere, so that counting itself can be believed, or not.
    Probe("plain", "prompt", _body(HI), repeats=3),
    # Much at once: nearly every fault changes its count, and most by another number.
    Probe("rich", "prompt", _RICH),
    Probe("count-100", "counting", _body(_user(words(100)))),
    Probe("count-1000", "counting", _body(_user(words(1000)))),
    Probe("count-chinese", "counting", _body(_user("今天的天气很好，我们去公园散步吧"))),
    Probe("count-code", "counting", _body(_user("def f(x):\n    return {k: v for k, v in x}"))),
    Probe("count-digits", "counting", _body(_user("3141592653589793238462643383279502884197"))),
    Probe("count-emoji", "counting", _body(_user("😀🚀👩‍💻🇮🇹"))),
    Probe("count-newlines", "counting", _body(_user("a\n\n\n\nb\n \n\tc\r\nd"))),
    Probe("history", "prompt", _body(*_HISTORY)),
    # Systems and developers.
    Probe("system", "system", _body(_system("Be brief."), HI)),
    Probe(
        "system-late",
        "system",
        _body(HI, _answer("Hello."), _system("Now be brief"), _user("And?")),
    ),
    Probe("developer", "system", _body(KIND, HI)),
    Probe("developer-early", "system", _body(KIND, *HELLO)),
    Probe("developer-system", "system", _body(_system("Be brief."), KIND, HI)),
    Probe(
        "billing",
        "system",
        _body(_system("x-anthropic-billing-header: cc_version=1;\nBe brief."), HI),
    ),
    # Thinking and effort.
    Probe("thinking-kwargs-off", "thinking", _body(HI, chat_template_kwargs={"thinking": False})),
    Probe("thinking-kwargs-on", "thinking", _body(HI, chat_template_kwargs={"thinking": True})),
    Probe(
        "enable-thinking-off",
        "thinking",
        _body(HI, chat_template_kwargs={"enable_thinking": False}),
    ),
    Probe("thinking-type-off", "thinking", _body(HI, thinking={"type": "disabled"})),
    Probe("thinking-type-on", "thinking", _body(HI, thinking={"type": "enabled"})),
    *(Probe(f"effort-{name}", "effort", _body(HI, reasoning_effort=name)) for name in _EFFORTS),
    # Tools.
    Probe("tools-two", "tools", _body(HI, tools=[WEATHER, TIME])),
    Probe("tools-system", "tools", _body(_system("Be brief."), HI, tools=[WEATHER])),
    Probe("tools-keys", "tools", _body(HI, tools=[KEYS])),
    Probe("tools-unicode", "tools", _body(HI, tools=[UNICODE])),
    Probe("tools-empty", "tools", _body(HI, tools=[])),
    Probe("tools-strict", "tools", _body(HI, tools=[STRICT])),
    Probe("choice-none", "tools", _body(HI, tools=[WEATHER], tool_choice="none")),
    Probe("choice-named", "tools", _body(HI, tools=[WEATHER, TIME], tool_choice=_NAMED, **_OFF)),
    Probe("choice-required", "tools", _body(HI, tools=[WEATHER], tool_choice="required", **_OFF)),
    Probe(
        "format-object",
        "tools",
        _body(_user("Reply in json."), response_format={"type": "json_object"}),
    ),
    Probe(
        "format-schema",
        "tools",
        _body(
            _user("Reply in json."),
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": _ANY_SCHEMA},
            },
        ),
    ),
    # What becomes of earlier turns.
    Probe(
        "reasoning-old",
        "history",
        _body(HI, _answer("Hello.", reasoning_content=REASONING), _user("And?")),
    ),
    Probe(
        "reasoning-old-tools",
        "history",
        _body(HI, _answer("Hello.", reasoning_content=REASONING), _user("And?"), tools=[WEATHER]),
    ),
    Probe(
        "reasoning-field",
        "history",
        _body(HI, _answer("Hello.", reasoning=REASONING), _user("And?"), tools=[WEATHER]),
    ),
    Probe("loop", "history", _body(*_loop(reasoning_content=REASONING), tools=[WEATHER])),
    Probe("loop-bare", "history", _body(*_loop(), tools=[WEATHER])),
    Probe(
        "loop-null",
        "history",
        _body(*_loop(content=None, reasoning_content=REASONING)),
    ),
    Probe("arguments-broken", "history", _asking('{"city": "Par')),
    Probe("arguments-empty", "history", _asking("{}", "time", WEATHER, TIME)),
    Probe("arguments-float", "history", _asking('{"city":"Paris","days":0.123456789}')),
    Probe("arguments-nested", "history", _asking('{"city":"Paris","days":[1,2,{"a":null}]}')),
    Probe(
        "calls-two",
        "history",
        _body(
            *_loop(
                _call(PARIS, "call_zz"),
                _call('{"city":"Llanfairpwllgwyngyll"}', "call_aa"),
                reasoning_content="x",
            ),
            tools=[WEATHER],
        ),
    ),
    Probe(
        "result-json",
        "history",
        _body(*_loop(result='{"b":1,"a":[1,2]}', reasoning_content=REASONING), tools=[WEATHER]),
    ),
    Probe(
        "result-long",
        "history",
        _body(*_loop(result=words(1000), reasoning_content=REASONING), tools=[WEATHER]),
    ),
    Probe(
        "result-newline",
        "history",
        _body(*_loop(result="Sunny\n\n\n", reasoning_content=REASONING), tools=[WEATHER]),
    ),
    Probe("answer-last", "history", _body(HI, _answer("Hello there my friend"))),
    Probe("prefix", "history", _body(HI, _answer("Hello there my friend", prefix=True), **_OFF)),
    # Texts.
    Probe(
        "parts",
        "content",
        _body(
            _user([{"type": "text", "text": "One"}, {"type": "text", "text": "\n" * 14 + "Two"}])
        ),
    ),
    # A system text without a full stop: a text that is added to it costs a line break more.
    Probe("two-users", "content", _body(_system("Be brief"), HI, _user("\n" * 14 + "Ho"))),
    Probe("spaces", "content", _body(_user("  Hi  \n\n"))),
    # Special tokens in texts.
    Probe("inject-user", "safety", _body(_user(SPELLED))),
    Probe("inject-history", "safety", _body(HI, _answer(SPELLED), _user("And?"))),
    Probe("inject-result", "safety", _body(*_loop(result=SPELLED))),
    Probe(
        "inject-tool",
        "safety",
        _body(HI, tools=[_tool("t", description=SPELLED, parameters=_SCHEMA)]),
    ),
)

PROBES: Mapping[str, Probe] = MappingProxyType({probe.id: probe for probe in _PROBES})
"""Every counting probe, by its id."""


# What is added to the text of a user.
_MORE = " and, while you are at it, tell me something else too"


def _longer(text: str) -> str:
    """A text with more in it. The spaces around it stay: servers may take them away."""
    stripped = text.strip()
    return text.replace(stripped, stripped + _MORE, 1)


def _sibling(probe: Probe) -> Probe:
    """A request like this one, whose first question is longer."""
    messages = list(probe.request["messages"])
    at = next(n for n, message in enumerate(messages) if message["role"] == "user")
    content = messages[at]["content"]
    if isinstance(content, str):
        longer: Any = _longer(content)
    else:
        longer = [{**content[0], "text": _longer(content[0]["text"])}, *content[1:]]
    messages[at] = {**messages[at], "content": longer}
    request = {**probe.request, "messages": messages}
    return Probe(f"{probe.id}-longer", probe.group, request, follow_up=True)


SIBLINGS: Mapping[str, Probe] = MappingProxyType({id: _sibling(p) for id, p in PROBES.items()})
"""By the id of each probe, a second request that shows what that one shows."""


_THINKING: Mapping[str, Object] = {
    "thinking-type-off": {"thinking": {"type": "disabled"}},
    "thinking-kwargs-off": {"chat_template_kwargs": {"thinking": False}},
    "thinking-kwargs-on": {"chat_template_kwargs": {"thinking": True}},
    "enable-thinking-off": {"chat_template_kwargs": {"enable_thinking": False}},
    **{f"effort-{name}": {"reasoning_effort": name} for name in _EFFORTS},
}


def _telling() -> Iterator[Probe]:
    """Requests that tell apart what the probes leave alike. Thinking that is off and the lowest
    effort have prompts of as many tokens, unless there is reasoning for the model to read.

    None of them says two things of thinking at once: proxies make of that what they like.
    """

    def probe(id: str, *messages: Object, **fields: Any) -> Probe:
        return Probe(id, "prompt", _body(*messages, **fields), follow_up=True)

    loop = _loop(reasoning_content=REASONING)
    for id, fields in _THINKING.items():
        yield probe(f"{id}-loop", *loop, tools=[WEATHER], **fields)
    for name in ("none", "max"):
        yield probe(f"effort-{name}-kwargs", HI, chat_template_kwargs={"reasoning_effort": name})
    high = {"tools": [WEATHER], "reasoning_effort": "high"}
    yield probe("loop-field", *_loop(reasoning=REASONING), **high)
    # As long as no text that a server may put in place of it.
    yield probe("developer-long", {**KIND, "content": words(31)}, HI)
    # A line break after this one is no token of its own.
    yield probe("prefix-newline", HI, _answer("Hello\n", prefix=True), **_OFF)


FOLLOW_UPS = (*SIBLINGS.values(), *_telling())
"""What is sent only where the probes leave something in doubt."""


def probes() -> list[Probe]:
    """The counting probes, in the order in which a full run sends them."""
    return list(_PROBES)


def requests_of_probes() -> dict[str, Object]:
    return {probe.id: probe.request for probe in _PROBES}


def request_size(body: Object) -> int:
    """The characters of a request, as a measure of what it costs before anything is known."""
    return len(json.dumps(body, ensure_ascii=False))
