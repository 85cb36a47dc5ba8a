"""Rules on calls, their results, and the tools and schemas that they belong to. Schemas are checked
with `jsonschema` where it is installed, else by hand as far as types, names and choices go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, NamedTuple

from dsv4._check.checked_conversation import CheckedCall, CheckedConversation
from dsv4._check.findings import RuleFinding, quoted_json
from dsv4._inputs.request_bodies import role_of
from dsv4.errors import Location, path_of

# Arguments against a tool's schema: with `jsonschema` where it is installed, else as far as a few
# lines go.


# Enough to see what is wrong with one call.
MOST_PROBLEMS = 5


class SchemaProblem(NamedTuple):
    path: Location
    text: str


def argument_problems(value: Any, schema: dict[str, Any]) -> list[SchemaProblem]:
    """What of a value its schema does not allow."""
    find = _by_jsonschema if _has_jsonschema() else _by_hand
    try:
        return find(value, schema)[:MOST_PROBLEMS]
    except Exception:  # a schema may be anything: references into nowhere, patterns that are none
        return []


def invalid_schema(schema: Any) -> str | None:
    """Why something is no JSON schema of an object."""
    if not isinstance(schema, dict):
        return f"found {quoted_json(schema)}, expected a JSON schema"
    if schema.get("type", "object") != "object":
        return f"found type {quoted_json(schema['type'])}, expected a schema of an object"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        return f"properties: found {quoted_json(properties)}, expected an object"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"required: found {quoted_json(required)}, expected a list of names"
    missing = [name for name in required if name not in properties]
    if missing and schema.get("additionalProperties") is False:
        return f"{quoted_json(missing[0])} is required, and not among the properties"
    return _invalid_by_jsonschema(schema) if _has_jsonschema() else None


@lru_cache
def _has_jsonschema() -> bool:
    return find_spec("jsonschema") is not None


# By the library.


def _validator(schema: dict[str, Any]) -> Any:
    draft = import_module("jsonschema").validators.validator_for(schema)
    # A registry of its own: the library would look for references on the network.
    return draft(schema, registry=import_module("referencing").Registry())


def _by_jsonschema(value: Any, schema: dict[str, Any]) -> list[SchemaProblem]:
    errors = _validator(schema).iter_errors(value)
    found = [
        SchemaProblem(tuple(error.absolute_path), _in_short(error.message)) for error in errors
    ]
    return sorted(found, key=lambda problem: list(map(str, problem.path)))


def _in_short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 160 else line[:159] + "…"


def _invalid_by_jsonschema(schema: dict[str, Any]) -> str | None:
    try:
        _validator(schema).check_schema(schema)
    except import_module("jsonschema").SchemaError as error:
        path = ".".join(map(str, error.absolute_path))
        return _in_short(f"{path}: {error.message}" if path else error.message)
    except Exception:
        return None
    return None


# By hand: types, required and unknown names, choices, and what is inside.

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "null": (type(None),),
}


def _by_hand(value: Any, schema: Any) -> list[SchemaProblem]:
    return list(_walk(value, schema, ()))


def _walk(value: Any, schema: Any, path: Location) -> Iterator[SchemaProblem]:
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type")
    allowed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if allowed and not any(_is_a(value, kind) for kind in allowed):
        yield SchemaProblem(
            path, f"{quoted_json(value)} is not of type {' or '.join(map(quoted_json, allowed))}"
        )
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield SchemaProblem(path, f"{quoted_json(value)} is not one of {quoted_json(choices)}")
    if isinstance(value, dict):
        yield from _walk_object(value, schema, path)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _walk(item, schema.get("items"), (*path, n))


def _walk_object(
    value: dict[str, Any], schema: dict[str, Any], path: Location
) -> Iterator[SchemaProblem]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in value:
            yield SchemaProblem(path, f"{quoted_json(name)} is a required property")
    for name, item in value.items():
        if name in properties:
            yield from _walk(item, properties[name], (*path, name))
        elif schema.get("additionalProperties") is False:
            yield SchemaProblem(path, f"{quoted_json(name)} is not among the properties")


def _is_a(value: Any, kind: Any) -> bool:
    if not isinstance(kind, str) or kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


# Rules on calls, their results and the tools that they are of.


def results_without_call(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Results that no call asked for, or that come a second time."""
    waiting: list[str] = []
    known: set[str] = set()
    for index, message in enumerate(conversation.messages):
        if role_of(message) == "assistant":
            waiting = [call.id for call in conversation.calls_of(index)]
            known |= set(waiting)
        elif role_of(message) == "tool":
            problem = _take_call(waiting, str(message.get("tool_call_id") or ""), known)
            if problem:
                yield RuleFinding("result_without_call", ("messages", index), problem)


def _take_call(waiting: list[str], id: str, known: set[str]) -> str | None:
    """Takes the call that a result answers out of those that wait. Says why it cannot."""
    if id in waiting:
        waiting.remove(id)
        return None
    if not id and any(waiting):
        return "the result has no tool_call_id, so nothing says which call it answers"
    if not known:
        return "the result answers no call: there was none before it"
    if id in known:
        return f"the call {quoted_json(id)} has a result already, or is of an earlier turn"
    return f"no call has the id {quoted_json(id)}"


def calls_without_result(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Calls that the conversation goes on without."""
    for index, _ in conversation.of_role("assistant"):
        if index == conversation.last:
            return
        answers = _answers(conversation, index)
        for call in conversation.calls_of(index):
            if not _take_answer(answers, call.id):
                problem = f"the call of {quoted_json(call.name)} has no result"
                yield RuleFinding("call_without_result", call.location, problem)


def _answers(conversation: CheckedConversation, index: int) -> list[str]:
    """The ids of the results before the next answer."""
    ids: list[str] = []
    for message in islice(conversation.messages, index + 1, None):
        if role_of(message) == "assistant":
            break
        if role_of(message) == "tool":
            ids.append(str(message.get("tool_call_id") or ""))
    return ids


def _take_answer(answers: list[str], id: str) -> bool:
    for answer in (id, ""):
        if answer in answers:
            answers.remove(answer)
            return True
    return False


def ids_of_two_calls(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    seen: dict[str, CheckedCall] = {}
    for call in conversation.calls:
        first = seen.setdefault(call.id, call)
        if not call.id or first is call:
            continue
        problem = f"the id {quoted_json(call.id)} is that of {path_of(first.location)} too"
        if first.message == call.message:
            order = "which result is whose is not clear"
            yield RuleFinding("duplicate_call_id", (*call.location, "id"), f"{problem}: {order}")
        else:
            yield RuleFinding("repeated_call_id", (*call.location, "id"), problem)
        seen[call.id] = call


def undeclared_calls(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    declared = {tool.name for tool in conversation.tools}
    calls = conversation.calls
    if calls and not declared:
        problem = "there are calls, but no tools are declared: the prompt does not explain them"
        yield RuleFinding("calls_without_tools", calls[0].location, problem)
    for call in calls if declared else ():
        if call.name not in declared:
            location = (*call.location, "function", "name")
            yield RuleFinding(
                "undeclared_tool", location, f"no tool {quoted_json(call.name)} is declared"
            )


def arguments_that_are_not_json(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for call in conversation.calls:
        if isinstance(call.arguments, str) and _value_of(call) is _NO_JSON:
            how = "it is written as one parameter named arguments"
            problem = f"{quoted_json(call.arguments)} is not JSON: {how}"
            yield RuleFinding("arguments_not_json", _arguments_of(call), problem)


def arguments_against_schemas(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    schemas = {tool.name: tool.parameters for tool in conversation.tools}
    for call in conversation.calls:
        arguments = _value_of(call)
        if isinstance(arguments, dict) or arguments is None:
            schema = schemas.get(call.name)
            yield from _against_schema(arguments or {}, schema, _arguments_of(call))


_NO_JSON = object()


def _value_of(call: CheckedCall) -> Any:
    """The arguments of a call, which may be JSON text."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return _NO_JSON


def _arguments_of(call: CheckedCall) -> Location:
    return (*call.location, "function", "arguments")


def _against_schema(arguments: Any, schema: Any, location: Location) -> Iterator[RuleFinding]:
    if isinstance(schema, dict):
        for problem in argument_problems(arguments, schema):
            message = f"{path_of(problem.path)}: {problem.text}" if problem.path else problem.text
            yield RuleFinding("invalid_arguments", location, message)


def doubled_tools(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    seen: dict[str, Location] = {}
    for tool in conversation.tools:
        if tool.name in seen:
            problem = f"{quoted_json(tool.name)} is the name of {path_of(seen[tool.name])} too"
            yield RuleFinding("duplicate_tool", tool.location, problem)
        seen.setdefault(tool.name, tool.location)


CALL_RULES = (
    *(results_without_call, calls_without_result, ids_of_two_calls, undeclared_calls),
    *(arguments_that_are_not_json, arguments_against_schemas, doubled_tools),
)


# Rules on the schemas of tools.


def invalid_schemas(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for tool in conversation.tools:
        problem = None if tool.parameters is None else invalid_schema(tool.parameters)
        if problem:
            yield RuleFinding("invalid_schema", tool.location, f"parameters: {problem}")


SCHEMA_RULES = (invalid_schemas,)
