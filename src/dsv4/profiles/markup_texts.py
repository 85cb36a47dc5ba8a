"""Tools and calls as most servers write them, each server with its own style of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from dsv4._format.dialects import NAME_END, STRING_FALSE, STRING_TRUE, Dialect, Tags

JsonWriter: TypeAlias = Callable[[object], str]


def tools_section(schemas: Iterable[object], dialect: Dialect, json: JsonWriter) -> str:
    return dialect.tools_open + "\n".join(map(json, schemas)) + dialect.tools_close


def calls_block(
    calls: Iterable[tuple[str, Mapping[str, object]]], tags: Tags, json: JsonWriter
) -> str:
    """The block of calls that are given by names and arguments."""
    texts = (
        f"{tags.invoke_open}{name}{NAME_END}"
        + "\n".join(parameters(arguments, tags, json))
        + tags.invoke_close
        for name, arguments in calls
    )
    return tags.block_open + "\n".join(texts) + tags.block_close


def parameters(arguments: Mapping[str, object], tags: Tags, json: JsonWriter) -> Iterator[str]:
    for key, value in arguments.items():
        typed = STRING_TRUE + value if isinstance(value, str) else STRING_FALSE + json(value)
        yield f"{tags.parameter_open}{key}{typed}{tags.parameter_close}"
