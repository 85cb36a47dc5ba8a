"""One reader for all bodies: it recognises the kind of a body, and reads it by the rules for that
kind. Every entry point uses it, so the same body gives the same prompt everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import api_request, own_bodies
from dsv4.api.api_request import ApiRequest, ApiSettings, BodyRules, ProtocolName
from dsv4.api.chat_requests import FIELDS as CHAT
from dsv4.api.errors import as_api_error, wrong
from dsv4.api.ignored_fields import ignored_fields, unwritten_tasks
from dsv4.api.messages_requests import FIELDS as MESSAGES
from dsv4.api.protocols import PROTOCOLS, convert
from dsv4.api.request_fields import OWN_OPTIONS, Body, JsonObject, json_value
from dsv4.errors import OptionError, path_of
from dsv4.types import DialectName

# A body of a protocol, or a conversation in one of dsv4's own shapes.
AnyBody: TypeAlias = Body | list[Any]


class RecognisedBody(NamedTuple):
    """The kind of a body: the protocol it is nearest to, the rules it is read by, and whether its
    fields leave no doubt about both."""

    protocol: ProtocolName
    rules: BodyRules
    certain: bool


# Fields that do not tell a request to a server from a conversation: dsv4 reads them in both, or
# data sets use them for notes of their own (`user`).
_NO_SIGNS = {*own_bodies.SHARED_OPTIONS, *OWN_OPTIONS, "user", "documents"}
_OWN_SIGNS = frozenset(own_bodies.OWN_OPTIONS)
_CHAT_SIGNS = frozenset(CHAT.keys() - _NO_SIGNS)
_MESSAGES_ONLY = MESSAGES.keys() - CHAT.keys() - {"messages", "metadata"}
_MESSAGES_SIGNS = frozenset(_MESSAGES_ONLY | {"anthropic_version", "max_tokens_to_sample"})
_ANTHROPIC_BLOCKS = (
    *("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"),
    *("document", "search_result", "tool_reference", "compaction"),
)
_CHAT_ONLY = frozenset(CHAT.keys() - MESSAGES.keys() - {"stop", "user", "documents"})
_CHAT_ROLES = ("tool", "developer", "function")


def recognise(body: object) -> RecognisedBody:
    """The kind of `body`, recognised by fields that only one kind has. Never raises."""
    if not isinstance(body, dict) or own_bodies.is_sharegpt(body) or own_bodies.is_pair(body):
        return RecognisedBody("chat", "released", True)
    if "messages" not in body:
        is_response = ("input" in body or "instructions" in body) and not _is_alpaca(body)
        if is_response:
            return RecognisedBody("responses", "body", True)
        return RecognisedBody("chat", "released", True)
    switch = body.get("thinking")
    is_own = isinstance(switch, bool) or _has_any(body, _OWN_SIGNS)
    is_api_body = isinstance(switch, dict) or _has_any(body, _CHAT_SIGNS)
    if is_own and not is_api_body:
        return RecognisedBody("chat", "released", True)
    has_image = is_api_body and _has_blocks(body, ("image",)) and not _has_chat_messages(body)
    if has_image or _is_of_anthropic(body):
        return RecognisedBody("messages", "body", True)
    return RecognisedBody("chat", "body" if is_api_body else "released", is_own is not is_api_body)


def _has_any(body: JsonObject, names: frozenset[str]) -> bool:
    return not names.isdisjoint(body) and any(body.get(name) is not None for name in names)


def _is_alpaca(body: Mapping[str, Any]) -> bool:
    """Whether an object is a line of Alpaca's data, which calls the user's text `input` too."""
    return "instruction" in body or ("output" in body and "model" not in body)


def _is_of_anthropic(body: JsonObject) -> bool:
    if _has_blocks(body, _ANTHROPIC_BLOCKS):
        return True
    tools = body.get("tools")
    listed = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    if any("function" in tool for tool in listed) or _has_chat_messages(body):
        return False
    if any("input_schema" in tool for tool in listed):
        return True
    if _has_any(body, _CHAT_ONLY):
        return False
    switch = body.get("thinking")
    has_budget = isinstance(switch, dict) and "budget_tokens" in switch
    return has_budget or _has_any(body, _MESSAGES_SIGNS)


def _has_blocks(body: JsonObject, kinds: tuple[str, ...]) -> bool:
    listed = body.get("messages")
    for message in listed if isinstance(listed, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in kinds:
                return True
    return False


def _has_chat_messages(body: JsonObject) -> bool:
    listed = body.get("messages")
    return any(
        own_bodies.role_of(message) in _CHAT_ROLES
        or (isinstance(message, dict) and "tool_calls" in message)
        for message in (listed if isinstance(listed, list) else ())
    )


def read(
    body: AnyBody,
    *,
    protocol: ProtocolName | None = None,
    rules: BodyRules | None = None,
    dialect: DialectName | Dialect | None = None,
    settings: ApiSettings | None = None,
) -> ApiRequest:
    """A request in any protocol, or a conversation in one of dsv4's own shapes.

    `body` is bytes of JSON, or the value they spell, which is not changed. `protocol` is the one it
    is in, `"chat"`, `"responses"` or `"messages"`: recognised if not given. If only `protocol` is
    given, the body is read as a server reads it, which does not know dsv4's own options. `rules`
    names the rules: `"released"`, the released encoder's, as for `dsv4.encode`; `"body"`, those of
    a server. If not given, a list of messages and an object with only dsv4's own options follow the
    released encoder, and an object with a protocol's fields follows a server. `dialect` is the
    release of the format; None takes it from the body's `dialect` or `model`, and v4 where these do
    not name one: `notes` of the result then names the model. `settings` are those of the server.

    Returns an `ApiRequest`. Raises `ApiError`, which names the field of the body.
    """
    settings = settings or api_request.DEFAULT_SETTINGS
    if protocol is not None and protocol not in PROTOCOLS:
        raise wrong(protocol, f"one of {', '.join(PROTOCOLS)}", "protocol")
    if rules not in (None, "released", "body"):
        raise wrong(rules, "released or body", "rules")
    if protocol is not None and rules is None:
        fields = {_list_field(protocol): body} if isinstance(body, list) else body
        return PROTOCOLS[protocol].read(fields, dialect=dialect, settings=settings)
    value = json_value(body)
    if protocol is None or rules is None:
        shape = recognise(value)
        protocol, rules = protocol or shape.protocol, rules or shape.rules
    read = _read_released if rules == "released" else _read_sent
    call = read(value, protocol, dialect, settings)
    fields = value if isinstance(value, dict) else {_list_field(protocol): value}
    release = dialect_named(call.request.dialect)
    unread = ignored_fields(fields, protocol, rules, release)
    unread += unwritten_tasks(fields, call.request) if protocol == "chat" else []
    return replace(call, ignored=(*call.ignored, *map(path_of, unread))) if unread else call


def _list_field(protocol: ProtocolName) -> str:
    """The field in which a protocol has the list of messages."""
    return "input" if protocol == "responses" else "messages"


def _read_sent(
    value: Any, protocol: ProtocolName, dialect: DialectName | Dialect | None, settings: ApiSettings
) -> ApiRequest:
    """A body as a server reads it. Options that only dsv4 has apply as well."""
    field = _list_field(protocol)
    is_body = isinstance(value, dict) and (field in value or protocol == "responses")
    body = value if is_body else {field: value}
    names = own_bodies.ONLY_OWN
    own = {name: body[name] for name in names if body.get(name) is not None}
    named: Any = own.pop("dialect", None)
    try:
        call = PROTOCOLS[protocol].read(
            body, dialect=named if dialect is None else dialect, settings=settings
        )
        return replace(call, request=replace(call.request, **own)) if own else call
    except OptionError as error:
        raise as_api_error(error) from None


def _read_released(
    value: Any, protocol: ProtocolName, dialect: DialectName | Dialect | None, settings: ApiSettings
) -> ApiRequest:
    """A conversation as the released encoder reads it."""
    body = value
    if isinstance(value, dict) and protocol != "chat":
        body = convert(value, protocol, "chat")
    fields = body if isinstance(body, dict) else {}
    model = fields.get("model")
    try:
        named = fields.get("dialect") if dialect is None else dialect
        release, notes = api_request.chosen_dialect(named, model)
    except OptionError as error:
        raise as_api_error(error) from None
    request = own_bodies.own_request(body, release)
    return ApiRequest(
        request=request,
        protocol="chat",
        model=model if isinstance(model, str) else settings.model,
        max_tokens=api_request.most_tokens(request.thinking, request.effort, settings),
        notes=notes,
        rules="released",
        settings=settings,
    )
