"""Ways of being odd that a server or a proxy may have, each as a wrapper around any known server.

A habit is none of the prompt, but for two servers behind one address: whatever is said of prompts
besides what the known server does by itself is false.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any
from zlib import crc32

from stand_ins import StandIn, server

from dsv4.verify import Hypothesis, Reply

Body = Mapping[str, Any]
Usage = dict[str, Any]


class Habitual(StandIn):
    """A server with a habit. What it does by chance is the same in every run."""

    def __init__(self, truth: Hypothesis, habit: Habit) -> None:
        super().__init__(truth)
        self.truth, self.habit, self.chance = truth, habit, random.Random(7)
        self.sent: list[str] = []
        self.cache: dict[str, Reply] = {}

    def post(self, path: str, body: Body) -> Reply:
        if path == "/chat/completions":
            self.sent.append(json.dumps([body["messages"], body.get("tools")], sort_keys=True))
        return self.habit.reply(self, path, body)

    def honest(self, path: str, body: Body) -> Reply:
        """What it would answer without the habit."""
        return super().post(path, body)

    def refusal(self, words: str, status: int = 400) -> Reply:
        self.requests += 1
        return Reply(status, body={"error": {"message": words}})


Answering = Callable[[Habitual, str, Body], Reply]


@dataclass(frozen=True)
class Habit:
    """`may` are the ids of findings that are true of it, of which a default run says one, if there
    are any; `is_silent` where nothing has to be said. `hides` the server where its counts are not
    those of the prompts, so that the server need not be named."""

    id: str
    reply: Answering
    may: frozenset[str] = frozenset()
    hides: bool = False
    is_silent: bool = False


def _all(*habits: Habit) -> Mapping[str, Habit]:
    return {habit.id: habit for habit in habits}


# Refusals.


def _refusing(test: Callable[[Body], object], words: str = "", status: int = 400) -> Answering:
    def reply(server: Habitual, path: str, body: Body) -> Reply:
        return server.refusal(words, status) if test(body) else server.honest(path, body)

    return reply


def _has(*fields: str) -> Callable[[Body], bool]:
    return lambda body: any(name in body for name in fields)


OWN_FIELDS = (
    *("chat_template_kwargs", "thinking", "return_token_ids"),
    *("continue_final_message", "add_generation_prompt"),
)
NOT_OPENAI = (*OWN_FIELDS, "reasoning_effort")


def _of_messages(test: Callable[[Body], object]) -> Callable[[Body], object]:
    return lambda body: any(map(test, body["messages"])) if "messages" in body else False


def _named_refusals() -> Mapping[str, tuple[Callable[[Body], object], str]]:
    return {
        "extra fields": (_has(*OWN_FIELDS), "extra fields not permitted"),
        "extra fields and efforts": (_has(*NOT_OPENAI), "unknown field"),
        "ids": (_has("return_token_ids"), ""),
        "thinking": (_has("thinking"), "thinking: not allowed"),
        "template arguments": (_has("chat_template_kwargs"), ""),
        "efforts": (_has("reasoning_effort"), "no reasoning_effort here"),
        "tools": (_has("tools"), '"auto" tool choice needs a parser'),
        "choices of tools": (_has("tool_choice"), "tool_choice is not supported"),
        "formats": (_has("response_format"), "response_format is not supported"),
        "developers": (_of_messages(lambda m: m["role"] == "developer"), "unknown role"),
        "systems": (_of_messages(lambda m: m["role"] == "system"), "unknown role"),
        "parts": (_of_messages(lambda m: isinstance(m.get("content"), list)), "not a string"),
        "reasoning": (_of_messages(lambda m: "reasoning_content" in m), "unknown field"),
        "nulls": (_of_messages(lambda m: m.get("content") is None), "content is required"),
        "late answers": (lambda b: b["messages"][-1]["role"] == "assistant", "last must be user"),
        "long requests": (lambda b: len(json.dumps(b)) > 3_000, "maximum context length"),
        "temperature 0": (lambda b: b.get("temperature") == 0, "temperature must be above 0"),
        "temperature": (_has("temperature"), ""),
        "max_tokens": (_has("max_tokens"), "use max_completion_tokens"),
        "max_tokens without a word": (_has("max_tokens"), ""),
        "less than 16": (_asks_for_less(16), "max_tokens must be at least 16"),
        "less than 16 without a word": (_asks_for_less(16), ""),
        "less than 50": (_asks_for_less(50), "max_tokens: expected a number >= 50"),
    }


def _asks_for_less(least: int) -> Callable[[Body], bool]:
    return lambda body: body.get("max_tokens", body.get("max_completion_tokens", least)) < least


def _is_whole(body: Body) -> bool:
    return "messages" in body and not body.get("stream")


# A refusal of so much leaves nothing to be named by; and tools that are refused are a fault.
HIDING = frozenset({"efforts", "systems", "tools", "extra fields and efforts"})
REFUSALS = _all(
    *(
        Habit(
            f"refuses {name}",
            _refusing(lambda body, test=test: "messages" in body and test(body), words),  # type: ignore[misc]
            frozenset({"tools-refused"} if name == "tools" else ()),
            hides=name in HIDING,
            is_silent=True,
        )
        for name, (test, words) in _named_refusals().items()
    ),
    *(
        Habit(f"takes streams alone{' without a word' * (not words)}", _refusing(_is_whole, words))
        for words in ("only stream=true is supported", "")
    ),
    Habit("refuses streams", _refusing(_has("stream"), "no streams"), is_silent=True),
    Habit("refuses usage in streams", _refusing(_has("stream_options"), "unknown"), is_silent=True),
    *(
        Habit(
            f"refuses {field} with {status}",
            _refusing(_has(field), "", status),
            hides=True,
            is_silent=True,
        )
        for field, status in (("tools", 403), ("reasoning_effort", 404), ("response_format", 405))
    ),
    Habit("refuses with 422", _refusing(_has(*OWN_FIELDS), "", 422), is_silent=True),
    Habit("refuses with 500", _refusing(_has(*OWN_FIELDS), "", 500), is_silent=True),
)


# Usage.


def _twice_in_streams(count: int, body: Body) -> int:
    return count * (2 if body.get("stream") else 1)


def _usage(change: Callable[[Habitual, Usage, Body], Usage]) -> Answering:
    def reply(server: Habitual, path: str, body: Body) -> Reply:
        reply = server.honest(path, body)
        for holder in (reply.body, *reply.events):
            if isinstance(holder, dict) and "usage" in holder:
                holder["usage"] = change(server, holder["usage"], body)
        return reply

    return reply


def _counted(count: Callable[[int, Body], Any]) -> Answering:
    return _usage(
        lambda _, usage, body: {**usage, "prompt_tokens": count(usage["prompt_tokens"], body)}
    )


def _completed(count: Callable[[int], Any]) -> Answering:
    return _usage(
        lambda _, usage, __: {**usage, "completion_tokens": count(usage["completion_tokens"])}
    )


def _with_system(body: Body) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def _renamed(_: Habitual, usage: Usage, __: Body) -> Usage:
    return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}


def _cached(share: float, left_out: bool = False) -> Answering:
    def change(server: Habitual, usage: Usage, _: Body) -> Usage:
        count = usage["prompt_tokens"]
        known = count // 64 * 64 * (server.chance.random() < share)
        rest = count - known * left_out
        return {**usage, "prompt_tokens": rest, "prompt_tokens_details": {"cached_tokens": known}}

    return _usage(change)


def _details(name: str, field: str, of: Callable[[Usage], int]) -> Answering:
    return _usage(lambda _, usage, __: {**usage, name: {field: of(usage)}})


def _jitter(most: int) -> Answering:
    def change(server: Habitual, usage: Usage, _: Body) -> Usage:
        return {**usage, "prompt_tokens": usage["prompt_tokens"] + server.chance.randint(0, most)}

    return _usage(change)


def _around(most: Callable[[int], int]) -> Answering:
    def change(server: Habitual, usage: Usage, _: Body) -> Usage:
        count = usage["prompt_tokens"]
        return {
            **usage,
            "prompt_tokens": count + server.chance.randint(-most(count), most(count)),
        }

    return _usage(change)


def _free_repeats(server: Habitual, path: str, body: Body) -> Reply:
    """What was asked before is answered from a cache, and costs nothing."""
    reply = server.honest(path, body)
    is_known = server.sent.count(server.sent[-1]) > 1 if server.sent else False
    for holder in (reply.body, *reply.events):
        if isinstance(holder, dict) and "usage" in holder and is_known:
            holder["usage"] = {**holder["usage"], "prompt_tokens": 0}
    return reply


def _billed(id: str, count: Callable[[int], Any], *may: str, hides: bool = False) -> Habit:
    return Habit(id, _counted(lambda n, _: count(n)), frozenset(may), hides)


def _rounded(id: str, count: Callable[[int], int]) -> Habit:
    return _billed(id, count, "counts-estimated", "billing-rounded", hides=True)


BILLED_ANSWERS = frozenset({"billing-completion"})
USAGES = _all(
    *(
        _billed(
            f"counts {factor} times, {name}", lambda n, f=factor, r=way: r(n * f), "billing-factor"
        )  # type: ignore[misc]
        for factor, name, way in (
            *((1.1, "rounded", round), (1.1, "up", ceil), (1.1, "down", floor)),
            *((1.05, "rounded", round), (1.25, "up", ceil), (1.5, "down", floor)),
            *((2, "exactly", round), (3, "exactly", round), (5, "exactly", round)),
            *((10, "exactly", round), (0.9, "rounded", round), (0.5, "down", floor)),
        )
    ),
    *(
        Habit(
            f"counts {n} more with a system text",
            _counted(lambda count, body, n=n: count + n * _with_system(body)),  # type: ignore[misc]
            frozenset({"billing-offset", "not-explained", "date-added"}),
            hides=True,
        )
        for n in (1, 15, 200)
    ),
    *(
        Habit(
            f"counts {n} more with tools",
            _counted(lambda count, body, n=n: count + n * bool(body.get("tools"))),  # type: ignore[misc]
            frozenset({"billing-offset", "not-explained"}),
            hides=True,
        )
        for n in (7, 346)
    ),
    _billed("counts 23 more", lambda n: n + 23, "counts-offset", "billing-offset", "date-added"),
    _rounded("rounds to tens", lambda n: round(n, -1)),
    _rounded("rounds up to eights", lambda n: ceil(n / 8) * 8),
    _rounded("rounds up to 64", lambda n: ceil(n / 64) * 64),
    _rounded("rounds down to hundreds", lambda n: n // 100 * 100),
    Habit(
        "rounds up to thousands",
        _counted(lambda n, _: ceil(n / 1000) * 1000),
        frozenset({"counts-estimated", "billing-rounded", "counts-constant"}),
        hides=True,
    ),
    _rounded("rounds up to 128", lambda n: ceil(n / 128) * 128),
    *(
        _billed(f"counts at least {n}", lambda count, n=n: max(count, n), "billing-least")  # type: ignore[misc]
        for n in (100, 300)
    ),
    *(
        Habit(
            f"counts at least {n}",
            _counted(lambda count, _, n=n: max(count, n)),  # type: ignore[misc]
            frozenset({"billing-least", "not-explained"}),
            hides=True,
            is_silent=True,  # where no prompt is as short
        )
        for n in (10, 16)
    ),
    _billed("counts nothing", lambda n: 0, "counts-constant", hides=True),
    _billed("counts as decimals", lambda n: n + 0.0),
    Habit(
        "counts characters",
        _counted(lambda _, body: len(json.dumps([body["messages"], body.get("tools")])) // 4),
        frozenset({"counts-estimated"}),
        hides=True,
    ),
    Habit("names counts as Messages does", _usage(_renamed)),
    Habit("caches at random", _cached(0.5)),
    Habit(
        "leaves out what was cached",
        _cached(0.5, left_out=True),
        frozenset({"counts-without-cached"}),
        is_silent=True,  # where no prompt was long enough
    ),
    Habit(
        "has cached more than there was",
        _details("prompt_tokens_details", "cached_tokens", lambda u: u["prompt_tokens"] + 64),
        frozenset({"billing-cached", "counts-without-cached"}),
    ),
    *(Habit(f"jitters by {n}", _jitter(n), frozenset({"counts-vary"}), True) for n in (1, 2, 5)),
    Habit("jitters around it", _around(lambda n: 1), frozenset({"counts-vary"}), True),
    Habit(
        "jitters by a twentieth",
        _around(lambda n: ceil(n / 20)),
        frozenset({"counts-vary", "counts-estimated", "not-explained"}),
        True,
    ),
    Habit("charges nothing the second time", _free_repeats, frozenset({"billing-prompt"})),
    Habit("counts answers as one", _completed(lambda n: 1), is_silent=True),
    Habit("counts answers five times", _completed(lambda n: 5 * n), BILLED_ANSWERS),
    Habit("counts answers as nothing", _completed(lambda n: 0), BILLED_ANSWERS),
    Habit("counts no answers", _completed(lambda n: None)),
    Habit(
        "counts more reasoning than answer",
        _details(
            "completion_tokens_details", "reasoning_tokens", lambda u: u["completion_tokens"] + 9
        ),
        frozenset({"billing-reasoning"}),
    ),
)


# Answers.


def _answers(change: Callable[[dict[str, Any]], None]) -> Answering:
    def reply(server: Habitual, path: str, body: Body) -> Reply:
        reply = server.honest(path, body)
        for holder in (reply.body, *reply.events):
            if isinstance(holder, dict) and 200 <= reply.status < 300:
                change(holder)
        return reply

    return reply


def _always_ends(reason: str) -> Callable[[dict[str, Any]], None]:
    def change(holder: dict[str, Any]) -> None:
        for choice in holder.get("choices", ()):
            if choice.get("finish_reason"):
                choice["finish_reason"] = reason

    return change


def _finishing(reason: str | None) -> Callable[[dict[str, Any]], None]:
    def change(holder: dict[str, Any]) -> None:
        for choice in holder.get("choices", ()):
            choice.update(finish_reason=reason)

    return change


def _named(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda holder: holder.update(model=name)


def _filtering(server: Habitual, path: str, body: Body) -> Reply:
    """Some requests are filtered, which costs nothing."""
    reply = server.honest(path, body)
    if crc32(server.sent[-1].encode()) % 5 or not isinstance(reply.body, dict):
        return reply
    choice = {"message": {"content": ""}, "finish_reason": "content_filter"}
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    return replace(reply, body={"choices": [choice], "usage": usage})


def _at_least(size: int) -> Answering:
    """A length that is raised in silence."""

    def reply(server: Habitual, path: str, body: Body) -> Reply:
        asked = max(body.get("max_tokens", size), size)
        return server.honest(path, {**body, "max_tokens": asked})

    return reply


def _ignoring_streams(server: Habitual, path: str, body: Body) -> Reply:
    return server.honest(path, {k: v for k, v in body.items() if not k.startswith("stream")})


def _streams_without_usage(server: Habitual, path: str, body: Body) -> Reply:
    reply = server.honest(path, body)
    return replace(reply, events=tuple(e for e in reply.events if "usage" not in e))


def _only_streams_have_usage(server: Habitual, path: str, body: Body) -> Reply:
    reply = server.honest(path, body)
    if isinstance(reply.body, dict):
        reply.body.pop("usage", None)
    return reply


def _usage_twice(server: Habitual, path: str, body: Body) -> Reply:
    """The first of the last two events says nothing of what was counted."""
    reply = server.honest(path, body)
    if not reply.events:
        return reply
    empty = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    return replace(reply, events=(*reply.events[:-1], empty, reply.events[-1]))


def _usage_in_every_event(server: Habitual, path: str, body: Body) -> Reply:
    reply = server.honest(path, body)
    if not reply.events:
        return reply
    usage = reply.events[-1]["usage"]
    growing = [
        {**event, "usage": {**usage, "completion_tokens": n}}
        for n, event in enumerate(reply.events[:-1])
    ]
    return replace(reply, events=(*growing, reply.events[-1]))


def _empty_event(server: Habitual, path: str, body: Body) -> Reply:
    reply = server.honest(path, body)
    return replace(reply, events=(*reply.events, {"choices": [], "usage": None}))


def _stale(key: Callable[[Body], object]) -> Answering:
    """A cache in front, which takes requests for the same that have the same key."""

    def reply(server: Habitual, path: str, body: Body) -> Reply:
        if path != "/chat/completions":
            return server.honest(path, body)
        name = json.dumps([key(body), bool(body.get("stream"))], sort_keys=True, default=str)
        server.requests += name in server.cache
        if name not in server.cache:
            server.cache[name] = server.honest(path, body)
        return deepcopy(server.cache[name])

    return reply


def _whole_body(body: Body) -> object:
    return body


def _messages_only(body: Body) -> object:
    return body["messages"]


def last_message(body: Body) -> object:
    return body["messages"][-1]


def last_message_and_tools(body: Body) -> object:
    return body["messages"][-1], body.get("tools")


def last_of_user(body: Body) -> object:
    return [message for message in body["messages"] if message["role"] == "user"][-1:]


# What is not read of a request, as far as it is a listed fault; nobody can tell why.
UNREAD = frozenset(
    {
        *("not-explained", "counts-vary", "two-servers", "effort-ignored", "tools-dropped"),
        *("thinking-kwargs-ignored", "thinking-type-ignored", "tool-choice-ignored"),
        *("response-format-unseen", "max-tokens-ignored"),
    }
)
SHORT = frozenset({"history-truncated", "system-dropped", "counts-constant", "counts-repeated"})
ANSWERS = _all(
    Habit("always stops", _answers(_always_ends("stop")), frozenset({"billing-finish"})),
    Habit(
        "always calls tools", _answers(_always_ends("tool_calls")), frozenset({"billing-finish"})
    ),
    Habit("always cuts", _answers(_always_ends("length")), frozenset({"output-length"})),
    *(
        Habit(f"answers as {name}", _answers(_named(name)), frozenset({"billing-model"}))
        for name in ("gpt-4o-mini", "deepseek-v3", "qwen3-235b-a22b")
    ),
    *(
        Habit(f"answers as {name}", _answers(_named(name)))
        for name in ("deepseek-ai/DeepSeek-V4-0731", "default", "DEEPSEEK-V4.gguf")
    ),
    Habit("answers as nobody", _answers(_named("")), is_silent=True),
    Habit("names no model", _answers(lambda holder: holder.pop("model", None)), is_silent=True),
    Habit("ends without a reason", _answers(_finishing(None)), is_silent=True),
    Habit("ends with eos", _answers(_finishing("eos")), is_silent=True),
    Habit("filters some requests", _filtering, is_silent=True),
    Habit("writes four tokens at least", _at_least(4), frozenset({"max-tokens-ignored"})),
    Habit("ignores streams", _ignoring_streams),
    Habit("has no usage in streams", _streams_without_usage, frozenset({"billing-streams"})),
    Habit("counts streams twice", _counted(_twice_in_streams), frozenset({"counts-vary"}), True),
    Habit("has usage twice in streams", _usage_twice, is_silent=True),
    Habit("has usage in every event", _usage_in_every_event, is_silent=True),
    Habit("sends an empty event", _empty_event, is_silent=True),
    *(
        Habit(f"serves stale answers by {name}", _stale(key), may, hides=True, is_silent=True)
        for name, key, may in (
            ("bodies", _whole_body, frozenset[str]()),
            ("messages", _messages_only, UNREAD),
            ("the last message", last_message, UNREAD | SHORT),
            ("the last message and tools", last_message_and_tools, UNREAD | SHORT),
            ("the last message of a user", last_of_user, UNREAD | SHORT),
        )
    ),
    Habit("has usage only in streams", _only_streams_have_usage),
)


# What fails, and comes again.


def _sometimes(share: float, instead: Reply) -> Answering:
    def reply(server: Habitual, path: str, body: Body) -> Reply:
        reply = server.honest(path, body)
        return instead if server.chance.random() < share else reply

    return reply


def _first_time(instead: Reply) -> Answering:
    """Each request fails the first time."""

    def reply(server: Habitual, path: str, body: Body) -> Reply:
        reply = server.honest(path, body)
        is_first = not server.sent or server.sent.count(server.sent[-1]) == 1
        return instead if is_first else reply

    return reply


FAILURES = _all(
    Habit("fails at a tenth", _sometimes(0.1, Reply(500, body={})), is_silent=True),
    Habit("fails at a third", _sometimes(0.33, Reply(500, body={})), is_silent=True, hides=True),
    Habit("is a bad gateway", _sometimes(0.2, Reply(502, problem="HTML")), is_silent=True),
    Habit("asks for patience", _sometimes(0.1, Reply(429, body={})), is_silent=True, hides=True),
    Habit("says nothing now and then", _sometimes(0.1, Reply(200, body={})), is_silent=True),
    Habit("is overloaded", _sometimes(0.2, Reply(503, body={})), is_silent=True, hides=True),
    Habit("fails the first time", _first_time(Reply(500, body={})), is_silent=True),
)


# Two servers behind one address, of which the request says which answers.


def _routed(id: str, second: Callable[[Habitual, Body], object]) -> Habit:
    def reply(server: Habitual, path: str, body: Body) -> Reply:
        other = second_of(server.truth)
        server.servers = [other if "messages" in body and second(server, body) else server.truth]
        return server.honest(path, body)

    return Habit(id, reply, frozenset({"two-servers", "counts-vary"}), hides=True)


def second_of(truth: Hypothesis) -> Hypothesis:
    """The server beside this one."""
    return server("sglang-0.5.23") if truth.profile != "sglang-0.5.23" else server("recipe-0.2.0")


ROUTES = _all(
    _routed("is two servers by a hash", lambda s, _: crc32(s.sent[-1].encode()) % 2),
    _routed("is two servers by tools", lambda _, body: body.get("tools")),
    _routed("is two servers by length", lambda s, _: len(s.sent[-1]) > 400),
    _routed("is two servers by turns", lambda _, body: len(body["messages"]) > 2),
    _routed("is two servers in turn", lambda s, _: s.requests % 2),
    _routed("is two servers at random", lambda s, _: s.chance.random() < 0.3),
)

HABITS: Mapping[str, Habit] = {
    **REFUSALS,
    **USAGES,
    **ANSWERS,
    **FAILURES,
    **ROUTES,
}
