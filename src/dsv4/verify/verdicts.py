"""The verdict on a server: the explanations of its observations, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dsv4.profiles.server_faults import FaultVariant
from dsv4.profiles.text_shields import TextPlace
from dsv4.verify.count_patterns import CountPattern
from dsv4.verify.hypotheses import Hypothesis

Outcome: TypeAlias = Literal["explained", "not explained", "void", "nothing seen"]


@dataclass(frozen=True)
class Explanation:
    """A hypothesis that explains what was seen.

    `faults` are sorted ids, including those of counting. `added` is how many tokens a hidden text
    or a counter adds, 0 where none does.
    """

    hypothesis: Hypothesis
    faults: tuple[str, ...]
    added: int = 0

    def added_to(self, probe: str, touched: Callable[[FaultVariant], frozenset[str]]) -> int:
        """The number of tokens that are added to the count of the request `probe`. A text of
        unknown length is added only to the requests that its fault changes, as `touched` says."""
        unknown = [fault for fault in self.hypothesis.faults if fault.fault.any_length]
        return self.added if all(probe in touched(fault) for fault in unknown) else 0


@dataclass(frozen=True)
class Mismatch:
    """A request that is not explained: what was expected, and what was seen; None is a refusal."""

    probe: str
    expected: int | None
    seen: int | None


@dataclass(frozen=True)
class ServerVerdict:
    """The explanation of the observations.

    - `outcome`: "explained"; "not explained": then `best` is the nearest server, with faults where
      those leave less unexplained, and `unexplained` are the requests that it contradicts; "void"
      where the counts cannot be believed; "nothing seen".
    - `best`: the simplest explanation. `alternatives`: others that are as good.
    - `explained`, `of`: how many observations `best` explains, and how many there are. A request
      without a forecast is not explained.
    - `synonyms`: `best` under other names: the prompts are the same for all requests there are.
    - `faults`: the certain ones: every explanation has them, and enough requests show them.
    - `possible`: those of `best` and of the alternatives that are not certain.
    - `shown_by`: by the id of a fault of `best`, the requests whose answers show it.
    - `refused`: the requests that were refused, and that `best` without faults would take.
    - `unforecast`: the requests for which `best` has no forecast.
    - `acting`: the places whose special tokens become control tokens, as far as that was seen.
    - `others`: where several servers answer in turn, those besides `best`.
    - `pattern`: the change that the server makes to every count before it reports it, removed here.
    - `reason`: why counts cannot be believed, or do not stay the same, in words.
    """

    outcome: Outcome
    best: Explanation | None = None
    alternatives: tuple[Explanation, ...] = ()
    synonyms: tuple[Explanation, ...] = ()
    explained: int = 0
    of: int = 0
    unexplained: tuple[Mismatch, ...] = ()
    acting: frozenset[TextPlace] = frozenset()
    faults: tuple[str, ...] = ()
    others: tuple[Explanation, ...] = ()
    possible: tuple[str, ...] = ()
    shown_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    refused: tuple[str, ...] = ()
    unforecast: tuple[str, ...] = ()
    pattern: CountPattern | None = None
    reason: str = ""
