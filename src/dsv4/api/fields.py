"""Fields of a request: each check gives the value as it should be, or says what is wrong and where.

Null is absent everywhere, so a check never sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

from dsv4.api.bodies import clean
from dsv4.api.errors import wrong

Check: TypeAlias = Callable[[Any, str], Any]


def checked(
    fields: Mapping[str, Any], checks: Mapping[str, Check], path: str = ""
) -> dict[str, Any]:
    """The fields that `checks` knows, those that are there and not null."""
    known = {}
    for key, value in fields.items():
        if value is not None and key in checks:
            known[key] = checks[key](value, f"{path}.{key}" if path else key)
    return known


def said_in(body: Mapping[str, Any], reads: Mapping[str, tuple[str, Check]]) -> dict[str, Any]:
    """What a body says, by the names that all protocols share. `reads` has, for each field that is
    read, that name and the check of its value."""
    said = {}
    for key, value in body.items():
        if value is not None and key in reads:
            name, check = reads[key]
            said[name] = check(value, key)
    return said


def text(value: Any, path: str) -> str:
    if isinstance(value, str):
        return clean(value)
    raise wrong(value, "text", path)


def flag(value: Any, path: str) -> bool:
    if value is True or value is False:
        return value
    raise wrong(value, "true or false", path)


def table(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise wrong(value, "an object", path)


def listed(value: Any, path: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, tuple):
        return list(value)
    raise wrong(value, "a list", path)


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def whole_number(least: int, most: int | None = None) -> Check:
    def check(value: Any, path: str) -> int:
        if is_whole(value) and value >= least and (most is None or value <= most):
            return int(value)
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise wrong(value, f"a whole number {limits}", path)

    return check


def number(least: float, most: float | None = None) -> Check:
    def check(value: Any, path: str) -> float:
        given = is_whole(value) or (isinstance(value, float) and isfinite(value))
        if given and value >= least and (most is None or value <= most):
            return float(value) if isinstance(value, float) else int(value)
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise wrong(value, f"a number {limits}", path)

    return check


def one_of(*names: str) -> Check:
    def check(value: Any, path: str) -> str:
        if isinstance(value, str) and value in names:
            return str.__str__(value)
        raise wrong(value, "one of " + ", ".join(f'"{name}"' for name in names), path)

    return check


def texts(value: Any, path: str) -> tuple[str, ...]:
    """One text, or a list of them. None may be empty."""
    if isinstance(value, str):
        given = [value]
    elif isinstance(value, (list, tuple)):
        given = list(value)
    else:
        raise wrong(value, "text, or a list of texts", path)
    for n, item in enumerate(given):
        if not isinstance(item, str) or not item:
            where = path if isinstance(value, str) else f"{path}[{n}]"
            raise wrong(item, "text that is not empty", where)
    return tuple(map(clean, given))


def as_is(value: Any, path: str) -> Any:
    """A field that is read elsewhere."""
    return value


def name_at(fields: Mapping[str, Any], path: str, key: str = "name") -> str:
    """A name that must be there."""
    value = fields.get(key)
    if isinstance(value, str) and value:
        return clean(value)
    raise wrong(value, "a name", f"{path}.{key}")


def maybe_text_at(fields: Mapping[str, Any], key: str, path: str) -> str | None:
    """A text that may be missing."""
    value = fields.get(key)
    return value if value is None else text(value, f"{path}.{key}")


def type_at(fields: Any, path: str) -> str:
    """The `type` of a block, part or item."""
    if not isinstance(fields, dict):
        raise wrong(fields, "an object", path)
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise wrong(kind, 'a type, such as "text"', f"{path}.type")
    return clean(kind)
