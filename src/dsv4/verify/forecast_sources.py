"""Where the forecasts of a search come from: made when they are asked for, or given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dsv4.profiles.server_faults import FaultVariant, variants
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.hypotheses import Counts, Forecaster, Hypothesis, Prediction
from dsv4.verify.verdicts import Explanation


class MadeForecasts:
    """Forecasts that are made when they are asked for."""

    def __init__(self, forecaster: Forecaster, servers: Sequence[Hypothesis] = ()) -> None:
        self._forecaster, self._servers = forecaster, servers
        self._ids: dict[tuple[str, str, frozenset[TextPlace]], list[int | None]] = {}

    def servers(self) -> Sequence[Hypothesis]:
        return self._servers

    def with_one_fault(self, server: Hypothesis, needed: frozenset[str]) -> Iterator[Hypothesis]:
        """The server with each fault that has to do with all requests that it is needed for."""
        for fault in variants():
            if needed <= self.touched(fault):
                yield server.having(fault)

    def with_one_more(self, base: Hypothesis) -> Iterator[Hypothesis]:
        """A hypothesis with each fault that goes with those it has."""
        for fault in variants():
            if fault.id not in base.ids and not (base.faults and fault.fault.replaces_prompt):
                yield base.having(fault)

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        return self._forecaster.touched(fault)

    def prediction(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        """Whether anything is known of the prompt, and the count."""
        return self._forecaster.count(hypothesis, id)

    def are_same(self, one: Explanation, other: Explanation) -> bool:
        """Whether two explanations of one server write the same prompts for all requests."""
        a, b = one.hypothesis, other.hypothesis
        is_one_server = (a.profile, a.dialect, one.added) == (b.profile, b.dialect, other.added)
        if not is_one_server or not (a.faults and b.faults):
            return False
        return all(self.prompt(a, id) == self.prompt(b, id) for id in self._forecaster.every_id)

    def prompt(self, hypothesis: Hypothesis, id: str) -> str | None:
        forecast = self._forecaster.forecast(hypothesis, id)
        return None if forecast is None else forecast.prompt

    def ids(
        self, hypothesis: Hypothesis, prompt: str, acting: frozenset[TextPlace]
    ) -> list[int | None]:
        dialect = hypothesis.server.release(hypothesis.dialect)
        key = prompt, dialect.name, acting
        if key not in self._ids:
            self._ids[key] = self._forecaster.counter.ids(prompt, dialect, acting)
        return self._ids[key]


class GivenForecasts:
    """Forecasts of counts that were given, and no others."""

    def __init__(self, counts: Mapping[Hypothesis, Counts]) -> None:
        self._counts = counts
        self._by_server: dict[tuple[Hypothesis, int], list[Hypothesis]] = {}
        for hypothesis in counts:
            server = replace(hypothesis, faults=())
            key = server, len(hypothesis.faults)
            self._by_server.setdefault(key, []).append(hypothesis)

    def servers(self) -> Sequence[Hypothesis]:
        return [hypothesis for hypothesis in self._counts if not hypothesis.faults]

    def with_one_fault(self, server: Hypothesis, needed: frozenset[str]) -> Iterator[Hypothesis]:
        return iter(self._by_server.get((server, 1), ()))

    def with_one_more(self, base: Hypothesis) -> Iterator[Hypothesis]:
        server, size = replace(base, faults=()), len(base.faults)
        for each in self._by_server.get((server, size + 1), ()):
            if set(base.faults) <= set(each.faults):
                yield each

    def with_two_faults(self, server: Hypothesis) -> Iterator[Hypothesis]:
        return iter(self._by_server.get((server, 2), ()))

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        return frozenset()

    def prediction(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        counts = self._counts[hypothesis]
        return id in counts, counts.get(id)

    def are_same(self, one: Explanation, other: Explanation) -> bool:
        return False

    def prompt(self, hypothesis: Hypothesis, id: str) -> str | None:
        return None

    def ids(
        self, hypothesis: Hypothesis, prompt: str, acting: frozenset[TextPlace]
    ) -> list[int | None]:
        return []
