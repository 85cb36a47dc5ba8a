"""What explains the observations of a server: a verdict, as values."""

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

    `faults` are ids, sorted, with those of counting. `added` is how many tokens a hidden text or a
    counter adds, 0 where none does.
    """

    hypothesis: Hypothesis
    faults: tuple[str, ...]
    added: int = 0

    def added_to(self, probe: str, touched: Callable[[FaultVariant], frozenset[str]]) -> int:
        """How many tokens are added to the count of the request `probe`: a text of unknown length
        stands where its fault has to do with it, which `touched` says."""
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
    """What explains the observations.

    - `outcome`: "explained"; "not explained", and then `best` is the nearest server, with faults
      where those leave less unexplained, and `unexplained` what it fails; "void" where the counts
      cannot be believed; "nothing seen".
    - `best`: the simplest explanation. `alternatives`: others that are as good.
    - `explained`, `of`: how many observations `best` explains, and how many there are. A request of
      which it forecasts nothing is not explained by it.
    - `synonyms`: `best` under other names: the prompts are the same for all requests there are.
    - `faults`: those that are certain: every explanation has them, and enough requests show them.
    - `possible`: those of `best` and of the alternatives that are not.
    - `shown_by`: by the id of a fault of `best`, the requests whose answers show it.
    - `refused`: the requests that were refused, and that `best` without faults would take.
    - `unforecast`: the requests of which `best` forecasts nothing.
    - `acting`: the places whose special tokens become control tokens, as far as that was seen.
    - `others`: where several servers answer in turn, those besides `best`.
    - `pattern`: what the server makes of every count before it says it, which was taken away.
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
