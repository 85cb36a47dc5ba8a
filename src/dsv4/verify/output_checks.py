"""What comes back, through which routes, and what a cache reuses: checks beside the counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dsv4._format.tokens import V4_1_TOKENS, spelled
from dsv4.verify.probes import HI, SPELLED, WEATHER
from dsv4.verify.report import ServerFinding, Standing
from dsv4.verify.server_client import Reply

Post: TypeAlias = Callable[[str, Mapping[str, Any]], Reply]
_MARKUP = spelled(V4_1_TOKENS)
ASKING = {
    "messages": [{"role": "user", "content": "Call the tool weather for Paris, now."}],
    "tools": [WEATHER],
    "max_tokens": 120,
    "temperature": 0,
    "thinking": {"type": "disabled"},
    "chat_template_kwargs": {"thinking": False},
}
HEAL = "put `dsv4 heal` or `dsv4 serve` in front of it"
Answer: TypeAlias = dict[str, Any]


# Calls, whole and streamed.


def call_findings(post: Post) -> Iterator[ServerFinding]:
    """Whether an answer with a call is read as it should be, and in both ways alike."""
    whole = _whole(post("/chat/completions", ASKING))
    streamed = _joined(
        post(
            "/chat/completions",
            {**ASKING, "stream": True, "stream_options": {"include_usage": True}},
        )
    )
    answers = [answer for answer in (whole, streamed) if answer is not None]
    if not answers:
        yield _output("output-unseen", "inconclusive", "no answer with a call could be read")
        return
    if any(_MARKUP.search(text) for answer in answers for text in _texts(answer)):
        yield _output(
            "output-markup",
            "fault",
            "markup of calls is left in the text of answers",
            "agents show it to people, or miss the call",
        )
    calls = [call for answer in answers for call in answer["calls"]]
    if any(not _is_object(call["arguments"]) for call in calls):
        yield _output(
            "output-arguments",
            "fault",
            "arguments of a call are no JSON object",
            "the tool cannot be run",
        )
    if whole and streamed and _same_form(whole) != _same_form(streamed):
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


def _whole(reply: Reply) -> Answer | None:
    message = _at(reply.body, "choices", 0, "message")
    if not isinstance(message, dict):
        return None
    given = message.get("tool_calls")
    calls = given if isinstance(given, list) else []
    return {
        "content": _text(message.get("content")),
        "reasoning": _text(message.get("reasoning_content") or message.get("reasoning")),
        "calls": [_call(_at(call, "function")) for call in calls]
        if isinstance(calls, list)
        else [],
    }


def _joined(reply: Reply) -> Answer | None:
    if not reply.events:
        return None
    answer: Answer = {"content": "", "reasoning": "", "calls": []}
    for event in reply.events:
        delta = _at(event, "choices", 0, "delta")
        if not isinstance(delta, dict):
            continue
        answer["content"] += _text(delta.get("content"))
        answer["reasoning"] += _text(delta.get("reasoning_content") or delta.get("reasoning"))
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else ():
            _add_call(answer["calls"], part)
    return answer


def _add_call(calls: list[dict[str, str]], part: object) -> None:
    index = part.get("index") if isinstance(part, dict) else None
    number = index if type(index) is int and 0 <= index < 128 else len(calls)
    while len(calls) <= number:
        calls.append({"name": "", "arguments": ""})
    found = _call(_at(part, "function"))
    calls[number]["name"] += found["name"]
    calls[number]["arguments"] += found["arguments"]


def _call(function: object) -> dict[str, str]:
    fields = function if isinstance(function, dict) else {}
    return {"name": _text(fields.get("name")), "arguments": _text(fields.get("arguments"))}


def _at(value: object, *steps: str | int) -> Any:
    for step in steps:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(answer: Answer) -> list[str]:
    return [answer["content"], answer["reasoning"]]


def _is_object(text: str) -> bool:
    return isinstance(_loaded(text), dict)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _same_form(answer: Answer) -> list[tuple[str, Any]]:
    return [(call["name"], _loaded(call["arguments"])) for call in answer["calls"]]


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
    if not offered:
        message = "neither Messages nor Responses"
        yield ServerFinding("protocols-none", "protocols", "not offered", message)
    else:
        message = f"counted through {', '.join(offered)}"
        yield ServerFinding("protocols-counted", "protocols", "pass", message)
    yield _raw(post)


def _input_tokens(reply: Reply) -> int | None:
    usage = _at(reply.body, "usage")
    if reply.refused or not isinstance(usage, dict):
        return None
    parts = [usage.get("input_tokens"), usage.get("cache_read_input_tokens", 0)]
    return sum(parts) if all(type(part) is int for part in parts) else None


def _raw(post: Post) -> ServerFinding:
    reply = post("/completions", {"prompt": SPELLED, "max_tokens": 1, "temperature": 0})
    count = _at(reply.body, "usage", "prompt_tokens")
    if type(count) is not int:
        return ServerFinding("raw-none", "raw", "not offered", "no raw completions")
    acts = count < 15
    way = "special tokens in a raw prompt act" if acts else "raw prompts are plain text"
    return ServerFinding("raw-tokens", "raw", "pass", way, probe="raw", seen=f"{count:,} tokens")


# Caches.


def cache_finding(post: Post, text: str) -> ServerFinding:
    """Whether the second of two equal long requests finds the first one's prefix."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    post("/chat/completions", body)
    usage = _at(post("/chat/completions", body).body, "usage")
    total, cached = (
        _at(usage, "prompt_tokens"),
        _at(usage, "prompt_tokens_details", "cached_tokens"),
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
            "a request that was just sent is computed again",
            "every turn of an agent pays for the whole prompt",
            "enable prefix caching on the server",
            "cache",
            f"most of {total:,} tokens",
            reused,
        )
    return ServerFinding("cache-reused", "cache", "pass", reused, probe="cache", seen=reused)
