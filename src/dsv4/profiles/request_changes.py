"""Changes that proxies and servers make to a request before a prompt is made from it.

Each change takes the body of a Chat request and returns another one, or the very same object if it
has nothing to do: this tells with which requests a fault can be seen. The given body is never
altered, and a body of an unexpected form passes as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from dsv4._format.texts import BILLING_HEADER
from dsv4.api.request_fields import maybe_json
from dsv4.profiles.server_requests import Object, server_refusal, template_options
from dsv4.profiles.text_shields import BILLING_SHIELD

RequestChange: TypeAlias = Callable[[Object], Object]
MessageChange: TypeAlias = Callable[[Object], "Object | None"]

_REASONING = ("reasoning_content", "reasoning")


def messages_in(body: Object) -> list[Object]:
    """The messages of a body that are objects. The server refuses others."""
    messages = body.get("messages")
    return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []


def with_messages(body: Object, changed: Sequence[Object]) -> Object:
    """The body with these messages; the same object if they are the ones that it has."""
    before = messages_in(body)
    same = len(before) == len(changed) and all(a is b for a, b in zip(before, changed, strict=True))
    return body if same else {**body, "messages": list(changed)}


def each_message(change: MessageChange, *roles: str) -> RequestChange:
    """Changes every message of these roles, or of any; drops those that become None."""

    def changed(body: Object) -> Object:
        listed = [
            change(m) if not roles or m.get("role") in roles else m for m in messages_in(body)
        ]
        return with_messages(body, [m for m in listed if m is not None])

    return changed


def each_text(change: Callable[[str], str], *roles: str) -> RequestChange:
    """Changes every content that is one text, in messages of these roles, or of any."""

    def of_message(message: Object) -> Object:
        content = message.get("content")
        new = change(content) if isinstance(content, str) else content
        return message if new == content else {**message, "content": new}

    return each_message(of_message, *roles)


def without(*fields: str) -> Callable[[Object], Object]:
    """Removes these fields from a body, a message or a function."""

    def changed(value: Object) -> Object:
        if not any(field in value for field in fields):
            return value
        return {key: item for key, item in value.items() if key not in fields}

    return changed


# Systems and developers.


def _drop(message: Object) -> None:
    return None


system_dropped: RequestChange = each_message(_drop, "system")
developer_dropped: RequestChange = each_message(_drop, "developer")
developer_as_system: RequestChange = each_message(lambda m: {**m, "role": "system"}, "developer")


def _text_of(message: Object) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "\n\n".join(_texts(content))


def _texts(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def system_in_front(text: str, adds: Callable[[set[object]], bool]) -> RequestChange:
    """Adds a system message of the server's own if `adds` is true of the messages' roles."""

    def changed(body: Object) -> Object:
        listed = messages_in(body)
        if not adds({m.get("role") for m in listed}):
            return body
        return with_messages(body, [{"role": "system", "content": text}, *listed])

    return changed


def default_system(text: str, *instructing: str) -> RequestChange:
    """Adds a system message of the server's own if no message has one of these roles."""
    return system_in_front(text, lambda roles: roles.isdisjoint(instructing))


def system_for_developers(text: str) -> RequestChange:
    """Adds a system message of the server's own if there is a developer's."""
    return system_in_front(text, lambda roles: "developer" in roles)


def developer_text_added(text: str) -> RequestChange:
    """Adds a text of the server's own at the end of each developer message."""
    return each_message(lambda m: {**m, "content": f"{_text_of(m)}\n\n{text}"}, "developer")


def system_text_added(text: str, *, before: bool) -> RequestChange:
    """Adds a text of the server's own to the system text of every request."""

    def changed(body: Object) -> Object:
        listed = messages_in(body)
        if not listed or listed[0].get("role") != "system":
            return with_messages(body, [{"role": "system", "content": text}, *listed])
        own = _text_of(listed[0])
        both = f"{text}\n\n{own}" if before else f"{own}\n\n{text}"
        return with_messages(body, [{**listed[0], "content": both}, *listed[1:]])

    return changed


def later_systems_in_front(body: Object) -> Object:
    listed = messages_in(body)
    systems = [m for m in listed if m.get("role") == "system"]
    if not systems or listed[: len(systems)] == systems:
        return body
    front = {"role": "system", "content": "\n\n".join(map(_text_of, systems))}
    return with_messages(body, [front, *(m for m in listed if m.get("role") != "system")])


def systems_in_first_user(body: Object) -> Object:
    """Moves every system text to the head of the first user message."""
    listed = messages_in(body)
    texts = [_text_of(m) for m in listed if m.get("role") == "system"]
    others = [m for m in listed if m.get("role") != "system"]
    first = next((n for n, m in enumerate(others) if m.get("role") == "user"), None)
    if not texts or first is None:
        return body
    text = "\n\n".join([*texts, _text_of(others[first])])
    others[first] = {**others[first], "content": text}
    return with_messages(body, others)


billing_kept: RequestChange = each_text(
    lambda text: BILLING_SHIELD + text if text.startswith(BILLING_HEADER) else text, "system"
)


# Thinking and effort.


_ON, _OFF = {"type": "enabled"}, {"type": "disabled"}
_SWITCHES = ("thinking", "enable_thinking")


def thinking_set(thinking: bool) -> RequestChange:
    """Sets the thinking switches of all servers, whatever the request says."""

    def changed(body: Object) -> Object:
        switches = dict.fromkeys(_SWITCHES, thinking)
        new: Object = {
            **body,
            "thinking": _ON if thinking else _OFF,
            "chat_template_kwargs": {**template_options(body), **switches},
        }
        if thinking and new.get("reasoning_effort") == "none":
            del new["reasoning_effort"]
        return new

    return changed


def thinking_by_default(thinking: bool) -> RequestChange:
    """Sets the thinking switches if a request does not mention thinking and has no effort."""
    always = thinking_set(thinking)

    def changed(body: Object) -> Object:
        switched = any(name in template_options(body) for name in _SWITCHES)
        says = switched or "thinking" in body or "reasoning_effort" in body
        return body if says else always(body)

    return changed


def template_default(**defaults: Any) -> RequestChange:
    """Sets defaults of `chat_template_kwargs`, as vLLM does: the request's own values there win,
    and so does an effort."""

    return lambda body: {**body, "chat_template_kwargs": {**defaults, **template_options(body)}}


def effort_by_default(effort: str) -> RequestChange:
    """Sets an effort if a request has none and does not mention thinking."""

    def changed(body: Object) -> Object:
        if body.keys() & {"reasoning_effort", "thinking", "chat_template_kwargs"}:
            return body
        return {**body, "reasoning_effort": effort}

    return changed


def effort_as(source: str | None, target: str) -> RequestChange:
    """Replaces one effort with another. A `source` of None stands for any effort except `none`."""

    def changed(body: Object) -> Object:
        effort = body.get("reasoning_effort")
        if effort in (None, target) or (effort == "none" and source is None):
            return body
        return {**body, "reasoning_effort": target} if source in (None, effort) else body

    return changed


def effort_always(target: str) -> RequestChange:
    """Sets this effort always, also without one in the request, but not in place of `none`."""

    def changed(body: Object) -> Object:
        effort = body.get("reasoning_effort")
        return body if effort in ("none", target) else {**body, "reasoning_effort": target}

    return changed


def effort_as_switch(body: Object) -> Object:
    """Replaces an effort with thinking on or off; an existing `thinking` stays. litellm's provider
    `deepseek` did so up to 1.108."""
    effort = body.get("reasoning_effort")
    if effort is None:
        return body
    switch = _OFF if effort == "none" else _ON
    return {"thinking": switch, **without("reasoning_effort")(body)}


def no_effort_as_switch(body: Object) -> Object:
    """Sets `thinking.type` in place of the effort `none`, and beside other efforts. litellm's
    provider `deepseek` has done so since 1.109. A server that ignores it thinks by its default."""
    switched = effort_as_switch(body)
    if body.get("reasoning_effort") in (None, "none") or switched["thinking"] == _OFF:
        return switched
    return {**body, "thinking": _ON}


def thinking_as_effort(body: Object) -> Object:
    """Replaces thinking that is on with the lowest effort; an existing effort stays."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return body
    changed = without("thinking")(body)
    if thinking.get("type") == "enabled":
        changed.setdefault("reasoning_effort", "minimal")
    return changed


# Tools.


tools_dropped: RequestChange = without("tools", "tool_choice")


def _each(change: Callable[[Object], Object], items: object) -> Any:
    """A list of tools or calls with the function of each changed. The same list if nothing changes;
    anything other than such a list stays as it is."""

    def changed(item: object) -> object:
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(function, dict):
            return item
        new = change(function)
        return item if new == function else {**item, "function": new}

    if not isinstance(items, list):
        return items
    listed = [changed(item) for item in items]
    return items if listed == items else listed


def each_function(change: Callable[[Object], Object]) -> RequestChange:
    """Changes the function of every tool."""

    def changed(body: Object) -> Object:
        tools = _each(change, body.get("tools"))
        return body if tools is body.get("tools") else {**body, "tools": tools}

    return changed


def _schema_without(schema: object, field: str, goes: Callable[[object], bool]) -> Any:
    """A schema without a field at any depth, if `goes` is true of its value: a property may have
    the same name."""
    if isinstance(schema, list):
        return [_schema_without(item, field, goes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    fields = {key: item for key, item in schema.items() if key != field or not goes(item)}
    return {key: _schema_without(item, field, goes) for key, item in fields.items()}


_without_description = without("description")
_without_strict = without("strict")
_without_reasoning = without(*_REASONING)


def _parameters_undescribed(function: Object) -> Object:
    if "parameters" not in function:
        return function
    parameters = function["parameters"]
    undescribed = _schema_without(parameters, "description", lambda text: isinstance(text, str))
    return {**function, "parameters": undescribed}


def _opened(function: Object) -> Object:
    opened: Object = _schema_without(function, "additionalProperties", lambda more: more is False)
    return opened


descriptions_stripped: RequestChange = each_function(_without_description)
descriptions_stripped_inside: RequestChange = each_function(_parameters_undescribed)
descriptions_stripped_everywhere: RequestChange = each_function(
    lambda function: _without_description(_parameters_undescribed(function))
)
additional_properties_lost: RequestChange = each_function(_opened)
closed_and_strict_lost: RequestChange = each_function(
    lambda function: _opened(_without_strict(function))
)
strict_lost: RequestChange = each_function(_without_strict)


def tools_reversed(body: Object) -> Object:
    tools = body.get("tools")
    if not isinstance(tools, list) or len(tools) < 2:
        return body
    return {**body, "tools": tools[::-1]}


def tools_refused(body: Object) -> Object:
    """Refuses tools that may be called, as a vLLM without a parser for calls does."""
    if body.get("tools") and body.get("tool_choice") != "none":
        raise server_refusal("tools", "found some, expected none where calls cannot be read")
    return body


def choice_none_lost(body: Object) -> Object:
    return without("tool_choice")(body) if body.get("tool_choice") == "none" else body


# Reasoning of earlier answers.


reasoning_dropped: RequestChange = each_message(_without_reasoning, "assistant")


def reasoning_dropped_in_loop(body: Object) -> Object:
    """Drops the reasoning of answers after the last question, and keeps that of others."""
    listed = messages_in(body)
    last = max((n for n, m in enumerate(listed) if m.get("role") == "user"), default=-1)
    return with_messages(
        body,
        [
            _without_reasoning(m) if n > last and m.get("role") == "assistant" else m
            for n, m in enumerate(listed)
        ],
    )


def _only_reasoning(message: Object) -> Object:
    """A message as a server sees it that reads `reasoning` but not `reasoning_content`."""
    new = _without_reasoning(message)
    if "reasoning" not in message:
        return new
    return {**new, "reasoning_content": message["reasoning"]}


def _space_for_reasoning(message: Object) -> Object:
    if any(message.get(field) for field in _REASONING):
        return message
    return {**_without_reasoning(message), "reasoning_content": " "}


def _space_for_reasoning_of_calls(message: Object) -> Object:
    return _space_for_reasoning(message) if message.get("tool_calls") else message


only_reasoning: RequestChange = each_message(_only_reasoning, "assistant")
only_reasoning_content: RequestChange = each_message(without("reasoning"), "assistant")
space_for_reasoning: RequestChange = each_message(_space_for_reasoning, "assistant")
space_for_reasoning_of_calls: RequestChange = each_message(
    _space_for_reasoning_of_calls, "assistant"
)


def old_reasoning_kept(body: Object) -> Object:
    return {**body, "chat_template_kwargs": {**template_options(body), "drop_thinking": False}}


# Calls, arguments and results.


def _without_calling(message: Object) -> Object | None:
    return None if message.get("tool_calls") else message


calls_dropped: RequestChange = each_message(without("tool_calls"), "assistant")


def calls_and_results_dropped(body: Object) -> Object:
    return each_message(_drop, "tool")(calls_dropped(body))


def calling_turns_dropped(body: Object) -> Object:
    return each_message(_drop, "tool")(each_message(_without_calling, "assistant")(body))


def one_call_kept(which: int, *, results_too: bool) -> RequestChange:
    """Keeps one call of each answer; the results of the others are dropped too, or stay."""

    def changed(body: Object) -> Object:
        messages: list[Object] = []
        lost_ids: set[object] = set()
        for message in messages_in(body):
            calls = message.get("tool_calls")
            if message.get("role") == "assistant" and isinstance(calls, list) and len(calls) > 1:
                one = calls[which]
                lost_ids |= {
                    str(c.get("id")) for c in calls if isinstance(c, dict) and c is not one
                }
                message = {**message, "tool_calls": [one]}
            elif results_too and str(message.get("tool_call_id")) in lost_ids:
                continue
            messages.append(message)
        return with_messages(body, messages)

    return changed


def each_arguments(change: Callable[[str], str]) -> RequestChange:
    """Changes the arguments of every call that are text."""

    def of_function(function: Object) -> Object:
        text = function.get("arguments")
        return {**function, "arguments": change(text)} if isinstance(text, str) else function

    def of_message(message: Object) -> Object:
        calls = _each(of_function, message.get("tool_calls"))
        return message if calls is message.get("tool_calls") else {**message, "tool_calls": calls}

    return each_message(of_message, "assistant")


def _values(change: Callable[[object], object]) -> Callable[[str], str]:
    """Changes every value of arguments that are an object."""

    def changed(text: str) -> str:
        value = maybe_json(text)
        if not isinstance(value, dict):
            return text
        new = {key: change(item) for key, item in value.items()}
        return text if new == value else json.dumps(new, ensure_ascii=False)

    return changed


def _rounded(value: object) -> Any:
    """Floats with six significant digits, as a C++ stream writes them."""
    if isinstance(value, float):
        return float(f"{value:g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return {k: _rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


arguments_lost: RequestChange = each_arguments(lambda text: "{}")
arguments_twice_encoded: RequestChange = each_arguments(
    lambda text: json.dumps(text, ensure_ascii=False)
)
floats_rounded: RequestChange = each_arguments(_values(_rounded))
parameters_all_strings: RequestChange = each_arguments(_values(as_text))


def _none_for_empty(message: Object) -> Object:
    return message if message.get("content") else {**message, "content": "None"}


def _none_for_null(message: Object) -> Object:
    return {**message, "content": "None"} if message.get("content") is None else message


empty_content_none: RequestChange = each_message(_none_for_empty, "assistant")
null_content_none: RequestChange = each_message(_none_for_null, "assistant")


def results_written(**style: Any) -> RequestChange:
    """Writes results that hold JSON in another style."""

    def of_text(text: str) -> str:
        value = maybe_json(text)
        return json.dumps(value, **style) if isinstance(value, (dict, list)) else text

    return each_text(of_text, "tool")


# Contents.


def parts_joined(separator: str | None) -> RequestChange:
    """Joins content lists to one text. A separator of None keeps only the first text."""

    def of_message(message: Object) -> Object:
        if not isinstance(message.get("content"), list):
            return message
        texts = list(_texts(message["content"]))
        text = "".join(texts[:1]) if separator is None else separator.join(texts)
        return {**message, "content": text}

    return each_message(of_message)


texts_stripped: RequestChange = each_text(str.strip)


def history_truncated(most: int) -> RequestChange:
    """Keeps only the last messages, and all system and developer messages."""

    def changed(body: Object) -> Object:
        listed = messages_in(body)
        others = [n for n, m in enumerate(listed) if m.get("role") not in ("system", "developer")]
        positions = set(others[:-most])
        return with_messages(body, [m for n, m in enumerate(listed) if n not in positions])

    return changed


def texts_truncated(characters: int, *roles: str) -> RequestChange:
    """Cuts texts after so many characters, in messages of these roles, or of any."""
    return each_text(lambda text: text[:characters], *roles)


def results_truncated(characters: int) -> RequestChange:
    """Cuts results of tools after so many characters."""
    return texts_truncated(characters, "tool")


def _without_last_newline(text: str) -> str:
    return text.rstrip("\n")


last_newline_lost: RequestChange = each_text(
    _without_last_newline, "system", "user", "assistant", "tool"
)
last_newline_of_results_lost: RequestChange = each_text(_without_last_newline, "tool")


def longest_text(body: Object) -> int:
    """The characters of the longest message that is one text."""
    return max((len(m["content"]) for m in messages_in(body) if is_text(m)), default=0)


def is_text(message: Object) -> bool:
    return isinstance(message.get("content"), str)
