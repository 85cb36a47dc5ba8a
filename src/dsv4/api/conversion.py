"""A request of one protocol, written as a request of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dsv4.api.api_request import check_end
from dsv4.api.chat_requests import asked_in as asked_in_chat
from dsv4.api.chat_requests import say as say_in_chat
from dsv4.api.errors import ApiError, wrong
from dsv4.api.messages_requests import asked_in as asked_in_messages
from dsv4.api.messages_requests import say as say_in_messages
from dsv4.api.neutral_request import (
    FLAT,
    INPUT_SCHEMA,
    Asked,
    Declared,
    Message,
    Tool,
    ToolKey,
    ToolName,
    refuse_doubles,
    shown_description,
)
from dsv4.api.request_fields import body_of
from dsv4.api.responses_requests import asked_in as asked_in_responses
from dsv4.api.responses_requests import say as say_in_responses

# Functions alone: for chat servers, which know neither namespaces nor custom tools.
#
# Tools get the names, words and parameters that the model is shown in a dialect without
# namespaces.


def flat(asked: Asked) -> Asked:
    """What is asked for, with functions in the place of all other tools. Raises `ApiError` where
    two would have one name."""
    tools = tuple(map(_tool, asked.declared.tools))
    refuse_doubles((tool.name, tool.path) for tool in tools)
    choice = asked.choice
    named = None if choice.tool is None else _key(choice.tool)
    allowed = None if choice.allowed is None else frozenset(map(_key, choice.allowed))
    changed = {
        "declared": Declared(tools, asked.declared.ignored),
        "choice": replace(choice, tool=named, allowed=allowed),
        "messages": list(map(_message, asked.messages)),
    }
    return Asked({**vars(asked), **changed})


def with_flat_names(names: Mapping[str, ToolName]) -> dict[str, ToolName]:
    """The way back, from those names too."""
    return {**{_name((tool.namespace, tool.name)): tool for tool in names.values()}, **names}


def _name(key: ToolKey) -> str:
    namespace, name = key
    return name if namespace is None else f"{namespace}{FLAT}{name}"


def _key(key: ToolKey) -> ToolKey:
    return None, _name(key)


def _tool(tool: Tool) -> Tool:
    parameters = INPUT_SCHEMA if tool.kind == "custom" else tool.parameters
    description = shown_description(tool)
    return Tool(_name(tool.key), tool.path, description, parameters, strict=tool.strict)


def _message(message: Message) -> Message:
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": list(map(_call, message["tool_calls"]))}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name = _name((call.get("namespace"), function["name"]))
    return {"id": call["id"], "type": "function", "function": {**function, "name": name}}


# A request of one protocol, written as a request of another.


Protocol: TypeAlias = Literal["chat", "responses", "messages"]

READ: dict[str, Callable[[dict[str, Any]], Asked]] = {
    "chat": asked_in_chat,
    "responses": asked_in_responses,
    "messages": asked_in_messages,
}
SAY: dict[str, Callable[[Asked], dict[str, Any]]] = {
    "chat": say_in_chat,
    "responses": say_in_responses,
    "messages": say_in_messages,
}


def for_chat_server(body: dict[str, Any], source: Protocol) -> dict[str, Any]:
    """A request in Chat Completions, with functions in the place of all other tools."""
    if source == "chat":
        return body
    asked = READ[source](body)
    check_end(asked)
    return say_in_chat(flat(asked))


def convert(body: Any, source: Protocol, target: Protocol) -> dict[str, Any]:
    """A request, written in another protocol.

    `body` is bytes of JSON, or what they say, which is not changed; `source` is the protocol it is
    in, `target` the one to write: `"chat"`, `"responses"` or `"messages"`. Read in its own
    protocol, the result gives the same prompt. Raises `ApiError` for a body that cannot be read,
    and where the prompt depends on something that the other protocol cannot say.
    """
    for name, protocol in (("source", source), ("target", target)):
        if protocol not in READ:
            raise wrong(protocol, f"one of {', '.join(READ)}", name)
    try:
        asked = READ[source](body_of(body))
    except RecursionError:
        raise ApiError("nested too deep", path="body") from None
    check_end(asked)
    return SAY[target](asked)
