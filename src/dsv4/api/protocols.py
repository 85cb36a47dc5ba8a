"""The protocols by name: the functions of each, and the conversion of requests from one protocol
to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from dsv4._format.dialects import Dialect
from dsv4.api import chat, event_writer, messages, responses
from dsv4.api import neutral_request as neutral
from dsv4.api.api_request import ApiRequest, ApiSettings, ProtocolName, check_end
from dsv4.api.chat_requests import dump_chat_request, neutral_chat_request
from dsv4.api.errors import ApiError, wrong
from dsv4.api.messages_requests import (
    dump_messages_request,
    neutral_messages_request,
)
from dsv4.api.request_content import HistoryCall
from dsv4.api.request_fields import Body, JsonObject, json_body
from dsv4.api.responses_requests import (
    dump_responses_request,
    neutral_responses_request,
)
from dsv4.types import DialectName


class ApiProtocol(Protocol):
    """The interface of the module of each protocol."""

    @property
    def Writer(self) -> type[event_writer.EventWriter]:
        """The class that turns the parser's events into protocol events."""
        ...

    def read(
        self,
        body: Body,
        *,
        dialect: DialectName | Dialect | None = None,
        settings: ApiSettings | None = None,
    ) -> ApiRequest:
        """The request that a body holds."""
        ...

    def frames(self, events: Iterable[event_writer.ProtocolEvent]) -> bytes:
        """Protocol events as bytes of server-sent events."""
        ...

    def fold(self, events: Iterable[event_writer.ProtocolEvent]) -> dict[str, Any]:
        """The whole response, put together from the events of a stream."""
        ...

    @property
    def whole(self) -> event_writer.WholeResponse:
        """The response to a request that does not stream."""
        ...

    def error(self, exception: BaseException) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the body of the response to a request that failed."""
        ...


PROTOCOLS: Mapping[ProtocolName, ApiProtocol] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
}


def protocol_of_client(headers: Mapping[str, str], otherwise: ProtocolName = "chat") -> ApiProtocol:
    """The protocol of a client, on a path that several protocols share: Anthropic's clients send a
    version."""
    return PROTOCOLS["messages" if "anthropic-version" in headers else otherwise]


# A request of one protocol, written as a request of another.


# Chat servers know neither namespaces nor custom tools. For them, tools get the names,
# descriptions and parameters that the model is shown in a dialect without namespaces.


def with_functions_only(request: neutral.NeutralRequest) -> neutral.NeutralRequest:
    """The request with all other tools turned into functions. Raises `ApiError` where two would
    have the same name."""
    tools = tuple(map(_flat_tool, request.declared.tools))
    neutral.refuse_duplicate_names((tool.name, tool.path) for tool in tools)
    choice = request.choice
    named = None if choice.tool is None else _flat_key(choice.tool)
    allowed = None if choice.allowed is None else frozenset(map(_flat_key, choice.allowed))
    return request.replaced(
        declared=neutral.RequestTools(tools, request.declared.ignored),
        choice=replace(choice, tool=named, allowed=allowed),
        messages=list(map(_flat_message, request.messages)),
    )


def with_flat_names(names: Mapping[str, neutral.ToolName]) -> dict[str, neutral.ToolName]:
    """The client's names of tools, also by the flat names of those tools."""
    return {**{_flat_name((tool.namespace, tool.name)): tool for tool in names.values()}, **names}


def _flat_name(key: neutral.ToolKey) -> str:
    namespace, name = key
    return name if namespace is None else f"{namespace}{neutral.FLAT_SEPARATOR}{name}"


def _flat_key(key: neutral.ToolKey) -> neutral.ToolKey:
    return None, _flat_name(key)


def _flat_tool(tool: neutral.RequestTool) -> neutral.RequestTool:
    parameters = neutral.CUSTOM_INPUT_SCHEMA if tool.kind == "custom" else tool.parameters
    description = neutral.tool_description(tool)
    return neutral.RequestTool(
        _flat_name(tool.key), tool.path, description, parameters, strict=tool.strict
    )


def _flat_message(message: neutral.Entry) -> neutral.Entry:
    if message["role"] != "assistant" or "tool_calls" not in message:
        return message
    return {**message, "tool_calls": list(map(_flat_call, message["tool_calls"]))}


def _flat_call(call: HistoryCall) -> HistoryCall:
    function = call["function"]
    name = _flat_name((call.get("namespace"), function["name"]))
    return {"id": call["id"], "type": "function", "function": {**function, "name": name}}


# From any protocol to any other.


READERS: dict[ProtocolName, Callable[[JsonObject], neutral.NeutralRequest]] = {
    "chat": neutral_chat_request,
    "responses": neutral_responses_request,
    "messages": neutral_messages_request,
}
DUMPERS: dict[ProtocolName, Callable[[neutral.NeutralRequest], JsonObject]] = {
    "chat": dump_chat_request,
    "responses": dump_responses_request,
    "messages": dump_messages_request,
}


# dsv4's marks that a client returned, by the index of their turn.
TurnMarks: TypeAlias = Mapping[int, Sequence[str]]


def marked_chat_body(body: JsonObject, source: ProtocolName) -> tuple[JsonObject, TurnMarks]:
    """A request in Chat Completions, with all other tools turned into functions, and the marks of
    its turns, which Chat Completions has no field for."""
    if source == "chat":
        return body, {}
    request = READERS[source](body)
    check_end(request)
    flat = with_functions_only(request)
    marks = {
        n: message["marks"]
        for n, message in enumerate(neutral.joined_turns(flat))
        if message["role"] == "assistant" and "marks" in message
    }
    return dump_chat_request(flat), marks


# Fields that a protocol does not have, by the names that all protocols share.
_SAMPLING_OF_CHAT = ("seed", "presence_penalty", "frequency_penalty", "logit_bias")
_NOT_SAID: Mapping[ProtocolName, tuple[str, ...]] = {
    "chat": (),
    "responses": ("stop", "n", "top_k", *_SAMPLING_OF_CHAT),
    "messages": ("n", "logprobs", "top_logprobs", "cache_key", *_SAMPLING_OF_CHAT),
}
# A protocol's own names for some of these fields.
_OWN_NAMES: Mapping[ProtocolName, Mapping[str, str]] = {
    "chat": {"cache_key": "prompt_cache_key"},
    "responses": {"cache_key": "prompt_cache_key", "logprobs": "include"},
    "messages": {"stop": "stop_sequences"},
}


def left_out(body: Body, source: ProtocolName, target: ProtocolName) -> tuple[str, ...]:
    """The fields of a request that `convert` leaves out, because the other protocol does not have
    them. None of them changes the prompt.

    `body`, `source` and `target` are those of `convert`. Returns the names in `source`. Raises the
    same errors as `convert`.
    """
    request = _neutral(body, source, target)
    usual = neutral.NeutralRequest({})
    names = [
        name for name in _NOT_SAID[target] if _value_of(request, name) != _value_of(usual, name)
    ]
    return tuple(_OWN_NAMES[source].get(name, name) for name in names)


def _value_of(request: neutral.NeutralRequest, name: str) -> object:
    return getattr(request.sampling if name in neutral.Sampling.__slots__ else request, name)


def _neutral(body: Body, source: ProtocolName, target: ProtocolName) -> neutral.NeutralRequest:
    for name, protocol in (("source", source), ("target", target)):
        if protocol not in READERS:
            raise wrong(protocol, f"one of {', '.join(READERS)}", name)
    try:
        request = READERS[source](json_body(body))
    except RecursionError:
        raise ApiError("nested too deep", path="body") from None
    check_end(request)
    return request


def convert(body: Body, source: ProtocolName, target: ProtocolName) -> dict[str, Any]:
    """A request, written in another protocol.

    `body` is bytes of JSON, or the object they spell, which is not changed; `source` is the
    protocol it is in, `target` the one to write: `"chat"`, `"responses"` or `"messages"`. Read in
    its own protocol, the result gives the same prompt; `left_out` names other fields that are lost.
    Raises `ApiError` for a body that cannot be read, and where the prompt depends on something that
    the other protocol cannot express.
    """
    request = _neutral(body, source, target)
    return DUMPERS[target](request)
