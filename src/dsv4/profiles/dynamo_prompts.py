"""The prompts of NVIDIA Dynamo 1.6. Its frontend, in Rust, reads requests in its own way, and then
uses copies of the released encoders. Its rules were found from its prompts and refusals.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dsv4._encode.encode import effort_text, render_conversation
from dsv4._encode.turns import RELEASED
from dsv4.profiles import server_requests as server
from dsv4.profiles.rust_json import checked_json, read_object
from dsv4.profiles.server_requests import Object, ServedDialects, ThinkingMode, server_refusal
from dsv4.types import Effort

RESPONSE_FORMATS = ("text", "json_object", "json_schema")
ROLES = ("developer", "system", "user", "assistant", "tool")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING_TYPES = ("enabled", "disabled", "adaptive")
# The efforts that V4 writes for those of a request; anything else is high.
_V4_EFFORTS: dict[str, Effort] = {"minimal": "low", "low": "low", "max": "max"}
_V4_1_EFFORTS: dict[str, Effort] = {"low": "low", "high": "high", "max": "max"}
# Fields that are added to a schema of arguments if they are missing.
_OBJECT: Object = {"type": "object", "properties": {}}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ENCODING = replace(RELEASED, arguments="text")
DIALECTS: ServedDialects = {
    **server.SERVED_DIALECTS,
    "v4.1": replace(server.V4_1_COPY, image_text_refused=True),
}


def render(body: Object, dialect: str) -> str:
    thinking, effort, drop = _options(body, dialect)
    messages = [_message(message, path, dialect) for message, path in server.messages_of(body)]
    if not messages:
        raise server_refusal("messages", "found none, expected at least one")
    extras = _extras(body)
    if extras:
        messages = server.with_extras(messages, extras, None if dialect == "v4" else 1)
    release = server.served_dialect(dialect, DIALECTS)
    words = effort_text(effort if thinking else None, release, _ENCODING)
    rendered = render_conversation(messages, (), release, _ENCODING, thinking, drop, True, words)
    return "".join(rendered.flat)


# Options.


def mode(body: Object, dialect: str) -> ThinkingMode:
    thinking, effort, _ = _options(body, dialect)
    return server.thinking_mode(thinking, effort, dialect)


def _options(body: Object, dialect: str) -> tuple[bool, Effort, bool]:
    """Whether the model thinks, how hard, and whether old reasoning is dropped."""
    arguments = dict(server.maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs"))
    value = body.get("reasoning_effort")
    if value is not None:
        arguments["reasoning_effort"] = server.one_of(value, EFFORTS, "reasoning_effort")
    thinking = _thinking(body.get("thinking"))
    # An effort overrides a mode, and switches that are not true or false.
    for name in ("thinking", "enable_thinking"):
        switch = arguments.get(name)
        counts = isinstance(switch, bool) or (value is None and switch is not None)
        if thinking is None and counts:
            thinking = server.flag_at(switch, f"chat_template_kwargs.{name}")
    if thinking is None and value is None and arguments.get("thinking_mode") == "chat":
        thinking = False
    effort = arguments.get("reasoning_effort")
    if effort == "none":
        thinking, effort = False, None
    thinks = True if thinking is None else thinking
    drop = arguments.get("drop_thinking", True)
    if dialect == "v4":
        level = _V4_EFFORTS.get(effort, "high") if isinstance(effort, str) else "high"
        return thinks, level, drop is not False
    drops = server.bool_at(drop, "chat_template_kwargs.drop_thinking")
    return thinks, server.v4_1_effort(effort, _V4_1_EFFORTS), drops


def _thinking(value: object) -> bool | None:
    """The meaning of the field `thinking`, which is a flag or has a type."""
    if value is None or isinstance(value, bool):
        return value
    kind = server.object_at(value, "thinking").get("type")
    return server.one_of(kind, THINKING_TYPES, "thinking.type") != "disabled"


# Messages.


def _message(message: Object, path: str, dialect: str) -> Object:
    role = server.one_of(message.get("role"), ROLES, f"{path}.role")
    if dialect == "v4.1" and role == "developer":
        role = "system"
    server.maybe_text(message.get("name"), f"{path}.name")
    if role == "system" and message.get("tools"):
        raise server_refusal(f"{path}.tools", "found tools, expected them beside the messages")
    fields: Object = {"role": role, "content": _content(message, role, f"{path}.content", dialect)}
    if role == "tool":
        fields["tool_call_id"] = server.text_at(message.get("tool_call_id"), f"{path}.tool_call_id")
    if role == "assistant":
        fields["reasoning_content"] = _reasoning(message, path)
        fields["tool_calls"] = list(server.calls_of(message, path, _arguments, "function"))
    return fields


def _content(message: Object, role: str, path: str, dialect: str) -> str | list[Object]:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    parts: list[Object] = []
    for n, part in enumerate(server.list_at(content, path)):
        fields = server.object_at(part, f"{path}[{n}]")
        kind = fields.get("type")
        if role == "assistant" and kind == "refusal" and dialect == "v4":
            server.text_at(fields.get("refusal"), f"{path}[{n}].refusal")
            continue
        if role == "user" and kind == "image_url":
            image = server.object_at(fields.get("image_url"), f"{path}[{n}].image_url")
            server.text_at(image.get("url"), f"{path}[{n}].image_url.url")
            parts.append(fields)
            continue
        server.one_of(kind, ("text",), f"{path}[{n}].type")
        server.text_at(fields.get("text"), f"{path}[{n}].text")
        parts.append(fields)
    return parts if dialect == "v4.1" and parts else "".join(part.get("text", "") for part in parts)


def _reasoning(message: Object, path: str) -> str:
    """The reasoning of an answer, given as one text or several."""
    names = [name for name in ("reasoning_content", "reasoning") if name in message]
    if len(names) > 1:
        raise server_refusal(f"{path}.reasoning", "found both names of the field, expected one")
    name = names[0] if names else "reasoning_content"
    value = message.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    path = f"{path}.{name}"
    return "".join(
        server.text_at(text, f"{path}[{n}]") for n, text in enumerate(server.list_at(value, path))
    )


def _arguments(value: object, path: str) -> object:
    """The arguments as an object, or an empty or blank text."""
    arguments = read_object(value) if isinstance(value, str) and value.strip() else value
    if not isinstance(arguments, (dict, str)):
        raise server.unexpected(value, "a JSON object", path)
    return arguments


# Tools and the response format.


def _extras(body: Object) -> Object:
    extras: Object = {}
    tools = _tools(body)
    if tools:
        extras["tools"] = tools
    if body.get("response_format") is not None:
        extras["response_format"] = _response_format(body["response_format"], "response_format")
    return extras


def _response_format(value: object, path: str) -> Object:
    """The part of a format that is written. Every format is written, also that of plain text."""
    fields = server.object_at(value, path)
    kind = server.one_of(fields.get("type"), RESPONSE_FORMATS, f"{path}.type")
    if kind != "json_schema":
        return {"type": kind}
    path = f"{path}.json_schema"
    named = server.object_at(fields.get("json_schema"), path)
    server.text_at(named.get("name"), f"{path}.name")
    schema = server.object_at(named.get("schema"), f"{path}.schema")
    form = {**named, "schema": checked_json(schema, f"{path}.schema", True)}
    order = ("description", "name", "schema", "strict")
    return {"type": kind, "json_schema": {n: form[n] for n in order if form.get(n) is not None}}


def _tools(body: Object) -> list[Object]:
    value, choice = body.get("tools"), body.get("tool_choice")
    wanted = server.named_choice(choice)
    if value is None:
        server.check_chosen(wanted, ())
        if choice == "required":
            raise server_refusal("tool_choice", "found required without tools, expected some")
        return []
    listed = server.list_at(value, "tools")
    if not listed:
        raise server_refusal("tools", "found an empty list, expected a tool, or no such field")
    tools = [_tool(tool, f"tools[{n}]") for n, tool in enumerate(listed)]
    server.check_chosen(wanted, [tool["function"]["name"] for tool in tools])
    return [] if choice == "none" else tools


def _tool(tool: object, path: str) -> Object:
    _, function, name = server.function_of(tool, path)
    path = f"{path}.function"
    if _NAME.fullmatch(name) is None:
        expected = "letters, digits, underscores and dashes"
        raise server.unexpected(name, expected, f"{path}.name")
    shown: Object = {"name": name}
    if function.get("description") is not None:
        shown["description"] = server.text_at(function["description"], f"{path}.description")
    if function.get("parameters") is not None:
        parameters = server.object_at(function["parameters"], f"{path}.parameters")
        parameters = checked_json(parameters, f"{path}.parameters", True)
        missing = {n: v for n, v in _OBJECT.items() if n not in parameters}
        shown["parameters"] = {**parameters, **missing}
    if function.get("strict") is not None:
        shown["strict"] = server.bool_at(function["strict"], f"{path}.strict")
    shown.setdefault("description", "")
    return {"type": "function", "function": shown}
