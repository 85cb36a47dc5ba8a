"""Hypotheses about what a server does with a request, as values, and the counts that follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations
from typing import TypeAlias

from dsv4.errors import EncodeError
from dsv4.profiles.profile import (
    GATEWAY,
    PROFILES,
    Profile,
    PromptWriter,
    profile_named,
    shielded_prompt,
    written_prompt,
)
from dsv4.profiles.prompt_changes import Unpredictable
from dsv4.profiles.server_faults import FaultVariant, ordered, variants
from dsv4.profiles.server_requests import Object
from dsv4.profiles.text_shields import TextPlace, shielded
from dsv4.verify.probes import FOLLOW_UPS, PROBES, requests_of_probes
from dsv4.verify.token_counts import PromptCounter, places_in

# The dialect that other servers write under the name "v4".
SERVED_NAMES = {"v4": "v4-0731"}


@dataclass(frozen=True)
class Hypothesis:
    """A server: a profile, the dialect of its model, and faults.

    `dialect` is a name that the profile takes; `texts` is the same as a key of `dsv4.DIALECTS`.
    """

    profile: str
    dialect: str
    faults: tuple[FaultVariant, ...] = ()

    @property
    def server(self) -> Profile:
        """The profile itself."""
        return profile_named(self.profile)

    @property
    def texts(self) -> str:
        """The dialect, as a key of `dsv4.DIALECTS`, by the texts that are written."""
        if self.profile == GATEWAY.name:
            return self.dialect
        return SERVED_NAMES.get(self.dialect, self.dialect)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the faults, sorted."""
        return tuple(sorted({each.id for each in self.faults}))

    @property
    def without_faults(self) -> Hypothesis:
        """The same server, clean."""
        return Hypothesis(self.profile, self.dialect)

    def having(self, *faults: FaultVariant) -> Hypothesis:
        """The same server with more `faults`."""
        together = ordered({*self.faults, *faults})
        return Hypothesis(self.profile, self.dialect, together)

    def prompt(self, body: Object, write: PromptWriter | None = None) -> str:
        """The prompt of a `body` in which special tokens spelled by callers are marked; the marks
        stay. Raises `EncodeError` for a refusal and `Unpredictable` where the prompt cannot be
        known. `write` writes the prompt before faults change it."""
        return shielded_prompt(body, self.server, self.dialect, self.faults, write)

    def __str__(self) -> str:
        faults = "".join(f" + {each}" for each in self.faults)
        return f"{self.profile} {self.texts}{faults}"


def clean_servers() -> list[Hypothesis]:
    """Every known server with every dialect that it writes."""
    return [
        Hypothesis(profile.name, dialect)
        for profile in (*PROFILES.values(), GATEWAY)
        for dialect in profile.dialects
        if dialect not in profile.writes_as  # two names of one hypothesis
    ]


def hypotheses() -> Iterator[Hypothesis]:
    """Every known server, clean, and with every fault that changes prompts."""
    for server in clean_servers():
        yield server
        yield from (server.having(fault) for fault in variants())


# A forecast: a count; where texts spell special tokens, counts by the places where those act; None
# for a refusal.
SpelledCounts: TypeAlias = Mapping[frozenset[TextPlace], int]
Prediction: TypeAlias = int | SpelledCounts | None
# Forecasts by the ids of requests.
Counts: TypeAlias = Mapping[str, Prediction]


@dataclass(frozen=True)
class Forecast:
    """The forecast of a hypothesis for one request: a prompt or a refusal, and its count."""

    prompt: str | None
    count: Prediction


REFUSED = Forecast(None, None)


class _WrittenOnce:
    """Prompts of servers, each written once: faults of the prompt leave the body as it is, and many
    other faults change it to the same body."""

    def __init__(self) -> None:
        self._prompts: dict[tuple[str, str, str], str | EncodeError] = {}

    def __call__(self, body: Object, profile: Profile, dialect: str) -> str:
        key = profile.name, dialect, repr(body)
        if key not in self._prompts:
            try:
                self._prompts[key] = written_prompt(body, profile, dialect)
            except EncodeError as refusal:
                self._prompts[key] = refusal.with_traceback(None)
        prompt = self._prompts[key]
        if isinstance(prompt, EncodeError):
            raise prompt.with_traceback(None)
        return prompt


class _TouchedRequests(dict[FaultVariant, frozenset[str]]):
    """The ids of the requests that each fault may change, found once."""

    def __init__(self, bodies: Mapping[str, Object]) -> None:
        self._bodies = bodies

    def __missing__(self, fault: FaultVariant) -> frozenset[str]:
        in_every_prompt = fault.change.prompt is not None
        ids = (id for id, body in self._bodies.items() if in_every_prompt or fault.touches(body))
        self[fault] = frozenset(ids)
        return self[fault]


class Forecaster:
    """Forecasts of hypotheses for requests. Each prompt is made once, and counted once.

    Requests are known by an id. If all probes are among them, there are also forecasts for the
    requests that may follow. None in place of a forecast means that the prompt cannot be known.
    """

    def __init__(
        self, requests: Mapping[str, Object], counter: PromptCounter | None = None
    ) -> None:
        self.requests: dict[str, Object] = {id: shielded(body) for id, body in requests.items()}
        further = FOLLOW_UPS if PROBES.keys() <= requests.keys() else ()
        self._follow_ups = {each.id: shielded(each.request) for each in further}
        self.counter: PromptCounter = counter or PromptCounter()
        self._touched = _TouchedRequests({**self.requests, **self._follow_ups})
        self._forecasts: dict[tuple[str, str, tuple[FaultVariant, ...], str], Forecast | None] = {}
        self._counts: dict[Hypothesis, Counts] = {}
        self._write = _WrittenOnce()

    def forecast(self, hypothesis: Hypothesis, id: str) -> Forecast | None:
        """The forecast of a `hypothesis` for the request with this `id`; None if it is unknown.

        Faults that cannot change the request are left out, so many hypotheses share a forecast.
        """
        needed = self.needed(hypothesis, id)
        key = needed.profile, needed.dialect, needed.faults, id
        if key not in self._forecasts:
            self._forecasts[key] = self._new(needed, self._body(id))
        return self._forecasts[key]

    @property
    def every_id(self) -> Iterator[str]:
        """The ids of all requests that have forecasts."""
        return chain(self.requests, self._follow_ups)

    def _body(self, id: str) -> Object:
        return self.requests[id] if id in self.requests else self._follow_ups[id]

    def needed(self, hypothesis: Hypothesis, id: str) -> Hypothesis:
        """A `hypothesis` with only those of its faults that may change the request `id`."""
        touched = self._touched  # millions of times in a run, where nothing simple explains it
        faults = tuple([fault for fault in hypothesis.faults if id in touched[fault]])
        if len(faults) == len(hypothesis.faults):
            return hypothesis
        return Hypothesis(hypothesis.profile, hypothesis.dialect, faults)

    def count(self, hypothesis: Hypothesis, id: str) -> tuple[bool, Prediction]:
        """Whether a `hypothesis` has a forecast for the request with this `id`, and its count."""
        forecast = self.forecast(hypothesis, id)
        return (False, None) if forecast is None else (True, forecast.count)

    def counts(self, hypothesis: Hypothesis) -> Counts:
        """The counts that a `hypothesis` forecasts, by the ids of requests that have a forecast."""
        if hypothesis not in self._counts:
            counts = {id: self.count(hypothesis, id) for id in self.requests}
            self._counts[hypothesis] = {
                id: count for id, (is_forecast, count) in counts.items() if is_forecast
            }
        return self._counts[hypothesis]

    def prompts(self, hypothesis: Hypothesis) -> Mapping[str, str | None]:
        """The prompts that a `hypothesis` forecasts, as `counts` has their counts."""
        forecasts = {id: self.forecast(hypothesis, id) for id in self.requests}
        return {id: each.prompt for id, each in forecasts.items() if each is not None}

    def touched(self, fault: FaultVariant) -> frozenset[str]:
        """The ids of the requests whose prompts a `fault` may change, on any server."""
        return self._touched[fault]

    def _new(self, hypothesis: Hypothesis, body: Object) -> Forecast | None:
        try:
            prompt = hypothesis.prompt(body, self._write)
        except Unpredictable:
            return None
        except EncodeError:
            return REFUSED
        return Forecast(prompt, self._prediction(hypothesis, prompt))

    def _prediction(self, hypothesis: Hypothesis, prompt: str) -> Prediction:
        dialect = hypothesis.server.release(hypothesis.dialect)
        places = sorted(places_in(prompt))
        if not places:
            return self.counter.count(prompt, dialect, frozenset())
        subsets = chain.from_iterable(combinations(places, n) for n in range(len(places) + 1))
        return {
            frozenset(acting): self.counter.count(prompt, dialect, frozenset(acting))
            for acting in subsets
        }


@cache
def forecasts_of_probes() -> Forecaster:
    """The forecasts for the built-in probes, which all runs of a process share."""
    return Forecaster(requests_of_probes())
