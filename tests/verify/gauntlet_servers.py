"""Servers to find out about: clean ones, listed faults, faults nobody listed, and noise."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

from stand_ins import FORECASTER, StandIn, server
from unknown_faults import UNKNOWN_FAULTS, Body

from dsv4.profiles.server_faults import variants
from dsv4.verify import Hypothesis, Reply, probes
from dsv4.verify.hypotheses import clean_servers

# The requests of a whole run.
SENT = {probe.id for probe in probes()}
SPECIAL_CLEAN = 12
LISTED = 58
UNLISTED = 50
NOISY = 30
BASES = [each for each in clean_servers() if each.texts != "v4-vision"]
V4_BASES = [
    server(name) for name in ("vllm-0.32", "sglang-0.5.23", "recipe-0.2.0", "llama.cpp")
] + [server("dsv4", "v4-0731")]


@dataclass(frozen=True)
class GauntletServer:
    """A server, and the faults that may be named of it."""

    name: str
    make: Callable[[], StandIn]
    truth: Hypothesis
    allowed: frozenset[str] = frozenset()


class Listed:
    """A server with a listed fault, and the `names` of which one should be said: those of one fault
    that has several, because its prompts are the same. To find them takes a while."""

    def __init__(self, truth: Hypothesis) -> None:
        self.name, self.truth = f"{truth}", truth

    def make(self) -> StandIn:
        return StandIn(self.truth)

    @cached_property
    def names(self) -> tuple[frozenset[str], ...]:
        return tuple(_names(self.truth))

    @property
    def allowed(self) -> frozenset[str]:
        return frozenset().union(*self.names)


# Clean, and listed.


def is_visible(hypothesis: Hypothesis) -> bool:
    """Whether some count is another one on every clean server of this kind: a server of another
    model's format is one of that model."""
    counts = {id: n for id, n in FORECASTER.counts(hypothesis).items() if id in SENT}
    own = [each for each in clean_servers() if each.profile == hypothesis.profile]
    own.append(Hypothesis(hypothesis.profile, hypothesis.dialect))
    return all(
        any(counts[id] != others[id] for id in counts.keys() & others.keys())
        for others in map(FORECASTER.counts, own)
    )


def clean() -> list[GauntletServer]:
    return [
        GauntletServer(f"clean {each}", lambda each=each: StandIn(each), each)
        for each in BASES[:SPECIAL_CLEAN]
    ]


@cache
def listed() -> list[Listed]:
    faults = [
        f
        for n, f in enumerate(variants())
        if ("-as-" not in f.id or n % 5 == 0) and any(is_visible(b.having(f)) for b in BASES)
    ]
    step = len(faults) / LISTED
    found = []
    for n in range(LISTED):
        fault = faults[int(n * step)]
        having = [BASES[(n + m) % len(BASES)].having(fault) for m in range(len(BASES))]
        found.append(Listed(next(each for each in having if is_visible(each))))
    return found


def _names(truth: Hypothesis) -> Iterator[frozenset[str]]:
    """The faults that are this one: SGLang's templates know no effort, so that one by default is
    thinking by default."""
    clean = Hypothesis(truth.profile, truth.dialect)
    counts, prompts = FORECASTER.counts(truth), FORECASTER.prompts(truth)
    for other in (truth, *(clean.having(fault) for fault in variants())):
        if FORECASTER.counts(other) == counts and FORECASTER.prompts(other) == prompts:
            yield frozenset(other.ids)


# What nobody listed: changes of every kind, each on some server.


def _each_text(change: Callable[[str], str], *roles: str) -> Callable[[Body], Body]:
    def message(given: Body) -> Body:
        content = given.get("content")
        if given["role"] not in roles or not isinstance(content, str):
            return given
        return {**given, "content": change(content)}

    return lambda body: {**body, "messages": [message(m) for m in body["messages"]]}


def _each_tool(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    def changed(body: Body) -> Body:
        if not body.get("tools"):
            return body
        tools = [{**t, "function": change(t["function"])} for t in body["tools"]]
        return {**body, "tools": tools}

    return changed


def _messages(change: Callable[[list[Body]], list[Body]]) -> Callable[[Body], Body]:
    return lambda body: {**body, "messages": change(body["messages"])}


def _last_with(text: str) -> Callable[[list[Body]], list[Body]]:
    def changed(given: list[Body]) -> list[Body]:
        last = given[-1]
        if not isinstance(last.get("content"), str):
            return given
        return [*given[:-1], {**last, "content": f"{last['content']}{text}"}]

    return changed


def _reminder(given: list[Body]) -> list[Body]:
    return [*given, {"role": "system", "content": "Remember to be careful with tools."}]


def _effort_shifted(body: Body) -> Body:
    order = ("none", "low", "medium", "high", "max")
    effort = body.get("reasoning_effort")
    if effort not in order or effort == "max":
        return body
    return {**body, "reasoning_effort": order[order.index(effort) + 1]}


def _system_after_user(given: list[Body]) -> list[Body]:
    systems = [m for m in given if m["role"] == "system"]
    return [*[m for m in given if m["role"] != "system"], *systems] if len(given) > 1 else given


def _call_ids_in_results(given: list[Body]) -> list[Body]:
    return [
        {**m, "content": f"{m['tool_call_id']}: {m['content']}"} if m["role"] == "tool" else m
        for m in given
    ]


def _results_as_user(given: list[Body]) -> list[Body]:
    return [{"role": "user", "content": m["content"]} if m["role"] == "tool" else m for m in given]


def _reasoning_in_content(given: list[Body]) -> list[Body]:
    return [
        {
            **{k: v for k, v in m.items() if k != "reasoning_content"},
            "content": f"({m['reasoning_content']}) {m.get('content') or ''}",
        }
        if m.get("reasoning_content")
        else m
        for m in given
    ]


def _required_all(function: Body) -> Body:
    parameters = function.get("parameters") or {}
    keys = list(parameters.get("properties") or {})
    return {**function, "parameters": {**parameters, "required": keys}} if keys else function


MORE_UNLISTED: Mapping[str, Callable[[Body], Body]] = {
    "users-quoted": _each_text(lambda t: f'"{t}"', "user"),
    "users-shouted": _each_text(str.upper, "user"),
    "users-squeezed": _each_text(lambda t: " ".join(t.split()), "user"),
    "users-in-tags": _each_text(lambda t: f"<user_query>\n{t}\n</user_query>", "user"),
    "systems-in-tags": _each_text(lambda t: f"<system>{t}</system>", "system"),
    "systems-shouted": _each_text(str.upper, "system"),
    "systems-cut-to-five": _each_text(lambda t: t[:5], "system"),
    "answers-in-tags": _each_text(lambda t: f"<answer>{t}</answer>" if t else t, "assistant"),
    "answers-shouted": _each_text(str.upper, "assistant"),
    "answers-emptied": _each_text(lambda t: "", "assistant"),
    "results-shouted": _each_text(str.upper, "tool"),
    "results-fenced": _each_text(lambda t: f"```\n{t}\n```", "tool"),
    "results-emptied": _each_text(lambda t: "[removed]", "tool"),
    "results-as-user": _messages(_results_as_user),
    "results-with-ids": _messages(_call_ids_in_results),
    "last-signed": _messages(_last_with(" (sent from my phone)")),
    "last-asks-for-steps": _messages(_last_with("\n\nThink step by step.")),
    "reminder-at-the-end": _messages(_reminder),
    "systems-at-the-end": _messages(_system_after_user),
    "reasoning-in-content": _messages(_reasoning_in_content),
    "efforts-one-up": _effort_shifted,
    "tools-named-in-capitals": _each_tool(lambda f: {**f, "name": f["name"].upper()}),
    "tools-numbered": _each_tool(lambda f: {**f, "description": f"1. {f.get('description', '')}"}),
    "tools-all-required": _each_tool(_required_all),
    "tools-with-source": _each_tool(lambda f: {**f, "source": "mcp://server-7"}),
    "tools-first-only": lambda body: (
        {**body, "tools": body["tools"][:1]} if body.get("tools") else body
    ),
    "tools-twice": lambda body: (
        {**body, "tools": [*body["tools"], *body["tools"]]} if body.get("tools") else body
    ),
    "first-user-lost": _messages(lambda given: given[1:] if len(given) > 2 else given),
}


# In V4 a result is a part of the user's turn: as the user's it is one without its tags.
# Efforts that all arrive one step up are also the two swaps that prompts show.
ALSO_TRUE = {
    "results-as-user": frozenset({"result-tags-missing"}),
    "efforts-one-up": frozenset({"effort-low-as-high", "effort-high-as-max"}),
}


def unlisted() -> list[GauntletServer]:
    known = {id: each.change for id, each in UNKNOWN_FAULTS.items()}
    every = {**known, **MORE_UNLISTED}
    found = []
    for n, (id, change) in enumerate(every.items()):
        base = V4_BASES[n % len(V4_BASES)]
        made = lambda base=base, change=change: StandIn(base, changed=change)  # noqa: E731
        allowed = ALSO_TRUE.get(id, frozenset())
        found.append(GauntletServer(f"{id} on {base}", made, base, allowed))
    return found[:UNLISTED]


# Noise: what happens to servers that are right, or have one listed fault.


class Noisy(StandIn):
    """A stand-in whose replies are disturbed; `chance` is the same in every run."""

    def __init__(self, truth: Hypothesis, disturb: Disturbance, *others: Hypothesis) -> None:
        super().__init__(truth, *others)
        self._disturb, self.chance = disturb, random.Random(7)

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        reply = super().post(path, body)
        return self._disturb(self, reply, body) if path == "/chat/completions" else reply


Disturbance = Callable[[Noisy, Reply, Mapping[str, Any]], Reply]


def _sometimes(share: float, instead: Reply) -> Disturbance:
    return lambda server, reply, _: instead if server.chance.random() < share else reply


def _with_usage(change: Callable[[Noisy, dict[str, Any], str], dict[str, Any]]) -> Disturbance:
    def disturb(server: Noisy, reply: Reply, body: Mapping[str, Any]) -> Reply:
        text = json.dumps([body["messages"], body.get("tools")], ensure_ascii=False)
        for holder in (reply.body, *reply.events):
            if isinstance(holder, dict) and "usage" in holder:
                holder["usage"] = change(server, holder["usage"], text)
        return reply

    return disturb


def _cached(left_out: bool) -> Disturbance:
    def change(server: Noisy, usage: dict[str, Any], text: str) -> dict[str, Any]:
        known = usage["prompt_tokens"] // 64 * 64 * (server.chance.random() < 0.5)
        rest = usage["prompt_tokens"] - (known if left_out else 0)
        return {**usage, "prompt_tokens": rest, "prompt_tokens_details": {"cached_tokens": known}}

    return _with_usage(change)


def _counted(count: Callable[[int, str], Any]) -> Disturbance:
    return _with_usage(
        lambda _, usage, text: {**usage, "prompt_tokens": count(usage["prompt_tokens"], text)}
    )


def _jitter(server: Noisy, usage: dict[str, Any], text: str) -> dict[str, Any]:
    return {**usage, "prompt_tokens": usage["prompt_tokens"] + server.chance.randrange(2)}


def _only_streams(server: Noisy, reply: Reply, body: Mapping[str, Any]) -> Reply:
    if isinstance(reply.body, dict):
        reply.body.pop("usage", None)
    return reply


def _after(count: int, instead: Reply) -> Disturbance:
    return lambda server, reply, _: instead if server.requests > count else reply


class InTurn(Noisy):
    """Two servers at random; the second answers so often."""

    def __init__(self, often: Hypothesis, seldom: Hypothesis, share: float) -> None:
        super().__init__(often, lambda _, reply, __: reply)
        self._both, self._share = (often, seldom), share

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        self.servers = [self._both[self.chance.random() < self._share]]
        return super().post(path, body)


NO_ANSWER = Reply(problem="no complete answer within 60 seconds")
DISTURBANCES: Mapping[str, tuple[Disturbance, frozenset[str]]] = {
    "errors, a tenth": (_sometimes(0.1, Reply(500, body={})), frozenset()),
    "errors, a third": (_sometimes(0.33, Reply(500, body={})), frozenset()),
    "bad gateway": (_sometimes(0.2, Reply(502, problem="HTML in place of JSON")), frozenset()),
    "rate limits": (_sometimes(0.2, Reply(429, body={})), frozenset()),
    "overloaded": (_sometimes(0.2, Reply(503, body={})), frozenset()),
    "slow": (_sometimes(0.15, NO_ANSWER), frozenset()),
    "limit after thirty": (_after(30, Reply(429, body={})), frozenset()),
    "cached counts": (_cached(False), frozenset()),
    "cached counts left out": (_cached(True), frozenset({"counts-without-cached"})),
    "usage only in streams": (_only_streams, frozenset()),
    "counts as text": (_counted(lambda n, _: str(n)), frozenset()),
    "rounded to tens": (_counted(lambda n, _: round(n, -1)), frozenset({"counts-estimated"})),
    "characters": (_counted(lambda _, text: len(text) // 4), frozenset({"counts-estimated"})),
    "constant": (_counted(lambda *_: 0), frozenset({"counts-constant"})),
    "jitter": (_with_usage(_jitter), frozenset({"counts-vary"})),
}


def noisy() -> list[GauntletServer]:
    found = []
    for n, (name, (disturb, allowed)) in enumerate(DISTURBANCES.items()):
        base = V4_BASES[n % len(V4_BASES)]
        make = lambda base=base, disturb=disturb: Noisy(base, disturb)  # noqa: E731
        found.append(GauntletServer(f"{name}: {base}", make, base, allowed))
        faulty = base.having(server("vllm-0.32", "v4", "tools-compact").faults[0])
        if n < 9:
            make = lambda faulty=faulty, disturb=disturb: Noisy(faulty, disturb)  # noqa: E731
            both = allowed | {"tools-compact"}
            found.append(GauntletServer(f"{name}: {faulty}", make, faulty, both))
    turns = frozenset({"two-servers", "counts-vary"})
    for n, share in enumerate((0.1, 0.2, 0.3, 0.4, 0.5, 0.2)):
        often, seldom = V4_BASES[n % 5], V4_BASES[(n + 1) % 5]
        make = lambda often=often, seldom=seldom, share=share: InTurn(often, seldom, share)  # noqa: E731
        found.append(GauntletServer(f"{often} and {seldom}, {share:.0%}", make, often, turns))
    return found[:NOISY]


AnyServer: TypeAlias = GauntletServer | Listed
KINDS: dict[str, Callable[[], Sequence[AnyServer]]] = {
    "clean": clean,
    "listed": listed,
    "unlisted": unlisted,
    "noisy": noisy,
}


@cache
def servers_of(kind: str) -> Sequence[AnyServer]:
    """All servers of one kind: to find out what can be seen of each takes a while."""
    return KINDS[kind]()
