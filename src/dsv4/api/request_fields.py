"""The JSON body of a request, and the checks of its fields: each returns the value in its right
form, or raises an error that names the problem and its place.

Null means absent everywhere, so a check never sees it.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from math import isfinite
from typing import Any, TypeAlias, TypeGuard, TypeVar

from dsv4._encode.tools import read_json
from dsv4.api.errors import ApiError, wrong
from dsv4.errors import mismatch

JsonObject: TypeAlias = dict[str, Any]
# A request body: bytes or text of JSON, or the object that they spell.
Body: TypeAlias = JsonObject | bytes | bytearray | memoryview | str
T = TypeVar("T")
Name = TypeVar("Name", bound=str)

# The body.


# Half of a surrogate pair, as UTF-8 would encode it if it could.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Deeper than any sensible schema or argument, and shallower than Python's own limits.
MAX_DEPTH = 250


def fast_json_reader() -> Callable[[bytes], Any] | None:
    """The JSON reader of the extra `fast`, None if that is not installed.

    It takes half as long as Python's own. If it can read a body it gives the same value, including
    big integers, floats and the order of keys; if it cannot, it raises a ValueError.
    """
    try:
        reader: Callable[[bytes], Any] = import_module("jiter").from_json
    except ImportError:
        return None
    return reader


_jiter = fast_json_reader()


def json_body(body: Body) -> JsonObject:
    """The body as a dict."""
    value = json_value(body)
    if not isinstance(value, dict):
        raise wrong(value, "a JSON object", "")
    return value


def json_value(body: object) -> Any:
    """The value that bytes or text of JSON spell. A dict or a list is returned unchanged."""
    if isinstance(body, (dict, list)):
        return body
    return parse_json(body if type(body) is bytes else _bytes_of(body))


def _bytes_of(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise wrong(body, "a request: an object, or bytes of JSON", "")
    return bytes(body)


def parse_json(data: bytes, quick: Callable[[bytes], Any] | None = _jiter) -> Any:
    """The value that JSON spells, by a quick reader where there is one."""
    if quick is not None:
        try:
            return quick(data)
        except (ValueError, RecursionError):
            pass  # Python's own reader decides whether anything is wrong, and names it
    try:
        return read_json(data.decode().removeprefix(_BOM))
    except UnicodeDecodeError as error:
        raise ApiError(f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
    except ValueError as error:
        raise ApiError(f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise ApiError("The body is nested too deep.") from None


_BOM = "\ufeff"


# JSON can write a character outside the first 65,536 as two surrogates. A client that cuts its text
# between them leaves a lone one, which is not a character: neither tokenizers nor UTF-8 accept it.
# Every text of a request goes through `clean`, and every value that is written as JSON through
# `clean_value`.


def maybe_json(text: str) -> Any:
    """The value of a JSON text; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def clean(text: str) -> str:
    """A caller's text, exactly a `str`, with U+FFFD in the place of every lone surrogate."""
    return str.__str__(text) if is_clean(text) else _SURROGATE.sub("\ufffd", text)


def is_clean(text: str) -> bool:
    """Whether a text holds no surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Raises a ValueError for a value that it cannot write.
marshalled: Callable[[object], bytes] = marshal.dumps  # type: ignore[assignment]


def clean_value(value: T, path: str) -> T:
    """A caller's value, made of JSON types only, with clean texts."""
    if not is_json(value):
        raise wrong(value, "what JSON has, and not nested too deep", path)
    # Marshal writes text as UTF-8 and lets surrogates through. A search in its bytes takes much
    # less time than a walk, and a false match does no harm.
    dumped = marshalled(value)
    is_split = b"\xed" in dumped and _ENCODED_SURROGATE.search(dumped) is not None
    cleaned: T = without_surrogates(value) if is_split else value
    return cleaned


def without_surrogates(value: object) -> Any:
    """A copy of a value with clean texts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def is_json(value: object, depth: int = MAX_DEPTH) -> bool:
    """Whether a value is made of JSON types only, and not nested too deep."""
    kind = value.__class__
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return True
    if not depth:
        return False
    if type(value) is dict:
        return all(k.__class__ is str and is_json(v, depth - 1) for k, v in value.items())
    return type(value) is list and all(is_json(item, depth - 1) for item in value)


# Checks of fields.


# A value as the client sent it, and its path -> the value in its right form.
Check: TypeAlias = Callable[[object, str], object]


def checked_fields(
    fields: Mapping[str, Any], checks: Mapping[str, Check], path: str = ""
) -> dict[str, Any]:
    """The checked values of the fields that `checks` knows, without nulls."""
    checked = {}
    for key, value in fields.items():
        if value is not None and key in checks:
            checked[key] = checks[key](value, f"{path}.{key}" if path else key)
    return checked


def fields_check(checks: Mapping[str, Check]) -> Callable[[object, str], dict[str, Any]]:
    """The check of an object whose fields are checked."""
    return lambda value, path: checked_fields(json_object(value, path), checks, path)


def shared_fields(
    body: Mapping[str, Any], reads: Mapping[str, tuple[str, Check]]
) -> dict[str, Any]:
    """The values of a body, by the names that all protocols share. `reads` has, for each field that
    is read, that name and the check of its value."""
    fields = {}
    for key, value in body.items():
        if value is not None and key in reads:
            name, check = reads[key]
            fields[name] = check(value, key)
    return fields


def text(value: object, path: str) -> str:
    if isinstance(value, str):
        return clean(value)
    raise wrong(value, "text", path)


def boolean(value: object, path: str) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong(value, "true or false", path)


def json_object(value: object, path: str) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise wrong(value, "an object", path)


def json_list(value: object, path: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, tuple):
        return list(value)
    raise wrong(value, "a list", path)


def objects_at(value: object, path: str) -> Iterator[tuple[JsonObject, str]]:
    """Each object of a list, and its path."""
    for n, item in enumerate(json_list(value, path)):
        where = f"{path}[{n}]"
        yield json_object(item, where), where


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    return is_integer(value) or (isinstance(value, float) and isfinite(value))


def whole_number(least: int, most: int | None = None) -> Callable[[object, str], int]:
    def check(value: object, path: str) -> int:
        if is_integer(value) and value >= least and (most is None or value <= most):
            return int(value)
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise wrong(value, f"a whole number {limits}", path)

    return check


def number(least: float, most: float | None = None) -> Callable[[object, str], float]:
    def check(value: object, path: str) -> float:
        if is_number(value) and value >= least and (most is None or value <= most):
            return float(value) if isinstance(value, float) else int(value)
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise wrong(value, f"a number {limits}", path)

    return check


def logit_bias(value: object, path: str) -> tuple[tuple[int, float], ...]:
    """Pairs of a token id and the number to be added to its logit."""
    added = number(-100, 100)
    bias = []
    for id, logit in json_object(value, path).items():
        if not (id.isascii() and id.isdecimal()):
            raise wrong(id, "the id of a token", path)
        bias.append((int(id), added(logit, f"{path}.{id}")))
    return tuple(bias)


def one_of(*names: Name) -> Callable[[object, str], Name]:
    def check(value: object, path: str) -> Name:
        for name in names:
            if isinstance(value, str) and value == name:
                return name
        raise wrong(value, "one of " + ", ".join(f'"{name}"' for name in names), path)

    return check


def texts(value: object, path: str) -> tuple[str, ...]:
    """One text, or a list of them. None may be empty."""
    if isinstance(value, str):
        listed = [value]
    elif isinstance(value, (list, tuple)):
        listed = list(value)
    else:
        raise wrong(value, "text, or a list of texts", path)
    for n, item in enumerate(listed):
        if not isinstance(item, str) or not item:
            where = path if isinstance(value, str) else f"{path}[{n}]"
            raise wrong(item, "text that is not empty", where)
    return tuple(map(clean, listed))


def name_at(fields: Mapping[str, Any], path: str, key: str = "name") -> str:
    """The name in a required field."""
    value = fields.get(key)
    if isinstance(value, str) and value:
        return clean(value)
    raise wrong(value, "a name", f"{path}.{key}")


def maybe_text_at(fields: Mapping[str, Any], key: str, path: str) -> str | None:
    """The text in an optional field, None if it is missing."""
    value = fields.get(key)
    return value if value is None else text(value, f"{path}.{key}")


def type_at(fields: JsonObject, path: str) -> str:
    """The `type` of a block, part or item."""
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise wrong(kind, 'a type, such as "text"', f"{path}.type")
    return clean(kind)


# Whether a model thinks, and how hard.


# The names of efforts that clients send -> the format's own three. "none" turns thinking off.
EFFORTS = {
    **{"minimal": "low", "low": "low"},
    **{"medium": "high", "high": "high", "xhigh": "high"},
    **{"max": "max", "ultra": "max"},
}
OFF = "none"

SWITCHES = {"enabled": True, "adaptive": True, "disabled": False}


def effort(value: object, path: str) -> str | int:
    """The effort in a field: a name, or a whole number."""
    if isinstance(value, str) and (value in EFFORTS or value == OFF):
        return str.__str__(value)
    if is_integer(value):
        return value
    names = ", ".join(f'"{name}"' for name in (OFF, *EFFORTS))
    raise wrong(value, f"one of {names}, or a whole number", path)


def thinking_switch(value: object, path: str) -> bool | None:
    """The `thinking` object of a request as a bool, None if it leaves thinking open. True and False
    are dsv4's own form of the object."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise wrong(value, 'an object such as {"type": "enabled"}', path)
    kind = value.get("type")
    if kind is None:
        return None
    if not isinstance(kind, str) or kind not in SWITCHES:
        names = ", ".join(f'"{name}"' for name in SWITCHES)
        raise wrong(kind, f"one of {names}", f"{path}.type")
    return SWITCHES[kind]


# dsv4's own options, which every protocol takes. The protocol's own effort takes precedence.
OWN_OPTIONS: dict[str, tuple[str, Check]] = {
    "effort": ("own_effort", effort),
    "thinking": ("thinking", thinking_switch),
    "drop_thinking": ("drop_thinking", boolean),
}


def combine_efforts(fields: JsonObject, path: str) -> None:
    """Combines dsv4's and the protocol's effort into one, with its path. `path` is the protocol's
    place for it."""
    own = fields.pop("own_effort", None)
    is_own = own is not None and fields.get("effort") is None
    fields["effort_path"] = "effort" if is_own else path
    if is_own:
        fields["effort"] = own


# Fields that would change the prompt but are not supported. A request that has one is refused,
# because otherwise the client would take the answer for one that respects the field.


FieldCheck: TypeAlias = Callable[[object, str], None]

# The details that tell the SDK to send the whole conversation itself.
THREAD_UNSUPPORTED = {"error_code": "thread_unsupported_request"}


def _refused(expected: str, details: Mapping[str, Any] | None = None) -> FieldCheck:
    """A check that refuses a field, whatever its value."""

    def check(value: object, path: str) -> None:
        raise ApiError(mismatch(value, expected), path=path, details=details)

    return check


def _refused_but(harmless: tuple[object, ...], expected: str) -> FieldCheck:
    """A check that refuses any value of a field but the `harmless` ones, which ask for nothing."""
    refused = _refused(expected)

    def check(value: object, path: str) -> None:
        if value not in harmless:
            refused(value, path)

    return check


def _no_skills(value: object, path: str) -> None:
    """Refuses a container with skills, which would be shown to the model. A container without them
    is only for tools that run elsewhere."""
    if isinstance(value, dict) and value.get("skills"):
        raise ApiError("found skills, expected none: they cannot be loaded here", path=path)


_WHOLE = "the whole conversation: no threads are kept here"
_OWN_TEMPLATE = "no template: the prompt is written in the format of the model"
_PREFIX = 'an assistant message with "prefix": true at the end'

UNSUPPORTED_FIELDS: dict[str, dict[str, FieldCheck]] = {
    "chat": {
        "web_search_options": _refused("none: this server cannot search the web"),
        # Fields of servers that render templates.
        "documents": _refused_but(([], ()), "the documents in messages"),
        "chat_template": _refused(_OWN_TEMPLATE),
        "continue_final_message": _refused_but((False,), _PREFIX),
        "add_generation_prompt": _refused_but((True,), "true: a prompt asks for an answer"),
    },
    "messages": {
        "thread": _refused(_WHOLE, THREAD_UNSUPPORTED),
        "compaction": _refused("none: conversations are not compacted here"),
        "mcp_servers": _refused_but(([], ()), "none: tools of MCP servers are not run here"),
        "container": _no_skills,
    },
}


def unsupported_fields(protocol: str) -> dict[str, tuple[str, Check]]:
    """The checks of a protocol's unsupported fields, all under one shared name: a value that passes
    the check asks for nothing, and is not read again."""
    return {name: ("unsupported", check) for name, check in UNSUPPORTED_FIELDS[protocol].items()}


# The format decides which old reasoning is shown.
REASONING_CONTEXT = _refused_but(("auto",), '"auto": the format decides which reasoning is kept')
