"""OpenAI's Responses: a body -> what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import fields, thinking
from dsv4.api.asked import (
    AUTO,
    NO_TOOLS,
    Asked,
    Choice,
    Declared,
    Format,
    Message,
    Sampling,
    Tool,
    ToolKey,
)
from dsv4.api.bodies import body_of, clean
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
    unsupported,
)
from dsv4.api.errors import ApiError, wrong
from dsv4.api.formats import read_schema
from dsv4.api.ids import marked_text
from dsv4.api.request import ApiRequest
from dsv4.api.resolving import resolve
from dsv4.api.responses.echoing import echo_of
from dsv4.api.settings import DEFAULTS, Settings
from dsv4.api.system import system_text
from dsv4.api.tools import INPUT, declared_in, read_allowed, read_function
from dsv4.api.unsupported import REASONING_CONTEXT

ROLES = ("user", "system", "developer", "assistant")


def read(
    body: Any, *, dialect: str | Dialect = "v4", settings: Settings | None = None
) -> ApiRequest:
    """A Responses request.

    `body` is bytes of JSON, or what they say, which is not changed. `dialect` is the release of
    the format to write; `settings` are the server's. Nothing is stored here: whoever stores
    responses puts the items of `previous_response_id` into `input` first. Raises `ApiError`.
    """
    settings = settings or DEFAULTS
    asked = asked_in(body_of(body, settings.loads))
    return resolve(asked, "responses", dialect_named(dialect), settings)


def asked_in(body: dict[str, Any]) -> Asked:
    """What a body asks for."""
    known = fields.checked(body, FIELDS)
    _refuse_stored(body)
    messages: list[Message] = []
    if known.get("instructions"):
        messages.append({"role": "system", "content": known["instructions"]})
    if "input" not in known:
        raise wrong(body.get("input"), "text or a list of items", "input")
    given = known["input"]
    for n, item in enumerate(given):
        messages += _read_item(item, f"input[{n}]")
    reasoning, text = known.get("reasoning", {}), known.get("text", {})
    effort = reasoning.get("effort")
    said = {
        "messages": messages,
        "model": known.get("model"),
        "declared": known.get("tools", NO_TOOLS),
        "choice": known.get("tool_choice", AUTO),
        "format": text.get("format"),
        "thinking": None if effort is None else effort != thinking.OFF,
        "effort": effort,
        "effort_path": "reasoning.effort",
        "wants_thinking": effort not in (None, thinking.OFF),
        "sampling": Sampling(known.get("temperature"), known.get("top_p")),
        "max_tokens": known.get("max_output_tokens"),
        "stream": known.get("stream", False),
        "logprobs": known.get("include", False) or bool(known.get("top_logprobs")),
        "top_logprobs": known.get("top_logprobs", 0),
        "parallel": known.get("parallel_tool_calls"),
        "user": known.get("user"),
        "cache_key": known.get("prompt_cache_key"),
        "path": "input",
        "given": len(given),
        "echo": echo_of(body, known),
    }
    return Asked(said)


def _refuse_stored(body: dict[str, Any]) -> None:
    """What would have to be stored, or done later, to be answered."""
    for field in ("previous_response_id", "conversation", "prompt", "background"):
        if body.get(field):
            message = "found a reference, expected the items themselves: nothing is stored here"
            if field == "background":
                message = "found true, expected false: a response is made while its client waits"
            raise ApiError(message, path=field)


# Items. Each is a message of its own: those of one assistant turn are joined later.


def _input(value: Any, path: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": "user", "content": clean(value)}]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise wrong(value, "text or a list of items", path)


def _read_item(item: Any, path: str) -> list[Message]:
    if not isinstance(item, dict):
        raise wrong(item, "an item: an object", path)
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if not isinstance(kind, str):
        raise wrong(kind, 'a type, such as "message"', f"{path}.type")
    reader = ITEMS.get(kind)
    return _unknown(clean(kind)) if reader is None else reader(item, path)


def _unknown(kind: str) -> list[Message]:
    """An item that nobody here knows, on the side where it must have come from."""
    role = "assistant" if kind.endswith("_call") else "user"
    return [{"role": role, "content": unsupported(kind)}]


def _read_message(item: Block, path: str) -> list[Message]:
    role, content, inside = item.get("role"), item.get("content"), f"{path}.content"
    if role == "user":
        return [{"role": "user", "content": content_of(content, inside, PARTS)}]
    if role == "assistant":
        return [{"role": "assistant", "content": text_content(content, inside, PARTS)}]
    if role in ("system", "developer"):
        text = system_text(content, inside, PARTS)
        return [{"role": "system", "content": text}] if text else []
    raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")


def _read_reasoning(item: Block, path: str) -> list[Message]:
    """Thinking as its text, else as our own mark of it, else as its summary."""
    content = _texts(item, "content", path)
    summary = _texts(item, "summary", path)
    mark = fields.maybe_text_at(item, "encrypted_content", path) or ""
    text = content or marked_text(mark) or summary
    message: Message = {"role": "assistant", "reasoning_content": text, "content": ""}
    if mark:
        message["marks"] = (mark,)
    return [message]


def _texts(item: Block, field: str, path: str) -> str:
    """A list of parts that hold text, or that text itself."""
    value, where = item.get(field), f"{path}.{field}"
    if value is None or isinstance(value, str):
        return clean(value or "")
    parts = [
        read_text(fields.table(part, f"{where}[{n}]"), f"{where}[{n}]")
        for n, part in enumerate(fields.listed(value, where))
    ]
    return BLANK_LINE.join(part for part in parts if isinstance(part, str) and part)


def _read_call(item: Block, path: str) -> list[Message]:
    arguments = arguments_of(item.get("arguments"), f"{path}.arguments")
    return _called(item, arguments, path)


def _read_custom_call(item: Block, path: str) -> list[Message]:
    text = fields.maybe_text_at(item, "input", path) or ""
    return _called(item, {INPUT: text}, path)


def _called(item: Block, arguments: Any, path: str) -> list[Message]:
    name = fields.text(item.get("name"), f"{path}.name")
    namespace = fields.maybe_text_at(item, "namespace", path)
    made = call(item.get("call_id"), name, arguments, f"{path}.call_id", namespace)
    return [{"role": "assistant", "content": "", "tool_calls": [made]}]


def _read_output(item: Block, path: str) -> list[Message]:
    id = fields.maybe_text_at(item, "call_id", path)
    content = content_of(item.get("output"), f"{path}.output", PARTS)
    return [{"role": "tool", "tool_call_id": id, "content": content}]


def _refuse_reference(item: Block, path: str) -> list[Message]:
    message = "found a reference, expected the item itself: nothing is stored here"
    raise ApiError(message, path=path)


ITEMS = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_call,
    "custom_tool_call": _read_custom_call,
    "function_call_output": _read_output,
    "custom_tool_call_output": _read_output,
    "item_reference": _refuse_reference,
}


def _read_image(part: Block, path: str) -> Said:
    source = part.get("image_url")
    if isinstance(source, dict):
        source = source.get("url")
    if source is not None and not isinstance(source, str):
        raise wrong(source, "a URL", f"{path}.image_url")
    return image(clean(source), path, part.get("detail")) if source else UNSUPPORTED_IMAGE


PARTS: dict[str, Reader] = {
    **dict.fromkeys(("input_text", "output_text", "text", "summary_text"), read_text),
    "refusal": text_reader("refusal"),
    "input_image": _read_image,
    "image_url": _read_image,
}


# Tools.


def _declared(value: Any, path: str) -> Declared:
    return declared_in(value, path, _read_tools, "responses")


def _read_tools(value: Any, path: str) -> Declared:
    tools: list[Tool] = []
    ignored: list[str] = []
    for n, item in enumerate(fields.listed(value, path)):
        where = f"{path}[{n}]"
        kind = fields.type_at(item, where)
        if kind == "namespace":
            tools += _read_namespace(item, where, ignored)
        elif kind in TOOLS:
            tools.append(TOOLS[kind](item, where))
        else:
            ignored.append(kind)
    return Declared(tuple(tools), tuple(ignored))


def _read_namespace(item: Block, path: str, ignored: list[str]) -> list[Tool]:
    name = fields.name_at(item, path)
    description = fields.maybe_text_at(item, "description", path)
    tools = []
    for n, inner in enumerate(fields.listed(item.get("tools"), f"{path}.tools")):
        where = f"{path}.tools[{n}]"
        kind = fields.type_at(inner, where)
        if kind in TOOLS:
            tool = TOOLS[kind](inner, where)
            tools.append(replace(tool, namespace=name, namespace_description=description))
        else:
            ignored.append(kind)
    return tools


def _read_custom(item: Block, path: str) -> Tool:
    form = item.get("format")
    if form is not None:
        fields.table(form, f"{path}.format")
        fields.maybe_text_at(form, "definition", f"{path}.format")
        fields.maybe_text_at(form, "syntax", f"{path}.format")
    description = fields.maybe_text_at(item, "description", path)
    return Tool(fields.name_at(item, path), path, description, kind="custom", format=form)


TOOLS: dict[str, Callable[[Block, str], Tool]] = {
    "function": read_function,
    "custom": _read_custom,
}


def _choice(value: Any, path: str) -> Choice:
    if isinstance(value, str):
        return Choice(fields.one_of("auto", "none", "required")(value, path))
    kind = fields.type_at(value, path)
    if kind in TOOLS:
        return Choice("tool", _key(value, path))
    if kind == "allowed_tools":
        return read_allowed(value, path, _key)
    expected = '"function", "custom" or "allowed_tools"'
    raise wrong(kind, expected, f"{path}.type")


def _key(value: Any, path: str) -> ToolKey | None:
    """The tool that is meant, None for one that nobody here can run."""
    if fields.type_at(value, path) not in TOOLS:
        return None
    return fields.maybe_text_at(value, "namespace", path), fields.name_at(value, path)


# Everything else.


def _instructions(value: Any, path: str) -> str:
    return system_text(fields.text(value, path), path, PARTS)


def _reasoning(value: Any, path: str) -> dict[str, Any]:
    return fields.checked(fields.table(value, path), REASONING, path)


def _text(value: Any, path: str) -> dict[str, Any]:
    return fields.checked(fields.table(value, path), TEXT, path)


def _format(value: Any, path: str) -> Format | None:
    kind = fields.one_of("text", "json_object", "json_schema")(
        fields.table(value, path).get("type"), f"{path}.type"
    )
    if kind == "json_schema":
        return read_schema(value, path)
    return Format() if kind == "json_object" else None


def _include(value: Any, path: str) -> bool:
    """Whether log probabilities are wanted: the one thing that is not there unasked."""
    return "message.output_text.logprobs" in fields.listed(value, path)


REASONING: dict[str, fields.Check] = {"effort": thinking.effort, "context": REASONING_CONTEXT}
TEXT: dict[str, fields.Check] = {"format": _format}

FIELDS: dict[str, fields.Check] = {
    "input": _input,
    "instructions": _instructions,
    "model": fields.text,
    "tools": _declared,
    "tool_choice": _choice,
    "parallel_tool_calls": fields.flag,
    "text": _text,
    "reasoning": _reasoning,
    "max_output_tokens": fields.whole_number(1),
    "stream": fields.flag,
    "include": _include,
    "top_logprobs": fields.whole_number(0, 20),
    "temperature": fields.number(0),
    "top_p": fields.number(0, 1),
    "user": fields.text,
    "prompt_cache_key": fields.text,
    "background": fields.flag,
}
