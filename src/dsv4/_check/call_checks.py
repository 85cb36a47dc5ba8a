"""Rules on calls, their results, and the tools and schemas that they belong to.

Arguments are checked with the validator if it is installed. Otherwise this module checks types,
names and choices itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dsv4._check.findings import (
    CheckedCall,
    CheckedConversation,
    RuleFinding,
    closest_name,
    quoted_json,
)
from dsv4._encode.inputs import maybe_dict
from dsv4._fit.schema_validator import (
    SchemaProblem,
    has_validator,
    schema_error,
    validator_of,
)
from dsv4.errors import Location, path_of
from dsv4.schema import (
    COMBINATIONS,
    MOST_NESTED,
    TYPES,
    Schema,
    conjunction,
    has_type,
    json_identity,
    listed,
    properties_of,
    required_of,
    resolve,
)

# Checks of arguments against a tool's schema.


# The most problems that are reported for one call.
MOST_PROBLEMS = 5


def argument_problems(value: object, schema: Schema) -> list[SchemaProblem]:
    """The problems of a value that its schema does not allow."""
    find = _by_validator if has_validator() else _by_hand
    try:
        return find(value, schema)[:MOST_PROBLEMS]
    except Exception:  # a schema may be anything: with broken references, or invalid patterns
        return []


def invalid_schema(schema: object) -> str | None:
    """The reason why a value is not a JSON schema of an object, None if it is one."""
    if not isinstance(schema, dict):
        return f"found {quoted_json(schema)}, expected a JSON schema"
    if schema.get("type", "object") != "object":
        return f"found type {quoted_json(schema['type'])}, expected a schema of an object"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        return f"properties: found {quoted_json(properties)}, expected an object"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"required: found {quoted_json(required)}, expected a list of names"
    fault = next(schema_faults(schema), None)
    return schema_error(schema) if fault is None and has_validator() else fault


def schema_faults(schema: Schema) -> Iterator[str]:
    """Faults of a schema that no value can satisfy, or that cannot be intended: broken references,
    required names that are not declared, properties in place of a schema."""
    usual = any(keyword in schema for keyword in _USUAL)
    if not usual and any(isinstance(value, dict) and "type" in value for value in schema.values()):
        yield f"found {quoted_json(list(schema))}, expected these under properties"
    yield from _faults(schema, schema, MOST_NESTED)


# Keywords, at least one of which is in nearly every schema of an object.
_USUAL = {"type", "properties", "$ref", "additionalProperties", "required", *COMBINATIONS}
# Keywords that may declare members, so that required names need not be among the properties.
_DECLARING = {*COMBINATIONS, "$ref", "patternProperties", "if", "dependentSchemas"}


def _faults(part: object, root: Schema, depth: int, combined: bool = False) -> Iterator[str]:
    """The faults in a part of a schema. `combined` says that it is one of several schemas for the
    same value."""
    if isinstance(part, list):
        for item in part if depth else ():
            yield from _faults(item, root, depth - 1, combined)
    if not isinstance(part, dict):
        return
    reference = part.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        yield f"$ref: {quoted_json(reference)} is outside the schema, and is not checked"
    elif isinstance(reference, str) and _leads_nowhere(reference, root):
        yield f"$ref: {quoted_json(reference)} leads nowhere"
    if not combined and not _DECLARING & part.keys():
        names = (name for name in required_of(part) if name not in properties_of(part))
        yield from (f"{quoted_json(name)} is required, and not a property" for name in names)
    for keyword, value in part.items() if depth else ():
        named = keyword in _NAMED_SCHEMAS and isinstance(value, dict)
        for schema in (value.values() if named else (value,)) if keyword in _WITH_SCHEMAS else ():
            yield from _faults(schema, root, depth - 1, keyword in COMBINATIONS)


def _leads_nowhere(reference: str, root: Schema) -> bool:
    """Whether a reference has no target. Anchors, which have no solidus, are not resolved."""
    return reference.startswith("#/") and resolve(reference, root) is None


# Keywords whose value is a schema or a list of schemas; and those that have them by name.
_NAMED_SCHEMAS = {"properties", "$defs", "definitions", "patternProperties"}
_WITH_SCHEMAS = {*_NAMED_SCHEMAS, *COMBINATIONS, "items", "prefixItems", "additionalProperties"}


# With the library.


def _by_validator(value: object, schema: Schema) -> list[SchemaProblem]:
    validator = validator_of(schema)
    problems = (validator.problems(value) if validator else None) or []
    return sorted(problems, key=lambda problem: list(map(str, problem.path)))


# Without it: types, required and unknown names, choices, and the values inside.


def _by_hand(value: object, schema: Schema) -> list[SchemaProblem]:
    return list(_check_value(value, schema, schema, ()))


def _check_value(
    value: object, schema: object, root: Schema, path: Location
) -> Iterator[SchemaProblem]:
    for part in conjunction(schema, root):
        yield from _check_own(value, part, root, path)


def _check_own(
    value: object, schema: Schema, root: Schema, path: Location
) -> Iterator[SchemaProblem]:
    """The problems that the keywords of one schema find, except those that combine schemas."""
    named = schema.get("type")
    allowed = [named] if isinstance(named, str) else listed(schema, "type")
    if allowed and all(_is_other_type(value, kind) for kind in allowed):
        names = " or ".join(map(quoted_json, allowed))
        yield SchemaProblem(path, f"{quoted_json(value)} is not of type {names}")
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and json_identity(value) not in map(json_identity, choices):
        yield SchemaProblem(path, f"{quoted_json(value)} is not one of {quoted_json(choices)}")
    if isinstance(value, dict):
        yield from _check_members(value, schema, root, path)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _check_value(item, schema.get("items"), root, (*path, n))


def _is_other_type(value: object, kind: object) -> bool:
    """Whether a type excludes a value. A type that JSON Schema does not have excludes nothing."""
    return isinstance(kind, str) and kind in TYPES and not has_type(value, (kind,))


def _check_members(
    value: dict[str, object], schema: Schema, root: Schema, path: Location
) -> Iterator[SchemaProblem]:
    properties = properties_of(schema)
    for name in required_of(schema):
        if name not in value:
            yield SchemaProblem(path, f"{quoted_json(name)} is a required property")
    for name, item in value.items():
        if name in properties:
            yield from _check_value(item, properties[name], root, (*path, name))
        elif schema.get("additionalProperties") is False:
            yield SchemaProblem(path, f"{quoted_json(name)} is not among the properties")


# Rules on calls and their results.


def results_without_call(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Results that do not belong to a call, or whose call has a result already."""
    waiting: list[str] = []
    ids: set[str] = set()
    for index, message in conversation.of_role("assistant", "tool"):
        if conversation.role(index) == "assistant":
            waiting = [call.id for call in conversation.calls_by_message[index]]
            ids.update(waiting)
        else:
            problem = _take_call(waiting, str(message.get("tool_call_id") or ""), ids)
            if problem:
                yield RuleFinding("result_without_call", ("messages", index), problem)


def _take_call(waiting: list[str], id: str, ids: set[str]) -> str | None:
    """Removes the call that a result answers from those without a result. If there is no such call,
    returns the reason."""
    if id in waiting:
        waiting.remove(id)
        return None
    if not id and any(waiting):
        return "the result has no tool_call_id, so nothing says which call it answers"
    if not ids:
        return "the result answers no call: there was none before it"
    if id in ids:
        return f"the call {quoted_json(id)} has a result already, or is of an earlier turn"
    return f"no call has the id {quoted_json(id)}"


def calls_without_result(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Calls that are followed by other messages, but have no result."""
    for index, _ in conversation.of_role("assistant"):
        if index == conversation.last:
            return
        calls = conversation.calls_by_message[index]
        answers = _answers(conversation, index) if calls else []
        for call in calls:
            if not _take_answer(answers, call.id):
                problem = f"the call of {quoted_json(call.name)} has no result"
                yield RuleFinding("call_without_result", call.location, problem)


def _answers(conversation: CheckedConversation, index: int) -> list[str]:
    """The ids of the results before the next answer."""
    ids: list[str] = []
    for after in range(index + 1, len(conversation.messages)):
        if conversation.role(after) == "assistant":
            break
        if conversation.role(after) == "tool":
            ids.append(str(conversation.messages[after].get("tool_call_id") or ""))
    return ids


def _take_answer(answers: list[str], id: str) -> bool:
    for answer in (id, ""):
        if answer in answers:
            answers.remove(answer)
            return True
    return False


def ids_of_two_calls(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    by_id: dict[str, CheckedCall] = {}
    for call in conversation.calls:
        first = by_id.setdefault(call.id, call)
        if not call.id or first is call:
            continue
        problem = f"the id {quoted_json(call.id)} is that of {path_of(first.location)} too"
        if first.message == call.message:
            order = "which result is whose is not clear"
            yield RuleFinding("duplicate_call_id", (*call.location, "id"), f"{problem}: {order}")
        else:
            yield RuleFinding("repeated_call_id", (*call.location, "id"), problem)
        by_id[call.id] = call


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
    declared = {tool.name: tool.parameters for tool in conversation.tools}
    schemas = {name: schema for name, schema in declared.items() if isinstance(schema, dict)}
    for call in conversation.calls:
        arguments = _value_of(call)
        if call.name in schemas and (isinstance(arguments, dict) or arguments is None):
            yield from _against_schema(arguments or {}, schemas[call.name], _arguments_of(call))


_NO_JSON = object()


def _value_of(call: CheckedCall) -> object:
    """The arguments of a call, which may be JSON text."""
    if not isinstance(call.arguments, str):
        return call.arguments
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return _NO_JSON


def _arguments_of(call: CheckedCall) -> Location:
    return (*call.location, "function", "arguments")


def _against_schema(arguments: object, schema: Schema, location: Location) -> Iterator[RuleFinding]:
    for problem in argument_problems(arguments, schema):
        message = f"{path_of(problem.path)}: {problem.text}" if problem.path else problem.text
        yield RuleFinding("invalid_arguments", location, message)


def doubled_tools(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    first: dict[str, Location] = {}
    for tool in conversation.tools:
        if tool.name in first:
            problem = f"{quoted_json(tool.name)} is the name of {path_of(first[tool.name])} too"
            yield RuleFinding("duplicate_tool", tool.location, problem)
        first.setdefault(tool.name, tool.location)


RESULT_RULES = (results_without_call, calls_without_result, ids_of_two_calls)
CALL_RULES = (
    *(*RESULT_RULES, undeclared_calls, arguments_that_are_not_json),
    *(arguments_against_schemas, doubled_tools),
)


# Rules on the schemas of tools.


def invalid_schemas(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for tool in conversation.tools:
        problem = None if tool.parameters is None else invalid_schema(tool.parameters)
        if problem:
            yield RuleFinding("invalid_schema", tool.location, f"parameters: {problem}")


# Other names for a tool's schema, in other APIs and in practice.
_SCHEMA_NAMES = {
    *("input_schema", "inputSchema", "json_schema", "schema", "args", "arguments", "params"),
    *("parameter", "parameters_json_schema"),
}


def tools_in_other_forms(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    """Tools in the form of another API: the prompt shows them unchanged, and nothing reads them."""
    for location, tool in conversation.tool_objects:
        function = maybe_dict(tool.get("function")) or tool
        place = (*location, "function") if function is not tool else location
        for field, value in function.items():
            if isinstance(value, dict) and "parameters" not in function and _is_schema_name(field):
                problem = f"{field} is not read as the tool's schema: did you mean parameters?"
                yield RuleFinding("unread_field", (*place, field), problem)


def _is_schema_name(field: object) -> bool:
    if not isinstance(field, str):
        return False
    return field in _SCHEMA_NAMES or closest_name(field, {"parameters"}) is not None


# Names that a tag can hold and that the APIs accept.
_NAME = re.compile(r"[^\s\"<>]{1,128}")


def invalid_tool_names(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    for tool in conversation.tools:
        if not _NAME.fullmatch(tool.name):
            expected = "expected 1 to 128 characters without spaces, quotes and angle brackets"
            problem = f"found {quoted_json(tool.name)}, {expected}"
            yield RuleFinding("invalid_tool_name", tool.location, problem)


SCHEMA_RULES = (invalid_schemas, invalid_tool_names, tools_in_other_forms)
