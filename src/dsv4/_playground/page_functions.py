"""The functions that the page can call, by name, the settings that it loads first, and answers to
its calls: in a server, and in a browser, where Python runs beside the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from dsv4._format.dialects import DIALECTS
from dsv4._inputs.input_files import json_problem
from dsv4._playground.cache_view import view_cache
from dsv4._playground.code_snippets import copy_as_code
from dsv4._playground.completion_trace import stream_view_setup, trace_completion
from dsv4._playground.page_examples import example_sources
from dsv4._playground.page_pictures import add_picture, picture_sizes
from dsv4._playground.page_problem import PageProblem, message_and_location
from dsv4._playground.page_request import PlaygroundContext, live_request
from dsv4._playground.pasted_text import explain_text
from dsv4._playground.prompt_view import prompt_text, view_prompt
from dsv4._playground.turn_list import list_turns
from dsv4.api import ApiError
from dsv4.errors import Error
from dsv4.version import __version__


def page_settings(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The settings that the page loads once, before it shows anything."""
    return {
        "version": __version__,
        "dialect": context.dialect,
        "dialects": [
            {
                "name": name,
                "efforts": [effort for effort in dialect.efforts if isinstance(effort, str)],
            }
            for name, dialect in DIALECTS.items()
        ],
        "profiles": [
            {"name": name, "server": profile.server, "dialects": list(profile.dialects)}
            for name, profile in context.servers.items()
        ],
        "examples": example_sources(),
        "tokens": context.tokenizer is not None,
        "serves": context.serves,
        "model": context.model,
        "inspects": context.inspects,
        "asks_for_key": context.asks_for_key,
    }


PageFunction: TypeAlias = Callable[[Mapping[str, Any], PlaygroundContext], Any]
"""Takes the page's body and the server's context, and returns the JSON to send back.

Raises an `Error` of the toolkit for a request that cannot be answered.
"""

PAGE_FUNCTIONS: dict[str, PageFunction] = {
    "cache": view_cache,
    "copy": copy_as_code,
    "live": live_request,
    "picture": add_picture,
    "prompt": view_prompt,
    "settings": page_settings,
    "sizes": picture_sizes,
    "stream": stream_view_setup,
    "text": prompt_text,
    "trace": trace_completion,
    "turns": list_turns,
    "why": explain_text,
}


def answer(name: str, data: bytes | str, context: PlaygroundContext) -> tuple[int, bytes]:
    """The status and the JSON that answer a call of the page: the result of the function `name`, or
    the problem with the call.
    """
    try:
        if name not in PAGE_FUNCTIONS:
            expected = ", ".join(PAGE_FUNCTIONS)
            raise ApiError(f"found {name!r}, expected one of {expected}", status=404)
        return 200, _json_bytes(PAGE_FUNCTIONS[name](_json_object(data), context))
    except Error as error:
        return error_answer(error)


def error_answer(error: Error) -> tuple[int, bytes]:
    """The status and the JSON that tell the page of an error."""
    status = error.status if isinstance(error, ApiError) else 400
    return status, _json_bytes({"error": _problem(error).to_dict()})


def _problem(error: Error) -> PageProblem:
    if isinstance(error, PageProblem):
        return error
    message, location = message_and_location(error)
    return PageProblem(message, location=location)


def _json_object(data: bytes | str) -> dict[str, Any]:
    """The object in a body. Raises a `PageProblem`, with its place, for anything else."""
    try:
        body = json.loads(data)
    except json.JSONDecodeError as error:
        line, column, at = error.lineno, error.colno, error.pos
        message = json_problem(error)
        raise PageProblem(message, start=at, end=at + 1, line=line, column=column) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or nested too deep
        raise PageProblem(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise PageProblem("found a body that is no object, expected an object")
    return body


def _json_bytes(value: object) -> bytes:
    # Lone surrogates cannot be encoded in UTF-8; JSON can write them as escapes.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii")


class BrowserPlayground:
    """The functions without a server, for a page in which Python runs in a worker.

    There is no model to call, and there are no clients to inspect.
    """

    def __init__(self) -> None:
        self._context = PlaygroundContext(serves=False)

    def use_tokenizer(self, vocabulary: str, encode: Callable[[str], Iterable[int]]) -> None:
        """Enables counts and ids, with the text of a `tokenizer.json` as `vocabulary`, and with the
        function `encode` of the browser's own engine, which does not know added tokens.
        """
        from dsv4.tokens import Tokenizer
        from dsv4.tokens.vocabulary import BUNDLED_NAME, Vocabulary

        bundled = Vocabulary(vocabulary, BUNDLED_NAME)
        tokenizer = Tokenizer(bundled, engine=lambda _: lambda text: list(encode(text)))
        self._context = replace(self._context, tokenizer=tokenizer)

    def answer(self, name: str, body: str) -> tuple[int, str]:
        """The status and the JSON that answer a call."""
        status, data = answer(name, body, self._context)
        return status, data.decode("ascii")
