"""The share of answers that are as requested: the same request is sent several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from dsv4.api.request_fields import maybe_json
from dsv4.schema import has_type
from dsv4.verify.answers import ServerAnswer, streamed_answer, whole_answer
from dsv4.verify.output_checks import follows_schema
from dsv4.verify.probes import WEATHER
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding


# The fields that switch thinking on or off, as every server spells them.
def _mode_fields(thinking: bool) -> Mapping[str, Any]:
    switches = {"type": "enabled" if thinking else "disabled"}, {"thinking": thinking}
    return {"thinking": switches[0], "chat_template_kwargs": switches[1], "temperature": 0}


NOT_THINKING, THINKING = _mode_fields(False), _mode_fields(True)
# The number of requests for one rate: every second one is streamed.
TRIALS = 6
# With fewer answers that can be judged, no fault is reported.
LEAST_JUDGED = 3


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The confidence interval of a rate, at 95 %."""
    z, share = 1.96, successes / trials
    middle = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def rate_words(successes: int, trials: int) -> str:
    """A rate with its interval."""
    low, high = wilson(successes, trials)
    return f"{successes} of {trials} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True)
class AnswerRate:
    """Something that should hold of every answer to one request.

    `holds` says whether it does for an answer; None where that is open, as for one that was cut.
    """

    probe: str
    body: Mapping[str, Any]
    holds: Callable[[ServerAnswer], bool | None]


_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "number": {"type": "integer"}},
    "required": ["answer", "number"],
    "additionalProperties": False,
}
_FORM = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "strict": True, "schema": _SCHEMA},
}


def _asking(text: str, **fields: Any) -> dict[str, Any]:
    sampled = {**NOT_THINKING, "temperature": 1}
    return {"messages": [{"role": "user", "content": text}], **sampled, "max_tokens": 200, **fields}


def _follows_schema(answer: ServerAnswer) -> bool | None:
    if answer.finish == "length":
        return None
    value = maybe_json(answer.content)
    return (
        isinstance(value, dict)
        and value.keys() == {"answer", "number"}
        and has_type(value["answer"], ["string"])
        and has_type(value["number"], ["integer"])
    )


def _is_object(answer: ServerAnswer) -> bool | None:
    return None if answer.finish == "length" else isinstance(maybe_json(answer.content), dict)


def _is_right_call(answer: ServerAnswer) -> bool | None:
    """Whether all calls can be run; None without a call, because whether to call is up to the
    model."""
    if answer.leaks_markup:
        return False
    if answer.finish == "length" or not answer.calls:
        return None
    return all(
        name == "weather" and follows_schema(arguments) for name, arguments in answer.read_calls
    )


def _is_forced_call(answer: ServerAnswer) -> bool | None:
    if answer.finish == "length":
        return None
    return bool(answer.calls) and _is_right_call(answer) is True


_TOOLS = {"tools": [WEATHER]}
RATES = (
    AnswerRate(
        "schema",
        _asking("Answer in json: what is six by seven?", response_format=_FORM),
        _follows_schema,
    ),
    AnswerRate(
        "json",
        _asking("Reply with a json object.", response_format={"type": "json_object"}),
        _is_object,
    ),
    AnswerRate(
        "calls-often", _asking("Call the tool weather for Paris, now.", **_TOOLS), _is_right_call
    ),
    AnswerRate(
        "calls-required",
        _asking("What is the weather in Paris?", tool_choice="required", **_TOOLS),
        _is_forced_call,
    ),
)
RATED = frozenset(rate.probe for rate in RATES)


def rate_findings(post: Post) -> Iterator[ServerFinding]:
    """All rates, one after the other."""
    for rate in RATES:
        yield _finding(rate, post)


def _finding(rate: AnswerRate, post: Post) -> ServerFinding:
    outcomes: list[bool] = []
    for trial in range(TRIALS):
        is_streamed = trial % 2 == 1
        reply = post(CHAT, {**rate.body, "stream": True} if is_streamed else rate.body)
        answer = streamed_answer(reply) if is_streamed else whole_answer(reply)
        if reply.refused or answer is None:
            return _unjudged(rate, "none")
        holds = rate.holds(answer)
        outcomes += [] if holds is None else [holds]
    if not outcomes or (len(outcomes) < LEAST_JUDGED and not all(outcomes)):
        return _unjudged(rate, "unseen")
    rate_text = rate_words(sum(outcomes), len(outcomes))
    if all(outcomes):
        return check_finding(f"{rate.probe}-valid", seen=rate_text)
    return check_finding(
        f"{rate.probe}-invalid", expected=f"{len(outcomes)} of {len(outcomes)}", seen=rate_text
    )


def _unjudged(rate: AnswerRate, why: str) -> ServerFinding:
    """The finding that a rate is unknown, and why. It names the rate as the finding of right
    answers does."""
    right = check_finding(f"{rate.probe}-valid")
    found = check_finding(f"rate-{why}", what=right.message, probe=rate.probe)
    return replace(found, id=f"{rate.probe}-{why}")
