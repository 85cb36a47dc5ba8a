"""What stands in place of free content: the JSON that a request's response format asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsv4.errors import Location, refusal, shown
from dsv4.grammar.json_text import JsonText
from dsv4.grammar.markup import FORBIDDEN
from dsv4.grammar.relaxed import Relaxations
from dsv4.grammar.rules import NEVER, Expression, Rules
from dsv4.grammar.shapes import Document, Subschema
from dsv4.grammar.values import Values


def answer(
    response_format: Any, rules: Rules, relaxations: Relaxations, any_order: bool
) -> Expression | None:
    """The values that the format allows. None: any text."""
    found = _schema(response_format)
    if found is None:
        return None
    document = Document(found.schema, found.location, relaxations)
    values = Values(document, JsonText(rules, FORBIDDEN), rules, any_order)
    made = values.value((found,))
    if made == NEVER:
        raise refusal(found.location, "found a schema that no value fits")
    return made


def _schema(response_format: Any) -> Subschema | None:
    """The schema in OpenAI's `response_format`, or given as it is."""
    location: Location = ("response_format",)
    if response_format is None:
        return None
    if not isinstance(response_format, Mapping):
        raise refusal(location, f"found {shown(response_format)}, expected a JSON schema")
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return Subschema({"type": "object"}, location)
    if kind != "json_schema":
        return Subschema(response_format, location)
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, Mapping) else None
    location = (*location, "json_schema", "schema")
    if not isinstance(schema, Mapping):
        raise refusal(location, f"found {shown(schema)}, expected a JSON schema")
    return Subschema(schema, location)
