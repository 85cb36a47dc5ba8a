"""What a response repeats of its request."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from dsv4.api.asked import AUTO, NO_TOOLS, Choice, Declared, Format, Tool
from dsv4.api.remembering import ENTRIES

# As the vendor's types have them. Any other value is not repeated.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SYNTAXES = ("lark", "regex")


def echo_of(body: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The fields of a response that come from the request, each valid or null.

    `known` are the fields that were read, `body` has those that were not.
    """
    effort = known.get("reasoning", {}).get("effort")
    return {
        "instructions": known.get("instructions") or None,
        "max_output_tokens": known.get("max_output_tokens"),
        "metadata": _metadata(body.get("metadata")),
        "parallel_tool_calls": known.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": effort if effort in EFFORTS else None, "summary": None},
        "store": False,
        "temperature": known.get("temperature"),
        "text": {"format": format_of(known.get("text", {}).get("format"))},
        "tool_choice": choice_of(known.get("tool_choice", AUTO)),
        "tools": tools_of(known.get("tools", NO_TOOLS)),
        "top_p": known.get("top_p"),
        "truncation": "disabled",
        "user": known.get("user"),
    }


def _metadata(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    plain = all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
    return value if plain else None


def format_of(form: Format | None) -> dict[str, Any]:
    if form is None:
        return {"type": "text"}
    if form.schema is None:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": form.name or "response",
        "schema": form.schema,
        "strict": form.strict,
    }


def choice_of(choice: Choice) -> Any:
    if choice.allowed is not None:
        listed = [{"type": "function", "name": name} for _, name in sorted(choice.allowed, key=str)]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": listed}
    if choice.tool is not None:
        return {"type": "function", "name": choice.tool[1]}
    return choice.mode


@lru_cache(ENTRIES)
def tools_of(declared: Declared) -> list[dict[str, Any]]:
    """The tools again. Those of a namespace stand in it."""
    echoed: list[dict[str, Any]] = []
    spaces: dict[str, dict[str, Any]] = {}
    for tool in declared.tools:
        if tool.namespace is None:
            echoed.append(_tool(tool))
            continue
        if tool.namespace not in spaces:
            spaces[tool.namespace] = _namespace(tool)
            echoed.append(spaces[tool.namespace])
        spaces[tool.namespace]["tools"].append(_tool(tool))
    return echoed


def _namespace(tool: Tool) -> dict[str, Any]:
    description = tool.namespace_description or ""
    return {
        "type": "namespace",
        "name": tool.namespace,
        "description": description,
        "tools": [],
    }


def _tool(tool: Tool) -> dict[str, Any]:
    echoed: dict[str, Any] = {"type": tool.kind, "name": tool.name}
    if tool.description is not None:
        echoed["description"] = tool.description
    if tool.kind == "custom":
        if _is_valid(tool.format):
            echoed["format"] = tool.format
        return echoed
    return {**echoed, "parameters": tool.parameters, "strict": tool.strict}


def _is_valid(form: dict[str, Any] | None) -> bool:
    if form is None:
        return False
    grammar = form.get("syntax") in SYNTAXES and isinstance(form.get("definition"), str)
    return form.get("type") == "text" or (form.get("type") == "grammar" and grammar)
