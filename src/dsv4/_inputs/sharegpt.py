"""ShareGPT conversations (`from` and `value`), as many datasets have them.

They are read where they have exactly one meaning as a list of messages, and refused otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dsv4._inputs.input_files import InputError
from dsv4.errors import short_repr

_ROLE_OF_SPEAKER = {
    "system": "system",
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant"), "assistant"),
    "function_call": "assistant",
    **dict.fromkeys(("observation", "tool"), "tool"),
}


def is_sharegpt(body: Mapping[str, Any]) -> bool:
    """Whether an object is a conversation in this form."""
    turns = body.get("conversations")
    return isinstance(turns, list) and all(
        isinstance(turn, dict) and "from" in turn and "value" in turn for turn in turns
    )


def sharegpt_messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages. A system prompt beside the turns comes first."""
    system = body.get("system")
    messages = [{"role": "system", "content": system}] if system else []
    for n, turn in enumerate(body["conversations"]):
        messages.append(_message(turn, f"conversations[{n}]", messages))
    return messages


def sharegpt_tools(body: Mapping[str, Any]) -> Any:
    """The tools, which may be JSON text."""
    tools = body.get("tools")
    return _json(tools, "tools") if isinstance(tools, str) and tools.strip() else tools or None


def _message(turn: Mapping[str, Any], path: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    speaker, value = turn["from"], turn["value"]
    role = _ROLE_OF_SPEAKER.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        expected = ", ".join(_ROLE_OF_SPEAKER)
        raise InputError(f"{path}.from: found {short_repr(speaker)}, expected one of {expected}")
    message: dict[str, Any] = {"role": role, "content": value}
    if "weight" in turn:
        message["weight"] = turn["weight"]
    if speaker == "function_call":
        return message | {"content": None, "tool_calls": _calls(value, path, len(before))}
    return message | {"tool_call_id": _open_id(before, path)} if role == "tool" else message


def _calls(value: object, path: str, index: int) -> list[dict[str, Any]]:
    """Calls as JSON: one object with name and arguments, or a list of these."""
    given = _json(value, f"{path}.value") if isinstance(value, str) else value
    calls: list[Any] = given if isinstance(given, list) else [given]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        expected = "calls as JSON, each with name and arguments"
        raise InputError(f"{path}.value: found {short_repr(value)}, expected {expected}")
    return [
        {
            "id": f"call_{index}_{n}",
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("arguments", {})},
        }
        for n, call in enumerate(calls)
    ]


def _open_id(before: list[dict[str, Any]], path: str) -> str:
    """The id of the call that a result answers: the first that has none yet."""
    for answered, message in enumerate(reversed(before)):
        if message["role"] != "tool":
            calls = message.get("tool_calls") or ()
            if answered < len(calls):
                return str(calls[answered]["id"])
            break
    raise InputError(f"{path}: found a result, expected a call before it that it answers")


def _json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: found {short_repr(text)}, expected JSON") from None
