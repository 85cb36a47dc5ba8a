"""What is asked for -> `ApiRequest`: everything that depends on the dialect and the settings."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from dsv4.api.asked import AUTO, Asked, Format
from dsv4.api.errors import ApiError
from dsv4.api.request import ApiRequest
from dsv4.api.settings import Settings
from dsv4.api.thinking import OFF, dialect_effort
from dsv4.api.tools import Shown, shown, shown_for
from dsv4.api.turns import Turns, continued
from dsv4.format.dialects import Dialect
from dsv4.request import Request

_T = TypeVar("_T")

NO_MARKS: dict[int, tuple[str, ...]] = {}


def resolve(
    asked: Asked,
    protocol: Literal["chat", "responses", "messages"],
    dialect: Dialect,
    settings: Settings,
) -> ApiRequest:
    """The request as a dialect and a server's settings make it."""
    choice = asked.choice
    if choice is AUTO:
        tools = shown(asked.declared, dialect)
        thinking = settings.thinking if asked.thinking is None else asked.thinking
        thinking = thinking and asked.effort != OFF
    else:
        tools = shown_for(asked.declared, choice, dialect)
        thinking = _thinking(asked, settings)
    effort = _effort(asked, dialect, settings) if thinking else None
    messages, prefix, marks = asked.messages, "", NO_MARKS
    if not asked.settled:
        turns = Turns(asked, dialect, settings)
        marks = turns.marks
        messages, prefix = continued(turns.messages, asked, thinking)
    prompted: dict[str, Any] = {"messages": messages, "effort": effort, "dialect": dialect}
    if not thinking:
        prompted["thinking"] = False
    if prefix:
        prompted["prefix"] = prefix
    if tools.functions is not None:
        prompted["tools"] = tools.functions
    if choice is not AUTO:
        prompted["tool_choice"] = _choice(asked, tools)
    if asked.format is not None:
        prompted["response_format"] = _response_format(asked.format)
    if asked.stop:
        prompted["stop"] = asked.stop
    if not settings.drop_thinking:
        prompted["drop_thinking"] = False
    served = {
        "request": made(Request, prompted),
        "protocol": protocol,
        "model": asked.model or settings.model,
        "max_tokens": asked.max_tokens or _most_tokens(thinking, effort, settings),
        "names": tools.names,
        "ignored": asked.declared.ignored,
        "echo": asked.echo,
        "marks": marks,
        "settings": settings,
    }
    said = vars(asked)
    if not SERVED.isdisjoint(said):
        served.update({name: said[name] for name in SERVED & said.keys()})
    if asked.parallel is False:
        served["parallel"] = False
    return made(ApiRequest, served)


# What is said for the server alone.
SERVED = {
    *("sampling", "stream", "include_usage", "n", "logprobs", "top_logprobs", "user", "cache_key"),
}


def made(kind: type[_T], fields: dict[str, Any]) -> _T:
    """A frozen value of these fields; what is not among them is the class's own default.

    Its constructor would take longer than a short conversation takes to encode: it sets fields one
    by one, and a `Request` checks what has been checked here.
    """
    value = object.__new__(kind)
    object.__setattr__(value, "__dict__", fields)
    return value


def _thinking(asked: Asked, settings: Settings) -> bool:
    """Whether the model thinks, where the request says something about calls."""
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
