"""The namespaces of tools and calls (docs/format.md, section 13.3)."""

from __future__ import annotations

from dsv4.encoding.content import text_of
from dsv4.encoding.door import Message, holds, maybe_dict
from dsv4.errors import Location, refusal, shown
from dsv4.format.dialects import NAMESPACE_END


def qualified_function(tool: Message, function: Message, location: Location) -> Message:
    """A tool's function object as the model sees it: with the qualified name."""
    outside = tool.get("namespace") if function is not tool else None
    given = function.get("namespace") if outside is None else outside
    inside = place_of_function(tool, function, location)
    place = (*(inside if outside is None else location), "namespace")
    described = None if given is None or isinstance(given, str) else maybe_dict(given)
    namespace = given if described is None else described.get("name")
    if given is not None and not isinstance(namespace, str):
        raise refusal(place, f'found {shown(given)}, expected a name or {{"name", "description"}}')
    name = qualified_name(function["name"], namespace, (*inside, "name"))
    shown_function = {key: value for key, value in function.items() if key != "namespace"}
    shown_function["name"] = name
    description = described.get("description") if described else None
    if holds(description):
        shown_function["description"] = "\n".join(
            (
                text_of(description, (*place, "description")),
                text_of(function.get("description"), (*inside, "description")),
            )
        )
    return shown_function


def place_of_function(tool: Message, function: Message, location: Location) -> Location:
    """Where a tool's function object stands: it is the tool itself, where that is given bare."""
    return location if function is tool else (*location, "function")


def qualified_call_name(call: Message, function: Message, location: Location) -> str:
    """The name of a call as the model writes it."""
    name = function["name"]
    given, place = call.get("namespace"), (*location, "namespace")
    if not holds(given):
        given, place = function.get("namespace"), (*location, "function", "namespace")
    described = None if given is None or isinstance(given, str) else maybe_dict(given)
    if described is not None and NAMESPACE_END in name:
        raise refusal(place, f"found {shown(given)}, expected a name beside {shown(name)}")
    namespace = given if described is None else described.get("name")
    if given is not None and not isinstance(namespace, str):
        raise refusal(place, f"found {shown(given)}, expected a name")
    return qualified_name(name, namespace, (*location, "function", "name"))


def qualified_name(name: str, namespace: str | None, location: Location) -> str:
    """`NAMESPACE::NAME`, of a name that may be qualified already."""
    inside, separator, rest = str.__str__(name).partition(NAMESPACE_END)
    if not separator:
        inside, rest = namespace, inside  # type: ignore[assignment]
    elif namespace is not None and namespace != inside:
        problem = f"found {shown(name)} and the namespace {shown(namespace)}, expected one of them"
        raise refusal(location, problem)
    if inside is None:
        return rest
    if NAMESPACE_END in rest or NAMESPACE_END in inside:
        found = shown(f"{inside}{NAMESPACE_END}{rest}")
        raise refusal(location, f"found {found}, expected one {NAMESPACE_END} in a name")
    return f"{str.__str__(inside)}{NAMESPACE_END}{rest}"
