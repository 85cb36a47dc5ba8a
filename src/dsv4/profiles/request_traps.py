"""Traps: silent behavior of a server that the author of a request may not expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsv4._format.dialects import V4, dialect_for
from dsv4._format.texts import read_table
from dsv4.errors import EncodeError, Location, UnknownModel
from dsv4.profiles import request_facts
from dsv4.profiles.official_api import RULES, own_name, served_release
from dsv4.profiles.profile import Profile, profile_named, render
from dsv4.profiles.server_requests import (
    Object,
    RequestBody,
    as_object,
    served_dialect,
    served_name,
    template_options,
)


@dataclass(frozen=True)
class Trap:
    """A surprise: its kind, the place in the request that leads to it, and what happens."""

    kind: str
    location: Location
    message: str


@dataclass(frozen=True)
class AcceptedRequest:
    """A request that a server accepts, with its profile and dialect."""

    body: Object
    profile: Profile
    dialect: str

    @property
    def thinking(self) -> bool:
        return self.profile.mode(self.body, self.dialect).thinking


TrapFinder: TypeAlias = Callable[[AcceptedRequest], Location | None]


@dataclass(frozen=True)
class _TrapRule:
    """A trap of some servers, with the same message for all of them or one for each. `profiles` are
    names, with a version or, for all releases of a server, without."""

    kind: str
    find: TrapFinder
    message: str
    profiles: Sequence[str]
    dialects: Sequence[str] = ("v4", "v4.1")

    def applies(self, request: AcceptedRequest) -> bool:
        names = {request.profile.base_name, request.profile.family}
        is_meant = served_name(request.dialect) in self.dialects
        return is_meant and not names.isdisjoint(self.profiles)


def traps(body: RequestBody, name: str | Profile, *, dialect: str | None = None) -> list[Trap]:
    """The traps of a request on one server.

    `body`, `name` and `dialect` are as for `render`. A request that the server refuses has one
    trap, of kind "refused". Raises `EncodeError` for an unknown name or dialect.
    """
    profile = profile_named(name)
    if dialect is not None:
        served_dialect(served_name(dialect))
    try:
        prompt = render(body, name, dialect=dialect)
    except EncodeError as error:
        message = f"{profile.server} refuses the request: {error}"
        return [Trap("refused", error.location, message)]
    if not _is_encodable(prompt):
        problem = "its prompt has half of a surrogate pair, which no tokenizer accepts"
        return [Trap("refused", ("messages",), f"{profile.server} refuses the request: {problem}")]
    request = AcceptedRequest(as_object(body), profile, profile.own_dialect(dialect, body))
    places = ((rule, rule.find(request)) for rule in _RULES if rule.applies(request))
    faults = [
        Trap(fault.id, (), f"{profile.server}: {fault.fault.message}")
        for fault in profile.faults
        if fault.touches(request.body)
    ]
    return faults + [
        Trap(rule.kind, location, f"{profile.server}: {rule.message}")
        for rule, location in places
        if location is not None
    ]


def _is_encodable(prompt: str) -> bool:
    try:
        prompt.encode()
    except UnicodeEncodeError:
        return False
    return True


# Causes of traps.


def _vanishing_developer(request: AcceptedRequest) -> Location | None:
    arguments = template_options(request.body)
    if (
        not request.thinking
        or request.body.get("tools")
        or not arguments.get("drop_thinking", True)
    ):
        return None
    results = ("tool",) if request.profile.release(request.dialect).results_ask else ()
    roles = ("user", "developer", *results)
    asking = [n for n, _ in request_facts.messages(request.body, *roles)]
    first = request_facts.developer(request.body)
    return first if first and first[1] != asking[-1] else None


def _thinking_off_unasked(request: AcceptedRequest) -> Location | None:
    """Finds thinking that is off although the request does not switch it off for this server."""
    if request.thinking:
        return None
    arguments = template_options(request.body)
    if "thinking" in arguments or request.body.get("reasoning_effort") == "none":
        return None
    if _asked_to_think(request.body) is False:
        return None
    return ()


def _asked_to_think(body: Object) -> bool | None:
    """The setting of a top-level `thinking` or an `enable_thinking`; None without one."""
    value = body.get("thinking")
    if isinstance(value, dict) and value.get("type") in ("enabled", "adaptive", "disabled"):
        return bool(value["type"] != "disabled")
    arguments = body.get("chat_template_kwargs")
    enabled = arguments.get("enable_thinking") if isinstance(arguments, dict) else None
    return None if enabled is None else bool(enabled)


def _ignored_thinking(request: AcceptedRequest) -> Location | None:
    value = request.body.get("thinking")
    if not isinstance(value, dict):
        return None
    wanted = value.get("type") != "disabled"
    return ("thinking",) if wanted != request.thinking else None


def _ignored_arguments(request: AcceptedRequest) -> Location | None:
    arguments = request.body.get("chat_template_kwargs")
    return ("chat_template_kwargs",) if arguments else None


def _effort(*names: str) -> TrapFinder:
    def find(request: AcceptedRequest) -> Location | None:
        effort = request.body.get("reasoning_effort")
        is_written = isinstance(effort, str) and effort in names and request.thinking
        return ("reasoning_effort",) if is_written else None

    return find


def _revised_effort(request: AcceptedRequest) -> Location | None:
    """Finds an effort for which the server writes another text than the first encoder of V4 did,
    if the model is V4's first release by its name."""
    if not request.thinking or not _is_first_release(request.body.get("model")):
        return None
    effort = request.body.get("reasoning_effort")
    released = V4.efforts["max"] if effort in ("max", "ultra") else V4.efforts["high"]
    written = request.profile.mode(request.body, request.dialect).effort
    return ("reasoning_effort",) if written != released else None


def _effort_by_default(request: AcceptedRequest) -> Location | None:
    """Finds an effort text that the server writes although no effort was requested."""
    arguments = template_options(request.body)
    if request.body.get("reasoning_effort") is not None or "reasoning_effort" in arguments:
        return None
    mode = request.profile.mode(request.body, request.dialect)
    unasked = request.profile.release(request.dialect).efforts[None]
    return () if mode.thinking and mode.effort != unasked else None


def _is_first_release(model: object) -> bool:
    try:
        return isinstance(model, str) and dialect_for(model) is V4
    except UnknownModel:
        return False


def _response_format(request: AcceptedRequest) -> Location | None:
    return request_facts.json_object(request.body) or request_facts.json_schema(request.body)


def _closed_answer_last(request: AcceptedRequest) -> Location | None:
    is_open = request.body.get("continue_final_message")
    return None if is_open else request_facts.answer_last(request.body)


def _answer_last_without_prefix(request: AcceptedRequest) -> Location | None:
    is_open = request_facts.prefix(request.body)
    return None if is_open else request_facts.answer_last(request.body)


def _given(*names: str) -> TrapFinder:
    """Finds the first of these fields that is given, whatever its value."""

    def find(request: AcceptedRequest) -> Location | None:
        given = (name for name in names if request.body.get(name) is not None)
        return next(((name,) for name in given), None)

    return find


def _sampling_without_effect(request: AcceptedRequest) -> Location | None:
    is_given = _given(*RULES["no-effect"]["unread"])
    return is_given(request) if request.thinking else None


def _providers_name(request: AcceptedRequest) -> Location | None:
    model = request.body.get("model")
    is_providers = isinstance(model, str) and own_name(model) != model
    return ("model",) if is_providers and served_release(model) is None else None


# The finders that request_traps.json names besides the facts of request_facts.py.
_FINDERS: Mapping[str, TrapFinder] = {
    "vanishing_developer": _vanishing_developer,
    "thinking_off_unasked": _thinking_off_unasked,
    "ignored_thinking": _ignored_thinking,
    "ignored_arguments": _ignored_arguments,
    "medium_effort": _effort("medium"),
    "highest_efforts": _effort("xhigh", "ultra"),
    "revised_effort": _revised_effort,
    "effort_by_default": _effort_by_default,
    "response_format": _response_format,
    "sampling_without_effect": _sampling_without_effect,
    "changed_top_p": _given("top_p"),
    "unread_length": _given("max_completion_tokens"),
    "unread_switches": _given("enable_thinking", "reasoning"),
    "providers_name": _providers_name,
    "closed_answer_last": _closed_answer_last,
    "answer_last_without_prefix": _answer_last_without_prefix,
}


def _finder(name: str) -> TrapFinder:
    if name in _FINDERS:
        return _FINDERS[name]
    fact: request_facts.RequestFact = getattr(request_facts, name)
    return lambda request: fact(request.body)


def _rule(find: str, **fields: Any) -> _TrapRule:
    return _TrapRule(find=_finder(find), **fields)


_RULES = tuple(_rule(**row) for row in read_table("request_traps", __file__))
