"""The report of a run, as a value: what a verdict means for each group, and the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.server_faults import fault_named
from dsv4.verify.common_causes import common_causes
from dsv4.verify.fits import LEAST_SHOWING, usual_count
from dsv4.verify.hypotheses import Forecaster, Hypothesis, clean_servers
from dsv4.verify.observations import Observation
from dsv4.verify.own_ways import KNOWN_EFFORTS, OWN_WAYS, OwnWay, released_server
from dsv4.verify.own_word import OwnWord
from dsv4.verify.probes import PROBES, is_mixed
from dsv4.verify.server_findings import NOT_EXPLAINED, ServerFinding, Standing, curl_line
from dsv4.verify.verdicts import Explanation, Mismatch, ServerVerdict

GROUPS = (
    *("prompt", "counting", "system", "thinking", "effort", "tools", "history", "content"),
    *("safety", "output", "billing", "cache", "protocols", "raw", "images"),
)
_RANK: dict[Standing, int] = {
    "not offered": 0,
    "pass": 1,
    "inconclusive": 2,
    "differs": 3,
    "fault": 4,
}

# Groups that counts say something about; the others are looked at in other ways.
_COUNTED_GROUPS = GROUPS[: GROUPS.index("output")]
# The most unexplained requests that are shown of a group.
MOST_SHOWN = 3
# The groups to report if every request is changed: in all others the change only shows as well.
EVERYWHERE = ("prompt", "content")


@dataclass(frozen=True)
class VerifyReport:
    """The results for a server after a run, or from a log.

    `verdict` says what explains the counts; `groups` has a standing for each group, `findings` the
    reasons. `evidence` names what the server offered; `notes` are sentences about the run itself.
    `own_word` is what the server says of itself. `too_little` is true if fewer than half of the
    expected counts came. `first_token_seconds` is how long the first streamed answer took to begin.
    `date` is when the run ended, in UTC; a log has none.
    """

    url: str
    model: str
    verdict: ServerVerdict
    groups: Mapping[str, Standing]
    findings: tuple[ServerFinding, ...]
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    evidence: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    own_word: OwnWord = field(default_factory=OwnWord)
    too_little: bool = False
    first_token_seconds: float | None = None
    date: str = ""

    @property
    def is_faulty(self) -> bool:
        """Whether anything is worse than a known difference."""
        return "fault" in self.groups.values()

    def to_dict(self) -> dict[str, Any]:
        """The report as a value for JSON."""
        verdict = self.verdict
        best = None if verdict.best is None else explanation_dict(verdict.best)
        is_explained = verdict.outcome == "explained"
        uncertain = [verdict.best] if verdict.best and verdict.possible else []
        return {
            "url": self.url,
            "model": self.model,
            "date": self.date,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "evidence": list(self.evidence),
            "prompt": {
                "profile": best["profile"] if best else None,
                "dialect": best["dialect"] if best else None,
                "faults": sorted(verdict.faults),
                "outcome": verdict.outcome,
                "added": verdict.best.added if verdict.best and is_explained else 0,
                "alternatives": [
                    explanation_dict(each)
                    for each in (
                        *verdict.others,
                        *uncertain,
                        *verdict.alternatives,
                        *verdict.synonyms,
                    )
                ],
                "synonyms": [explanation_dict(each) for each in verdict.synonyms],
                "possible": list(verdict.possible),
                "pattern": None if verdict.pattern is None else str(verdict.pattern),
                "explained": verdict.explained,
                "of": verdict.of,
                "unexplained": [asdict(each) for each in verdict.unexplained],
            },
            "acting": sorted(verdict.acting),
            "groups": dict(self.groups),
            "findings": [asdict(each) for each in self.findings],
            "notes": list(self.notes),
            "own_word": asdict(self.own_word),
            "too_little": self.too_little,
            "first_token_seconds": self.first_token_seconds,
        }


def explanation_dict(each: Explanation) -> dict[str, Any]:
    hypothesis = each.hypothesis
    return {
        "profile": hypothesis.profile,
        "dialect": hypothesis.texts,
        "faults": sorted(each.faults),
    }


def without_key(report: VerifyReport, key: str) -> VerifyReport:
    """The report without a key that a server sent back."""
    if not key:
        return report
    findings = tuple(_without_key(finding, key) for finding in report.findings)
    notes = tuple(struck_out(note, key) for note in report.notes)
    word = OwnWord(*(struck_out(each, key) for each in vars(report.own_word).values()))
    model = struck_out(report.model, key)
    return replace(report, findings=findings, notes=notes, model=model, own_word=word)


def _without_key(finding: ServerFinding, key: str) -> ServerFinding:
    fields: dict[str, Any] = {
        name: struck_out(value, key) if isinstance(value, str) else value
        for name, value in vars(finding).items()
    }
    return ServerFinding(**fields)


def struck_out(text: str, key: str) -> str:
    """A text of a server without the key."""
    return text.replace(key, "$KEY") if key else text


# From a verdict to findings.


class Findings:
    """The findings of one verdict."""

    def __init__(
        self,
        verdict: ServerVerdict,
        observations: Iterable[Observation],
        forecaster: Forecaster,
        url: str = "",
        model: str = "",
    ) -> None:
        self._verdict = verdict
        self._observations = [o for o in observations if o.tells]
        self._forecaster = forecaster
        self._url, self._model = url, model

    def all(self) -> tuple[ServerFinding, ...]:
        findings = [
            *(*self._faults(), *self._one_of_several(), *self._safety()),
            *(*self._unexplained(), *self._own_ways()),
        ]
        return tuple(sorted(findings, key=lambda f: -_RANK[f.verdict]))

    def groups(self, findings: Iterable[ServerFinding]) -> dict[str, Standing]:
        """The standing of each group: the worst of its findings. A group that was not looked at, or
        not explained, is inconclusive."""
        void = self._verdict.outcome in ("void", "nothing seen")
        standing: dict[str, Standing] = dict.fromkeys(GROUPS, "inconclusive")
        if not void and self._observations:
            unanswered = self._failing | {*self._verdict.refused}
            open_questions = {_group(o) for o in self._observations if o.probe in unanswered}
            looked_at = {"prompt", *filter(None, map(_group, self._observations))}
            open_questions |= {*self._unseen_ways()}
            standing |= dict.fromkeys(looked_at - open_questions, "pass")
        for finding in findings:
            if _RANK[finding.verdict] > _RANK[standing[finding.group]] or (
                standing[finding.group] == "inconclusive" and finding.verdict != "pass"
            ):
                standing[finding.group] = finding.verdict
        for finding in findings:
            if finding.group not in _COUNTED_GROUPS and standing[finding.group] == "inconclusive":
                standing[finding.group] = finding.verdict
        return standing

    @property
    def _failing(self) -> set[str]:
        """The requests that nothing explains."""
        unexplained = (each.probe for each in self._verdict.unexplained)
        return {*unexplained, *self._verdict.unforecast}

    def _faults(self) -> Iterator[ServerFinding]:
        for id in self._verdict.faults:
            fault = FAULTS[id]
            if fault.group == "safety":
                continue
            finding = self._finding(id, "fault", self._shown_by(self._clean, id))
            showing = self._verdict.shown_by.get(id, ())
            if not fault.changes_prompts:
                finding = replace(finding, seen=finding.seen or self._verdict.reason)
            yield replace(finding, shown_by=showing)

    def _one_of_several(self) -> Iterator[ServerFinding]:
        """Faults of which one is present, and those that too few requests show."""
        verdict = self._verdict
        is_open = verdict.outcome == "not explained" and not verdict.unexplained
        if not (verdict.outcome == "explained" or is_open) or not verdict.possible:
            return
        assert verdict.best is not None
        certain = set(verdict.faults)
        every = dict.fromkeys(
            tuple(id for id in each.faults if id not in certain)
            for each in (verdict.best, *verdict.alternatives)
        )
        sets = [ids for ids in every if ids]
        showing = tuple(
            dict.fromkeys(probe for id in sets[0] for probe in verdict.shown_by.get(id, ()))
        )
        # One fault that is not certain has no finding under its own name.
        many = len(showing) >= LEAST_SHOWING and sum(map(len, sets)) > 1
        # A pair with no fault certain might be by chance.
        many = many and (bool(certain) or any(len(ids) == 1 for ids in sets))
        causes = "; ".join(
            " and ".join(f"{FAULTS[id].message} ({id})" for id in ids) for ids in sets
        )
        first = showing[:1] or verdict.refused[:1]
        observation = next((o for o in self._observations if o.probe in first), None)
        # Refusals by themselves show that something is refused, but not why.
        is_counted = any(o.probe in showing and not o.refused for o in self._observations)
        is_counted = is_counted and () not in every  # a server without a fault
        finding = self._finding(sets[0][0], "fault" if is_counted else "inconclusive", observation)
        message = "one of these" if many else f"possible, by {_requests(showing, verdict.refused)}"
        quoted = next((o.refusal for o in self._observations if o.probe in first and o.refusal), "")
        yield replace(
            finding,
            id="|".join("+".join(ids) for ids in sets) if many else NOT_EXPLAINED,
            message=f"{message}: {causes}",
            effect=finding.effect if len(sets) == 1 else "",
            mend=finding.mend if len(sets) == 1 else "",
            seen=f"{finding.seen} ({quoted})" if quoted else finding.seen,
            shown_by=showing or verdict.refused,
        )

    @property
    def _clean(self) -> Hypothesis | None:
        best = self._verdict.best
        return None if best is None else best.hypothesis.without_faults

    def _safety(self) -> Iterator[ServerFinding]:
        for place in sorted(self._verdict.acting):
            id = f"inject-{place}"
            observation = next((o for o in self._observations if o.probe == id), None)
            finding = self._finding(id, "fault", observation)
            best = self._verdict.best
            if observation is not None and best is not None:
                text = usual_count(self._forecaster.count(best.hypothesis, id)[1], False)
                words = f"{_count_words(self._billed(text))} if it were text"
                finding = replace(finding, expected=words)
            yield replace(finding, shown_by=(id,))

    def _unexplained(self) -> Iterator[ServerFinding]:
        """Findings for the simplest unexplained requests of each group. The verdict has all."""
        by_group: dict[str, list[Mismatch]] = {}
        groups = self._unexplained_groups()
        for each in self._verdict.unexplained:
            own = by_group.setdefault(groups[each.probe], [])
            if each.probe not in {other.probe for other in own}:
                own.append(each)
        counted = [each for each in self._verdict.unexplained if each.seen is not None]
        is_plain = any(not _shows_several(each.probe) for each in counted)
        for group, own in by_group.items():
            simplest = sorted(
                own, key=lambda each: (_shows_several(each.probe), _group_of(each.probe) != group)
            )
            if is_plain and all(_shows_several(each.probe) for each in own):
                continue
            for each in simplest[:MOST_SHOWN]:
                yield self._not_explained(each, group, tuple(other.probe for other in own))

    def _unexplained_groups(self) -> dict[str, str]:
        """The group that each unexplained request says something about."""
        failing = {each.probe for each in self._verdict.unexplained}
        if "plain" in failing:  # so every request is changed, whatever it is about
            own = {probe: _group_of(probe) for probe in failing}
            return {probe: g if g in EVERYWHERE else "prompt" for probe, g in own.items()}
        requests = {o.probe: o.body for o in self._observations if o.body is not None}
        causes = common_causes(failing, requests)
        return {probe: causes.get(probe, _group_of(probe)) for probe in failing}

    def _not_explained(self, each: Mismatch, group: str, own: tuple[str, ...]) -> ServerFinding:
        server = self._clean.server.server if self._clean else "any known server"
        refused = each.seen is None
        refusal = next(
            (o.refusal for o in self._observations if o.probe == each.probe and o.refusal), ""
        )
        way = "takes it with its usual settings" if refused else "would have counted otherwise"
        effect = "such requests are not served here" if refused else self._whose(each)
        if not refused and each.seen == each.expected:
            way = "would have written another prompt of as many tokens"
        return ServerFinding(
            NOT_EXPLAINED,
            group,
            "inconclusive" if refused else "fault",
            f"not explained: {server} {way}; {_requests(own)} show{'s' * (len(own) == 1)} it",
            effect,
            "compare with the server's own configuration; `dsv4 show` draws the right prompt",
            each.probe,
            _count_words(each.expected),
            _count_words(each.seen) + (f" ({refusal})" if refusal else ""),
            self._curl(next((o for o in self._observations if o.probe == each.probe), None)),
            own,
        )

    def _whose(self, each: Mismatch) -> str:
        """A sentence on whose prompt this may be, by its number of tokens."""
        for server in clean_servers() if each.probe in self._forecaster.requests else ():
            count = self._forecaster.count(server, each.probe)[1]
            if usual_count(count, server.server.special_text_acts) == each.seen:
                return f"such requests have as many tokens as with {server.server.server}"
        return "the prompt of such requests is not what any known server writes"

    def _billed(self, count: int | None) -> int | None:
        """The number that this server reports for a `count` of its own."""
        pattern = self._verdict.pattern
        return count if count is None or pattern is None else pattern(count)

    def _own_ways(self) -> Iterator[ServerFinding]:
        """Findings on the server's known behavior, each shown by a request of its own if possible.
        There are none if counts have a pattern."""
        used: set[str] = set()
        for way in self._possible_ways() if self._verdict.pattern is None else ():
            showing = [
                o
                for o in self._observations
                if o.probe not in self._failing and way.is_shown_by(o.probe, o.count)
            ]
            plainest = min(showing, key=lambda o: o.probe in used, default=None)
            if plainest is not None:
                used.add(plainest.probe)
                finding = self._finding(way.id, "differs", plainest, way.reference)
                words = f"{finding.seen}, as {way.server.server.server}"
                mend = KNOWN_EFFORTS if finding.group == "effort" else finding.mend
                yield replace(finding, seen=words, shown_by=(plainest.probe,), mend=mend)

    def _possible_ways(self) -> Iterator[OwnWay]:
        best = self._verdict.best
        if best is None:
            return
        named = {*self._verdict.faults, *self._verdict.possible}
        reference = released_server(best.hypothesis, self._forecaster)
        for id in OWN_WAYS[best.hypothesis.server.family]:
            if id not in named:
                yield OwnWay(id, best.hypothesis, reference, self._forecaster)

    def _unseen_ways(self) -> Iterator[str]:
        """The groups of known behavior of the server that no sent request could show."""
        sent_probes = {o.probe for o in self._observations}
        for way in self._possible_ways():
            showing = set(way.showing())
            if showing and (self._verdict.pattern is not None or not showing & sent_probes):
                yield FAULTS[way.id].group

    def _shown_by(self, other: Hypothesis | None, id: str) -> Observation | None:
        """The first observation that this fault may change and that the other server would not have
        given. One of the fault's own group is the plainest."""
        fault = FAULTS[id]
        if other is None or not (fault.variants or fault.family):
            return None
        own = sorted(self._observations, key=lambda o: _group(o) != fault.group)
        variant = fault_named(f"{id}/{fault.usual[0]}") if fault.family else fault_named(id)
        touched = self._forecaster.touched(variant)
        for observation in own:
            if observation.probe not in touched or is_mixed(observation.probe):
                continue
            is_forecast, count = self._forecaster.count(other, observation.probe)
            if is_forecast and usual_count(count, True) != observation.count:
                return observation
        return None

    def _finding(
        self,
        id: str,
        verdict: Standing,
        observation: Observation | None,
        other: Hypothesis | None = None,
    ) -> ServerFinding:
        fault = FAULTS[id]
        expected = ""
        other = other or self._clean
        if observation is not None and other is not None:
            count = self._forecaster.count(other, observation.probe)[1]
            expected = _count_words(self._billed(usual_count(count, True)))
        return ServerFinding(
            id,
            fault.group,
            verdict,
            fault.message,
            fault.effect,
            fault.mend,
            observation.probe if observation else "",
            expected,
            _count_words(observation.count) if observation else "",
            self._curl(observation),
        )

    def _curl(self, observation: Observation | None) -> str:
        if observation is None or observation.body is None:
            return ""
        return curl_line(self._url, self._model, observation.body)


def _shows_several(probe: str) -> bool:
    """Whether a probe is changed by faults of other groups too, so that it says little about its
    own group if other probes say more."""
    return is_mixed(probe) or (probe in PROBES and PROBES[probe].group == "safety")


def _group(observation: Observation) -> str:
    probe = PROBES.get(observation.probe)
    return probe.group if probe else ""


def _group_of(name: str) -> str:
    """The group that a request says something about. Once counting itself is believed, a text that
    is counted differently is a different text."""
    group = PROBES[name].group if name in PROBES else "prompt"
    return "content" if group == "counting" else group


def _requests(showing: Sequence[str], refused: Sequence[str] = ()) -> str:
    """The number of requests, in words."""
    if not showing:
        return f"{len(refused)} refusal{'s' * (len(refused) != 1)}"
    return f"{len(showing)} request{'s' * (len(showing) != 1)}"


def _count_words(count: int | None) -> str:
    return "a refusal" if count is None else f"{count:,} tokens"
