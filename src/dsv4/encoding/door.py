"""What callers give -> plain dicts and lists.

Most give dicts and lists, and those are taken as they are: nothing is copied. Others give objects
that can turn themselves into one: messages of the `openai` package and other pydantic models, rows
of pandas, arrays of numpy, mappings of any kind. Each is turned once, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dsv4.encoding.sampled import Sampled
from dsv4.errors import EncodeError, Location, OptionError, refusal, shown
from dsv4.format.dialects import ROLES

Message: TypeAlias = dict[str, Any]

_DICT = frozenset({dict})
# By the first of these an object turns itself into a dict: `openai`, pandas; pydantic.
_METHODS = ("to_dict", "model_dump")


class SampledMessage(dict[str, Any]):
    """A message's fields, with the turn as the model wrote it."""

    sampled: Sampled


def maybe_dict(value: Any) -> dict[str, Any] | None:
    """The value as a dict, None if it is none and cannot turn itself into one."""
    if value.__class__ is dict:
        return value
    if isinstance(value, type):
        return None
    # Whatever goes wrong here is the object's own fault: then it is no dict.
    try:
        if isinstance(value, Mapping):
            return dict(value)
    except Exception:
        return None
    for name in _METHODS:
        try:
            made = getattr(value, name)()
        except Exception:
            continue
        if isinstance(made, dict):
            return dict(made)
    return None


def maybe_list(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """The value as a list, None if it is none: a text and a mapping are not."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping, type)):
        return None
    try:
        made = list(value) if isinstance(value, Sequence) else value.tolist()
    except Exception:
        return None
    return made if isinstance(made, list) else None


def type_of(value: Any) -> str:
    """The `type` of a block, a choice or a format: empty if it has none, or one that is no text."""
    kind = (maybe_dict(value) or {}).get("type")
    return kind if isinstance(kind, str) else ""


def holds(value: Any) -> bool:
    """Whether there is something in a value: an array does not say so by itself."""
    try:
        return bool(value)
    except Exception:
        return True


def any_list(value: Any, location: Location, expected: str) -> Sequence[Any]:
    """A caller's list, of which any iterable will do."""
    if value.__class__ is list or value.__class__ is tuple:
        return value
    if not isinstance(value, (str, bytes, bytearray, Mapping)) and isinstance(value, Iterable):
        try:
            return list(value)
        except TypeError:  # an array without a dimension
            pass
    raise refusal(location, f"found {shown(value)}, expected {expected}")


def as_messages(messages: Sequence[Any], name: str) -> Sequence[Message]:
    """The messages as dicts. `name` is what the caller calls the list."""
    if _DICT.issuperset(map(type, messages)):
        return messages
    return [as_message(message, (name, n)) for n, message in enumerate(messages)]


def check_roles(messages: Sequence[Message], name: str, known_only: bool) -> None:
    """Raises where a message has no role, or with `known_only` one that no release has."""
    for n, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or (known_only and role not in ROLES):
            raise unknown_role(role, (name, n, "role"))


def as_message(message: Any, location: Location) -> Message:
    """One message as a dict."""
    if message.__class__ is Sampled:
        return _sampled(message, location)
    made = message if message.__class__ is SampledMessage else maybe_dict(message)
    if made is None:
        problem = f'found {shown(message)}, expected a message: a dict with a "role"'
        raise EncodeError(location, problem)
    return made


def fields_of(message: Any) -> Message:
    """The fields of a message, in whatever form it was given; none of what is no message."""
    return maybe_dict(message.message if message.__class__ is Sampled else message) or {}


def _sampled(sampled: Sampled, location: Location) -> SampledMessage:
    message = SampledMessage(as_message(sampled.message, location))
    if message.get("role") != "assistant":
        found = shown(message.get("role"))
        problem = f'found {found}, expected "assistant" for what was sampled'
        raise EncodeError((*location, "role"), problem)
    message.sampled = sampled
    return message


def unknown_role(
    role: Any, location: Location, roles: tuple[str, ...] = ROLES
) -> OptionError | EncodeError:
    return refusal(location, f"found {shown(role)}, expected one of {', '.join(roles)}")
