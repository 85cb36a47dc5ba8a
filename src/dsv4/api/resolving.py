"""What is asked for -> `ApiRequest`: everything that depends on the dialect and the settings."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import Dialect
from dsv4.api.asked import AUTO, Asked, Format, Message
from dsv4.api.errors import ApiError
from dsv4.api.request import ApiRequest
from dsv4.api.settings import Settings
from dsv4.api.thinking import OFF, dialect_effort
from dsv4.api.tools import Shown, shown, shown_for
from dsv4.api.turns import Turns, continued
from dsv4.request import Request

NO_MARKS: dict[int, tuple[str, ...]] = {}
Protocol: TypeAlias = Literal["chat", "responses", "messages"]


def resolve(asked: Asked, protocol: Protocol, dialect: Dialect, settings: Settings) -> ApiRequest:
    """The request as a dialect and a server's settings make it."""
    return Terms(asked, protocol, dialect, settings).with_messages(asked)


class Terms:
    """What a request's options come to in a dialect, under a server's settings.

    It is the same for any messages, so the same options need this once.
    """

    def __init__(
        self, asked: Asked, protocol: Protocol, dialect: Dialect, settings: Settings
    ) -> None:
        self.asked = asked
        self.dialect = dialect
        self.settings = settings
        tools = _tools(asked, dialect)
        self.thinking = _thinking(asked, settings)
        effort = _effort(asked, dialect, settings) if self.thinking else None
        self._prompted = self._for_prompt(tools, effort)
        self._served = {
            **_for_server(asked),
            "protocol": protocol,
            "model": asked.model or settings.model,
            "max_tokens": asked.max_tokens or _most_tokens(self.thinking, effort, settings),
            "names": tools.names,
            "marks": NO_MARKS,
            "settings": settings,
        }

    def _for_prompt(self, tools: Shown, effort: str | int | None) -> dict[str, Any]:
        """The options of the `Request`."""
        asked = self.asked
        prompted: dict[str, Any] = {**OPTIONS, "effort": effort, "dialect": self.dialect}
        if not self.thinking:
            prompted["thinking"] = False
        if tools.functions is not None:
            prompted["tools"] = tools.functions
        if asked.choice is not AUTO:
            prompted["tool_choice"] = _choice(asked, tools)
        if asked.format is not None:
            prompted["response_format"] = _response_format(asked.format)
        if asked.stop:
            prompted["stop"] = asked.stop
        if not self.settings.drop_thinking:
            prompted["drop_thinking"] = False
        return prompted

    def with_messages(self, asked: Asked) -> ApiRequest:
        """The request with the messages that are asked about."""
        turns = Turns(asked, self.dialect, self.settings)
        messages, prefix = continued(turns.messages, asked, self.thinking)
        call = self.with_turns(messages)
        if prefix:
            call.request.__dict__["prefix"] = prefix
        if turns.marks:
            call.__dict__["marks"] = turns.marks
        return call

    def with_turns(self, messages: list[Message]) -> ApiRequest:
        """The request with messages that are turns as they are.

        Constructors would take longer than a short conversation takes to encode: they set fields
        one by one, and a `Request` checks what has been checked here.
        """
        request = _new(Request)
        held = request.__dict__
        held |= self._prompted
        held["messages"] = messages
        call = _new(ApiRequest)
        held = call.__dict__
        held |= self._served
        held["request"] = request
        return call


_new = object.__new__
# The options of a `Request` that says nothing. Those of a class are found more slowly.
OPTIONS = {
    option.name: option.default for option in fields(Request) if option.default is not MISSING
}

# What is said for the server alone.
SERVED = (
    *("sampling", "stream", "include_usage", "n", "logprobs", "top_logprobs", "user", "cache_key"),
)


def _for_server(asked: Asked) -> dict[str, Any]:
    """The fields of an `ApiRequest` that are said as they are."""
    said = vars(asked)
    served = {name: said[name] for name in SERVED if name in said}
    served |= {"ignored": asked.declared.ignored, "echo": asked.echo}
    if asked.parallel is False:
        served["parallel"] = False
    return served


def _tools(asked: Asked, dialect: Dialect) -> Shown:
    if asked.choice is AUTO:
        return shown(asked.declared, dialect)
    return shown_for(asked.declared, asked.choice, dialect)


def _thinking(asked: Asked, settings: Settings) -> bool:
    """Whether the model thinks, which depends on whether it must call a tool."""
    thinking = False if asked.effort == OFF else asked.thinking
    if asked.choice.mode not in ("required", "tool"):
        return settings.thinking if thinking is None else thinking
    # A call is forced by writing its beginning, which a model that thinks first cannot follow.
    if thinking is False or not asked.wants_thinking:
        return False
    if not settings.grammars:
        message = (
            "found a call that must be made, and thinking, expected one of them: the backend takes "
            "no grammars. Switch thinking off, or leave the choice to the model"
        )
        raise ApiError(message, path=asked.choice.path)
    return True


def _effort(asked: Asked, dialect: Dialect, settings: Settings) -> str | int | None:
    said = asked.effort if asked.effort is not None else settings.effort
    return dialect_effort(said, dialect, asked.effort_path)


def _choice(asked: Asked, tools: Shown) -> Any:
    name = tools.forced
    if name in ("auto", "none", "required"):  # a tool may have the name of a mode
        return {"type": "function", "function": {"name": name}}
    return asked.choice.mode if name is None else name


def _response_format(form: Format) -> dict[str, Any]:
    if form.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"schema": form.schema}}


def _most_tokens(thinking: bool, effort: Any, settings: Settings) -> int:
    if not thinking:
        return settings.max_tokens
    return settings.max_tokens_max_effort if effort == "max" else settings.max_tokens_thinking
