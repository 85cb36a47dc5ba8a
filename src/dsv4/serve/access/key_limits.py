"""What a key may use: requests and tokens in a minute, tokens in a day, streams at once, models,
until when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

from dsv4.api import ApiError
from dsv4.errors import mismatch, short_repr


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a key may use. None is no limit; no models are all of them."""

    requests: int | None = None
    tokens: int | None = None
    day_tokens: int | None = None
    streams: int | None = None
    models: tuple[str, ...] = ()
    expires: datetime | None = None

    @property
    def counts(self) -> bool:
        """Whether anything must be counted."""
        limits = (self.requests, self.tokens, self.day_tokens, self.streams)
        return any(limit is not None for limit in limits)

    def check_model(self, model: object) -> None:
        """Raises an `ApiError` for a model that requests may not use."""
        if self.models and model not in self.models:
            expected = f"expected a model of this key: {', '.join(self.models)}"
            message = f"found {short_repr(model)}, {expected}"
            raise ApiError(message, path="model", status=403, code="model_not_allowed")


UNLIMITED = KeyLimits()


def read_limits(words: list[str]) -> KeyLimits:
    """The limits that a line of the key file gives, such as `requests=60 tokens=100000
    day_tokens=5000000 streams=4 models=a,b expires=2027-01-31`.

    Raises a `ValueError` that says what is wrong.
    """
    limits: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _READERS or not equals:
            names = ", ".join(f"{each}=" for each in _READERS)
            raise ValueError(mismatch(word, f"one of {names}"))
        if name in limits:
            raise ValueError(f"found {name} twice")
        limits[name] = _READERS[name](value)
    return KeyLimits(**limits)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(mismatch(value, "a number of 1 or more"))
    return int(value)


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name for name in value.split(",") if name)
    if not names:
        raise ValueError("found no model, expected their names with commas between")
    return names


def _moment(value: str) -> datetime:
    """A day, whose end is meant, or a moment; without a zone it is UTC's."""
    try:
        if len(value) == len("2027-01-31"):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=timezone.utc)
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        example = "2027-01-31 or 2027-01-31T12:00:00Z"
        raise ValueError(mismatch(value, f"a date: {example}")) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("requests", "tokens", "day_tokens", "streams"), _count),
    "models": _names,
    "expires": _moment,
}
