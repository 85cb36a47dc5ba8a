"""A request of one protocol, written as a request of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dsv4.api.api_request import check_end
from dsv4.api.chat_requests import dump_chat_request as say_in_chat
from dsv4.api.chat_requests import neutral_chat_request as asked_in_chat
from dsv4.api.errors import ApiError, wrong
from dsv4.api.messages_requests import dump_messages_request as say_in_messages
from dsv4.api.messages_requests import neutral_messages_request as asked_in_messages
from dsv4.api.neutral_request import (
    CUSTOM_INPUT_SCHEMA,
    FLAT_SEPARATOR,
    Message,
    NeutralRequest,
    RequestTool,
    RequestTools,
    ToolKey,
    ToolName,
    refuse_duplicate_names,
    tool_description,
)
from dsv4.api.request_fields import json_body
from dsv4.api.responses_requests import dump_responses_request as say_in_responses
from dsv4.api.responses_requests import neutral_responses_request as asked_in_responses

# Functions alone: for chat servers, which know neither namespaces nor custom tools.
#
# Tools get the names, words and parameters that the model is shown in a dialect without
# namespaces.


def with_functions_only(asked: NeutralRequest) -> NeutralRequest:
    """What is asked for, with functions in the place of all other tools. Raises `ApiError` where
    two would have one name."""
    tools = tuple(map(_flat_tool, asked.declared.tools))
    refuse_duplicate_names((tool.name, tool.path) for tool in tools)
    choice = asked.choice
    named = None if choice.tool is None else _flat_key(choice.tool)
    allowed = None if choice.allowed is None else frozenset(map(_flat_key, choice.allowed))
    changed = {
        "declared": RequestTools(tools, asked.declared.ignored),
        "choice": replace(choice, tool=named, allowed=allowed),
        "messages": list(map(_flat_message, asked.messages)),
    }
    return NeutralRequest({**vars(asked), **changed})


def with_flat_names(names: Mapping[str, ToolName]) -> dict[str, ToolName]:
    """The way back, from those names too."""
    return {**{_flat_name((tool.namespace, tool.name)): tool for tool in names.values()}, **names}


def _flat_name(key: ToolKey) -> str:
    namespace, name = key
    return name if namespace is None else f"{namespace}{FLAT_SEPARATOR}{name}"


def _flat_key(key: ToolKey) -> ToolKey:
    return None, _flat_name(key)


def _flat_tool(tool: RequestTool) -> RequestTool:
    parameters = CUSTOM_INPUT_SCHEMA if tool.kind == "custom" else tool.parameters
    description = tool_description(tool)
    return RequestTool(_flat_name(tool.key), tool.path, description, parameters, strict=tool.strict)


def _flat_message(message: Message) -> Message:
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": list(map(_flat_call, message["tool_calls"]))}


def _flat_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name = _flat_name((call.get("namespace"), function["name"]))
    return {"id": call["id"], "type": "function", "function": {**function, "name": name}}


# A request of one protocol, written as a request of another.


ProtocolName: TypeAlias = Literal["chat", "responses", "messages"]

READERS: dict[str, Callable[[dict[str, Any]], NeutralRequest]] = {
    "chat": asked_in_chat,
    "responses": asked_in_responses,
    "messages": asked_in_messages,
}
DUMPERS: dict[str, Callable[[NeutralRequest], dict[str, Any]]] = {
    "chat": say_in_chat,
    "responses": say_in_responses,
    "messages": say_in_messages,
}


def chat_server_body(body: dict[str, Any], source: ProtocolName) -> dict[str, Any]:
    """A request in Chat Completions, with functions in the place of all other tools."""
    if source == "chat":
        return body
    asked = READERS[source](body)
    check_end(asked)
    return say_in_chat(with_functions_only(asked))


def convert(body: Any, source: ProtocolName, target: ProtocolName) -> dict[str, Any]:
    """A request, written in another protocol.

    `body` is bytes of JSON, or what they say, which is not changed; `source` is the protocol it is
    in, `target` the one to write: `"chat"`, `"responses"` or `"messages"`. Read in its own
    protocol, the result gives the same prompt. Raises `ApiError` for a body that cannot be read,
    and where the prompt depends on something that the other protocol cannot say.
    """
    for name, protocol in (("source", source), ("target", target)):
        if protocol not in READERS:
            raise wrong(protocol, f"one of {', '.join(READERS)}", name)
    try:
        asked = READERS[source](json_body(body))
    except RecursionError:
        raise ApiError("nested too deep", path="body") from None
    check_end(asked)
    return DUMPERS[target](asked)
