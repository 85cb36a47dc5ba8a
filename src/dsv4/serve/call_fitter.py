"""Calls on their way to the client: arguments that do not fit the schema of their tool are made to
fit, where that loses nothing. The log of events keeps the model's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from dsv4._completion.events import (
    ArgumentsDelta,
    Diagnostic,
    Event,
    ToolCallEnd,
    ToolCallStart,
)
from dsv4._encode.inputs import fields_of
from dsv4._fit.fit_arguments import fit_arguments
from dsv4._fit.schema_validator import has_validator
from dsv4.api import ApiRequest
from dsv4.api.event_writer import FittedCallEnd
from dsv4.api.neutral_request import NAMESPACE_SEPARATOR, ToolName


class CallFitter:
    """Makes the calls of one answer fit."""

    def __init__(self, call: ApiRequest) -> None:
        self._call = call

    @cached_property
    def _schemas(self) -> Mapping[tuple[str | None, str], object]:
        """The schemas of the declared functions, by the client's names."""
        functions = map(fields_of, self._call.request.tools or ())
        tools = [(self._call.names.get(each["name"]), each) for each in functions]
        return {_key(tool): each.get("parameters") for tool, each in tools if tool is not None}

    def ended(
        self, end: ToolCallEnd, before: Iterable[Event], place: Callable[[], int]
    ) -> list[Event]:
        """The end of a call as it is sent, and the reports about it. `before` are the events before
        it, the last one first; `place` returns its place in the text."""
        pieces: list[str] = []
        for event in before:
            if isinstance(event, ArgumentsDelta) and event.index == end.index:
                pieces.append(event.text)
            elif isinstance(event, ToolCallStart) and event.index == end.index:
                return self._fitted(end, event, "".join(reversed(pieces)), place)
        return [end]

    def _fitted(
        self, end: ToolCallEnd, start: ToolCallStart, arguments: str, place: Callable[[], int]
    ) -> list[Event]:
        schema = self._schema_of(start)
        if schema is None:
            return [end]
        result = fit_arguments(arguments, schema)
        if result.problem is not None:
            at = place()
            return [end, Diagnostic("arguments_do_not_fit", at, at, result.problem)]
        if not result.repairs:
            return [end]
        at = place()
        repairs = [Diagnostic("fitted_arguments", at, at, words) for words in result.repairs]
        return [FittedCallEnd(end.index, result.arguments), *repairs]

    def _schema_of(self, start: ToolCallStart) -> dict[str, Any] | None:
        """The schema of a called tool. None for a tool that is custom, or not declared."""
        space = start.namespace
        name = start.name if space is None else f"{space}{NAMESPACE_SEPARATOR}{start.name}"
        tool = self._call.names.get(name)
        if tool is None or tool.kind == "custom":
            return None
        schema = self._schemas.get(_key(tool))
        return schema if isinstance(schema, dict) else None


def _key(tool: ToolName) -> tuple[str | None, str]:
    return tool.namespace, tool.name


def call_fitter(call: ApiRequest) -> CallFitter | None:
    """The fitter for the calls of an answer to `call`. None where fitting is not wanted, or calls
    are sent before they are whole."""
    settings = call.settings
    is_whole = settings.calls == "whole" or not call.stream
    is_wanted = settings.fit_arguments and is_whole and bool(call.request.tools)
    return CallFitter(call) if is_wanted and has_validator() else None
