"""The body of a request as JSON, within limits: on its depth, messages, tools and choices."""

from __future__ import annotations

from itertools import chain
from typing import Any

from dsv4.api import ApiError
from dsv4.api.request_fields import JsonObject, json_body
from dsv4.serve.settings import Settings

# The deepest nesting in a request.
MOST_LEVELS = 256
MOST_MESSAGES = 20_000
MOST_TOOLS = 1_000


def read_json(data: bytes) -> JsonObject:
    """A body as a dict, no deeper than allowed."""
    body = json_body(data)
    if _is_too_deep(body):
        raise ApiError(f"The body is nested deeper than {MOST_LEVELS} levels.")
    return body


def _is_too_deep(body: JsonObject) -> bool:
    # Every value of every request is checked here: by its class, which is the quickest check, and
    # nearly all values are texts.
    level: list[Any] = [body.values()]
    for _ in range(MOST_LEVELS):
        level = [
            value.values() if value.__class__ is dict else value
            for value in chain.from_iterable(level)
            if value.__class__ is not str and (value.__class__ is dict or value.__class__ is list)
        ]
        if not level:
            return False
    return True


_MOST_ITEMS = {"messages": MOST_MESSAGES, "input": MOST_MESSAGES, "tools": MOST_TOOLS}


def check_counts(body: JsonObject) -> None:
    """Refuses a body with too many messages or tools, before any of them is read."""
    for name, most in _MOST_ITEMS.items():
        value = body.get(name)
        items = value if isinstance(value, list) else []
        count = len(items) + (_in_namespaces(items) if name == "tools" else 0)
        if count > most:
            raise ApiError(f"found {count} {name}, expected at most {most}", path=name)


def check_choices(count: int, settings: Settings) -> None:
    """Refuses a request for too many completions: each takes a stream of the engine."""
    if count > settings.max_n:
        raise ApiError(f"found {count}, expected at most {settings.max_n}", path="n")


def choices_in(body: JsonObject, settings: Settings) -> int:
    """The number of completions that a body asks for, on a route that only the server behind
    knows."""
    counts: list[int] = [body[name] for name in ("n", "best_of") if type(body.get(name)) is int]
    choices = max([1, *counts])
    check_choices(choices, settings)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and type(prompt[0]) is not int:
        return choices * len(prompt)
    return choices


def _in_namespaces(tools: list[Any]) -> int:
    inner = (tool.get("tools") for tool in tools if isinstance(tool, dict))
    return sum(len(each) for each in inner if isinstance(each, list))
