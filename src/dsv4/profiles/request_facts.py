"""Facts about a request that servers treat differently, found without judging the request.

Each fact is a function that returns the first location in the request where it holds, or None. Any
request is looked at, even one that no server accepts: parts of an unexpected form have no facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dsv4._format.dialects import ROLES
from dsv4._format.texts import BILLING_HEADER
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Location
from dsv4.profiles.rust_json import read_object, v4_json
from dsv4.profiles.server_requests import Object

RequestFact: TypeAlias = Callable[[Object], Location | None]

_USERS = ("user", "tool")
_SYSTEMS = ("system", "developer")


def _objects(value: object) -> Iterator[tuple[int, Object]]:
    if isinstance(value, (list, tuple)):
        yield from ((n, item) for n, item in enumerate(value) if isinstance(item, dict))


def messages(body: Object, *roles: str) -> Iterator[tuple[int, Object]]:
    """Each message of these roles, or of any, with its index."""
    for index, message in _objects(body.get("messages")):
        if not roles or message.get("role") in roles:
            yield index, message


def functions(body: Object) -> Iterator[tuple[Location, Object]]:
    for n, tool in _objects(body.get("tools")):
        if isinstance(tool.get("function"), dict):
            yield ("tools", n, "function"), tool["function"]


def calls(body: Object) -> Iterator[tuple[Location, object]]:
    """The arguments of each call, with their place."""
    for index, message in messages(body, "assistant"):
        for n, call in _objects(message.get("tool_calls")):
            if isinstance(call.get("function"), dict):
                place = ("messages", index, "tool_calls", n, "function", "arguments")
                yield place, call["function"].get("arguments")


def _first(places: Iterator[Location]) -> Location | None:
    return next(places, None)


def _message_fact(holds: Callable[[Object], object], field: str, *roles: str) -> RequestFact:
    """The field of the first message of these roles, or of any, for which `holds` is true."""
    return lambda body: _first(
        ("messages", index, field) for index, message in messages(body, *roles) if holds(message)
    )


def _arguments_fact(holds: Callable[[str], object]) -> RequestFact:
    """The first arguments that are text and for which `holds` is true."""
    return lambda body: _first(
        place for place, arguments in calls(body) if isinstance(arguments, str) and holds(arguments)
    )


def _option_fact(field: str, holds: Callable[[Any], object]) -> RequestFact:
    """A field of the request itself, if `holds` is true of it."""
    return lambda body: (field,) if holds(body.get(field)) else None


# Tools.


def tools(body: Object) -> Location | None:
    return ("tools",) if next(functions(body), None) else None


def tools_and_systems(body: Object) -> Location | None:
    """Tools, if it is not clear which system message they follow."""
    systems = [index for index, _ in messages(body, *_SYSTEMS)]
    return ("tools",) if tools(body) and systems != [0] else None


no_tools_list: RequestFact = _option_fact("tools", lambda value: value == [])


def odd_schemas(body: Object) -> Location | None:
    """A function object that has other fields than a name, a description and parameters."""
    plain = ["name", "description", "parameters"]
    return _first(
        place
        for place, function in functions(body)
        if list(function) != plain or None in function.values()
    )


def choice_none(body: Object) -> Location | None:
    return ("tool_choice",) if body.get("tool_choice") == "none" and tools(body) else None


choice_required: RequestFact = _option_fact("tool_choice", lambda value: value == "required")


choice_named: RequestFact = _option_fact("tool_choice", lambda value: isinstance(value, dict))


def choice_without_tools(body: Object) -> Location | None:
    is_choice = body.get("tool_choice") not in (None, "none")
    return ("tool_choice",) if is_choice and body.get("tools") is None else None


# Calls and their results.


def _call_ids(message: Object) -> list[str]:
    return [str(call.get("id")) for _, call in _objects(message.get("tool_calls"))]


# Calls of one message whose ids are not in order.
unsorted_calls: RequestFact = _message_fact(
    lambda message: _call_ids(message) != sorted(_call_ids(message)), "tool_calls", "assistant"
)


def results_out_of_order(body: Object) -> Location | None:
    """Results that are not in the order of their calls, one for each."""
    waiting: list[str] = []
    for index, message in messages(body):
        if message.get("role") == "tool":
            if not waiting or message.get("tool_call_id") != waiting.pop(0):
                return ("messages", index, "tool_call_id")
        elif waiting:
            return ("messages", index)
        elif message.get("role") == "assistant":
            waiting = _call_ids(message)
    return ("messages",) if waiting else None


empty_arguments: RequestFact = _arguments_fact(lambda value: not _read(value, True))


# Arguments that do not hold a JSON object.
lost_arguments: RequestFact = _arguments_fact(lambda value: _read(value) is None)


def arguments_as_object(body: Object) -> Location | None:
    return _first(place for place, arguments in calls(body) if not isinstance(arguments, str))


def _read(text: str, missing: object = None) -> object:
    value = maybe_json(text)
    return value if isinstance(value, dict) else missing


def numbers(body: Object) -> Location | None:
    """Numbers in arguments or schemas that servers write differently."""
    return _first(place for place, number in _numbers(body) if _is_odd(number))


def long_floats(body: Object) -> Location | None:
    """Floats of more than six significant digits."""
    floats = ((place, n) for place, n in _numbers(body) if isinstance(n, float))
    return _first(place for place, number in floats if float(f"{number:g}") != number)


def _numbers(body: Object) -> Iterator[tuple[Location, int | float]]:
    values: list[tuple[Location, object]] = [
        (place, _read(arguments) if isinstance(arguments, str) else arguments)
        for place, arguments in calls(body)
    ]
    values += functions(body)
    values += [(("response_format",), body.get("response_format"))]
    for place, value in values:
        yield from ((place, number) for number in _numbers_in(value))


def _numbers_in(value: object) -> Iterator[int | float]:
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
        elif isinstance(inner, (int, float)):
            yield inner


def _is_odd(number: int | float) -> bool:
    if isinstance(number, int):
        return not -(2**63) <= number < 2**63
    return not f"{number:g}" == v4_json(number) == repr(number)


# Arguments that Python reads as JSON, but a stricter reader does not.
odd_json: RequestFact = _arguments_fact(
    lambda value: _read(value) is not None and read_object(value) is None
)


minus_zero: RequestFact = _arguments_fact(lambda value: "-0" in value)


# Contents.


# Content in several parts.
lists: RequestFact = _message_fact(
    lambda message: isinstance(message.get("content"), list) and len(message["content"]) > 1,
    "content",
)


def images(body: Object) -> Location | None:
    return _first(
        ("messages", index, "content", n)
        for index, message in messages(body)
        for n, part in _objects(message.get("content"))
        if part.get("type") != "text"
    )


# Missing content, without calls in its place.
null_content: RequestFact = _message_fact(
    lambda message: message.get("content") is None and not message.get("tool_calls"), "content"
)


billing: RequestFact = _message_fact(
    lambda message: any(t.startswith(BILLING_HEADER) for t in _texts(message.get("content"))),
    "content",
    *_SYSTEMS,
)


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for _, part in _objects(content):
        if isinstance(part.get("text"), str):
            yield part["text"]


def empty_user_in_run(body: Object) -> Location | None:
    """A user message without text, next to another one."""
    before: Object = {}
    for index, message in messages(body, "user", "tool", "assistant", "latest_reminder"):
        run = message.get("role") == "user" and before.get("role") in _USERS
        if run and not (before.get("content") and message.get("content")):
            return ("messages", index, "content")
        before = message
    return None


# Roles, and the order of messages.


def no_messages(body: Object) -> Location | None:
    return ("messages",) if not body.get("messages") else None


def later_system(body: Object) -> Location | None:
    return _first(("messages", index) for index, _ in messages(body, "system") if index)


def lone_system(body: Object) -> Location | None:
    """A system message that an answer follows, or nothing."""
    listed = list(messages(body))
    for n, (index, message) in enumerate(listed):
        after = listed[n + 1][1].get("role") if n + 1 < len(listed) else "assistant"
        if message.get("role") in _SYSTEMS and after == "assistant":
            return ("messages", index)
    return None


empty_system: RequestFact = _message_fact(
    lambda message: not any(_texts(message.get("content"))), "content", *_SYSTEMS
)


developer: RequestFact = _message_fact(bool, "role", "developer")


reminder: RequestFact = _message_fact(bool, "role", "latest_reminder")


unknown_role: RequestFact = _message_fact(
    lambda message: isinstance(message.get("role"), str) and message["role"] not in ROLES, "role"
)


def answers_without_tools(body: Object) -> Location | None:
    """Answers, if there are no tools to keep their reasoning."""
    if tools(body) and not choice_none(body):
        return None
    return _first(("messages", index) for index, _ in messages(body, "assistant"))


def answer_last(body: Object) -> Location | None:
    listed = list(messages(body))
    if not listed or listed[-1][1].get("role") != "assistant":
        return None
    return ("messages", listed[-1][0])


prefix: RequestFact = _message_fact(lambda message: message.get("prefix"), "prefix", "assistant")


def answer_without_question(body: Object) -> Location | None:
    before = "assistant"
    for index, message in messages(body):
        role = str(message.get("role"))
        if role == "assistant" and before not in _USERS:
            return ("messages", index)
        before = role
    return None


def task(body: Object) -> Location | None:
    if body.get("task") is not None:
        return ("task",)
    return _first(("messages", index, "task") for index, m in messages(body) if "task" in m)


# The form of the answer.


def _format(kind: str) -> RequestFact:
    return _option_fact(
        "response_format", lambda value: isinstance(value, dict) and value.get("type") == kind
    )


json_object, json_schema = _format("json_object"), _format("json_schema")
text_format: RequestFact = _format("text")


own_json_schema: RequestFact = _option_fact("json_schema", lambda value: isinstance(value, dict))


no_generation_prompt: RequestFact = _option_fact(
    "add_generation_prompt", lambda value: value is False
)
