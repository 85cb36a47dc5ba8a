"""Routes and usage that show more than a count: the prompt itself, and its cached part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from dsv4._format.dialects import V4_1
from dsv4._format.tokens import BOS
from dsv4.errors import Error
from dsv4.profiles.server_requests import Object
from dsv4.profiles.text_shields import TEXT_PLACES, shielded
from dsv4.tokens.coder import common_prefix_length
from dsv4.verify.answers import cached_tokens, counted_tokens, usage_of, value_at
from dsv4.verify.hypotheses import Forecaster, Hypothesis
from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES, REASONING, WEATHER, words
from dsv4.verify.server_client import Reply
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding

# vLLM gives ids, llama.cpp and `dsv4 serve` the text, beside the API.
LLAMA_ROUTE = "/../apply-template"


@dataclass(frozen=True)
class ShowingRoute:
    """A route that shows prompts, in a field of its answer, and the servers that have it."""

    path: str
    field: str
    server: str


ROUTES = (
    ShowingRoute("/chat/completions/render", "token_ids", "vllm"),
    ShowingRoute("/../tokenize", "tokens", "vllm"),
    ShowingRoute(LLAMA_ROUTE, "prompt", "llama.cpp"),
    ShowingRoute("/../render", "prompt", "dsv4"),
)
# Requests without an effort, which `/tokenize` does not take.
SHOWN_PROBES = ("tools-two", "loop", "parts", "system-late", "plain")
QUICKLY_SHOWN = SHOWN_PROBES[:2]


def routes_of(profiles: Sequence[str]) -> tuple[ShowingRoute, ...]:
    """The routes of the servers to which these profiles belong."""
    return tuple(r for r in ROUTES if any(name.startswith(r.server) for name in profiles))


def shown_prompts(
    post: Post,
    forecaster: Forecaster,
    probes: Sequence[str] = SHOWN_PROBES,
    routes: Sequence[ShowingRoute] = ROUTES,
) -> Iterator[Observation]:
    """The prompts of some `probes`, by the first of the `routes` that shows any."""
    for route in routes:
        for id in probes:
            reply = post(route.path, PROBES[id].request)
            observation = _observation(reply, id, route, forecaster)
            if observation is not None:
                yield observation
            elif id == probes[0]:
                break
        else:
            return


def _observation(
    reply: Reply, id: str, route: ShowingRoute, forecaster: Forecaster
) -> Observation | None:
    value = value_at(reply.body, route.field)
    if reply.refused or not 200 <= reply.status < 300:
        return None
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return Observation(id, len(value), ids=tuple(value))
    if isinstance(value, str) and value:
        if route.path == LLAMA_ROUTE:  # which strips the BOS that its tokenizer adds
            value = BOS + value.removeprefix(BOS)
        return Observation(id, forecaster.counter.count(value, V4_1, frozenset()), prompt=value)
    return None


# Cached tokens show the order of parts, which counts cannot.

_LONG = tuple(f"{name} {words(300)}" for name in ("Alpha", "Omega"))


def _turn(cities: Mapping[str, str], result: str) -> list[Object]:
    """A turn that asks for the weather of `cities`, by the ids of its calls, with its results."""
    calls = [
        {
            "id": id,
            "type": "function",
            "function": {"name": "weather", "arguments": f'{{"city":"{city}"}}'},
        }
        for id, city in cities.items()
    ]
    answer: Object = {"role": "assistant", "content": "", "reasoning_content": REASONING}
    results = [{"role": "tool", "tool_call_id": id, "content": result} for id in cities]
    return [{**answer, "tool_calls": calls}, *results]


def _calls_body(first: str, second: str) -> Object:
    ids = dict(zip(_LONG, ("call_zz", "call_aa"), strict=True))
    turn = _turn({ids[city]: city for city in (first, second)}, "Sun")
    return {"messages": [{"role": "user", "content": "Weather?"}, *turn], "tools": [WEATHER]}


def _tools_body(first: str, second: str) -> Object:
    tools = [
        {"type": "function", "function": {"name": text[:5].lower(), "description": text}}
        for text in (first, second)
    ]
    return {"messages": [{"role": "user", "content": "Hi"}], "tools": tools}


def _late_system_body(first: str, second: str) -> Object:
    """A system text in the middle, after long text that another system text leaves as it is."""
    messages = [
        {"role": "system", "content": words(200)},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": words(700)},
        {"role": "system", "content": first},
        {"role": "user", "content": "And?"},
    ]
    return {"messages": messages}


def _effort_body(first: str, second: str) -> Object:
    """An effort at the start, so that prompts with another one have nothing in common. No other
    request begins with this text, or a cache would have it."""
    effort = "low" if first == _LONG[0] else "high"
    question = {"role": "user", "content": f"Weigh this. {words(700)}"}
    return {"messages": [question], "reasoning_effort": effort}


# Functions that build two requests that differ in something long: a cache shows where that is.
ORDERS: Mapping[str, Callable[[str, str], Object]] = {
    "order-calls": _calls_body,
    "order-tools": _tools_body,
    "order-system": _late_system_body,
    "effort-v41": _effort_body,
}


# The number of random digits that tell a run from others. Two runs may share the first of them.
RUN_LENGTH = 16


def order_findings(
    post: Post, hypothesis: Hypothesis, forecaster: Forecaster
) -> Iterator[ServerFinding]:
    """Whether two requests that differ in one place have as much in common as they should. The
    effort is looked at only in V4.1, where counts do not show it."""
    for id, body_of in ORDERS.items():
        if id == "effort-v41" and hypothesis.texts != V4_1.name:
            continue
        this, earlier = _text_of_a_run(), _text_of_a_run()
        first, second = (this(body_of(*texts)) for texts in (_LONG, _LONG[::-1]))
        expected = _shared(hypothesis, forecaster, first, second)
        earlier_tokens = _shared(hypothesis, forecaster, second, earlier(body_of(*_LONG[::-1])))
        post(CHAT, {**first, "max_tokens": 1})
        reply = post(CHAT, {**second, "max_tokens": 1})
        total, cached = counted_tokens(reply), cached_tokens(usage_of(reply))
        if expected is None or total is None or not cached:
            continue
        yield _order_finding(id, expected, (earlier_tokens or 0) + RUN_LENGTH, cached, total)


def _text_of_a_run() -> Callable[[Object], Object]:
    """Returns a function that puts a system message in front which no server has seen. A cache with
    the prompts of an earlier run reuses what comes before that message, and nothing after it."""
    message = {"role": "system", "content": f"Run {token_hex(RUN_LENGTH // 2)}."}
    return lambda body: {**body, "messages": [message, *body["messages"]]}


def _order_finding(id: str, expected: int, earlier: int, cached: int, total: int) -> ServerFinding:
    # A cache reuses whole blocks, so less than expected says little; half of it says enough.
    is_wrong = cached > max(expected, earlier) or cached * 2 < expected
    return check_finding(
        f"{id}{':fault' * is_wrong}",
        expected=f"{expected:,} tokens in common",
        seen=f"{cached:,} of {total:,} tokens reused",
    )


# A loop, as an agent has it: each request continues the one before.

LOOP_TURNS = 4
# The largest blocks that caches are known to keep.
MOST_UNUSED = 256


def loop_bodies() -> list[Object]:
    """The requests of an agent that calls a tool three times."""
    system = f"You look at the weather. {words(600)}"
    messages: list[Object] = [
        {"role": "system", "content": system},
        {"role": "user", "content": "Weather of all cities?"},
    ]
    bodies = [{"messages": [*messages], "tools": [WEATHER]}]
    for turn in range(1, LOOP_TURNS):
        messages += _turn({f"call_{turn}": f"{words(100)} {turn}"}, words(300))
        bodies.append({"messages": [*messages], "tools": [WEATHER]})
    return bodies


def loop_findings(
    post: Post, hypothesis: Hypothesis, forecaster: Forecaster
) -> Iterator[ServerFinding]:
    """Whether each turn of a loop reuses what this server's prompts have in common."""
    bodies = loop_bodies()
    rows: list[tuple[int, int]] = []
    for before, body in zip([None, *bodies], bodies, strict=False):
        cached = cached_tokens(usage_of(post(CHAT, {**body, "max_tokens": 1})))
        if before is None:
            continue
        expected = _shared(hypothesis, forecaster, before, body)
        if expected is None or cached is None:
            return
        rows.append((expected, cached))
    yield _loop_finding(rows)


def _loop_finding(rows: Sequence[tuple[int, int]]) -> ServerFinding:
    forecast = ", ".join(f"{expected:,}" for expected, _ in rows) + " tokens in common"
    reuse = ", ".join(f"{cached:,}" for _, cached in rows) + " tokens reused"
    missed = [n for n, (expected, cached) in enumerate(rows, 2) if cached + MOST_UNUSED < expected]
    if missed:
        return check_finding("cache-loop:fault", turn=missed[0], expected=forecast, seen=reuse)
    return check_finding("cache-loop", turns=LOOP_TURNS, expected=forecast, seen=reuse)


def _shared(
    hypothesis: Hypothesis, forecaster: Forecaster, first: Object, second: Object
) -> int | None:
    """The tokens that two prompts have in common from the start."""
    dialect = hypothesis.server.release(hypothesis.dialect)
    ids: list[list[Any]] = []
    for body in (first, second):
        try:
            prompt = hypothesis.prompt(shielded(body))
        except Error:  # a refusal, or a prompt that cannot be known
            return None
        ids.append(list(forecaster.counter.ids(prompt, dialect, TEXT_PLACES)))
    return common_prefix_length(*ids)
