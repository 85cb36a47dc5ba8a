"""The body of a request as JSON, within the limits: how deep, how many messages, how many tools."""

from __future__ import annotations

from itertools import chain
from typing import Any

from dsv4.api import ApiError
from dsv4.api.request_fields import JsonObject, json_body
from dsv4.serve.settings import Settings


def read_json(data: bytes, deepest: int) -> JsonObject:
    """A body as a dict, no deeper than allowed."""
    body = json_body(data)
    if _is_deeper(body, deepest):
        raise ApiError(f"The body is nested deeper than {deepest} levels.")
    return body


def _is_deeper(body: JsonObject, deepest: int) -> bool:
    # Every value of every request is looked at here: by its class, which is the quickest question,
    # and nearly all of them are texts.
    level: list[Any] = [body.values()]
    for _ in range(deepest):
        level = [
            value.values() if value.__class__ is dict else value
            for value in chain.from_iterable(level)
            if value.__class__ is not str and (value.__class__ is dict or value.__class__ is list)
        ]
        if not level:
            return False
    return True


def check_counts(body: JsonObject, settings: Settings) -> None:
    """Refuses a body with too many messages or tools, before any of them is read."""
    messages, tools = settings.max_messages, settings.max_tools
    for name, most in (("messages", messages), ("input", messages), ("tools", tools)):
        given = body.get(name)
        listed = given if isinstance(given, list) else []
        count = len(listed) + (_in_namespaces(listed) if name == "tools" else 0)
        if count > most:
            raise ApiError(f"found {count} {name}, expected at most {most}", path=name)


def _in_namespaces(tools: list[Any]) -> int:
    inner = (tool.get("tools") for tool in tools if isinstance(tool, dict))
    return sum(len(listed) for listed in inner if isinstance(listed, list))
