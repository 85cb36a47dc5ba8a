"""The fields of a body that nothing reads, so that the receiver of the body can name them.

The readers' own tables (`FIELDS`) list the fields read at the top level; this module lists those
read inside of messages, parts and tools. A test changes each field by itself at every entry point.
Null, an empty list and an empty object count as absent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from dsv4._encode.turns import fields_read
from dsv4._format.dialects import Dialect
from dsv4._format.texts import read_table
from dsv4.api import own_bodies
from dsv4.api.api_request import SERVER_FIELDS, BodyRules, ProtocolName
from dsv4.api.chat_requests import FIELDS as CHAT
from dsv4.api.chat_requests import TEMPLATE_OPTIONS
from dsv4.api.messages_requests import FIELDS as MESSAGES
from dsv4.api.messages_requests import OUTPUT_FIELDS
from dsv4.api.neutral_request import Sampling
from dsv4.api.request_fields import JsonObject
from dsv4.api.responses_requests import FIELDS as RESPONSES
from dsv4.api.responses_requests import REASONING, TEXT
from dsv4.errors import Error, Location
from dsv4.request import Request

# Fields by which a server stores responses, or that it repeats in them.
_STORED = ("previous_response_id", "conversation", "prompt", "store", "metadata")

# A container has no effect on a prompt; one with skills is refused.
FIELDS_READ: Mapping[ProtocolName, frozenset[str]] = {
    "chat": frozenset({"messages", "system", *CHAT}),
    "responses": frozenset({*RESPONSES, *_STORED}),
    "messages": frozenset(MESSAGES.keys() - {"container"}),
}
# The fields that are read inside of fields with options.
OPTION_FIELDS_READ: Mapping[ProtocolName, Mapping[str, Collection[str]]] = {
    "chat": {
        "stream_options": {"include_usage"},
        "thinking": {"type"},
        "chat_template_kwargs": TEMPLATE_OPTIONS,
    },
    "responses": {"reasoning": REASONING, "text": TEXT},
    "messages": {"thinking": {"type"}, "output_config": OUTPUT_FIELDS, "metadata": {"user_id"}},
}

# Fields that clients are known to send and that can be ignored. A prompt could not hold them, or
# they give advice that the format cannot express; none of them removes anything the model sees.
HARMLESS_FIELDS: Mapping[ProtocolName, frozenset[str]] = {
    name: frozenset(fields) for name, fields in read_table("harmless_fields", __file__).items()
}

# The fields that are read of parts of a content, blocks and items, by their types. Of other types
# only the type is read, which the prompt names.
_PART_FIELDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(("type", *fields))
    for kinds, fields in (
        (("text", "input_text", "output_text", "summary_text"), ("text",)),
        (("image_url", "input_image"), ("image_url", "detail", "file_id")),
        (("image",), ("source",)),
        (("refusal",), ("refusal",)),
        (("thinking",), ("thinking", "signature")),
        (("tool_use",), ("id", "name", "input")),
        (("tool_result",), ("tool_use_id", "content", "is_error")),
        (("document",), ("title", "context", "source")),
        (("search_result",), ("title", "source", "content")),
        (("message",), ("role", "content")),
        (("reasoning",), ("content", "summary", "encrypted_content")),
        (("function_call",), ("call_id", "name", "namespace", "arguments")),
        (("custom_tool_call",), ("call_id", "name", "namespace", "input")),
        (("function_call_output", "custom_tool_call_output"), ("call_id", "output")),
    )
    for kind in kinds
}
_LISTS: Mapping[ProtocolName, str] = {"responses": "input"}


# Fields that only a server uses: no prompt depends on them.
_SERVER_NAMES = {*SERVER_FIELDS, *Sampling.__slots__, "max_tokens", "max_completion_tokens"} | {
    *("stop", "parallel")
}
_SERVER_ONLY = {
    name
    for fields in (CHAT, RESPONSES, MESSAGES)
    for name, (shared, _) in fields.items()
    if shared in _SERVER_NAMES
}


def server_fields(body: object) -> list[str]:
    """The fields of a body that no prompt depends on."""
    fields = body if isinstance(body, dict) else {}
    return [name for name, value in fields.items() if name in _SERVER_ONLY and value is not None]


def ignored_fields(
    body: JsonObject, protocol: ProtocolName, rules: BodyRules, dialect: Dialect, own: bool = True
) -> list[Location]:
    """The locations of fields that are not read, each name once at its first place. `own` says
    whether dsv4's own options, which no server reads, count as read."""
    found: dict[Location, Location] = {}
    for location in unread_locations(body, protocol, rules, dialect, own):
        found.setdefault(tuple(step for step in location if isinstance(step, str)), location)
    return list(found.values())


def unread_locations(
    body: JsonObject, protocol: ProtocolName, rules: BodyRules, dialect: Dialect, own: bool = True
) -> Iterator[Location]:
    """All locations of fields that are not read."""
    read = FIELDS_READ[protocol] if rules == "body" else own_bodies.fields_read(body)
    if own:
        read = _with_own(read)
    if not read.issuperset(body):
        yield from _others(body, read, ())
    for field, names in OPTION_FIELDS_READ[protocol].items():
        if field in body and field in read:
            yield from _others(body[field], names, (field,))
    name = _LISTS.get(protocol, "messages")
    for n, message in enumerate(_list(body.get(name))):
        if isinstance(message, dict) and not (protocol == "chat" and _is_usual(message)):
            yield from _in_message(message, protocol, rules, dialect, (name, n))
    for n, tool in enumerate(_list(body.get("tools"))):
        yield from _in_tool(tool, protocol, rules, dialect, ("tools", n))


@lru_cache
def _with_own(read: frozenset[str]) -> frozenset[str]:
    return read - {"store"} | {*own_bodies.ONLY_OWN}


def unwritten_tasks(body: object, request: Request) -> list[Location]:
    """The location of the first task in a body, if the format does not write every task. It does
    not write the task of a message that joins a turn, or that is not answered."""
    fields = body if isinstance(body, dict) else {}
    messages = enumerate(_list(fields.get("messages", body)))
    tasks = {n: m["task"] for n, m in messages if isinstance(m, dict) and m.get("task") is not None}
    if not tasks:
        return []
    try:
        lost = [field for _, field, _ in request.encode().dropped]
    except Error:
        return []
    is_lost = "task" in lost or not all(tasks.values())  # an empty one that is written is refused
    return [("messages", min(tasks), "task")] if is_lost else []


def _others(fields: object, read: Collection[str], place: Location) -> Iterator[Location]:
    if isinstance(fields, dict):
        for name, value in fields.items():
            if name not in read and value is not None and value != [] and value != {}:
                yield (*place, str(name))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _in_message(
    message: JsonObject,
    protocol: ProtocolName,
    rules: BodyRules,
    dialect: Dialect,
    place: Location,
) -> Iterator[Location]:
    role, kind = str(message.get("role", "")), str(message.get("type", ""))
    if protocol == "chat":
        read = message_fields(role, rules, dialect)
    else:
        known = kind if protocol == "responses" and kind else "message"
        read = _PART_FIELDS.get(known, frozenset(message))
        if protocol == "messages" and kind != "message":  # answers have this type
            read = read - {"type"}
    if not read.issuperset(message):
        yield from _others(message, read, place)
    yield from ((*place, name) for name in _silenced(message, role) if name in read)
    for field in _LISTS_OF_PARTS & message.keys() & read:
        for n, part in enumerate(_list(message[field])):
            yield from _in_part(part, rules, (*place, field, n))
    if "tools" in read:
        for n, tool in enumerate(_list(message.get("tools"))):
            yield from _in_tool(tool, protocol, rules, dialect, (*place, "tools", n))


def _silenced(message: JsonObject, role: str) -> Iterator[str]:
    """The fields of a message that have no effect beside its other fields."""
    if "content_blocks" in message and role != "user" and isinstance(message.get("content"), str):
        yield "content_blocks"
    if "extracted_url" in message and message.get("task") != "read_url":
        yield "extracted_url"
    reasoning = message.get("reasoning")
    is_said = reasoning is not None and reasoning != [] and reasoning != {}
    if is_said and message.get("reasoning_content") not in (None, "", reasoning):
        yield "reasoning"


# The fields of nearly all messages, which every release reads completely.
_USUAL_FIELDS = {
    "system": frozenset(("role", "content")),
    "user": frozenset(("role", "content")),
    "assistant": frozenset(("role", "content", "reasoning_content", "tool_calls")),
    "tool": frozenset(("role", "content", "tool_call_id")),
}


def _is_usual(message: JsonObject) -> bool:
    """Whether all of a Chat message is read."""
    fields = _USUAL_FIELDS.get(str(message.get("role")), frozenset())
    return fields.issuperset(message) and not isinstance(message.get("content"), list)


_LISTS_OF_PARTS = {"content", "content_blocks", "output", "summary"}


@lru_cache
def message_fields(role: str, rules: BodyRules, dialect: Dialect) -> frozenset[str]:
    """The fields that are read of a Chat message."""
    if rules == "released":
        return fields_read(role, dialect)
    read = fields_read(_SAME_ROLES.get(role, role), dialect)
    return read | {"refusal", "function_call"} if role == "assistant" else read


_SAME_ROLES = {"developer": "system", "function": "tool"}


def _in_part(part: object, rules: BodyRules, place: Location) -> Iterator[Location]:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in _PART_FIELDS:
        more = ("url", "data") if rules == "released" and kind == "image" else ()
        yield from _others(part, _PART_FIELDS[kind].union(more), place)


def _in_tool(
    tool: object, protocol: ProtocolName, rules: BodyRules, dialect: Dialect, place: Location
) -> Iterator[Location]:
    fields: JsonObject = tool if isinstance(tool, dict) else {}
    function = fields.get("function")
    if rules == "body":
        # Without its wrapper, a function of Chat Completions is read as in Responses.
        is_wrapped = protocol == "chat" and (function is not None or "name" not in fields)
        known = (protocol, "wrapped" if is_wrapped else _kind_of(fields))
        yield from _others(tool, {"type", *_TOOL_FIELDS.get(known, _ANY_TOOL)}, place)
        if is_wrapped:
            yield from _others(function, _TOOL_FIELDS["chat", "function"], (*place, "function"))
        if "tools" in _TOOL_FIELDS.get(known, ()):
            for n, one in enumerate(_list(fields.get("tools"))):
                yield from _in_tool(one, protocol, rules, dialect, (*place, "tools", n))
    elif "function" in fields:  # the whole function is written
        more = "namespace" if dialect.namespaces else "type"
        yield from _others(tool, ("type", "function", more), place)


def _kind_of(tool: JsonObject) -> str:
    return str(tool.get("type") or "function")


_ANY_TOOL = ("name", "description", "parameters", "input_schema", "function", "format", "tools")
# The fields that are read of a tool, by its protocol and type. A tool of another type is named
# whole.
_TOOL_FIELDS: Mapping[tuple[ProtocolName, str], tuple[str, ...]] = {
    ("chat", "wrapped"): ("function",),
    ("chat", "function"): ("name", "description", "parameters"),
    ("responses", "function"): ("name", "description", "parameters"),
    ("responses", "custom"): ("name", "description", "format"),
    ("responses", "namespace"): ("name", "description", "tools"),
    ("messages", "function"): ("name", "description", "input_schema"),
    ("messages", "custom"): ("name", "description", "input_schema"),
}
