"""Errors as OpenAI writes them, in both of its protocols."""

from __future__ import annotations

from typing import Any

from dsv4.api.errors import ApiError, ContextOverflow, as_api_error


def error(exception: BaseException) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body of an answer that is an error, for `exception`."""
    return as_api_error(exception).status, error_body(exception)


def error_body(exception: BaseException) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    found = as_api_error(exception)
    return {
        "error": {
            "message": _words(found),
            "type": found.type,
            "param": found.path,
            "code": found.code,
        }
    }


def _words(error: ApiError) -> str:
    if not isinstance(error, ContextOverflow):
        return str(error)
    return (
        f"This model's maximum context length is {error.limit} tokens. However, your messages "
        f"resulted in {error.tokens} tokens. Please reduce the length of the messages."
    )
