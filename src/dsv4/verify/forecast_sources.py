"""The forecasts of a search, made when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsv4.profiles.server_faults import FaultVariant, variants
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.count_patterns import CountPattern
from dsv4.verify.hypotheses import Forecaster, Hypothesis, Prediction
from dsv4.verify.verdicts import Explanation


class Forecasts:
    """The forecasts of hypotheses for requests, as a server reports them whose counts have a
    `pattern`. Each prompt is made once."""

    def __init__(
        self,
        forecaster: Forecaster,
        servers: Sequence[Hypothesis] = (),
        pattern: CountPattern | None = None,
    ) -> None:
        self._forecaster, self._servers, self._pattern = forecaster, servers, pattern
        self._ids: dict[tuple[str, str, frozenset[TextPlace]], list[int | None]] = {}

    def servers(self) -> Sequence[Hypothesis]:
        return self._servers

    def with_one_fault(self, server: Hypothesis, needed: frozenset[str]) -> Iterator[Hypothesis]:
        """The server with each fault that may change all of the requests in `needed`."""
        for fault in variants():
            if needed <= self.touched(fault):
                yield server.having(fault)

    def further_faults(self, base: Hypothesis) -> Iterator[FaultVariant]:
        """Each fault that can be combined with those that a hypothesis has."""
        for fault in variants():
            if fault.id not in base.ids and not (base.faults and fault.fault.replaces_prompt):
                yield fault

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        return self._forecaster.touched(fault)

    def prediction(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        """Whether there is a forecast, and its count."""
        is_forecast, count = self._forecaster.count(hypothesis, id)
        if self._pattern is None or count is None:
            return is_forecast, count
        if isinstance(count, int):
            return is_forecast, self._pattern(count)
        return is_forecast, {places: self._pattern(n) for places, n in count.items()}

    def with_pattern(self, pattern: CountPattern) -> Forecasts:
        """The same forecasts, of counts with a pattern."""
        return Forecasts(self._forecaster, self._servers, pattern)

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
