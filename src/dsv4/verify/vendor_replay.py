"""Recorded requests, sent to another server: how often its answers are of the same kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dsv4.profiles.server_requests import Object
from dsv4.schema import has_type, possible_types, properties_of, required_of
from dsv4.verify.answer_rates import wilson
from dsv4.verify.answers import ServerAnswer, value_at, whole_answer
from dsv4.verify.recorded import logged_answer, logged_request
from dsv4.verify.report import CHAT
from dsv4.verify.server_client import Reply, ServerClient, ServerProblem

# After so many requests in a row without an answer, the rest is not sent.
MOST_SILENCE = 3


@dataclass(frozen=True)
class ReplayPair:
    """A request with the answer that was recorded, where one was."""

    body: Object
    answer: ServerAnswer | None


@dataclass
class ReplayRate:
    """How often something holds, of how many that it can be said of."""

    holds: int = 0
    of: int = 0

    def add(self, holds: bool) -> None:
        self.of += 1
        self.holds += holds

    def to_dict(self) -> dict[str, Any]:
        """The rate with its interval at 95 %, as JSON has it."""
        interval = [round(each, 4) for each in wilson(self.holds, self.of)] if self.of else None
        return {"holds": self.holds, "of": self.of, "interval": interval}


RATES = {
    "answered": "requests that were answered",
    "same_finish": "answers that end for the same reason",
    "same_kind": "answers that call where the recorded one did, and only there",
    "same_tools": "answers with calls whose tools are the same, where both call",
    "valid_calls": "calls that are valid by their schemas",
    "recorded_valid_calls": "calls that are valid by their schemas, in the recording",
}


@dataclass
class ReplayReport:
    """What another server made of recorded requests. `finishes` are the reasons for which answers
    ended, those recorded and its own; `problems` why requests got no answer."""

    url: str
    model: str
    rates: dict[str, ReplayRate] = field(
        default_factory=lambda: {name: ReplayRate() for name in RATES}
    )
    finishes: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "url": self.url,
            "model": self.model,
            "rates": {name: rate.to_dict() for name, rate in self.rates.items()},
            "finishes": [
                {"recorded": was, "now": now, "answers": many}
                for (was, now), many in self.finishes.most_common()
            ],
            "problems": dict(self.problems.most_common()),
        }


def replay_pairs(rows: Iterable[object], most: int) -> Iterator[ReplayPair]:
    """The requests of a log, at most so many, with their answers."""
    requests = ((row, logged_request(row)) for row in rows)
    pairs = (ReplayPair(each.body, logged_answer(row)) for row, each in requests if each)
    return islice(pairs, most)


def replay_against(client: ServerClient, pairs: Iterable[ReplayPair], model: str) -> ReplayReport:
    """The report on a server that gets these requests, each once and whole.

    Raises `ServerProblem` where it answers none of the first.
    """
    report, silent = ReplayReport(client.url, model), 0
    for pair in pairs:
        body = {k: v for k, v in pair.body.items() if k not in ("stream", "stream_options")}
        reply = client.post(CHAT, {**body, "model": model})
        answer = whole_answer(reply)
        report.rates["answered"].add(answer is not None)
        if answer is not None:
            silent = 0
            _compare(report, pair, answer)
            continue
        silent += 1
        report.problems[_problem(reply)] += 1
        if silent >= MOST_SILENCE:
            if not report.rates["answered"].holds:
                raise ServerProblem(f"{client.url}: {_problem(reply)}")
            break
    return report


def _compare(report: ReplayReport, pair: ReplayPair, answer: ServerAnswer) -> None:
    rates, recorded, tools = report.rates, pair.answer, _schemas(pair.body)
    for call in answer.read_calls:
        rates["valid_calls"].add(_is_valid(call, tools))
    if recorded is None:
        return
    for call in recorded.read_calls:
        rates["recorded_valid_calls"].add(_is_valid(call, tools))
    report.finishes[recorded.finish or "?", answer.finish or "?"] += 1
    rates["same_finish"].add(recorded.finish == answer.finish)
    rates["same_kind"].add(bool(recorded.calls) == bool(answer.calls))
    if recorded.calls and answer.calls:
        names = [sorted(name for name, _ in each.calls) for each in (recorded, answer)]
        rates["same_tools"].add(names[0] == names[1])


def _schemas(body: Object) -> dict[str, Any]:
    tools = body.get("tools")
    functions = [value_at(tool, "function") for tool in tools] if isinstance(tools, list) else []
    return {str(value_at(f, "name")): value_at(f, "parameters") for f in functions}


def _is_valid(call: tuple[str, Any], schemas: Mapping[str, Any]) -> bool:
    """Whether a call is of a tool that there is, with what it requires, in the right types."""
    name, arguments = call
    if name not in schemas or not isinstance(arguments, dict):
        return False
    schema = schemas[name]
    properties = properties_of(schema)
    if any(key not in arguments for key in required_of(schema)):
        return False
    if value_at(schema, "additionalProperties") is False and arguments.keys() - properties.keys():
        return False
    return all(
        has_type(value, possible_types(properties[key], schema))
        for key, value in arguments.items()
        if key in properties
    )


def _problem(reply: Reply) -> str:
    return reply.problem or f"status {reply.status}"
