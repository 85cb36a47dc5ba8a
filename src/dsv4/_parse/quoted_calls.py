"""Calls that may be quoted (recovery.md, rules 21, 24 and 29): what is doubted."""

from __future__ import annotations

from dataclasses import dataclass

from dsv4._completion.call_writer import CallWriter
from dsv4._parse.quoting import Opening


class Refused(Exception):
    """The attempt of a level is refused: what stands before `to` has decided it."""

    def __init__(self, level: int, to: int) -> None:
        super().__init__(level, to)
        self.level = level
        self.to = to


@dataclass(slots=True)
class Doubt:
    """Calls that are read and not given out yet: if surplus closers come, none of them is made."""

    shown: int  # events before these are not in doubt
    start: int
    call: CallWriter | None  # the call whose value may be cut, as it was
    rest: str  # a member of its arguments that is not written
    unseen: str  # text of it that nobody has seen
    counts: tuple[int, int]  # calls that were begun and completed before
    has_surplus: bool = False
    drops_if_cut: bool = False


@dataclass(slots=True)
class Quotation:
    """What may quote the calls of an attempt."""

    start: int  # where the calls begin
    openings: list[Opening]
    direct: str = ""  # what would close it directly behind the calls
    is_marked: bool | None = None  # a quotation's mark is before it on the line, and nothing else
    is_indented: bool = False
    level: int = 0
    is_behind: bool = False  # prose follows the calls
    is_over: bool = False  # the calls are, and what stands right behind them was looked at
