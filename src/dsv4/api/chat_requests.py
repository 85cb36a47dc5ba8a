"""Chat Completions requests: a body is read into a neutral request, and dumped from one."""

from __future__ import annotations

import marshal
from typing import Any, cast

from dsv4._encode.inputs import IMAGE_TYPES
from dsv4._encode.tools import is_same_value
from dsv4._encode.turns import NATIVE
from dsv4._format.dialects import Dialect
from dsv4._format.texts import BILLING_HEADER
from dsv4.api import api_request, request_fields
from dsv4.api import neutral_request as neutral
from dsv4.api import request_content as contents
from dsv4.api.api_request import ApiRequest, ApiSettings, ResolvedOptions
from dsv4.api.errors import ApiError, wrong
from dsv4.api.messages_requests import read_user_blocks
from dsv4.api.neutral_request import NeutralRequest, RequestTool, RequestTools
from dsv4.api.request_content import BlockReader, Content
from dsv4.api.request_fields import OFF, Body, Check, JsonObject, clean, is_clean, json_body
from dsv4.types import DialectName

# A body -> a neutral request.


ROLES = ("system", "developer", "user", "assistant", "tool")


def read(
    body: Body, *, dialect: DialectName | Dialect | None = None, settings: ApiSettings | None = None
) -> ApiRequest:
    """A Chat Completions request.

    `body` is bytes of JSON, or the object they spell, which is not changed. `dialect` is the
    release of the format to write: that of the body's model where None. `settings` are the
    server's. Raises `ApiError`.
    """
    settings = settings or api_request.DEFAULT_SETTINGS
    fields = body if type(body) is dict else json_body(body)
    options = resolved_chat_options(fields, dialect, settings)
    messages = fields.get("messages")
    if type(messages) is not list:
        messages = _message_list(messages)
    own = api_request.NO_FIELDS
    if "user" in fields or "prompt_cache_key" in fields:
        own = request_fields.shared_fields(fields, OWN_FIELDS)
    system = fields.get("system")
    if system is None and are_plain_turns(messages):
        return options.with_turns(messages[:], own)
    given = options.request
    request = _with_messages(given, messages, system)
    if request.declared is not given.declared or request.format is not given.format:
        options = ResolvedOptions(request, "chat", dialect, settings)
    return options.with_messages(request, own)


def neutral_chat_request(body: JsonObject) -> NeutralRequest:
    """The neutral request of a body."""
    messages = _message_list(body.get("messages"))
    return _with_messages(chat_options(body), messages, body.get("system"))


def chat_options(body: JsonObject) -> NeutralRequest:
    """The neutral request of all fields of a body but its messages."""
    fields = request_fields.shared_fields(body, FIELDS)
    fields["continues"] = False
    if "max_completion_tokens" in fields:  # the newer name counts
        fields["max_tokens"] = fields.pop("max_completion_tokens")
    neutral.combine_sampling(fields)
    if not THINKING_FIELDS.isdisjoint(fields):
        _combine_thinking(fields)
    return NeutralRequest(fields)


def _with_messages(
    options: NeutralRequest, items: list[Any], system: object = None
) -> NeutralRequest:
    """The request with its messages, and with the system prompt that many data sets have beside
    them."""
    content = contents.system_content(system, "system", PART_READERS)
    messages: list[neutral.Entry] = [{"role": "system", "content": content}] if content else []
    messages += [m for n, message in enumerate(items) for m in _read_message(message, n)]
    for n, message in enumerate(items):
        if message["role"] in ("system", "developer"):
            options = _with_sections(options, message, f"messages[{n}]")
    return options.replaced(messages=messages, message_count=len(items))


def _with_sections(options: NeutralRequest, message: JsonObject, path: str) -> NeutralRequest:
    """The request with the tools and the response format of a system message, which the released
    encoders read."""
    if message.get("tools") is not None:
        tools = _read_tools(message["tools"], f"{path}.tools")
        options = options.replaced(declared=neutral.joined_tools(options.declared, tools))
    if message.get("response_format"):
        schema = neutral.schema_at(message["response_format"], f"{path}.response_format")
        if options.format not in (None, neutral.AnswerFormat(schema)):
            problem = "found another response_format than before, expected one"
            raise ApiError(problem, path=f"{path}.response_format")
        options = options.replaced(format=neutral.AnswerFormat(schema))
    return options


_known_options = neutral.ReadCache[ResolvedOptions]()


def resolved_chat_options(
    body: JsonObject, dialect: DialectName | Dialect | None, settings: ApiSettings
) -> ResolvedOptions:
    """The options of a body, resolved and cached. They include its model, which may decide the
    dialect."""
    options = body.copy()
    options.pop("messages", None)
    tools = options.pop("tools", None)
    if not SHARED_FIELDS.issuperset(options):
        options = {field: options[field] for field in options if field in SHARED_FIELDS}
    try:
        dumped = marshal.dumps(options)
        dumped_tools = None if tools is None else marshal.dumps(tools)
    except ValueError:
        return _resolved(options, tools, dialect, settings)
    # Cached options hold the dialect and the settings, so no other object can get their ids.
    named = dialect if isinstance(dialect, str) else id(dialect)
    key = (dumped, dumped_tools, named, id(settings))
    resolved = _known_options.get(key)
    if resolved is None:
        copy = marshal.loads(dumped)
        if not is_same_value(copy, options):
            return _resolved(options, tools, dialect, settings)
        resolved = _resolved(copy, tools, dialect, settings)
        _known_options.keep(key, resolved, len(dumped) + len(dumped_tools or b""))
    return resolved


def _resolved(
    options: JsonObject,
    tools: object,
    dialect: DialectName | Dialect | None,
    settings: ApiSettings,
) -> ResolvedOptions:
    return ResolvedOptions(chat_options({**options, "tools": tools}), "chat", dialect, settings)


# Messages. In most requests they are turns already, and are passed on unchanged. Others are read
# field by field, and written again with the known fields only.


def _message_list(value: object) -> list[Any]:
    if value is None:
        raise wrong(value, "a list of messages", "messages")
    return request_fields.json_list(value, "messages")


def are_plain_turns(messages: list[Any]) -> bool:  # noqa: C901 - one walk, on the hot path
    """Whether messages are turns already: plain ones, a system message only in front, no two
    assistant messages in a row, and a user's or tool's message at the end."""
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
            elif (
                role != "system"
                or before
                or len(message) != 2
                or not content
                or content[0] == _BILLING_START
            ):
                return False
            before = role
    except KeyError:  # no role, or no content
        return False
    return before == "user" or before == "tool"


# A system text that begins with this may be a billing line, and is not passed on unread.
_BILLING_START = BILLING_HEADER[0]
_PLAIN_RESULT = {"role", "content", "tool_call_id"}
_PLAIN_CALL = {"id", "type", "function"}
_PLAIN_FUNCTION = {"name", "arguments"}


def _is_plain_result(message: JsonObject) -> bool:
    if message.keys() != _PLAIN_RESULT:
        return False
    id = message["tool_call_id"]
    return id.__class__ is str and is_clean(id)


def _is_plain_assistant(message: JsonObject) -> bool:
    count = 2
    if "reasoning_content" in message:
        count += 1
        reasoning = message["reasoning_content"]
        if reasoning.__class__ is str:
            if not (reasoning.isascii() or is_clean(reasoning)):
                return False
        elif reasoning is not None:
            return False
    if "tool_calls" in message:
        count += 1
        calls = message["tool_calls"]
        if calls.__class__ is not list or not all(map(_is_plain_call, calls)):
            return False
    return len(message) == count


def _is_plain_call(call: object) -> bool:
    if type(call) is not dict or call.keys() != _PLAIN_CALL:
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


def _read_message(message: object, index: int) -> list[neutral.Entry]:
    path = f"messages[{index}]"
    if not isinstance(message, dict):
        raise wrong(message, 'a message: an object with a "role"', path)
    role = message.get("role")
    reader = MESSAGE_READERS.get(role) if isinstance(role, str) else None
    if reader is None:
        raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")
    entries = reader(message, path)
    if not entries or _PLAIN_FIELDS.issuperset(message):
        return entries
    kept = {name: message[name] for name in neutral.KEPT_FIELDS if message.get(name) is not None}
    if message.get("content_blocks"):
        blocks = _read_blocks(entries[0], message, f"{path}.content_blocks")
        kept[neutral.BLOCKS] = [cast("neutral.Entry", {**blocks[0], **kept}), *blocks[1:]]
    return [cast("neutral.Entry", {**entries[0], **kept})]


_WRITTEN = ("text", *IMAGE_TYPES)
_PLAIN_FIELDS = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id"}


def _read_blocks(entry: neutral.Entry, message: JsonObject, path: str) -> list[neutral.Entry]:
    """The entries that replace an entry in a dialect that reads `content_blocks`: of a user, the
    blocks, with results in messages of their own; of other roles, texts and images, unless the
    content is a text (docs/format.md, section 12.1)."""
    if entry["role"] == "user":
        return read_user_blocks(message["content_blocks"], path, PART_READERS)
    if isinstance(message.get("content"), str):
        return [entry]
    blocks = enumerate(request_fields.json_list(message["content_blocks"], path))
    written = [(n, b) for n, b in blocks if isinstance(b, dict) and b.get("type") in _WRITTEN]
    read = [contents.read_block(block, f"{path}[{n}]", PART_READERS) for n, block in written]
    return [cast("neutral.Entry", {**entry, "content": contents.joined_content(read)})]


def _read_system(message: JsonObject, path: str) -> list[neutral.Entry]:
    content = contents.system_content(message.get("content"), f"{path}.content", PART_READERS)
    return [{"role": "system", "content": content}] if content else []


def _read_user(message: JsonObject, path: str) -> list[neutral.Entry]:
    content = contents.content_of(message.get("content"), f"{path}.content", PART_READERS)
    return [{"role": "user", "content": content}]


def _read_result(message: JsonObject, path: str) -> list[neutral.Entry]:
    id = request_fields.maybe_text_at(message, "tool_call_id", path)
    content = contents.content_of(message.get("content"), f"{path}.content", PART_READERS)
    return [{"role": "tool", "tool_call_id": id, "content": content}]


def _read_assistant(message: JsonObject, path: str) -> list[neutral.Entry]:
    parts = (
        contents.content_of(message.get("content"), f"{path}.content", PART_READERS),
        request_fields.maybe_text_at(message, "refusal", path),
    )
    content = contents.joined_content(filter(None, parts))
    read: neutral.AssistantEntry = {"role": "assistant", "content": content}
    for field in ("reasoning_content", "reasoning"):
        reasoning = request_fields.maybe_text_at(message, field, path)
        if reasoning and "reasoning_content" not in read:
            read["reasoning_content"] = reasoning
    calls = _read_calls(message, path)
    if calls:
        read["tool_calls"] = calls
    for field in NATIVE.open_turn_fields:
        value = message.get(field)
        if value is not None and request_fields.boolean(value, f"{path}.{field}"):
            read["prefix"] = True
    return [read]


def _read_calls(message: JsonObject, path: str) -> list[contents.HistoryCall]:
    value = message.get("tool_calls")
    calls = [] if value is None else request_fields.json_list(value, f"{path}.tool_calls")
    read = [_read_call(item, f"{path}.tool_calls[{n}]") for n, item in enumerate(calls)]
    legacy = message.get("function_call")
    if legacy is not None:
        function = request_fields.json_object(legacy, f"{path}.function_call")
        read.append(_read_function_call(None, function, f"{path}.function_call", path))
    return read


def _read_call(item: object, path: str) -> contents.HistoryCall:
    if not isinstance(item, dict):
        raise wrong(item, "a call: an object", path)
    if item.get("type") == "custom" and isinstance(item.get("custom"), dict):
        custom, inside = item["custom"], f"{path}.custom"
        text = request_fields.maybe_text_at(custom, "input", inside) or ""
        return contents.history_call(
            item.get("id"), request_fields.name_at(custom, inside), {"input": text}, f"{path}.id"
        )
    function = request_fields.json_object(item.get("function"), f"{path}.function")
    return _read_function_call(item.get("id"), function, f"{path}.function", f"{path}.id")


def _read_function_call(
    id: object, function: JsonObject, path: str, id_path: str
) -> contents.HistoryCall:
    name = request_fields.text(function.get("name"), f"{path}.name")
    arguments = contents.arguments_of(function.get("arguments"), f"{path}.arguments")
    return contents.history_call(id, name, arguments, id_path)


MESSAGE_READERS = {
    "system": _read_system,
    "developer": _read_system,
    "user": _read_user,
    "assistant": _read_assistant,
    "tool": _read_result,
    "function": _read_result,
}


PART_READERS: dict[str, BlockReader] = {
    "text": contents.read_text_block,
    **dict.fromkeys(("image_url", "input_image"), contents.read_openai_image),
    "image": contents.read_anthropic_image,
    "refusal": contents.text_reader("refusal"),
}


# Tools.


def _read_tools(value: object, path: str) -> RequestTools:
    tools: list[RequestTool] = []
    ignored: list[str] = []
    for tool, where in request_fields.objects_at(value, path):
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
    return RequestTools(tuple(tools), tuple(ignored))


def _read_tool(tool: JsonObject, path: str) -> RequestTool:
    if tool.get("function") is None and "name" in tool:
        return neutral.read_function(tool, path)  # a function object without its wrapper
    return neutral.read_function(
        request_fields.json_object(tool.get("function"), f"{path}.function"), f"{path}.function"
    )


def _refuse_old_field(new: str) -> Check:
    """Refuses a deprecated field, which has a successor."""

    def check(value: object, path: str) -> None:
        if value:
            raise ApiError(f'found the old form, expected "{new}" in its place', path=path)

    return check


def _read_choice(value: object, path: str) -> neutral.NeutralToolChoice:
    return neutral.read_openai_choice(value, path, ("function",), _function_key, "allowed_tools")


def _function_key(value: object, path: str) -> neutral.ToolKey:
    function = request_fields.json_object(
        request_fields.json_object(value, path).get("function"), f"{path}.function"
    )
    return None, request_fields.name_at(function, f"{path}.function")


# Everything else.


def _read_format(value: object, path: str) -> neutral.AnswerFormat | None:
    return neutral.read_openai_format(value, path, "json_schema")


def _include_usage(value: object, path: str) -> bool:
    wanted = request_fields.json_object(value, path).get("include_usage")
    return False if wanted is None else request_fields.boolean(wanted, f"{path}.include_usage")


TEMPLATE_OPTIONS: dict[str, Check] = {
    "thinking": request_fields.boolean,
    "enable_thinking": request_fields.boolean,
    "reasoning_effort": request_fields.effort,
    "drop_thinking": request_fields.boolean,
}


# Fields that are read: the name that all protocols share for each, and its check.
FIELDS: dict[str, tuple[str, Check]] = {
    "model": ("model", request_fields.text),
    "tools": ("declared", neutral.cached_tools(_read_tools, "chat")),
    "tool_choice": ("choice", _read_choice),
    "functions": ("functions", _refuse_old_field("tools")),
    "function_call": ("functions", _refuse_old_field("tool_choice")),
    "parallel_tool_calls": ("parallel", request_fields.boolean),
    "response_format": ("format", _read_format),
    **request_fields.OWN_OPTIONS,
    "reasoning_effort": ("effort", request_fields.effort),
    "chat_template_kwargs": ("options", request_fields.fields_check(TEMPLATE_OPTIONS)),
    "max_tokens": ("max_tokens", request_fields.whole_number(1)),
    "max_completion_tokens": ("max_completion_tokens", request_fields.whole_number(1)),
    "stop": ("stop", request_fields.texts),
    "stream": ("stream", request_fields.boolean),
    "stream_options": ("include_usage", _include_usage),
    "n": ("n", request_fields.whole_number(1, 128)),
    "logprobs": ("logprobs", request_fields.boolean),
    "top_logprobs": ("top_logprobs", request_fields.whole_number(0, 20)),
    "seed": ("seed", request_fields.whole_number(-(2**63), 2**63 - 1)),
    "temperature": ("temperature", request_fields.number(0)),
    "top_p": ("top_p", request_fields.number(0, 1)),
    "top_k": ("top_k", request_fields.whole_number(-1)),
    "presence_penalty": ("presence_penalty", request_fields.number(-2, 2)),
    "frequency_penalty": ("frequency_penalty", request_fields.number(-2, 2)),
    "logit_bias": ("logit_bias", request_fields.logit_bias),
    "user": ("user", request_fields.text),
    "prompt_cache_key": ("cache_key", request_fields.text),
    **request_fields.unsupported_fields("chat"),
}
# Fields that differ from one client to the next, which are not cached.
OWN_FIELDS = {name: FIELDS[name] for name in ("user", "prompt_cache_key")}
SHARED_FIELDS = frozenset(FIELDS.keys() - OWN_FIELDS.keys() - {"tools"})
THINKING_FIELDS = {"thinking", "effort", "own_effort", "options"}


def _combine_thinking(fields: JsonObject) -> None:
    """Combines the switch and the effort from their several places. A switch that is off wins."""
    options = fields.pop("options", {})
    switches = [fields.get("thinking"), options.get("thinking"), options.get("enable_thinking")]
    fields["thinking"] = False if False in switches else True if True in switches else None
    request_fields.combine_efforts(fields, "reasoning_effort")
    if "drop_thinking" in options:
        fields.setdefault("drop_thinking", options["drop_thinking"])
    if "effort" not in fields and "reasoning_effort" in options:
        fields["effort"] = options["reasoning_effort"]
        fields["effort_path"] = "chat_template_kwargs.reasoning_effort"
    wanted = fields.get("effort") not in (None, request_fields.OFF)
    fields["wants_thinking"] = fields["thinking"] is True or wanted


# A neutral request -> a body.


PROTOCOL_TITLE = "Chat Completions"


def dump_chat_request(request: NeutralRequest) -> dict[str, Any]:
    """The body. Raises `ApiError` for anything that Chat Completions cannot express."""
    messages = [_dump_message(message) for message in neutral.joined_turns(request)]
    if messages[-1]["role"] == "assistant":
        messages[-1]["prefix"] = True
    tools = [_dump_tool(tool) for tool in neutral.function_tools(request, PROTOCOL_TITLE)]
    thinking = neutral.thinking_choice(request)
    return neutral.without_nulls(
        model=request.model,
        messages=messages,
        tools=tools or None,
        tool_choice=_dump_choice(request.choice),
        parallel_tool_calls=request.parallel,
        response_format=_dump_format(request.format),
        thinking=None if thinking is None else {"type": "enabled" if thinking else "disabled"},
        reasoning_effort=None if request.effort == OFF or thinking is False else request.effort,
        max_tokens=request.max_tokens,
        stop=list(request.stop) or None,
        stream=request.stream or None,
        stream_options={"include_usage": True} if request.include_usage else None,
        n=request.n if request.n > 1 else None,
        logprobs=request.logprobs or None,
        top_logprobs=request.top_logprobs or None,
        **_dump_sampling(request.sampling),
        user=request.user,
        prompt_cache_key=request.cache_key,
    )


def _dump_sampling(sampling: neutral.Sampling) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(sampling, name) for name in neutral.Sampling.__slots__}
    if sampling.logit_bias is not None:
        fields["logit_bias"] = {str(id): logit for id, logit in sampling.logit_bias}
    return fields


def _dump_message(message: neutral.Entry) -> JsonObject:
    if message["role"] == "assistant":
        return _dump_assistant(message)
    fields: JsonObject = {"role": message["role"], "content": _dump_content(message["content"])}
    if message["role"] == "tool":
        fields["tool_call_id"] = message["tool_call_id"]
    return fields


def _dump_assistant(message: neutral.AssistantEntry) -> JsonObject:
    fields: JsonObject = {"role": "assistant", "content": message.get("content") or ""}
    if thinking := message.get("reasoning_content"):
        fields["reasoning_content"] = thinking
    calls = [_dump_call(call) for call in neutral.function_calls(message, PROTOCOL_TITLE)]
    if calls:
        fields["tool_calls"] = calls
    return fields


def _dump_call(call: contents.HistoryCall) -> JsonObject:
    function = call["function"]
    arguments = neutral.arguments_text(function["arguments"])
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _dump_content(content: Content) -> str | list[JsonObject]:
    if isinstance(content, str):
        return content
    return [
        {field: value for field, value in block.items() if field != "path"}
        for block in contents.sayable(content)
    ]


def _dump_tool(tool: RequestTool) -> dict[str, Any]:
    function = neutral.without_nulls(
        name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict
    )
    return {"type": "function", "function": function}


def _dump_choice(choice: neutral.NeutralToolChoice) -> Any:
    if choice.tool is not None:
        return {"type": "function", "function": {"name": choice.tool[1]}}
    return None if choice.mode == "auto" else choice.mode


def _dump_format(form: neutral.AnswerFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if form.schema is None:
        return {"type": "json_object"}
    schema = neutral.without_nulls(
        name=form.name or "response", schema=form.schema, strict=form.strict
    )
    return {"type": "json_schema", "json_schema": schema}
