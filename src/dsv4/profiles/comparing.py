"""Where the prompts of two servers part, and why, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsv4.errors import EncodeError
from dsv4.profiles.asked import Location
from dsv4.profiles.body import Object, as_object
from dsv4.profiles.profile import Profile, profile_named, render
from dsv4.profiles.served import served
from dsv4.profiles.topics import TOPICS


@dataclass(frozen=True)
class Reason:
    """Something that two servers do differently with a request.

    `location` is the place in the request that it is about; empty where it is about all of it.
    """

    kind: str
    location: Location
    message: str


@dataclass(frozen=True)
class Side:
    """What one server makes of the request: a prompt, or an error."""

    profile: Profile
    prompt: str | None
    error: EncodeError | None


@dataclass(frozen=True)
class Comparison:
    """Two servers' prompts for one request.

    `shared` is the number of characters they begin with alike. `reasons` is empty where they write
    the same.
    """

    first: Side
    second: Side
    shared: int
    reasons: tuple[Reason, ...]

    @property
    def same(self) -> bool:
        """Whether both servers build the same prompt. A request that both refuse has none."""
        return self.first.prompt == self.second.prompt is not None


def compare(body: Any, first: str, second: str, *, dialect: str = "v4") -> Comparison:
    """Say where the prompts of two servers part for one request, and why.

    `body`, `dialect` and the names `first` and `second` are as for `render`. Raises `EncodeError`
    for a name or a dialect that is not known; a request that a server refuses is a `Side` with an
    error.
    """
    served(dialect)
    sides = _side(body, first, dialect), _side(body, second, dialect)
    texts = tuple(side.prompt or "" for side in sides)
    shared = _same_start(*texts)
    same = sides[0].prompt == sides[1].prompt is not None
    reasons = () if same else tuple(_reasons(as_object(body), sides, dialect))
    return Comparison(*sides, shared, reasons)


def _side(body: Any, name: str, dialect: str) -> Side:
    profile = profile_named(name)
    try:
        return Side(profile, render(body, name, dialect=dialect), None)
    except EncodeError as error:
        return Side(profile, None, error)


def _same_start(a: str, b: str) -> int:
    differing = (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(differing, min(len(a), len(b)))


def _reasons(body: Object, sides: tuple[Side, Side], dialect: str) -> Iterator[Reason]:
    for side in sides:
        if side.error is not None:
            message = f"{side.profile.server} refuses the request: {side.error}"
            yield Reason("refused", side.error.location, message)
    thinking = True
    if all(side.error is None for side in sides):
        thinking = any(side.profile.mode(body, dialect).thinking for side in sides)
        yield from _modes(body, sides, dialect)
    for topic in TOPICS:
        if not thinking and not topic.matters_in_chat:
            continue
        location = topic.touches(body)
        words = [topic.words(side.profile.name, dialect) for side in sides]
        if location is not None and words[0] != words[1]:
            ways = "; ".join(
                f"{side.profile.server}: {way}" for side, way in zip(sides, words, strict=True)
            )
            yield Reason(topic.kind, location, f"{topic.title}. {ways}")


def _modes(body: Object, sides: tuple[Side, Side], dialect: str) -> Iterator[Reason]:
    first, second = (side.profile.mode(body, dialect) for side in sides)
    names = [side.profile.server for side in sides]
    if first.thinking != second.thinking:
        thinks, not_ = names if first.thinking else reversed(names)
        message = f"{thinks} lets the model think, {not_} does not"
        yield Reason("thinking", _mode_location(body), message)
    elif first.effort != second.effort:
        written = [_effort_words(mode.effort) for mode in (first, second)]
        message = f"{names[0]} writes {written[0]}, {names[1]} {written[1]}"
        yield Reason("effort", _mode_location(body), message)


def _mode_location(body: Object) -> Location:
    """The option that has to do with thinking, if the request has one."""
    for field in ("reasoning_effort", "thinking", "chat_template_kwargs"):
        if body.get(field) is not None:
            return (field,)
    return ()


def _effort_words(effort: str) -> str:
    if not effort:
        return "no effort text"
    start = effort.split("\n")[0].removeprefix("Reasoning Effort: ")
    return f"“Reasoning Effort: {start[:40].rstrip(' .')}…”"
