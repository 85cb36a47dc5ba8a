"""Errors of a request, with their HTTP status, and how OpenAI's two protocols write them.

dsv4.Error
└── ApiError            a status, a type, a message and the field it is about
    └── ContextOverflow a prompt longer than the model's context
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.errors import EncodeError, Error, Location, OptionError, location_of, mismatch

# The names of errors by their status, as both vendors use them. A protocol changes the few names
# that differ.
TYPES: dict[int, str] = {
    **dict.fromkeys((400, 405, 415, 421, 422, 431), "invalid_request_error"),
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    **dict.fromkeys((408, 504), "timeout_error"),
    413: "request_too_large",
    429: "rate_limit_error",
    **dict.fromkeys((503, 529), "overloaded_error"),
}
SERVER_FAULT = "api_error"


class ApiError(Error):
    """A request that is answered with an error.

    `status` is the HTTP status, `type` the kind of error as both vendors name it (made from the
    status if not given), `message` says what was found and what would be right. `path` is the
    field of the request it is about (`messages[2].content[0].type`), None if it is about none;
    `code` is a word for programs, None if there is none; `details` is an object for programs in
    errors of Messages (`{"error_code": "thread_not_found"}`), None if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        status: int = 400,
        type: str | None = None,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.status = status
        self.type: str = type or TYPES.get(status, SERVER_FAULT)
        self.code = code
        self.details = details

    @property
    def location(self) -> Location:
        """The field as a location, as other errors have it; empty if the error is about none."""
        return location_of(self.path or "")

    @property
    def problem(self) -> str:
        """The message, under the name that other errors have for it."""
        return self.message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ContextOverflow(ApiError):
    """A prompt of `tokens` tokens for a model that reads at most `limit`.

    Clients recognise an overflow by the message, which differs: each protocol writes its own.
    """

    def __init__(self, tokens: int, limit: int) -> None:
        message = f"the prompt has {tokens} tokens, the model's context {limit}"
        super().__init__(message, code="context_length_exceeded")
        self.tokens = tokens
        self.limit = limit


def wrong(value: object, expected: str, path: str) -> ApiError:
    """The error for a field with a wrong value."""
    return ApiError(mismatch(value, expected), path=path)


def as_api_error(error: BaseException) -> ApiError:
    """Any exception as an error for a client. An internal error is not described."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, (EncodeError, OptionError)):
        return ApiError(error.problem, path=error.path)
    return ApiError("The server failed to answer this request.", status=500)


# Errors as OpenAI writes them, in both of its protocols.


def error(exception: BaseException) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body of an answer that is an error, for `exception`."""
    return as_api_error(exception).status, error_body(exception)


def error_body(exception: BaseException) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    api_error = as_api_error(exception)
    return {
        "error": {
            "message": _openai_message(api_error),
            "type": api_error.type,
            "param": api_error.path,
            "code": api_error.code,
        }
    }


def _openai_message(error: ApiError) -> str:
    if not isinstance(error, ContextOverflow):
        return str(error)
    return (
        f"This model's maximum context length is {error.limit} tokens. However, your messages "
        f"resulted in {error.tokens} tokens. Please reduce the length of the messages."
    )
