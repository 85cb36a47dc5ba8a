"""What can be switched on the page: dialects and their efforts, server profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4._format.dialects import DIALECTS
from dsv4.playground.bench import Bench
from dsv4.playground.examples import sources
from dsv4.profiles import PROFILES
from dsv4.version import __version__


def settings(body: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
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
        "examples": sources(),
        "tokens": bench.tokenizer is not None,
        "model": bench.model,
        "inspects": bench.inspects,
        "asks_for_key": bench.asks_for_key,
    }
