"""What comes back, through which routes, and what a cache reuses: checks beside the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dsv4.schema import has_type
from dsv4.verify.answers import ServerAnswer, streamed_answer, value_at, whole_answer
from dsv4.verify.check_findings import check_finding
from dsv4.verify.probes import HI, WEATHER, Probe
from dsv4.verify.report import CHAT, Post, ServerFinding
from dsv4.verify.server_client import Reply
from dsv4.verify.usage_fields import (
    cached_tokens,
    completion_tokens,
    counted_tokens,
    usage_of,
)

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
    """Whether an answer with a call is read as it should be, and in both ways alike."""
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
    """Whether answers were cut that had room left, by the server's own count. All of them are,
    where it is no accident."""
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
    """Whether the arguments of a call are what the tool `weather` takes."""
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


# Caches.


def cache_findings(post: Post, text: str) -> Iterator[ServerFinding]:
    """Whether a long request that was sent twice is found again with another end."""
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
    """What `dsv4 heal` says that it changes in requests such as this one."""
    finding = check_finding("adapted", adaptation=id, probe=probe.id)
    return replace(finding, id=f"adapted-{id}", group=probe.group)
