"""The options of a `Request`, for functions that pass them on to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from dsv4.format.dialects import Dialect


class Options(TypedDict, total=False):
    """Each as a keyword, so that a type checker sees it."""

    tools: Iterable[Any] | None
    tool_choice: str | Mapping[str, Any]
    response_format: Mapping[str, Any] | None
    thinking: bool
    effort: str | int | None
    drop_thinking: bool
    bos: bool
    context: Iterable[Any]
    dialect: str | Dialect
    stop: Sequence[str] | str
    prefix: str
