"""A Messages request as the official API reads it: the equivalent Chat request."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dsv4._encode.tools import to_json
from dsv4._format.texts import BILLING_HEADER, RECIPE_NO_IMAGE
from dsv4.profiles import rust_json as rust
from dsv4.profiles.official_api import RULES, refusal
from dsv4.profiles.recipe_request import check_link, check_name, shown_schema
from dsv4.profiles.server_requests import BLANK_LINE, Object, server_refusal

ROLES = ("user", "assistant", "system")
# The fields that a block of each type must have.
BLOCKS: Mapping[str, Mapping[str, str]] = {
    "text": {"text": "a string"},
    "image": {"source": ""},
    "document": {"source": ""},
    "thinking": {"thinking": "a string"},
    "server_tool_use": {"id": "a string", "name": "a string", "input": ""},
    "tool_use": {"id": "a string", "name": "a string", "input": ""},
    "tool_result": {"tool_use_id": "a string"},
    "web_search_tool_result": {"tool_use_id": "a string"},
    "tool_addition": {"tool": ""},
}
RESULT_BLOCKS: Mapping[str, Mapping[str, str]] = {
    **{kind: BLOCKS[kind] for kind in ("text", "image", "document")},
    "tool_reference": {"tool_name": "a string"},
}
# Blocks allowed only in messages of one role, with their names in the refusal.
_ASSISTANTS = {
    "tool_use": "tool_use",
    "server_tool_use": "tool_use",
    "web_search_tool_result": "web_search_tool_result",
}
MEDIA_TYPES = ("image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp")
CHOICES = ("auto", "any", "tool", "none")
# Prefixes of the types of tools that run on the server.
WEB_TOOLS = ("web_search_", "deepseek_web_search", "deepseek_read_url")
# Fields that both protocols have under the same name.
_SAME_FIELDS = ("model", "temperature", "top_p", "stream", "thinking", "safety_check")
_PROTOCOL = "messages"
# A later system turn as V4 writes it, which has none.
_REMINDER = "<system-reminder>\n{}\n</system-reminder>"
# The heading that a release with system turns writes when deferred tools are found.
_UPDATED_TOOLS = "### Updated Tool Schemas\n"


def messages_as_chat(body: Object, images: bool = True) -> Object:
    """The equivalent Chat request, for a model with or without `images`. Raises if the API refuses
    the request with messages of this protocol."""
    rust.check_given(body, {"stream": "a boolean"}, "")
    rust.present(body, "messages", "")
    listed = [
        _message(message, n) for n, message in enumerate(rust.list_of(body["messages"], "messages"))
    ]
    config = rust.maybe_map_of(body.get("output_config"), "output_config", "MessagesOutputConfig")
    metadata = rust.maybe_map_of(body.get("metadata"), "metadata", "MessagesMetadata")
    rust.maybe_text_of(metadata.get("user_id"), "metadata.user_id")
    if not listed:
        raise refusal("no-messages", "messages", _PROTOCOL)
    _check_order(listed)
    tools, server_tools = _tools(body.get("tools"), images)
    choice = _choice(body.get("tool_choice"), server_tools)
    reader = _OfficialBlocks(images, _schemas(tools), choice != "none")
    chat = {name: body[name] for name in _SAME_FIELDS if name in body}
    chat["messages"] = list(_systems(body.get("system")))
    for index, message in enumerate(listed):
        chat["messages"] += reader.messages(message, index)
    chat["tools"] = tools
    if choice is not None:
        chat["tool_choice"] = choice
    if "effort" in config:
        chat["reasoning_effort"] = config["effort"]
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
    if role != "latest_reminder":  # added later, and not named in the message
        role = rust.variant_in(message, "role", ROLES, path)
    content = rust.present(message, "content", path)
    if isinstance(content, str):
        return {"role": role, "content": [_as_text(content)]}
    if not isinstance(content, list):
        raise server_refusal(f"{path}.content", "expected a string or a list")
    if not content:
        problem = f"messages.{index}: all messages must have non-empty content"
        raise server_refusal(f"{path}.content", problem)
    return {"role": role, "content": list(_blocks(content, BLOCKS, f"{path}.content"))}


def _blocks(
    content: Sequence[object], kinds: Mapping[str, Mapping[str, str]], path: str
) -> Iterator[Object]:
    for n, block in enumerate(content):
        fields = rust.tagged(block, f"{path}[{n}]", "MessagesContentBlock")
        kind = rust.tag_in(fields, "type", tuple(kinds), f"{path}[{n}]")
        rust.check_present(fields, kinds[kind], f"{path}[{n}]")
        yield fields


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


# The order of blocks.


def _check_order(messages: Sequence[Object]) -> None:
    """Refuse messages unless each begins with exactly the results of the calls before it."""
    asked: list[str] = []
    for index, message in enumerate(messages):
        _check_results(message, index, asked)
        asked = []
        for n, block in enumerate(message["content"]):
            kind = block["type"]
            if message["role"] != "assistant" and kind in _ASSISTANTS:
                raise _misplaced(index, _ASSISTANTS[kind], "assistant")
            if message["role"] != "user" and kind == "tool_result":
                raise _misplaced(index, kind, "user")
            if asked and kind in ("text", "image", "document"):
                _check_answered(asked, set(), index, f"messages.{index}.{n}: ")
            if kind == "tool_use":
                if block["id"] in asked:
                    path = f"messages[{index}]"
                    raise refusal("ids-twice", path, _PROTOCOL, index=index, block=n)
                asked.append(block["id"])
    _check_results({"role": "user", "content": ()}, len(messages), asked)


def _check_results(message: Object, index: int, asked: Sequence[str]) -> None:
    path, found = f"messages[{index}]", set[str]()
    for n, block in enumerate(message["content"]):
        if block["type"] != "tool_result" or message["role"] != "user":
            _check_answered(asked, found, index - 1, f"messages.{index}: ")
            continue
        id = block["tool_use_id"]
        if id not in asked:
            raise refusal("result-alone", path, _PROTOCOL, index=index, block=n, ids=id)
        if id in found:
            raise refusal("result-twice", path, _PROTOCOL, index=index, block=n, id=id)
        found.add(id)
    _check_answered(asked, found, index - 1, f"messages.{index - 1}:")


def _check_answered(asked: Iterable[str], found: set[str], index: int, place: str) -> None:
    missing = [id for id in asked if id not in found]
    if missing:
        path = f"messages[{index}]"
        raise refusal("unanswered", path, _PROTOCOL, place=place, ids=", ".join(missing))


def _misplaced(index: int, kind: str, role: str) -> Exception:
    problem = f"messages.{index}: `{kind}` blocks can only be in `{role}` messages"
    return server_refusal(f"messages[{index}]", problem)


# Contents.


def _schemas(tools: Sequence[Object]) -> dict[str, str]:
    """The tools that a result may refer to, as the model sees them."""
    functions = [tool["function"] for tool in tools]
    return {function["name"]: to_json(shown_schema(function)) for function in functions}


class _OfficialBlocks:
    """Reads the blocks of messages for a model with or without `images`. `schemas` are those of the
    tools, by their names; `shows_tools` says whether the model sees any."""

    def __init__(self, images: bool, schemas: Mapping[str, str], shows_tools: bool) -> None:
        self._images = images
        self._schemas = schemas
        self._shows_tools = shows_tools

    def messages(self, message: Object, index: int) -> Iterator[Object]:
        role, blocks = message["role"], message["content"]
        if role == "assistant":
            yield self._answer(blocks, index)
            return
        path = f"messages[{index}].content"
        if any(block["type"] == "thinking" for block in blocks):
            problem = (
                f"messages.{index}.content: thinking blocks may only be in `assistant` messages"
            )
            raise server_refusal(path, problem)
        rest: list[Object] = []
        found: list[str] = []
        for n, block in enumerate(blocks):
            if block["type"] == "tool_result":
                listed = list(_result_blocks(block.get("content"), f"{path}[{n}].content"))
                place = f"messages.{index}.content.{n}.tool_result.content"
                names = [b["tool_name"] for b in listed if b["type"] == "tool_reference"]
                found += [self._found(name, f"messages.{index}.content.{n}") for name in names]
                parts = [self._part(b, f"{place}[{k}]") for k, b in enumerate(listed)]
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": parts}
            elif block["type"] == "tool_addition":
                name = _added(block["tool"], f"{path}[{n}].tool")
                found.append(self._found(name, f"messages.{index}.content.{n}"))
            else:
                rest.append(self._part(block, f"messages.{index}.content[{n}]"))
        updates = [_as_text("\n".join([_UPDATED_TOOLS, *found]))] if any(found) else []
        if role == "system":
            yield self._system(rest, updates)
        elif role == "latest_reminder":
            yield {"role": role, "content": BLANK_LINE.join(part["text"] for part in rest)}
        elif rest:
            yield {"role": role, "content": rest}
        if updates and role != "system":
            yield self._system([], updates)

    def _system(self, parts: list[Object], updates: list[Object]) -> Object:
        if self._images:
            empty = [_as_text("")] if updates else []
            return {"role": "system", "content": [*(parts or empty), *updates]}
        texts = (part.get("text", RECIPE_NO_IMAGE) for part in parts)
        return {"role": "user", "content": _REMINDER.format(BLANK_LINE.join(texts))}

    def _found(self, name: str, place: str) -> str:
        """The schema of a tool that a result refers to; "" if it is not shown again."""
        if name not in self._schemas:
            problem = f"{place}: tool reference '{name}' not found in available tools"
            raise server_refusal("messages", problem)
        return self._schemas[name] if self._images and self._shows_tools else ""

    def _answer(self, blocks: Sequence[Object], index: int) -> Object:
        shown = ("text", "image", "document")
        texts = [
            self._part(block, f"messages.{index}.content[{n}]")
            for n, block in enumerate(blocks)
            if block["type"] in shown
        ]
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        answer: Object = {"role": "assistant", "content": texts}
        if calls:
            answer["tool_calls"] = calls
        if thoughts:
            answer["reasoning_content"] = BLANK_LINE.join(thoughts)
        return answer

    def _part(self, block: Object, place: str) -> Object:
        kind = block["type"]
        if kind == "image":
            return self._image(block["source"], place)
        if kind == "document":
            return _document(rust.map_of(block["source"], place, "MessagesDocumentSource"))
        name = "tool_name" if kind == "tool_reference" else "text"
        return _as_text(rust.text_in(block, name, place))

    def _image(self, source: object, place: str) -> Object:
        fields = rust.tagged(source, place, "MessagesImageSource")
        kind = rust.tag_in(fields, "type", ("base64", "url", "file"), place)
        if kind == "file":
            return {"type": "file", "file_id": rust.text_in(fields, "file_id", place)}
        if kind == "url":
            url = rust.text_in(fields, "url", place)
            if self._images:
                check_link(url, "messages", _PROTOCOL, place=place)
        else:
            media = rust.variant_in(fields, "media_type", MEDIA_TYPES, place)
            data = rust.text_in(fields, "data", place)
            self._check_data(data, place)
            url = f"data:{media};base64,{data}"
        return {"type": "image_url", "image_url": {"url": url}}

    def _check_data(self, data: str, place: str) -> None:
        try:
            base64.b64decode(data if self._images else "", validate=True)
        except ValueError:
            raise server_refusal("messages", f"{place}: base64 decode error") from None


def _result_blocks(content: object, path: str) -> Iterator[Object]:
    """The result of a tool, as blocks."""
    if content is None or isinstance(content, str):
        yield _as_text(content or "")
    elif isinstance(content, list):
        yield from _blocks(content, RESULT_BLOCKS, path)
    else:
        raise server_refusal(path, "expected a string or a list")


def _added(tool: object, path: str) -> str:
    fields = rust.tagged(tool, path, "MessagesToolReference")
    rust.tag_in(fields, "type", ("tool_reference",), path)
    return rust.text_in(fields, "name", path)


def _as_text(text: str) -> Object:
    return {"type": "text", "text": text}


def _call(block: Object) -> Object:
    function = {"name": block["name"], "arguments": to_json(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def _document(source: Object) -> Object:
    if source.get("type") == "file":
        return {"type": "file", "file_id": rust.text_in(source, "file_id", "source")}
    kind = rust.maybe_text_of(source.get("media_type"), "source.media_type") or "unknown"
    return _as_text(f"[Unsupported document type: {kind}]")


# Tools.


def is_web_tool(tool: object) -> bool:
    """Whether a tool is one that the API runs itself."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(WEB_TOOLS)


def _tools(tools: object, images: bool) -> tuple[list[Object], set[object]]:
    """The functions, and the names of tools that the server runs. For models without images, no
    tool is deferred."""
    listed = rust.list_of(tools, "tools")
    own = [(n, tool) for n, tool in enumerate(listed) if not is_web_tool(tool)]
    functions = [_function(tool, n, images) for n, tool in own]
    if functions and all(tool["function"]["defer_loading"] for tool in functions):
        raise refusal("deferred", "tools", _PROTOCOL)
    hosted = (tool.get("name") for tool in listed if is_web_tool(tool))
    return functions, {rust.maybe_text_of(name, "tools") for name in hosted}


def _function(tool: object, index: int, images: bool) -> Object:
    path = f"tools[{index}]"
    fields = rust.map_of(tool, path, "MessagesTool")
    rust.check_given(fields, {"defer_loading": "a boolean"}, path)
    if "type" in fields:
        rust.text_in(fields, "type", path)
        raise refusal("tool-types", path, _PROTOCOL, index=index)
    name = rust.text_in(fields, "name", path)
    check_name(name, f"{path}.name")
    schema = fields.get("input_schema")
    if schema is None:
        problem = 'null is not of types "boolean", "object"'
        raise refusal("schema", f"{path}.input_schema", name=name, problem=problem)
    described = {"name": name, "description": fields.get("description"), "parameters": schema}
    deferred = bool(images and fields.get("defer_loading"))
    return {"type": "function", "function": {**described, "defer_loading": deferred}}


def _choice(choice: object, server_tools: set[object]) -> object:
    if choice is None:
        return None
    fields = rust.tagged(choice, "tool_choice", "MessagesToolChoice")
    kind = rust.tag_in(fields, "type", CHOICES, "tool_choice")
    if kind != "tool":
        return "none" if kind == "none" else "auto"
    name = rust.text_in(fields, "name", "tool_choice")
    return "auto" if name in server_tools else {"type": "function", "function": {"name": name}}
