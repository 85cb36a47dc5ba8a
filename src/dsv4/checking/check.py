"""The check: errors first, each mended so that those after it come to light; then the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Finding, Location, index_of
from dsv4.encoding.prompt import Prompt
from dsv4.errors import EncodeError, Error, OptionError
from dsv4.reading.bodies import messages_of, options_of, role_of
from dsv4.request import Request


def check(body: Any, *, profile: str | None = None) -> list[Finding]:
    """What is wrong with a conversation, or will surprise whoever wrote it.

    `body` is a list of messages, the body of a Chat request, or a `dsv4.Request`; `profile` names
    the server that it is to be sent to, where that matters. Returns the findings in the order of
    the messages: none for a conversation without any. It never raises, whatever the body is.
    """
    try:
        request, found = _request(body)
    except Error as error:
        return [_error(error)]
    errors, mended = _errors(request)
    found += errors
    if mended is not None:
        passed = {finding.index for finding in found}
        found += Conversation(*mended, passed).warnings()
    return sorted(found, key=_order)


def _order(finding: Finding) -> tuple[int, int]:
    if finding.index is not None:
        return 1, finding.index
    return (2, 0) if finding.location == ("messages",) else (0, 0)


# Errors. An option that is refused is left at its default.


def _request(body: Any) -> tuple[Request, list[Finding]]:
    """The request, and what of it was refused."""
    if isinstance(body, Request):
        return body, []
    request, found = Request(messages_of(body)), []
    for name, value in options_of(body).items() if isinstance(body, dict) else ():
        try:
            request = replace(request, **{name: value})
        except Error as error:
            found.append(_error(error))
    return request, found


def _error(error: Error) -> Finding:
    problem = error.problem if isinstance(error, (EncodeError, OptionError)) else str(error)
    return Finding("error", "not_encodable", _location(error), problem)


# The encoder stops at the first error: what it names is replaced, and it tries again.


def _errors(request: Request) -> tuple[list[Finding], tuple[Request, Prompt] | None]:
    """The errors, and a conversation without them if there is one."""
    found: list[Finding] = []
    while True:
        try:
            return found, (request, request.encode())
        except (EncodeError, OptionError) as error:
            finding = _error(error)
            if finding in found:
                return found, None
            found.append(finding)
            mended = _mended(request, finding.location)
        if mended is None:
            return found, None
        request = mended


def _mended(request: Request, location: Location) -> Request | None:
    """The conversation with something harmless in the place of an error."""
    index = index_of(location)
    messages = list(request.messages) if isinstance(request.messages, Iterable) else []
    if index is not None and index < len(messages):
        messages[index] = _mended_call(messages[index], location) or _stand_in(messages[index])
        return replace(request, messages=messages)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Request)}
    if location and location[0] in defaults and location[0] != "messages":
        return replace(request, **{str(location[0]): defaults[str(location[0])]})
    return None


def _mended_call(message: Any, location: Location) -> dict[str, Any] | None:
    """The message without the arguments of one call, if these are the error."""
    match location[2:]:
        case ("tool_calls", int(n), "function", "arguments", *_):
            calls = list(message["tool_calls"])
            calls[n] = {**calls[n], "function": {**calls[n]["function"], "arguments": None}}
            return {**message, "tool_calls": calls}
    return None


def _stand_in(message: Any) -> dict[str, Any]:
    role = role_of(message)
    lasting = role if role in ("system", "assistant", "tool", "latest_reminder") else "user"
    return {"role": lasting, "content": "…"}


def _location(error: Error) -> Location:
    return error.location if isinstance(error, (EncodeError, OptionError)) else ()
