"""A JSON value as a `Request`: messages, the body of a Chat request, or a ShareGPT conversation.

Only what the prompt depends on is read. Sampling, streaming and the like are ignored, and an
unknown model name is no error: files come from anywhere. A server is stricter (`dsv4.api`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import Dialect, dialect_for
from dsv4._inputs.input_files import InputError
from dsv4.errors import Location, UnknownModel, path_of, short_repr
from dsv4.request import Request
from dsv4.types import DialectName, Effort, ToolInput

# ShareGPT conversations (`from` and `value`), as many datasets have them.
#
# They are read where they have exactly one meaning as a list of messages, and refused otherwise.


_ROLE_OF_SPEAKER = {
    "system": "system",
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model"), "assistant"),
    "function_call": "assistant",
    **dict.fromkeys(("observation", "tool"), "tool"),
}


def is_sharegpt(body: Mapping[str, Any]) -> bool:
    """Whether an object is a conversation in this form."""
    turns = body.get("conversations")
    return isinstance(turns, list) and all(
        isinstance(turn, dict) and "from" in turn and "value" in turn for turn in turns
    )


def sharegpt_messages(
    body: Mapping[str, Any], location: Location = ("conversations",)
) -> list[dict[str, Any]]:
    """The messages. A system prompt beside the turns comes first."""
    system = body.get("system")
    messages = [{"role": "system", "content": system}] if system else []
    for n, turn in enumerate(body["conversations"]):
        messages.append(_message(turn, path_of((*location, n)), messages))
    return messages


def sharegpt_tools(body: Mapping[str, Any]) -> Any:
    """The tools, which may be JSON text."""
    tools = body.get("tools")
    return json_of(tools, "tools") if isinstance(tools, str) and tools.strip() else tools or None


def _message(turn: Mapping[str, Any], path: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    speaker, value = turn["from"], turn["value"]
    role = _ROLE_OF_SPEAKER.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        expected = ", ".join(_ROLE_OF_SPEAKER)
        raise InputError(f"{path}.from: found {short_repr(speaker)}, expected one of {expected}")
    beside = {name: turn[name] for name in _BESIDE_VALUE if turn.get(name) is not None}
    message: dict[str, Any] = {"role": role, "content": value, **beside}
    if speaker == "function_call":
        return message | {"content": None, "tool_calls": _calls(value, path, len(before))}
    return message | {"tool_call_id": _open_id(before, path)} if role == "tool" else message


# What a turn may say beside its text: reasoning, and whether it is trained on.
_BESIDE_VALUE = (
    *("reasoning_content", "reasoning", "thinking"),
    *("weight", "loss", "train", "training"),
)


def _calls(value: object, path: str, index: int) -> list[dict[str, Any]]:
    """Calls as JSON: one object with name and arguments, or a list of these."""
    given = json_of(value, f"{path}.value") if isinstance(value, str) else value
    calls: list[Any] = given if isinstance(given, list) else [given]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        expected = "calls as JSON, each with name and arguments"
        raise InputError(f"{path}.value: found {short_repr(value)}, expected {expected}")
    return [
        {
            "id": f"call_{index}_{n}",
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("arguments", {})},
        }
        for n, call in enumerate(calls)
    ]


def _open_id(before: list[dict[str, Any]], path: str) -> str:
    """The id of the call that a result answers: the first that has none yet."""
    for answered, message in enumerate(reversed(before)):
        if message["role"] != "tool":
            calls = message.get("tool_calls") or ()
            if answered < len(calls):
                return str(calls[answered]["id"])
            break
    raise InputError(f"{path}: found a result, expected a call before it that it answers")


def json_of(text: str, path: str) -> Any:
    """The value of JSON text that stands at a place."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: found {short_repr(text)}, expected JSON") from None


# The roles whose message can carry a task (format.md, section 7).
TASKED_ROLES = ("user", "developer", "assistant")

_THINKING = {"enabled": True, "disabled": False}


def request_of(body: object) -> Request:
    """The request in a JSON value: a list of messages, or an object that has one."""
    if isinstance(body, Request):
        return body
    body = chat_form(body)
    request = Request(messages_of(body))
    return replace(request, **options_of(body)) if isinstance(body, dict) else request


def chat_form(body: object) -> object:
    """A body as a Chat request has it: one of Anthropic's Messages or OpenAI's Responses is
    converted, a `prompt` and its `completion` become messages. Anything else is given back.
    """
    protocol = guess_protocol(body)
    if isinstance(body, dict) and (protocol == "messages" or protocol == "responses"):
        return protocol_chat_form(body, protocol)
    if isinstance(body, dict) and "completion" in body and "prompt" in body:
        prompt, completion = (_turns(body[name], name) for name in ("prompt", "completion"))
        rest = {name: body[name] for name in body if name not in ("prompt", "completion")}
        return {**rest, "messages": prompt + completion}
    return body


def protocol_chat_form(
    body: dict[str, Any], protocol: Literal["messages", "responses"]
) -> dict[str, Any]:
    """A request of another protocol as a Chat request."""
    from dsv4.api import ApiError, convert  # not needed for most files

    try:
        return convert(body, protocol, "chat")
    except ApiError as error:
        place = f"{error.path}: " if error.path else ""
        raise InputError(f"{place}{error.message}") from None


_ROLES_OF_TEXTS = {"prompt": "user", "completion": "assistant"}


def _turns(value: object, name: str) -> list[Any]:
    """The messages of a prompt or a completion: a list of them, or a text that is one."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [{"role": _ROLES_OF_TEXTS[name], "content": value}]
    raise InputError(f"{name}: found {short_repr(value)}, expected text or a list of messages")


SourceProtocol: TypeAlias = Literal["file", "chat", "responses", "messages"]
"""How a value is read: as a gateway reads a request of one of the protocols, or, as the commands
read a file: a list of messages, a Chat request with the format's own fields, ShareGPT's form."""

# Fields that only files have.
_FILE_ONLY_FIELDS = ("dialect", "drop_thinking", "bos", "context", "prefix", "conversations")
_ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def guess_protocol(value: object) -> SourceProtocol:
    """The protocol that a value is most likely in, by fields that only one of them has."""
    if not isinstance(value, dict) or any(name in value for name in _FILE_ONLY_FIELDS):
        return "file"
    if "messages" not in value and ("input" in value or "instructions" in value):
        return "responses"
    if "chat_template_kwargs" not in value and _is_of_anthropic(value):
        return "messages"
    return "chat" if "messages" in value else "file"


def _is_of_anthropic(value: Mapping[str, Any]) -> bool:
    if "system" in value or "max_tokens_to_sample" in value:
        return True
    tools = value.get("tools")
    if isinstance(tools, list) and any(isinstance(t, dict) and "input_schema" in t for t in tools):
        return True
    return has_anthropic_blocks(value)


def has_anthropic_blocks(value: Mapping[str, Any]) -> bool:
    """Whether a message has blocks that only Anthropic's Messages have."""
    listed = value.get("messages")
    for message in listed if isinstance(listed, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in _ANTHROPIC_BLOCKS:
                return True
    return False


# The options that a Chat request has no name for are written under dsv4's own, if they differ from
# the defaults.
_DSV4_OPTIONS = {"drop_thinking": True, "bos": True, "prefix": "", "tool_choice": "auto"}


def body_of_request(request: Request, dialect: str) -> dict[str, Any]:
    """A request in OpenAI's form, as `request_of` reads it."""
    body: dict[str, Any] = {
        "messages": request.messages,
        "thinking": {"type": "enabled" if request.thinking else "disabled"},
        "dialect": dialect,
    }
    if request.effort is not None:
        body["reasoning_effort"] = request.effort
    if request.context:
        body["context"] = list(request.context)
    own = {name: getattr(request, name) for name in _DSV4_OPTIONS}
    return body | {name: value for name, value in own.items() if value != _DSV4_OPTIONS[name]}


def messages_of(body: object) -> Any:
    """The messages of a body. They are checked when they are encoded."""
    if isinstance(body, list):
        return body
    if not isinstance(body, dict):
        found = f"found {short_repr(body)}"
        raise InputError(f"{found}, expected a list of messages or a request")
    if is_sharegpt(body):
        return sharegpt_messages(body)
    if "messages" not in body:
        hint = ": put the messages in a list" if "role" in body else ""
        if {"chosen", "rejected"} <= body.keys() or "preferred_output" in body:
            hint = ", but a pair of answers: dsv4 dataset --preferences reads it"
        raise InputError(f'found an object without "messages"{hint}')
    if has_system_field(body):
        return [{"role": "system", "content": body["system"]}, *body["messages"]]
    return body["messages"]


def has_system_field(body: object) -> bool:
    """Whether a request has its system prompt beside the messages, as Anthropic's have."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return False
    return bool(body.get("system")) and isinstance(body["system"], (str, list))


def options_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `dsv4.Request` that a Chat request gives, by their name there."""
    options: dict[str, Any] = {"dialect": _dialect(body.get("model"))}
    if is_sharegpt(body):
        return options | {"tools": sharegpt_tools(body)}
    options |= _template_options(body.get("chat_template_kwargs"))
    if (thinking := _thinking(body.get("thinking"))) is not None:
        options["thinking"] = thinking
    for name, option in CHAT_OPTION_NAMES.items():
        if body.get(name) is not None:
            options[option] = body[name]
    return options


# Options of the chat template, as vLLM and SGLang take them -> what `dsv4.Request` calls them.
TEMPLATE_OPTIONS = {
    "enable_thinking": "thinking",
    "thinking": "thinking",
    "reasoning_effort": "effort",
    "drop_thinking": "drop_thinking",
}


def _template_options(given: object) -> dict[str, Any]:
    """Those that are given. The request's own fields come before them."""
    if not isinstance(given, dict):
        return {}
    known = TEMPLATE_OPTIONS.items()
    return {option: given[name] for name, option in known if given.get(name) is not None}


# What a Chat request calls an option -> what `dsv4.Request` does.
CHAT_OPTION_NAMES = {
    "tools": "tools",
    "tool_choice": "tool_choice",
    "response_format": "response_format",
    "reasoning_effort": "effort",
    "stop": "stop",
    # What a Chat request has no field for: `dsv4 decode` writes these.
    **{name: name for name in ("dialect", "drop_thinking", "bos", "context", "prefix")},
}
# All fields that are read of a Chat request.
CHAT_FIELDS_READ = ("model", "messages", "thinking", *CHAT_OPTION_NAMES)


def _thinking(value: object) -> object:
    """OpenAI-like servers take a flag, or `{"type": "enabled"}`. Anything else is passed on, and
    refused as an option."""
    kind = value.get("type") if isinstance(value, dict) else value
    return _THINKING.get(kind, value) if isinstance(kind, str) else value if kind else kind


def _dialect(model: object) -> str:
    try:
        return str(dialect_for(model)) if isinstance(model, str) else "v4"
    except UnknownModel:
        return "v4"


@dataclass(frozen=True)
class RequestOverrides:
    """Options for every conversation that is read, in place of its own; None leaves its own.

    The fields are those of `dsv4.Request`, and `task`, which goes on the last message.
    """

    thinking: bool | None = None
    effort: Effort | str | None = None
    dialect: DialectName | Dialect | None = None
    tools: Sequence[ToolInput] | None = None
    drop_thinking: bool | None = None
    bos: bool | None = None
    task: str | None = None

    def on(self, request: Request) -> Request:
        """The request with these options."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        task = given.pop("task", None)
        if task is not None:
            given["messages"] = with_task(request.messages, task)
        return replace(request, **given) if given else request


def with_task(messages: object, task: str) -> list[Any]:
    """The messages with a task on the last, which must be one that can carry it."""
    given: list[Any] = messages if isinstance(messages, list) else []
    role = role_of(given[-1]) if given else None
    if role not in TASKED_ROLES:
        expected = f"a last message of {' or '.join(TASKED_ROLES)}"
        raise InputError(f"task: found {short_repr(role)}, expected {expected}")
    if role == "user" and len(given) > 1 and role_of(given[-2]) in ("user", "tool"):
        problem = "the last message joins the turn before it, where its task would be lost"
        raise InputError(f"task: {problem}")
    return [*given[:-1], {**given[-1], "task": task}]


def role_of(message: object) -> object:
    """The role of a message, if it is one."""
    return message.get("role") if isinstance(message, dict) else None
