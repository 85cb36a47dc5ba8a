"""Random schemas of tools, calls that fit them, and calls with the slips that models make."""

from __future__ import annotations

import json
from random import Random
from typing import Any

Schema = dict[str, Any]
NAMES = ("path", "file_path", "maxResults", "query", "Input", "line-number", "options", "tags")
TEXTS = ("", "a", "5", "true", "null", "None", "[1]", '{"a": 1}', "x y", "é \u2028", "True", "-1")
NUMBERS = (0, 1, -5, 0.5, -0.0, 1e21, 12345678901234567890, 2.0)


def random_schema(random: Random) -> Schema:
    """The schema of a tool, with references where it has definitions."""
    schema = _object(random, 0)
    if random.random() < 0.3:
        schema["$defs"] = {"part": _object(random, 2)}
        schema["properties"]["part"] = {"$ref": "#/$defs/part"}
    return schema


def _object(random: Random, depth: int) -> Schema:
    names = random.sample(NAMES, random.randint(0, 4))
    schema: Schema = {"type": "object", "properties": {n: _value(random, depth) for n in names}}
    if random.random() < 0.7:
        schema["required"] = [name for name in names if random.random() < 0.5]
    if random.random() < 0.6:
        schema["additionalProperties"] = random.choice([False, False, True, {"type": "integer"}])
    return schema


def _value(random: Random, depth: int) -> Schema:
    kinds = ["string", "integer", "number", "boolean", "enum", "null", "any", "two"]
    kinds += ["array", "object", "anyOf", "string", "integer"] if depth < 3 else []
    kind = random.choice(kinds)
    if kind == "enum":
        return {"enum": random.sample([*TEXTS, 1, 2, True, None], 3)}
    if kind == "any":
        return {}
    if kind == "two":
        return {"type": random.sample(["string", "integer", "null", "boolean"], 2)}
    if kind == "array":
        return {"type": "array", "items": _value(random, depth + 1)}
    if kind == "object":
        return _object(random, depth + 1)
    if kind == "anyOf":
        return {"anyOf": [_value(random, depth + 1), {"type": "null"}]}
    return {"type": kind}


def random_call(random: Random, schema: Schema) -> dict[str, Any]:
    """A call that fits a schema."""
    call: dict[str, Any] = _fitting(random, schema, schema)
    return call


def _fitting(random: Random, schema: Schema, root: Schema) -> Any:
    if "$ref" in schema:
        return _fitting(random, root["$defs"]["part"], root)
    if "anyOf" in schema:
        return _fitting(random, random.choice(schema["anyOf"]), root)
    if "enum" in schema:
        return random.choice(schema["enum"])
    kind = schema.get("type", random.choice(["string", "integer", "null"]))
    kind = random.choice(kind) if isinstance(kind, list) else kind
    if kind == "array":
        return [_fitting(random, schema["items"], root) for _ in range(random.randint(0, 3))]
    if kind == "object":
        return _members(random, schema, root)
    integers = [n for n in NUMBERS if isinstance(n, int) or n == 2.0]
    return {
        "string": random.choice(TEXTS),
        "integer": random.choice(integers),
        "number": random.choice(NUMBERS),
        "boolean": random.random() < 0.5,
        "null": None,
    }[kind]


def _members(random: Random, schema: Schema, root: Schema) -> dict[str, Any]:
    required = schema.get("required", ())
    members = {
        name: _fitting(random, of, root)
        for name, of in schema["properties"].items()
        if name in required or random.random() < 0.6
    }
    more = schema.get("additionalProperties", True)
    if more is not False and random.random() < 0.3:
        members[random.choice(["arguments", "FILE_PATH", "x"])] = 7
    return members


def slipped(random: Random, call: dict[str, Any]) -> dict[str, Any]:
    """A call as a model may write it: one of its values in another form, a key in another spelling,
    or all of it in a wrapper."""
    if not call or random.random() < 0.1:
        return {random.choice(["arguments", "input", "parameters"]): call}
    slips = dict(call)
    key = random.choice(list(call))
    value = slips.pop(key)
    as_text = value if isinstance(value, str) else json.dumps(value)
    forms = [(key, as_text), (key, str(value)), (key, None), (key, "null")]
    forms += [(key.upper(), value), (key.replace("_", "-"), value)]
    forms += [(key, value[0])] if isinstance(value, list) and len(value) == 1 else []
    forms += [(key, json.loads(value))] if isinstance(value, str) and value in ("5", "-1") else []
    name, new = random.choice(forms)
    return {**slips, name: new}
