"""A Responses request as the official API reads it: the Chat request that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dsv4._encode.tools import to_json
from dsv4.profiles import rust_json as rust
from dsv4.profiles.official_api import refusal
from dsv4.profiles.recipe_request import check_name
from dsv4.profiles.server_requests import BLANK_LINE, TOOL_CHOICES, Object, server_refusal

ROLES = ("user", "assistant", "system", "developer")
PARTS = ("input_text", "output_text", "input_image", "input_file")
CHOICES = ("function", "web_search", "web_search_2025_08_26", "custom")
FORMATS = ("text", "json_schema", "json_object")
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
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


def responses_as_chat(body: Object) -> Object:
    """The Chat request for the same. Raises where the API refuses it in words of this protocol."""
    chat = {name: body[name] for name in _SAME_FIELDS if name in body}
    chat["messages"] = _messages(body)
    chat["tools"] = list(_tools(body.get("tools")))
    chat["tool_choice"] = _choice(body.get("tool_choice"))
    if "top_logprobs" in chat:
        chat["logprobs"] = True
    reasoning = body.get("reasoning")
    if reasoning is not None:
        fields = rust.map_of(reasoning, "reasoning", "ResponsesReasoning")
        chat["reasoning_effort"] = fields.get("effort")
    text = body.get("text")
    form = rust.map_of(text, "text", "ResponsesText").get("format") if text is not None else None
    if form is not None:
        chat["response_format"] = _format(rust.map_of(form, "text.format", "TextFormat"))
    chat["max_tokens"] = body.get("max_output_tokens")
    return chat


def _format(form: Object) -> Object:
    kind = rust.variant_in(form, "type", FORMATS, "text.format")
    if kind != "json_schema":
        return {"type": kind}
    schema = rust.present(form, "schema", "text.format")
    return {"type": kind, "json_schema": {"name": form.get("name"), "schema": schema}}


# Items.


def _messages(body: Object) -> list[Object]:
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
    messages = front + list(_turns(given))
    _check_results(messages)
    return messages


def _turns(items: Sequence[object]) -> Iterator[Object]:
    """The items as messages: a run of the assistant's is one, and reasoning begins the next."""
    turn: Object = {}
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise server_refusal(f"input[{index}]", "invalid input item")
        kind = item.get("type", "message")
        if _is_answer(item, kind):
            if kind == "reasoning" and (turn.get("content") or turn.get("tool_calls")):
                yield turn
                turn = {}
            turn = _with_item(turn, item, kind, index)
            continue
        if turn:
            yield turn
            turn = {}
        if kind in OUTPUTS:
            id = rust.text_in(item, "call_id", f"input[{index}]")
            output = _content(rust.present(item, "output", f"input[{index}]"), index, "tool")
            yield {"role": "tool", "tool_call_id": id, "content": output}
        elif kind == "message":
            role = rust.variant_in(item, "role", ROLES, f"input[{index}]")
            content = _content(rust.present(item, "content", f"input[{index}]"), index, role)
            yield {"role": "system" if role == "developer" else role, "content": content}
    if turn:
        yield turn


def _is_answer(item: Object, kind: object) -> bool:
    return (
        kind in CALLS
        or kind == "reasoning"
        or (kind == "message" and item.get("role") == "assistant")
    )


def _with_item(turn: Object, item: Object, kind: str, index: int) -> Object:
    """A turn of the assistant's with one more item."""
    path = f"input[{index}]"
    turn = turn or {"role": "assistant", "content": []}
    if kind == "message":
        content = _content(rust.present(item, "content", path), index, "assistant")
        return {**turn, "content": [*turn["content"], *content]}
    if kind == "reasoning":
        parts = rust.list_of(item.get("content"), f"{path}.content")
        texts = [str(p.get("text")) for p in parts if p.get("type") == "reasoning_text"]
        before = [turn["reasoning_content"]] if "reasoning_content" in turn else []
        return {**turn, "reasoning_content": BLANK_LINE.join(before + texts)} if texts else turn
    text = rust.text_in(item, CALLS[kind], path)
    arguments = text if kind == "function_call" else to_json({"input": text})
    space = item.get("namespace")
    name = rust.text_in(item, "name", path)
    call = {
        "id": rust.text_in(item, "call_id", path),
        "type": "function",
        "function": {"name": f"{space}::{name}" if space else name, "arguments": arguments},
    }
    return {**turn, "tool_calls": [*turn.get("tool_calls", ()), call]}


def _content(content: object, index: int, role: str) -> list[Object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    path = f"input[{index}].content"
    if not isinstance(content, list):
        raise server_refusal(path, "content should be a string or a list of content blocks")
    return [_part(part, f"{path}[{n}]", index, role) for n, part in enumerate(content)]


def _part(part: object, path: str, index: int, role: str) -> Object:
    fields = rust.map_of(part, path, "ResponsesContent")
    kind = rust.variant_in(fields, "type", PARTS, path)
    if kind == "input_file":
        return {"type": "text", "text": "[Unsupported Document]"}
    if kind != "input_image":
        return {"type": "text", "text": rust.text_in(fields, "text", path)}
    if role in ("assistant", "system"):
        raise refusal("image-assistant", path, _PROTOCOL, index=index, role=role)
    if isinstance(fields.get("file_id"), str):
        return {"type": "file", "file_id": fields["file_id"]}
    return {"type": "image_url", "image_url": {"url": rust.text_in(fields, "image_url", path)}}


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
            twice = next((id for n, id in enumerate(waiting) if id in waiting[:n]), None)
            if twice is not None:
                raise refusal("ids-twice", "input", _PROTOCOL, id=twice)


# Tools.


def _tools(tools: object) -> Iterator[Object]:
    """The functions. What else there is runs on the server, or is dropped."""
    for n, tool in enumerate(rust.list_of(tools, "tools")):
        path = f"tools[{n}]"
        fields = rust.map_of(tool, path, "ResponsesTool")
        kind = fields.get("type")
        if kind == "function":
            yield _function(fields, path)
        elif kind == "namespace":
            space, about = rust.text_in(fields, "name", path), fields.get("description")
            for inner in rust.list_of(fields.get("tools"), f"{path}.tools"):
                yield _function(rust.map_of(inner, path, "ResponsesTool"), path, space, about)
        elif kind == "custom":
            name = rust.text_in(fields, "name", path)
            if name != _PATCH_TOOL:
                raise refusal("tool-types", path, _PROTOCOL, name=name)
            yield _declared(name, fields.get("description"), _PATCH_SCHEMA)


def _function(fields: Object, path: str, space: str = "", about: object = None) -> Object:
    name = rust.text_in(fields, "name", path)
    check_name(name, f"{path}.name")
    described = fields.get("description")
    if space:
        name, described = f"{space}::{name}", f"{about}\n{described or ''}" if about else described
    return _declared(name, described, fields.get("parameters"))


def _declared(name: str, described: object, schema: object) -> Object:
    function = {"name": name, "description": described, "parameters": schema}
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
