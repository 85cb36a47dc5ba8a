"""A Messages request as the official API reads it: the Chat request that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dsv4._encode.tools import to_json
from dsv4._format.texts import BILLING_HEADER
from dsv4.profiles import rust_json as rust
from dsv4.profiles.official_api import RULES, refusal
from dsv4.profiles.recipe_request import check_name
from dsv4.profiles.server_requests import BLANK_LINE, Object, server_refusal

ROLES = ("user", "assistant", "system")
BLOCKS = (
    *("text", "image", "document", "thinking", "server_tool_use", "tool_use", "tool_result"),
    *("web_search_tool_result", "tool_addition"),
)
MEDIA_TYPES = ("image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp")
CHOICES = ("auto", "any", "tool", "none")
# Tools that run on the server, by how their types begin.
WEB_TOOLS = ("web_search_", "deepseek_web_search", "deepseek_read_url")
# What both have under the same name.
_SAME_FIELDS = ("model", "temperature", "top_p", "stream", "thinking", "safety_check")
_PROTOCOL = "messages"


def messages_as_chat(body: Object) -> Object:
    """The Chat request for the same. Raises where the API refuses it in words of this protocol."""
    listed = [
        _message(message, n)
        for n, message in enumerate(rust.list_of(body.get("messages"), "messages"))
    ]
    if not listed:
        raise refusal("no-messages", "messages", _PROTOCOL)
    _check_results(listed)
    chat = {name: body[name] for name in _SAME_FIELDS if name in body}
    chat["messages"] = list(_systems(body.get("system")))
    for index, message in enumerate(listed):
        chat["messages"] += _chat_messages(message, index)
    chat["tools"], server_tools = _tools(body.get("tools"))
    choice = _choice(body.get("tool_choice"), server_tools)
    if choice is not None:
        chat["tool_choice"] = choice
    config = body.get("output_config")
    if config is not None:
        chat["reasoning_effort"] = rust.map_of(config, "output_config", "OutputConfig").get(
            "effort"
        )
    chat["stop"] = list(rust.list_of(body.get("stop_sequences"), "stop_sequences")) or None
    length = body.get("max_tokens")
    most = RULES["max_tokens"]["most"]
    chat["max_tokens"] = min(length, most) if isinstance(length, int) else length
    return chat


def _message(message: object, index: int) -> Object:
    """A message whose content is a list of blocks."""
    path = f"messages[{index}]"
    if not isinstance(message, dict):
        raise rust.wrong_type(message, "adjacently tagged enum MessagesMessage", path)
    role = message.get("role")
    if role != "latest_reminder":  # which came later, and which the words do not name
        role = rust.variant_in(message, "role", ROLES, path)
    content = rust.present(message, "content", path)
    if isinstance(content, str):
        return {"role": role, "content": [{"type": "text", "text": content}]}
    if not isinstance(content, list):
        raise server_refusal(f"{path}.content", "expected a string or a list")
    if not content:
        problem = f"messages.{index}: all messages must have non-empty content"
        raise server_refusal(f"{path}.content", problem)
    for n, block in enumerate(content):
        if not isinstance(block, dict):
            expected = "internally tagged enum MessagesContentBlock"
            raise rust.wrong_type(block, expected, f"{path}.content[{n}]")
        rust.variant_in(block, "type", BLOCKS, f"{path}.content[{n}]")
    return {"role": role, "content": content}


def _systems(system: object) -> Iterator[Object]:
    if isinstance(system, str):
        yield {"role": "system", "content": system}
    elif system is not None:
        if not isinstance(system, list):
            raise server_refusal("system", "expected a string or a list")
        texts = [_text(block, f"system[{n}]") for n, block in enumerate(system)]
        kept = [text for text in texts if not text.startswith(BILLING_HEADER)]
        yield {"role": "system", "content": BLANK_LINE.join(kept)}


def _text(block: object, path: str) -> str:
    fields = rust.map_of(block, path, "TextBlock")
    rust.variant_in(fields, "type", ("text",), path)
    return rust.text_in(fields, "text", path)


# Calls and their results.


def _ids(blocks: Sequence[Object], kind: str, field: str, path: str) -> list[str]:
    return [rust.text_in(block, field, path) for block in blocks if block["type"] == kind]


def _check_results(messages: Sequence[Object]) -> None:
    """The results of a turn's calls, all of them and no others, begin the next message."""
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        calls = _ids(message["content"], "tool_use", "id", path)
        for n, id in enumerate(calls):
            if id in calls[:n]:
                raise refusal("ids-twice", path, _PROTOCOL, index=index, block=n)
        answered = _leading_results(messages[index + 1]) if index + 1 < len(messages) else []
        missing = [id for id in calls if id not in answered]
        if missing:
            place = (
                f"messages.{index}:"
                if answered or index + 1 == len(messages)
                else (f"messages.{index + 1}: ")
            )
            raise refusal("unanswered", path, _PROTOCOL, place=place, ids=", ".join(missing))
        before = messages[index - 1]["content"] if index else []
        asked = _ids(before, "tool_use", "id", path)
        for n, id in enumerate(_ids(message["content"], "tool_result", "tool_use_id", path)):
            if id not in asked:
                raise refusal("result-alone", path, _PROTOCOL, index=index, block=n, ids=id)


def _leading_results(message: Object) -> list[str]:
    ids = []
    for block in message["content"]:
        if block["type"] != "tool_result":
            break
        ids.append(rust.text_in(block, "tool_use_id", "tool_result"))
    return ids


# Contents.


def _chat_messages(message: Object, index: int) -> Iterator[Object]:
    role, blocks = message["role"], message["content"]
    if role == "assistant":
        yield _answer(blocks, index)
        return
    path = f"messages[{index}].content"
    rest = []
    for n, block in enumerate(blocks):
        if block["type"] == "tool_result":
            content = block.get("content")
            parts = (
                content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
            )
            yield {
                "role": "tool",
                "tool_call_id": block["tool_use_id"],
                "content": [_part(part, f"{path}[{n}]", index) for part in parts],
            }
        else:
            rest.append(_part(block, f"{path}[{n}]", index))
    if role == "latest_reminder":
        yield {"role": role, "content": BLANK_LINE.join(part["text"] for part in rest)}
    elif rest:
        yield {"role": role, "content": rest}


def _answer(blocks: Sequence[Object], index: int) -> Object:
    path = f"messages[{index}].content"
    texts = [_part(block, path, index) for block in blocks if block["type"] in ("text", "image")]
    thoughts = [rust.text_in(b, "thinking", path) for b in blocks if b["type"] == "thinking"]
    calls = [_call(block, path) for block in blocks if block["type"] == "tool_use"]
    answer: Object = {"role": "assistant", "content": texts}
    if calls:
        answer["tool_calls"] = calls
    if thoughts:
        answer["reasoning_content"] = BLANK_LINE.join(thoughts)
    return answer


def _call(block: Object, path: str) -> Object:
    function = {"name": block.get("name"), "arguments": to_json(block.get("input"))}
    return {"id": rust.text_in(block, "id", path), "type": "function", "function": function}


def _part(block: Any, path: str, index: int) -> Object:
    kind = block.get("type")
    if kind == "image":
        return _image(
            rust.map_of(block.get("source"), f"{path}.source", "ImageSource"), path, index
        )
    if kind == "document":
        return _document(rust.map_of(block.get("source"), f"{path}.source", "DocumentSource"))
    if kind == "tool_reference":
        return {"type": "text", "text": rust.text_in(block, "tool_name", path)}
    return {"type": "text", "text": rust.text_in(block, "text", path)}


def _image(source: Object, path: str, index: int) -> Object:
    kind = rust.variant_in(source, "type", ("base64", "url", "file"), f"{path}.source")
    if kind == "file":
        return {"type": "file", "file_id": rust.text_in(source, "file_id", path)}
    if kind == "url":
        return {"type": "image_url", "image_url": {"url": rust.text_in(source, "url", path)}}
    media = rust.variant_in(source, "media_type", MEDIA_TYPES, f"{path}.source")
    url = f"data:{media};base64,{rust.text_in(source, 'data', path)}"
    return {"type": "image_url", "image_url": {"url": url}}


def _document(source: Object) -> Object:
    if source.get("type") == "file":
        return {"type": "file", "file_id": rust.text_in(source, "file_id", "source")}
    kind = source.get("media_type") or "unknown"
    return {"type": "text", "text": f"[Unsupported document type: {kind}]"}


# Tools.


def is_web_tool(tool: object) -> bool:
    """Whether a tool is one that the API runs itself."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(WEB_TOOLS)


def _tools(tools: object) -> tuple[list[Object], set[object]]:
    """The functions, and the names of what the server runs."""
    listed = rust.list_of(tools, "tools")
    own = [(n, tool) for n, tool in enumerate(listed) if not is_web_tool(tool)]
    functions = [_function(tool, n) for n, tool in own]
    if own and all(tool.get("defer_loading") for _, tool in own):
        raise refusal("deferred", "tools", _PROTOCOL)
    return functions, {tool.get("name") for tool in listed if is_web_tool(tool)}


def _function(tool: object, index: int) -> Object:
    path = f"tools[{index}]"
    fields = rust.map_of(tool, path, "MessagesTool")
    if fields.get("type") is not None:
        raise refusal("tool-types", path, _PROTOCOL, index=index)
    name = rust.text_in(fields, "name", path)
    check_name(name, f"{path}.name")
    schema = fields.get("input_schema")
    if schema is None:
        problem = 'null is not of types "boolean", "object"'
        raise refusal("schema", f"{path}.input_schema", name=name, problem=problem)
    described = {"name": name, "description": fields.get("description"), "parameters": schema}
    return {"type": "function", "function": described}


def _choice(choice: object, server_tools: set[object]) -> object:
    if choice is None:
        return None
    fields = rust.map_of(choice, "tool_choice", "MessagesToolChoice")
    kind = rust.variant_in(fields, "type", CHOICES, "tool_choice")
    if kind != "tool":
        return "none" if kind == "none" else "auto"
    name = rust.text_in(fields, "name", "tool_choice")
    return "auto" if name in server_tools else {"type": "function", "function": {"name": name}}
