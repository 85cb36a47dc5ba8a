"""What is asked for -> `ApiRequest`: everything that depends on the dialect and the settings."""

from __future__ import annotations

from typing import Any, Literal

from dsv4.api.asked import AUTO, Asked
from dsv4.api.errors import ApiError
from dsv4.api.request import ApiRequest
from dsv4.api.settings import Settings
from dsv4.api.thinking import OFF, dialect_effort
from dsv4.api.tools import Shown, shown, shown_for
from dsv4.api.turns import Turns, continued
from dsv4.format.dialects import Dialect
from dsv4.request import Request

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
    else:
        tools = shown_for(asked.declared, choice, dialect)
    thinking = _thinking(asked, settings)
    effort = _effort(asked, dialect, settings) if thinking else None
    messages, prefix, marks = asked.messages, "", NO_MARKS
    if not asked.settled:
        turns = Turns(asked, dialect, settings)
        marks = turns.marks
        messages, prefix = continued(turns.messages, asked, thinking)
    request = Request(
        messages,
        tools=tools.functions,
        tool_choice=_choice(asked, tools),
        response_format=_response_format(asked),
        thinking=thinking,
        effort=effort,
        drop_thinking=settings.drop_thinking,
        dialect=dialect,
        stop=asked.stop,
        prefix=prefix,
    )
    return ApiRequest(
        request,
        protocol,
        model=asked.model or settings.model,
        max_tokens=asked.max_tokens or _most_tokens(thinking, effort, settings),
        sampling=asked.sampling,
        stream=asked.stream,
        include_usage=asked.include_usage,
        n=asked.n,
        logprobs=asked.logprobs,
        top_logprobs=asked.top_logprobs,
        parallel=asked.parallel is not False,
        user=asked.user,
        cache_key=asked.cache_key,
        names=tools.names,
        ignored=asked.declared.ignored,
        echo=asked.echo,
        marks=marks,
        settings=settings,
    )


def _thinking(asked: Asked, settings: Settings) -> bool:
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


def _response_format(asked: Asked) -> dict[str, Any] | None:
    if asked.format is None:
        return None
    if asked.format.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"schema": asked.format.schema}}


def _most_tokens(thinking: bool, effort: Any, settings: Settings) -> int:
    if not thinking:
        return settings.max_tokens
    return settings.max_tokens_max_effort if effort == "max" else settings.max_tokens_thinking
