"""A Responses request as the official API reads it: the equivalent Chat request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from dsv4._encode.tools import to_json
from dsv4._format.texts import RECIPE_NO_IMAGE
from dsv4.profiles import rust_json as rust
from dsv4.profiles.official_api import refusal
from dsv4.profiles.recipe_request import DETAILS, check_link, check_name
from dsv4.profiles.server_requests import BLANK_LINE, TOOL_CHOICES, Object, server_refusal

ROLES = ("user", "assistant", "system", "developer")
PARTS = ("input_text", "output_text", "input_image", "input_file")
OUTPUT_PARTS = ("input_text", "input_image", "input_file")
CHOICES = ("function", "web_search", "web_search_2025_08_26", "custom")
FORMATS = ("text", "json_schema", "json_object")
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
# The fields that calls must have, in the order in which they are checked.
_CALL_FIELDS = {
    "function_call": ("arguments", "call_id", "name"),
    "custom_tool_call": ("call_id", "input", "name"),
}
OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SAME_FIELDS = ("model", "temperature", "top_p", "stream", "top_logprobs", "safety_check")
_PROTOCOL = "responses"
_PATCH_TOOL = "apply_patch"
_PATCH_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "input": {
            "type": "string",
            "description": "The entire contents of the apply_patch command "
            "(the *** Begin Patch ... *** End Patch envelope).",
        }
    },
    "required": ["input"],
}


def responses_as_chat(body: Object, images: bool = True) -> Object:
    """The equivalent Chat request, for a model with or without `images`. Raises if the API refuses
    the request with messages of this protocol."""
    rust.check_given(body, {"stream": "a boolean", "user": "a string"}, "")
    chat = {name: body[name] for name in _SAME_FIELDS if name in body}
    chat["messages"] = _messages(body, _OfficialItems(images))
    chat["tools"] = list(_tools(body.get("tools"), images))
    chat["tool_choice"] = _choice(body.get("tool_choice"))
    if "top_logprobs" in chat:
        chat["logprobs"] = True
    reasoning = rust.maybe_map_of(body.get("reasoning"), "reasoning", "ResponsesReasoningConfig")
    if "effort" in reasoning:
        chat["reasoning_effort"] = reasoning["effort"]
    form = rust.maybe_map_of(body.get("text"), "text", "ResponsesTextConfig").get("format")
    if form is not None:
        form = _format(rust.map_of(form, "text.format", "TextFormat"))
        chat["response_format"] = None if form["type"] == "text" else form
    chat["max_tokens"] = body.get("max_output_tokens")
    return chat


def _format(form: Object) -> Object:
    kind = rust.variant_in(form, "type", FORMATS, "text.format")
    if kind != "json_schema":
        return {"type": kind}
    name = rust.text_in(form, "name", "text.format")
    schema = rust.present(form, "schema", "text.format")
    wrapper = {"name": name, "schema": schema, "strict": form.get("strict")}
    return {"type": kind, "json_schema": wrapper}


# Items.


def _messages(body: Object, reader: _OfficialItems) -> list[Object]:
    instructions, given = body.get("instructions"), body.get("input")
    if instructions is None and given is None:
        raise refusal("no-messages", "input", _PROTOCOL)
    told = rust.maybe_text_of(instructions, "instructions")
    front = [] if told is None else [{"role": "system", "content": told}]
    if given is None or isinstance(given, str):
        return front if given is None else [*front, {"role": "user", "content": given}]
    if not isinstance(given, list):
        raise server_refusal("input", "input should be a string or a list of input items")
    if not given:
        raise server_refusal("input", "Input items array must not be empty")
    items = [(n, item, _kind(item, f"input[{n}]")) for n, item in enumerate(given)]
    _check_ids(items)
    messages = front + list(reader.turns(items))
    _check_results(messages)
    return messages


# The index of an item, the item, and its type.
Item: TypeAlias = tuple[int, Object, str]


def _kind(item: object, path: str) -> str:
    """The type of an item, which a message may leave out."""
    if not isinstance(item, dict) or not ("type" in item or "role" in item):
        raise server_refusal(path, "invalid input item")
    kind = rust.tag_of(item, "type", path) if "type" in item else "message"
    if kind in CALLS:
        rust.check_present(item, dict.fromkeys(_CALL_FIELDS[kind], "a string"), path)
    return kind


def _check_ids(items: Sequence[Item]) -> None:
    """Refuse an id that two calls, or two results, have in common."""
    called, answered = set[str](), set[str]()
    for _, item, kind in items:
        id = rust.maybe_text_of(item.get("call_id"), "call_id")
        if kind in CALLS and id in called:
            raise refusal("ids-twice", "input", _PROTOCOL, id=id)
        if kind in OUTPUTS and id in answered:
            raise refusal("result-twice", "input", _PROTOCOL, id=id)
        (called if kind in CALLS else answered if kind in OUTPUTS else set()).add(str(id))


class _OfficialItems:
    """Reads items for a model with or without `images`."""

    def __init__(self, images: bool) -> None:
        self._images = images

    def turns(self, items: Sequence[Item]) -> Iterator[Object]:
        """The items as messages: a run of the assistant's items is one message, but reasoning or a
        text after a call begins the next."""
        turn: Object = {}
        for index, item, kind in items:
            role = item.get("role") if kind == "message" else None
            if kind in CALLS or kind == "reasoning" or role == "assistant":
                if _begins_anew(turn, item, kind):
                    yield turn
                    turn = {}
                turn = self._with_item(turn, item, kind, index)
                continue
            message = self._message(item, kind, index)
            if message is not None:
                if turn:
                    yield turn
                    turn = {}
                yield message
        if turn:
            yield turn

    def _message(self, item: Object, kind: str, index: int) -> Object | None:
        path = f"input[{index}]"
        if kind in OUTPUTS:
            output = rust.present(item, "output", path)
            expected = "output should be a string or a list of output content parts"
            content = self._content(output, index, "tool", expected)
            id = rust.text_in(item, "call_id", path)
            return {"role": "tool", "tool_call_id": id, "content": content}
        if kind != "message":
            return None
        role = rust.variant_in(item, "role", ROLES, path)
        content = self._content(rust.present(item, "content", path), index, role)
        if role == "developer":
            # Where system texts come before everything, a later one counts as the user's.
            role = "system" if self._images else "user"
        return {"role": role, "content": content}

    def _with_item(self, turn: Object, item: Object, kind: str, index: int) -> Object:
        """An assistant's turn with one more item."""
        path = f"input[{index}]"
        if kind == "message":
            content = self._content(rust.present(item, "content", path), index, "assistant")
            turn = turn or _EMPTY
            return {**turn, "content": [*turn["content"], *content]}
        if kind == "reasoning":
            texts = list(_thoughts(item, f"{path}.content"))
            turn = turn or (_EMPTY if item.get("content") else {})
            before = [turn["reasoning_content"]] if "reasoning_content" in turn else []
            return {**turn, "reasoning_content": BLANK_LINE.join(before + texts)} if texts else turn
        text = item[CALLS[kind]]
        arguments = text if kind == "function_call" else to_json({"input": text})
        name = _full_name(item.get("namespace"), item["name"], self._images)
        function = {"name": name, "arguments": arguments}
        call = {"id": item["call_id"], "type": "function", "function": function}
        turn = turn or _EMPTY
        return {**turn, "tool_calls": [*turn.get("tool_calls", ()), call]}

    def _content(
        self,
        content: object,
        index: int,
        role: str,
        expected: str = "content should be a string or a list of content blocks",
    ) -> list[Object]:
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        path = f"input[{index}].content"
        if not isinstance(content, list):
            raise server_refusal(path, expected)
        return [self._part(part, f"{path}[{n}]", index, role) for n, part in enumerate(content)]

    def _part(self, part: object, path: str, index: int, role: str) -> Object:
        fields = rust.tagged(part, path, "ResponsesContentBlock")
        kind = rust.tag_in(fields, "type", OUTPUT_PARTS if role == "tool" else PARTS, path)
        if kind == "input_file":
            return {"type": "text", "text": "[Unsupported Document]"}
        if kind != "input_image":
            return {"type": "text", "text": rust.text_in(fields, "text", path)}
        url = rust.maybe_text_of(fields.get("image_url"), f"{path}.image_url")
        detail = fields.get("detail")
        if detail is not None:
            rust.variant_of(detail, DETAILS, f"{path}.detail")
        if not self._images:
            return {"type": "text", "text": RECIPE_NO_IMAGE}
        file = fields.get("file_id")
        if url is not None and not url.startswith("data:"):
            check_link(url, path, _PROTOCOL, index=index, place=f"{path}: image_url")
        elif url is None and not isinstance(file, str):
            raise server_refusal(path, f"{path}: input_image must have image_url or file_id")
        if role in ("assistant", "system"):
            raise refusal("image-assistant", path, _PROTOCOL, index=index, role=role)
        if url is None:
            return {"type": "file", "file_id": file}
        return {"type": "image_url", "image_url": {"url": url}}


_EMPTY: Object = {"role": "assistant", "content": []}


def _begins_anew(turn: Object, item: Object, kind: str) -> bool:
    if kind == "reasoning":
        return bool(item.get("content") and (turn.get("content") or turn.get("tool_calls")))
    return kind == "message" and bool(turn.get("tool_calls"))


def _thoughts(item: Object, path: str) -> Iterator[str]:
    for n, part in enumerate(rust.list_of(item.get("content"), path)):
        fields = rust.map_of(part, f"{path}[{n}]", "ResponsesReasoningContent")
        if fields.get("type", "reasoning_text") == "reasoning_text":
            yield rust.text_in(fields, "text", f"{path}[{n}]")


def _check_results(messages: Sequence[Object]) -> None:
    waiting: list[str] = []
    end: Object = {"role": "user"}
    for message in (*messages, end):
        if message["role"] == "tool":
            id = message["tool_call_id"]
            if id not in waiting:
                raise refusal("result-alone", "input", _PROTOCOL, ids=id)
            waiting.remove(id)
        elif waiting:
            raise refusal("unanswered", "input", _PROTOCOL, ids=waiting[0])
        else:
            waiting = [call["id"] for call in message.get("tool_calls", ())]


# Tools.


def _full_name(space: object, name: str, images: bool) -> str:
    """The name of a tool in a namespace, as the model's release spells it."""
    return f"{space}{'::' if images else '__'}{name}" if space else name


def _tools(tools: object, images: bool) -> Iterator[Object]:
    """The functions. Other tools run on the server, or are dropped."""
    for n, tool in enumerate(rust.list_of(tools, "tools")):
        path = f"tools[{n}]"
        fields = rust.tagged(tool, path, "ResponsesTool")
        kind = rust.tag_of(fields, "type", path)
        if kind == "function":
            yield _function(fields, path)
        elif kind == "namespace":
            yield from _namespace(fields, path, images)
        elif kind == "custom":
            name = rust.text_in(fields, "name", path)
            if name != _PATCH_TOOL:
                raise refusal("tool-types", path, _PROTOCOL, name=name)
            yield _declared(name, fields.get("description"), _PATCH_SCHEMA)


def _namespace(fields: Object, path: str, images: bool) -> Iterator[Object]:
    space = rust.text_in(fields, "name", path)
    check_name(space, f"{path}.name")
    for n, tool in enumerate(rust.list_of(rust.present(fields, "tools", path), f"{path}.tools")):
        inner = rust.tagged(tool, f"{path}.tools[{n}]", "ResponsesTool")
        if rust.tag_of(inner, "type", f"{path}.tools[{n}]") == "custom":
            found = f"Found custom tool '{inner.get('name')}' in {path}.tools[{n}]."
            problem = f"Currently custom tools are not allowed inside a namespace. {found}"
            raise server_refusal(path, problem)
        declared = _function(inner, f"{path}.tools[{n}]")
        function = declared["function"]
        about = fields.get("description") if images else None
        described = (
            f"{about}\n{function['description'] or ''}" if about else function["description"]
        )
        name = _full_name(space, function["name"], images)
        yield _declared(name, described, function["parameters"], function["strict"])


def _function(fields: Object, path: str) -> Object:
    name = rust.text_in(fields, "name", path)
    strict = rust.maybe_bool_of(fields.get("strict"), f"{path}.strict")
    check_name(name, f"{path}.name")
    return _declared(name, fields.get("description"), fields.get("parameters"), strict)


def _declared(name: str, described: object, schema: object, strict: object = None) -> Object:
    function = {"name": name, "description": described, "parameters": schema, "strict": strict}
    return {"type": "function", "function": function}


def _choice(choice: object) -> object:
    if choice is None or choice in TOOL_CHOICES:
        return choice
    if not isinstance(choice, Mapping):
        problem = "expected one of `none`, `auto`, `required` or a tool choice object"
        raise server_refusal("tool_choice", problem)
    kind = rust.variant_in(dict(choice), "type", CHOICES, "tool_choice")
    if kind.startswith("web_search"):
        return "auto"
    name = rust.text_in(dict(choice), "name", "tool_choice")
    return {"type": "function", "function": {"name": name}}
