"""What was repaired in the answers of a chat server, for the log and the metrics."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from dsv4._parse.events import BROKEN_CALL, LEAKED_CALL, LEAKED_REASONING, Diagnostic, Event

_log = logging.getLogger("dsv4.serve")

# What a summary says of each kind.
HEALED_KINDS = {
    LEAKED_CALL: "leaked calls",
    LEAKED_REASONING: "leaked reasoning",
    BROKEN_CALL: "had broken calls",
}


def healed_kinds(events: Iterable[Event]) -> Counter[str]:
    """How often each kind was found in an answer."""
    return Counter(
        event.kind
        for event in events
        if isinstance(event, Diagnostic) and event.kind in HEALED_KINDS
    )


def log_healed(id: str, events: Iterable[Event]) -> None:
    """A line for an answer in which something was repaired that the server got wrong."""
    kinds = healed_kinds(events)
    if kinds:
        found = " ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))
        _log.info("healed id=%s %s", id, found)


def healing_summary(answers: float, healed: Mapping[str, float]) -> str:
    """What was healed since the start, in a sentence: of so many answers, those with each kind."""
    found = [f"{healed[kind]:g} {words}" for kind, words in HEALED_KINDS.items() if healed[kind]]
    if not found:
        return f"{answers:g} answers, none of them in need of healing"
    first, _, rest = found[0].partition(" ")
    return ", ".join([f"{first} of {answers:g} answers {rest}", *found[1:]])
