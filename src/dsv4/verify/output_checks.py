"""Checks besides the counts: answers, other routes, raw prompts, and what a cache reuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dsv4._format.dialects import V4
from dsv4._format.tokens import BOS
from dsv4.schema import has_type
from dsv4.verify.answers import (
    ServerAnswer,
    cached_tokens,
    completion_tokens,
    counted_tokens,
    streamed_answer,
    usage_of,
    value_at,
    whole_answer,
)
from dsv4.verify.probes import HI, SPELLED, WEATHER, Probe
from dsv4.verify.server_client import Reply
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding
from dsv4.verify.token_counts import PromptCounter

ASKING = {
    "messages": [{"role": "user", "content": "Call the tool weather for Paris, now."}],
    "tools": [WEATHER],
    "max_tokens": 120,
    "temperature": 0,
    "thinking": {"type": "disabled"},
    "chat_template_kwargs": {"thinking": False},
}


# Calls, whole and streamed.

# A server that stops at a length may have cut a call.
CALL_FINISHES = ("tool_calls", "length")


def call_findings(post: Post) -> Iterator[ServerFinding]:
    """Whether an answer with a call is parsed correctly, and the same whole and streamed."""
    streaming = {**ASKING, "stream": True, "stream_options": {"include_usage": True}}
    replies = post(CHAT, ASKING), post(CHAT, streaming)
    whole, streamed = whole_answer(replies[0]), streamed_answer(replies[1])
    answers = [answer for answer in (whole, streamed) if answer is not None]
    if not answers:
        yield check_finding("output-unseen")
        return
    calls = [call for answer in answers for call in answer.read_calls]
    wrong = {
        "output-markup": any(answer.leaks_markup for answer in answers),
        "output-arguments": any(not isinstance(arguments, dict) for _, arguments in calls),
        "output-finish": any(a.calls and a.finish not in CALL_FINISHES for a in answers),
        "output-ids": not all(has_own_ids(answer) for answer in answers),
        "output-schema": any(not follows_schema(arguments) for _, arguments in calls),
    }
    yield from (check_finding(id) for id, is_wrong in wrong.items() if is_wrong)
    yield from _length_findings(replies, answers)
    if whole and streamed and _words_and_calls(whole) != _words_and_calls(streamed):
        yield check_finding("output-streams")
    elif calls:
        yield check_finding("output-calls", calls=len(calls))
    else:
        yield check_finding("output-no-call")


def _length_findings(
    replies: Sequence[Reply], answers: Sequence[ServerAnswer]
) -> Iterator[ServerFinding]:
    """Whether answers were cut although the server's own count leaves room. It is reported only if
    all of them were, so that it is not an accident."""
    counts = [completion_tokens(usage_of(reply)) for reply in replies]
    most: int = ASKING["max_tokens"]  # type: ignore[assignment]
    short = [f"{count:,}" for count in counts if count is not None and count < most]
    if len(short) == len(replies) and all(answer.finish == "length" for answer in answers):
        yield check_finding("output-length", counts=" and ".join(short), most=most)


def has_own_ids(answer: ServerAnswer) -> bool:
    """Whether each call has an id that no other has."""
    return "" not in answer.call_ids and len(set(answer.call_ids)) == len(answer.call_ids)


def _words_and_calls(answer: ServerAnswer) -> tuple[str, Any]:
    return answer.content.strip(), answer.read_calls


def follows_schema(arguments: Any) -> bool:
    """Whether the arguments of a call follow the schema of the tool `weather`."""
    values = arguments if isinstance(arguments, dict) else {}
    types = {"city": ["string"], "days": ["integer"]}
    return "city" in values and all(
        key in types and has_type(value, types[key]) for key, value in values.items()
    )


# Other routes.


def other_routes(post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
    """Whether Messages and Responses count as Chat does."""
    routes: dict[str, tuple[str, dict[str, Any]]] = {
        "messages": ("/messages", {"messages": [HI], "max_tokens": 1}),
        "responses": ("/responses", {"input": "Hi", "max_output_tokens": 1}),
    }
    offered = []
    for name, (path, body) in routes.items():
        count = counted_tokens(post(path, body))
        if count is None:
            continue
        offered.append(name)
        if plain and count not in plain:
            yield _counted_otherwise(f"protocols-{name}", plain[0], count)
    if "messages" in offered:
        yield from _counted_beforehand(post, plain)
    if not offered:
        yield check_finding("protocols-none")
    else:
        yield check_finding("protocols-counted", routes=", ".join(offered))


def _counted_otherwise(key: str, expected: int, count: int) -> ServerFinding:
    return check_finding(key, expected=f"{expected:,} tokens", seen=f"{count:,} tokens")


def _counted_beforehand(post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
    """Whether `count_tokens` agrees with the usage of the same request."""
    reply = post("/messages/count_tokens", {"messages": [HI]})
    count = value_at(reply.body, "input_tokens")
    if type(count) is int and plain and count not in plain:
        yield _counted_otherwise("protocols-count-tokens", plain[0], count)


# Raw completions.

ROUTE = "/completions"
# One prompt shows both whether special tokens act, and whether a BOS is added to an existing one.
WITH_BOS = f"{BOS}{SPELLED}"
WITHOUT_BOS, ITS_TOKENS = "Hi", 1


def raw_findings(post: Post, counter: PromptCounter, *, full: bool) -> Iterator[ServerFinding]:
    """Whether special tokens in a raw prompt act, and whether a BOS is added to it. With `full`
    also whether a prompt without BOS gets one, and whether `echo` gives it back."""
    count = counted_tokens(_completed(post, WITH_BOS))
    if count is None:
        yield check_finding("raw-none")
        return
    acting = counter.count(WITH_BOS, V4, frozenset())
    plain = len(counter.tokenizer.encode_text(WITH_BOS))
    yield _tokens_finding(count, acting, plain)
    if count == acting + 1:
        yield check_finding("raw-bos-twice")
    bare = None
    if full:
        reply, echoed = _echoed(post)
        bare = counted_tokens(reply)
        yield echoed
    if count == acting or (bare is not None and count != acting + 1):
        yield _bos_finding(bare)


def _tokens_finding(count: int, acting: int, plain: int) -> ServerFinding:
    acts = {acting: ":acting", acting + 1: ":acting", plain: ":plain", plain + 1: ":plain"}
    key = f"raw-tokens{acts.get(count, '')}"
    return check_finding(key, seen=f"{count:,} tokens", acting=acting, plain=plain)


def _bos_finding(bare: int | None) -> ServerFinding:
    kinds = {None: ":no-second", ITS_TOKENS: ":none", ITS_TOKENS + 1: ":added"}
    count_text = "" if bare in kinds else f"{bare:,} tokens"
    return check_finding(f"raw-bos{kinds.get(bare, '')}", seen=count_text)


def _echoed(post: Post) -> tuple[Reply, ServerFinding]:
    """The reply to a prompt without BOS, and the finding on whether it repeats the prompt."""
    reply = _completed(post, WITHOUT_BOS, echo=True)
    if counted_tokens(reply) is None:
        return _completed(post, WITHOUT_BOS), check_finding("raw-echo:refused")
    text = value_at(reply.body, "choices", 0, "text")
    if isinstance(text, str) and text.startswith(WITHOUT_BOS):
        return reply, check_finding("raw-echo")
    return reply, check_finding("raw-echo:ignored")


def _completed(post: Post, prompt: str, **fields: Any) -> Reply:
    body: Mapping[str, Any] = {"prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    return post(ROUTE, body)


# Caches.


def cache_findings(post: Post, text: str) -> Iterator[ServerFinding]:
    """Whether a cache reuses a long request, sent twice, for one with another end."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    post(CHAT, body)
    post(CHAT, body)
    other = {**body, "messages": [{"role": "user", "content": f"{text} And now?"}]}
    reply = post(CHAT, other)
    total, cached = counted_tokens(reply), cached_tokens(usage_of(reply))
    if total is None or cached is None:
        yield check_finding("cache-unseen")
        return
    reused = f"{cached:,} of {total:,} tokens reused"
    if cached * 2 < total:
        yield check_finding("cache-missed", expected=f"most of {total:,} tokens", seen=reused)
    else:
        yield check_finding("cache-reused", reused=reused, seen=reused)


def adapted_finding(id: str, probe: Probe) -> ServerFinding:
    """The finding that `dsv4 heal` adapts requests such as this one, as it says itself."""
    finding = check_finding("adapted", adaptation=id, probe=probe.id)
    return replace(finding, id=f"adapted-{id}", group=probe.group)
