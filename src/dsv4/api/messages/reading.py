"""Anthropic's Messages: a body -> what it asks for."""

from __future__ import annotations

from typing import Any

from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import fields, thinking
from dsv4.api.asked import AUTO, NO_TOOLS, Asked, Choice, Declared, Format, Message, Sampling, Tool
from dsv4.api.bodies import body_of, clean
from dsv4.api.calls import arguments_of, call
from dsv4.api.content import (
    BLANK_LINE,
    UNSUPPORTED_DOCUMENT,
    UNSUPPORTED_IMAGE,
    Block,
    Content,
    Reader,
    Said,
    content_of,
    image,
    joined,
    nothing,
    read_block,
    read_text,
    without_images,
)
from dsv4.api.errors import ApiError, wrong
from dsv4.api.formats import read_schema
from dsv4.api.request import ApiRequest
from dsv4.api.resolving import resolve
from dsv4.api.settings import DEFAULTS, Settings
from dsv4.api.system import system_text
from dsv4.api.tools import declared_in, read_function
from dsv4.api.unsupported import UNSUPPORTED

ROLES = ("user", "assistant", "system")
ERROR = "Error: "


def read(
    body: Any, *, dialect: str | Dialect = "v4", settings: Settings | None = None
) -> ApiRequest:
    """A Messages request, or one to count its tokens.

    `body` is bytes of JSON, or what they say, which is not changed. `dialect` is the release of
    the format to write; `settings` are the server's. Nothing is stored here: whoever keeps threads
    puts the messages, the tools and the system text of `thread` into the body first. Raises
    `ApiError`.
    """
    settings = settings or DEFAULTS
    asked = asked_in(body_of(body, settings.loads))
    return resolve(asked, "messages", dialect_named(dialect), settings)


def asked_in(body: dict[str, Any]) -> Asked:
    """What a body asks for."""
    known = fields.checked(body, FIELDS)
    if "messages" not in known:
        raise wrong(body.get("messages"), "a list of messages", "messages")
    given = known["messages"]
    if not given:
        raise ApiError("found no message, expected at least one", path="messages")
    system = known.get("system", "")
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for n, message in enumerate(given):
        messages += _read_message(message, f"messages[{n}]")
    output = known.get("output_config", {})
    choice, parallel = known.get("tool_choice", (AUTO, None))
    said = {
        "messages": messages,
        "model": known.get("model"),
        "declared": known.get("tools", NO_TOOLS),
        "choice": choice,
        "format": output.get("format", known.get("output_format")),
        "thinking": known.get("thinking"),
        "effort": output.get("effort"),
        "effort_path": "output_config.effort",
        "wants_thinking": known.get("thinking") is True,
        "sampling": Sampling(known.get("temperature"), known.get("top_p"), known.get("top_k")),
        "max_tokens": known.get("max_tokens"),
        "stop": known.get("stop_sequences", ()),
        "stream": known.get("stream", False),
        "parallel": parallel,
        "user": known.get("metadata"),
        "given": len(given),
    }
    return Asked(said)


# Messages.


def _read_message(message: Any, path: str) -> list[Message]:
    if not isinstance(message, dict):
        raise wrong(message, 'a message: an object with a "role"', path)
    role, content = message.get("role"), message.get("content")
    inside = f"{path}.content"
    if role == "user":
        return _read_user(content, inside)
    if role == "assistant":
        return [_read_assistant(content, inside)]
    if role == "system":
        text = system_text(content, inside, BLOCKS)
        return [{"role": "system", "content": text}] if text else []
    raise wrong(role, "one of " + ", ".join(ROLES), f"{path}.role")


def _read_user(content: Any, path: str) -> list[Message]:
    """Results of tools are messages of their own, and so is what stands between them."""
    if content is None or isinstance(content, str):
        return [{"role": "user", "content": clean(content or "")}]
    messages: list[Message] = []
    said: list[Said] = []
    blocks = fields.listed(content, path)
    for n, block in enumerate(blocks):
        where = f"{path}[{n}]"
        if isinstance(block, dict) and block.get("type") == "tool_result":
            _add_user(said, messages)
            said = []
            messages.append(_read_result(block, where))
        else:
            said.append(read_block(block, where, BLOCKS))
    if not messages or said:
        _add_user(said or [""], messages)
    return messages


def _add_user(said: list[Said], messages: list[Message]) -> None:
    if said:
        messages.append({"role": "user", "content": joined(said)})


def _read_result(block: Block, path: str) -> Message:
    id = fields.maybe_text_at(block, "tool_use_id", path)
    content = content_of(block.get("content"), f"{path}.content", BLOCKS)
    failed = block.get("is_error")
    if failed is not None and fields.flag(failed, f"{path}.is_error"):
        content = _failed(content)
    return {"role": "tool", "tool_call_id": id, "content": content}


def _failed(content: Content) -> Content:
    if isinstance(content, str):
        return ERROR + content
    first = content[0]
    if first["type"] == "text":
        return [{**first, "text": ERROR + first["text"]}, *content[1:]]
    return [{"type": "text", "text": ERROR}, *content]


def _read_assistant(content: Any, path: str) -> Message:
    if content is None or isinstance(content, str):
        return {"role": "assistant", "content": clean(content or "")}
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    marks: list[str] = []
    for n, block in enumerate(fields.listed(content, path)):
        where = f"{path}[{n}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            thoughts.append(fields.maybe_text_at(block, "thinking", where) or "")
            marks.append(fields.maybe_text_at(block, "signature", where) or "")
        elif kind == "tool_use":
            calls.append(_read_call(block, where))
        else:
            said = read_block(block, where, ASSISTANT_BLOCKS)
            texts.append(without_images(joined([said])))
    message: Message = {"role": "assistant", "content": BLANK_LINE.join(filter(None, texts))}
    if any(thoughts):
        message["reasoning_content"] = BLANK_LINE.join(filter(None, thoughts))
    if calls:
        message["tool_calls"] = calls
    if any(marks):
        message["marks"] = tuple(filter(None, marks))
    return message


def _read_call(block: Block, path: str) -> dict[str, Any]:
    name = fields.text(block.get("name"), f"{path}.name")
    arguments = arguments_of(block.get("input"), f"{path}.input")
    return call(block.get("id"), name, arguments, f"{path}.id")


# Blocks.


def _read_image(block: Block, path: str) -> Said:
    source = block.get("source")
    if source is None:
        return UNSUPPORTED_IMAGE
    where = f"{path}.source"
    given = fields.table(source, where)
    kind = fields.type_at(given, where)
    if kind == "url":
        url = fields.maybe_text_at(given, "url", where)
        return image(url, path) if url else UNSUPPORTED_IMAGE
    data = fields.maybe_text_at(given, "data", where)
    media = fields.maybe_text_at(given, "media_type", where) or "image/png"
    if kind != "base64" or not data:
        return UNSUPPORTED_IMAGE
    return image(f"data:{media};base64,{data}", path)


def _read_document(block: Block, path: str) -> Said:
    """A document that has text is its text."""
    source = block.get("source")
    if source is None:
        return UNSUPPORTED_DOCUMENT
    where = f"{path}.source"
    given = fields.table(source, where)
    kind = fields.type_at(given, where)
    if kind == "text":
        return fields.maybe_text_at(given, "data", where) or UNSUPPORTED_DOCUMENT
    if kind == "content":
        content = content_of(given.get("content"), f"{where}.content", BLOCKS)
        return without_images(content) or UNSUPPORTED_DOCUMENT
    return UNSUPPORTED_DOCUMENT


def _read_reference(block: Block, path: str) -> Said:
    """A tool that a search has found."""
    return fields.name_at(block, path, "tool_name")


BLOCKS: dict[str, Reader] = {
    "text": read_text,
    "image": _read_image,
    "document": _read_document,
    "tool_reference": _read_reference,
}
ASSISTANT_BLOCKS: dict[str, Reader] = {**BLOCKS, "redacted_thinking": nothing}


# Tools.


def _declared(value: Any, path: str) -> Declared:
    return declared_in(value, path, _read_tools, "messages")


def _read_tools(value: Any, path: str) -> Declared:
    tools: list[Tool] = []
    ignored: list[str] = []
    for n, item in enumerate(fields.listed(value, path)):
        where = f"{path}[{n}]"
        tool = fields.table(item, where)
        kind = tool.get("type")
        if kind is not None and not isinstance(kind, str):
            raise wrong(kind, 'a type, such as "custom"', f"{where}.type")
        if kind in (None, "custom"):
            tools.append(read_function(tool, where, "input_schema"))
        else:
            ignored.append(fields.maybe_text_at(tool, "name", where) or clean(kind))
    return Declared(tuple(tools), tuple(ignored))


def _choice(value: Any, path: str) -> tuple[Choice, bool | None]:
    """The choice, and whether calls may be made in parallel, if it says so."""
    kind = fields.one_of("auto", "any", "tool", "none")(
        fields.table(value, path).get("type"), f"{path}.type"
    )
    single = value.get("disable_parallel_tool_use")
    if single is not None:
        fields.flag(single, f"{path}.disable_parallel_tool_use")
    parallel = None if single is None else not single
    if kind == "tool":
        return Choice("tool", (None, fields.name_at(value, path)), path=f"{path}.name"), parallel
    return Choice("required" if kind == "any" else kind), parallel


# Everything else.


def _system(value: Any, path: str) -> str:
    return system_text(value, path, BLOCKS)


def _output(value: Any, path: str) -> dict[str, Any]:
    return fields.checked(fields.table(value, path), OUTPUT, path)


def _format(value: Any, path: str) -> Format:
    fields.one_of("json_schema")(fields.table(value, path).get("type"), f"{path}.type")
    return read_schema(value, path)


def _user(value: Any, path: str) -> str | None:
    return fields.maybe_text_at(fields.table(value, path), "user_id", path)


OUTPUT: dict[str, fields.Check] = {"effort": thinking.effort, "format": _format}

FIELDS: dict[str, fields.Check] = {
    "messages": fields.listed,
    "system": _system,
    "model": fields.text,
    "tools": _declared,
    "tool_choice": _choice,
    "thinking": thinking.switch,
    "output_config": _output,
    "output_format": _format,
    "max_tokens": fields.whole_number(1),
    "stop_sequences": fields.texts,
    "stream": fields.flag,
    "temperature": fields.number(0),
    "top_p": fields.number(0, 1),
    "top_k": fields.whole_number(-1),
    "metadata": _user,
    **UNSUPPORTED["messages"],
}
