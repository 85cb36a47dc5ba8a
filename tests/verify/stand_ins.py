"""Servers to find out about: hypotheses that answer as if they were real."""

from __future__ import annotations

from collections.abc import Iterable

from dsv4.profiles.server_faults import FaultVariant, fault_named
from dsv4.verify import PROBES, Forecaster, Hypothesis, Observation
from dsv4.verify.probes import requests_of_probes

FORECASTER = Forecaster(requests_of_probes())
VLLM = Hypothesis("vllm-0.32", "v4")


def server(profile: str = "vllm-0.32", dialect: str = "v4", *faults: str) -> Hypothesis:
    return Hypothesis(profile, dialect).having(*map(fault_named, faults))


def count_on(hypothesis: Hypothesis, probe: str, acts: bool | None = None) -> int | None:
    """What this server would count; None where it refuses."""
    forecast = FORECASTER.forecast(hypothesis, probe)
    assert forecast is not None
    if forecast.count is None or isinstance(forecast.count, int):
        return forecast.count
    acts = hypothesis.server.special_text_acts if acts is None else acts
    return forecast.count[max(forecast.count, key=len) if acts else frozenset()]


def observed(
    hypothesis: Hypothesis,
    probes: Iterable[str] = tuple(PROBES),
    *,
    added: int = 0,
    answer: int = 1,
) -> list[Observation]:
    """What a run over this server would see."""
    found = []
    for probe in probes:
        if FORECASTER.forecast(hypothesis, probe) is None:
            continue
        count = count_on(hypothesis, probe)
        if count is None:
            found.append(Observation(probe, refused=True))
        else:
            found.append(Observation(probe, count + added, completion_tokens=answer))
    return found


def variant(name: str) -> FaultVariant:
    return fault_named(name)
