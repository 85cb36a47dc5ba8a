"""JSON as the format writes it (format.md, section 2)."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from math import isfinite
from typing import Any

from dsv4.errors import EncodeError, shown

# One encoder for all: `json.dumps` with options makes a new one at each call.
_encoder = json.JSONEncoder(ensure_ascii=False)


def _quick(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """What `encoder.encode` does, without its preparations, which take longer than a short list.

    They are the making of an engine in C, and here one serves for all. It must not look for circles
    then, or threads that write the same value would take each other for one.
    """
    try:
        chunks = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            *(None, encoder.default, json.encoder.encode_basestring, None),
            *(encoder.key_separator, encoder.item_separator, False, False, True),
        )
        chunks([], 0)
    except (AttributeError, TypeError):  # not this Python's way
        return encoder.encode

    def encode(value: Any) -> str:
        try:
            return "".join(chunks(value, 0))
        except RecursionError:
            return encoder.encode(value)  # which tells a circle from mere depth

    return encode


to_json = _quick(_encoder)


def _number(value: float) -> str:
    return float.__repr__(value) if isfinite(value) else to_json(value)


# What `to_json` gives for values of exactly these types, and what it fails with.
QUICKER: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    float: _number,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
FAILURES = (TypeError, ValueError, RecursionError)


def json_at(value: Any, path: str) -> str:
    """A caller's value as JSON, or an error that says where it stands."""
    try:
        return to_json(value)
    except FAILURES as error:
        raise not_json(value, path, error) from None


def not_json(value: Any, path: str, error: Exception) -> EncodeError:
    return EncodeError(path, f"{shown(value)} cannot be written as JSON: {error}")
