"""JSON values from files as requests: read by `dsv4.api.read`, with the options of a command in
place of their own; and pairs of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from dsv4._format.dialects import Dialect
from dsv4._inputs.input_files import InputError
from dsv4._inputs.text_origins import (
    MessageOrigins,
    origins_of,
    place_in_body,
    place_in_own_body,
)
from dsv4.api import Settings, read
from dsv4.api.api_request import ApiRequest, BodyRules, chosen_dialect, dialect_effort
from dsv4.api.own_bodies import (
    NotAConversation,
    is_pair,
    is_sharegpt,
    own_options,
    role_of,
    sharegpt_messages,
    sharegpt_tools,
)
from dsv4.errors import Location, short_repr
from dsv4.request import Request
from dsv4.types import DialectName, Effort, ToolInput

# The roles whose message can carry a task (format.md, section 7).
TASKED_ROLES = ("user", "developer", "assistant")

# Preference data: two answers to one prompt, or two conversations that begin alike.


class PreferencePair(NamedTuple):
    """Two conversations, of which the one that is chosen has the better answer.

    They differ from the message `start` on. In the caller's data, the first `prompt` messages stand
    apart from the others.
    """

    chosen: Request
    rejected: Request
    start: int
    prompt: int

    def location(self, location: Location, side: str) -> Location:
        """A place in one of the conversations, as the caller's data has it."""
        if location[:1] != ("messages",):
            return location
        index = location[1] if len(location) > 1 else None
        if not isinstance(index, int):
            return (side, *location[1:])
        named = ("prompt", index) if index < self.prompt else (side, index - self.prompt)
        return (*named, *location[2:])


def preference_pair(body: object) -> PreferencePair:
    """The pair in a JSON value.

    `chosen` and `rejected` are texts, messages, or lists of messages: answers to a `prompt`, or
    whole conversations. OpenAI calls them `preferred_output` and `non_preferred_output`, and puts
    the prompt into `input`.
    """
    if not isinstance(body, dict) or not is_pair(body):
        found = f"found {short_repr(body)}"
        raise InputError(f'{found}, expected an object with "chosen" and "rejected"')
    if "preferred_output" in body:
        given = body.get("input")
        fields = given if isinstance(given, dict) else {}
        sides = {"chosen": "preferred_output", "rejected": "non_preferred_output"}
        body = {**fields, **{name: body.get(field) for name, field in sides.items()}}
    prompt = _pair_prompt(body)
    chosen, rejected = (_answer_messages(body[name], name) for name in ("chosen", "rejected"))
    if isinstance(body.get("prompt"), str) and role_of(chosen[0]) in ("system", "user"):
        prompt = []  # the conversations have it again
    if prompt and chosen[: len(prompt)] == prompt == rejected[: len(prompt)]:
        chosen, rejected = chosen[len(prompt) :], rejected[len(prompt) :]
    if chosen == rejected:
        raise InputError("rejected: found what is chosen too, expected another answer")
    start = len(prompt) or _parting(chosen, rejected)
    options = {name: value for name, value in body.items() if name not in _PAIR_FIELDS}
    if isinstance(options.get("tools"), str):
        options["tools"] = sharegpt_tools(options)
    release, _ = chosen_dialect(options.get("dialect"), options.get("model"))
    request = Request((), **{**own_options(options), "dialect": release})
    return PreferencePair(
        replace(request, messages=[*prompt, *chosen]),
        replace(request, messages=[*prompt, *rejected]),
        start,
        len(prompt),
    )


_PAIR_FIELDS = ("prompt", "chosen", "rejected", "messages", "conversations", "system", "input")


def _pair_prompt(body: Mapping[str, Any]) -> list[Any]:
    """The messages before both answers; none where these are whole conversations."""
    if is_sharegpt(body):
        return sharegpt_messages(body)
    prompt = body.get("prompt", body.get("messages"))
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if prompt is None or isinstance(prompt, list):
        return prompt or []
    raise InputError(f"prompt: found {short_repr(prompt)}, expected text or a list of messages")


def _answer_messages(answer: object, name: str) -> list[Any]:
    if isinstance(answer, str):
        return [{"role": "assistant", "content": answer}]
    messages = [answer] if isinstance(answer, dict) else answer
    if not isinstance(messages, list) or not messages:
        expected = "text, a message or a list of messages"
        raise InputError(f"{name}: found {short_repr(answer)}, expected {expected}")
    turns = {"conversations": messages}
    return sharegpt_messages(turns) if is_sharegpt(turns) else messages


def _parting(chosen: list[Any], rejected: list[Any]) -> int:
    """How many messages two conversations begin with alike. They part at an answer."""
    pairs = zip(chosen, rejected, strict=False)
    start = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(chosen), len(rejected)))
    for name, messages in (("chosen", chosen), ("rejected", rejected)):
        role = role_of(messages[start]) if start < len(messages) else None
        if role != "assistant":
            found = f"found {short_repr(role)}" if role is not None else "found no message"
            problem = f"{found}, expected both conversations to part at an answer"
            raise InputError(f"{name}[{start}]: {problem}")
    return start


# A file, unlike a server, may hold conversations that have been answered.
LastAnswer = Literal["keep", "finish"]
_SETTINGS = {name: Settings(last_answer=name) for name in ("keep", "finish")}


@dataclass(frozen=True)
class ReadBody:
    """The request in a body; whose rules it was read by, and what was assumed."""

    body: object
    request: Request
    rules: BodyRules = "released"
    notes: tuple[str, ...] = ()
    settings: Settings = _SETTINGS["keep"]

    def place(self, location: Location) -> Location:
        """A place in the request, as the body has it."""
        if self.rules == "released":
            return place_in_own_body(location, self.body)
        return place_in_body(location, self.body, self._origins)

    @cached_property
    def _origins(self) -> MessageOrigins:
        return origins_of(self.body, self._reread)

    def _reread(self, body: Any) -> Request:
        dialect = self.request.dialect
        return read(body, rules=self.rules, dialect=dialect, settings=self.settings).request


@dataclass(frozen=True)
class RequestOverrides:
    """Options for every conversation that is read, in place of its own; None leaves its own.

    The fields are those of `dsv4.Request`; `task`, which goes on the last message; and `rules`,
    which says whose rules conversations are read by.
    """

    thinking: bool | None = None
    effort: Effort | str | None = None
    dialect: DialectName | Dialect | None = None
    tools: Sequence[ToolInput] | None = None
    drop_thinking: bool | None = None
    bos: bool | None = None
    task: str | None = None
    rules: BodyRules | None = None

    def read(self, body: Any, last_answer: LastAnswer = "keep") -> ReadBody:
        """The request in a value, with these options. Raises an `InputError` for a value that holds
        no conversation, and what `dsv4.api.read` raises."""
        if isinstance(body, Request):
            return ReadBody(body, self.on(body))
        if not isinstance(body, (dict, list)):
            problem = f"found {short_repr(body)}, expected a list of messages or a request"
            raise InputError(problem)
        settings = _SETTINGS[last_answer]
        try:
            call = read(body, rules=self.rules, dialect=self.dialect, settings=settings)
        except NotAConversation as error:
            raise InputError(str(error)) from None
        return ReadBody(body, self.on(self._thinking(call)), call.rules, call.notes, settings)

    def _thinking(self, call: ApiRequest) -> Request:
        """Where thinking is switched on, a server's own effort goes with it."""
        request = call.request
        if call.rules == "released" or not self.thinking or request.thinking:
            return request
        assert isinstance(request.dialect, Dialect)
        effort: Any = dialect_effort(call.settings.effort, request.dialect, "effort")
        return replace(request, effort=effort)

    def on(self, request: Request) -> Request:
        """The request with these options."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        given.pop("rules", None)
        task = given.pop("task", None)
        if task is not None:
            given["messages"] = with_task(request.messages, task)
        return replace(request, **given) if given else request


def with_task(messages: object, task: str) -> list[Any]:
    """The messages with a task on the last, which must be one that can carry it."""
    given: list[Any] = messages if isinstance(messages, list) else []
    role = role_of(given[-1]) if given else None
    if role not in TASKED_ROLES:
        expected = f"a last message of {' or '.join(TASKED_ROLES)}"
        raise InputError(f"task: found {short_repr(role)}, expected {expected}")
    if role == "user" and len(given) > 1 and role_of(given[-2]) in ("user", "tool"):
        problem = "the last message joins the turn before it, where its task would be lost"
        raise InputError(f"task: {problem}")
    return [*given[:-1], {**given[-1], "task": task}]
