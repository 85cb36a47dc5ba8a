"""The prompts of vLLM: the encoder that was released with V4, behind vLLM's own reading of the
request. Releases of vLLM differ in their copies of the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dsv4._encode.encode import effort_text, render_conversation
from dsv4._encode.prompt import Prompt
from dsv4._encode.turns import NATIVE
from dsv4._format import tokens
from dsv4._format.texts import BILLING_HEADER
from dsv4.api.request_fields import maybe_json
from dsv4.errors import short_repr
from dsv4.profiles import server_requests as server
from dsv4.profiles.server_requests import (
    Object,
    ServedDialects,
    ServerRules,
    ThinkingMode,
    server_refusal,
)
from dsv4.types import Effort

_V4_RULES = ServerRules(
    roles=None,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    thinking_switches=("thinking", "enable_thinking"),
    reasoning_fields=("reasoning", "reasoning_content"),
    result_separator="\n",
)
RULES = {
    "v4": _V4_RULES,
    "v4.1": replace(
        _V4_RULES,
        roles=("system", "developer", "user", "assistant", "tool"),
        result_separator=_V4_RULES.separator,
    ),
}
# The efforts that V4 writes for those of a request; any other text is high.
V4_EFFORTS: dict[str, Effort] = {"low": "low", "minimal": "low", "medium": "low", "max": "max"}
V4_1_EFFORTS: dict[str, Effort] = {"low": "low", "high": "high", "xhigh": "high", "max": "max"}
# An unknown role is refused only if it is written: where reasoning is dropped, so are such messages
# before the last user turn. Tools need no name.
_ENCODING = replace(NATIVE, known_roles_only=False, named_tools=False)
RESPONSE_FORMATS = ("text", "json_object", "json_schema", "structural_tag")
# The fields of a message that are kept besides its role and text. On V4 only a developer has
# `tools`.
OTHER_FIELDS = ("tool_call_id", "task")


def render(body: Object, dialect: str, served: ServedDialects = server.SERVED_DIALECTS) -> str:
    _check_response_format(body.get("response_format"))
    tools = _tools(body)
    thinking, effort, drop = _options(body, dialect)
    messages = [_message(m, path, dialect) for m, path in server.messages_of(body)]
    if tools:
        messages = server.with_extras(messages, {"tools": tools})
    if not messages:
        return str(tokens.BOS)
    release = server.served_dialect(dialect, served)
    words = effort_text(effort if thinking else None, release, _ENCODING)
    rendered = render_conversation(messages, (), release, _ENCODING, thinking, drop, True, words)
    prompt = Prompt(rendered.flat, release, rendered.images, rendered.omissions, rendered.sampled)
    if dialect == "v4":
        return _with_asking_systems(prompt, messages, thinking, drop)
    return str(prompt)


# The request.


def _check_response_format(value: object) -> None:
    """Refuse a value that is not a format. A format that vLLM takes is not part of the prompt."""
    if value is None:
        return
    fields = server.object_at(value, "response_format")
    kind = server.one_of(fields.get("type"), RESPONSE_FORMATS, "response_format.type")
    if kind == "json_schema":
        path = "response_format.json_schema"
        named = server.object_at(fields.get("json_schema"), path)
        server.text_at(named.get("name"), f"{path}.name")


def _tools(body: Object) -> list[Object]:
    """The tools as the template sees them. `tool_choice` does not change them."""
    choice = body.get("tool_choice")
    value = body.get("tools")
    if value is None:
        if choice is not None and choice != "none":
            raise server_refusal(
                "tool_choice", f"found {short_repr(choice)} without tools, expected none"
            )
        return []
    listed = server.list_at(value, "tools")
    if not listed:
        raise server_refusal("tools", "found an empty list, expected a tool, or no such field")
    tools = [_tool(tool, f"tools[{n}]") for n, tool in enumerate(listed)]
    server.check_chosen(server.named_choice(choice), [tool["function"]["name"] for tool in tools])
    return tools


def _tool(tool: object, path: str) -> Object:
    _, function, name = server.function_of(tool, path, "function")
    path = f"{path}.function"
    parameters = function.get("parameters")
    shown_function: Object = {
        "name": name,
        "description": server.maybe_text(function.get("description"), f"{path}.description"),
        "parameters": None
        if parameters is None
        else server.object_at(parameters, f"{path}.parameters"),
    }
    if function.get("strict") is not None:
        shown_function["strict"] = server.flag_at(function["strict"], f"{path}.strict")
    return {"type": "function", "function": shown_function}


def mode(body: Object, dialect: str) -> ThinkingMode:
    thinking, effort, _ = _options(body, dialect)
    return server.thinking_mode(thinking, effort, dialect)


def _options(body: Object, dialect: str) -> tuple[bool, Effort, bool]:
    """Whether the model thinks, how hard, and whether old reasoning is dropped."""
    arguments = dict(server.maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs"))
    rules = RULES[dialect]
    effort = rules.effort(body)
    if effort is not None:
        arguments["reasoning_effort"] = effort
        arguments.setdefault("enable_thinking", effort != "none")
    switches = rules.switches(arguments)
    thinking = any(switches) if switches else True
    effort = arguments.get("reasoning_effort")
    if effort == "none":
        thinking, effort = False, None
    drop = bool(arguments.get("drop_thinking", True))
    if dialect != "v4":
        return thinking, server.v4_1_effort(effort, V4_1_EFFORTS), drop
    return thinking, V4_EFFORTS.get(effort, "high") if isinstance(effort, str) else "high", drop


# Messages.


def _message(message: Object, path: str, dialect: str) -> Object:
    rules = RULES[dialect]
    role = rules.role(message.get("role"), f"{path}.role")
    for field in ("name", "tool_call_id"):
        if field in message:
            server.maybe_text(message[field], f"{path}.{field}")
    fields: Object = {"role": role, "content": _content(message, role, path, dialect)}
    for field in OTHER_FIELDS:
        if message.get(field) is not None:
            fields[field] = message[field]
    if message.get("tools") and (dialect == "v4.1" or role == "developer"):
        fields["tools"] = message["tools"]
    reasoning = rules.reasoning(message)
    if role == "assistant" or reasoning:  # for other roles it is only searched
        fields["reasoning"] = str(reasoning) if reasoning else ""
    if role == "assistant":
        fields["tool_calls"] = list(server.calls_of(message, path, _arguments))
    return fields


def _content(message: Object, role: str, path: str, dialect: str) -> str | list[Object]:
    """The content as a text, or as parts if there are images among them."""
    content, path = message.get("content"), f"{path}.content"
    if content is None and (role == "assistant" or "content" not in message):
        return ""
    parts = [content] if isinstance(content, str) else list(_parts(content, path, role, dialect))
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    if dialect == "v4" and role == "system":
        texts = [text for text in map(_without_billing, texts) if text is not None]
    rules = RULES[dialect]
    return (rules.result_separator if role == "tool" else rules.separator).join(texts)


# The kinds of parts, and the fields that hold their texts. Kinds that vLLM adds to OpenAI's are
# accepted only beside one of those, or in a role of its own; on V4, so are a bare text and a null.
_OWN_KINDS = {"input_text": "text", "output_text": "text"}
_PART_KINDS = {
    "v4": {"text": "text", "refusal": "refusal", "thinking": "thinking"},
    "v4.1": {"text": "text"},
}
# Addresses that images may have; V4 reads none. Files need a setting of the server.
_IMAGE_ADDRESSES = ("http://", "https://", "data:")


def _image(part: object, path: str) -> Object | None:
    """An image, in any role; None for another part."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in ("image_url", "input_image"):
        return None
    address = part.get("image_url")
    if kind == "image_url":
        address = server.object_at(address, f"{path}.image_url").get("url")
    else:
        server.text_at(part.get("detail"), f"{path}.detail")
    # An empty address is accepted, and its placeholder written; whether it is an image is unknown.
    address = server.text_at(address, f"{path}.image_url")
    if address and not address.startswith(_IMAGE_ADDRESSES):
        raise server.unexpected(address, "an address of HTTP, or data", f"{path}.image_url")
    return {"type": "image_url", "image_url": {"url": address or _IMAGE_ADDRESSES[-1]}}


def _parts(content: object, path: str, role: str, dialect: str) -> Iterator[str | Object]:
    """The texts and images of a content list."""
    v4 = dialect == "v4"
    standard = _PART_KINDS[dialect]
    if v4 and content == {} and role != "latest_reminder":
        return  # it is accepted as an empty iterable
    parts = server.list_at(content, path)
    if not parts and not v4:
        raise server_refusal(path, "found an empty list, expected a part")
    images = {} if v4 else {n: _image(part, f"{path}[{n}]") for n, part in enumerate(parts)}
    lenient = role == "latest_reminder" or any(_is_standard(part, standard) for part in parts)
    kinds = {**standard, **_OWN_KINDS} if lenient else standard
    for n, part in enumerate(parts):
        if (v4 and lenient and isinstance(part, str)) or images.get(n) is not None:
            yield images.get(n) or part
            continue
        fields = server.object_at(part, f"{path}[{n}]")
        kind = kinds[server.one_of(fields.get("type"), tuple(kinds), f"{path}[{n}].type")]
        if not lenient or (fields.get(kind) is not None if v4 else kind in fields):
            yield server.text_at(fields.get(kind), f"{path}[{n}].{kind}")
        elif not v4:
            yield ""


def _is_standard(part: object, kinds: Mapping[str, str]) -> bool:
    if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
        return False
    return isinstance(part.get(kinds.get(kind, "")), str)


def _without_billing(part: str) -> str | None:
    if not part.startswith(BILLING_HEADER):
        return part
    _, newline, rest = part.partition("\n")
    return rest if newline else None


def _arguments(arguments: object, path: str) -> Object:
    """The arguments as Python reads them. Anything but a JSON object is lost silently."""
    value = maybe_json(server.text_at(arguments, path))
    return value if isinstance(value, dict) else {}


# The parts of the prompt that only vLLM writes.


def _with_asking_systems(
    prompt: Prompt, messages: Sequence[Object], thinking: bool, drop: bool
) -> str:
    """The prompt with a header after each system turn that is last or that an answer follows."""
    dropping = thinking and drop and not any(message.get("tools") for message in messages)
    asking = ("user", "tool", "developer")
    last = max((n for n, m in enumerate(messages) if m["role"] in asking), default=-1)

    def header(index: int) -> str:
        aloud = thinking and (not dropping or index >= last)
        return tokens.ASSISTANT + (tokens.THINK_START if aloud else tokens.THINK_END)

    staying = [
        n
        for n, message in enumerate(messages)
        if not dropping or n >= last or message["role"] != "developer"
    ]
    answered = {
        after: header(index)
        for index, after in pairwise(staying)
        if messages[index]["role"] == "system" and messages[after]["role"] == "assistant"
    }
    texts = []
    if not answered:  # nearly always: pieces take longer than all the rest
        texts.append(str(prompt))
    for piece in prompt.pieces if answered else ():
        if piece.message in answered:
            texts.append(answered.pop(piece.message))
        texts.append(piece.text)
    if staying and messages[staying[-1]]["role"] == "system":
        texts.append(header(staying[-1]))
    return "".join(texts)
