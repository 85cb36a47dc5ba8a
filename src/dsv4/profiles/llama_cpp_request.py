"""A request as llama.cpp's server reads it, before its template sees it.

Comparisons with real servers (`make test-llamacpp`) showed what it takes and what it refuses. It
reads every field of every message, whatever the role. If a field of the request itself has the
wrong type, it mostly acts as if the field were absent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dsv4._encode.tools import JSON_ERRORS, to_json
from dsv4.errors import short_repr
from dsv4.profiles import server_requests as server
from dsv4.profiles.server_requests import Object, ServerRules, server_refusal

RULES = ServerRules(
    roles=None,
    efforts=None,
    thinking_switches=("thinking", "enable_thinking"),
    separator="\n",
)
FORMATS = ("", "text", "json_object", "json_schema")
_UNSIGNED = 2**64
_SIGNED = range(-(2**63), 2**63)
_BOM = "\ufeff"


@dataclass(frozen=True)
class LlamaRelease:
    """The differences between releases of llama.cpp.

    - `any_object`: the schema that is written for an answer that may be any object, as items.
    - `continues_calls`: whether a last answer with calls is continued, without the calls.
    - `python_json`: whether JSON in arguments is read as Python reads it. Then `NaN` is a number,
      an integer beyond 63 bits a float, half of a surrogate pair a text, and null is refused.
    """

    any_object: tuple[tuple[str, str], ...]
    continues_calls: bool
    python_json: bool


# The recorded prompts of August come from the template, run by Python. The server of that month
# (xllamacpp 2026.8.10566) wrote the same, except for JSON that only Python allows.
AUGUST_2026 = LlamaRelease((), continues_calls=True, python_json=True)
OCTOBER_2026 = LlamaRelease((("type", "object"),), continues_calls=False, python_json=False)


@dataclass(frozen=True)
class LlamaCall:
    id: str
    name: str
    arguments: Object


@dataclass(frozen=True)
class LlamaMessage:
    """A message. `texts` are the parts of its content, which may be empty."""

    role: str
    texts: tuple[str, ...]
    reasoning: str
    calls: tuple[LlamaCall, ...]
    result_of: str

    @property
    def text(self) -> str:
        return joined(self.texts, RULES.separator)


@dataclass(frozen=True)
class LlamaRequest:
    """The input of the template. `continued` is a last answer that the model continues."""

    messages: tuple[LlamaMessage, ...]
    continued: LlamaMessage | None
    asks: bool
    tools: tuple[Object, ...]
    schema: Object | None
    options: Object = field(default_factory=dict)


def joined(texts: Sequence[str], separator: str) -> str:
    """Texts with a separator between them; empty texts at the start are dropped."""
    whole = ""
    for text in texts:
        whole += separator + text if whole else text
    return whole


def read_request(body: Object, release: LlamaRelease) -> LlamaRequest:
    """The request as this release reads it. Raises `EncodeError` if it is refused."""
    _check_text(body)
    options = server.template_options(body)
    thinks = options.get("enable_thinking")
    if isinstance(thinks, str):
        raise server.unexpected(thinks, "true or false", "chat_template_kwargs.enable_thinking")
    messages = [_message(message, path, release) for message, path in server.messages_of(body)]
    asks = body.get("add_generation_prompt") is not False
    _check_end(body, messages, asks, release)
    continued = messages.pop() if messages and messages[-1].role == "assistant" else None
    return LlamaRequest(
        tuple(messages),
        continued,
        asks,
        tuple(_tools(body, release)),
        _schema_of_answer(body, release),
        options,
    )


def _check_text(body: Object) -> None:
    """Refuse values that JSON cannot hold, such as half of a surrogate pair."""
    try:
        to_json(body).encode()
    except JSON_ERRORS as error:
        raise server_refusal("request", f"found what no JSON can hold: {error}") from None


def _check_end(
    body: Object, messages: Sequence[LlamaMessage], asks: bool, release: LlamaRelease
) -> None:
    """Refuse a last answer that cannot be continued: one with calls or after another answer."""
    going_on = body.get("continue_final_message")
    if going_on not in (None, False):
        if asks:
            problem = "found it with add_generation_prompt, expected one of the two"
        else:
            problem = f"found {short_repr(going_on)}, which this profile does not cover"
        raise server_refusal("continue_final_message", problem)
    last = len(messages) - 1
    if last < 0 or messages[last].role != "assistant":
        return
    if messages[last].calls and not release.continues_calls:
        problem = "found calls in a last answer, expected one that can be gone on with"
        raise server_refusal(f"messages[{last}].tool_calls", problem)
    if last and messages[last - 1].role == "assistant":
        raise server_refusal(f"messages[{last}]", "found a second answer at the end, expected one")


# Messages.


def _message(message: Object, path: str, release: LlamaRelease) -> LlamaMessage:
    role = RULES.role(message.get("role"), f"{path}.role")
    _check_presence(message, role, path)
    _field(message, "name", path)  # checked, but never in a prompt
    return LlamaMessage(
        role="system" if role == "developer" else role,
        texts=tuple(_texts(message.get("content"), f"{path}.content")),
        reasoning=_field(message, "reasoning_content", path),
        calls=tuple(_calls(message.get("tool_calls"), f"{path}.tool_calls", role, release)),
        result_of=_field(message, "tool_call_id", path),
    )


def _field(message: Object, name: str, path: str) -> str:
    """Text, empty if the field is absent. Null does not count as absent."""
    return server.text_at(message.get(name, ""), f"{path}.{name}")


def _check_presence(message: Object, role: str, path: str) -> None:
    allowed = ("content", "tool_calls") if role == "assistant" else ("content",)
    if not any(name in message for name in allowed):
        problem = f"found no {' and no '.join(allowed)}, expected it, if only null"
        raise server_refusal(path, problem)


def _texts(content: object, path: str) -> Iterator[str]:
    if isinstance(content, str):
        if content:
            yield content
    elif content is not None:
        for n, part in enumerate(server.list_at(content, path)):
            server.one_of(
                server.object_at(part, f"{path}[{n}]").get("type"), ("text",), f"{path}[{n}].type"
            )
            yield server.text_at(part.get("text"), f"{path}[{n}].text")


def _calls(value: object, path: str, role: str, release: LlamaRelease) -> Iterator[LlamaCall]:
    """The calls of a message. An object is read as the list of its values. Only an assistant's
    calls are written, so only their arguments must be objects."""
    values = list(value.values()) if isinstance(value, dict) else server.maybe_list(value, path)
    for n, each in enumerate(values):
        call = _call(each, f"{path}[{n}]", release)
        if role == "assistant":
            server.object_at(call.arguments, f"{path}[{n}].function.arguments")
        yield call


def _call(call: object, path: str, release: LlamaRelease) -> LlamaCall:
    fields, function, name = server.function_of(call, path)
    if "arguments" not in function:
        raise server_refusal(f"{path}.function", "found no arguments, expected some")
    arguments, place = function["arguments"], f"{path}.function.arguments"
    if isinstance(arguments, str):
        arguments = _read_json(arguments, place, release)
    if arguments is None and not release.python_json:
        arguments = {}
    stored = _as_held(arguments, place, release)
    return LlamaCall(server.text_at(fields.get("id", ""), f"{path}.id"), name, stored)


# Tools and the format of the answer.


def _tools(body: Object, release: LlamaRelease) -> Iterator[Object]:
    choice = body.get("tool_choice")
    if isinstance(choice, str):
        server.one_of(choice, server.TOOL_CHOICES, "tool_choice")
    for n, tool in enumerate(server.maybe_list(body.get("tools"), "tools")):
        path = f"tools[{n}]"
        _, function, name = server.function_of(tool, path)
        parameters, place = function.get("parameters", {}), f"{path}.function.parameters"
        description = function.get("description", "")
        yield {
            "name": name,
            "description": server.text_at(description, f"{path}.function.description"),
            "parameters": _as_held(parameters, place, release),
        }


def _schema_of_answer(body: Object, release: LlamaRelease) -> Object | None:
    """The schema that the answer must follow; None for any text."""
    schema, path = _schema_in(body)
    if not isinstance(schema, dict):
        return None
    return _as_held(schema, path, release) or dict(release.any_object)


def _schema_in(body: Object) -> tuple[object, str]:
    """The schema that a request asks for, if any, and its place."""
    own = body.get("json_schema")
    value = body.get("response_format")
    fields = value if isinstance(value, dict) else {}
    kind = fields.get("type")
    name = server.one_of(kind, FORMATS, "response_format.type") if isinstance(kind, str) else ""
    if name == "json_object":
        schema = fields.get("schema", own if own is not None else {})
        return {} if schema is None else schema, "response_format.schema"
    if name == "json_schema":
        wrapper = fields.get("json_schema")
        schema = wrapper.get("schema") if isinstance(wrapper, dict) else None
        return {} if schema is None else schema, "response_format.json_schema.schema"
    return own, "json_schema"


# JSON.


def _read_json(text: str, path: str, release: LlamaRelease) -> Any:
    def refuse(problem: object) -> NoReturn:
        raise server_refusal(path, f"found {short_repr(text)}: {problem}")

    try:
        if release.python_json:
            return json.loads(text)
        value = json.loads(text.removeprefix(_BOM), parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        refuse(error)
    return value


def _as_held(value: Any, path: str, release: LlamaRelease) -> Any:
    """A value with its numbers as the server's JSON library holds them."""
    if isinstance(value, dict):
        return {key: _as_held(item, f"{path}.{key}", release) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_held(item, f"{path}[{n}]", release) for n, item in enumerate(value)]
    if isinstance(value, float) and not release.python_json and not math.isfinite(value):
        raise _no_float(value, path)
    if isinstance(value, int) and value not in _SIGNED:
        return _beyond_integers(value, path, release)
    return value


def _beyond_integers(value: int, path: str, release: LlamaRelease) -> int | float:
    if not release.python_json and 0 <= value < _UNSIGNED:
        return value - _UNSIGNED
    try:
        return float(value)
    except OverflowError:
        raise _no_float(value, path) from None


def _no_float(value: object, path: str) -> Exception:
    return server.unexpected(value, "a number that a float can hold", path)
