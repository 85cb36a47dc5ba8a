"""Behavior of servers that differs from the released encoder, and the requests that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsv4._format.texts import read_table
from dsv4.profiles.profile import GATEWAY
from dsv4.profiles.server_faults import FaultVariant
from dsv4.verify.fits import usual_count
from dsv4.verify.hypotheses import Forecaster, Hypothesis
from dsv4.verify.probes import PROBES

# By the family of a server: the behavior in which it differs from the released encoder.
OWN_WAYS: Mapping[str, Sequence[str]] = read_table("own_ways", __file__)
# The advice where the server itself, not a proxy, takes one effort for another.
KNOWN_EFFORTS = "send `high` or `max`, which this server takes as they are"

# Thinking is off, unless a request asks for it in any way.
SILENT = FaultVariant("thinking-off-by-default", 1)


def released_server(best: Hypothesis, forecaster: Forecaster) -> Hypothesis:
    """The server that writes prompts as released, thinks by default if this one does, and has the
    same faults: so those do not account for any difference."""
    faults = tuple(fault for fault in best.faults if fault.id != SILENT.id)
    released = Hypothesis(GATEWAY.name, best.texts, faults)
    silent = released.having(SILENT)
    plain = Forecaster({"plain": PROBES["plain"].request}, forecaster.counter)
    return silent if plain.counts(silent) == plain.counts(best) else released


@dataclass(frozen=True)
class OwnWay:
    """A known behavior of a `server`; `id` is that of the fault that it would be elsewhere.
    `reference` does not behave so."""

    id: str
    server: Hypothesis
    reference: Hypothesis
    forecaster: Forecaster

    def is_shown_by(self, probe: str, tokens: int | None) -> bool:
        """Whether this answer is not the reference's, and the fault would not change it further.
        Requests of other groups may differ for another reason."""
        fault, count = FaultVariant(self.id), self.forecaster.count
        own = probe not in PROBES or PROBES[probe].group == fault.fault.group
        if tokens is None or not own or probe not in self.forecaster.touched(fault):
            return False
        usual = count(self.reference, probe)
        return (
            usual[0]
            and usual_count(usual[1], acts=True) != tokens
            and count(self.server.having(fault), probe) == count(self.server, probe)
        )

    def showing(self) -> Iterator[str]:
        """The requests that show it on such a server."""
        acts = self.server.server.special_text_acts
        for id in self.forecaster.requests:
            if self.is_shown_by(id, usual_count(self.forecaster.count(self.server, id)[1], acts)):
                yield id
