"""A request of one protocol, written as a request of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dsv4.api.api_request import ProtocolName, check_end
from dsv4.api.chat_requests import dump_chat_request, neutral_chat_request
from dsv4.api.errors import ApiError, wrong
from dsv4.api.messages_requests import dump_messages_request, neutral_messages_request
from dsv4.api.neutral_request import (
    CUSTOM_INPUT_SCHEMA,
    FLAT_SEPARATOR,
    Entry,
    NeutralRequest,
    RequestTool,
    RequestTools,
    ToolKey,
    ToolName,
    refuse_duplicate_names,
    tool_description,
)
from dsv4.api.request_content import HistoryCall
from dsv4.api.request_fields import Body, JsonObject, json_body
from dsv4.api.responses_requests import dump_responses_request, neutral_responses_request

# Chat servers know neither namespaces nor custom tools. For them, tools get the names,
# descriptions and parameters that the model is shown in a dialect without namespaces.


def with_functions_only(asked: NeutralRequest) -> NeutralRequest:
    """The request with functions in the place of all other tools. Raises `ApiError` where two
    would have one name."""
    tools = tuple(map(_flat_tool, asked.declared.tools))
    refuse_duplicate_names((tool.name, tool.path) for tool in tools)
    choice = asked.choice
    named = None if choice.tool is None else _flat_key(choice.tool)
    allowed = None if choice.allowed is None else frozenset(map(_flat_key, choice.allowed))
    return asked.replaced(
        declared=RequestTools(tools, asked.declared.ignored),
        choice=replace(choice, tool=named, allowed=allowed),
        messages=list(map(_flat_message, asked.messages)),
    )


def with_flat_names(names: Mapping[str, ToolName]) -> dict[str, ToolName]:
    """The client's names of tools, by those flat names too."""
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


def _flat_message(message: Entry) -> Entry:
    if message["role"] != "assistant" or "tool_calls" not in message:
        return message
    return {**message, "tool_calls": list(map(_flat_call, message["tool_calls"]))}


def _flat_call(call: HistoryCall) -> HistoryCall:
    function = call["function"]
    name = _flat_name((call.get("namespace"), function["name"]))
    return {"id": call["id"], "type": "function", "function": {**function, "name": name}}


# From any protocol to any other.


READERS: dict[ProtocolName, Callable[[JsonObject], NeutralRequest]] = {
    "chat": neutral_chat_request,
    "responses": neutral_responses_request,
    "messages": neutral_messages_request,
}
DUMPERS: dict[ProtocolName, Callable[[NeutralRequest], JsonObject]] = {
    "chat": dump_chat_request,
    "responses": dump_responses_request,
    "messages": dump_messages_request,
}


def chat_server_body(body: JsonObject, source: ProtocolName) -> JsonObject:
    """A request in Chat Completions, with functions in the place of all other tools."""
    if source == "chat":
        return body
    asked = READERS[source](body)
    check_end(asked)
    return dump_chat_request(with_functions_only(asked))


def convert(body: Body, source: ProtocolName, target: ProtocolName) -> dict[str, Any]:
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
