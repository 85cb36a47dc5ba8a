"""Servers to find out about: hypotheses that answer as if they were real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dsv4.errors import EncodeError
from dsv4.profiles.prompt_changes import Unpredictable
from dsv4.profiles.server_faults import FaultVariant, fault_named
from dsv4.profiles.text_shields import TEXT_PLACES, shielded, unshielded
from dsv4.verify import PROBES, Hypothesis, Observation, Reply
from dsv4.verify.fits import usual_count
from dsv4.verify.hypotheses import forecasts_of_probes
from dsv4.verify.probes import words

FORECASTER = forecasts_of_probes()
VLLM = Hypothesis("vllm-0.32", "v4")
# The fixture `look_among`.
LookAmong = Callable[[Sequence[Hypothesis]], None]


def server(profile: str = "vllm-0.32", dialect: str = "v4", *faults: str) -> Hypothesis:
    return Hypothesis(profile, dialect).having(*map(fault_named, faults))


def count_on(hypothesis: Hypothesis, probe: str, acts: bool | None = None) -> int | None:
    """What this server would count; None where it refuses."""
    known, count = FORECASTER.count(hypothesis, probe)
    assert known
    return usual_count(count, hypothesis.server.special_text_acts if acts is None else acts)


def observed(
    hypothesis: Hypothesis,
    probes: Iterable[str] = tuple(PROBES),
    *,
    added: int = 0,
    answer: int = 1,
) -> list[Observation]:
    """What a run over this server would see."""
    found = []
    for probe in probes:
        if not FORECASTER.count(hypothesis, probe)[0]:
            continue
        count = count_on(hypothesis, probe)
        if count is None:
            found.append(Observation(probe, refused=True))
        else:
            found.append(Observation(probe, count + added, completion_tokens=answer))
    return found


def variant(name: str) -> FaultVariant:
    return fault_named(name)


# A server to send requests to.


IGNORED = (
    *("model", "max_tokens", "max_completion_tokens", "temperature"),
    *("stream", "stream_options", "return_token_ids"),
)


class StandIn:
    """A server in this process that counts as a hypothesis does.

    `added` goes to every count; `counts` may count otherwise; `others` answer in turn with it;
    `shows_ids` gives the prompt as vLLM does.
    """

    url = "http://stand-in/v1"

    def __init__(
        self,
        hypothesis: Hypothesis,
        *others: Hypothesis,
        added: int = 0,
        counts: Callable[[str], int] | None = None,
        shows_ids: bool = False,
        adds_completion: bool = False,
        changed: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.servers = [hypothesis, *others]
        self.added, self.counts, self.shows_ids = added, counts, shows_ids
        self.adds_completion = adds_completion
        self.changed = changed
        self.requests = self.tokens = 0

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.requests += 1
        if path != "/chat/completions":
            return Reply(404, body={"error": "no such route"})
        hypothesis = self.servers[self.requests % len(self.servers)]
        asked = shielded({k: v for k, v in body.items() if k not in IGNORED})
        if self.changed is not None:
            asked = self.changed(asked)
        try:
            prompt = hypothesis.prompt(asked)
        except EncodeError as error:
            return Reply(400, body={"error": {"message": str(error)}})
        except Unpredictable:
            prompt = "What a template makes of tools that it does not know."
        count = self._count(hypothesis, prompt)
        self.tokens += count
        most = int(body.get("max_tokens", body.get("max_completion_tokens", 5)))
        size = min(most, 5)
        answer = {"role": "assistant", "content": words(size)}
        finish = "length" if size == most else "stop"
        named = {"model": body["model"]} if "model" in body else {}
        usage = {
            "prompt_tokens": count + (size if self.adds_completion else 0),
            "completion_tokens": size,
        }
        if body.get("stream"):
            end = {"choices": [{"delta": {}, "finish_reason": finish}]}
            begin = {**named, "choices": [{"delta": answer}]}
            events = (begin, end, {"choices": [], "usage": usage})
            return Reply(200, events=events)
        choice = {"message": answer, "finish_reason": finish}
        whole: dict[str, Any] = {**named, "choices": [choice], "usage": usage}
        if self.shows_ids and body.get("return_token_ids"):
            dialect = hypothesis.server.release(hypothesis.dialect)
            whole["prompt_token_ids"] = FORECASTER.counter.ids(prompt, dialect, TEXT_PLACES)
        return Reply(200, body=whole)

    def _count(self, hypothesis: Hypothesis, prompt: str) -> int:
        if self.counts is not None:
            return self.counts(unshielded(prompt))
        acting = frozenset(TEXT_PLACES if hypothesis.server.special_text_acts else ())
        dialect = hypothesis.server.release(hypothesis.dialect)
        return FORECASTER.counter.count(prompt, dialect, acting) + self.added
