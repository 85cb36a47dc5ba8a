"""A request's body: bytes of JSON, or what they say, as a dict of plain values."""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dsv4.api.errors import ApiError, wrong

# Half of a pair, as UTF-8 would write it if it could.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Deeper than any schema or argument that means something, and shallower than Python's own limits.
DEEPEST = 250


def quick_reader() -> Callable[[bytes], Any] | None:
    """The reader of the extra `fast`, where that is installed.

    It takes half as long as Python's own. Where it reads a body it gives the same, big integers,
    floats and the order of keys included; where it does not, it raises a ValueError.
    """
    try:
        reader: Callable[[bytes], Any] = import_module("jiter").from_json
    except ImportError:
        return None
    return reader


_jiter = quick_reader()
_decoder = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]


def body_of(body: Any, loads: Callable[[bytes], Any] | None = None) -> dict[str, Any]:
    """The body as a dict."""
    if isinstance(body, dict):
        return body
    value = _read(body if body.__class__ is bytes else _bytes_of(body), loads)
    if not isinstance(value, dict):
        raise wrong(value, "a JSON object", "")
    return value


def _bytes_of(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise wrong(body, "a request: an object, or bytes of JSON", "")
    return bytes(body)


def _read(data: bytes, loads: Callable[[bytes], Any] | None) -> Any:
    quick = _jiter if loads is None else loads
    if quick is not None and quick is not json.loads:
        try:
            return quick(data)
        except (ValueError, RecursionError):
            pass  # what is wrong, and whether anything is, Python's own reader says
    try:
        return _read_text(data.decode())
    except UnicodeDecodeError as error:
        raise ApiError(f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
    except ValueError as error:
        raise ApiError(f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise ApiError("The body is nested too deep.") from None


_BOM = "\ufeff"


def _read_text(text: str) -> Any:
    """What `json.loads` gives, which spends much of its time looking for space around."""
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except StopIteration:  # no value begins here
        pass
    return _decoder.decode(text.removeprefix(_BOM))


# A character outside the first 65,536 is written as two surrogates in JSON. Half of one, left by a
# client that cut its text there, is no character: no tokenizer and no UTF-8 takes it. Every text of
# a request goes through `clean`, and every value that is written as JSON through `clean_value`.


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


def clean_value(value: Any, path: str) -> Any:
    """A caller's value, made of what JSON has, with clean texts."""
    if not is_json(value):
        raise wrong(value, "what JSON has, and not nested too deep", path)
    # Marshal writes text as UTF-8 with surrogates let through. A look at its bytes takes much less
    # time than a walk, and what looks like a surrogate and is none does no harm.
    dumped = marshal.dumps(value)
    found = b"\xed" in dumped and _ENCODED_SURROGATE.search(dumped) is not None
    return without_surrogates(value) if found else value


def without_surrogates(value: Any) -> Any:
    """A copy of a value with clean texts."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def is_json(value: Any, depth: int = DEEPEST) -> bool:
    """Whether a value is made of what JSON has, and not nested too deep."""
    kind = value.__class__
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return True
    if not depth:
        return False
    if kind is dict:
        return all(k.__class__ is str and is_json(v, depth - 1) for k, v in value.items())
    return kind is list and all(is_json(item, depth - 1) for item in value)
