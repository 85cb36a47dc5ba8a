"""Runs the check: first for errors in encoding, each of which is replaced so that those after it
are found too; then with the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from dsv4._check import call_checks, image_checks, message_checks, training_checks
from dsv4._check.findings import (
    PURPOSES,
    SERVER_PREFIX,
    CheckedConversation,
    Finding,
    Purpose,
    RuleFinding,
    maybe_level,
    message_index,
)
from dsv4._encode.inputs import as_list, fields_of, maybe_dict, maybe_list
from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import DEFAULT
from dsv4._inputs.input_files import InputError, error_location
from dsv4._inputs.line_shapes import LineConversation, line_conversations
from dsv4._inputs.request_bodies import LastAnswer, ReadBody, RequestOverrides
from dsv4.api import convert
from dsv4.api.body_reader import recognise
from dsv4.api.own_bodies import CHAT_OPTION_NAMES, NotAConversation, role_of
from dsv4.errors import Error, ImageError, Location, OptionError, mismatch
from dsv4.profiles import Profile, official_api, traps
from dsv4.request import Request

# Each error costs a pass over the whole conversation; more than this many would be of no use.
MOST_ERRORS = 100
# Findings that may only mean that dsv4 does not know something the API knows.
_KNOWN_TO_API = ("unknown_model", "unsupported_content")

ALL_RULES = (
    *call_checks.CALL_RULES,
    *call_checks.SCHEMA_RULES,
    *message_checks.FIELD_RULES,
    *message_checks.TURN_RULES,
    *message_checks.OMISSION_RULES,
    *image_checks.IMAGE_RULES,
    *training_checks.LEAK_RULES,
    *message_checks.TEXT_RULES,
    *training_checks.ADVICE_RULES,
)


def run_checks(
    body: object,
    overrides: RequestOverrides,
    *,
    profile: str | Profile | None = None,
    purpose: Purpose | None = None,
) -> list[Finding]:
    """The findings of `dsv4.check` in a body, with options that override those of the body."""
    if purpose is not None and purpose not in PURPOSES:
        expected = f"None or one of {', '.join(PURPOSES)}"
        raise OptionError("purpose", mismatch(purpose, expected))
    all_findings: list[RuleFinding] = []
    try:
        for conversation, line in _conversations(body, purpose):
            here = _find_all(conversation, overrides, line)
            if profile is not None:
                # Some servers read it: the profile reports those that do not.
                here = [each for each in here if each.location != ("chat_template_kwargs",)]
                told = _traps(conversation, overrides, profile)
                if _is_official(profile):
                    # A request that the API accepts has no error, even if dsv4 cannot read it.
                    taken = not any(map(_is_refusal, told))
                    known = (*_KNOWN_TO_API, *(("not_encodable",) if taken else ()))
                    here = [each for each in here if each.kind not in known]
                here += told
            all_findings += (each for each in here if each not in all_findings)
    except (InputError, NotAConversation) as error:
        return [Finding("error", "not_a_conversation", (), str(error))]
    findings = [
        Finding(level, *each)
        for each in all_findings
        if (level := maybe_level(each.kind, purpose)) is not None
    ]
    return sorted(findings, key=_order)


def _conversations(
    body: object, purpose: Purpose | None
) -> Iterator[tuple[object, LineConversation | None]]:
    """The conversations in a body. For training, a body is a line of a data set, which may have two
    answers."""
    if purpose != "training" or isinstance(body, Request):
        yield body, None
        return
    for line in line_conversations(body):
        yield dict(line.body), line


def _order(finding: Finding) -> tuple[int, list[tuple[bool, int | str]]]:
    """The sort key of a finding: options, then messages and their parts, then the conversation."""
    if finding.location == ("messages",):
        return 2, []
    steps = [(isinstance(step, str), step) for step in finding.location]
    return int(message_index(finding.location) is not None), steps


def _find_all(
    body: object, overrides: RequestOverrides, line: LineConversation | None
) -> list[RuleFinding]:
    findings = _body_findings(body, overrides, line)
    if line is None:
        return findings
    return [each._replace(location=line.place(each.location)) for each in findings]


def _body_findings(
    body: object, overrides: RequestOverrides, line: LineConversation | None
) -> list[RuleFinding]:
    read, wrong = _read(body, overrides, line)
    if read is None:
        return wrong
    errors, mended = _errors(read.request)
    wrong += [_as_written(each, read) for each in errors]
    if mended is not None:
        passed = {each.location[:2] for each in wrong if message_index(each.location) is not None}
        conversation = CheckedConversation(*mended, read)
        others = [each for rule in message_checks.WRITTEN_RULES for each in rule(conversation)]
        if not conversation.is_sent:
            others = [_as_written(each, read) for each in others]
        others += [_as_written(each, read) for rule in ALL_RULES for each in rule(conversation)]
        wrong += [each for each in others if each.location[:2] not in passed]
    return wrong


def _as_written(finding: RuleFinding, read: ReadBody) -> RuleFinding:
    """A finding with its place in the body."""
    return finding._replace(location=read.place(finding.location))


# Errors. An option that is refused is left at its default.


def _read(
    body: Any, overrides: RequestOverrides, line: LineConversation | None
) -> tuple[ReadBody | None, list[RuleFinding]]:
    """The body as it is read, and the errors in reading it. Each error is repaired in a copy, so
    that those after it are found too."""
    results: list[RuleFinding] = []
    if overrides.rules is None:  # repairs must not change the rules that apply
        rules = recognise(body).rules if line is None else line.rules
        overrides = replace(overrides, rules=rules)
    last_answer: LastAnswer = "keep" if line is None or line.is_open else "finish"
    while len(results) < MOST_ERRORS:
        try:
            return overrides.read(body, last_answer), results
        except InputError as error:
            return None, [*results, RuleFinding("not_a_conversation", (), str(error))]
        except RecursionError:
            return None, [*results, RuleFinding("not_encodable", ("messages",), "nested too deep")]
        except Error as error:
            each = _not_encodable(error)
        if each in results:
            break
        results.append(each)
        body = _with_field_replaced(body, each.location)
    return None, results


def _with_field_replaced(body: Any, location: Location) -> Any:
    """A body with a harmless value in place of an error."""
    if not isinstance(body, dict) or not location:
        return body
    [field, *inside] = location
    listed, index = body.get(field), inside[0] if inside else None
    if field in ("messages", "input") and isinstance(listed, list) and isinstance(index, int):
        harmless = {"role": "user", "content": "…"}
        return {**body, field: [*listed[:index], harmless, *listed[index + 1 :]]}
    return {name: value for name, value in body.items() if name != field}


def _not_encodable(error: Error) -> RuleFinding:
    # The reader of a body opens its pictures, and raises errors about them.
    kind = "broken_image" if isinstance(error.__context__, ImageError) else "not_encodable"
    return RuleFinding(kind, error_location(error), str(getattr(error, "problem", error)))


# The encoder stops at the first error: its place is replaced, and the encoder runs again.


def _errors(request: Request) -> tuple[list[RuleFinding], tuple[Request, Prompt] | None]:
    """The errors, and a conversation without them if there is one."""
    results: list[RuleFinding] = []
    while True:
        try:
            return results, (request, request.encode())
        except Error as error:
            each = _not_encodable(error)
        except RecursionError:
            return [*results, RuleFinding("not_encodable", ("messages",), "nested too deep")], None
        if each in results:
            return results, None
        results.append(each)
        if len(results) == MOST_ERRORS:
            problem = f"found {MOST_ERRORS} errors: what comes after them was not looked at"
            return [*results, RuleFinding("not_encodable", ("messages",), problem)], None
        mended = _with_error_replaced(request, each.location)
        if mended is None:
            return results, None
        request = mended


def _with_error_replaced(request: Request, location: Location) -> Request | None:
    """The conversation with a harmless value in place of an error."""
    index = message_index(location)
    if index is not None:
        messages: list[Any] = list(request.messages)
        messages[index] = _mended_call(messages[index], location) or _harmless_message(
            messages[index]
        )
        return replace(request, messages=messages)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Request)}
    if location and location[0] in defaults and location[0] != "messages":
        return replace(request, **{str(location[0]): defaults[str(location[0])]})
    return None


def _mended_call(message: object, location: Location) -> dict[str, Any] | None:
    """The message without the arguments of one call, if these are the error."""
    match location[2:]:
        case ("tool_calls", int(n), "function", "arguments", *_):
            fields = fields_of(message)
            calls = list(maybe_list(fields.get("tool_calls")) or ())
            call = maybe_dict(calls[n]) or {}
            function = maybe_dict(call.get("function")) or {}
            calls[n] = {**call, "function": {**function, "arguments": None}}
            return {**fields, "tool_calls": calls}
    return None


def _harmless_message(message: object) -> dict[str, Any]:
    role = role_of(message)
    lasting = role if role in ("system", "assistant", "tool", "latest_reminder") else "user"
    return {"role": lasting, "content": "…"}


# The traps of a server.


def _traps(body: object, overrides: RequestOverrides, profile: str | Profile) -> list[RuleFinding]:
    try:
        server_body, dialect = _served_request(body, overrides, _is_official(profile))
        findings = traps(server_body, profile, dialect=dialect)
    except Error as error:
        location = error_location(error)
        return [] if location[:1] != ("profile",) else [_not_encodable(error)]
    return [
        RuleFinding(SERVER_PREFIX + trap.kind.replace("-", "_"), trap.location, trap.message)
        for trap in findings
    ]


def _is_official(profile: str | Profile) -> bool:
    return getattr(profile, "name", profile) == official_api.PROFILE_NAME


def _served_request(
    body: object, overrides: RequestOverrides, by_model: bool
) -> tuple[dict[str, Any], str | None]:
    """The request that a server gets, and the dialect of its model: None if the server decides by
    the model's name, unless the options give one."""
    if by_model:
        return _as_body(body), None if overrides.dialect is None else str(overrides.dialect)
    request, server_body = overrides.read(body).request, _as_body(body)
    # A server requires the name of a model, which is this one.
    if str(overrides.dialect) == DEFAULT.name:
        server_body = {"model": "deepseek-v4", **server_body}
    return server_body, str(request.dialect)


def _is_refusal(finding: RuleFinding) -> bool:
    return finding.kind == f"{SERVER_PREFIX}refused"


def _as_body(body: object) -> dict[str, Any]:
    """The Chat request that a server gets."""
    if isinstance(body, list):
        return {"messages": body}
    if isinstance(body, dict):
        protocol = recognise(body).protocol
        return body if protocol == "chat" else convert(body, protocol, "chat")
    assert isinstance(body, Request)
    options = {name: getattr(body, option) for name, option in CHAT_OPTION_NAMES.items()}
    fields = {name: value for name, value in options.items() if value}
    thinking = {"thinking": {"type": "enabled" if body.thinking else "disabled"}}
    messages = as_list(body.messages, ("messages",), "a list of messages")
    return {"messages": list(messages), **fields, **thinking}
