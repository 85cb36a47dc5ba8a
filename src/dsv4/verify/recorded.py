"""Logs of requests with their usage, as observations: nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from dsv4._format.dialects import V4_1
from dsv4.api.protocols import convert
from dsv4.api.request_fields import maybe_json
from dsv4.errors import Error
from dsv4.profiles.server_requests import Object
from dsv4.verify.answers import cached_tokens, completion_tokens, prompt_tokens
from dsv4.verify.explain import explain
from dsv4.verify.hypotheses import Forecaster
from dsv4.verify.observations import Observation
from dsv4.verify.report import Findings, VerifyReport

# The most requests that are looked at: more would not tell more.
MOST_RECORDED = 200
_REQUESTS = ("request", "body", "request_body", "input")
_RESPONSES = ("response", "response_body", "output")


def recorded(lines: Iterable[str]) -> Iterator[Observation]:
    """The observations in a log.

    `lines` are JSON lines: records of this project, pairs of an OpenAI-style request and response,
    or LiteLLM's logs. Lines without a request are skipped, as are those that have neither the count
    of its prompt nor the prompt itself, which records of this project have.
    """
    for number, line in enumerate(lines, 1):
        observation = _observation(line, f"line-{number}")
        if observation is not None:
            yield observation


def explain_recorded(lines: Iterable[str], forecaster: Forecaster | None = None) -> VerifyReport:
    """The report of a log, as `run` gives it for a server.

    `lines` are as for `recorded`; `forecaster` is for tests. The report has no text of the log.
    """
    observations = list(islice(recorded(lines), MOST_RECORDED))
    requests: dict[str, Object] = {o.probe: o.request or {} for o in observations}
    counter = forecaster.counter if forecaster is not None else None
    own = Forecaster(requests, counter)
    observations = [_counted(observation, own) for observation in observations]
    verdict = explain(observations, forecaster=own)
    maker = Findings(verdict, (), own)
    findings = maker.all()
    groups = maker.groups(findings)
    if observations and verdict.outcome == "explained":
        groups["prompt"] = "fault" if verdict.faults else "pass"
    has_prompts = any(o.shows_prompt for o in observations)
    evidence = ("E0",) if has_prompts else ("E1",) if observations else ()
    tokens = sum(o.count or 0 for o in observations)
    return VerifyReport(
        "", "", verdict, groups, findings, len(observations), tokens, 0, evidence, ()
    )


def _counted(observation: Observation, forecaster: Forecaster) -> Observation:
    """An observation with a count: a prompt without one is counted here."""
    if observation.prompt is None or observation.count is not None:
        return observation
    return replace(
        observation, count=forecaster.counter.count(observation.prompt, V4_1, frozenset())
    )


def _observation(line: str, name: str) -> Observation | None:
    logged = logged_request(maybe_json(line))
    if logged is None or (logged.count is None and logged.prompt is None):
        return None
    return Observation(
        name,
        logged.count,
        completion_tokens=logged.completion_tokens,
        prompt=logged.prompt,
        request=logged.body,
    )


@dataclass(frozen=True)
class LoggedRequest:
    """A request of a log, as a Chat request, with its tokens according to the log: those of the
    prompt, of the answer, and the cached ones; or the `prompt` itself."""

    body: Object
    count: int | None = None
    completion_tokens: int = 0
    cached: int | None = None
    prompt: str | None = None


def logged_request(row: object) -> LoggedRequest | None:
    """The request in a line of a log; None where there is none."""
    if not isinstance(row, dict):
        return None
    request = _first(row, _REQUESTS) or (row if "messages" in row or "input" in row else None)
    body = _chat_body(request, row.get("protocol"))
    if body is None:
        return None
    usage = _usage(_first(row, _RESPONSES) or {}) or _usage(row) or {}
    count = prompt_tokens(usage)
    if count is not None:
        answer = completion_tokens(usage) or 0
        return LoggedRequest(body, count, answer, cached_tokens(usage))
    prompt_text = row.get("prompt") if "protocol" in row else None
    return LoggedRequest(body, prompt=prompt_text if isinstance(prompt_text, str) else None)


def _usage(holder: dict[str, Any]) -> dict[str, Any] | None:
    usage = holder.get("usage")
    fields = usage if isinstance(usage, dict) else holder
    return fields if "prompt_tokens" in fields or "input_tokens" in fields else None


def _first(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    for name in names:
        value = row.get(name)
        value = maybe_json(value) if isinstance(value, str) else value
        if isinstance(value, dict):
            return value
    return None


def _chat_body(request: dict[str, Any] | None, protocol: object = None) -> Object | None:
    """The request as a Chat request."""
    if request is None:
        return None
    try:
        if protocol == "responses" or ("input" in request and "messages" not in request):
            return convert(request, "responses", "chat")
        if protocol == "messages" or "system" in request or "anthropic_version" in request:
            return convert(request, "messages", "chat")
    except Error:
        return None
    return request if isinstance(request.get("messages"), list) else None
