"""The prompts of llama.cpp with its V4 template.

This follows the template, which no package has and which was never run here, and the server's own
preparation of messages, which is held against a real server (`make test-llamacpp`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from dsv4._encode.tools import JSON_ERRORS, to_json
from dsv4._format import tokens
from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE
from dsv4._format.texts import RESPONSE_FORMAT
from dsv4.errors import short_repr
from dsv4.profiles.server_requests import (
    BLANK_LINE,
    Object,
    ServerRules,
    ThinkingMode,
    list_at,
    maybe_list,
    maybe_object,
    messages_of,
    object_at,
    one_of,
    served_dialect,
    server_refusal,
    text_at,
)

RULES = ServerRules(
    roles=("system", "developer", "user", "assistant", "tool", "latest_reminder"),
    efforts=None,
    thinking_switches=("thinking", "enable_thinking"),
    separator="\n",
    result_separator="\n",
)
# The efforts that write something; any other writes nothing.
EFFORTS = ("high", "max")
FORMATS = ("text", "json_object", "json_schema")
_INTEGERS = range(-(2**63), 2**63)


def render(body: Object, dialect: str) -> str:
    if dialect != "v4":
        problem = f"found {short_repr(dialect)}, expected v4: llama.cpp has no other template"
        raise server_refusal("dialect", problem)
    arguments = maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs")
    written = mode(body, dialect)
    messages = [_message(message, path) for message, path in messages_of(body)]
    schemas = [
        _schema(t, f"tools[{n}]") for n, t in enumerate(maybe_list(body.get("tools"), "tools"))
    ]
    front = _front(messages, schemas, body)
    others = [m for m in messages if m["role"] not in ("system", "latest_reminder")]
    keeps = not arguments.get("drop_thinking", True) or bool(schemas)
    continued = bool(messages) and messages[-1]["role"] == "assistant"
    turns = _turns(others, written.thinking, keeps, continued)
    return "".join([tokens.BOS, written.effort, front, *turns])


def mode(body: Object, dialect: str) -> ThinkingMode:
    arguments = maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs")
    effort = arguments.get("reasoning_effort", body.get("reasoning_effort"))
    thinking = _thinking(arguments, body.get("reasoning_effort"))
    shown = thinking and isinstance(effort, str) and effort in EFFORTS
    return ThinkingMode(thinking, served_dialect("v4").efforts[effort] if shown else "")


def _thinking(arguments: Object, effort: object) -> bool:
    return next(iter(RULES.switches(arguments)), effort != "none")


# Before the first turn.


def _front(messages: Sequence[Object], schemas: Sequence[str], body: Object) -> str:
    """Every system text, then the tools and the format, each after a blank line if not first."""
    texts = [BLANK_LINE.join(m["content"] for m in messages if m["role"] == "system")]
    if schemas:
        dialect = served_dialect("v4")
        texts.append(dialect.tools_open + "\n".join(schemas) + dialect.tools_close)
    schema = _format(body.get("response_format"))
    if schema is not None:
        texts.append(RESPONSE_FORMAT + _json(schema))
    return BLANK_LINE.join(text for text in texts if text)


def _format(given: object) -> object:
    """The schema that the answer must follow. None: any text."""
    if given is None:
        return None
    fields = object_at(given, "response_format")
    kind = one_of(fields.get("type"), FORMATS, "response_format.type")
    if kind == "text":
        return None
    if kind == "json_schema":
        fields = object_at(fields.get("json_schema"), "response_format.json_schema")
    return fields.get("schema") or {}


def _schema(tool: object, path: str) -> str:
    function = object_at(object_at(tool, path).get("function"), f"{path}.function")
    return _json(
        {
            "name": text_at(function.get("name"), f"{path}.function.name"),
            "description": text_at(function.get("description", ""), f"{path}.function.description"),
            "parameters": function.get("parameters", {}),
        }
    )


# Messages.


def _message(message: Object, path: str) -> Object:
    role = RULES.role(message.get("role"), f"{path}.role")
    read: Object = {
        "role": "system" if role == "developer" else role,
        "content": _content(message.get("content"), f"{path}.content"),
        "tool_call_id": _id(message.get("tool_call_id")),
    }
    if role == "assistant":
        reasoning = message.get("reasoning_content", "")
        read["reasoning"] = text_at(reasoning, f"{path}.reasoning_content")
        calls = maybe_list(message.get("tool_calls"), f"{path}.tool_calls")
        read["calls"] = [_call(c, f"{path}.tool_calls[{n}]") for n, c in enumerate(calls)]
    return read


def _content(content: object, path: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for n, part in enumerate(list_at(content, path)):
        one_of(object_at(part, f"{path}[{n}]").get("type"), ("text",), f"{path}[{n}].type")
        texts.append(text_at(part.get("text"), f"{path}[{n}].text"))
    return RULES.separator.join(texts)


def _id(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _call(call: object, path: str) -> Object:
    fields = object_at(call, path)
    function = object_at(fields.get("function"), f"{path}.function")
    name = text_at(function.get("name"), f"{path}.function.name")
    arguments, path = function.get("arguments"), f"{path}.function.arguments"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise server_refusal(path, f"found {short_repr(arguments)}: {error}") from None
    return {"id": _id(fields.get("id")), "name": name, "arguments": object_at(arguments, path)}


# Turns.


def _turns(
    messages: Sequence[Object], thinking: bool, keeps: bool, continued: bool
) -> Iterator[str]:
    asking = [n for n, m in enumerate(messages) if m["role"] in ("user", "tool")]
    last = asking[-1] if asking else -1
    keeps = keeps or any(message["role"] == "tool" for message in messages)
    calls: list[Object] = []
    index = 0
    for is_answer, run in groupby(messages, key=lambda m: m["role"] == "assistant"):
        listed = list(run)
        if not is_answer:
            yield tokens.USER + BLANK_LINE.join(map(_block, _sorted(listed, calls)))
        for n, message in enumerate(listed if is_answer else (), index):
            calls = message["calls"] or calls
            open_end = continued and n == len(messages) - 1
            yield _answer(message, thinking and (keeps or n > last), open_end)
        index += len(listed)
    if not continued:
        yield tokens.ASSISTANT + (tokens.THINK_START if thinking else tokens.THINK_END)


def _sorted(blocks: list[Object], calls: list[Object]) -> list[Object]:
    """Results in the order of their calls, all else where it stands."""
    order = {call["id"]: n for n, call in enumerate(calls)}
    results = [block for block in blocks if block["role"] == "tool"]
    ordered = iter(sorted(results, key=lambda block: order.get(block["tool_call_id"], 0)))
    return [next(ordered) if block["role"] == "tool" else block for block in blocks]


def _block(message: Object) -> str:
    text = str(message["content"])
    return text if message["role"] == "user" else tokens.RESULT_START + text + tokens.RESULT_END


def _answer(message: Object, shown: bool, continued: bool) -> str:
    """An answer with its own header. The last one is left open, to be gone on with."""
    text, reasoning = str(message["content"]), str(message["reasoning"])
    if continued:
        if not reasoning:
            return tokens.ASSISTANT + tokens.THINK_END + text
        opened = tokens.ASSISTANT + tokens.THINK_START + reasoning
        return opened + tokens.THINK_END + text if text else opened
    thought = tokens.THINK_START + reasoning if shown else ""
    answer = tokens.ASSISTANT + thought + tokens.THINK_END + text
    return answer + _calls(message["calls"]) + tokens.EOS


def _calls(calls: Sequence[Object]) -> str:
    if not calls:
        return ""
    tags = served_dialect("v4").tags
    written = (
        f"{tags.invoke_open}{call['name']}{NAME_END}"
        + "\n".join(
            f"{tags.parameter_open}{key}{_typed(value)}{tags.parameter_close}"
            for key, value in call["arguments"].items()
        )
        + tags.invoke_close
        for call in calls
    )
    return tags.block_open + "\n".join(written) + tags.block_close


def _typed(value: object) -> str:
    return STRING_TRUE + value if isinstance(value, str) else STRING_FALSE + _json(value)


def _json(value: object) -> str:
    """JSON with the numbers of a C++ stream."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_json(k)}: {_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_json, value)) + "]"
    try:
        if isinstance(value, float) or (isinstance(value, int) and value not in _INTEGERS):
            return f"{value:g}"
        return to_json(value)
    except OverflowError:
        problem = f"found {short_repr(value)}, expected a number that a float can hold"
        raise server_refusal("request", problem) from None
    except JSON_ERRORS as error:
        raise server_refusal(
            "request", f"found {short_repr(value)}, expected JSON: {error}"
        ) from None
