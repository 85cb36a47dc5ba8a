"""The prompts of this project's own gateway, `dsv4 serve`, with its default settings."""

from __future__ import annotations

from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import chat
from dsv4.api.api_request import ApiRequest
from dsv4.api.errors import ApiError
from dsv4.profiles.server_requests import Object, ThinkingMode, server_refusal


def render(body: Object, dialect: str) -> str:
    return str(prompt_of(body, dialect_named(dialect)))


def prompt_of(body: Object, dialect: Dialect) -> Prompt:
    return _read(body, dialect).request.encode()


def mode(body: Object, dialect: str) -> ThinkingMode:
    release = dialect_named(dialect)
    request = _read(body, release).request
    return ThinkingMode(request.thinking, release.efforts[request.effort])


def _read(body: Object, dialect: Dialect) -> ApiRequest:
    try:
        return chat.read(body, dialect=dialect)
    except ApiError as error:
        raise server_refusal(error.path or "request", error.message) from None
