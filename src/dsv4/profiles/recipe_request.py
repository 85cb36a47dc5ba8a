"""deepseek-recipe 0.2.0, which the official API is built on: from a request to a conversation, with
the numbers and limits of its JSON library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NoReturn, TypeAlias

from dsv4._encode.tools import to_json
from dsv4._format.texts import BILLING_HEADER, RECIPE_IMAGE, RECIPE_NO_IMAGE
from dsv4.errors import EncodeError, short_repr
from dsv4.profiles import server_requests as server
from dsv4.profiles.recipe_schemas import check_schema, check_strict, strict_parameters
from dsv4.profiles.server_requests import Object, ServerRules, ThinkingMode, server_refusal

# JSON as deepseek-recipe reads and writes it: the numbers and limits of a Rust library.


# Integers outside become floats.
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1
DEEPEST_NESTING = 127


class _NotJson(ValueError):
    """Text that strict JSON does not allow."""


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text holds; None for any other text."""
    try:
        value = _decoder.decode(text)
        return _checked(value, DEEPEST_NESTING) if isinstance(value, dict) else None
    except (ValueError, OverflowError, RecursionError):
        return None


def checked_json(value: object, path: str, big_integers: bool) -> Any:
    """A value of the request's body as it arrives, or an error where it cannot."""
    try:
        return _checked(value, DEEPEST_NESTING, big_integers)
    except (_NotJson, OverflowError, RecursionError) as error:
        raise server_refusal(path, f"found {short_repr(value)}: {error}") from None


def _constant(name: str) -> NoReturn:
    raise _NotJson(f"{name} is no JSON")


def _integer(text: str) -> int | float:
    if text == "-0":
        return -0.0
    # Python reads no more than a few thousand digits, and no float has that many.
    return float(text) if len(text) > 20 else int(text)


_decoder = json.JSONDecoder(parse_constant=_constant, parse_int=_integer)


def _checked(value: object, depth: int, big_integers: bool = True) -> Any:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _number(value, big_integers)
    if isinstance(value, float):
        if not isfinite(value):
            raise _NotJson("a number out of range")
        return value
    if not isinstance(value, (dict, list, tuple)):
        raise _NotJson(f"a value of type {type(value).__name__} is no JSON")
    if not depth:
        raise _NotJson(f"more than {DEEPEST_NESTING} levels of nesting")
    if isinstance(value, dict):
        return {_key(key): _checked(item, depth - 1, big_integers) for key, item in value.items()}
    return [_checked(item, depth - 1, big_integers) for item in value]


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _NotJson(f"the key {short_repr(key)} is no text")
    return _text(key)


def _text(text: str) -> str:
    # A surrogate has no bytes in UTF-8.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _NotJson("a lone surrogate")
    return str.__str__(text)


def _number(value: int, big_integers: bool) -> int | float:
    if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    if not big_integers:
        raise _NotJson("an integer outside the range of 64 bits")
    return float(value)


def v4_json(value: object) -> str:
    """JSON as V4's renderer writes it: as Python does, but for some small floats."""
    if isinstance(value, dict):
        items = (f"{to_json(key)}: {v4_json(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(v4_json, value)) + "]"
    return _v4_float(value) if isinstance(value, float) else to_json(value)


def _v4_float(value: float) -> str:
    text = float.__repr__(value)
    digits, mark, exponent = text.partition("e-0")
    if not mark:
        return text
    if exponent != "5":
        return f"{digits}e-{exponent}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"


# The conversation.


Effort: TypeAlias = Literal["low", "high", "max"]

EFFORTS: dict[str | None, Effort] = {
    **{None: "high", "none": "high"},
    **{"minimal": "low", "low": "low"},
    **{"medium": "high", "high": "high", "xhigh": "high"},
    **{"ultra": "max", "max": "max"},
}
RULES = ServerRules(
    roles=("system", "user", "assistant", "tool", "latest_reminder"),
    efforts=tuple(name for name in EFFORTS if name is not None),
)
THINKING = {"enabled": True, "adaptive": True, "disabled": False}
FORMATS = ("json_object", "json_schema", "regex", "text")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Where the text after a client's billing line begins.
_AFTER_BILLING = re.compile(r"\n|(?=You are)")


@dataclass(frozen=True)
class RecipeCall:
    """A call: its id, the tool's name, and its arguments as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class RecipeMessage:
    """A message, checked. `reasoning` is None where the mode knows none."""

    role: str
    text: str
    reasoning: str | None = None
    calls: tuple[RecipeCall, ...] = ()
    call_id: str = ""
    prefix: bool = False


@dataclass(frozen=True)
class RecipeConversation:
    """What a request comes to, whichever release writes it.

    `schemas` are the tools to show, `format` is the JSON Schema to follow, `json_object` stands for
    any object. `forced` says that a call must come.
    """

    messages: tuple[RecipeMessage, ...]
    thinking: bool
    effort: Effort
    schemas: tuple[Object, ...]
    format: object = None
    json_object: bool = False
    forced: bool = False

    @property
    def continued(self) -> bool:
        """Whether the last message is one to go on with."""
        return self.messages[-1].prefix if self.messages else False


def read_recipe_request(
    body: Object, dialect: str, big_integers: bool = True
) -> RecipeConversation:
    """A request, checked as deepseek-recipe checks it."""
    body = checked_json(body, "request", big_integers)
    thinking, effort = _mode(body)
    schemas, forced = _tools(body, thinking)
    messages = tuple(_messages(body, thinking, dialect))
    _check_results(messages)
    others = tuple(m for m in messages if m.role != "system" or m.text)
    format, json_object = _format(body, others)
    if others and others[-1].prefix:
        _check_prefix(others, bool(body.get("tools")), json_object)
    return RecipeConversation(others, thinking, effort, schemas, format, json_object, forced)


def mode(body: Object, dialect: str) -> ThinkingMode:
    return server.thinking_mode(*_mode(body), dialect)


def _mode(body: Object) -> tuple[bool, Effort]:
    RULES.effort(body)
    effort = body.get("reasoning_effort")
    thinking = effort != "none"
    if body.get("thinking") is not None:
        kind = server.object_at(body["thinking"], "thinking").get("type")
        thinking = THINKING[server.one_of(kind, tuple(THINKING), "thinking.type")]
    return thinking, EFFORTS[effort]


# Tools.


def _tools(body: Object, thinking: bool) -> tuple[tuple[Object, ...], bool]:
    """The schemas to show, and whether one of them must be called."""
    choice = body.get("tool_choice")
    wanted = server.named_choice(choice)
    listed = server.maybe_list(body.get("tools"), "tools")
    functions = [_function(tool, f"tools[{n}]") for n, tool in enumerate(listed)]
    if not functions or choice == "none":
        return (), False
    names = [function["name"] for function in functions]
    if len(set(names)) < len(names):
        raise server.unexpected(names, "different names", "tools")
    forced = wanted is not None or choice == "required"
    if forced and thinking:
        raise server_refusal(
            "tool_choice", f"found {short_repr(choice)}, which needs thinking to be off"
        )
    for n, function in enumerate(functions):
        if not function.get("strict"):
            _check_parameters(function.get("parameters"), f"tools[{n}].function.parameters")
    server.check_chosen(wanted, names)
    shown_tools = {
        f"tools[{n}].function": function
        for n, function in enumerate(functions)
        if wanted in (None, function["name"])
    }
    return tuple(_schemas(shown_tools, body)), forced


def _function(tool: object, path: str) -> Object:
    _, function, name = server.function_of(tool, path)
    if not _NAME.fullmatch(name):
        raise server.unexpected(name, "1 to 128 letters, digits, _ or -", f"{path}.function.name")
    server.maybe_text(function.get("description"), f"{path}.function.description")
    server.maybe_bool(function.get("strict"), f"{path}.function.strict")
    return function


def _check_parameters(parameters: object, path: str) -> None:
    if parameters is None:
        return
    check_schema(parameters, path)
    kind = parameters.get("type") if isinstance(parameters, dict) else None
    if kind != "object":
        raise server.unexpected(kind, '"object"', f"{path}.type")


def _schemas(functions: dict[str, Object], body: Object) -> Iterator[Object]:
    """The functions, by where they stand, as they are shown."""
    strict = [bool(function.get("strict")) for function in functions.values()]
    if any(strict) and not all(strict):
        raise server_refusal("tools", "found strict tools among others, expected one kind")
    if all(strict) and body.get("response_format") is not None:
        raise server.unexpected(
            body["response_format"], "none with strict tools", "response_format"
        )
    for path, function in functions.items():
        parameters = function.get("parameters")
        if function.get("strict"):
            parameters = strict_parameters(parameters, f"{path}.parameters")
        yield {
            "name": function["name"],
            "description": function.get("description") or "",
            "parameters": {} if parameters is None else parameters,
        }


# Messages.


def _messages(body: Object, thinking: bool, dialect: str) -> Iterator[RecipeMessage]:
    listed = list(server.messages_of(body))
    if not listed:
        raise server_refusal("messages", "found none, expected at least one message")
    for n, (message, path) in enumerate(listed):
        role = RULES.role(message.get("role"), f"{path}.role")
        server.maybe_text(message.get("name"), f"{path}.name")
        if role == "assistant":
            yield _assistant(message, path, thinking, dialect, last=n == len(listed) - 1)
        elif role == "latest_reminder":
            yield RecipeMessage(role, server.text_at(message.get("content"), f"{path}.content"))
        else:
            text = _content(message.get("content"), f"{path}.content", dialect)
            call_id = ""
            if role == "system":
                text = _without_billing(text)
            elif role == "tool":
                call_id = server.text_at(message.get("tool_call_id"), f"{path}.tool_call_id")
            yield RecipeMessage(role, text, call_id=call_id)


def _assistant(
    message: Object, path: str, thinking: bool, dialect: str, last: bool
) -> RecipeMessage:
    content = message.get("content")
    calls = tuple(_calls(message.get("tool_calls"), f"{path}.tool_calls"))
    if content is None and not calls:
        raise server_refusal(f"{path}.content", "found nothing, expected text or calls")
    text = "" if content is None else _content(content, f"{path}.content", dialect)
    thought = server.maybe_text(RULES.reasoning(message), f"{path}.reasoning_content") or ""
    prefix = server.maybe_bool(message.get("prefix"), f"{path}.prefix")
    if prefix and not last:
        raise server_refusal(f"{path}.prefix", "found true, expected it only on the last message")
    return RecipeMessage(
        "assistant", text, thought if thinking else None, calls, prefix=bool(prefix)
    )


def _content(content: object, path: str, dialect: str) -> str:
    if isinstance(content, str):
        return content
    parts = server.list_at(content, path)
    texts = (_part(part, f"{path}[{n}]", dialect) for n, part in enumerate(parts))
    return RULES.separator.join(texts)


def _part(part: object, path: str, dialect: str) -> str:
    fields = server.object_at(part, path)
    kind = server.one_of(fields.get("type"), ("text", "image_url"), f"{path}.type")
    if kind == "text":
        return server.text_at(fields.get("text"), f"{path}.text")
    image = server.object_at(fields.get("image_url"), f"{path}.image_url")
    server.text_at(image.get("url"), f"{path}.image_url.url")
    return RECIPE_NO_IMAGE if dialect == "v4" else RECIPE_IMAGE


def _without_billing(text: str) -> str:
    if not text.startswith(BILLING_HEADER):
        return text
    after = _AFTER_BILLING.search(text)
    return text[after.end() :].lstrip() if after else ""


def _calls(calls: object, path: str) -> Iterator[RecipeCall]:
    if calls is None:
        return
    listed = server.list_at(calls, path)
    if not listed:
        raise server_refusal(path, "found an empty list, expected a call, or no such field")
    for n, call in enumerate(listed):
        at = f"{path}[{n}]"
        fields, function, name = server.function_of(call, at)
        arguments = server.text_at(function.get("arguments"), f"{at}.function.arguments")
        yield RecipeCall(server.text_at(fields.get("id"), f"{at}.id"), name, arguments)


# What must fit together.


def _check_results(messages: tuple[RecipeMessage, ...]) -> None:
    """Exactly one result for each call, right after it."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        if message.role == "tool":
            if message.call_id not in waiting:
                problem = f"found {short_repr(message.call_id)}, which is no call that waits"
                raise server_refusal(f"{path}.tool_call_id", problem)
            waiting.remove(message.call_id)
            continue
        if waiting:
            raise _unanswered(waiting, path)
        waiting = {call.id for call in message.calls}
        if len(waiting) < len(message.calls):
            raise server_refusal(f"{path}.tool_calls", "found an id twice, expected different ids")
    if waiting:
        raise _unanswered(waiting, "messages")


def _unanswered(waiting: set[str], path: str) -> EncodeError:
    return server_refusal(
        path, f"expected results for the calls {', '.join(sorted(waiting))} before"
    )


def _format(body: Object, messages: tuple[RecipeMessage, ...]) -> tuple[object, bool]:
    """The schema that the answer must follow, and whether it is any JSON object."""
    value = body.get("response_format")
    if value is None:
        return None, False
    kind = server.one_of(
        server.object_at(value, "response_format").get("type"), FORMATS, "response_format.type"
    )
    if kind == "regex":
        server.text_at(value.get("regex"), "response_format.regex")
    if kind == "json_object":
        if not any("json" in message.text.lower() for message in messages):
            problem = 'expected the word "json" in some message, which json_object asks for'
            raise server_refusal("response_format.type", problem)
        return None, True
    if kind != "json_schema":
        return None, False
    return _schema(server.object_at(value.get("json_schema"), "response_format.json_schema")), False


def _schema(wrapper: Object) -> object:
    path = "response_format.json_schema.schema"
    for field in ("name", "description"):
        server.maybe_text(wrapper.get(field), f"response_format.json_schema.{field}")
    if "schema" not in wrapper:
        raise server_refusal(path, "found nothing, expected a JSON Schema")
    if wrapper.get("strict"):
        check_strict(wrapper["schema"], path)
    else:
        check_schema(wrapper["schema"], path)
    return wrapper["schema"]


def _check_prefix(messages: tuple[RecipeMessage, ...], tools: bool, json_object: bool) -> None:
    """`tools` says whether the request gives any, whatever its `tool_choice` leaves of them."""
    calls = any(message.calls or message.role == "tool" for message in messages)
    if tools or calls or json_object:
        problem = "found true, expected it in a conversation without tools, calls and json_object"
        raise server_refusal(f"messages[{len(messages) - 1}].prefix", problem)
