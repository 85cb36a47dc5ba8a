"""deepseek-recipe 0.2.0, on which the official API is built: from a request to a conversation, with
the refusals of both as the API words them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from dsv4._format.texts import BILLING_HEADER, RECIPE_IMAGE, RECIPE_NO_IMAGE
from dsv4.errors import EncodeError
from dsv4.profiles import rust_json as rust
from dsv4.profiles import server_requests as server
from dsv4.profiles.official_api import RULES as LIMITS
from dsv4.profiles.official_api import refusal
from dsv4.profiles.recipe_schemas import check_schema, check_strict, strict_parameters
from dsv4.profiles.server_requests import (
    BLANK_LINE,
    Object,
    ServedDialects,
    ThinkingMode,
    server_refusal,
)

# The conversation.


Effort: TypeAlias = Literal["low", "high", "max"]

EFFORTS: dict[str | None, Effort] = {
    **{None: "high", "none": "high"},
    **{"minimal": "low", "low": "low"},
    **{"medium": "high", "high": "high", "xhigh": "high"},
    **{"ultra": "max", "max": "max"},
}
EFFORT_NAMES = tuple(name for name in EFFORTS if name is not None)
ROLES = ("system", "user", "assistant", "tool", "latest_reminder")
THINKING = {"adaptive": True, "enabled": True, "disabled": False}
FORMATS = ("json_object", "json_schema", "regex", "text")
PARTS = ("text", "image_url", "file")
DETAILS = ("low", "high", "original", "auto")
_NAME = re.compile(r"[A-Za-z0-9_-]*")
# The place where the text after a client's billing line begins.
_AFTER_BILLING = re.compile(r"\n|(?=You are)")


@dataclass(frozen=True)
class RecipeCall:
    """A call: its id, the tool's name, and its arguments as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class RecipeMessage:
    """A checked message. `reasoning` is None if there is none, or if the mode has none."""

    role: str
    text: str
    reasoning: str | None = None
    calls: tuple[RecipeCall, ...] = ()
    call_id: str = ""
    prefix: bool = False


@dataclass(frozen=True)
class RecipeConversation:
    """The conversation in a request, the same for every release that writes it.

    `schemas` are the tools to show, `format` is the JSON Schema to follow, `json_object` stands for
    any object. `forced` says that the answer must be a call.
    """

    messages: tuple[RecipeMessage, ...]
    thinking: bool
    effort: Effort
    schemas: tuple[Object, ...]
    format: object = None
    json_object: bool = False
    forced: bool = False

    @property
    def continued(self) -> bool:
        """Whether the last message is to be continued."""
        return self.messages[-1].prefix if self.messages else False


@dataclass(frozen=True)
class RecipeRules:
    """The rules for reading a request; `protocol` is the one whose messages refusals have.

    - `needs_reasoning`: missing reasoning is refused, and not read as an empty text.
    - `takes_files`: parts that refer to an uploaded file are taken.
    - `big_integers`: integers beyond 64 bits become floats.
    """

    protocol: str = "chat"
    needs_reasoning: bool = False
    takes_files: bool = False
    big_integers: bool = True


def read_recipe_request(
    body: Object, images: bool, rules: RecipeRules | None = None
) -> RecipeConversation:
    """A request, checked as deepseek-recipe checks it; `images`: whether the model sees images."""
    rules = rules or RecipeRules()
    body = rust.checked_json(body, "request", rules.big_integers)
    rust.check_given(body, _FLAGS, "")
    thinking, effort = _mode(body)
    functions = _functions(body, rules.protocol)
    messages = tuple(_messages(body, thinking, images, rules))
    _check_results(messages)
    if thinking and rules.needs_reasoning:
        _check_reasoning(messages, bool(functions), rules.protocol)
    messages = tuple(_with_reasoning(message, thinking) for message in messages)
    keeps_all = rules.protocol == "responses"
    others = tuple(m for m in messages if keeps_all or m.role != "system" or m.text)
    format, json_object = _format(body, others, rules.protocol)
    schemas, forced = _tools(body, functions, thinking, rules.protocol)
    if others and others[-1].prefix:
        _check_prefix(others, bool(functions), json_object)
    return RecipeConversation(others, thinking, effort, schemas, format, json_object, forced)


def mode(
    body: Object, dialect: str, served: ServedDialects = server.SERVED_DIALECTS
) -> ThinkingMode:
    return server.thinking_mode(*_mode(body), dialect, served)


def _mode(body: Object) -> tuple[bool, Effort]:
    effort = body.get("reasoning_effort")
    if effort is not None:
        rust.variant_of(effort, EFFORT_NAMES, "reasoning_effort")
    thinking = effort != "none"
    if body.get("thinking") is not None:
        switch = rust.map_of(body["thinking"], "thinking", "ChatCompletionThinking")
        _check_integer(switch.get("budget_tokens"), "thinking.budget_tokens", "u64")
        thinking = THINKING[rust.variant_in(switch, "type", tuple(THINKING), "thinking")]
    return thinking, EFFORTS[effort]


# Tools.


def _functions(body: Object, protocol: str) -> list[Object]:
    """The functions that a request declares, each with a name that is allowed."""
    listed = rust.list_of(body.get("tools"), "tools")
    functions = [_function(tool, f"tools[{n}]") for n, tool in enumerate(listed)]
    if protocol == "chat":  # the others have the name in another place
        for n, function in enumerate(functions):
            check_name(function["name"], f"tools[{n}].function.name")
    return functions


def _tools(
    body: Object, functions: Sequence[Object], thinking: bool, protocol: str
) -> tuple[tuple[Object, ...], bool]:
    """The schemas to show, and whether one of them must be called."""
    choice = body.get("tool_choice")
    wanted = _named_choice(choice)
    if not functions or choice == "none":
        return (), False
    names = [function["name"] for function in functions]
    if len(set(names)) < len(names):
        raise refusal("name-unique", "tools")
    if wanted is not None and wanted not in names:
        raise refusal("choice-unknown", "tool_choice.function.name", name=wanted)
    forced = wanted is not None or choice == "required"
    if forced and thinking:
        raise refusal("forced-call", "tool_choice")
    for n, function in enumerate(functions):
        if not function.get("strict"):
            check_parameters(function, f"tools[{n}].function")
    shown_tools = {
        f"tools[{n}].function": function
        for n, function in enumerate(functions)
        if wanted in (None, function["name"])
        # In Messages a tool can be kept back until a result refers to it.
        and not (protocol == "messages" and function.get("defer_loading"))
    }
    return tuple(_schemas(shown_tools, body)), forced


def _named_choice(choice: object) -> str | None:
    """The name of the tool that a `tool_choice` asks for; None if it is absent, or a mode."""
    if isinstance(choice, dict):
        if not choice:
            raise _odd_choice()
        rust.variant_in(choice, "type", ("function",), "tool_choice")
        kind = "ChatCompletionToolChoiceFunction"
        named = rust.map_in(choice, "function", "tool_choice", kind)
        return rust.text_in(named, "name", "tool_choice.function")
    if choice is not None and choice not in server.TOOL_CHOICES:
        raise _odd_choice()
    return None


def _odd_choice() -> EncodeError:
    return server_refusal("tool_choice", "expected one of `none`, `auto`, `required` or a tool")


def _function(tool: object, path: str) -> Object:
    fields = rust.map_of(tool, path, "ChatCompletionTool")
    rust.variant_in(fields, "type", ("function",), path)
    function = rust.map_in(fields, "function", path, "ChatCompletionFunctionDefinition")
    rust.text_in(function, "name", f"{path}.function")
    rust.maybe_text_of(function.get("description"), f"{path}.function.description")
    rust.maybe_bool_of(function.get("strict"), f"{path}.function.strict")
    return function


def check_name(name: str, field: str) -> None:
    """Refuse the name of a tool that is empty, too long, or has characters that are not allowed."""
    if not name:
        raise refusal("empty-text", field, field=field)
    if len(name) > LIMITS["name-length"]["most"]:
        raise refusal("name-length", field, field=field, length=len(name))
    if not _NAME.fullmatch(name):
        raise refusal("name-pattern", field, field=field)


def check_parameters(function: Object, path: str) -> None:
    """Refuse the parameters of a tool if they are not the schema of an object."""
    parameters, at = function.get("parameters"), f"{path}.parameters"
    if parameters is None:
        return
    _check_schema(parameters, at, function["name"])
    kind = parameters.get("type") if isinstance(parameters, dict) else None
    if kind != "object":
        name, found = function["name"], rust.v4_json(kind)
        raise refusal("schema-type", f"{at}.type", name=name, type=found)


def _check_schema(schema: object, path: str, name: object) -> None:
    try:
        check_schema(schema, path)
    except EncodeError as error:
        raise refusal("schema", error.path, name=name, problem=error.problem) from None


def _schemas(functions: Mapping[str, Object], body: Object) -> Iterator[Object]:
    """The functions, given by their paths, as the model sees them."""
    strict = [bool(function.get("strict")) for function in functions.values()]
    if any(strict) and not all(strict):
        raise refusal("strict-mixed", "tools")
    if all(strict) and body.get("response_format") is not None:
        raise refusal("strict-format", "response_format")
    for path, function in functions.items():
        if function.get("strict"):
            parameters = strict_parameters(function.get("parameters"), f"{path}.parameters")
            function = {**function, "parameters": parameters}
        yield shown_schema(function)


def shown_schema(function: Object) -> Object:
    """A function as the model sees it."""
    parameters = function.get("parameters")
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": {} if parameters is None else parameters,
    }


# Messages.


def _messages(
    body: Object, thinking: bool, images: bool, rules: RecipeRules
) -> Iterator[RecipeMessage]:
    listed = rust.present(body, "messages", "")
    if listed is None:
        raise rust.wrong_type(listed, "a sequence", "messages")
    reader = _MessageReader(images, rules)
    messages = [
        reader.fields(message, n) for n, message in enumerate(rust.list_of(listed, "messages"))
    ]
    # Items of Responses that become no message are left out, so it may have no messages.
    if not messages and rules.protocol != "responses":
        raise refusal("no-messages", "messages", rules.protocol)
    for n, message in enumerate(messages):
        yield reader.read(message, n, last=n == len(messages) - 1)


@dataclass(frozen=True)
class _MessageReader:
    """Reads messages for a model with or without `images`."""

    images: bool
    rules: RecipeRules

    def fields(self, message: object, index: int) -> Object:
        """A message with the fields that its role has."""
        path = f"messages[{index}]"
        fields = rust.tagged(message, path, "ChatCompletionRequestMessage")
        role = rust.tag_in(fields, "role", ROLES, path)
        rust.maybe_text_of(fields.get("name"), f"{path}.name")
        if role == "tool":
            rust.text_in(fields, "tool_call_id", path)
        if role != "assistant":
            rust.present(fields, "content", path)
        return fields

    def read(self, message: Object, index: int, last: bool) -> RecipeMessage:
        role, path = message["role"], f"messages[{index}]"
        if role == "assistant":
            return self._answer(message, index, last)
        if role == "latest_reminder":
            return RecipeMessage(role, rust.text_of(message["content"], f"{path}.content"))
        text = self._content(message["content"], index)
        if role == "system":
            return RecipeMessage(role, _without_billing(text))
        return RecipeMessage(role, text, call_id=message.get("tool_call_id", ""))

    def _answer(self, message: Object, index: int, last: bool) -> RecipeMessage:
        path, content = f"messages[{index}]", message.get("content")
        calls = tuple(_calls(message.get("tool_calls"), f"{path}.tool_calls"))
        if content is None and not calls:
            raise refusal("assistant-empty", f"{path}.content")
        text = "" if content is None else self._content(content, index, answers=True)
        field = f"{path}.reasoning_content"
        thought = rust.maybe_text_of(message.get("reasoning_content"), field)
        prefix = rust.maybe_bool_of(message.get("prefix"), f"{path}.prefix")
        if prefix and not last:
            raise refusal("prefix-last", f"{path}.prefix")
        return RecipeMessage("assistant", text, thought, calls, prefix=bool(prefix))

    def _content(self, content: object, index: int, answers: bool = False) -> str:
        if isinstance(content, str):
            return content
        path = f"messages[{index}].content"
        if not isinstance(content, (list, tuple)):
            raise refusal("contents", path)
        texts = [self._part(part, f"{path}[{n}]", index) for n, part in enumerate(content)]
        if answers and self.images and any(part.get("type") == "image_url" for part in content):
            raise refusal("image-assistant", path)
        return BLANK_LINE.join(texts)

    def _part(self, part: object, path: str, index: int) -> str:
        fields = rust.tagged(part, path, "ChatCompletionRequestContentBlock")
        kind = rust.tag_in(fields, "type", PARTS, path)
        if kind == "text":
            return rust.text_in(fields, "text", path)
        if kind == "image_url":
            image = rust.map_in(fields, "image_url", path, "ChatCompletionImageUrl")
            self._check_image(image, f"{path}.image_url", index)
        elif self.images and not (self.rules.takes_files and fields.get("file_id")):
            problem = f".messages[{index}]: file must have a file_id or file_data"
            raise server_refusal(path, problem)
        return RECIPE_IMAGE if self.images else RECIPE_NO_IMAGE

    def _check_image(self, image: Object, path: str, index: int) -> None:
        url = rust.text_in(image, "url", path)
        if image.get("detail") is not None:
            rust.variant_of(image["detail"], DETAILS, f"{path}.detail")
        if self.images and not url.startswith("data:"):
            check_link(url, f"{path}.url", index=index)


def check_link(url: str, path: str, protocol: str = "chat", **place: object) -> None:
    """Refuse the address of an image that is not HTTP, or is too long."""
    if not url.startswith(("http://", "https://")):
        raise refusal("image-scheme", path, protocol, url=url, **place)
    if len(url) > LIMITS["image-link"]["most"]:
        raise refusal("image-link", path, protocol, length=len(url), **place)


def _with_reasoning(message: RecipeMessage, thinking: bool) -> RecipeMessage:
    """A message; an assistant's with its reasoning as text, or None without thinking."""
    if message.role != "assistant":
        return message
    return replace(message, reasoning=(message.reasoning or "") if thinking else None)


def _without_billing(text: str) -> str:
    if not text.startswith(BILLING_HEADER):
        return text
    after = _AFTER_BILLING.search(text)
    return text[after.end() :].lstrip() if after else ""


def _calls(calls: object, path: str) -> Iterator[RecipeCall]:
    if calls is None:
        return
    listed = rust.list_of(calls, path)
    if not listed:
        raise refusal("calls-empty", path, field=path)
    for n, call in enumerate(listed):
        at = f"{path}[{n}]"
        fields = rust.map_of(call, at, "ChatCompletionRequestToolCall")
        id = rust.text_in(fields, "id", at)
        rust.variant_in(fields, "type", ("function",), at)
        function = rust.map_in(fields, "function", at, "ChatCompletionRequestFunctionCall")
        name = rust.text_in(function, "name", f"{at}.function")
        yield RecipeCall(id, name, rust.text_in(function, "arguments", f"{at}.function"))


# Parts that must fit together.


def _check_results(messages: Sequence[RecipeMessage]) -> None:
    """Refuse messages unless each call has exactly one result, right after it."""
    index = 0
    while index < len(messages):
        message, path = messages[index], f"messages[{index}]"
        if message.role == "tool":
            raise refusal("result-alone", path)
        ids = [call.id for call in message.calls]
        twice = next((id for n, id in enumerate(ids) if id in ids[:n]), None)
        if twice is not None:
            raise refusal("ids-twice", f"{path}.tool_calls", id=twice, index=index)
        results = messages[index + 1 : index + 1 + len(ids)]
        if len(results) < len(ids) or any(result.role != "tool" for result in results):
            raise refusal("unanswered", path)
        _check_ids(ids, [result.call_id for result in results], index + 1)
        index += 1 + len(ids)


def _check_ids(ids: Sequence[str], answered: Sequence[str], start: int) -> None:
    for n, id in enumerate(answered):
        path = f"messages[{start + n}].tool_call_id"
        if id not in ids:
            raise refusal("unanswered-ids", path, ids=id)
        if id in answered[:n]:
            raise refusal("ids-twice", path, id=id, index=start + n)


def _check_reasoning(messages: Sequence[RecipeMessage], tools: bool, protocol: str) -> None:
    """Refuse answers without reasoning after the last user message, if there are tools or calls."""
    users = (n for n, message in enumerate(messages) if message.role == "user")
    start = max(users, default=-1) + 1
    later = messages[start:]
    if not (tools or any(message.calls for message in later)):
        return
    for n, message in enumerate(later, start):
        if message.role == "assistant" and message.reasoning is None:
            raise refusal("reasoning", f"messages[{n}]", protocol)


def _format(body: Object, messages: Sequence[RecipeMessage], protocol: str) -> tuple[object, bool]:
    """The schema that the answer must follow, and whether it is any JSON object."""
    value = body.get("response_format")
    if value is None:
        return None, False
    path = "response_format"
    form = rust.tagged(value, path, "ChatCompletionResponseFormat")
    kind = rust.tag_in(form, "type", FORMATS, path)
    if kind == "regex":
        rust.text_in(form, "regex", path)
    if kind == "json_object":
        if not any("json" in message.text.lower() for message in messages):
            raise refusal("json-word", f"{path}.type", protocol)
        return None, True
    if kind != "json_schema":
        return None, False
    return _schema(rust.map_in(form, "json_schema", path, "JsonSchema")), False


def _schema(wrapper: Object) -> object:
    path = "response_format.json_schema"
    for field in ("name", "description"):
        rust.maybe_text_of(wrapper.get(field), f"{path}.{field}")
    schema = rust.present(wrapper, "schema", path)
    if wrapper.get("strict"):
        check_strict(schema, f"{path}.schema")
        return schema
    try:
        check_schema(schema, f"{path}.schema")
    except EncodeError as error:
        raise server_refusal(error.path, f"Invalid json schema: {error.problem}") from None
    return schema


def _check_prefix(messages: Sequence[RecipeMessage], tools: bool, json_object: bool) -> None:
    """Refuse a prefix with tools or JSON. `tools`: whether the request has any, before its
    `tool_choice` applies."""
    path = f"messages[{len(messages) - 1}].prefix"
    if tools or any(message.calls or message.role == "tool" for message in messages):
        raise refusal("prefix-tools", path)
    if json_object:
        raise refusal("prefix-json", path)


# Numbers that do not touch the prompt.


_BOUNDED = ("n", "presence_penalty", "frequency_penalty", "temperature", "top_p")
_INTEGERS = {"max_tokens": "u32", "seed": "u64", "n": "u8", "top_logprobs": "u8"}
_LARGEST = {"u8": 2**8 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1}
_FLAGS: Mapping[str, str] = dict.fromkeys(
    ("stream", "logprobs", "parallel_tool_calls"), "a boolean"
)


def check_sampling(body: Object) -> None:
    """Refuse options of a request, besides its prompt, that are out of bounds."""
    for field, kind in _INTEGERS.items():
        _check_integer(body.get(field), field, kind)
    _check_stops(body.get("stop"))
    if body.get("stream_options") is not None and not body.get("stream"):
        raise refusal("stream_options", "stream_options")
    for field in _BOUNDED:
        _check_bounds(body, field)
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        raise refusal("top_logprobs-alone", "top_logprobs")
    for field in ("top_logprobs", "max_tokens", "seed"):
        _check_bounds(body, field)


def _check_integer(value: object, field: str, kind: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise rust.wrong_type(value, kind, field)
    if not 0 <= value <= _LARGEST[kind]:
        raise server_refusal(field, f"invalid value: integer `{value}`, expected {kind}")


def _check_bounds(body: Object, field: str) -> None:
    value, limits = body.get(field), LIMITS[field]
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise rust.wrong_type(value, "f32", field)
    low = value <= limits["above"] if "above" in limits else value < limits["least"]
    if low or value > limits["most"]:
        raise refusal(field, field)


def _check_stops(stop: object) -> None:
    if stop is None:
        return
    if not isinstance(stop, (str, list, tuple)):
        raise server_refusal("stop", "expected a string or a list")
    texts = (
        {"stop": stop} if isinstance(stop, str) else {f"stop[{n}]": s for n, s in enumerate(stop)}
    )
    if len(texts) > LIMITS["stop-count"]["most"]:
        raise refusal("stop-count", "stop", count=len(texts))
    for field, text in texts.items():
        if not rust.text_of(text, field):
            raise refusal("empty-text", field, field=field)
