"""The differences between the prompts of two servers: a table of them, and the comparison of one
request.

docs/servers.md shows the table; its texts are in server_differences.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dsv4._format.texts import read_table
from dsv4.errors import EncodeError, Location
from dsv4.profiles import request_facts
from dsv4.profiles import server_requests as server
from dsv4.profiles.profile import Profile, profile_named, render
from dsv4.profiles.request_facts import RequestFact
from dsv4.profiles.server_requests import Object, RequestBody, ThinkingMode

# The table: a row for each difference, a cell for each server.


# The behavior of a server in words, for both dialects, or for V4 and V4.1 separately.
CellWords: TypeAlias = str | list[str]

# The columns of the table.
DIFFERENCE_COLUMNS = (
    *("vllm-0.33", "vllm-0.32", "sglang-0.5.23", "recipe-0.2.0"),
    *("llama.cpp", "llama.cpp-2026.10", "dynamo-1.6"),
)
# A row may leave out these cells; then the cell of the other server counts. SGLang writes its
# prompts with deepseek-recipe, and Dynamo has a copy of the released encoder, as vLLM has.
_SAME_CELLS = {
    "vllm-0.32": "vllm-0.33",
    "sglang-0.5.23": "recipe-0.2.0",
    "llama.cpp": "llama.cpp-2026.10",
    "dynamo-1.6": "vllm-0.33",
    "deepseek-api": "recipe-0.2.0",
}


@dataclass(frozen=True)
class ServerDifference:
    """A row: its subject, the requests that it applies to, and each server's behavior.

    `applies_to` is the fact of a request that the row is about. Some rows matter only if a server
    lets the model think.
    """

    kind: str
    title: str
    applies_to: RequestFact
    cells: Mapping[str, CellWords]
    matters_in_chat: bool = True

    def cell(self, profile: str) -> CellWords:
        own = self.cells.get(profile)
        return self.cells[_SAME_CELLS[profile]] if own is None else own

    def words(self, profile: str, dialect: str) -> str:
        """The behavior of a server, in words."""
        cell = self.cell(profile)
        return cell if isinstance(cell, str) else cell[server.served_name(dialect) == "v4.1"]


def _row(applies_to: str, **fields: Any) -> ServerDifference:
    return ServerDifference(applies_to=getattr(request_facts, applies_to), **fields)


DIFFERENCES = tuple(_row(**row) for row in read_table("server_differences", __file__))


# The comparison of one request.


@dataclass(frozen=True)
class Reason:
    """Something that two servers do differently with a request.

    `location` is the place in the request that it is about; empty if it is about the whole request.
    """

    kind: str
    location: Location
    message: str


@dataclass(frozen=True)
class Side:
    """The result of one server for the request: a prompt, or an error."""

    profile: Profile
    prompt: str | None
    error: EncodeError | None


@dataclass(frozen=True)
class Comparison:
    """Two servers' prompts for one request.

    `shared` is the number of characters that both prompts begin with. `reasons` is empty if the
    prompts are the same.
    """

    first: Side
    second: Side
    shared: int
    reasons: tuple[Reason, ...]

    @property
    def same(self) -> bool:
        """Whether both servers build the same prompt. A request that both refuse has none."""
        return self.first.prompt == self.second.prompt is not None


def compare(
    body: RequestBody, first: str | Profile, second: str | Profile, *, dialect: str | None = None
) -> Comparison:
    """Say where the prompts of two servers for one request begin to differ, and why.

    `body`, `dialect` and the servers `first` and `second` are as for `render`. Raises `EncodeError`
    for an unknown name or dialect; if a server refuses the request, its `Side` has the error.
    """
    from dsv4.tokens.coder import common_prefix_length  # not needed to show help

    sides = _side(body, first, dialect), _side(body, second, dialect)
    texts = tuple(side.prompt or "" for side in sides)
    shared = common_prefix_length(*texts)
    same = sides[0].prompt == sides[1].prompt is not None
    reasons = () if same else tuple(_reasons(server.as_object(body), sides, dialect))
    return Comparison(*sides, shared, reasons)


def _side(body: RequestBody, name: str | Profile, dialect: str | None) -> Side:
    profile = profile_named(name)
    if dialect is not None:
        server.served_dialect(server.served_name(dialect))
    try:
        return Side(profile, render(body, name, dialect=dialect), None)
    except EncodeError as error:
        return Side(profile, None, error)


def _reasons(body: Object, sides: tuple[Side, Side], dialect: str | None) -> Iterator[Reason]:
    for side in sides:
        if side.error is not None:
            message = f"{side.profile.server} refuses the request: {side.error}"
            yield Reason("refused", side.error.location, message)
    yield from _fault_reasons(sides)
    thinking = True
    if all(side.error is None for side in sides):
        thinking = any(_mode(side, body, dialect).thinking for side in sides)
        yield from _modes(body, sides, dialect)
    for row in DIFFERENCES:
        if not thinking and not row.matters_in_chat:
            continue
        location = row.applies_to(body)
        words = [_words(row, side.profile, body, dialect) for side in sides]
        if location is not None and words[0] != words[1]:
            ways = "; ".join(
                f"{side.profile.server}: {way}" for side, way in zip(sides, words, strict=True)
            )
            yield Reason(row.kind, location, f"{row.title}. {ways}")


def _words(row: ServerDifference, profile: Profile, body: Object, dialect: str | None) -> str:
    """The behavior of a server, in words. The gateway's is not in the table."""
    if profile.base_name not in (*DIFFERENCE_COLUMNS, *_SAME_CELLS):
        return "as the released encoder"
    return row.words(profile.base_name, profile.own_dialect(dialect, body))


def _fault_reasons(sides: tuple[Side, Side]) -> Iterator[Reason]:
    """The faults of saved servers."""
    for side in sides:
        for fault in side.profile.faults:
            yield Reason("fault", (), f"{side.profile.server}: {fault.fault.message}")


def _mode(side: Side, body: Object, dialect: str | None) -> ThinkingMode:
    return side.profile.mode(body, side.profile.own_dialect(dialect, body))


def _modes(body: Object, sides: tuple[Side, Side], dialect: str | None) -> Iterator[Reason]:
    first, second = (_mode(side, body, dialect) for side in sides)
    names = [side.profile.server for side in sides]
    if first.thinking != second.thinking:
        thinks, not_ = names if first.thinking else reversed(names)
        message = f"{thinks} lets the model think, {not_} does not"
        yield Reason("thinking", _mode_location(body), message)
    elif first.effort != second.effort:
        words = [_effort_words(mode.effort) for mode in (first, second)]
        message = f"{names[0]} writes {words[0]}, {names[1]} {words[1]}"
        yield Reason("effort", _mode_location(body), message)


def _mode_location(body: Object) -> Location:
    """The place of the option that sets thinking; empty if the request has none."""
    for field in ("reasoning_effort", "thinking", "chat_template_kwargs"):
        if body.get(field) is not None:
            return (field,)
    return ()


def _effort_words(effort: str) -> str:
    if not effort:
        return "no effort text"
    start = effort.split("\n")[0].removeprefix("Reasoning Effort: ")
    return f"“Reasoning Effort: {start[:40].rstrip(' .')}…”"
