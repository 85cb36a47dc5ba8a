"""The facts that answers are billed by: counts, lengths and names, compared with the answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsv4.verify.answers import (
    ServerAnswer,
    cached_tokens,
    completion_tokens,
    prompt_tokens,
    streamed_answer,
    token_number,
    value_at,
    whole_answer,
)
from dsv4.verify.hypotheses import Forecaster
from dsv4.verify.probes import PROBES, Probe
from dsv4.verify.server_client import Reply
from dsv4.verify.server_findings import ServerFinding, check_finding
from dsv4.verify.token_counts import PromptCounter
from dsv4.verify.verdicts import ServerVerdict

# One odd answer is an accident.
LEAST_ODD = 2
# At least so many cut answers must end as if they were whole.
LEAST_CUT = 4
# The finish reasons of answers that were not cut.
WHOLE_FINISHES = ("stop", "tool_calls", "function_call")
# A request with as many characters has more than a hundred tokens.
LEAST_BILLED = 1_000
# Words in model names that do not tell models apart.
_GENERIC = frozenset(
    {
        *("default", "model", "models", "local", "chat", "latest", "instruct", "base", "unknown"),
        *("flash", "pro", "gguf", "awq", "demo", "test", "assistant"),
    }
)


@dataclass(frozen=True)
class BilledAnswer:
    """An answer to a request for at most `most` tokens, with its usage."""

    probe: str
    most: int
    prompt: int | None
    completion: int | None
    cached: int | None
    reasoning: int | None
    text: str
    finish: str
    model: str

    @classmethod
    def of(cls, probe: Probe, reply: Reply, usage: Mapping[str, Any], most: int) -> BilledAnswer:
        answer = whole_answer(reply) or streamed_answer(reply) or ServerAnswer()
        details = usage.get("completion_tokens_details")
        named = (value_at(body, "model") for body in (reply.body, *reply.events[:1]))
        return cls(
            probe.id,
            most,
            prompt_tokens(usage),
            completion_tokens(usage),
            cached_tokens(usage),
            token_number(value_at(details, "reasoning_tokens")),
            answer.reasoning + answer.content,
            answer.finish,
            next((name for name in named if isinstance(name, str)), "")[:200],
        )


def billing_findings(
    answers: Sequence[BilledAnswer], model: str, verdict: ServerVerdict, forecaster: Forecaster
) -> Iterator[ServerFinding]:
    """Bills that do not agree with what was sent or came back. `model` is the requested one."""
    counter = forecaster.counter
    odd = [
        *_pattern_findings(answers, verdict, forecaster),
        *_length_findings(answers, counter),
        *_part_findings(answers, verdict),
        *_finish_findings(answers, counter),
        *_model_findings(answers, model),
    ]
    yield from odd
    if answers and not odd and verdict.outcome == "explained":
        yield check_finding("billing-right")


def _shown(key: str, answers: Sequence[BilledAnswer], **values: Any) -> ServerFinding:
    """A finding that these answers show."""
    finding = check_finding(key, answers=len(answers), probe=answers[0].probe, **values)
    return replace(finding, shown_by=tuple(dict.fromkeys(each.probe for each in answers)))


def _pattern_findings(
    answers: Sequence[BilledAnswer], verdict: ServerVerdict, forecaster: Forecaster
) -> Iterator[ServerFinding]:
    """The change that every count has, and the first request that shows it. An added number may
    also be a text that the server adds."""
    if verdict.best is None or (verdict.pattern is None and "counts-offset" not in verdict.faults):
        return
    key, words = "billing-offset", f"every count is {verdict.best.added} more"
    if verdict.pattern is not None:
        key, words = verdict.pattern.id, str(verdict.pattern)
    server, shown = verdict.best.hypothesis, dict[str, str]()
    for each in answers:
        _, own = forecaster.count(server, each.probe) if each.probe in PROBES else (False, None)
        if isinstance(own, int) and each.prompt not in (None, own):
            counts = {"expected": f"{own:,} tokens", "seen": f"{each.prompt:,} tokens"}
            shown = {"probe": each.probe, **counts}
            break
    yield check_finding(key, pattern=words, **shown)


def _length_findings(
    answers: Sequence[BilledAnswer], counter: PromptCounter
) -> Iterator[ServerFinding]:
    """Whether answers have as many tokens as are counted, and no more than were allowed."""
    longer, inflated, uncounted = list[BilledAnswer](), list[BilledAnswer](), list[BilledAnswer]()
    for each in answers:
        own = counter.tokens_of(each.text)
        if each.completion is not None and each.completion > each.most:
            (longer if own > each.most else inflated).append(each)
        elif each.completion == 0 and each.text.strip():
            uncounted.append(each)
    if len(longer) >= LEAST_ODD:
        yield _shown("max-tokens-ignored", longer)
    for how, odd in (("more", inflated), ("none", uncounted)):
        if len(odd) >= LEAST_ODD:
            first = odd[0]
            counts = f"{counter.tokens_of(first.text)} tokens", f"{first.completion} tokens"
            yield _shown(f"billing-completion:{how}", odd, expected=counts[0], seen=counts[1])


def _part_findings(
    answers: Sequence[BilledAnswer], verdict: ServerVerdict
) -> Iterator[ServerFinding]:
    """Whether cached and reasoning tokens are no more than the whole, and the whole is not 0.
    Where cached tokens are counted separately, they may be more than the rest."""
    counted = {a.probe for a in answers if a.prompt}
    free = [a for a in answers if a.prompt == 0 and (a.probe in counted or not _is_short(a.probe))]
    if counted and len(free) >= LEAST_ODD:
        yield _shown("billing-prompt", free, seen="0 tokens")
    cached = [a for a in answers if a.cached is not None and a.cached > (a.prompt or 0)]
    reasoned = [a for a in answers if a.reasoning is not None and a.reasoning > (a.completion or 0)]
    if len(cached) >= LEAST_ODD and "counts-without-cached" not in verdict.faults:
        first = cached[0]
        yield _shown("billing-cached", cached, seen=f"{first.cached} of {first.prompt} tokens")
    if len(reasoned) >= LEAST_ODD:
        first = reasoned[0]
        words = f"{first.reasoning} of {first.completion} tokens"
        yield _shown("billing-reasoning", reasoned, seen=words)


def _is_short(probe: str) -> bool:
    """Whether a prompt may be rounded to nothing: some servers count in hundreds."""
    known = PROBES.get(probe)
    return known is None or len(json.dumps(known.request)) < LEAST_BILLED


def _finish_findings(
    answers: Sequence[BilledAnswer], counter: PromptCounter
) -> Iterator[ServerFinding]:
    """Whether answers that were cut say so: those with as many tokens as were allowed."""
    cut = [a for a in answers if a.text.strip() and counter.tokens_of(a.text) >= a.most]
    finishes = {a.finish for a in cut}
    if len(cut) >= LEAST_CUT and finishes <= set(WHOLE_FINISHES):
        seen = " or ".join(f"`{finish}`" for finish in sorted(finishes))
        yield _shown("billing-finish", cut, finish=seen, expected="`length`", seen=seen)


def _model_findings(answers: Sequence[BilledAnswer], model: str) -> Iterator[ServerFinding]:
    others = [a for a in answers if is_other_model(model, a.model)]
    if len(others) >= LEAST_ODD:
        yield _shown("billing-model", others, expected=model, seen=others[0].model)


def is_other_model(asked: str, named: str) -> bool:
    """Whether a name is another model's: one of another version, or with no word in common."""
    (words, versions), (others, also) = _parts_of(asked), _parts_of(named)
    if versions and also:
        return versions.isdisjoint(also)
    return bool(words and others) and words.isdisjoint(others)


def _parts_of(name: str) -> tuple[set[str], set[str]]:
    """The words of a model's name that tell it apart, and its versions."""
    lowered = name.lower()
    words = set(re.findall(r"[a-z]{3,}", lowered)) - _GENERIC
    return words, set(re.findall(r"v(\d+)", lowered))
