"""A run: probes are sent, deviations are asked again, and the answers become a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, Literal, TypeAlias

from dsv4._format.dialects import V4_1
from dsv4.profiles.fault_table import FAULTS
from dsv4.profiles.official_api import dialect_at
from dsv4.profiles.server_requests import SERVED_DIALECTS, Object, served_name
from dsv4.verify.answer_checks import answer_findings
from dsv4.verify.answer_rates import RATED
from dsv4.verify.billing import billing_findings
from dsv4.verify.choice import MOST_QUICK, QuickSearch
from dsv4.verify.doubts import MOST_REPEATS, MOST_REPEATS_QUICKLY, next_doubts
from dsv4.verify.explain import explain
from dsv4.verify.hypotheses import Forecaster, forecasts_of_probes
from dsv4.verify.observations import Observation
from dsv4.verify.output_checks import (
    adapted_finding,
    cache_findings,
    call_findings,
    other_routes,
    raw_findings,
)
from dsv4.verify.own_word import OWN_WORD_REQUESTS, OwnWord, own_word
from dsv4.verify.picture_checks import picture_findings
from dsv4.verify.probes import CROWDED, PROBES, Probe, probes, requests_of_probes, words
from dsv4.verify.prompt_routes import (
    QUICKLY_SHOWN,
    ROUTES,
    SHOWN_PROBES,
    ShowingRoute,
    loop_findings,
    order_findings,
    routes_of,
    shown_prompts,
)
from dsv4.verify.report import Findings, VerifyReport, without_key
from dsv4.verify.sending import (
    MOST_SILENCE,
    OWN_REQUEST,
    SETTLING_REQUESTS,
    Asking,
    BudgetSpent,
    Progress,
    Sender,
)
from dsv4.verify.server_client import HttpServer, Reply, ServerClient, ServerProblem
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding, curl_line
from dsv4.verify.token_budget import TokenBudget, TokensSpent, forecast_tokens
from dsv4.verify.token_counts import PromptCounter
from dsv4.verify.verdicts import ServerVerdict

RunMode: TypeAlias = Literal["quick", "default", "full"]
# Probes that say something about every group: what is counted at all, and by whom.
ALWAYS = ("plain", "tools-two", "rich")
# The first requests are sent one by one: after them it is known what the server accepts.
SENT_ALONE = 3

# The most requests and prompt tokens of a run; for a part of a run, the tokens of each request.
MOST_OF_A_RUN: Mapping[RunMode, tuple[int, int]] = {
    "quick": (42, 10_000),
    "default": (90, 20_000),
    "full": (152, 90_000),
}
TOKENS_OF_A_REQUEST = 250
# A request that shows that streams have no usage.
UNCOUNTED_STREAM = {
    **PROBES["plain"].request,
    **{"stream": True, "stream_options": {"include_usage": True}},
}


def run(
    client: ServerClient,
    model: str | None = None,
    *,
    mode: RunMode = "default",
    only: Collection[str] = (),
    request: Object | None = None,
    progress: Progress | None = None,
    forecaster: Forecaster | None = None,
    parallel: int = 1,
    tokens: int | None = None,
) -> VerifyReport:
    """Finds out what a server does with requests by sending some.

    `client` sends them; `model` is the name in them, by default the first that the server lists.
    `mode` is "quick", which chooses the next request by what it tells apart, "default", or "full",
    which also looks at caches. `only` names groups, for a part of a run. `request` is a body of
    your own to be counted too. `progress` is called with the number of requests that were sent, and
    of all. `forecaster` makes the forecasts; all runs of a process share those for the probes.
    `parallel` is how many requests may be under way together, except where each is chosen by the
    last. `tokens` is how many prompt tokens the run may cost at most, by default as `planned` says.

    Raises `ServerProblem` where nothing could be measured. `KeyboardInterrupt` ends the run, and
    the report says what was found until then.
    """
    forecaster = forecaster or _forecasts_with(request)
    most, most_tokens = planned(mode, only, request, forecaster.counter)
    budget = TokenBudget(most_tokens if tokens is None else tokens, forecaster.counter)
    sender = Sender(client, model or "", most, budget, progress)
    return ServerRun(sender, mode, only, request, forecaster, parallel).report()


def planned(
    mode: RunMode = "default",
    only: Collection[str] = (),
    request: Object | None = None,
    counter: PromptCounter | None = None,
) -> tuple[int, int]:
    """The most requests that a run sends, repeats included, and the most prompt tokens that they
    have. A `request` of your own is counted, by the `counter`."""
    requests, tokens = MOST_OF_A_RUN[mode]
    if only and mode != "quick":
        chosen = [probe for probe in probes() if probe.group in only or probe.id in ALWAYS]
        requests = sum(probe.repeats for probe in chosen) + MOST_REPEATS
        requests += OWN_WORD_REQUESTS + SETTLING_REQUESTS
        tokens = TOKENS_OF_A_REQUEST * requests
    if request is None:
        return requests, tokens
    return requests + 1, tokens + forecast_tokens(request, counter or PromptCounter())


class ServerRun:
    """One run over one server."""

    def __init__(
        self,
        sender: Sender,
        mode: RunMode,
        only: Collection[str],
        request: Object | None,
        forecaster: Forecaster,
        parallel: int = 1,
    ) -> None:
        self._sender, self._mode, self._parallel = sender, mode, parallel
        self._only, self._request, self._forecaster = only, request, forecaster
        self._word = OwnWord()
        self._planned_counts = 0
        self._shown_prompts: list[Observation] = []
        self._is_lost = False
        self._verdicts: dict[tuple[int, int], ServerVerdict] = {}
        self._notes: list[str] = []
        self._further: list[ServerFinding] = []
        self._last: tuple[str, Mapping[str, Any]] = CHAT, {}

    def report(self) -> VerifyReport:
        sender = self._sender
        try:
            self._ask_all_probes()
            if sender.silent < MOST_SILENCE and not sender.refuses_all:
                self._ask_again()
                self._look_further()
        except KeyboardInterrupt:
            self._notes.append("The run was interrupted: this is what was found until then.")
        except BudgetSpent:
            self._notes.append("All requests that were announced were sent: the run ended there.")
        url = sender.client.url
        if not any(o.tells for o in sender.observations) and not sender.adapted:
            first = next(iter(sender.failures), "nothing could be measured")
            raise ServerProblem(f"{url}: {first}")
        if sender.refuses_all:
            raise ServerProblem(f"{url}: every request was refused{sender.refusal}")
        return self._reported()

    def _ask_all_probes(self) -> None:
        self._word = own_word(self._sender.get, self._sender.model)
        self._sender.model = self._sender.model or self._word.model or "deepseek-v4"
        if self._mode == "quick":
            self._ask_quickly()
        else:
            self._ask_planned()
        if self._request is not None and self._sender.silent < MOST_SILENCE:
            self._sender.ask(Asking(Probe(OWN_REQUEST, "prompt", self._request)))

    @property
    def _own_word(self) -> OwnWord:
        return replace(self._word, fingerprint=self._sender.fingerprint)

    @property
    def _compared(self) -> list[Observation]:
        """The observations that say something about the server. Left out are refusals where
        `dsv4 heal` adapts requests, because they may be its own; failures that did not come again,
        because they were not the request's; and counts of 0 tokens where others are counted."""
        answered = {o.probe for o in self._sender.observations if o.count is not None}
        counts = any(o.count for o in self._sender.observations)
        return [
            o
            for o in self._sender.observations
            if not (o.refused and (self._sender.adapted or (o.failed and o.probe in answered)))
            and not (counts and o.count == 0)
        ]

    def _reported(self) -> VerifyReport:
        sender = self._sender
        verdict = self._verdict()
        maker = Findings(verdict, self._compared, self._forecaster, sender.client.url, sender.model)
        adapted = [adapted_finding(id, probe) for id, probe in sender.adapted.items()]
        findings = (*maker.all(), *adapted, *self._billing(verdict), *self._further)
        planned_counts = max(self._planned_counts, 1)
        report = VerifyReport(
            sender.client.url,
            sender.model,
            verdict,
            maker.groups(findings),
            findings,
            sender.client.requests
            if isinstance(sender.client, HttpServer)
            else sender.request_count,
            sender.budget.spent,
            sender.completion,
            tuple(self._evidence()),
            (*dict.fromkeys(self._notes), *self._unsent(), *self._failures()),
            too_little=len({o.probe for o in sender.observations if o.tells}) * 2 < planned_counts
            and not sender.adapted,
            own_word=self._own_word,
            first_token_seconds=sender.first_token,
            date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"),
        )
        return without_key(report, sender.key)

    def _billing(self, verdict: ServerVerdict) -> Iterator[ServerFinding]:
        """Findings on wrong bills, and on streams that are refused or not counted."""
        sender = self._sender
        for finding in billing_findings(sender.answers, sender.model, verdict, self._forecaster):
            body = PROBES[finding.probe].request if finding.probe in PROBES else None
            line = curl_line(sender.client.url, sender.model, body) if body is not None else ""
            yield replace(finding, curl=line)
        if sender.refuses_streams:
            yield check_finding("streams-refused")
        if sender.leaves_streams_uncounted:
            line = curl_line(sender.client.url, sender.model, UNCOUNTED_STREAM)
            yield replace(check_finding("billing-streams"), curl=line)

    def _unsent(self) -> Iterator[str]:
        """One sentence for all that was left out to stay within the budget of tokens."""
        names = list(dict.fromkeys(self._sender.unsent))
        if names:
            most = f"the {self._sender.budget.most:,} prompt tokens that were announced"
            yield f"Not sent, because they would have passed {most}: {', '.join(names)}."

    def _failures(self) -> Iterator[str]:
        """One sentence for all requests that got no count, with the reasons."""
        failed = self._sender.failures
        if failed:
            reasons = "; ".join(f"{reason} ({many})" for reason, many in failed.most_common())
            total = f"{failed.total()} of {self._sender.probe_count} requests"
            yield f"{total} got no count: {reasons}."

    def _verdict(self) -> ServerVerdict:
        """The verdict on everything seen so far. It is kept, because it is needed more than once
        and the search may take long."""
        key = len(self._sender.observations), len(self._shown_prompts)
        if key not in self._verdicts:
            self._verdicts[key] = self._new_verdict()
        return self._verdicts[key]

    def _new_verdict(self) -> ServerVerdict:
        """The verdict on the counts and the prompts that were shown. If the counts cannot be
        believed, the prompts decide; if the two do not fit together, the counts."""
        preferred = self._own_word.profiles
        by_address = dialect_at([self._sender.client.url], self._sender.model)
        why = partial(
            explain,
            forecaster=self._forecaster,
            preferred=preferred,
            dialect=None if by_address is None else SERVED_DIALECTS[served_name(by_address)].name,
        )
        observations = self._compared
        verdict = why(observations)
        if self._mode == "quick":
            verdict = _in_doubt(verdict, is_lost=self._is_lost)
        if not self._shown_prompts:
            return verdict
        if verdict.outcome == "void":
            by_prompt = why(self._shown_prompts)
            return replace(by_prompt, faults=tuple(sorted({*by_prompt.faults, *verdict.faults})))
        both = why([*observations, *self._shown_prompts])
        return both if both.outcome == "explained" else verdict

    def _evidence(self) -> Iterator[str]:
        observations, further = self._sender.observations, self._further
        if any(o.shows_prompt for o in (*observations, *self._shown_prompts)):
            yield "E0"
        if any(o.count is not None for o in observations):
            yield "E1"
        if any(o.cached is not None for o in observations):
            yield "E2"
        if self._mode != "quick" and not self._only:
            yield "E3"
        if any(f.probe in RATED and f.verdict in ("pass", "fault") for f in further):
            yield "E4"

    # The probes of a run.

    def _ask_planned(self) -> None:
        # The second time streamed, the third with a longer answer: the count is the same.
        askings = [
            Asking(probe, stream=n == 1, most=8 if n == 2 else 1)
            for probe in probes()
            if not self._only or probe.group in self._only or probe.id in ALWAYS
            for n in range(probe.repeats)
        ]
        self._planned_counts = len({each.probe.id for each in askings})
        for part, parallel in ((askings[:SENT_ALONE], 1), (askings[SENT_ALONE:], self._parallel)):
            for _ in self._sender.ask_all(part, parallel):
                pass
            if self._sender.silent >= MOST_SILENCE:
                self._notes.append("The server stopped answering: the run ended there.")
                return

    def _ask_quickly(self) -> None:
        search = QuickSearch(self._forecaster)
        names = [OWN_REQUEST]
        while len(names) <= MOST_QUICK and self._sender.silent < MOST_SILENCE:
            probe = search.next(names)
            if probe is None:
                break
            names.append(probe)
            observation = self._ask_one(probe)
            if observation.tells:
                search.narrow(observation)
        if search.may_be_clean and CROWDED not in names:
            self._ask_one(CROWDED)
        self._is_lost = search.is_lost
        if search.is_lost:
            self._notes.append("Nothing simple explains this: the default run looks closer.")
        elif search.next(names) is not None:
            self._notes.append("Other faults are possible: --quick did not look for all of them.")

    def _ask_one(self, probe: str) -> Observation:
        """Sends one probe. Only the one with everything in it is streamed, unless the server shows
        prompts as ids."""
        self._planned_counts += 1
        is_streamed = probe == CROWDED and not self._sender.shows_ids
        return self._sender.ask(Asking(PROBES[probe], stream=is_streamed))

    def _ask_again(self) -> None:
        """Sends requests again whose answers deviate, before any fault is named."""
        most = MOST_REPEATS
        if self._mode == "quick":
            most = 1 if self._is_lost else MOST_REPEATS_QUICKLY
        repeats = 0
        while repeats < most and self._sender.silent < MOST_SILENCE:
            doubts = next_doubts(
                self._verdict(),
                self._compared,
                self._forecaster,
                most - repeats,
                quick=self._mode == "quick",
            )
            if not doubts:
                return
            repeats += len(doubts)
            for _ in self._sender.ask_all([Asking(probe) for probe in doubts]):
                pass

    # Further checks.

    def _look_further(self) -> None:
        def post(path: str, body: Mapping[str, Any]) -> Reply:
            self._last = path, body
            return self._sender.post(path, {"model": self._sender.model, **body})

        if self._only:
            return
        for name, findings in self._looks(post):
            try:
                for finding in findings:
                    self._further.append(finding)
            except TokensSpent:
                self._sender.unsent.append(name)

    def _looks(self, post: Post) -> Iterator[tuple[str, Iterable[ServerFinding]]]:
        """The further checks of this run, each with a name."""
        if self._mode == "quick":
            yield "prompts", self._look_at_prompts(post, QUICKLY_SHOWN)
            return
        is_void = self._verdict().outcome == "void"
        if is_void:  # so prompts decide, which may take the rest of the budget
            yield "prompts", self._look_at_prompts(post)
        plain = [
            o.count for o in self._sender.observations if o.probe == "plain" and o.count is not None
        ]
        counter, full = self._forecaster.counter, self._mode == "full"
        yield "calls", self._shown_by_last(call_findings(post))
        yield "protocols", self._shown_by_last(other_routes(post, plain))
        yield "raw", self._shown_by_last(raw_findings(post, counter, full=full))
        if full:
            yield "answers", self._shown_by_last(answer_findings(post))
            yield "cache", self._shown_by_last(cache_findings(post, words(2_000)))
        yield "pictures", self._look_at_pictures(post, plain)
        if full and not is_void:
            yield "prompts", self._look_at_prompts(post)
        best = self._verdict().best
        if full and self._verdict().outcome == "explained" and best:
            server = best.hypothesis
            yield "orders", self._shown_by_last(order_findings(post, server, self._forecaster))
            yield "loop", self._shown_by_last(loop_findings(post, server, self._forecaster))

    def _look_at_prompts(
        self, post: Post, names: Sequence[str] = SHOWN_PROBES
    ) -> Iterator[ServerFinding]:
        """Looks at the prompts themselves, unless an answer showed them. A quick run needs them
        only if counts leave the server open, and asks only if the server names itself."""
        verdict = self._verdict()
        is_certain = verdict.outcome == "explained" and not verdict.alternatives
        routes: Sequence[ShowingRoute] = ROUTES
        if self._mode == "quick":
            routes = () if is_certain else routes_of(self._own_word.profiles)
        if not any(o.shows_prompt for o in self._sender.observations):
            for shown in shown_prompts(post, self._forecaster, names, routes):
                self._shown_prompts.append(shown)
        yield from ()

    def _look_at_pictures(self, post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
        """Checks the cost of pictures, on a server of the model that sees them."""
        best = self._verdict().best
        if best is not None and best.hypothesis.texts == V4_1.name and not best.added:
            yield from self._shown_by_last(picture_findings(post, plain))

    def _shown_by_last(self, findings: Iterable[ServerFinding]) -> Iterator[ServerFinding]:
        """Findings with the request that shows each, which is the last one before it."""
        for finding in findings:
            if finding.verdict in ("fault", "differs"):
                path, body = self._last
                line = curl_line(self._sender.client.url, self._sender.model, body, path)
                yield replace(finding, curl=line)
            else:
                yield finding


def _in_doubt(verdict: ServerVerdict, *, is_lost: bool) -> ServerVerdict:
    """The verdict of few requests. Two faults that compensate for each other explain most of those,
    so several faults together are possible, not certain. If the search is lost, even a single fault
    is only possible, because each of them was tried."""
    best = verdict.best
    ours = {id for id in (best.faults if best else ()) if FAULTS[id].changes_prompts}
    if verdict.outcome != "explained" or len(ours) < (1 if is_lost else 2):
        return verdict
    doubtful = {*ours, "counts-offset", "counts-include-completion"} & {*verdict.faults, *ours}
    certain = tuple(id for id in verdict.faults if id not in doubtful)
    possible = tuple(sorted({*verdict.possible, *doubtful}))
    # A server with several faults, of which none is certain, is only the nearest.
    outcome = verdict.outcome if certain or len(ours) < 2 else "not explained"
    return replace(verdict, outcome=outcome, faults=certain, possible=possible)


def _forecasts_with(request: Object | None) -> Forecaster:
    """The forecasts for the probes, and for the user's own request."""
    if request is None:
        return forecasts_of_probes()
    return Forecaster({**requests_of_probes(), OWN_REQUEST: request})
