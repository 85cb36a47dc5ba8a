"""Limits that only the official API sets for a request: names of models, bounds, schemas of tools,
and fields that it reads under another name (docs/official-api.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsv4.api.request_fields import JsonObject
from dsv4.errors import EncodeError, Location
from dsv4.profiles.official_api import RULES, meant_name
from dsv4.profiles.recipe_schemas import check_schema
from dsv4.serve.heal.adapted_messages import with_value, without

_CLAMPED = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "max_tokens", "seed")
_SMALLEST_TOP_P = 0.01  # of those above 0
# So many keywords are taken out of a schema at most; after that, the whole schema is.
_MOST_REPAIRS = 20


def with_served_name(body: JsonObject) -> JsonObject:
    """The request with the model that its name stands for: also for Claude's and providers'
    names."""
    model = body.get("model")
    if not isinstance(model, str) or meant_name(model) == model:
        return body
    return {**body, "model": meant_name(model)}


def with_bounded_values(body: JsonObject) -> JsonObject:
    """The request with every number within the API's bounds, and only as many stop strings as it
    allows."""
    for field in _CLAMPED:
        if isinstance(body.get(field), (int, float)):
            body = with_value(body, field, _bounded(body[field], RULES[field]))
    top = body.get("top_logprobs")
    if isinstance(top, int):
        bounded = _bounded(top, RULES["top_logprobs"])
        body = (
            with_value(body, "top_logprobs", bounded)
            if body.get("logprobs")
            else (without(body, "top_logprobs"))
        )
    stop = body.get("stop")
    if isinstance(stop, str) and not stop:
        return without(body, "stop")
    if isinstance(stop, list):
        kept = [text for text in stop if text][: RULES["stop-count"]["most"]]
        body = body if kept == stop else {**body, "stop": kept}
    return body


def _bounded(value: Any, limits: Mapping[str, Any]) -> Any:
    least = limits.get("least", _SMALLEST_TOP_P)
    bounded = min(max(value, least), limits["most"])
    return value if bounded == value else bounded


def with_own_user(body: JsonObject) -> JsonObject:
    """The request with the user in the API's field: the API keeps the caches of users apart."""
    if not isinstance(body.get("user"), str) or "user_id" in body:
        return body
    return {**without(body, "user"), "user_id": body["user"]}


def with_valid_schema(function: JsonObject) -> JsonObject:
    """A function whose parameters are the schema of an object, without keywords whose values are
    not valid in a schema."""
    parameters = function.get("parameters")
    if parameters is None:
        return function
    valid = _valid_schema(parameters)
    if not isinstance(valid, dict) or valid.get("type") != "object":
        valid = {**(valid if isinstance(valid, dict) else {}), "type": "object"}
    return function if valid == parameters else {**function, "parameters": valid}


def _valid_schema(schema: object) -> object:
    for _ in range(_MOST_REPAIRS):
        try:
            check_schema(schema, "")
        except EncodeError as error:
            schema = _without_place(schema, error.location)
        else:
            return schema
    return {}


def _without_place(value: Any, location: Location) -> Any:
    """A value without the part at a location; an empty object where there is no such location."""
    if not location:
        return {}
    step, *rest = location
    if isinstance(value, dict) and step in value:
        if rest:
            return {**value, step: _without_place(value[step], tuple(rest))}
        return {name: item for name, item in value.items() if name != step}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        inner = _without_place(value[step], tuple(rest)) if rest else {}
        return [*value[:step], inner, *value[step + 1 :]]
    return {}


OFFICIAL_CHANGES: Mapping[str, Callable[[JsonObject], JsonObject]] = {
    "model-name": with_served_name,
    "limits": with_bounded_values,
    "user-id": with_own_user,
}
