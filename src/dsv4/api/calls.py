"""Calls in the history of a request. History never fails: what can be read is written."""

from __future__ import annotations

import json
from typing import Any

from dsv4.api.bodies import clean, clean_value, without_surrogates
from dsv4.api.errors import wrong

# The one parameter of arguments that are no object.
RAW = "arguments"


def call(id: Any, name: str, arguments: Any, path: str, namespace: Any = None) -> dict[str, Any]:
    """A call as the format takes it. `path` is where the request has its id."""
    if id is not None and not isinstance(id, str):
        raise wrong(id, "the id of a call: text", path)
    id = None if id is None else clean(id)
    made = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    if namespace is not None:
        made["namespace"] = namespace
    return made


def arguments_of(value: Any, path: str) -> Any:
    """Arguments that the format can write: text of an object, or an object."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        if "\\ud" in value or "\\uD" in value:
            return _cleaned(value)
        return clean(value) if is_object_text(value) else {RAW: clean(value)}
    cleaned = clean_value(value, path)
    return cleaned if isinstance(cleaned, dict) else {RAW: cleaned}


def is_object_text(text: str) -> bool:
    """Whether a text is a JSON object, or broken JSON, which the format writes as it stands."""
    if text[:1] == "{":
        return True
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _cleaned(text: str) -> Any:
    """Arguments whose text escapes surrogates, which may be lone ones."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return clean(text)
    return without_surrogates(value) if isinstance(value, dict) else {RAW: clean(text)}
