"""Fixes that need no guess about what was meant.

Each fix takes the body of a request and returns one with the same meaning, or None if there is
nothing to fix. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from dsv4._check.findings import message_text
from dsv4._check.training_checks import leaked_kinds, maybe_completion
from dsv4._encode.turns import NATIVE
from dsv4.api import ApiError
from dsv4.api.own_bodies import is_sharegpt, role_of, sharegpt_messages, sharegpt_tools

Messages: TypeAlias = list[Any]
RequestBody: TypeAlias = dict[str, Any]


class FixedBody(NamedTuple):
    """A body after all fixes, and sentences on what they did."""

    body: object
    done: list[str]


def fix_body(body: object) -> FixedBody:
    """Fixes everything in a list of messages or a Chat request that can be fixed.

    Any other value is returned unchanged.
    """
    listed = isinstance(body, list)
    request = {"messages": body} if listed else _from_sharegpt(body)
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return FixedBody(body, [])
    fixes: list[str] = []
    for what, fix in _FIXES:
        better = fix(request)
        if better is not None:
            request = better
            fixes.append(what)
    if not fixes:
        return FixedBody(body, [])
    return FixedBody(
        request["messages"] if listed and list(request) == ["messages"] else request, fixes
    )


def _from_sharegpt(body: object) -> object:
    """ShareGPT's form as a request, which can hold the results of all fixes."""
    if not isinstance(body, dict) or not is_sharegpt(body):
        return body
    try:
        messages, tools = sharegpt_messages(body), sharegpt_tools(body)
    except ApiError:
        return body
    rest = {n: v for n, v in body.items() if n not in ("conversations", "system", "tools")}
    return {**rest, "messages": messages, **({"tools": tools} if tools else {})}


# The request.


def _thinking(request: RequestBody) -> RequestBody | None:
    """Replaces the thinking switches of other servers, which are not read, with the one that is."""
    arguments = request.get("chat_template_kwargs")
    arguments = arguments if isinstance(arguments, dict) else {}
    flags = [request.get("enable_thinking"), *(arguments.get(n) for n in _SWITCHES)]
    flags = [flag for flag in flags if isinstance(flag, bool)]
    if not flags or request.get("thinking") is not None or len(set(flags)) > 1:
        return None
    rest = {
        n: v for n, v in request.items() if n not in ("enable_thinking", "chat_template_kwargs")
    }
    others = {n: v for n, v in arguments.items() if n not in _SWITCHES}
    options = {"chat_template_kwargs": others} if others else {}
    return {**rest, **options, "thinking": {"type": "enabled" if flags[0] else "disabled"}}


_SWITCHES = ("thinking", "enable_thinking")


def _functions(request: RequestBody) -> RequestBody | None:
    """Replaces OpenAI's older name for tools."""
    functions = request.get("functions")
    if not isinstance(functions, list) or request.get("tools"):
        return None
    tools = [{"type": "function", "function": function} for function in functions]
    return _with_other_name(request, "functions", "tools", tools)


def _function_choice(request: RequestBody) -> RequestBody | None:
    """Replaces OpenAI's older name for the choice of a tool."""
    choice = request.get("function_call")
    if choice is None or request.get("tool_choice") is not None:
        return None
    named = choice.get("name") if isinstance(choice, dict) else None
    if named is not None:
        choice = {"type": "function", "function": {"name": named}}
    return _with_other_name(request, "function_call", "tool_choice", choice)


def _with_other_name(request: RequestBody, old: str, new: str, value: object) -> RequestBody:
    """The request with a field under another name, at the same position, with another value."""
    renamed = {(new if n == old else n): v for n, v in request.items() if n != new}
    return {**renamed, new: value}


# The messages.


def _old_calls(messages: Messages) -> Messages:
    """Replaces OpenAI's older form of calls and results: `function_call`, and the role
    `function`."""
    result: Messages = []
    waiting: tuple[str, str] | None = None
    for index, message in enumerate(messages):
        call = message.get("function_call") if role_of(message) == "assistant" else None
        if isinstance(call, dict) and _is_repeated(call, message.get("tool_calls")):
            result.append({n: v for n, v in message.items() if n != "function_call"})
        elif isinstance(call, dict) and not message.get("tool_calls"):
            waiting = (str(call.get("name")), f"call_{index}")
            rest = {n: v for n, v in message.items() if n != "function_call"}
            calls = [{"id": waiting[1], "type": "function", "function": call}]
            result.append({**rest, "tool_calls": calls})
        elif role_of(message) == "function" and waiting and message.get("name") == waiting[0]:
            rest = {n: v for n, v in message.items() if n not in ("role", "name")}
            result.append({"role": "tool", "tool_call_id": waiting[1], **rest})
            waiting = None
        else:
            result.append(message)
    return result


def _is_repeated(call: object, calls: object) -> bool:
    """Whether a call in the older form only repeats the single call of a message."""
    listed = calls if isinstance(calls, list) else []
    return [each.get("function") for each in listed if isinstance(each, dict)] == [call]


def _leaked_markup(messages: Messages) -> Messages:
    """Moves reasoning and calls out of an answer's text, as the parser reads them."""
    return [_without_leaks(messages, index) for index in range(len(messages))]


def _without_leaks(messages: Messages, index: int) -> object:
    message = messages[index]
    if role_of(message) != "assistant" or not leaked_kinds(message_text(message)):
        return message
    read = maybe_completion(message_text(message))
    if read is None:
        return message
    # Spaces and line ends around the tags come from a template.
    content, reasoning = read.content.strip(), read.reasoning.strip()
    calls = [call.to_dict() for call in read.tool_calls]
    has_reasoning = any(message.get(name) for name in NATIVE.reasoning_fields)
    if (reasoning and has_reasoning) or (calls and message.get("tool_calls")):
        return message  # it is not certain which of the two was meant
    fixed: dict[str, Any] = {**message, "content": content}
    if reasoning:
        fixed["reasoning_content"] = reasoning
    if calls:
        ids = _ids_for_calls(messages, index, len(calls))
        fixed["tool_calls"] = [{**call, "id": id} for call, id in zip(calls, ids, strict=True)]
    return fixed


def _ids_for_calls(messages: Messages, index: int, count: int) -> list[str]:
    """The ids of the results that follow, if each call has one; else new ids."""
    ids = [messages[n].get("tool_call_id") for n in _results_after(messages, index)]
    if len(ids) == count == len(set(map(str, ids))) and all(ids):
        return ids
    return [f"call_{index}_{n}" for n in range(count)]


def _ids_of_results(messages: Messages) -> Messages:
    """Adds the id to a result without one, if only one call can be meant."""
    done = list(messages)
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") if role_of(message) == "assistant" else None
        if isinstance(calls, list) and len(calls) == 1 and isinstance(calls[0], dict):
            results = list(_results_after(messages, index))
            if calls[0].get("id") and len(results) == 1:
                result = messages[results[0]]
                if not result.get("tool_call_id"):
                    done[results[0]] = {**result, "tool_call_id": calls[0]["id"]}
    return done


def _results_after(messages: Messages, index: int) -> Iterator[int]:
    for n in range(index + 1, len(messages)):
        if role_of(messages[n]) != "tool":
            return
        yield n


def _one_system(messages: Messages) -> Messages:
    """Joins the system messages at the start that are only text, with blank lines between."""
    count = next((n for n, m in enumerate(messages) if not _is_plain_system(m)), len(messages))
    if count < 2:
        return messages
    text = "\n\n".join(filter(None, (message["content"] for message in messages[:count])))
    return [{"role": "system", "content": text}, *messages[count:]]


def _is_plain_system(message: object) -> bool:
    return (
        isinstance(message, dict)
        and role_of(message) == "system"
        and isinstance(message.get("content"), str)
        and set(message) == {"role", "content"}
    )


def _names(messages: Messages) -> Messages:
    """Renames fields whose name can only mean one other field, if that field is missing."""
    return list(map(_renamed, messages))


def _renamed(message: object) -> object:
    if not isinstance(message, dict):
        return message
    right = {
        _NAMES[name]: value
        for name, value in message.items()
        if name in _NAMES and message.get(_NAMES[name]) is None
    }
    if not right:
        return message
    return {
        n: v for n, v in message.items() if _NAMES.get(n) not in right and n not in right
    } | right


_NAMES = {
    "contents": "content",
    "toolCalls": "tool_calls",
    "toolCallId": "tool_call_id",
    "reasoningContent": "reasoning_content",
    "reasoning_contents": "reasoning_content",
}


def _of_messages(
    fix: Callable[[Messages], Messages],
) -> Callable[[RequestBody], RequestBody | None]:
    def fix_request(request: RequestBody) -> RequestBody | None:
        better = fix(request["messages"])
        return None if better == request["messages"] else {**request, "messages": better}

    return fix_request


_FIXES: Sequence[tuple[str, Callable[[RequestBody], RequestBody | None]]] = (
    ("changed enable_thinking to thinking", _thinking),
    ("changed functions to tools", _functions),
    ("changed function_call to tool_choice", _function_choice),
    ("renamed misspelled fields", _of_messages(_names)),
    ("changed function_call to tool_calls", _of_messages(_old_calls)),
    ("moved reasoning and calls out of the text of answers", _of_messages(_leaked_markup)),
    ("added the missing tool_call_id of results", _of_messages(_ids_of_results)),
    ("joined the system messages", _of_messages(_one_system)),
)
