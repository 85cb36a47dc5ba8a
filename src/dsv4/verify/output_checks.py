"""What comes back, through which routes, and what a cache reuses: checks beside the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dsv4.verify.answers import streamed_answer, value_at, whole_answer
from dsv4.verify.probes import HI, SPELLED, WEATHER
from dsv4.verify.report import HEAL, Post, ServerFinding, Standing
from dsv4.verify.server_client import Reply

ASKING = {
    "messages": [{"role": "user", "content": "Call the tool weather for Paris, now."}],
    "tools": [WEATHER],
    "max_tokens": 120,
    "temperature": 0,
    "thinking": {"type": "disabled"},
    "chat_template_kwargs": {"thinking": False},
}


# Calls, whole and streamed.


def call_findings(post: Post) -> Iterator[ServerFinding]:
    """Whether an answer with a call is read as it should be, and in both ways alike."""
    whole = whole_answer(post("/chat/completions", ASKING))
    streamed = streamed_answer(
        post(
            "/chat/completions",
            {**ASKING, "stream": True, "stream_options": {"include_usage": True}},
        )
    )
    answers = [answer for answer in (whole, streamed) if answer is not None]
    if not answers:
        yield _output("output-unseen", "inconclusive", "no answer with a call could be read")
        return
    if any(answer.leaks_markup for answer in answers):
        yield _output(
            "output-markup",
            "fault",
            "markup of calls is left in the text of answers",
            "agents show it to people, or miss the call",
        )
    calls = [call for answer in answers for call in answer.read_calls]
    if any(not isinstance(arguments, dict) for _, arguments in calls):
        yield _output(
            "output-arguments",
            "fault",
            "arguments of a call are no JSON object",
            "the tool cannot be run",
        )
    if whole and streamed and whole.read_calls != streamed.read_calls:
        yield _output(
            "output-streams",
            "inconclusive",
            "the streamed answer is not the whole one: its parser, or its sampling, differs",
        )
    elif calls:
        yield _output("output-calls", "pass", f"{len(calls)} calls, streamed and whole: the same")
    else:
        yield _output("output-no-call", "inconclusive", "the model called no tool when asked to")


def _output(id: str, verdict: Standing, message: str, effect: str = "") -> ServerFinding:
    return ServerFinding(id, "output", verdict, message, effect, HEAL if effect else "", "calls")


# Other routes.


def other_routes(post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
    """Whether Messages, Responses and raw completions count as Chat does."""
    routes: dict[str, tuple[str, dict[str, Any]]] = {
        "messages": ("/messages", {"messages": [HI], "max_tokens": 1}),
        "responses": ("/responses", {"input": "Hi", "max_output_tokens": 1}),
    }
    offered = []
    for name, (path, body) in routes.items():
        count = _input_tokens(post(path, body))
        if count is None:
            continue
        offered.append(name)
        if plain and count not in plain:
            message = f"{name} counts other tokens than Chat for the same text"
            yield ServerFinding(
                f"protocols-{name}",
                "protocols",
                "differs",
                message,
                "thinking or effort has another default there",
                "set both in the request",
                name,
                f"{plain[0]:,} tokens",
                f"{count:,} tokens",
            )
    if "messages" in offered:
        yield from _counted_beforehand(post, plain)
    if not offered:
        message = "neither Messages nor Responses"
        yield ServerFinding("protocols-none", "protocols", "not offered", message)
    else:
        message = f"counted through {', '.join(offered)}"
        yield ServerFinding("protocols-counted", "protocols", "pass", message)
    yield _raw(post)


def _counted_beforehand(post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
    """Whether `count_tokens` agrees with the usage of the same request."""
    reply = post("/messages/count_tokens", {"messages": [HI]})
    count = value_at(reply.body, "input_tokens")
    if type(count) is not int or not plain or count in plain:
        return
    yield ServerFinding(
        "protocols-count-tokens",
        "protocols",
        "differs",
        "count_tokens counts otherwise than the answer's usage",
        "clients that measure beforehand cut too early or too late",
        "count with `dsv4 count --profile`",
        "protocols",
        f"{plain[0]:,} tokens",
        f"{count:,} tokens",
    )


def _input_tokens(reply: Reply) -> int | None:
    usage = value_at(reply.body, "usage")
    if reply.refused or not isinstance(usage, dict):
        return None
    parts = [usage.get("input_tokens"), usage.get("cache_read_input_tokens", 0)]
    return sum(parts) if all(type(part) is int for part in parts) else None


def _raw(post: Post) -> ServerFinding:
    reply = post("/completions", {"prompt": SPELLED, "max_tokens": 1, "temperature": 0})
    count = value_at(reply.body, "usage", "prompt_tokens")
    if type(count) is not int:
        return ServerFinding("raw-none", "raw", "not offered", "no raw completions")
    acts = count < 15
    way = "special tokens in a raw prompt act" if acts else "raw prompts are plain text"
    return ServerFinding("raw-tokens", "raw", "pass", way, probe="raw", seen=f"{count:,} tokens")


# Caches.


def cache_finding(post: Post, text: str) -> ServerFinding:
    """Whether a long request that was sent twice is found again with another end."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    post("/chat/completions", body)
    post("/chat/completions", body)
    other = {**body, "messages": [{"role": "user", "content": f"{text} And now?"}]}
    usage = value_at(post("/chat/completions", other).body, "usage")
    total, cached = (
        value_at(usage, "prompt_tokens"),
        value_at(usage, "prompt_tokens_details", "cached_tokens"),
    )
    if type(total) is not int or type(cached) is not int:
        message = "the answers do not say what was reused"
        return ServerFinding("cache-unseen", "cache", "not offered", message)
    reused = f"{cached:,} of {total:,} tokens reused"
    if cached * 2 < total:
        return ServerFinding(
            "cache-missed",
            "cache",
            "fault",
            "what was just sent is computed again",
            "every turn of an agent pays for the whole prompt",
            "enable prefix caching on the server",
            "cache",
            f"most of {total:,} tokens",
            reused,
        )
    return ServerFinding("cache-reused", "cache", "pass", reused, probe="cache", seen=reused)
