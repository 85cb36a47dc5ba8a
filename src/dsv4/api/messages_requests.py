"""Messages requests: a body is read into a neutral request, and dumped from one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Literal

from dsv4._format.dialects import Dialect
from dsv4.api import neutral_request as neutral
from dsv4.api import request_content as contents
from dsv4.api import request_fields
from dsv4.api.api_request import DEFAULT_SETTINGS, ApiRequest, ApiSettings, resolve
from dsv4.api.errors import ApiError, wrong
from dsv4.api.neutral_request import NeutralRequest, RequestTool, RequestTools
from dsv4.api.request_content import BlockContent, BlockReader, Content
from dsv4.api.request_fields import OFF, Body, Check, JsonObject, clean, json_body
from dsv4.types import DialectName

# A body -> a neutral request.


ROLES = ("user", "assistant", "system")
ERROR_PREFIX = "Error: "


def read(
    body: Body, *, dialect: DialectName | Dialect | None = None, settings: ApiSettings | None = None
) -> ApiRequest:
    """A Messages request, or one to count its tokens.

    `body` is bytes of JSON, or the object they spell, which is not changed. `dialect` is the
    release of the format to write: that of the body's model where None. `settings` are the
    server's. Nothing is stored here: a caller that keeps threads puts the messages, the tools and
    the system text of `thread` into the body first. Raises `ApiError`.
    """
    request = neutral_messages_request(json_body(body))
    return resolve(request, "messages", dialect, settings or DEFAULT_SETTINGS)


def neutral_messages_request(body: JsonObject) -> NeutralRequest:
    """The neutral request of a body."""
    fields = request_fields.shared_fields(body, FIELDS)
    if "messages" not in fields:
        raise wrong(body.get("messages"), "a list of messages", "messages")
    items = fields["messages"]
    if not items:
        raise ApiError("found no message, expected at least one", path="messages")
    system = fields.pop("system", "")
    messages: list[neutral.Entry] = [{"role": "system", "content": system}] if system else []
    for n, message in enumerate(items):
        messages += _read_message(message, f"messages[{n}]")
    fields |= {"messages": messages, "message_count": len(items), **fields.pop("output", {})}
    request_fields.combine_efforts(fields, "output_config.effort")
    fields["wants_thinking"] = fields.get("thinking") is True
    if "choice" in fields:
        fields["choice"], fields["parallel"] = fields["choice"]
    neutral.combine_sampling(fields)
    return NeutralRequest(fields)


# Messages.


def _read_message(message: object, path: str) -> list[neutral.Entry]:
    if not isinstance(message, dict):
        raise wrong(message, 'a message: an object with a "role"', path)
    role, content = message.get("role"), message.get("content")
    inside = f"{path}.content"
    if role == "user":
        return read_user_blocks(content, inside, BLOCK_READERS)
    if role == "assistant":
        return neutral.weighed([_read_assistant(content, inside)], message)
    if role == "system":
        text = contents.system_content(content, inside, BLOCK_READERS)
        return [{"role": "system", "content": text}] if text else []
    raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")


def read_user_blocks(
    content: object, path: str, readers: Mapping[str, BlockReader]
) -> list[neutral.Entry]:
    """The messages of a user's blocks: one for each tool result, one for the blocks in between."""
    if content is None or isinstance(content, str):
        return [{"role": "user", "content": clean(content or "")}]
    messages: list[neutral.Entry] = []
    parts: list[BlockContent] = []
    blocks = request_fields.json_list(content, path)
    for n, block in enumerate(blocks):
        where = f"{path}[{n}]"
        if isinstance(block, dict) and block.get("type") == "tool_result":
            _add_user(parts, messages)
            parts = []
            messages.append(_read_result(block, where, readers))
        else:
            parts.append(contents.read_block(block, where, readers))
    if not messages or parts:
        _add_user(parts or [""], messages)
    return messages


def _add_user(parts: list[BlockContent], messages: list[neutral.Entry]) -> None:
    if parts:
        messages.append({"role": "user", "content": contents.joined_content(parts)})


def _read_result(
    block: JsonObject, path: str, readers: Mapping[str, BlockReader]
) -> neutral.ResultEntry:
    id = request_fields.maybe_text_at(block, "tool_use_id", path)
    content = contents.content_of(block.get("content"), f"{path}.content", readers)
    failed = block.get("is_error")
    if failed is not None and request_fields.boolean(failed, f"{path}.is_error"):
        content = _marked_as_error(content)
    return {"role": "tool", "tool_call_id": id, "content": content}


def _marked_as_error(content: Content) -> Content:
    if isinstance(content, str):
        return ERROR_PREFIX + content
    first = content[0]
    if first["type"] == "text":
        return [{**first, "text": ERROR_PREFIX + first["text"]}, *content[1:]]
    return [{"type": "text", "text": ERROR_PREFIX}, *content]


def _read_assistant(content: object, path: str) -> neutral.AssistantEntry:
    if content is None or isinstance(content, str):
        return {"role": "assistant", "content": clean(content or "")}
    parts: list[BlockContent] = []
    thoughts: list[str] = []
    calls: list[contents.HistoryCall] = []
    marks: list[str] = []
    for n, block in enumerate(request_fields.json_list(content, path)):
        where = f"{path}[{n}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            thoughts.append(request_fields.maybe_text_at(block, "thinking", where) or "")
            marks.append(request_fields.maybe_text_at(block, "signature", where) or "")
        elif kind == "tool_use":
            calls.append(_read_call(block, where))
        else:
            parts.append(contents.read_block(block, where, ASSISTANT_BLOCK_READERS))
    message: neutral.AssistantEntry = {
        "role": "assistant",
        "content": contents.joined_content(filter(None, parts)),
    }
    if any(thoughts):
        message["reasoning_content"] = contents.BLANK_LINE.join(filter(None, thoughts))
    if calls:
        message["tool_calls"] = calls
    if any(marks):
        message["marks"] = tuple(filter(None, marks))
    return message


def _read_call(block: JsonObject, path: str) -> contents.HistoryCall:
    name = request_fields.text(block.get("name"), f"{path}.name")
    arguments = contents.arguments_of(block.get("input"), f"{path}.input")
    return contents.history_call(block.get("id"), name, arguments, f"{path}.id")


# Blocks.


def _read_document(block: JsonObject, path: str) -> BlockContent:
    """A document as its title, its context, and its text and images."""
    about = [request_fields.maybe_text_at(block, field, path) for field in ("title", "context")]
    return contents.joined_content(filter(None, [*about, _document_content(block, path)]))


def _document_content(block: JsonObject, path: str) -> Content:
    source = block.get("source")
    if source is None:
        return contents.UNSUPPORTED_DOCUMENT
    where = f"{path}.source"
    fields = request_fields.json_object(source, where)
    kind = request_fields.type_at(fields, where)
    if kind == "text":
        return request_fields.maybe_text_at(fields, "data", where) or contents.UNSUPPORTED_DOCUMENT
    if kind == "content":
        content = contents.content_of(fields.get("content"), f"{where}.content", BLOCK_READERS)
        return content or contents.UNSUPPORTED_DOCUMENT
    return contents.UNSUPPORTED_DOCUMENT


def _read_search_result(block: JsonObject, path: str) -> BlockContent:
    """A search result as its title, its source and its text."""
    texts = [request_fields.maybe_text_at(block, field, path) for field in ("title", "source")]
    content = contents.content_of(block.get("content"), f"{path}.content", BLOCK_READERS)
    return contents.joined_content(filter(None, ["\n".join(filter(None, texts)), content]))


def _read_reference(block: JsonObject, path: str) -> BlockContent:
    """The name of a tool that a search has found."""
    return request_fields.name_at(block, path, "tool_name")


BLOCK_READERS: dict[str, BlockReader] = {
    "text": contents.read_text_block,
    "image": contents.read_anthropic_image,
    "document": _read_document,
    "tool_reference": _read_reference,
    "search_result": _read_search_result,
    # A summary that a server wrote to replace the conversation before it.
    "compaction": contents.text_reader("content"),
}
ASSISTANT_BLOCK_READERS: dict[str, BlockReader] = {
    **BLOCK_READERS,
    "redacted_thinking": contents.no_content,
}


# Tools.


def _read_tools(value: object, path: str) -> RequestTools:
    tools: list[RequestTool] = []
    ignored: list[str] = []
    for tool, where in request_fields.objects_at(value, path):
        kind = tool.get("type")
        if kind is not None and not isinstance(kind, str):
            raise wrong(kind, 'a type, such as "custom"', f"{where}.type")
        if kind in (None, "custom"):
            tools.append(neutral.read_function(tool, where, "input_schema"))
        else:
            ignored.append(request_fields.maybe_text_at(tool, "name", where) or clean(kind))
    return RequestTools(tuple(tools), tuple(ignored))


CHOICE_MODES: dict[str, Literal["auto", "none", "required", "tool"]] = {
    "auto": "auto",
    "any": "required",
    "tool": "tool",
    "none": "none",
}


def _read_choice(value: object, path: str) -> tuple[neutral.NeutralToolChoice, bool | None]:
    """The choice, and whether it allows parallel calls (None if it does not say)."""
    choice = request_fields.json_object(value, path)
    kind = request_fields.one_of(*CHOICE_MODES)(choice.get("type"), f"{path}.type")
    single = choice.get("disable_parallel_tool_use")
    if single is not None:
        request_fields.boolean(single, f"{path}.disable_parallel_tool_use")
    parallel = None if single is None else not single
    mode = CHOICE_MODES[kind]
    if mode == "tool":
        key = (None, request_fields.name_at(choice, path))
        return neutral.NeutralToolChoice(mode, key, path=f"{path}.name"), parallel
    return neutral.NeutralToolChoice(mode), parallel


# Everything else.


def _read_system(value: object, path: str) -> Content:
    return contents.system_content(value, path, BLOCK_READERS)


def _read_format(value: object, path: str) -> neutral.AnswerFormat:
    fields = request_fields.json_object(value, path)
    request_fields.one_of("json_schema")(fields.get("type"), f"{path}.type")
    return neutral.read_answer_format(fields, path)


def _read_user_id(value: object, path: str) -> str | None:
    return request_fields.maybe_text_at(request_fields.json_object(value, path), "user_id", path)


OUTPUT_FIELDS: dict[str, Check] = {"effort": request_fields.effort, "format": _read_format}

# Fields that are read: the name that all protocols share for each, and its check.
FIELDS: dict[str, tuple[str, Check]] = {
    "messages": ("messages", request_fields.json_list),
    "system": ("system", _read_system),
    "model": ("model", request_fields.text),
    "tools": ("declared", neutral.cached_tools(_read_tools, "messages")),
    "tool_choice": ("choice", _read_choice),
    **request_fields.OWN_OPTIONS,
    "output_config": ("output", request_fields.fields_check(OUTPUT_FIELDS)),
    "output_format": ("format", _read_format),
    "max_tokens": ("max_tokens", request_fields.whole_number(1)),
    "stop_sequences": ("stop", request_fields.texts),
    "stream": ("stream", request_fields.boolean),
    "temperature": ("temperature", request_fields.number(0)),
    "top_p": ("top_p", request_fields.number(0, 1)),
    "top_k": ("top_k", request_fields.whole_number(-1)),
    "metadata": ("user", _read_user_id),
    **request_fields.unsupported_fields("messages"),
}


# A neutral request -> a body.


PROTOCOL_TITLE = "Messages"
CHOICE_TYPES = {mode: kind for kind, mode in CHOICE_MODES.items()}
_DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def dump_messages_request(request: NeutralRequest) -> dict[str, Any]:
    """The body. Raises `ApiError` for anything that Messages cannot express."""
    system, messages = _dump_conversation(list(neutral.joined_turns(request)))
    thinking = neutral.thinking_choice(request)
    switch = None if thinking is None else {"type": "adaptive" if thinking else "disabled"}
    output = neutral.without_nulls(
        effort=None if request.effort == OFF or thinking is False else request.effort,
        format=_dump_format(request.format),
    )
    return neutral.without_nulls(
        model=request.model,
        system=system or None,
        messages=messages,
        max_tokens=request.max_tokens or _max_tokens(request, thinking),
        tools=[_dump_tool(tool) for tool in neutral.function_tools(request, PROTOCOL_TITLE)]
        or None,
        tool_choice=_dump_choice(request.choice, request.parallel),
        thinking=switch,
        output_config=output or None,
        stop_sequences=list(request.stop) or None,
        stream=request.stream or None,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        top_k=request.sampling.top_k,
        metadata={"user_id": request.user} if request.user is not None else None,
    )


def _max_tokens(request: NeutralRequest, thinking: bool | None) -> int:
    """dsv4's default for `max_tokens`: Messages requires the field."""
    if thinking is False:
        return DEFAULT_SETTINGS.max_tokens
    most = request.effort in ("max", "ultra")
    return DEFAULT_SETTINGS.max_tokens_max_effort if most else DEFAULT_SETTINGS.max_tokens_thinking


def _dump_conversation(messages: list[neutral.Entry]) -> tuple[list[JsonObject], list[JsonObject]]:
    """The system texts at the beginning, and the rest as one message for each turn."""
    first = 0
    while first < len(messages) - 1 and messages[first]["role"] == "system":
        first += 1
    system = [{"type": "text", "text": message["content"]} for message in messages[:first]]
    turns: list[JsonObject] = []
    for is_user, run in groupby(messages[first:], _is_user):
        if is_user:
            turns.append({"role": "user", "content": _dump_user(run)})
        else:
            turns += (_dump_other(message) for message in run)
    return system, turns


def _is_user(message: neutral.Entry) -> bool:
    """Whether a message belongs to the user's side: results are blocks of the user's messages."""
    return message["role"] in ("user", "tool")


def _dump_other(message: neutral.Entry) -> JsonObject:
    if message["role"] == "assistant":
        return {"role": "assistant", "content": _dump_assistant(message)}
    return {"role": message["role"], "content": message["content"]}


def _dump_user(run: Iterable[neutral.Entry]) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for message in run:
        content = _dump_content(message["content"])
        if message["role"] == "tool":
            result: JsonObject = {"type": "tool_result", "content": content}
            if message["tool_call_id"] is not None:
                result["tool_use_id"] = message["tool_call_id"]
            blocks.append(result)
        else:
            blocks += content
    return blocks


def _dump_content(content: Content) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        dict(block) if block["type"] == "text" else _dump_image(block)
        for block in contents.sayable(content)
    ]


def _dump_image(block: contents.ImageBlock) -> JsonObject:
    url = block["image_url"]["url"]
    data = _DATA_URL.fullmatch(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    source = {"type": "base64", "media_type": data.group(1), "data": data.group(2)}
    return {"type": "image", "source": source}


def _dump_assistant(message: neutral.AssistantEntry) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if thinking := message.get("reasoning_content"):
        signature = (message.get("marks") or (neutral.mark_id(""),))[0]
        blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
    if message.get("content"):
        blocks.append({"type": "text", "text": message["content"]})
    for call in neutral.function_calls(message, PROTOCOL_TITLE):
        function = call["function"]
        arguments = neutral.arguments_object(function["arguments"])
        block = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}
        blocks.append({field: value for field, value in block.items() if value is not None})
    return blocks


def _dump_tool(tool: RequestTool) -> dict[str, Any]:
    return neutral.without_nulls(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        strict=tool.strict,
    )


def _dump_choice(choice: neutral.NeutralToolChoice, parallel: bool | None) -> dict[str, Any] | None:
    if choice.mode == "auto" and parallel is not False:
        return None
    fields: dict[str, Any] = {"type": CHOICE_TYPES[choice.mode]}
    if choice.tool is not None:
        fields["name"] = choice.tool[1]
    if parallel is False:
        fields["disable_parallel_tool_use"] = True
    return fields


def _dump_format(form: neutral.AnswerFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    return {"type": "json_schema", "schema": form.schema or {"type": "object"}}
