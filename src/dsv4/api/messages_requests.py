"""Messages requests: a body is read into a neutral request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dsv4._format.dialects import Dialect
from dsv4.api import neutral_request as neutral
from dsv4.api import request_content as contents
from dsv4.api import request_fields
from dsv4.api.api_request import DEFAULT_SETTINGS, ApiRequest, ApiSettings, resolve
from dsv4.api.errors import ApiError, wrong
from dsv4.api.neutral_request import NeutralRequest, RequestTool, RequestTools
from dsv4.api.request_content import BlockContent, BlockReader, Content
from dsv4.api.request_fields import Body, Check, JsonObject, clean, json_body
from dsv4.types import DialectName

# A body -> a neutral request.


ROLES = ("user", "assistant", "system")
ERROR_PREFIX = "Error: "


def read(
    body: Body, *, dialect: DialectName | Dialect | None = None, settings: ApiSettings | None = None
) -> ApiRequest:
    """A Messages request, or one to count its tokens.

    `body` is bytes of JSON, or what they say, which is not changed. `dialect` is the release of the
    format to write: that of the body's model where None. `settings` are the server's. Nothing is
    stored here: whoever keeps threads puts the messages, the tools and the system text of `thread`
    into the body first. Raises `ApiError`.
    """
    request = neutral_messages_request(json_body(body))
    return resolve(request, "messages", dialect, settings or DEFAULT_SETTINGS)


def neutral_messages_request(body: JsonObject) -> NeutralRequest:
    """What a body asks for."""
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
    """Results of tools are messages of their own, and so is what stands between them."""
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
    """A document as its title, what is said about it, and its text and images."""
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
    """What a search found: where, and its text."""
    texts = [request_fields.maybe_text_at(block, field, path) for field in ("title", "source")]
    content = contents.content_of(block.get("content"), f"{path}.content", BLOCK_READERS)
    return contents.joined_content(filter(None, ["\n".join(filter(None, texts)), content]))


def _read_reference(block: JsonObject, path: str) -> BlockContent:
    """A tool that a search has found."""
    return request_fields.name_at(block, path, "tool_name")


BLOCK_READERS: dict[str, BlockReader] = {
    "text": contents.read_text_block,
    "image": contents.read_anthropic_image,
    "document": _read_document,
    "tool_reference": _read_reference,
    "search_result": _read_search_result,
    # What a server wrote in place of the conversation before it.
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
    """The choice, and whether calls may be made in parallel, if it says so."""
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

# Fields that are read: the name that all protocols share, and the check.
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
