"""The prompts of SGLang 0.5.23: deepseek-recipe, behind SGLang's own reading of the request."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dsv4._format import tokens
from dsv4.errors import short_repr
from dsv4.profiles import recipe_prompts, recipe_request
from dsv4.profiles import server_requests as server
from dsv4.profiles.recipe_schemas import check_schema
from dsv4.profiles.server_requests import Object, ServerRules, ThinkingMode, server_refusal

RULES = ServerRules(
    roles=("system", "developer", "user", "assistant", "tool", "latest_reminder"),
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"),
    thinking_switches=("thinking",),
)
HIGHEST_NUMBER = 0.99
# The body arrives as Python objects, so an integer beyond 64 bits is an error.
_AS_OBJECTS = recipe_request.RecipeRules(big_integers=False)


def render(body: Object, dialect: str) -> str:
    body = _with_effort(body)
    modes = mode(body, dialect)
    rewritten: Object = {
        "messages": list(_messages(body)),
        "tools": _tools(body),
        "response_format": _response_format(body.get("response_format")),
        "thinking": {"type": "enabled" if modes.thinking else "disabled"},
    }
    effort = body.get("reasoning_effort")
    if isinstance(effort, str) and effort != "none":
        rewritten["reasoning_effort"] = effort
    conversation = recipe_request.read_recipe_request(
        rewritten, recipe_prompts.has_images(dialect), _AS_OBJECTS
    )
    prompt = recipe_prompts.PROMPTS[dialect](conversation)
    if modes.effort and not isinstance(effort, str):
        prompt = prompt.replace(server.served_dialect(dialect).efforts["high"], modes.effort, 1)
    return _with_task(prompt, body.get("task"), conversation)


def mode(body: Object, dialect: str) -> ThinkingMode:
    body = _with_effort(body)
    effort = body.get("reasoning_effort")
    if effort is None or isinstance(effort, str):
        RULES.effort(body)
        level: str | int = recipe_request.EFFORTS[effort]
    else:
        level = _number(effort, dialect)
    return server.thinking_mode(_thinking(body), level, dialect)


def _with_effort(body: Object) -> Object:
    """The request with its effort in one place: the one in `reasoning` wins, and a text may hold a
    number."""
    own = body.get("reasoning")
    given = own if isinstance(own, dict) else {}
    effort = given.get("effort")
    if effort is None:
        effort = given.get("reasoning_effort")
    if effort is None:
        effort = body.get("reasoning_effort")
    if isinstance(effort, str) and effort not in (RULES.efforts or ()):
        try:
            effort = float(effort)
        except ValueError:
            raise server.unexpected(
                effort, f"one of {', '.join(RULES.efforts or ())}, or a number", "reasoning_effort"
            ) from None
    if effort is body.get("reasoning_effort"):
        return body
    return {**body, "reasoning_effort": effort}


_ON = ("1", "true", "yes", "y", "on")


def _is_enabled(body: Object) -> bool:
    """Whether `reasoning` switches thinking on; it cannot switch it off."""
    own = body.get("reasoning")
    if not isinstance(own, dict):
        return False
    enabled = own.get("enabled")
    enabled = own.get("enable", False) if enabled is None else enabled
    return enabled.strip().lower() in _ON if isinstance(enabled, str) else bool(enabled)


def _number(effort: object, dialect: str) -> int:
    """An effort from 0 to 0.99, as V4.1 counts."""
    number = effort if isinstance(effort, (int, float)) and not isinstance(effort, bool) else -1
    if dialect == "v4.1" and 0 <= number <= HIGHEST_NUMBER:
        return max(1, round(100 * float(number)))
    where = "" if dialect == "v4" else f" or a number from 0 to {HIGHEST_NUMBER}"
    raise server.unexpected(
        effort, f"one of {', '.join(RULES.efforts or ())}{where}", "reasoning_effort"
    )


def _thinking(body: Object) -> bool:
    """Whether the model thinks: only if `chat_template_kwargs`, `reasoning` or an effort asks."""
    options, effort = body.get("chat_template_kwargs"), body.get("reasoning_effort")
    thinks = _is_enabled(body) if effort is None else effort != "none"
    if (thinks or effort is not None) and not isinstance(options, dict):
        options = None
    arguments = server.maybe_object(options, "chat_template_kwargs")
    return next(iter(RULES.switches(arguments)), thinks)


def _tools(body: Object) -> list[Object]:
    choice, listed = body.get("tool_choice"), server.maybe_list(body.get("tools"), "tools")
    wanted = server.named_choice(choice)
    if choice == "required" and not listed:
        raise server_refusal("tool_choice", "found required without tools, expected some")
    for n, tool in enumerate(listed):  # also those that are not shown
        fields = server.object_at(tool, f"tools[{n}]")
        function = server.object_at(fields.get("function"), f"tools[{n}].function")
        if function.get("parameters") is not None:
            check_schema(function["parameters"], f"tools[{n}].function.parameters")
    if choice == "none":
        return []
    tools = [
        _fields_without_nulls({"type": "function", **server.object_at(t, "tools")}) for t in listed
    ]
    if wanted is None:
        return tools
    names = [server.object_at(tool.get("function"), "tools").get("name") for tool in tools]
    server.check_chosen(wanted, names)
    return [tool for tool, name in zip(tools, names, strict=True) if name == wanted]


def _response_format(value: object) -> object:
    """The response format without nulls. A schema must have a name."""
    if not isinstance(value, dict):
        return value
    schema = value.get("json_schema")
    if value.get("type") == "json_schema" and isinstance(schema, dict):
        server.text_at(schema.get("name"), "response_format.json_schema.name")
    return _fields_without_nulls(value)


def _fields_without_nulls(value: Object) -> Object:
    """An object whose own fields, and those of the objects right inside, are not null."""
    return {
        key: {k: v for k, v in item.items() if v is not None} if isinstance(item, dict) else item
        for key, item in value.items()
        if item is not None
    }


def _messages(body: Object) -> Iterator[Object]:
    listed = [_message(message, path) for message, path in server.messages_of(body)]
    last = listed[-1] if listed else {}
    if last.get("role") == "assistant":
        if body.get("continue_final_message"):
            last = {key: value for key, value in last.items() if key != "tool_calls"}
            listed[-1] = {**last, "prefix": True}
        elif isinstance(last.get("content"), str):
            listed[-1] = {"role": "user", "content": last["content"]}
    yield from listed


def _message(message: Object, path: str) -> Object:
    role = server.text_at(message.get("role"), f"{path}.role")
    role = RULES.role(role if role == "user" else role.lower(), f"{path}.role")
    content = message.get("content")
    if content is None and role != "user":
        content = ""
    read: Object = {"role": "system" if role == "developer" else role, "content": content}
    if role == "assistant":
        reasoning = RULES.reasoning(message)
        read["reasoning_content"] = server.maybe_text(reasoning, f"{path}.reasoning_content")
        if message.get("prefix") is not None:
            read["prefix"] = server.flag_at(message["prefix"], f"{path}.prefix")
        if message.get("tool_calls"):
            calls = server.list_at(message["tool_calls"], f"{path}.tool_calls")
            read["tool_calls"] = [_call(c, f"{path}.tool_calls[{n}]") for n, c in enumerate(calls)]
    elif role == "tool":
        read["tool_call_id"] = message.get("tool_call_id")
    return read


def _call(call: object, path: str) -> Object:
    fields = server.object_at(call, path)
    function = server.object_at(fields.get("function"), f"{path}.function")
    if "arguments" not in function:
        raise server_refusal(f"{path}.function", "found no arguments, expected some")
    arguments, place = function["arguments"], f"{path}.function.arguments"
    if not isinstance(arguments, str):
        arguments = _compact(
            None if arguments is None else server.object_at(arguments, place), place
        )
    return {"type": "function", **fields, "function": {**function, "arguments": arguments}}


def _compact(value: object, path: str) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise server_refusal(path, f"found {short_repr(value)}: {error}") from None


def _with_task(prompt: str, task: object, conversation: recipe_request.RecipeConversation) -> str:
    """The prompt with the token of a task: `action` follows the header, any other replaces it."""
    if task is None:
        return prompt
    token = tokens.TASK_TOKENS[server.one_of(task, tuple(tokens.TASK_TOKENS), "task")]
    opening = tokens.THINK_START if conversation.thinking else tokens.THINK_END
    header = tokens.ASSISTANT + opening
    return prompt + token if task == "action" else prompt.removesuffix(header) + token
