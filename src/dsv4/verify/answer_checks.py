"""Checks of what comes back that a whole run makes: lengths, stops, log probabilities, reasoning,
several calls at once, arguments that are hard to read.

Weights decide much of it. So a server is at fault only where no weights could explain what came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dsv4._format.tokens import THINK_END, THINK_START
from dsv4.verify.answer_rates import RATE_REQUESTS, rate_findings
from dsv4.verify.answers import ServerAnswer, streamed_answer, value_at, whole_answer
from dsv4.verify.forced_rows import NOT_THINKING
from dsv4.verify.probes import WEATHER
from dsv4.verify.report import HEAL, Post, ServerFinding, Standing

CHAT = "/chat/completions"


def answer_findings(post: Post) -> Iterator[ServerFinding]:
    """All of these checks, one after the other."""
    yield _length_finding(post)
    yield _stop_finding(post)
    yield _logprobs_finding(post)
    yield _reasoning_finding(post)
    yield _parallel_finding(post)
    yield _nasty_finding(post)
    yield from rate_findings(post)


# So many requests does that take.
ANSWER_REQUESTS = 2 + 1 + 1 + 1 + 1 + 3 + RATE_REQUESTS


def _finding(
    probe: str, name: str, verdict: Standing, message: str, effect: str = "", seen: str = ""
) -> ServerFinding:
    mend = HEAL if verdict == "fault" else ""
    id = f"{probe}-{name}"
    return ServerFinding(id, "output", verdict, message, effect, mend, probe, seen=seen)


def _asked(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **NOT_THINKING, **fields}


def _length_finding(post: Post) -> ServerFinding:
    """An answer that is cut at a number of tokens has no more, and says so."""
    for most in (1, 8):
        reply = post(CHAT, _asked("Tell me a very long story.", max_tokens=most))
        answer = whole_answer(reply)
        count = value_at(reply.body, "usage", "completion_tokens")
        if answer is None or type(count) is not int:
            return _finding("stops", "unseen", "inconclusive", "no answer of limited length")
        if count > most:
            effect = "limits of time and cost do not hold"
            message = f"an answer of at most {most} tokens has {count:,}"
            return _finding("stops", "length", "fault", message, effect)
        if count == most and answer.finish not in ("length", "max_tokens"):
            effect = "clients take a cut answer for a whole one"
            message = f"an answer that was cut ends with `{answer.finish}` and not with `length`"
            return _finding("stops", "finish", "fault", message, effect)
    return _finding("stops", "length", "pass", "answers are cut where they should be, and say so")


def _stop_finding(post: Post) -> ServerFinding:
    stop = "5"
    body = _asked("Count from 1 to 9, with spaces between.", max_tokens=40, stop=[stop])
    answer = whole_answer(post(CHAT, body))
    if answer is None:
        return _finding("stops", "string-unseen", "inconclusive", "no answer with a stop string")
    if stop in answer.content:
        effect = "clients read what they asked not to get"
        return _finding("stops", "string", "fault", "a stop string does not end the answer", effect)
    if answer.finish == "length":
        message = "the model did not write the stop string"
        return _finding("stops", "string-unwritten", "inconclusive", message)
    return _finding("stops", "string", "pass", "a stop string ends the answer")


def _logprobs_finding(post: Post) -> ServerFinding:
    """The tokens of log probabilities join to the text, and none is more than certain."""
    reply = post(CHAT, _asked("Say hello.", max_tokens=8, logprobs=True, top_logprobs=2))
    answer = whole_answer(reply)
    rows = value_at(reply.body, "choices", 0, "logprobs", "content")
    if answer is None or not isinstance(rows, list) or not rows:
        return _finding("logprobs", "none", "not offered", "no log probabilities")
    if any(_number(value_at(row, "logprob")) > 1e-6 for row in rows):
        message, effect = "log probabilities are above 0", "whoever trains on them trains on noise"
        return _finding("logprobs", "positive", "fault", message, effect)
    joined = b"".join(_bytes(row) for row in rows).decode("utf-8", "replace")
    if answer.content and answer.content.strip() not in joined:
        message = "the tokens of log probabilities do not join to the text"
        return _finding("logprobs", "text", "fault", message, "texts and tokens cannot be matched")
    return _finding("logprobs", "text", "pass", "log probabilities join to the text")


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _bytes(row: object) -> bytes:
    given = value_at(row, "bytes")
    if isinstance(given, list) and all(type(byte) is int and 0 <= byte < 256 for byte in given):
        return bytes(given)
    token = value_at(row, "token")
    return token.encode("utf-8", "replace") if isinstance(token, str) else b""


def _reasoning_finding(post: Post) -> ServerFinding:
    """Where reasoning comes back; never in the content."""
    on = {"thinking": {"type": "enabled"}, "chat_template_kwargs": {"thinking": True}}
    body = {**_asked("What is 17 times 23?", max_tokens=400), **on}
    reply = post(CHAT, body)
    answer = whole_answer(reply)
    if answer is None:
        return _finding("reasoning", "unseen", "inconclusive", "no answer with reasoning")
    if any(token in answer.content for token in (THINK_START, THINK_END)):
        message, effect = "reasoning is left in the answer's text", "users read the model's notes"
        return _finding("reasoning", "leaks", "fault", message, effect)
    given = value_at(reply.body, "choices", 0, "message")
    names = [name for name in ("reasoning_content", "reasoning") if value_at(given, name)]
    if not names:
        return _finding("reasoning", "unseen", "inconclusive", "no reasoning came back")
    counted = value_at(reply.body, "usage", "completion_tokens_details", "reasoning_tokens")
    how = f", {counted:,} tokens" if type(counted) is int and counted else ", not counted"
    return _finding("reasoning", "field", "pass", f"reasoning comes back as `{names[0]}`{how}")


def _parallel_finding(post: Post) -> ServerFinding:
    """Three calls at once are three, and none is merged with another."""
    text = "Call the tool weather three times at once: for Paris, for Rome and for Oslo."
    body = _asked(text, max_tokens=400, tools=[WEATHER], stream=True)
    answer = streamed_answer(post(CHAT, body))
    if answer is None or len(answer.calls) < 2:
        message = "the model did not call several tools at once"
        return _finding("calls-parallel", "unseen", "inconclusive", message)
    if problem := _merged(answer):
        effect = "agents run one call with the arguments of another, or none"
        return _finding("calls-parallel", "merged", "fault", problem, effect)
    message = f"{len(answer.calls)} calls at once stay apart"
    return _finding("calls-parallel", "apart", "pass", message)


def _merged(answer: ServerAnswer) -> str:
    if any(not isinstance(arguments, dict) for _, arguments in answer.read_calls):
        return "the arguments of calls at once are no JSON"
    if any(not name for name, _ in answer.calls):
        return "a call among several has no name"
    if len(set(answer.call_ids)) < len(answer.call_ids) or "" in answer.call_ids:
        return "calls at once share an id"
    return ""


NASTY = ("make test 2>&1", "echo </parameter>", "echo " + "word " * 2_000)


def _nasty_finding(post: Post) -> ServerFinding:
    """Arguments that are hard to read. A cut one is the parser's fault, another one may be the
    model's."""
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "run", "parameters": parameters}}
    exact = 0
    for command in NASTY:
        text = f"Call the tool run with exactly this command: {json.dumps(command)}"
        body = _asked(text, max_tokens=len(command) + 100, tools=[tool])
        answer = whole_answer(post(CHAT, body))
        calls = answer.read_calls if answer is not None else []
        found = value_at(calls[0][1], "command") if calls else None
        is_exact = found in (command, command.strip())
        is_start = isinstance(found, str) and bool(found) and command.startswith(found)
        if answer is not None and is_start and not is_exact and answer.finish != "length":
            message = "an argument that holds signs of markup is cut"
            effect = "tools run half a command"
            return _finding("calls-nasty", "cut", "fault", message, effect, str(found)[-20:])
        exact += is_exact
    verdict: Standing = "pass" if exact == len(NASTY) else "inconclusive"
    message = f"{exact} of {len(NASTY)} arguments that are hard to read came back exactly"
    return _finding("calls-nasty", "exact", verdict, message)
