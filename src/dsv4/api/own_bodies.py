"""dsv4's own shapes of a conversation, read as the released encoder reads them: a list of messages,
an object with the options of `dsv4.Request`, ShareGPT's form, a prompt with its completion.

Only fields that the prompt depends on are read, and messages are passed on unchanged: the encoder
checks them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4.api.errors import ApiError
from dsv4.errors import Location, OptionError, mismatch, path_of
from dsv4.request import Request


class NotAConversation(ApiError):
    """A value that is not a conversation in any of the shapes, or one with a wrong value in it."""


def _not_read(value: object, expected: str, path: str) -> NotAConversation:
    return NotAConversation(mismatch(value, expected), path=path)


# ShareGPT conversations (`from` and `value`), as many datasets have them.
#
# They are read if they have exactly one meaning as a list of messages, and refused otherwise.


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
        raise _not_read(speaker, f"one of {', '.join(_ROLE_OF_SPEAKER)}", f"{path}.from")
    _refuse_other_words(turn, role, path)
    content = turn.get("content") if value in (None, "") else value
    taken = ("from", "value", "role", "content")
    beside = {name: field for name, field in turn.items() if name not in taken}
    message: dict[str, Any] = {"role": role, "content": content, **beside}
    if speaker == "function_call":
        return message | {"content": None, "tool_calls": _calls(value, path, len(before))}
    given = turn.get("tool_call_id")
    return message | {"tool_call_id": _open_id(before, path, given)} if role == "tool" else message


def _refuse_other_words(turn: Mapping[str, Any], role: str, path: str) -> None:
    """Raises for fields of a message in a turn that contradict the turn."""
    speaker, value = turn["from"], turn["value"]
    other = turn.get("role")
    if other is not None and (not isinstance(other, str) or _ROLE_OF_SPEAKER.get(other) != role):
        raise _not_read(other, f"the role of {speaker}", f"{path}.role")
    for name in ("content", "tool_calls") if speaker == "function_call" else ("content",):
        if turn.get(name) not in (None, "", [], value) and value not in (None, ""):
            raise _not_read(turn[name], "none beside value", f"{path}.{name}")


def _calls(value: object, path: str, index: int) -> list[dict[str, Any]]:
    """Calls as JSON: one object with name and arguments, or a list of these."""
    calls: Any = json_of(value, f"{path}.value") if isinstance(value, str) else value
    calls = calls if isinstance(calls, list) else [calls]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        raise _not_read(value, "calls as JSON, each with name and arguments", f"{path}.value")
    functions = [with_arguments(call, f"{path}.value") for call in calls]
    return [
        {
            "id": f"call_{index}_{n}",
            "type": "function",
            "function": {"arguments": {}, **function},
        }
        for n, function in enumerate(functions)
    ]


# The names of the arguments of a call in data sets: those of OpenAI, Llama, LangChain and
# Anthropic.
CALL_ARGUMENTS = ("arguments", "parameters", "args", "input")


def with_arguments(
    function: Mapping[str, Any], path: str, beside: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A function of a call with its arguments under the name that is read, whatever their name in
    it or in the fields `beside` it. Raises where two differ."""
    given = [
        fields[name]
        for fields in (function, beside or {})
        for name in CALL_ARGUMENTS
        if fields.get(name) is not None
    ]
    if any(arguments != given[0] for arguments in given):
        raise NotAConversation("found arguments under two names, expected them once", path=path)
    rest = {name: value for name, value in function.items() if name not in CALL_ARGUMENTS}
    return {**rest, "arguments": given[0]} if given else rest


def _open_id(before: list[dict[str, Any]], path: str, given: object) -> str:
    """The id of the call that a result answers: the given id, if a call has it, or else that of the
    first call without a result."""
    for answered, message in enumerate(reversed(before)):
        if message["role"] != "tool":
            calls = message.get("tool_calls")
            listed = calls[answered:] if isinstance(calls, list) else []
            if isinstance(given, str) and given in _ids(calls):
                return given
            if listed and isinstance(listed[0], dict) and "id" in listed[0]:
                return str(listed[0]["id"])
            break
    problem = "found a result, expected a call before it that it answers"
    raise NotAConversation(problem, path=path)


def _ids(calls: object) -> list[object]:
    listed = calls if isinstance(calls, list) else []
    return [call.get("id") for call in listed if isinstance(call, dict)]


def json_of(text: str, path: str) -> Any:
    """The value of the JSON text at a `path`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _not_read(text, "JSON", path) from None


# Messages.


def messages_of(body: object) -> Any:
    """The messages of a body. They are checked when they are encoded."""
    if isinstance(body, list):
        return body
    if not isinstance(body, dict):
        raise NotAConversation(mismatch(body, "a list of messages or a request"))
    if is_sharegpt(body):
        return sharegpt_messages(body)
    if "messages" not in body and "completion" in body and "prompt" in body:
        prompt, completion = (_turns(body[name], name) for name in ("prompt", "completion"))
        return with_system(body, prompt + completion)
    if "messages" not in body:
        hint = ": put the messages in a list" if "role" in body else ""
        if is_pair(body):
            hint = ", but a pair of answers: dsv4 dataset --preferences reads it"
        elif "instruction" in body:
            hint = ", but a line of Alpaca's data: dsv4 dataset reads it"
        raise NotAConversation(f'found an object without "messages"{hint}')
    return with_system(body, body["messages"])


_ROLES_OF_TEXTS = {"prompt": "user", "completion": "assistant"}


def _turns(value: object, name: str) -> list[Any]:
    """The messages of a prompt or a completion: a list, or a text that is a single message."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [{"role": _ROLES_OF_TEXTS[name], "content": value}]
    raise _not_read(value, "text or a list of messages", name)


def is_pair(body: Mapping[str, Any]) -> bool:
    """Whether an object has two answers, of which one is preferred."""
    sides = [body.get(name) for name in ("chosen", "rejected") if name in body]
    return (len(sides) == 2 and sides != [None, None]) or body.get("preferred_output") is not None


def with_system(body: Mapping[str, Any], messages: Any) -> Any:
    """The messages, after the system prompt that the body has beside them, if it has one."""
    if not has_system_field(body) or not isinstance(messages, list):
        return messages
    return [{"role": "system", "content": body["system"]}, *messages]


def has_system_field(body: object) -> bool:
    """Whether an object has a system prompt beside the messages."""
    return (
        isinstance(body, dict)
        and bool(body.get("system"))
        and isinstance(body["system"], (str, list))
    )


def role_of(message: object) -> object:
    """The role of a message; None for a value that is not a message."""
    return message.get("role") if isinstance(message, dict) else None


def is_of_model(item: Mapping[str, Any]) -> bool:
    """Whether the model wrote a message or an item of Responses."""
    kind = str(item.get("type"))
    return item.get("role") == "assistant" or kind == "reasoning" or kind.endswith("_call")


# Options.


# The options that only dsv4 has: first those that a server does not read, then all of them. Last,
# the options that Chat Completions has too, under the same name.
ONLY_OWN = ("dialect", "bos", "context", "prefix")
OWN_OPTIONS = (*ONLY_OWN, "effort", "drop_thinking")
SHARED_OPTIONS = ("tools", "tool_choice", "response_format", "stop")

# Options of the chat template, as vLLM and SGLang take them -> their names in `dsv4.Request`.
TEMPLATE_OPTIONS = {
    "enable_thinking": "thinking",
    "thinking": "thinking",
    "reasoning_effort": "effort",
    "drop_thinking": "drop_thinking",
}
# Names of options in a Chat request -> their names in `dsv4.Request`.
CHAT_OPTION_NAMES = {
    **{name: name for name in SHARED_OPTIONS},
    "reasoning_effort": "effort",
    **{name: name for name in OWN_OPTIONS},
}
# All fields that are read beside the conversation.
FIELDS_READ = frozenset({"system", "model", "thinking", "chat_template_kwargs", *CHAT_OPTION_NAMES})


_READ_BESIDE = {
    names[0]: FIELDS_READ.union(names)
    for names in (("messages",), ("conversations",), ("prompt", "completion"))
}


def fields_read(body: Mapping[str, Any]) -> frozenset[str]:
    """The fields that are read of an object, by the field in which it has its conversation."""
    if is_sharegpt(body):
        return _READ_BESIDE["conversations"]
    return _READ_BESIDE["messages" if "messages" in body else "prompt"]


def own_request(body: object, dialect: Dialect) -> Request:
    """The request in a value, unchanged: no message is renamed, joined or moved."""
    options = own_options(body) if isinstance(body, dict) else {}
    try:
        return Request(messages_of(body), **{**options, "dialect": dialect})
    except OptionError as error:
        raise ApiError(
            error.problem, path=path_of(written_location(error.location, body))
        ) from None


def written_location(location: Location, body: object) -> Location:
    """The place of an option of `dsv4.Request` in the body that gives it, by its name there."""
    if not isinstance(body, dict) or not location or location[0] == "messages":
        return location
    for name, option in CHAT_OPTION_NAMES.items():
        if option == location[0] and body.get(name) is not None:
            return (name, *location[1:])
    value = body.get("chat_template_kwargs")
    inside = value if isinstance(value, dict) else {}
    for name, option in TEMPLATE_OPTIONS.items():
        if option == location[0] and inside.get(name) is not None:
            return ("chat_template_kwargs", name, *location[1:])
    return location


def own_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `dsv4.Request` that an object gives, by their names there."""
    options: dict[str, Any] = {}
    if is_sharegpt(body):
        options["tools"] = sharegpt_tools(body)
        body = {name: body[name] for name in body if name != "tools"}
    options |= _template_options(body.get("chat_template_kwargs"))
    if (thinking := _thinking(body.get("thinking"))) is not None:
        options["thinking"] = thinking
    for name, option in CHAT_OPTION_NAMES.items():
        if body.get(name) is not None:
            options[option] = body[name]
    return options


def _template_options(value: object) -> dict[str, Any]:
    """The template options that are given. The request's own fields take precedence."""
    if not isinstance(value, dict):
        return {}
    options = TEMPLATE_OPTIONS.items()
    return {option: value[name] for name, option in options if value.get(name) is not None}


_THINKING = {"enabled": True, "disabled": False}


def _thinking(value: object) -> object:
    """The switch, a flag or `{"type": "enabled"}` as OpenAI-like servers take it. Anything else is
    passed on, and refused as an option."""
    kind = value.get("type") if isinstance(value, dict) else value
    return _THINKING.get(kind, value) if isinstance(kind, str) else value if kind else kind


# The options of a request that are written only if they differ from these defaults.
_DEFAULTS = {"drop_thinking": True, "bos": True, "prefix": "", "tool_choice": "auto"}


def body_of_request(request: Request, dialect: str) -> dict[str, Any]:
    """A request as an object with dsv4's own options, which reads as the same request."""
    body: dict[str, Any] = {
        "messages": request.messages,
        "thinking": request.thinking,
        "dialect": dialect,
    }
    if request.effort is not None:
        body["effort"] = request.effort
    if request.context:
        body["context"] = list(request.context)
    own = {name: getattr(request, name) for name in _DEFAULTS}
    return body | {name: value for name, value in own.items() if value != _DEFAULTS[name]}
