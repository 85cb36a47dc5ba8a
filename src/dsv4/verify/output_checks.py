"""What comes back, through which routes, and what a cache reuses: checks beside the counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dsv4.schema import has_type
from dsv4.verify.answers import ServerAnswer, streamed_answer, value_at, whole_answer
from dsv4.verify.probes import HI, WEATHER
from dsv4.verify.report import CHAT, HEAL, Post, ServerFinding, Standing
from dsv4.verify.sending import prompt_tokens, usage_of
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

# A server that stops at a length may have cut a call.
CALL_FINISHES = ("tool_calls", "length")


def call_findings(post: Post) -> Iterator[ServerFinding]:
    """Whether an answer with a call is read as it should be, and in both ways alike."""
    whole = whole_answer(post(CHAT, ASKING))
    streamed = streamed_answer(
        post(
            CHAT,
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
    if any(answer.calls and answer.finish not in CALL_FINISHES for answer in answers):
        yield _output(
            "output-finish",
            "fault",
            "an answer with a call does not end with `tool_calls`",
            "agents that look at it take the turn for finished, and run nothing",
        )
    if not all(has_own_ids(answer) for answer in answers):
        yield _output(
            "output-ids",
            "fault",
            "a call has no id of its own",
            "its result cannot be sent back",
        )
    if any(not follows_schema(arguments) for _, arguments in calls):
        yield _output(
            "output-schema",
            "inconclusive",
            "a call does not follow the schema of its tool: the model, or the parser, has it wrong",
        )
    if whole and streamed and _said(whole) != _said(streamed):
        yield _output(
            "output-streams",
            "inconclusive",
            "the streamed answer is not the whole one: its parser, or its sampling, differs",
        )
    elif calls:
        yield _output("output-calls", "pass", f"{len(calls)} calls, streamed and whole: the same")
    else:
        yield _output("output-no-call", "inconclusive", "the model called no tool when asked to")


def has_own_ids(answer: ServerAnswer) -> bool:
    """Whether each call has an id that no other has."""
    return "" not in answer.call_ids and len(set(answer.call_ids)) == len(answer.call_ids)


def _said(answer: ServerAnswer) -> tuple[str, Any]:
    return answer.content.strip(), answer.read_calls


def follows_schema(arguments: Any) -> bool:
    """Whether the arguments of a call are what the tool `weather` takes."""
    given = arguments if isinstance(arguments, dict) else {}
    types = {"city": ["string"], "days": ["integer"]}
    return "city" in given and all(
        key in types and has_type(value, types[key]) for key, value in given.items()
    )


def _output(id: str, verdict: Standing, message: str, effect: str = "") -> ServerFinding:
    return ServerFinding(id, "output", verdict, message, effect, HEAL if effect else "", "calls")


# Lengths.

LEAST_LONGER = 2


def length_findings(longer: Sequence[str]) -> Iterator[ServerFinding]:
    """Whether answers have more tokens than `max_tokens` allows, by the requests where they do."""
    if len(longer) >= LEAST_LONGER:
        yield replace(
            _output(
                "max-tokens-ignored",
                "fault",
                f"{len(longer)} answers have more tokens than `max_tokens` allows",
                "answers cost more than was allowed, and budgets are overrun",
            ),
            probe=longer[0],
            shown_by=tuple(dict.fromkeys(longer)),
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
    return None if reply.refused else prompt_tokens(usage_of(reply))


# Caches.


def cache_findings(post: Post, text: str) -> Iterator[ServerFinding]:
    """Whether a long request that was sent twice is found again with another end."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    post(CHAT, body)
    post(CHAT, body)
    other = {**body, "messages": [{"role": "user", "content": f"{text} And now?"}]}
    usage = value_at(post(CHAT, other).body, "usage")
    total, cached = (
        value_at(usage, "prompt_tokens"),
        value_at(usage, "prompt_tokens_details", "cached_tokens"),
    )
    if type(total) is not int or type(cached) is not int:
        message = "the answers do not say what was reused"
        yield ServerFinding("cache-unseen", "cache", "not offered", message)
        return
    reused = f"{cached:,} of {total:,} tokens reused"
    if cached * 2 < total:
        yield ServerFinding(
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
    else:
        yield ServerFinding("cache-reused", "cache", "pass", reused, probe="cache", seen=reused)
