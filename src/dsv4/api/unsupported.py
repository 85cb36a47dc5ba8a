"""Fields that change what a model sees, and that nothing here can do: a request that has one is
refused, because an answer to anything less would look like an answer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dsv4.api.errors import ApiError
from dsv4.errors import short_repr

Check: TypeAlias = Callable[[Any, str], None]

# By these words the SDK knows that it must send the whole conversation itself.
THREAD_UNSUPPORTED = {"error_code": "thread_unsupported_request"}


def _refused(expected: str, details: Mapping[str, Any] | None = None) -> Check:
    """Whatever the value."""

    def check(value: Any, path: str) -> None:
        raise ApiError(
            f"found {short_repr(value)}, expected {expected}", path=path, details=details
        )

    return check


def _refused_but(harmless: tuple[Any, ...], expected: str) -> Check:
    """Any value but those that ask for nothing."""
    refused = _refused(expected)

    def check(value: Any, path: str) -> None:
        if value not in harmless:
            refused(value, path)

    return check


def _no_skills(value: Any, path: str) -> None:
    """A container is for tools that run elsewhere. Skills in it would be shown to the model."""
    if isinstance(value, dict) and value.get("skills"):
        raise ApiError("found skills, expected none: they cannot be loaded here", path=path)


_WHOLE = "the whole conversation: no threads are kept here"
_OWN_TEMPLATE = "no template: the prompt is written in the format of the model"
_PREFIX = 'an assistant message with "prefix": true at the end'

UNSUPPORTED: dict[str, dict[str, Check]] = {
    "chat": {
        "web_search_options": _refused("none: nobody here can search the web"),
        # Of servers that render templates.
        "documents": _refused_but(([], ()), "the documents in messages"),
        "chat_template": _refused(_OWN_TEMPLATE),
        "continue_final_message": _refused_but((False,), _PREFIX),
        "add_generation_prompt": _refused_but((True,), "true: a prompt asks for an answer"),
    },
    "messages": {
        "thread": _refused(_WHOLE, THREAD_UNSUPPORTED),
        "compaction": _refused("none: conversations are not compacted here"),
        "mcp_servers": _refused_but(([], ()), "none: tools of MCP servers are not run here"),
        "container": _no_skills,
    },
}
# Which old reasoning is shown is decided by the format.
REASONING_CONTEXT = _refused_but(("auto",), '"auto": the format decides which reasoning is kept')
