"""Responses requests: a body is read into a neutral request, dumped from one, and repeated in
the response to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4.api import neutral_request as neutral
from dsv4.api import request_content as contents
from dsv4.api import request_fields
from dsv4.api.api_request import DEFAULT_SETTINGS, ApiRequest, ApiSettings, resolve
from dsv4.api.errors import ApiError, wrong
from dsv4.api.neutral_request import NeutralRequest, RequestTool, RequestTools
from dsv4.api.request_content import BlockReader, Content
from dsv4.api.request_fields import OFF, Body, Check, JsonObject, clean, json_body
from dsv4.types import DialectName, TextPartParam

# Fields of its request that a response repeats.


# The efforts in the vendor's types. Any other value is not repeated.
ECHOED_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
GRAMMAR_SYNTAXES = ("lark", "regex")


def echoed_fields(body: JsonObject, fields: dict[str, Any]) -> JsonObject:
    """The fields of a response that come from the request, each valid or null.

    `fields` are those that were read; the others are taken from `body`.
    """
    effort = fields.get("effort")
    return {
        "instructions": fields.get("instructions") or None,
        "max_output_tokens": fields.get("max_tokens"),
        "metadata": _echoed_metadata(body.get("metadata")),
        "parallel_tool_calls": fields.get("parallel", True),
        "previous_response_id": None,
        "reasoning": {"effort": effort if effort in ECHOED_EFFORTS else None, "summary": None},
        "store": False,
        "temperature": fields.get("temperature"),
        "text": {"format": dump_format(fields.get("format"))},
        "tool_choice": dump_choice(fields.get("choice", neutral.AUTO)),
        "tools": dump_tools(fields.get("declared", neutral.NO_TOOLS)),
        "top_p": fields.get("top_p"),
        "truncation": "disabled",
        "user": fields.get("user"),
    }


def _echoed_metadata(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    plain = all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
    return value if plain else None


def dump_format(form: neutral.AnswerFormat | None) -> dict[str, Any]:
    if form is None:
        return {"type": "text"}
    if form.schema is None:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": form.name or "response",
        "schema": form.schema,
        "strict": form.strict,
    }


def dump_choice(choice: neutral.NeutralToolChoice) -> str | JsonObject:
    if choice.allowed is not None:
        listed = [{"type": "function", "name": name} for _, name in sorted(choice.allowed, key=str)]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": listed}
    if choice.tool is not None:
        return {"type": "function", "name": choice.tool[1]}
    return choice.mode


@lru_cache(neutral.CACHE_ENTRIES)
def dump_tools(declared: RequestTools) -> list[dict[str, Any]]:
    """The tools as Responses writes them, those of a namespace inside it."""
    echoed: list[dict[str, Any]] = []
    spaces: dict[str, dict[str, Any]] = {}
    for tool in declared.tools:
        if tool.namespace is None:
            echoed.append(_dump_tool(tool))
            continue
        if tool.namespace not in spaces:
            spaces[tool.namespace] = _dump_namespace(tool)
            echoed.append(spaces[tool.namespace])
        spaces[tool.namespace]["tools"].append(_dump_tool(tool))
    return echoed


def _dump_namespace(tool: RequestTool) -> dict[str, Any]:
    description = tool.namespace_description or ""
    return {"type": "namespace", "name": tool.namespace, "description": description, "tools": []}


def _dump_tool(tool: RequestTool) -> dict[str, Any]:
    echoed: dict[str, Any] = {"type": tool.kind, "name": tool.name}
    if tool.description is not None:
        echoed["description"] = tool.description
    if tool.kind == "custom":
        if _is_valid_format(tool.format):
            echoed["format"] = tool.format
        return echoed
    return {**echoed, "parameters": tool.parameters, "strict": tool.strict}


def _is_valid_format(form: JsonObject | None) -> bool:
    if form is None:
        return False
    grammar = form.get("syntax") in GRAMMAR_SYNTAXES and isinstance(form.get("definition"), str)
    return form.get("type") == "text" or (form.get("type") == "grammar" and grammar)


# A body -> a neutral request.


ROLES = ("user", "system", "developer", "assistant")


def read(
    body: Body, *, dialect: DialectName | Dialect | None = None, settings: ApiSettings | None = None
) -> ApiRequest:
    """A Responses request.

    `body` is bytes of JSON, or the object they spell, which is not changed. `dialect` is the
    release of the format to write: that of the body's model where None. `settings` are the
    server's. Nothing is stored here: a caller that stores responses puts the items of
    `previous_response_id` into `input` first. Raises `ApiError`.
    """
    request = neutral_responses_request(json_body(body))
    return resolve(request, "responses", dialect, settings or DEFAULT_SETTINGS)


def neutral_responses_request(body: JsonObject) -> NeutralRequest:
    """The neutral request of a body."""
    fields = request_fields.shared_fields(body, FIELDS)
    _refuse_stored(body)
    if "items" not in fields:
        raise wrong(body.get("input"), "text or a list of items", "input")
    fields |= fields.pop("text", {})
    fields |= fields.pop("reasoning", {})
    fields["echo"] = echoed_fields(body, fields)
    instructions, items = fields.pop("instructions", None), fields.pop("items")
    messages: list[neutral.Entry] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for n, item in enumerate(items):
        messages += _read_item(item, f"input[{n}]")
    fields |= {"messages": messages, "path": "input", "message_count": len(items)}
    request_fields.combine_efforts(fields, "reasoning.effort")
    effort = fields.get("effort")
    if effort is not None:
        fields["wants_thinking"] = effort != OFF
        fields["thinking"] = fields["wants_thinking"] and fields.get("thinking") is not False
    fields["logprobs"] = fields.get("logprobs", False) or bool(fields.get("top_logprobs"))
    neutral.combine_sampling(fields)
    return NeutralRequest(fields)


def _refuse_stored(body: JsonObject) -> None:
    """Refuses fields that would need stored items, or a response made later."""
    for field in ("previous_response_id", "conversation", "prompt", "background"):
        if body.get(field):
            message = "found a reference, expected the items themselves: nothing is stored here"
            if field == "background":
                message = "found true, expected false: a response is made while its client waits"
            raise ApiError(message, path=field)


# Items. Each is a message of its own: those of one assistant turn are joined later.


def _read_input(value: object, path: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "user", "content": clean(value)}]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise wrong(value, "text or a list of items", path)


def _read_item(item: object, path: str) -> list[neutral.Entry]:
    if not isinstance(item, dict):
        raise wrong(item, "an item: an object", path)
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if not isinstance(kind, str):
        raise wrong(kind, 'a type, such as "message"', f"{path}.type")
    reader = ITEM_READERS.get(kind)
    entries = _unknown_item(clean(kind)) if reader is None else reader(item, path)
    return neutral.weighed(entries, item)


def _unknown_item(kind: str) -> list[neutral.Entry]:
    """A text that names an item of an unknown type: a call as the model's, others as the user's."""
    if kind.endswith("_call"):
        return [{"role": "assistant", "content": contents.unsupported_text(kind)}]
    return [{"role": "user", "content": contents.unsupported_text(kind)}]


def _read_message(item: JsonObject, path: str) -> list[neutral.Entry]:
    role, content, inside = item.get("role"), item.get("content"), f"{path}.content"
    if role == "user":
        return [{"role": "user", "content": contents.content_of(content, inside, PART_READERS)}]
    if role == "assistant":
        return [
            {"role": "assistant", "content": contents.content_of(content, inside, PART_READERS)}
        ]
    if role in ("system", "developer"):
        text = contents.system_content(content, inside, PART_READERS)
        return [{"role": "system", "content": text}] if text else []
    raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")


def _read_reasoning(item: JsonObject, path: str) -> list[neutral.Entry]:
    """Thinking: its text, or else the text in dsv4's own mark, or else its summary."""
    content = _joined_texts(item, "content", path)
    summary = _joined_texts(item, "summary", path)
    mark = request_fields.maybe_text_at(item, "encrypted_content", path) or ""
    text = content or neutral.marked_text(mark) or summary
    message: neutral.AssistantEntry = {
        "role": "assistant",
        "reasoning_content": text,
        "content": "",
    }
    if mark:
        message["marks"] = (mark,)
    return [message]


def _joined_texts(item: JsonObject, field: str, path: str) -> str:
    """The text of a field: a list of parts with text, or the text itself."""
    value, where = item.get(field), f"{path}.{field}"
    if value is None or isinstance(value, str):
        return clean(value or "")
    parts = [contents.read_text_block(*each) for each in request_fields.objects_at(value, where)]
    return contents.BLANK_LINE.join(part for part in parts if isinstance(part, str) and part)


def _read_call(item: JsonObject, path: str) -> list[neutral.Entry]:
    arguments = contents.arguments_of(item.get("arguments"), f"{path}.arguments")
    return _assistant_call(item, arguments, path)


def _read_custom_call(item: JsonObject, path: str) -> list[neutral.Entry]:
    text = request_fields.maybe_text_at(item, "input", path) or ""
    return _assistant_call(item, {neutral.CUSTOM_INPUT: text}, path)


def _assistant_call(
    item: JsonObject, arguments: contents.Arguments, path: str
) -> list[neutral.Entry]:
    name = request_fields.text(item.get("name"), f"{path}.name")
    namespace = request_fields.maybe_text_at(item, "namespace", path)
    call = contents.history_call(item.get("call_id"), name, arguments, f"{path}.call_id", namespace)
    return [{"role": "assistant", "content": "", "tool_calls": [call]}]


def _read_output(item: JsonObject, path: str) -> list[neutral.Entry]:
    id = request_fields.maybe_text_at(item, "call_id", path)
    content = contents.content_of(item.get("output"), f"{path}.output", PART_READERS)
    return [{"role": "tool", "tool_call_id": id, "content": content}]


def _read_screenshot(item: JsonObject, path: str) -> list[neutral.Entry]:
    """The result of a computer call: one picture."""
    output = item.get("output")
    return _read_output({**item, "output": [output] if isinstance(output, dict) else output}, path)


def _read_shell_call(item: JsonObject, path: str) -> list[neutral.Entry]:
    """A call of the client's shell, which has an action instead of arguments."""
    action = contents.arguments_of(item.get("action"), f"{path}.action")
    return _assistant_call({**item, "name": str(item["type"]).removesuffix("_call")}, action, path)


def _read_shell_output(item: JsonObject, path: str) -> list[neutral.Entry]:
    """The output of commands, and how they ended. Older clients send it as one text."""
    output, where = item.get("output"), f"{path}.output"
    if not isinstance(output, (list, tuple)):
        return _read_output(item, path)
    texts = [_shell_text(*each) for each in request_fields.objects_at(output, where)]
    id = request_fields.maybe_text_at(item, "call_id", path)
    return [{"role": "tool", "tool_call_id": id, "content": contents.BLANK_LINE.join(texts)}]


def _shell_text(output: JsonObject, path: str) -> str:
    texts = [request_fields.maybe_text_at(output, name, path) for name in ("stdout", "stderr")]
    outcome = output.get("outcome")
    ended = outcome if isinstance(outcome, dict) else {}
    if ended.get("type") == "timeout":
        texts.append("[timed out]")
    elif ended.get("exit_code"):
        texts.append(f"[exit code {ended['exit_code']}]")
    return "\n".join(filter(None, texts))


def _read_compaction(item: JsonObject, path: str) -> list[neutral.Entry]:
    """The summary that replaces the conversation before it, if it can be read."""
    mark = request_fields.maybe_text_at(item, "encrypted_content", path) or ""
    text = neutral.marked_text(mark) or _joined_texts(item, "summary", path)
    return [{"role": "user", "content": text or contents.unsupported_text("compaction")}]


def _refuse_reference(item: JsonObject, path: str) -> list[neutral.Entry]:
    message = "found a reference, expected the item itself: nothing is stored here"
    raise ApiError(message, path=path)


ITEM_READERS = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "custom_tool_call": _read_custom_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "shell_call": _read_shell_call,
    "local_shell_call": _read_shell_call,
    "shell_call_output": _read_shell_output,
    "local_shell_call_output": _read_shell_output,
    "apply_patch_call_output": _read_output,
    "computer_call_output": _read_screenshot,
    "compaction": _read_compaction,
    "compaction_summary": _read_compaction,
    "item_reference": _refuse_reference,
}


PART_READERS: dict[str, BlockReader] = {
    **dict.fromkeys(
        ("input_text", "output_text", "text", "summary_text"), contents.read_text_block
    ),
    "refusal": contents.text_reader("refusal"),
    **dict.fromkeys(
        ("input_image", "image_url", "computer_screenshot"), contents.read_openai_image
    ),
}


# Tools.


def _read_tools(value: object, path: str) -> RequestTools:
    tools: list[RequestTool] = []
    ignored: list[str] = []
    for tool, where in request_fields.objects_at(value, path):
        kind = request_fields.type_at(tool, where)
        if kind == "namespace":
            tools += _read_namespace(tool, where, ignored)
        elif kind in TOOL_READERS:
            tools.append(TOOL_READERS[kind](tool, where))
        else:
            ignored.append(kind)
    return RequestTools(tuple(tools), tuple(ignored))


def _read_namespace(item: JsonObject, path: str, ignored: list[str]) -> list[RequestTool]:
    name = request_fields.name_at(item, path)
    description = request_fields.maybe_text_at(item, "description", path)
    tools = []
    for fields, where in request_fields.objects_at(item.get("tools"), f"{path}.tools"):
        kind = request_fields.type_at(fields, where)
        if kind in TOOL_READERS:
            tool = TOOL_READERS[kind](fields, where)
            tools.append(replace(tool, namespace=name, namespace_description=description))
        else:
            ignored.append(kind)
    return tools


def _read_custom(item: JsonObject, path: str) -> RequestTool:
    form = item.get("format")
    if form is not None:
        request_fields.json_object(form, f"{path}.format")
        request_fields.maybe_text_at(form, "definition", f"{path}.format")
        request_fields.maybe_text_at(form, "syntax", f"{path}.format")
    description = request_fields.maybe_text_at(item, "description", path)
    return RequestTool(
        request_fields.name_at(item, path), path, description, kind="custom", format=form
    )


TOOL_READERS: dict[str, Callable[[JsonObject, str], RequestTool]] = {
    "function": neutral.read_function,
    "custom": _read_custom,
}


def _read_choice(value: object, path: str) -> neutral.NeutralToolChoice:
    return neutral.read_openai_choice(value, path, TOOL_READERS, _tool_key)


def _tool_key(value: object, path: str) -> neutral.ToolKey | None:
    """The key of the chosen tool, None for one that cannot be run here."""
    tool = request_fields.json_object(value, path)
    if request_fields.type_at(tool, path) not in TOOL_READERS:
        return None
    namespace = request_fields.maybe_text_at(tool, "namespace", path)
    return namespace, request_fields.name_at(tool, path)


# Everything else.


def _read_instructions(value: object, path: str) -> str:
    return contents.without_billing(request_fields.text(value, path))


def _wants_logprobs(value: object, path: str) -> bool:
    """Whether `include` asks for log probabilities, the only thing that is not sent unasked."""
    return "message.output_text.logprobs" in request_fields.json_list(value, path)


REASONING: dict[str, Check] = {
    "effort": request_fields.effort,
    "context": request_fields.REASONING_CONTEXT,
}
TEXT: dict[str, Check] = {"format": neutral.read_openai_format}

# Fields that are read: the name that all protocols share for each, and its check.
FIELDS: dict[str, tuple[str, Check]] = {
    "input": ("items", _read_input),
    "instructions": ("instructions", _read_instructions),
    "model": ("model", request_fields.text),
    "tools": ("declared", neutral.cached_tools(_read_tools, "responses")),
    "tool_choice": ("choice", _read_choice),
    "parallel_tool_calls": ("parallel", request_fields.boolean),
    "text": ("text", request_fields.fields_check(TEXT)),
    "reasoning": ("reasoning", request_fields.fields_check(REASONING)),
    **request_fields.OWN_OPTIONS,
    "max_output_tokens": ("max_tokens", request_fields.whole_number(1)),
    "stream": ("stream", request_fields.boolean),
    "include": ("logprobs", _wants_logprobs),
    "top_logprobs": ("top_logprobs", request_fields.whole_number(0, 20)),
    "temperature": ("temperature", request_fields.number(0)),
    "top_p": ("top_p", request_fields.number(0, 1)),
    "user": ("user", request_fields.text),
    "prompt_cache_key": ("cache_key", request_fields.text),
    "background": ("background", request_fields.boolean),
}


# A neutral request -> a body.


def dump_responses_request(request: NeutralRequest) -> dict[str, Any]:
    """The body. Raises `ApiError` for anything that Responses cannot express."""
    items = [
        item for message in neutral.joined_turns(request) for item in _dump_items(message, request)
    ]
    effort = _dump_effort(request)
    return neutral.without_nulls(
        model=request.model,
        input=items,
        tools=dump_tools(request.declared) or None,
        tool_choice=dump_choice(request.choice),
        parallel_tool_calls=request.parallel,
        text=None if request.format is None else {"format": dump_format(request.format)},
        reasoning=None if effort is None else {"effort": effort},
        max_output_tokens=request.max_tokens,
        stream=request.stream or None,
        include=["message.output_text.logprobs"] if request.logprobs else None,
        top_logprobs=request.top_logprobs or None,
        temperature=request.sampling.temperature,
        top_p=request.sampling.top_p,
        user=request.user,
        prompt_cache_key=request.cache_key,
    )


def _dump_effort(request: NeutralRequest) -> str | int | None:
    """The effort, which is the only thinking switch that Responses has."""
    thinking = neutral.thinking_choice(request)
    if thinking is False:
        return OFF
    return DEFAULT_SETTINGS.effort if thinking and request.effort is None else request.effort


def _dump_items(message: neutral.Entry, request: NeutralRequest) -> list[JsonObject]:
    if message["role"] == "assistant":
        return _dump_assistant(message, request)
    if message["role"] == "tool":
        output = _dump_content(message["content"])
        return [
            {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}
        ]
    content = _dump_content(message["content"])
    return [{"type": "message", "role": message["role"], "content": content}]


def _dump_content(content: Content) -> str | list[JsonObject]:
    if isinstance(content, str):
        return content
    return [_dump_part(block) for block in contents.sayable(content)]


def _dump_part(block: TextPartParam | contents.ImageBlock) -> JsonObject:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["image_url"]
    return {
        "type": "input_image",
        "image_url": source["url"],
        "detail": source.get("detail", "auto"),
    }


def _dump_assistant(message: neutral.AssistantEntry, request: NeutralRequest) -> list[JsonObject]:
    items: list[JsonObject] = []
    if thinking := message.get("reasoning_content"):
        thought = {"type": "reasoning_text", "text": thinking}
        items.append({"type": "reasoning", "summary": [], "content": [thought]})
    calls = [_dump_call(call, request) for call in message.get("tool_calls", ())]
    if message.get("content") or not (items or calls):  # an empty turn is a message too
        fields = {"type": "output_text", "text": message["content"], "annotations": []}
        items.append({"type": "message", "role": "assistant", "content": [fields]})
    return [*items, *calls]


def _dump_call(call: contents.HistoryCall, request: NeutralRequest) -> JsonObject:
    function = call["function"]
    head = {"call_id": call["id"], "name": function["name"]}
    if "namespace" in call:
        head["namespace"] = call["namespace"]
    arguments = neutral.arguments_object(function["arguments"])
    is_custom = (call.get("namespace"), function["name"]) in _custom_tool_keys(request)
    if is_custom and [*arguments] == [neutral.CUSTOM_INPUT]:
        return {"type": "custom_tool_call", **head, "input": arguments[neutral.CUSTOM_INPUT]}
    return {
        "type": "function_call",
        **head,
        "arguments": neutral.arguments_text(function["arguments"]),
    }


def _custom_tool_keys(request: NeutralRequest) -> set[neutral.ToolKey]:
    return {tool.key for tool in request.declared.tools if tool.kind == "custom"}
