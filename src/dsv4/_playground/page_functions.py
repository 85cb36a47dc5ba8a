"""Everything that the page can call, by name, and the settings that it asks for first."""

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

# What can be switched on the page: dialects and their efforts, server profiles.


def page_settings(body: Mapping[str, Any], bench: PlaygroundContext) -> dict[str, Any]:
    """What the page asks for once, before it shows anything."""
    return {
        "version": __version__,
        "dialect": bench.dialect,
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
        "tokens": bench.tokenizer is not None,
        "model": bench.model,
        "inspects": bench.inspects,
        "asks_for_key": bench.asks_for_key,
    }


# Everything that the page can ask for, by name.


PageFunction: TypeAlias = Callable[[Mapping[str, Any], PlaygroundContext], Any]
"""What the page sent, and what there is to work with -> what is sent back, both as JSON.

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
