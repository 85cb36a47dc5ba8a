"""Sends the requests of one run, and keeps what each says of its prompt and what all cost."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from dsv4.verify.answers import (
    cached_tokens,
    completion_tokens,
    finishes,
    prompt_tokens,
    usage_of,
    value_at,
)
from dsv4.verify.billing import BilledAnswer
from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES, Probe
from dsv4.verify.report import struck_out
from dsv4.verify.server_client import HttpServer, Reply, ServerClient, ServerProblem
from dsv4.verify.server_findings import CHAT
from dsv4.verify.token_budget import TokenBudget, TokensSpent

# After so many requests in a row without an answer, a run ends with what it has.
MOST_SILENCE = 3
# The most characters that are kept of a server's error message.
MOST_WORDS = 200
# The times that a server which fails at a request is asked again. llama.cpp refuses with 500.
MOST_FAILURES = 2
# The statuses of servers that do not know the caller, the model or the route, or some requests.
NOT_SERVED = (401, 403, 404, 405)
# The name of the user's own request, which is not a probe.
OWN_REQUEST = "request"

Progress: TypeAlias = Callable[[int, int], None]


class BudgetSpent(Exception):
    """As many requests were sent as were announced."""


@dataclass(frozen=True)
class Asking:
    """A probe to send: streamed or whole, for an answer of at most `most` tokens."""

    probe: Probe
    stream: bool = False
    most: int = 1


# The least tokens of an answer, as servers that refuse fewer put it.
_LEAST = re.compile(r"(?:at least|minimum|greater than|less than|below|>=?)\D{0,20}(\d{1,4})", re.I)
USUAL_LEAST = 16
# The most requests to find out which settings a server takes, and whether it streams.
SETTLING_REQUESTS = 9


@dataclass(frozen=True)
class AnswerSettings:
    """The settings that a server takes: the name of the length limit, the least length, whether a
    temperature is sent at all, and whether all answers are streamed."""

    length: str = "max_tokens"
    least: int = 1
    temperature: bool = True
    streams: bool = False

    def most(self, asked: int) -> int:
        """The most tokens to allow where `asked` were meant."""
        return max(asked, self.least)

    def adapted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A Chat request with these settings."""
        given = {**body}
        if not self.temperature:
            given.pop("temperature", None)
        if "max_tokens" in given:
            given[self.length] = self.most(given.pop("max_tokens"))
        return given

    def further(self, words: str) -> AnswerSettings | None:
        """The settings to try if these are refused: changes that the server's words name, otherwise
        one change after the other. None if there is nothing else to try."""
        least = _LEAST.search(words)
        ways: Mapping[str, Mapping[str, Any]] = {
            "stream": {"streams": True},
            "temperature": {"temperature": False},
            "max_completion_tokens": {"length": "max_completion_tokens"},
            "max_": {"least": max(int(least[1]) if least else 0, self.least)},
        }
        named = (change for name, change in ways.items() if name in words)
        usual_least = {"least": max(USUAL_LEAST, self.least)}
        usual = ways["temperature"], usual_least, ways["max_completion_tokens"], ways["stream"]
        others = (replace(self, **change) for change in (*named, *usual))
        return next((other for other in others if other != self), None)


class Sender:
    """Sends the requests of one run, at most `planned` of them and within a `budget` of tokens,
    several in parallel if requested.

    `unsent` are the probes that would have passed the budget. `observations` are in the order of
    asking. Ids of prompts are asked for until a server refuses that. If only streams are taken, or
    only they have usage, all requests are streamed.
    """

    def __init__(
        self,
        client: ServerClient,
        model: str,
        planned: int,
        budget: TokenBudget,
        progress: Progress | None = None,
    ) -> None:
        self.client, self.model, self._planned = client, model, planned
        self.budget = budget
        self._progress = progress or (lambda number, of: None)
        self.key: str = client.key if isinstance(client, HttpServer) else ""
        self.observations: list[Observation] = []
        self.probe_count = self.request_count = self.silent = 0
        self.completion = 0
        self.unsent: list[str] = []
        self.failures: Counter[str] = Counter()
        self.refusal = ""
        self.adapted: dict[str, Probe] = {}
        self.fingerprint = ""
        self.first_token: float | None = None
        self.answers: list[BilledAnswer] = []
        self.settings = AnswerSettings()
        self.refuses_streams = self.leaves_streams_uncounted = False
        self._has_settled = False
        self._asks_for_ids = self._asks_for_usage = True
        self.shows_ids = False
        self._lock = threading.Lock()
        if isinstance(client, HttpServer):
            client.most = planned

    @property
    def refuses_all(self) -> bool:
        return bool(self.observations) and all(o.refused for o in self.observations)

    def ask(self, asking: Asking) -> Observation:
        """The observation of a probe; kept, unless the server says that it changed the request."""
        return self._keep(asking, *self._observed(asking))

    def ask_all(self, askings: Sequence[Asking], parallel: int = 1) -> Iterator[Observation]:
        """The observations of all of them, in their order, until the server does not answer any
        more. The number under way together makes no difference to which are sent."""
        waiting = list(askings)
        while waiting:
            together = waiting[:parallel]
            if not self._have_room(together):
                together = waiting[:1]
            del waiting[: len(together)]
            for asking, result in zip(together, self._observed_together(together), strict=True):
                if isinstance(result, BaseException):
                    raise result
                yield self._keep(asking, *result)
                if self.silent >= MOST_SILENCE:
                    return

    def _observed_together(
        self, askings: Sequence[Asking]
    ) -> Sequence[tuple[Observation, Reply] | BaseException]:
        """The results of requests that are sent in parallel. Threads that wait for a server do not
        keep the process from ending."""
        if len(askings) == 1:
            return [self._observed(askings[0])]
        results: dict[int, tuple[Observation, Reply] | BaseException] = {}

        def observe(number: int, asking: Asking) -> None:
            try:
                results[number] = self._observed(asking)
            except BaseException as error:  # raised where the result is taken
                results[number] = error

        threads = [
            threading.Thread(target=observe, args=numbered, daemon=True)
            for numbered in enumerate(askings)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # so that a signal is seen
        return [results[number] for number in range(len(askings))]

    def _have_room(self, askings: Sequence[Asking]) -> bool:
        """Whether all of them may be sent, whatever the result of each."""
        most_requests = len(askings) * (1 + MOST_FAILURES)
        return self._requests_so_far + most_requests <= self._planned and self.budget.has_room(
            [self._body(asking) for asking in askings]
        )

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The reply to a `body` sent to a `path`, counted as a request of this run. A server that
        fails is asked again."""
        body = self.settings.adapted(body) if path == CHAT else body
        reply = self._post(path, body)
        for _ in range(MOST_FAILURES):
            if reply.status not in (500, 502, 504) or reply.problem:
                break
            reply = self._post(path, body)
        return reply

    def get(self, path: str) -> Any:
        """The JSON that a server answers at a `path`; None if it does not."""
        get = getattr(self.client, "get", None)
        if get is None:
            return None
        self._count()
        reply: Reply = get(path)
        return reply.body if 200 <= reply.status < 300 else None

    def _post(self, path: str, body: Mapping[str, Any]) -> Reply:
        reserved = self.budget.reserve(body)
        counted: int | None = 0  # if it is refused, or does not arrive
        try:
            self._count()
            reply = self.client.post(path, body)
            if 200 <= reply.status < 300:
                counted = prompt_tokens(usage_of(reply))
            return reply
        finally:
            self.budget.settle(*reserved, counted)

    @property
    def _requests_so_far(self) -> int:
        repeats = self.client.repeats if isinstance(self.client, HttpServer) else 0
        return self.request_count + repeats

    def _count(self) -> None:
        with self._lock:
            if self._requests_so_far >= self._planned:
                raise BudgetSpent
            self.request_count += 1
            self._progress(self._requests_so_far, self._planned)

    # One request.

    def _body(self, asking: Asking) -> dict[str, Any]:
        settings = {"model": self.model, "max_tokens": asking.most, "temperature": 0}
        return {**settings, **asking.probe.request}

    def _observed(self, asking: Asking) -> tuple[Observation, Reply]:
        probe, body = asking.probe, self._body(asking)
        try:
            reply = self._settled(partial(self._sent, asking, body))
            if reply.refused and self._is_streamed(asking):
                reply = self._after_stream(body, reply)
            self._check_first(probe, reply)
            observation = observed(probe.id, reply)
            if observation.note == NO_USAGE:
                observation, reply = self._with_usage(asking, body, observation, reply)
        except TokensSpent:
            return Observation(probe.id, note=UNSENT), Reply()
        if reply.refused:
            self.refusal = refusal = self.words_of(reply)
            observation = replace(observation, refusal=refusal.removeprefix(": "))
            if _CONTEXT.search(refusal):  # so nothing was said of the request itself
                observation = Observation(probe.id, note=TOO_LONG)
        if probe.id == OWN_REQUEST or probe.follow_up:
            observation = replace(observation, request=probe.request)
        return observation, reply

    def _is_streamed(self, asking: Asking) -> bool:
        return (asking.stream or self.settings.streams) and not self.refuses_streams

    def _sent(self, asking: Asking, body: dict[str, Any]) -> Reply:
        return self._streamed(body) if self._is_streamed(asking) else self._whole(body)

    def _with_usage(
        self, asking: Asking, body: dict[str, Any], observation: Observation, reply: Reply
    ) -> tuple[Observation, Reply]:
        """Repeats a request whose answer has no usage: as a stream, and if it was one, also
        whole."""
        if not reply.events and self.shows_ids:
            return observation, reply
        again = self._streamed(body)
        seen = observed(asking.probe.id, again)
        if seen.count is not None:
            if not reply.events:
                self.settings = replace(self.settings, streams=True)
            return seen, again
        if not reply.events or not again.events or self.settings.streams:
            return observation, reply
        self.leaves_streams_uncounted |= self._asks_for_usage
        whole = self._whole(body)
        return observed(asking.probe.id, whole), whole

    @property
    def _has_answered(self) -> bool:
        return any(o.count is not None for o in self.observations)

    def _settled(self, send: Callable[[], Reply]) -> Reply:
        """Sends one of the first requests, with other settings if these are refused. The refusal
        may also be due to the request itself: then the settings stay as they are."""
        reply = send()
        words = self.words_of(reply)
        names_settings = any(name in words for name in ("temperature", "max_", "stream"))
        is_doubtful = names_settings or not words or bool(self.observations)
        if not reply.refused or self._has_answered or self._has_settled or not is_doubtful:
            return reply
        first, self._has_settled = self.settings, True
        while reply.refused and (further := self.settings.further(self.words_of(reply))):
            self.settings = further
            reply = send()
        if reply.refused:
            self.settings = first
        return reply

    def _streamed(self, body: Mapping[str, Any]) -> Reply:
        usage = {"stream_options": {"include_usage": True}} if self._asks_for_usage else {}
        return self.post(CHAT, {**body, "stream": True, **usage})

    def _after_stream(self, body: dict[str, Any], refusal: Reply) -> Reply:
        """The reply to a request that was refused as a stream: without usage in streams, otherwise
        whole. If the server takes it whole, it refused the stream, not the request."""
        if self._asks_for_usage:
            self._asks_for_usage = False
            reply = self._streamed(body)
            if not reply.refused:
                return reply
        reply = self._whole(body)
        self.refuses_streams = not reply.refused
        self._asks_for_usage = reply.refused or self._asks_for_usage
        return reply

    def _whole(self, body: dict[str, Any]) -> Reply:
        if not self._asks_for_ids:
            return self.post(CHAT, body)
        reply = self.post(CHAT, {**body, "return_token_ids": True})
        if ids_in(reply):
            self.shows_ids = True
        elif not self.shows_ids and not reply.refused:
            self._asks_for_ids = False
        elif not self.shows_ids:  # the field that asks for ids may have been refused
            reply = self.post(CHAT, body)
            self._asks_for_ids = reply.refused
        return reply

    def _keep(self, asking: Asking, observation: Observation, reply: Reply) -> Observation:
        probe = asking.probe
        if observation.note == UNSENT:
            self.unsent.append(probe.id)
            return observation
        self.probe_count += 1
        if observation.count is not None:
            most = self.settings.most(asking.most)
            self.answers.append(BilledAnswer.of(probe, reply, usage_of(reply), most))
        self.completion += observation.completion_tokens
        self.fingerprint = self.fingerprint or _fingerprint(reply)
        if reply.times and self.first_token is None:
            self.first_token = reply.times[0]
        if reply.adapted:
            # `dsv4 heal` changed the request and says so: this is the count of another request.
            for id in reply.adapted:
                self.adapted.setdefault(id, probe)
            self.silent = 0
            return Observation(probe.id)
        is_answer = observation.tells or observation.note == TOO_LONG or reply.status in NOT_SERVED
        self.silent = 0 if is_answer else self.silent + 1
        if observation.note:
            self.failures[struck_out(observation.note, self.key)] += 1
        self.observations.append(observation)
        return observation

    def _check_first(self, probe: Probe, reply: Reply) -> None:
        """Raises `ServerProblem` for problems that every request will have. The plainest request
        decides: a server may forbid only tools, or have a separate route for efforts."""
        if any(o.tells for o in self.observations):
            return
        if reply.status in NOT_SERVED and probe is not PROBES["plain"]:
            reply = self.post(CHAT, self._body(Asking(PROBES["plain"])))
        if reply.status in (401, 403):
            raise ServerProblem(f"the server does not accept the key (status {reply.status})")
        if reply.status in (404, 405):
            where = f"{self.client.url}{CHAT}"
            words = self.words_of(reply)
            what = "the server knows no such model or route" if words else "no chat route"
            hint = "" if re.search(r"/v\d+$", self.client.url) else "; most addresses end in /v1"
            raise ServerProblem(f"{what} at {where} (status {reply.status}){words}{hint}")
        if reply.problem and not reply.status:
            raise ServerProblem(f"{self.client.url}: {reply.problem}")

    def words_of(self, reply: Reply) -> str:
        """The server's words about a request that it does not take, as the end of a sentence."""
        for path in (("error", "message"), ("error",), ("message",), ("detail",)):
            text = value_at(reply.body, *path)
            if isinstance(text, str) and text.strip():
                return f": {struck_out(' '.join(text.split()), self.key)[:MOST_WORDS]}"
        return ""


# Reading replies.

TOO_LONG = "the server refuses it as too long for its context"
# The context length in error messages of vLLM, SGLang, llama.cpp and the official API.
_CONTEXT = re.compile(r"context[ _](length|size|window)", re.IGNORECASE)
UNSENT = "it would have passed the budget of tokens"
FILTERED = "the server's filter kept it from the model"
NO_USAGE = "the answer does not say how many tokens the prompt had"


def observed(probe: str, reply: Reply) -> Observation:
    """The observation of the prompt in a reply."""
    if reply.refused:
        return Observation(probe, refused=True, failed=reply.status >= 500)
    if reply.problem or not 200 <= reply.status < 300:
        return Observation(probe, note=reply.problem or f"status {reply.status}")
    usage = usage_of(reply)
    count = prompt_tokens(usage)
    if count is None:
        return Observation(probe, note=NO_USAGE)
    if not count and "content_filter" in finishes(reply):
        return Observation(probe, note=FILTERED)
    return Observation(
        probe,
        count,
        completion_tokens=completion_tokens(usage) or 0,
        cached=cached_tokens(usage),
        ids=ids_in(reply),
    )


def ids_in(reply: Reply) -> tuple[int, ...] | None:
    """The ids of the prompt that a reply shows."""
    body = reply.body if isinstance(reply.body, dict) else {}
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    for place in (body, first):
        ids = place.get("prompt_token_ids") if isinstance(place, dict) else None
        if isinstance(ids, list) and ids and all(type(id) is int for id in ids):
            return tuple(ids)
    return None


def _fingerprint(reply: Reply) -> str:
    for body in (reply.body, *reply.events[:1]):
        named = value_at(body, "system_fingerprint")
        if isinstance(named, str):
            return named[:MOST_WORDS]
    return ""
