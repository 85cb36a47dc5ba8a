"""Everything that the page can ask for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dsv4.playground.bench import Bench
from dsv4.playground.cache import cache
from dsv4.playground.copying import copy
from dsv4.playground.live import live
from dsv4.playground.options import settings
from dsv4.playground.prompts import prompt, text
from dsv4.playground.trace import stream, trace

Function: TypeAlias = Callable[[Mapping[str, Any], Bench], Any]
"""What the page sent, and what there is to work with -> what is sent back, both as JSON.

Raises an `Error` of the toolkit for a request that cannot be answered.
"""

FUNCTIONS: dict[str, Function] = {
    "cache": cache,
    "copy": copy,
    "live": live,
    "prompt": prompt,
    "settings": settings,
    "stream": stream,
    "text": text,
    "trace": trace,
}
