"""Where the client's own body has what a `Request` has elsewhere: for errors."""

from __future__ import annotations

from dsv4.api.request import ApiRequest
from dsv4.errors import Location, path_of

# A tool's schema, and the schema of an answer, as each protocol names them.
PARAMETERS = {"chat": "parameters", "responses": "parameters", "messages": "input_schema"}
FORMAT = {
    "chat": "response_format.json_schema.schema",
    "responses": "text.format.schema",
    "messages": "output_config.format.schema",
}
TOOLS, SCHEMA = ("tools",), ("response_format", "json_schema", "schema")


def client_path(call: ApiRequest, location: Location) -> str:
    """The path in the body of `call` of a location in its request."""
    if location[:1] == TOOLS and len(location) > 1:
        start, rest = _tool(call, location[1]), location[2:]
        if rest[:1] == ("parameters",):
            rest = (PARAMETERS[call.protocol], *rest[1:])
    elif location[:3] == SCHEMA:
        start, rest = FORMAT[call.protocol], location[3:]
    else:
        return path_of(location)
    return path_of((start, *rest))


def _tool(call: ApiRequest, index: str | int) -> str:
    """Where a tool is declared that may have had others before it, or another name."""
    shown = list(call.request.tools or ())
    return call.names[shown[int(index)]["name"]].path
