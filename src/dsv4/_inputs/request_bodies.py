"""Reads JSON values from files as requests, with `dsv4.api.read`. Options of a command override
those of a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dsv4._format.dialects import Dialect
from dsv4._inputs.input_files import InputError
from dsv4._inputs.text_origins import MessageOrigins, origins_of, place_in_body, place_in_own_body
from dsv4.api import Settings, read
from dsv4.api.api_request import ApiRequest, BodyRules, ProtocolName, dialect_effort
from dsv4.api.neutral_request import marked_text
from dsv4.api.own_bodies import NotAConversation, role_of
from dsv4.errors import Location, mismatch, short_repr
from dsv4.request import Request
from dsv4.types import DialectName, Effort, ToolInput

# The roles whose message can carry a task (format.md, section 7).
TASKED_ROLES = ("user", "developer", "assistant")

# A file, unlike a server, may hold conversations that have been answered.
LastAnswer = Literal["keep", "finish"]
_SETTINGS = {name: Settings(last_answer=name) for name in ("keep", "finish")}
# The lines of a data set may name the files of pictures, and are not trained on without them.
_LINE_SETTINGS = {
    name: replace(_SETTINGS[name], read_images="paths", unsupported_images="refuse")
    for name in _SETTINGS
}


@dataclass(frozen=True)
class ReadBody:
    """The request in a body, with the rules it was read by, notes on assumptions, and the fields
    that were ignored. `is_line` says that the body is a line of a data set."""

    body: object
    request: Request
    rules: BodyRules = "released"
    notes: tuple[str, ...] = ()
    settings: Settings = _SETTINGS["keep"]
    protocol: ProtocolName | None = None
    ignored: tuple[str, ...] = ()
    is_line: bool = False

    def place(self, location: Location) -> Location:
        """The place in the body of a place in the request."""
        if self.rules == "released":
            return place_in_own_body(location, self.body)
        return place_in_body(location, self.body, self._origins)

    @cached_property
    def _origins(self) -> MessageOrigins:
        return origins_of(self.body, self._reread)

    def _reread(self, body: Any) -> Request:
        return read(
            body,
            protocol=self.protocol,
            rules=self.rules,
            dialect=self.request.dialect,
            settings=self.settings,
        ).request


@dataclass(frozen=True)
class RequestOverrides:
    """Options that override those of every conversation that is read; None overrides nothing.

    The fields are those of `dsv4.Request`; `task`, which is put on the last message; and `rules`,
    the rules that conversations are read by.
    """

    thinking: bool | None = None
    effort: Effort | str | None = None
    dialect: DialectName | Dialect | None = None
    tools: Sequence[ToolInput] | None = None
    drop_thinking: bool | None = None
    bos: bool | None = None
    task: str | None = None
    rules: BodyRules | None = None

    def read(
        self,
        body: Any,
        last_answer: LastAnswer = "keep",
        rules: BodyRules | None = None,
        protocol: ProtocolName | None = None,
        is_line: bool = False,
    ) -> ReadBody:
        """The request in a value, with these options. `rules` apply if the options have none;
        `protocol` is that of the value, if known; `is_line` says that it is a line of a data set.

        Raises an `InputError` for a value that holds no conversation, and the errors of
        `dsv4.api.read`.
        """
        if isinstance(body, Request):
            return ReadBody(body, self.on(body))
        if not isinstance(body, (dict, list)):
            problem = mismatch(body, "a list of messages or a request")
            raise InputError(problem)
        settings = (_LINE_SETTINGS if is_line else _SETTINGS)[last_answer]
        try:
            call = read(
                _without_summaries(body) if is_line else body,
                protocol=protocol,
                rules=self.rules or rules,
                dialect=self.dialect,
                settings=settings,
            )
        except NotAConversation as error:
            raise InputError(str(error)) from None
        request = self.on(self._thinking(call))
        notes, ignored = call.notes, call.ignored
        return ReadBody(body, request, call.rules, notes, settings, protocol, ignored, is_line)

    def _thinking(self, call: ApiRequest) -> Request:
        """The request. If the options switch thinking on, it gets the server's default effort."""
        request = call.request
        if call.rules == "released" or not self.thinking or request.thinking:
            return request
        assert isinstance(request.dialect, Dialect)
        effort: Any = dialect_effort(call.settings.effort, request.dialect, "effort")
        return replace(request, effort=effort)

    def on(self, request: Request) -> Request:
        """The request with these options."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        options.pop("rules", None)
        task = options.pop("task", None)
        if task is not None:
            options["messages"] = with_task(request.messages, task)
        return replace(request, **options) if options else request


def _without_summaries(body: Any) -> Any:
    """A line without the summaries that items of Responses have in place of reasoning. A prompt may
    show them if the reasoning is missing, but no model should be trained to think in summaries."""
    items = body.get("input") if isinstance(body, dict) else None
    if not isinstance(items, list) or not any(map(lacks_reasoning, items)):
        return body
    return {**body, "input": [{**i, "summary": []} if lacks_reasoning(i) else i for i in items]}


def lacks_reasoning(item: object) -> bool:
    """Whether an item of Responses is reasoning without its text: it has only a summary, or data
    that only its server can read."""
    if not isinstance(item, dict) or item.get("type") != "reasoning" or item.get("content"):
        return False
    return not marked_text(str(item.get("encrypted_content")))


def without_filled(value: Any) -> Any:
    """The value without the null fields with which Arrow fills the gaps of a row."""
    if isinstance(value, dict):
        return {name: without_filled(item) for name, item in value.items() if item is not None}
    return [without_filled(item) for item in value] if isinstance(value, list) else value


def with_task(messages: object, task: str) -> list[Any]:
    """The messages with a task on the last. Raises if that message cannot carry one."""
    turns: list[Any] = messages if isinstance(messages, list) else []
    role = role_of(turns[-1]) if turns else None
    if role not in TASKED_ROLES:
        expected = f"a last message of {' or '.join(TASKED_ROLES)}"
        raise InputError(f"task: found {short_repr(role)}, expected {expected}")
    if role == "user" and len(turns) > 1 and role_of(turns[-2]) in ("user", "tool"):
        problem = "the last message joins the turn before it, where its task would be lost"
        raise InputError(f"task: {problem}")
    return [*turns[:-1], {**turns[-1], "task": task}]
