"""The functions that the page can call, by name, and the settings that it loads first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dsv4._format.dialects import DIALECTS
from dsv4._playground.cache_view import view_cache
from dsv4._playground.code_snippets import copy_as_code
from dsv4._playground.completion_trace import stream_view_setup, trace_completion
from dsv4._playground.page_examples import example_sources
from dsv4._playground.page_request import PlaygroundContext, live_request
from dsv4._playground.prompt_view import prompt_text, view_prompt
from dsv4.profiles import PROFILES
from dsv4.version import __version__


def page_settings(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """What the page loads once, before it shows anything."""
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
            for name, profile in PROFILES.items()
        ],
        "examples": example_sources(),
        "tokens": context.tokenizer is not None,
        "model": context.model,
        "inspects": context.inspects,
        "asks_for_key": context.asks_for_key,
    }


PageFunction: TypeAlias = Callable[[Mapping[str, Any], PlaygroundContext], Any]
"""Takes what the page sent and the server's context, and returns what is sent back: JSON.

Raises an `Error` of the toolkit for a request that cannot be answered.
"""

PAGE_FUNCTIONS: dict[str, PageFunction] = {
    "cache": view_cache,
    "copy": copy_as_code,
    "live": live_request,
    "prompt": view_prompt,
    "settings": page_settings,
    "stream": stream_view_setup,
    "text": prompt_text,
    "trace": trace_completion,
}
