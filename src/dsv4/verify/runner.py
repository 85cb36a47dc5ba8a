"""A run: probes are sent, one after the other, and what comes back becomes a report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

from dsv4.profiles.server_requests import Object
from dsv4.verify.answer_checks import ANSWER_REQUESTS, answer_findings
from dsv4.verify.answer_rates import RATED
from dsv4.verify.answers import value_at
from dsv4.verify.choice import MOST_QUICK, QuickSearch
from dsv4.verify.explain import ServerVerdict, explain
from dsv4.verify.forced_rows import FORCED_REQUESTS, forced_findings
from dsv4.verify.forcing import forcing_way
from dsv4.verify.hypotheses import Forecaster
from dsv4.verify.kept_counts import KeptForecaster, kept_forecasts
from dsv4.verify.observations import Observation
from dsv4.verify.output_checks import cache_finding, call_findings, other_routes
from dsv4.verify.probes import PROBES, Probe, probes, words
from dsv4.verify.prompt_routes import (
    LOOP_TURNS,
    ORDERS,
    QUICKLY_SHOWN,
    ROUTES,
    SHOWN_PROBES,
    loop_findings,
    order_findings,
    shown_prompts,
)
from dsv4.verify.raw_checks import RAW_REQUESTS, raw_findings
from dsv4.verify.report import (
    CHAT,
    Findings,
    Post,
    ServerFinding,
    VerifyReport,
    adapted_finding,
    curl_line,
    struck_out,
    without_key,
)
from dsv4.verify.server_client import HttpServer, Reply, ServerClient, ServerProblem

RunMode: TypeAlias = Literal["quick", "default", "full"]
# After so many requests in a row without an answer, a run ends with what it has.
MOST_SILENCE = 3
# Probes that say something about every group: what is counted at all, and by whom.
ALWAYS = ("plain", "tools-two", "rich")
MOST_TOKENS = 1_000_000_000
# Characters of what a server says for itself.
MOST_WORDS = 200
# The name of a request that is the user's and no probe.
OWN_REQUEST = "request"

# What a full run adds: caches, forced completions, what comes back, prompts that are shown.
FULL_REQUESTS = (
    *(3, FORCED_REQUESTS, ANSWER_REQUESTS, RAW_REQUESTS, 2 * len(ORDERS), LOOP_TURNS),
    *(len(ROUTES), len(SHOWN_PROBES)),
)
FULL_TOKENS = 52_000

Progress: TypeAlias = Callable[[int, int], None]


def run(
    client: ServerClient,
    model: str = "deepseek-v4",
    *,
    mode: RunMode = "default",
    only: Collection[str] = (),
    request: Object | None = None,
    progress: Progress | None = None,
    forecaster: Forecaster | None = None,
) -> VerifyReport:
    """What a server does with requests, found out by sending some.

    `client` sends them; `model` is the name in them. `mode` is "quick", which chooses the next
    request by what it tells apart, "default", or "full", which also looks at caches. `only` names
    groups, for a part of it. `request` is a body of your own to be counted too. `progress` is
    called with the number of requests that were sent, and of all. `forecaster` makes the forecasts;
    without one their counts are kept in the user's cache folder.

    Raises `ServerProblem` where nothing could be measured. `KeyboardInterrupt` ends the run, and
    the report says what was found until then.
    """
    return ServerRun(client, model, mode, only, request, progress, forecaster).report()


def planned(mode: RunMode = "default", only: Collection[str] = ()) -> tuple[int, int]:
    """How many requests a run sends at most, and about how many prompt tokens that are."""
    if mode == "quick":
        return MOST_QUICK + 1 + len(ROUTES) + len(QUICKLY_SHOWN), 300 * MOST_QUICK
    chosen = [probe for probe in probes() if not only or probe.group in only or probe.id in ALWAYS]
    sent = sum(probe.repeats for probe in chosen)
    tokens = 12_500 if not only else 250 * sent
    if not only:
        sent += 7
        tokens += 1_200
    if mode == "full":
        sent, tokens = sent + sum(FULL_REQUESTS), tokens + FULL_TOKENS
    return sent, tokens


class ServerRun:
    """One run over one server."""

    def __init__(
        self,
        client: ServerClient,
        model: str,
        mode: RunMode,
        only: Collection[str],
        request: Object | None,
        progress: Progress | None,
        forecaster: Forecaster | None,
    ) -> None:
        self._client, self._model, self._mode = client, model, mode
        self._only, self._request = only, request
        self._progress = progress or (lambda done, of: None)
        self._forecaster = forecaster or _forecasts_with(request)
        self._planned = planned(mode, only)[0]
        self._seen: list[Observation] = []
        self._shown: list[Observation] = []
        self._verdicts: dict[tuple[int, int], ServerVerdict] = {}
        self._notes: list[str] = []
        self._sent = self._silent = 0
        self._tokens = self._completion = 0
        self._asks_for_ids = True
        self._shows_ids = False
        self._last: tuple[str, Mapping[str, Any]] = CHAT, {}
        self._refusal = ""
        self._key = client.key if isinstance(client, HttpServer) else ""
        self._adapted: dict[str, Probe] = {}

    def report(self) -> VerifyReport:
        findings: list[ServerFinding] = []
        try:
            if self._mode == "quick":
                self._ask_quickly()
            else:
                self._ask_all()
            if self._request is not None:
                self._ask(Probe(OWN_REQUEST, "prompt", self._request))
            if self._silent < MOST_SILENCE and not self._refuses_all:
                findings = self._look_further()
        except KeyboardInterrupt:
            self._notes.append("The run was interrupted: this is what was found until then.")
        if not any(o.tells for o in self._seen) and not self._tokens:
            first = self._notes[0].partition(": ")[2] if self._notes else ""
            raise ServerProblem(f"{self._client.url}: {first or 'nothing could be measured'}")
        if self._refuses_all:
            raise ServerProblem(f"{self._client.url}: every request was refused{self._refusal}")
        return self._reported(findings)

    @property
    def _refuses_all(self) -> bool:
        return bool(self._seen) and all(o.refused for o in self._seen)

    @property
    def _compared(self) -> list[Observation]:
        """What tells of the server. Where `dsv4 heal` adapts requests, a refusal may be its own."""
        return [o for o in self._seen if not (self._adapted and o.refused)]

    def _reported(self, further: list[ServerFinding]) -> VerifyReport:
        verdict = self._verdict()
        maker = Findings(verdict, self._compared, self._forecaster, self._client.url, self._model)
        adapted = [adapted_finding(id, probe) for id, probe in self._adapted.items()]
        findings = (*maker.all(), *adapted, *further)
        report = VerifyReport(
            self._client.url,
            self._model,
            verdict,
            maker.groups(findings),
            findings,
            self._sent,
            self._tokens,
            self._completion,
            tuple(self._evidence(further)),
            tuple(dict.fromkeys(self._notes)),
        )
        return without_key(report, self._key)

    def _verdict(self) -> ServerVerdict:
        """What explains all that was seen so far. It is asked for more than once, and may have
        taken a long search."""
        key = len(self._seen), len(self._shown)
        if key not in self._verdicts:
            self._verdicts[key] = self._new_verdict()
        return self._verdicts[key]

    def _new_verdict(self) -> ServerVerdict:
        """What explains the counts, and the prompts that were shown. Where the counts are not to be
        believed, the prompts decide; where both do not fit, the counts."""
        seen = self._compared
        verdict = explain(seen, forecaster=self._forecaster)
        if not self._shown:
            return verdict
        if verdict.outcome == "void":
            by_prompt = explain(self._shown, forecaster=self._forecaster)
            return replace(by_prompt, faults=tuple(sorted({*by_prompt.faults, *verdict.faults})))
        both = explain([*seen, *self._shown], forecaster=self._forecaster)
        return both if both.outcome == "explained" else verdict

    def _evidence(self, further: list[ServerFinding]) -> Iterator[str]:
        if any(o.shows_prompt for o in (*self._seen, *self._shown)):
            yield "E0"
        if any(o.count is not None for o in self._seen):
            yield "E1"
        if any(o.cached is not None for o in self._seen):
            yield "E2"
        if self._mode != "quick" and not self._only:
            yield "E3"
        if any(f.id in ("forced-read", "forced-misread") for f in further):
            yield "E3f"
        if any(f.probe in RATED and f.verdict in ("pass", "fault") for f in further):
            yield "E4"

    # Which probes are sent.

    def _ask_all(self) -> None:
        for probe in probes():
            if self._only and probe.group not in self._only and probe.id not in ALWAYS:
                continue
            for n in range(probe.repeats):
                # The second time streamed, the third with a longer answer: the count is the same.
                self._ask(probe, stream=n == 1, most=8 if n == 2 else 1)
                if self._silent >= MOST_SILENCE:
                    self._notes.append("The server stopped answering: the run ended there.")
                    return

    def _ask_quickly(self) -> None:
        search = QuickSearch(self._forecaster)
        asked = [OWN_REQUEST]
        while len(asked) <= MOST_QUICK and self._silent < MOST_SILENCE:
            probe = search.next(asked)
            if probe is None:
                break
            asked.append(probe)
            found = self._ask(PROBES[probe])
            if found.tells:
                search.narrow(found)
        if search.next(asked) is not None:
            self._notes.append("Other faults are possible: --quick did not look for all of them.")

    # One request.

    def _ask(self, probe: Probe, *, stream: bool = False, most: int = 1) -> Observation:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": most,
            "temperature": 0,
            **probe.request,
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        elif self._asks_for_ids:
            body["return_token_ids"] = True
        reply = self.post(CHAT, body)
        if "return_token_ids" in body:
            reply = self._with_or_without_ids(reply, body)
        self._check_first(reply)
        if reply.refused:
            self._refusal = self._words_of(reply)
        observation = observed(probe.id, reply)
        if reply.adapted:
            return self._set_aside(probe, reply.adapted, observation)
        if probe.id == OWN_REQUEST:
            observation = replace(observation, request=probe.request)
        self._silent = 0 if observation.tells else self._silent + 1
        if observation.note:
            self._notes.append(f"{probe.id}: {observation.note}")
        self._tokens += observation.count or 0
        self._completion += observation.completion_tokens
        self._seen.append(observation)
        return observation

    def _set_aside(
        self, probe: Probe, adapted: Sequence[str], observation: Observation
    ) -> Observation:
        """`dsv4 heal` changed the request and says so: the count is another one's, and tells
        nothing of this one."""
        for id in adapted:
            self._adapted.setdefault(id, probe)
        self._silent = 0
        self._tokens += observation.count or 0
        self._completion += observation.completion_tokens
        return Observation(probe.id)

    def _with_or_without_ids(self, reply: Reply, body: dict[str, Any]) -> Reply:
        """The reply to a request for ids. Until they were seen, a refusal may mean the asking."""
        if _ids(reply):
            self._shows_ids = True
        elif not self._shows_ids and not reply.refused:
            self._asks_for_ids = False
        elif not self._shows_ids:
            del body["return_token_ids"]
            reply = self.post(CHAT, body)
            self._asks_for_ids = reply.refused
        return reply

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` sent to a `path`, counted as a request of this run."""
        self._sent += 1
        self._progress(self._sent, max(self._planned, self._sent))
        reply = self._client.post(path, body)
        if reply.status in (500, 502) and not reply.problem:
            again = self._client.post(path, body)
            self._sent += 1
            return again
        return reply

    def _check_first(self, reply: Reply) -> None:
        """Problems that no other request will do without."""
        if any(o.tells for o in self._seen):
            return
        if reply.status in (401, 403):
            raise ServerProblem(f"the server does not accept the key (status {reply.status})")
        if reply.status in (404, 405):
            where = f"{self._client.url}{CHAT}"
            said = self._words_of(reply)
            what = "the server knows no such model or route" if said else "no chat route"
            raise ServerProblem(f"{what} at {where} (status {reply.status}){said}")
        if reply.problem and not reply.status:
            raise ServerProblem(f"{self._client.url}: {reply.problem}")

    def _words_of(self, reply: Reply) -> str:
        """What a server says of a request that it does not take, as the end of a sentence."""
        for path in (("error", "message"), ("error",), ("message",), ("detail",)):
            said = value_at(reply.body, *path)
            if isinstance(said, str) and said.strip():
                return f": {struck_out(' '.join(said.split()), self._key)[:MOST_WORDS]}"
        return ""

    # What else can be looked at.

    def _look_further(self) -> list[ServerFinding]:
        def post(path: str, body: Mapping[str, Any]) -> Reply:
            self._last = path, body
            return self.post(path, {"model": self._model, **body})

        if self._mode == "quick":
            self._look_at_prompts(post)
            return []
        return [] if self._only else self._look_at_all(post)

    def _look_at_prompts(self, post: Post) -> None:
        """The prompt itself, where counts leave open whose it is."""
        verdict = self._verdict()
        is_certain = verdict.outcome == "explained" and not verdict.alternatives
        if not is_certain and not any(o.shows_prompt for o in self._seen):
            self._shown = list(shown_prompts(post, self._forecaster, QUICKLY_SHOWN))

    def _look_at_all(self, post: Post) -> list[ServerFinding]:
        plain = [o.count for o in self._seen if o.probe == "plain" and o.count is not None]
        full = self._mode == "full"
        findings = [*self._shown_by_last(call_findings(post))]
        findings += self._shown_by_last(other_routes(post, plain))
        findings += self._shown_by_last(raw_findings(post, self._forecaster.counter, full=full))
        if full:
            way = forcing_way(post)
            findings += self._shown_by_last(answer_findings(post, way))
            findings += forced_findings(
                post, way, partial(curl_line, self._client.url, self._model)
            )
            findings += self._shown_by_last([cache_finding(post, words(2_000))])
        verdict = self._verdict()
        looks = full or verdict.outcome == "void"
        if looks and not any(o.shows_prompt for o in self._seen):
            self._shown = list(shown_prompts(post, self._forecaster))
        if full and verdict.outcome == "explained" and verdict.best:
            best = verdict.best.hypothesis
            findings += self._shown_by_last(order_findings(post, best, self._forecaster))
            findings += self._shown_by_last(loop_findings(post, best, self._forecaster))
        return findings

    def _shown_by_last(self, found: Iterable[ServerFinding]) -> Iterator[ServerFinding]:
        """Findings with the request that shows each, which is the last one before it."""
        for finding in found:
            if finding.verdict in ("fault", "differs"):
                path, body = self._last
                line = curl_line(self._client.url, self._model, body, path)
                yield replace(finding, curl=line)
            else:
                yield finding


def _forecasts_with(request: Object | None) -> Forecaster:
    """The forecasts for the probes, and for a request of one's own."""
    return kept_forecasts() if request is None else KeptForecaster({OWN_REQUEST: request})


def observed(probe: str, reply: Reply) -> Observation:
    """What a reply says of the prompt."""
    if reply.refused:
        return Observation(probe, refused=True)
    if reply.problem or not 200 <= reply.status < 300:
        return Observation(probe, note=reply.problem or f"status {reply.status}")
    usage = usage_of(reply)
    count = token_number(usage.get("prompt_tokens"))
    if count is None:
        return Observation(probe, note="the answer does not say how many tokens the prompt had")
    details = usage.get("prompt_tokens_details")
    cached = token_number(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Observation(
        probe,
        count,
        completion_tokens=token_number(usage.get("completion_tokens")) or 0,
        cached=cached,
        ids=_ids(reply),
    )


def usage_of(reply: Reply) -> Mapping[str, Any]:
    """The usage of a reply, whole or streamed; empty where it has none."""
    for found in (reply.body, *reversed(reply.events)):
        usage = found.get("usage") if isinstance(found, dict) else None
        if isinstance(usage, dict):
            return usage
    return {}


def token_number(value: object) -> int | None:
    """A number of tokens; None for anything that cannot be one."""
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def _ids(reply: Reply) -> tuple[int, ...] | None:
    body = reply.body if isinstance(reply.body, dict) else {}
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    for place in (body, first):
        ids = place.get("prompt_token_ids") if isinstance(place, dict) else None
        if isinstance(ids, list) and ids and all(type(id) is int for id in ids):
            return tuple(ids)
    return None
