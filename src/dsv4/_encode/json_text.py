"""JSON as the format writes it (docs/format.md, section 2)."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from dsv4._encode.inputs import maybe_dict, maybe_list
from dsv4.errors import EncodeError, Location, OptionError, refusal, short_repr


def _jsonable(value: object) -> object:
    """What JSON has for a value of another type: objects, arrays, and single numbers of numpy."""
    for made in (maybe_dict(value), maybe_list(value), _maybe_scalar(value)):
        if made is not None:
            return made
    raise TypeError(f"a value of type {type(value).__name__} has no place in JSON")


@runtime_checkable
class _ArrayScalar(Protocol):
    """A single number of NumPy, or of a library like it."""

    @property
    def dtype(self) -> object: ...

    def item(self) -> object: ...


def _maybe_scalar(value: object) -> int | float | str | None:
    try:
        made = value.item() if isinstance(value, _ArrayScalar) else None
    except Exception:  # the object's own fault
        return None
    return made if isinstance(made, (int, float, str)) else None


# One encoder for all: `json.dumps` with options makes a new one at each call.
_encoder = json.JSONEncoder(ensure_ascii=False, default=_jsonable)


def _fast_encode(encoder: json.JSONEncoder) -> Callable[[object], str]:
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

    def encode(value: object) -> str:
        try:
            return "".join(chunks(value, 0))
        except RecursionError:
            return encoder.encode(value)  # which tells a circle from mere depth

    return encode


to_json = _fast_encode(_encoder)


# As JSON encoders of Python spell what is no number of JSON's.
_NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _number(value: float) -> str:
    text = float.__repr__(value)
    return _NOT_FINITE.get(text, text)


# What `to_json` gives for values of exactly these types, and what it fails with.
FAST_WRITERS: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    float: _number,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
JSON_ERRORS = (TypeError, ValueError, RecursionError)


def json_at(value: object, location: Location) -> str:
    """A caller's value as JSON, or an error that says where it stands."""
    try:
        return to_json(value)
    except JSON_ERRORS as error:
        raise not_json(value, location, error) from None


def not_json(value: object, location: Location, error: Exception) -> OptionError | EncodeError:
    """The error for a value that is not JSON, with the place in it that is to blame."""
    for step, part, its_error in _culprits(value):
        location, value, error = (*location, step), part, its_error
    reason = "it is nested too deep" if isinstance(error, RecursionError) else error
    return refusal(location, f"{short_repr(value)} cannot be written as JSON: {reason}")


# Where values are nested deeper than this, the place is not looked for any further.
_DEPTH = 64


def _culprits(value: object) -> Iterator[tuple[str | int, object, Exception]]:
    """The way down to what cannot be written: step, value and its error. A circle ends it."""
    passed: set[int] = set()
    while id(value) not in passed and len(passed) < _DEPTH:
        passed.add(id(value))
        found = next(_failing(value), None)
        if found is None:
            return
        yield found
        value = found[1]


def _failing(value: object) -> Iterator[tuple[str | int, object, Exception]]:
    parts: Iterable[tuple[object, object]]
    parts = value.items() if isinstance(value, dict) else enumerate(maybe_list(value) or ())
    for step, part in parts:
        try:
            to_json(part)
        except RecursionError:  # no part of what is too deep is more to blame than the whole
            continue
        except JSON_ERRORS as error:
            if isinstance(step, (str, int)):
                yield step, part, error


# The value that begins at a place in a text, and where it ends; without looking for space around,
# on which `json.loads` spends a third of its time. Raises `StopIteration` where no value begins.
scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
