"""Fields of requests that belong to an engine and to no protocol: those that each engine takes, and
its names for them.

A field that an engine takes is forwarded. One that asks for a form of the answer is forwarded
where that form can hold for the whole completion, and refused elsewhere: an engine would apply it
to the reasoning and to the markup of calls as well. All others are ignored and named in
`x-dsv4-ignored`, as in every protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dsv4.api import ApiError
from dsv4.api.request_fields import JsonObject

# vLLM's names for the form of an answer; clients still send the older ones.
_FORMS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
_FORM = "a `response_format`, which holds for the answer alone"


@dataclass(frozen=True, slots=True)
class EngineFields:
    """The fields that an engine takes beyond those of the protocols.

    `forwarded` maps names in requests to those of the engine; `forms` does so for fields that ask
    for a form of the answer; `refused` maps fields that cannot be honoured to the right
    alternative.
    """

    forwarded: Mapping[str, str] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Every field that is read."""
        return frozenset((*self.forwarded, *self.forms, *self.refused))

    def read(self, body: JsonObject, is_answer: bool) -> dict[str, Any]:
        """The engine's fields of a request, by the engine's names. `is_answer` says that a
        completion is only the text of an answer. Raises an `ApiError`."""
        for name, expected in self.refused.items():
            if body.get(name) not in (None, False):
                raise ApiError(f"this cannot be kept here: expected {expected}", path=name)
        forms = {name: body[name] for name in self.forms if body.get(name) is not None}
        if forms and not is_answer:
            [name, *_] = forms
            problem = "this would hold for reasoning and calls too"
            raise ApiError(f"{problem}: expected {_FORM}", path=name)
        names = {**self.forwarded, **{name: self.forms[name] for name in forms}}
        values = {own: body[name] for name, own in names.items() if body.get(name) is not None}
        return _nested(values)


def fields_of(backend: object) -> EngineFields:
    """The fields that a backend takes; a program's own backend may list its own in `fields`."""
    fields = getattr(backend, "fields", NONE)
    return fields if isinstance(fields, EngineFields) else NONE


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Nested fields, from names in which a dot separates a field from its member."""
    fields: dict[str, Any] = {}
    for name, value in flat.items():
        outer, dot, member = name.partition(".")
        fields[outer] = {**fields.get(outer, {}), member: value} if dot else value
    return fields


def joined(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body for an engine, with a request's own fields: lists are extended, objects get members,
    and other values that the gateway sets are kept."""
    both = {**extra, **body}
    for name in body.keys() & extra.keys():
        if isinstance(body[name], dict) and isinstance(extra[name], dict):
            both[name] = joined(body[name], extra[name])
        elif isinstance(body[name], list) and isinstance(extra[name], list):
            both[name] = [*body[name], *extra[name]]
    return both


def _table_of(engine: str) -> EngineFields:
    """The fields of an engine. Forms of vLLM that another engine does not support are refused."""
    table = _TABLES[engine]
    no_form = (name for name in _FORMS if name not in table["forms"])
    return EngineFields(
        table["forwarded"], table["forms"], {**dict.fromkeys(no_form, _FORM), **table["refused"]}
    )


# The names in requests, with those of the engine. Fields that would run a client's code in a
# server, or load files there, are left out.
_TABLES = json.loads(Path(__file__).with_name("engine_fields.json").read_text("utf-8"))
NONE = EngineFields(refused=dict.fromkeys(_FORMS, _FORM))
VLLM, SGLANG, LLAMACPP = map(_table_of, ("vllm", "sglang", "llamacpp"))
