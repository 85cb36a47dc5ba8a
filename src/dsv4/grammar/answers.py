"""What stands in place of free content: the JSON that a request's response format asks for."""

from __future__ import annotations

from typing import Any

from dsv4._encode.encode import maybe_response_schema
from dsv4.errors import refusal
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
    found = maybe_response_schema(response_format)
    if found is None:
        return None
    schema, location = found
    document = Document(schema, location, relaxations)
    values = Values(document, JsonText(rules, FORBIDDEN), rules, any_order)
    made = values.value((Subschema(schema, location),))
    if made == NEVER:
        raise refusal(location, "found a schema that no value fits")
    return made
