"""Checks of answers that a whole run makes: lengths, stops, log probabilities, reasoning, several
calls in one answer, arguments that are hard to read.

Weights decide much of it. So a server is at fault only where no weights could explain an answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dsv4._format.tokens import THINK_END, THINK_START
from dsv4.verify.answer_rates import NOT_THINKING, THINKING, rate_findings
from dsv4.verify.answers import (
    ServerAnswer,
    argument_times,
    streamed_answer,
    value_at,
    whole_answer,
)
from dsv4.verify.output_checks import has_own_ids
from dsv4.verify.probes import WEATHER
from dsv4.verify.server_client import Reply
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding


def answer_findings(post: Post) -> Iterator[ServerFinding]:
    """All of these checks, one after the other."""
    yield _length_finding(post)
    yield _stop_finding(post)
    yield _reasoning_stop_finding(post)
    yield _logprobs_finding(post)
    yield _reasoning_finding(post)
    yield _parallel_finding(post)
    yield from _nasty_findings(post)
    yield from rate_findings(post)


# The tool whose arguments are hard to read.
RUN: Any = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "d",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
LONG = "10 KB"
_SCRIPT = "\n".join(
    f"echo step {n} of the build, with its log in build-{n}.txt" for n in range(200)
)
NASTY: Mapping[str, str] = {
    "redirection": "make test 2>&1",
    "closing tag": "echo </parameter>",
    LONG: _SCRIPT,
}


def _body_of(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **NOT_THINKING, **fields}


def _length_finding(post: Post) -> ServerFinding:
    """Whether an answer that is cut at a number of tokens has no more of them, and says so."""
    for most in (1, 8):
        reply = post(CHAT, _body_of("Tell me a very long story.", max_tokens=most))
        answer = whole_answer(reply)
        count = value_at(reply.body, "usage", "completion_tokens")
        if answer is None or type(count) is not int:
            return check_finding("stops-unseen")
        if count > most:
            return check_finding("stops-length:fault", most=most, count=count)
        if count == most and answer.finish not in ("length", "max_tokens"):
            return check_finding("stops-finish", finish=answer.finish)
    return check_finding("stops-length")


def _stop_finding(post: Post) -> ServerFinding:
    stop = "5"
    body = _body_of("Count from 1 to 9, with spaces between.", max_tokens=40, stop=[stop])
    answer = whole_answer(post(CHAT, body))
    if answer is None:
        return check_finding("stops-string-unseen")
    if stop in answer.content:
        return check_finding("stops-string:fault")
    if answer.finish == "length":
        return check_finding("stops-string-unwritten")
    return check_finding("stops-string", finish=answer.finish)


def _reasoning_stop_finding(post: Post) -> ServerFinding:
    """Whether a stop string also ends an answer if it is in the reasoning, or only if it is in the
    text. Servers do either: a client has to know which."""
    stop = "5"
    text = "Count from 1 to 9 in your thoughts, with spaces between. Then answer: done."
    body = {**_body_of(text, max_tokens=400, stop=[stop]), **THINKING}
    answer = whole_answer(post(CHAT, body))
    if answer is None or not answer.reasoning:
        return check_finding("stops-reasoning-unseen")
    if stop in answer.content:
        return check_finding("stops-string:after-reasoning")
    if stop in answer.reasoning and (answer.content or answer.finish == "length"):
        return check_finding("stops-reasoning:passed", finish=answer.finish)
    if answer.content or answer.finish == "length":
        return check_finding("stops-reasoning-unwritten")
    remark = ", which keeps it" if stop in answer.reasoning else ""
    answer_words = f"{len(answer.reasoning):,} characters of reasoning, no text, `{answer.finish}`"
    return check_finding("stops-reasoning", left=remark, seen=answer_words)


def _logprobs_finding(post: Post) -> ServerFinding:
    """Whether the tokens of log probabilities join to the text, and none is above 0 (certain)."""
    reply = post(CHAT, _body_of("Say hello.", max_tokens=8, logprobs=True, top_logprobs=2))
    answer = whole_answer(reply)
    rows = value_at(reply.body, "choices", 0, "logprobs", "content")
    if answer is None or not isinstance(rows, list) or not rows:
        return check_finding("logprobs-none")
    if any(_number(value_at(row, "logprob")) > 1e-6 for row in rows):
        return check_finding("logprobs-positive")
    joined = b"".join(_bytes(row) for row in rows).decode("utf-8", "replace")
    is_text = not answer.content or answer.content.strip() in joined
    return check_finding("logprobs-text" if is_text else "logprobs-text:fault")


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 1.0


def _bytes(row: object) -> bytes:
    values = value_at(row, "bytes")
    if isinstance(values, list) and all(type(byte) is int and 0 <= byte < 256 for byte in values):
        return bytes(values)
    token = value_at(row, "token")
    return token.encode("utf-8", "replace") if isinstance(token, str) else b""


def _reasoning_finding(post: Post) -> ServerFinding:
    """Whether reasoning comes back in a field of its own, and never in the content."""
    body = {**_body_of("What is 17 times 23?", max_tokens=400), **THINKING}
    reply = post(CHAT, body)
    answer = whole_answer(reply)
    if answer is None:
        return check_finding("reasoning-unseen:answer")
    if any(token in answer.content for token in (THINK_START, THINK_END)):
        return check_finding("reasoning-leaks")
    message = value_at(reply.body, "choices", 0, "message")
    names = [name for name in ("reasoning_content", "reasoning") if value_at(message, name)]
    if not names:
        return check_finding("reasoning-unseen")
    counted = value_at(reply.body, "usage", "completion_tokens_details", "reasoning_tokens")
    how = f"{counted:,} tokens" if type(counted) is int and counted else "not counted"
    return check_finding("reasoning-field", field=names[0], counted=how)


def _parallel_finding(post: Post) -> ServerFinding:
    """Whether three calls in one answer stay three, and none is merged with another."""
    text = "Call the tool weather three times at once: for Paris, for Rome and for Oslo."
    body = _body_of(text, max_tokens=400, tools=[WEATHER], stream=True)
    answer = streamed_answer(post(CHAT, body))
    if answer is None or len(answer.calls) < 2:
        return check_finding("calls-parallel-unseen")
    if problem := _merged(answer):
        return check_finding("calls-parallel-merged", problem=problem)
    return check_finding("calls-parallel-apart", calls=len(answer.calls))


def _merged(answer: ServerAnswer) -> str:
    if any(not isinstance(arguments, dict) for _, arguments in answer.read_calls):
        return "the arguments of calls at once are no JSON"
    if any(not name for name, _ in answer.calls):
        return "a call among several has no name"
    if not has_own_ids(answer):
        return "calls at once share an id"
    return ""


# An argument whose first byte comes after this share of the time was held back until it was whole.
HELD_BACK = 0.9


def _nasty_findings(post: Post) -> Iterator[ServerFinding]:
    """Whether arguments that are hard to read arrive whole. A cut one is the parser's fault; any
    other difference may be the model's."""
    wrong: list[str] = []
    for name, command in NASTY.items():
        body = _nasty_body(command)
        streamed = post(CHAT, {**body, "stream": True})
        answers = [streamed_answer(streamed)]
        answers += [whole_answer(post(CHAT, body))] if name != LONG else []
        if cut := next((part for each in answers if (part := _cut(each, command))), ""):
            yield check_finding("calls-nasty-cut", name=name, seen=cut[-20:])
            return
        if all(_command(each) in _exact(command) for each in answers):
            if name == LONG:
                yield _first_byte_finding(streamed)
            continue
        wrong.append(name)
    yield _exact_finding(wrong)


def _nasty_body(command: str) -> dict[str, Any]:
    text = f"Call the tool run with exactly this command: {json.dumps(command)}"
    return _body_of(text, max_tokens=len(command) // 2 + 200, tools=[RUN])


def _exact(command: str) -> tuple[str, ...]:
    return command, command.strip()


def _command(answer: ServerAnswer | None) -> Any:
    calls = answer.read_calls if answer is not None else []
    return value_at(calls[0][1], "command") if calls else None


def _cut(answer: ServerAnswer | None, command: str) -> str:
    """The part of a command that arrived, if only its start did; otherwise empty."""
    text = _command(answer)
    if answer is None or answer.finish == "length" or not isinstance(text, str):
        return ""
    return text if text not in _exact(command) and command.startswith(text) else ""


def _exact_finding(wrong: list[str]) -> ServerFinding:
    exact = f"{len(NASTY) - len(wrong)} of {len(NASTY)}"
    message = f"{exact} arguments that are hard to read came back exactly"
    if wrong:
        message += f", and not: {', '.join(wrong)}"
    return check_finding(f"calls-nasty-exact{':some' * bool(wrong)}", exact=message)


def _first_byte_finding(streamed: Reply) -> ServerFinding:
    """Whether a long argument comes while it is written, or in one piece. Both are right: clients
    that would run half a call need the second, and those that show it need the first."""
    times = argument_times(streamed)
    if not times:
        return check_finding("calls-nasty-first-byte-unseen")
    first, last = times[0], times[-1]
    times_words = f"first byte after {first:.1f} of {last:.1f} seconds, {len(times):,} pieces"
    is_late = len(times) == 1 or first > HELD_BACK * last
    return check_finding(f"calls-nasty-first-byte{':late' * is_late}", size=LONG, seen=times_words)
