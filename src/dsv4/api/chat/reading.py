"""Chat Completions: a body -> what it asks for."""

from __future__ import annotations

import marshal
from typing import Any

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import fields, thinking
from dsv4.api.asked import Asked, Choice, Declared, Format, Message, Sampling, Tool, ToolKey
from dsv4.api.bodies import body_of, clean, is_clean
from dsv4.api.calls import arguments_of, call
from dsv4.api.content import (
    BLANK_LINE,
    UNSUPPORTED_IMAGE,
    Block,
    Reader,
    Said,
    content_of,
    image,
    read_text,
    text_content,
    text_reader,
)
from dsv4.api.errors import ApiError, wrong
from dsv4.api.formats import read_schema
from dsv4.api.remembering import Remembered
from dsv4.api.request import ApiRequest
from dsv4.api.resolving import Terms
from dsv4.api.settings import DEFAULTS, Settings
from dsv4.api.system import BILLING, system_text
from dsv4.api.tools import declared_in, read_allowed, read_function
from dsv4.api.unsupported import UNSUPPORTED

ROLES = ("system", "developer", "user", "assistant", "tool")


def read(
    body: Any, *, dialect: str | Dialect = "v4", settings: Settings | None = None
) -> ApiRequest:
    """A Chat Completions request.

    `body` is bytes of JSON, or what they say, which is not changed. `dialect` is the release of
    the format to write; `settings` are the server's. Raises `ApiError`.
    """
    settings = settings or DEFAULTS
    if body.__class__ is not dict:
        body = body_of(body, settings.loads)
    terms = terms_in(body, dialect_named(dialect), settings)
    given = body.get("messages")
    if given.__class__ is not list:
        given = _listed(given)
    if are_turns(given):
        call = terms.with_turns(given[:])
    else:
        call = terms.with_messages(_with_messages(terms.asked, given))
    if "user" in body or "prompt_cache_key" in body:
        call.__dict__.update(fields.said_in(body, OWN_FIELDS))
    return call


def asked_in(body: dict[str, Any]) -> Asked:
    """What a body asks for."""
    return _with_messages(options_in(body), _listed(body.get("messages")))


def options_in(body: dict[str, Any]) -> Asked:
    """What a body asks for with every field but its messages."""
    said = fields.said_in(body, FIELDS)
    said["continues"] = False
    if not MORE.isdisjoint(said):
        _say_more(said)
    return Asked(said)


def _with_messages(options: Asked, given: list[Any]) -> Asked:
    messages = [m for n, message in enumerate(given) for m in _read_message(message, n)]
    return Asked({**vars(options), "messages": messages, "given": len(given)})


_known_terms = Remembered[Terms]()


def terms_in(body: dict[str, Any], dialect: Dialect, settings: Settings) -> Terms:
    """What the options of a body come to, remembered."""
    options = body.copy()
    options.pop("messages", None)
    tools = options.pop("tools", None)
    if not SHARED_FIELDS.issuperset(options):
        options = {field: options[field] for field in options if field in SHARED_FIELDS}
    try:
        dumped = marshal.dumps(options)
        dumped_tools = None if tools is None else marshal.dumps(tools)
    except ValueError:
        return Terms(options_in({**options, "tools": tools}), "chat", dialect, settings)
    # What is remembered holds the dialect and the settings: no others have their ids.
    key = (dumped, dumped_tools, id(dialect), id(settings))
    terms = _known_terms.get(key)
    if terms is None:
        copy = marshal.loads(dumped)
        if not _are_equal(copy, options):
            return Terms(options_in({**options, "tools": tools}), "chat", dialect, settings)
        terms = Terms(options_in({**copy, "tools": tools}), "chat", dialect, settings)
        _known_terms.keep(key, terms, len(dumped) + len(dumped_tools or b""))
    return terms


def _are_equal(copy: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether marshal wrote all that there is: what has a buffer, as numbers of numpy have, it
    writes as if it were bytes."""
    try:
        return copy == options
    except Exception:  # an array does not say whether it is equal
        return False


# Messages. Those of most requests are turns as they are, and are passed on. Others are read with
# care, and made anew from the fields that are known.


def _listed(given: Any) -> list[Any]:
    if given is None:
        raise wrong(given, "a list of messages", "messages")
    return fields.listed(given, "messages")


def are_turns(messages: list[Any]) -> bool:
    """Whether messages are turns as they are: plain ones, a system message at most in front, no
    assistant after another, and someone to answer at the end."""
    before = None
    try:
        for message in messages:
            if message.__class__ is not dict:
                return False
            role, content = message["role"], message["content"]
            if content.__class__ is str:
                if not (content.isascii() or is_clean(content)):
                    return False
            elif content is not None or role != "assistant":
                return False
            if role == "user":
                if len(message) != 2:
                    return False
            elif role == "assistant":
                if before == role or (len(message) != 2 and not _is_plain_assistant(message)):
                    return False
            elif role == "tool":
                if not _is_plain_result(message):
                    return False
            elif role != "system" or before or len(message) != 2 or content[:1] in _SYSTEM_TO_READ:
                return False
            before = role
    except KeyError:  # no role, or no content
        return False
    return before == "user" or before == "tool"


# What a system text begins with that is not passed on as it is: nothing, or perhaps billing.
_SYSTEM_TO_READ = ("", BILLING[0])
_PLAIN_RESULT = {"role", "content", "tool_call_id"}
_PLAIN_CALL = {"id", "type", "function"}
_PLAIN_FUNCTION = {"name", "arguments"}


def _is_plain_result(message: Message) -> bool:
    if message.keys() != _PLAIN_RESULT:
        return False
    id = message["tool_call_id"]
    return id.__class__ is str and is_clean(id)


def _is_plain_assistant(message: Message) -> bool:
    known = 2
    if "reasoning_content" in message:
        known += 1
        reasoning = message["reasoning_content"]
        if reasoning.__class__ is str:
            if not (reasoning.isascii() or is_clean(reasoning)):
                return False
        elif reasoning is not None:
            return False
    if "tool_calls" in message:
        known += 1
        calls = message["tool_calls"]
        if calls.__class__ is not list or not all(map(_is_plain_call, calls)):
            return False
    return len(message) == known


def _is_plain_call(call: Any) -> bool:
    if call.__class__ is not dict or call.keys() != _PLAIN_CALL:
        return False
    function = call["function"]
    if function.__class__ is not dict or function.keys() != _PLAIN_FUNCTION:
        return False
    id, name, arguments = call["id"], function["name"], function["arguments"]
    return (
        id.__class__ is name.__class__ is arguments.__class__ is str
        and is_clean(id)
        and is_clean(name)
        and is_clean(arguments)
        and arguments[:1] == "{"
        and "\\ud" not in arguments
        and "\\uD" not in arguments
    )


def _read_message(message: Any, index: int) -> list[Message]:
    path = f"messages[{index}]"
    if not isinstance(message, dict):
        raise wrong(message, 'a message: an object with a "role"', path)
    role = message.get("role")
    reader = MESSAGES.get(role) if isinstance(role, str) else None
    if reader is None:
        raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")
    return reader(message, path)


def _read_system(message: Message, path: str) -> list[Message]:
    text = system_text(message.get("content"), f"{path}.content", PARTS)
    return [{"role": "system", "content": text}] if text else []


def _read_user(message: Message, path: str) -> list[Message]:
    content = content_of(message.get("content"), f"{path}.content", PARTS)
    return [{"role": "user", "content": content}]


def _read_result(message: Message, path: str) -> list[Message]:
    id = fields.maybe_text_at(message, "tool_call_id", path)
    content = content_of(message.get("content"), f"{path}.content", PARTS)
    return [{"role": "tool", "tool_call_id": id, "content": content}]


def _read_assistant(message: Message, path: str) -> list[Message]:
    text = text_content(message.get("content"), f"{path}.content", PARTS)
    refusal = fields.maybe_text_at(message, "refusal", path)
    content = f"{text}{BLANK_LINE}{refusal}" if text and refusal else text or refusal or ""
    read: Message = {"role": "assistant", "content": content}
    for field in ("reasoning_content", "reasoning"):
        reasoning = fields.maybe_text_at(message, field, path)
        if reasoning and "reasoning_content" not in read:
            read["reasoning_content"] = reasoning
    calls = _read_calls(message, path)
    if calls:
        read["tool_calls"] = calls
    if message.get("prefix") is not None and fields.flag(message["prefix"], f"{path}.prefix"):
        read["prefix"] = True
    return [read]


def _read_calls(message: Message, path: str) -> list[dict[str, Any]]:
    given = message.get("tool_calls")
    calls = [] if given is None else fields.listed(given, f"{path}.tool_calls")
    read = [_read_call(item, f"{path}.tool_calls[{n}]") for n, item in enumerate(calls)]
    legacy = message.get("function_call")
    if legacy is not None:
        function = fields.table(legacy, f"{path}.function_call")
        read.append(_called(None, function, f"{path}.function_call", path))
    return read


def _read_call(item: Any, path: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise wrong(item, "a call: an object", path)
    if item.get("type") == "custom" and isinstance(item.get("custom"), dict):
        custom, inside = item["custom"], f"{path}.custom"
        text = fields.maybe_text_at(custom, "input", inside) or ""
        return call(item.get("id"), fields.name_at(custom, inside), {"input": text}, f"{path}.id")
    function = fields.table(item.get("function"), f"{path}.function")
    return _called(item.get("id"), function, f"{path}.function", f"{path}.id")


def _called(id: Any, function: dict[str, Any], path: str, id_path: str) -> dict[str, Any]:
    name = fields.text(function.get("name"), f"{path}.name")
    arguments = arguments_of(function.get("arguments"), f"{path}.arguments")
    return call(id, name, arguments, id_path)


MESSAGES = {
    "system": _read_system,
    "developer": _read_system,
    "user": _read_user,
    "assistant": _read_assistant,
    "tool": _read_result,
    "function": _read_result,
}


def _read_image(part: Block, path: str) -> Said:
    source = part.get("image_url")
    if isinstance(source, str):
        return image(clean(source), path)
    if source is None:
        return UNSUPPORTED_IMAGE
    inside = fields.table(source, f"{path}.image_url")
    url = fields.maybe_text_at(inside, "url", f"{path}.image_url")
    return image(url, path, inside.get("detail")) if url else UNSUPPORTED_IMAGE


PARTS: dict[str, Reader] = {
    "text": read_text,
    "image_url": _read_image,
    "refusal": text_reader("refusal"),
}


# Tools.


def _declared(value: Any, path: str) -> Declared:
    return declared_in(value, path, _read_tools, "chat")


def _read_tools(value: Any, path: str) -> Declared:
    tools: list[Tool] = []
    ignored: list[str] = []
    for n, item in enumerate(fields.listed(value, path)):
        where = f"{path}[{n}]"
        tool = fields.table(item, where)
        kind = tool.get("type", "function")
        if kind is not None and not isinstance(kind, str):
            raise wrong(kind, 'a type, such as "function"', f"{where}.type")
        if kind in (None, "function"):
            tools.append(_read_tool(tool, where))
        elif kind == "custom":
            message = 'found "custom", expected "function": the Responses API has custom tools'
            raise ApiError(message, path=f"{where}.type")
        else:
            ignored.append(clean(kind))
    return Declared(tuple(tools), tuple(ignored))


def _read_tool(tool: dict[str, Any], path: str) -> Tool:
    if tool.get("function") is None and "name" in tool:
        return read_function(tool, path)  # a function object without its wrapper
    return read_function(fields.table(tool.get("function"), f"{path}.function"), f"{path}.function")


def _old(new: str) -> fields.Check:
    """A field of long ago, which has a successor."""

    def check(value: Any, path: str) -> None:
        if value:
            raise ApiError(f'found the old form, expected "{new}" in its place', path=path)

    return check


CHOICES = ("auto", "none", "required")


def _choice(value: Any, path: str) -> Choice:
    if isinstance(value, str):
        return Choice(fields.one_of(*CHOICES)(value, path))
    kind = fields.type_at(value, path)
    if kind == "function":
        return Choice("tool", _function_key(value, path))
    if kind == "allowed_tools":
        allowed = fields.table(value.get("allowed_tools"), f"{path}.allowed_tools")
        return read_allowed(allowed, f"{path}.allowed_tools", _function_key)
    raise wrong(kind, '"function" or "allowed_tools"', f"{path}.type")


def _function_key(value: Any, path: str) -> ToolKey:
    function = fields.table(fields.table(value, path).get("function"), f"{path}.function")
    return None, fields.name_at(function, f"{path}.function")


# Everything else.


def _format(value: Any, path: str) -> Format | None:
    kind = fields.one_of("text", "json_object", "json_schema")(
        fields.table(value, path).get("type"), f"{path}.type"
    )
    if kind == "text":
        return None
    if kind == "json_object":
        return Format()
    inside = f"{path}.json_schema"
    return read_schema(fields.table(value.get("json_schema"), inside), inside)


def _include_usage(value: Any, path: str) -> bool:
    wanted = fields.table(value, path).get("include_usage")
    return False if wanted is None else fields.flag(wanted, f"{path}.include_usage")


TEMPLATE_OPTIONS: dict[str, fields.Check] = {
    "thinking": fields.flag,
    "enable_thinking": fields.flag,
    "reasoning_effort": thinking.effort,
}


def _template_options(value: Any, path: str) -> dict[str, Any]:
    return fields.checked(fields.table(value, path), TEMPLATE_OPTIONS, path)


# Fields that are read: the name that all protocols share, and the check.
FIELDS: dict[str, tuple[str, fields.Check]] = {
    "model": ("model", fields.text),
    "tools": ("declared", _declared),
    "tool_choice": ("choice", _choice),
    "functions": ("functions", _old("tools")),
    "function_call": ("functions", _old("tool_choice")),
    "parallel_tool_calls": ("parallel", fields.flag),
    "response_format": ("format", _format),
    "thinking": ("thinking", thinking.switch),
    "reasoning_effort": ("effort", thinking.effort),
    "chat_template_kwargs": ("options", _template_options),
    "max_tokens": ("max_tokens", fields.whole_number(1)),
    "max_completion_tokens": ("max_completion_tokens", fields.whole_number(1)),
    "stop": ("stop", fields.texts),
    "stream": ("stream", fields.flag),
    "stream_options": ("include_usage", _include_usage),
    "n": ("n", fields.whole_number(1, 128)),
    "logprobs": ("logprobs", fields.flag),
    "top_logprobs": ("top_logprobs", fields.whole_number(0, 20)),
    "seed": ("seed", fields.whole_number(-(2**63), 2**63 - 1)),
    "temperature": ("temperature", fields.number(0)),
    "top_p": ("top_p", fields.number(0, 1)),
    "top_k": ("top_k", fields.whole_number(-1)),
    "presence_penalty": ("presence_penalty", fields.number(-2, 2)),
    "frequency_penalty": ("frequency_penalty", fields.number(-2, 2)),
    "user": ("user", fields.text),
    "prompt_cache_key": ("cache_key", fields.text),
    **{name: ("unsupported", check) for name, check in UNSUPPORTED["chat"].items()},
}
# Those that differ from one client to the next are no part of what is remembered.
OWN_FIELDS = {name: FIELDS[name] for name in ("user", "prompt_cache_key")}
SHARED_FIELDS = frozenset(FIELDS.keys() - OWN_FIELDS.keys() - {"tools"})
SAMPLING = {"temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"}
THINKING = {"thinking", "effort", "options"}
MORE = {*SAMPLING, *THINKING, "max_completion_tokens", "functions", "unsupported"}


def _say_more(said: dict[str, Any]) -> None:
    """What several fields say together."""
    said.pop("functions", None)
    said.pop("unsupported", None)
    if "max_completion_tokens" in said:  # the newer name counts
        said["max_tokens"] = said.pop("max_completion_tokens")
    if not SAMPLING.isdisjoint(said):
        sampling = {name: said.pop(name) for name in SAMPLING & said.keys()}
        said["sampling"] = Sampling(**sampling)
    if not THINKING.isdisjoint(said):
        _say_thinking(said)


def _say_thinking(said: dict[str, Any]) -> None:
    """The switch and the effort, which have several places. What says off wins."""
    options = said.pop("options", {})
    switches = [said.get("thinking"), options.get("thinking"), options.get("enable_thinking")]
    said["thinking"] = False if False in switches else True if True in switches else None
    said["effort_path"] = "reasoning_effort"
    if "effort" not in said and "reasoning_effort" in options:
        said["effort"] = options["reasoning_effort"]
        said["effort_path"] = "chat_template_kwargs.reasoning_effort"
    wanted = said.get("effort") not in (None, thinking.OFF)
    said["wants_thinking"] = said["thinking"] is True or wanted
