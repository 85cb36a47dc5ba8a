"""The native API's front door: a request's own options, put where the format wants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dsv4.encoding.conventions import NATIVE
from dsv4.encoding.conversation import render_conversation
from dsv4.encoding.json_text import json_at
from dsv4.encoding.prompt import Prompt
from dsv4.encoding.tools import schemas_text
from dsv4.encoding.turns import as_dict
from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import Dialect, dialect_named


def encode(
    messages: Iterable[Any],
    tools: Iterable[Any] | None = None,
    response_format: dict[str, Any] | None = None,
    thinking: bool = True,
    effort: str | int | None = None,
    drop_thinking: bool = True,
    bos: bool = True,
    context: Iterable[Any] = (),
    dialect: str | Dialect = "v4",
) -> Prompt:
    """The exact prompt of a conversation.

    `messages` are OpenAI-style dicts, or objects with a `to_dict()` that gives one. `context` is
    what the prompt already holds: only what follows it is written. `tools` and `response_format`
    go on the first system message.
    """
    if not thinking.__class__ is drop_thinking.__class__ is bos.__class__ is bool:
        raise _no_flag(thinking=thinking, drop_thinking=drop_thinking, bos=bos)
    new, before = _listed(messages, "messages"), _listed(context, "context")
    if not new:
        raise EncodeError("messages", "found none, expected at least one message")
    dialect = dialect_named(dialect)
    first_index = 0
    if tools is not None or response_format is not None:
        extras = _extras(tools, response_format)
        if extras:
            new, before, first_index = _with_extras(new, before, extras)
    done = render_conversation(
        new, before, dialect, NATIVE, thinking, drop_thinking, bos, effort, first_index
    )
    return Prompt(done.flat, done.first_index, done.images, dialect)


def _no_flag(**flags: Any) -> EncodeError:
    name, found = next((n, shown(f)) for n, f in flags.items() if f.__class__ is not bool)
    return EncodeError(name, f"found {found}, expected True or False")


def _listed(messages: Any, name: str) -> Sequence[Any]:
    if messages.__class__ is list or messages.__class__ is tuple:
        return messages
    if messages is None and name == "context":
        return []
    if isinstance(messages, (str, bytes, dict)) or not isinstance(messages, Iterable):
        raise EncodeError(name, f"found {shown(messages)}, expected a list of messages")
    return list(messages)


def _extras(tools: Any, response_format: Any) -> dict[str, Any]:
    """What the request adds to the system message, by field."""
    extras: dict[str, Any] = {}
    if isinstance(tools, (str, bytes, dict)) or not isinstance(tools, (Iterable, type(None))):
        raise EncodeError("tools", f"found {shown(tools)}, expected a list of tools")
    listed = list(tools or ())
    if listed:
        schemas_text(listed, NATIVE.named_tools, "tools")  # errors under the caller's name
        extras["tools"] = listed
    schema = _schema(response_format)
    if schema:
        json_at(schema, "response_format")
        extras["response_format"] = schema
    return extras


def _schema(response_format: Any) -> Any:
    """The JSON schema in OpenAI's `response_format`, or given as it is."""
    if response_format is None:
        return None
    if not isinstance(response_format, dict):
        found = shown(response_format)
        raise EncodeError("response_format", f"found {found}, expected a JSON schema")
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        return response_format
    wrapper = response_format.get("json_schema")
    schema = wrapper.get("schema") if isinstance(wrapper, dict) else None
    if not isinstance(schema, dict):
        path = "response_format.json_schema.schema"
        raise EncodeError(path, f"found {shown(schema)}, expected a JSON schema")
    return schema


def _with_extras(
    messages: Sequence[Any], context: Sequence[Any], extras: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any], int]:
    """The lists with the extras on the first system message, and the index of the first message:
    -1 where a system message had to be put in front of the caller's."""
    for name, listed in (("context", context), ("messages", messages)):
        for index, message in enumerate(listed):
            fields = as_dict(message, f"{name}[{index}]")
            if fields.get("role") != "system":
                continue
            for field in extras:
                if fields.get(field):
                    problem = f"found {field} here and on the request, expected one of them"
                    raise EncodeError(f"{name}[{index}].{field}", problem)
            changed = [*listed[:index], {**fields, **extras}, *listed[index + 1 :]]
            return (messages, changed, 0) if name == "context" else (changed, context, 0)
    if context:
        problem = f"found no system message to carry {' and '.join(extras)}, expected one"
        raise EncodeError("context", problem)
    return [{"role": "system", **extras}, *messages], context, -1
