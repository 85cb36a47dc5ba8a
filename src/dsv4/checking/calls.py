"""Rules on calls, their results and the tools that they are of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dsv4._inputs.request_bodies import role_of
from dsv4.checking.conversation import Call, Conversation
from dsv4.checking.findings import Found
from dsv4.checking.schemas import problems
from dsv4.checking.words import quoted
from dsv4.errors import Location, path_of


def results_without_call(conversation: Conversation) -> Iterator[Found]:
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
                yield Found("result_without_call", ("messages", index), problem)


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
        return f"the call {quoted(id)} has a result already, or is of an earlier turn"
    return f"no call has the id {quoted(id)}"


def calls_without_result(conversation: Conversation) -> Iterator[Found]:
    """Calls that the conversation goes on without."""
    for index, _ in conversation.of_role("assistant"):
        if index == conversation.last:
            return
        answers = _answers(conversation, index)
        for call in conversation.calls_of(index):
            if not _take_answer(answers, call.id):
                problem = f"the call of {quoted(call.name)} has no result"
                yield Found("call_without_result", call.location, problem)


def _answers(conversation: Conversation, index: int) -> list[str]:
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


def ids_of_two_calls(conversation: Conversation) -> Iterator[Found]:
    seen: dict[str, Call] = {}
    for call in conversation.calls:
        first = seen.setdefault(call.id, call)
        if not call.id or first is call:
            continue
        problem = f"the id {quoted(call.id)} is that of {path_of(first.location)} too"
        if first.message == call.message:
            order = "which result is whose is not clear"
            yield Found("duplicate_call_id", (*call.location, "id"), f"{problem}: {order}")
        else:
            yield Found("repeated_call_id", (*call.location, "id"), problem)
        seen[call.id] = call


def undeclared_calls(conversation: Conversation) -> Iterator[Found]:
    declared = {tool.name for tool in conversation.tools}
    calls = conversation.calls
    if calls and not declared:
        problem = "there are calls, but no tools are declared: the prompt does not explain them"
        yield Found("calls_without_tools", calls[0].location, problem)
    for call in calls if declared else ():
        if call.name not in declared:
            location = (*call.location, "function", "name")
            yield Found("undeclared_tool", location, f"no tool {quoted(call.name)} is declared")


def odd_arguments(conversation: Conversation) -> Iterator[Found]:
    schemas = {tool.name: tool.parameters for tool in conversation.tools}
    for call in conversation.calls:
        location = (*call.location, "function", "arguments")
        arguments = call.arguments
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                how = "it is written as one parameter named arguments"
                problem = f"{quoted(call.arguments)} is not JSON: {how}"
                yield Found("arguments_not_json", location, problem)
                continue
        if isinstance(arguments, dict) or arguments is None:
            yield from _against_schema(arguments or {}, schemas.get(call.name), location)


def _against_schema(arguments: Any, schema: Any, location: Location) -> Iterator[Found]:
    if isinstance(schema, dict):
        for problem in problems(arguments, schema):
            message = f"{path_of(problem.path)}: {problem.text}" if problem.path else problem.text
            yield Found("invalid_arguments", location, message)


def doubled_tools(conversation: Conversation) -> Iterator[Found]:
    seen: dict[str, Location] = {}
    for tool in conversation.tools:
        if tool.name in seen:
            problem = f"{quoted(tool.name)} is the name of {path_of(seen[tool.name])} too"
            yield Found("duplicate_tool", tool.location, problem)
        seen.setdefault(tool.name, tool.location)


RULES = (
    *(results_without_call, calls_without_result, ids_of_two_calls, undeclared_calls),
    *(odd_arguments, doubled_tools),
)
