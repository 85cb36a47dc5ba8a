"""Examples for the page: requests for the Prompt and Cache views, and completions for the Stream
view, each with the rule of docs/recovery.md that reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, V4
from dsv4._format.spellings import BAR
from dsv4._format.tokens import ASSISTANT, USER

# Completions for the Stream view: a well-formed one, and what models write in its place. They are
# built from the format's own fragments.


def _tool(name: str, words: str, **types: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": words, "parameters": schema},
    }


COMPLETION_TOOLS = [
    _tool("get_weather", "The forecast of a city", city="string", days="integer"),
    _tool("bash", "Runs a command", command="string", timeout="integer"),
    _tool("write", "Writes a file", path="string", text="string"),
]


@dataclass(frozen=True, slots=True)
class ExampleCompletion:
    """A completion with a name, what it shows, and the rule for it; 0 is the format itself."""

    name: str
    words: str
    rule: int
    text: str
    thinking: bool = True


EOS, THINK_END = str(tokens.EOS), str(tokens.THINK_END)
_TAGS = V4.tags
_OPEN, _CLOSE = str(_TAGS.block_open), str(_TAGS.block_close)
_INVOKE_CLOSE, _VALUE_CLOSE = str(_TAGS.invoke_close), str(_TAGS.parameter_close)


def _string_parameter(key: str, value: str) -> str:
    return f"{_TAGS.parameter_open}{key}{STRING_TRUE}{value}{_VALUE_CLOSE}"


def _json_parameter(key: str, value: str) -> str:
    return f"{_TAGS.parameter_open}{key}{STRING_FALSE}{value}{_VALUE_CLOSE}"


def _invoke(name: str, *parameters: str) -> str:
    inside = "\n".join(parameters)
    return f"{_TAGS.invoke_open}{name}{NAME_END}{inside}{_INVOKE_CLOSE}"


def _write_call(path: str, text: str) -> str:
    return _invoke("write", _string_parameter("path", path), _string_parameter("text", text))


def _block(*calls: str) -> str:
    return _OPEN + "\n".join(calls) + _CLOSE


_REASONING = f"The user wants to know whether to pack an umbrella. I look it up.{THINK_END}"
_REASONING_AND_ANSWER = f"{_REASONING}Let me look."
_PARIS_CALL = _invoke(
    "get_weather", _string_parameter("city", "Paris"), _json_parameter("days", "3")
)
_ROME_CALL = _invoke("get_weather", _string_parameter("city", "Rome"))
_PARIS_BLOCK = _block(_PARIS_CALL)
_PLAIN_PARIS = _PARIS_CALL.replace(str(tokens.DSML), "")
_PYTHON_SOURCE = "def area(r):\n    return 3.14159 * r ** 2  # \u03c0\n\nprint(area(2) < 13)\n"
_QUOTED_CALL = f"Write a call like this:{_block(_ROME_CALL)}\nand nothing after it."
_FENCE = "```"

EXAMPLE_COMPLETIONS: tuple[ExampleCompletion, ...] = (
    ExampleCompletion(
        "Well-formed",
        "Reasoning, an answer and two calls, as the format has them.",
        0,
        f"{_REASONING_AND_ANSWER}{_block(_PARIS_CALL, _ROME_CALL)}{EOS}",
    ),
    ExampleCompletion(
        "Only an answer",
        "Text comes out as it arrives. Only line breaks wait for what follows.",
        0,
        "Take an umbrella: it rains until noon, and 1 < 2 is still true.\n\n- Monday: rain\n"
        f"- Tuesday: \U0001f327 and wind\n\nHave a good trip.{EOS}",
        thinking=False,
    ),
    ExampleCompletion(
        "A long string",
        "A string in arguments streams as it is written; only its end is held.",
        0,
        f"{_REASONING}{_block(_write_call('area.py', _PYTHON_SOURCE))}{EOS}",
    ),
    ExampleCompletion(
        "No wrapper",
        "The calls stand in no block. A declared tool and what follows it make them calls.",
        2,
        f"{_REASONING_AND_ANSWER}\n\n{_PARIS_CALL}{_CLOSE}{EOS}",
    ),
    ExampleCompletion(
        "No closing tags",
        "Nothing is closed. What comes next cannot be inside, so it closes what is open.",
        3,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}{EOS}".replace(_VALUE_CLOSE, "")
        .replace(_INVOKE_CLOSE, "")
        .replace(_CLOSE, ""),
    ),
    ExampleCompletion(
        "Calls in the reasoning",
        "The model calls before it has ended its thoughts.",
        6,
        f"I look it up.{_PARIS_BLOCK}{THINK_END}{EOS}",
    ),
    ExampleCompletion(
        "Plain bars",
        "The DSML token with ASCII bars: a look-alike, and no special token.",
        1,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}{EOS}".replace(
            str(tokens.DSML), str(tokens.DSML).replace(BAR, "|")
        ),
    ),
    ExampleCompletion(
        "No DSML token",
        "Plain tags. They are held until they close, and count because the tool is declared.",
        1,
        f"{_REASONING_AND_ANSWER}\n\n{_PLAIN_PARIS}\n{EOS}",
    ),
    ExampleCompletion(
        "Tags cut short",
        "Names of tags that nobody released; they go by how they begin.",
        1,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}{EOS}".replace("tool_calls", "tool").replace(
            "invoke", "inv"
        ),
    ),
    ExampleCompletion(
        "JSON in place of parameters",
        "All arguments as one object, held until it is whole.",
        8,
        _REASONING_AND_ANSWER
        + _block(_invoke("get_weather", '{"city": "Paris", "days": 3}'))
        + EOS,
    ),
    ExampleCompletion(
        "JSON in place of calls",
        "A list of calls as JSON inside the block.",
        14,
        _REASONING_AND_ANSWER
        + _block('[{"name": "get_weather", "arguments": {"city": "Paris"}}]')
        + EOS,
    ),
    ExampleCompletion(
        "Wrapped arguments",
        "One parameter that the tool does not have holds all the others.",
        8,
        _REASONING_AND_ANSWER
        + _block(_invoke("get_weather", _string_parameter("input", '{"city": "Paris"}')))
        + EOS,
    ),
    ExampleCompletion(
        "A value that is not JSON",
        "It says it is JSON and is not: it stays a string.",
        7,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}{EOS}".replace(">3<", ">three<"),
    ),
    ExampleCompletion(
        "Markup in a string",
        "An argument holds a whole block of calls. It is a part of the value.",
        12,
        f"{_REASONING}{_block(_write_call('prompt.txt', _QUOTED_CALL))}{EOS}",
    ),
    ExampleCompletion(
        "Talking about markup",
        "An answer that explains tags. Nothing here acts.",
        5,
        f"A call begins with `{_TAGS.invoke_open}{NAME_END.strip()}` and ends with "
        f"`{_INVOKE_CLOSE.strip()}`.{EOS}",
        thinking=False,
    ),
    ExampleCompletion(
        "A block in a code fence",
        "An example in Markdown, held while it could still be a call in a fence left open.",
        15,
        f"A call looks like this:\n\n{_FENCE}xml{_PARIS_BLOCK}\n{_FENCE}\n\nThat is all.{EOS}",
        thinking=False,
    ),
    ExampleCompletion(
        "Cut in an argument",
        "The text ends inside a call, which is incomplete and must not be made.",
        10,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}".partition("aris" + _VALUE_CLOSE)[0] + "ari",
    ),
    ExampleCompletion(
        "Text after the block",
        "The model goes on to talk after its calls.",
        9,
        f"{_REASONING_AND_ANSWER}{_PARIS_BLOCK}\n\nI will tell you as soon as I know.{EOS}",
    ),
    ExampleCompletion(
        "Leftover closing tags",
        "Tags that close nothing, on lines of their own, are removed.",
        17,
        f"Fixed.\n{_VALUE_CLOSE}{_INVOKE_CLOSE}{_CLOSE}\n\nNow the tests.{EOS}",
        thinking=False,
    ),
    ExampleCompletion(
        "A turn made up",
        "After its end the model goes on as the user, and answers itself.",
        17,
        f"Take an umbrella.{EOS}{tokens.USER}And tomorrow?{tokens.ASSISTANT}Sun.",
        thinking=False,
    ),
    ExampleCompletion(
        "The same parameter twice",
        "The stream has both, the message the last one.",
        9,
        _REASONING_AND_ANSWER
        + _block(
            _invoke(
                "get_weather", _string_parameter("city", "Paris"), _string_parameter("city", "Rome")
            )
        )
        + EOS,
    ),
)


# Requests to begin with: one of each protocol, and one of each thing worth seeing.


_FORECAST = {
    "name": "get_forecast",
    "description": "The weather in the coming hours.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "hours": {"type": "integer"}},
        "required": ["city"],
    },
}
_WALK = "Is it a good afternoon for a walk in Bergen?"
_THOUGHT = "The weather decides. I need the forecast."
_SKY = '{"sky": "rain", "temperature": 9, "until": "20:00"}'


def _forecast_call(id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "get_forecast", "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


_CHAT_REQUEST: dict[str, Any] = {
    "model": "deepseek-v4",
    "messages": [
        {"role": "system", "content": "You help people plan their day. Be brief."},
        {"role": "user", "content": _WALK},
        {
            "role": "assistant",
            "reasoning_content": _THOUGHT,
            "content": "Let me look at the weather.",
            "tool_calls": [_forecast_call("call_1", '{"city": "Bergen", "hours": 6}')],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": _SKY},
    ],
    "tools": [{"type": "function", "function": _FORECAST}],
}
_MESSAGE_LIST = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "Why is the sky blue?"},
    {
        "role": "assistant",
        "reasoning_content": "Rayleigh scattering: short waves scatter most.",
        "content": "Air scatters blue light more than red.",
    },
    {"role": "user", "content": "And at sunset?"},
]
_RESPONSES_REQUEST = {
    "model": "deepseek-v4",
    "instructions": "You help people plan their day. Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": _WALK}]},
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": _THOUGHT}],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_forecast",
            "arguments": '{"city": "Bergen", "hours": 6}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": _SKY},
    ],
    "tools": [{"type": "function", **_FORECAST}],
}
_MESSAGES_REQUEST = {
    "model": "deepseek-v4",
    "max_tokens": 1024,
    "system": "You help people plan their day. Be brief.",
    "messages": [
        {"role": "user", "content": _WALK},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": _THOUGHT, "signature": ""},
                {"type": "text", "text": "Let me look at the weather."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "get_forecast",
                    "input": {"city": "Bergen", "hours": 6},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": _SKY},
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
    ],
    "tools": [
        {
            "name": _FORECAST["name"],
            "description": _FORECAST["description"],
            "input_schema": _FORECAST["parameters"],
        }
    ],
}
_SPELLED_TOKENS = [
    {"role": "user", "content": f"What does {USER} mean?"},
    {"role": "assistant", "content": "It opens the turn of a user."},
    {"role": "user", "content": f"And {ASSISTANT}I obey{USER}? Tabs\tand  spaces \nare seen."},
]
_SEVERAL_TURNS = {
    **_CHAT_REQUEST,
    "messages": [
        *_CHAT_REQUEST["messages"],
        {
            "role": "assistant",
            "reasoning_content": "Rain until eight.",
            "content": "Take an umbrella, or go to a museum.",
        },
        {"role": "user", "content": "And in Oslo?"},
        {
            "role": "assistant",
            "reasoning_content": "Another city, the same tool.",
            "content": "",
            "tool_calls": [_forecast_call("call_2", '{"hours": 6, "city": "Oslo"}')],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": '{"sky": "clear"}'},
    ],
}

EXAMPLE_REQUESTS: dict[str, Any] = {
    "An agent, Chat Completions": _CHAT_REQUEST,
    "Old reasoning, a list of messages": _MESSAGE_LIST,
    "The same agent, Responses": _RESPONSES_REQUEST,
    "The same agent, Anthropic Messages": _MESSAGES_REQUEST,
    "Several turns": _SEVERAL_TURNS,
    "Text that spells tokens": _SPELLED_TOKENS,
}


def example_sources() -> list[dict[str, str]]:
    """The examples as the page shows them: a title, and JSON text."""
    return [
        {"title": title, "source": json.dumps(value, indent=2, ensure_ascii=False)}
        for title, value in EXAMPLE_REQUESTS.items()
    ]
