"""Every form in which servers and proxies deliver text, calls, ends and errors: the table of
docs/gateway-backends.md, row by row, on real sockets and through all protocols."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway import Gateway, events_of, gateway, run
from standins import DONE, EOS, THINK_END, event

from dsv4.serve.backend import BackendError
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.serve.reported_route import client_error
from dsv4.serve.upstreams.answer_reader import AnswerReader
from parts import part

SERVING = Path(__file__).parents[2] / "docs/gateway-backends.md"

TOOL = {"name": "bash", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
OTHER = {"name": "read", "parameters": {"type": "object", "properties": {}}}
USER = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {
        "messages": USER,
        "tools": [{"type": "function", "function": each} for each in (TOOL, OTHER)],
    },
    "/v1/messages": {
        "messages": USER,
        "max_tokens": 50,
        "tools": [
            {"name": each["name"], "input_schema": each["parameters"]} for each in (TOOL, OTHER)
        ],
    },
    "/v1/responses": {
        "input": "Hi",
        "tools": [{"type": "function", **each} for each in (TOOL, OTHER)],
    },
}
ENDS = ("[DONE]", "message_stop", "response.completed", "response.incomplete")


def choice(delta: Any, finish: Any = None, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


def text(content: Any) -> bytes:
    return choice({"content": content})


def called(*pieces: Any) -> bytes:
    return choice({"tool_calls": list(pieces)})


def piece(name: str | None, arguments: Any, index: Any = 0, id: str | None = None) -> Any:
    function = {"name": name, "arguments": arguments}
    found = {"index": index, "id": id, "function": function}
    return {name: value for name, value in found.items() if value is not None}


def chosen(number: int, delta: Any, finish: str | None = None) -> Any:
    return {"index": number, "delta": delta, "finish_reason": finish}


def message_so_far(words: str) -> bytes:
    return event({"choices": [{"index": 0, "message": {"role": "assistant", "content": words}}]})


def thought(words: str) -> Any:
    return {"type": "reasoning.text", "text": words}


STOP = choice({}, "stop")
CALLED = choice({}, "tool_calls")
HELLO = text("Hel") + text("lo")
WHOLE: dict[str, Any] = {
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    ],
}
HALF = b"\\ud83c"


def halves(body: bytes) -> bytes:
    """A body with the two halves of a character as JSON escapes them."""
    return body.replace(b"#", HALF).replace(b"~", b"\\udf89")


LAST = {"message": {"content": "lo"}, "finish_reason": "stop"}
LINES = (HELLO + STOP).replace(b"data: ", b"").replace(b"\n\n", b"\n")
BASH = piece("bash", '{"a": 1}', id="call_1")


@dataclass(frozen=True)
class Sent:
    """What a server sends: its body, and how it ends it."""

    body: bytes
    kind: str | None = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    ends: str = "whole"  # or "reset", "hang", or "close" without a length
    in_packets: bool = False  # each event in one of its own


@dataclass(frozen=True)
class Answer:
    """What the client is to get."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Failure:
    """What the client is to be told."""

    words: str
    status: int = 502


HEARD = Answer("Hello")
ONE = (("bash", {"a": 1}),)
TWO = (("bash", {"a": 1}), ("read", {}))
JSON = "application/json"
FAILED = {"type": "response.failed", "response": {"error": {"message": "out of memory"}}}


@dataclass(frozen=True)
class Form:
    """A row of the table, with examples of it."""

    expected: Answer | Failure
    sent: tuple[Sent | bytes, ...]
    route: str = "chat"


def with_coding(coding: str, body: bytes) -> Sent:
    return Sent(body, headers=(("content-encoding", coding),))


def packed(body: bytes) -> tuple[Sent, ...]:
    return (with_coding("gzip", gzip.compress(body)), with_coding("deflate", zlib.compress(body)))


FORMS: dict[str, Form] = {
    # Text.
    "`content` as text": Form(HEARD, (HELLO + STOP + DONE,)),
    "`content` as a list of text parts": Form(
        HEARD,
        (
            text([{"type": "text", "text": "Hel"}]) + text([{"type": "text", "text": "lo"}]) + STOP,
            text(["Hel", {"type": "output_text", "text": "lo"}]) + STOP + DONE,
        ),
    ),
    "one part in place of a text": Form(
        Answer("Hello", "Hmm."),
        (
            choice({"thinking": {"content": "Hmm."}})
            + text({"type": "text", "text": "Hello"})
            + STOP,
        ),
    ),
    "`reasoning_content`, `reasoning`, `thinking`, `reasoning_text` or `thought`": Form(
        Answer("Hello", "Hmm."),
        (
            choice({"reasoning_content": "Hmm."}) + HELLO + STOP + DONE,
            choice({"reasoning": "Hmm."}) + HELLO + STOP + DONE,
            choice({"reasoning_content": "Hmm.", "reasoning": "Hmm."}) + HELLO + STOP + DONE,
            choice({"thinking": "Hmm.", "content": ""}) + HELLO + STOP + DONE,
            choice({"reasoning_text": "Hmm."}) + HELLO + STOP + DONE,
            choice({"thought": "Hmm."}) + HELLO + STOP + DONE,
        ),
    ),
    "`thoughts`, `cot` and the like, where nothing else is reasoning": Form(
        Answer("Hello", "Hmm."),
        tuple(
            choice({name: "Hmm."}) + HELLO + STOP
            for name in ("thoughts", "cot", "thinkingContent", "reasoning_output")
        ),
    ),
    "content that says that it is reasoning, by a flag, its `type` or its `role`": Form(
        Answer("Hello", "Hmm."),
        (
            *(
                choice({"content": "Hmm.", **says}) + HELLO + STOP
                for says in (
                    *({"reasoning": True}, {"type": "thinking"}, {"role": "reasoning"}),
                    {"extra_content": {"google": {"thought": True}}},
                )
            ),
            text([{"text": "Hmm.", "thought": True}, {"text": "Hello"}]) + STOP,
        ),
    ),
    "`reasoning_details` or `thinking_blocks`": Form(
        Answer("Hello", "Hmm."),
        (
            choice({"reasoning_details": [{"type": "reasoning.text", "text": "Hmm."}]})
            + choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
            + HELLO
            + STOP,
            choice({"reasoning": "Hmm.", "reasoning_details": [thought("Hmm.")]}) + HELLO + STOP,
            choice({"thinking_blocks": [{"type": "thinking", "thinking": "Hmm."}]}) + HELLO + STOP,
            choice({"reasoning_details": [thought("Hmm.")]})
            + choice({"reasoning_details": [{"type": "reasoning.text", "signature": "x"}]})
            + text([{"reasoningContent": {"signature": "x"}}])
            + HELLO
            + STOP,
        ),
    ),
    "`thinking` parts beside text parts": Form(
        Answer("Hello", "Hmm."),
        (
            text([{"type": "thinking", "thinking": [{"type": "text", "text": "Hmm."}]}])
            + text([{"type": "text", "text": "Hello"}])
            + STOP,
            text([{"type": "reasoning_text", "text": "Hmm."}, {"type": "text", "text": "Hello"}])
            + text([{"type": "reference", "reference_ids": [1]}])
            + STOP,
            text([{"reasoningContent": {"reasoningText": {"text": "Hmm."}}}, {"text": "Hello"}])
            + STOP,
        ),
    ),
    "reasoning in the content, up to the end of thinking": Form(
        Answer("Hello", "Hmm."), (text(f"Hmm.{THINK_END}Hel") + text("lo") + STOP + DONE,)
    ),
    "all text once more beside the choices": Form(
        HEARD,
        (
            HELLO + STOP + event({"text": "Hello", "choices": []}) + DONE,
            HELLO + event({"choices": [chosen(0, {}, "stop")], "generated_text": "Hello"}) + DONE,
        ),
    ),
    "`refusal`": Form(HEARD, (choice({"refusal": "Hello"}) + STOP + DONE,)),
    "all of a text of at least 16 characters once more, in its last delta": Form(
        Answer("The file is here."),
        (
            text("The file") + text(" is here.") + text("The file is here.") + STOP + DONE,
            text("The") + text(" file is") + text(" here.") + text("The file is here.") + STOP,
        ),
    ),
    "`message` in place of `delta`, with more of the text or with all so far": Form(
        HEARD,
        (
            message_so_far("Hell") + message_so_far("Hello") + event(WHOLE) + DONE,
            message_so_far("Hello") + message_so_far("Hello") + STOP + DONE,
            event(WHOLE) + DONE,
            event(WHOLE),
            choice({"role": "assistant", "content": ""}) + event(WHOLE) + DONE,
            *(
                event({"choices": [{**first, "message": {"role": "assistant"}}]})
                + b"".join(event({"choices": [each]}) for each in others)
                for first, *others in (
                    ({"text": "Hel"}, LAST),
                    ({}, {"message": {"content": "H"}}, {"text": "el"}, LAST),
                )
            ),
        ),
    ),
    "`message` after the deltas, or with the reason before them": Form(
        HEARD,
        (
            HELLO + event(WHOLE) + DONE,
            text("Hel") + event(WHOLE) + DONE,
            choice({"reasoning": ""}) + text("H") + event(WHOLE),
            event({"choices": [{"text": "Hel", "message": None}]}) + event(WHOLE),
            event({"choices": [{**LAST, "delta": {}, "message": {"content": "Hello"}}]})
            + HELLO
            + STOP
            + DONE,
        ),
    ),
    "a character in two halves, or half of it before a last message": Form(
        Answer("a\N{PARTY POPPER}b"),
        (
            halves(text("a#") + text("~b")) + STOP + DONE,
            halves(text("a#") + event({"choices": [{"message": {"content": "a#~b"}}]})) + STOP,
            halves(
                event({"choices": [{"delta": {"content": "a#"}, "message": {"content": "a#~"}}]})
                + event({"choices": [{"delta": {"content": "~b"}, "message": {"content": "a#~b"}}]})
                + STOP
            ),
        ),
    ),
    "`text` in place of `delta`": Form(
        HEARD, (event({"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}]}),)
    ),
    "`text` in a delta, or a delta under another name": Form(
        HEARD,
        (
            choice({"text": "Hello"}) + STOP,
            choice({"text": "Hello", "content": [{"type": "reference"}]}) + STOP,
            event({"choices": [{"index": 0, "x_delta": {"content": "Hello"}}]}) + STOP,
            *(
                event({"choices": [{"x_delta": {"content": "Hello"}, "message": message}]}) + STOP
                for message in ({"content": ""}, {"content": "", "x_sources": [1]})
            ),
        ),
    ),
    "`delta_content`, `output_text` and the like, where nothing else is text": Form(
        HEARD,
        tuple(
            choice({name: "Hel", "content": ""}) + choice({name: "lo"}) + STOP
            for name in ("delta_content", "output_text", "responseText")
        ),
    ),
    "`choices` beside an `error` with nothing in it": Form(
        HEARD,
        tuple(
            event({"choices": [chosen(0, {"content": "Hello"}, "stop")], "error": error})
            for error in (
                {"message": None, "code": None},
                {"message": "", "code": 0},
                {"message": "success", "code": 0},
                {},
            )
        ),
    ),
    "text and calls in two choices, or in two entries of one": Form(
        Answer("Hello", calls=ONE),
        (
            HELLO + event({"choices": [chosen(1, {"tool_calls": [BASH]}, "tool_calls")]}) + DONE,
            HELLO + event({"choices": [chosen(0, {}), chosen(0, {"tool_calls": [BASH]})]}) + CALLED,
            event({"choices": [chosen(0, {"content": "Hel"}), chosen(0, {"content": "lo"})]})
            + called(BASH)
            + CALLED,
        ),
    ),
    "an event without `choices` that says that all is well": Form(
        HEARD,
        (
            HELLO + STOP + event({"code": 0, "message": "Success", "usage": {}}) + DONE,
            event({"code": 200, "msg": "ok", "choices": []}) + HELLO + STOP + DONE,
            *(
                HELLO + event(said) + STOP + DONE
                for said in (
                    *({"status": "in_progress"}, {"type": "ping"}, {"event": "message"}),
                    *(
                        {"interrupted": False},
                        {"failed": 0},
                        {"failure": None},
                        {"type": "failover"},
                    ),
                    {"data": {"id": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}},
                    *({"result": {"status": "ok"}}, {"output": {"finish_reason": None}}),
                    *({"data": {}}, {"data": {"code": 0, "message": "Success", "error": None}}),
                    {"response": {"status": "in_progress", "error": None, "errors": []}},
                    {"header": {"code": 0, "message": "Success", "sid": "x", "status": 1}},
                    {"ResponseMetadata": {"RequestId": "x", "Action": "Chat", "Error": None}},
                )
            ),
            HELLO + event({"choices": [chosen(0, {}, "stop")], "error_code": 0}) + DONE,
        ),
    ),
    "the answer in two equal choices": Form(
        HEARD,
        (
            event({"choices": [chosen(n, {"content": "Hello"}, "stop") for n in (0, 1)]}) + DONE,
            HELLO + event({"choices": [chosen(1, {"content": "Hello"}, "stop")]}) + STOP + DONE,
        ),
    ),
    # Calls.
    "`tool_calls` in pieces, by `index`": Form(
        Answer(calls=TWO),
        (
            called(piece("bash", "", 0, "a"))
            + called(piece(None, '{"a"'), piece("read", "", 1, "b"))
            + called(piece(None, ": 1}"), piece(None, "{}", 1))
            + CALLED
            + DONE,
        ),
    ),
    "all calls under one `index`, or under none": Form(
        Answer(calls=TWO),
        tuple(
            called(piece("bash", '{"a": 1}', n, a)) + called(piece("read", "{}", n, b)) + CALLED
            for n, (a, b) in product((0, None), (("x", "y"), (None, None), ("x", "x")))
        ),
    ),
    "two calls with one `id`": Form(
        Answer(calls=TWO),
        (called(BASH) + called(piece("read", "{}", 1, "call_1")) + CALLED + DONE,),
    ),
    "a list of calls that is not in the order of their numbers": Form(
        Answer(calls=TWO),
        (called(piece("read", "{}", 1, "y"), piece("bash", '{"a": 1}', 0, "x")) + CALLED,),
    ),
    "a name in pieces, also where a tool is named like its beginning": Form(
        Answer(calls=ONE),
        (
            called(piece("ba", "", 0, "a")) + called(piece("sh", '{"a": 1}')) + CALLED,
            called(piece("b", ""))
            + called(piece("a", ""))
            + called(piece("sh", ""))
            + called(piece(None, '{"a": 1}'))
            + CALLED
            + DONE,
        ),
    ),
    "a name that grows with every piece": Form(
        Answer(calls=ONE),
        (
            called(piece("ba", "", 0, "a")) + called(piece("bash", '{"a": 1}')) + CALLED,
            called(piece("b", ""))
            + called(piece("bas", ""))
            + called(piece("bash", ""))
            + called(piece("bash", '{"a": 1}'))
            + CALLED,
        ),
    ),
    "a name that is repeated with every piece": Form(
        Answer(calls=ONE),
        tuple(
            called(piece("bash", '{"a"', 0, id))
            + called(piece("bash", ": 1}", 0, id))
            + called(piece("bash", "", 0, id))
            + CALLED
            for id in ("x", None)
        ),
    ),
    "pieces of a call that only its `id` tells": Form(
        Answer(calls=TWO),
        tuple(
            called(piece("bash", '{"a"', n, "x"))
            + called(piece("read", "{", n, "y"))
            + called(piece(None, ": 1}", n, "x"))
            + called(piece(None, "}", n, "y"))
            + CALLED
            for n in (0, None)
        ),
    ),
    "an `index` that grows with every piece": Form(
        Answer(calls=ONE),
        (
            called(piece("bash", "", 0, "x")) + called(piece(None, '{"a": 1}', 1)) + CALLED,
            called(piece("bash", "", 3, "x"))
            + called(piece(None, '{"a"', 4))
            + called(piece(None, ": 1}", 5))
            + CALLED,
        ),
    ),
    "`tool_calls` as an object, by number": Form(
        Answer(calls=TWO),
        (choice({"tool_calls": {"0": BASH, "1": piece("read", "{}", 1, "y")}}) + CALLED,),
    ),
    "all arguments once more behind their pieces": Form(
        Answer(calls=ONE),
        tuple(
            called(piece("bash", '{"a"', 0, "x"))
            + called(piece(None, ": 1}"))
            + called(piece(None, '{"a": 1}', n))
            + CALLED
            for n in (0, 1, None)
        ),
    ),
    "all arguments in a last message": Form(
        Answer(calls=ONE),
        tuple(
            called(piece("bash", begun))
            + event({"choices": [{"message": {"tool_calls": [BASH]}}]})
            + CALLED
            for begun in ("", '{"a"')
        ),
    ),
    "another `id` with every piece, or an `index` with the first alone": Form(
        Answer(calls=ONE),
        (
            called(piece("bash", "", 0, "x")) + called(piece(None, '{"a": 1}', 0, "y")) + CALLED,
            called(piece("bash", '{"a"', 0, "x"))
            + called(piece(None, ": ", 0, "y"))
            + called(piece(None, "1}", 0, "z"))
            + CALLED,
            called(piece("bash", '{"a"', 0, "x")) + called(piece(None, ": 1}", None)) + CALLED,
        ),
    ),
    "a call that is sent once more, under its `id` or without one": Form(
        Answer(calls=ONE),
        (
            called(BASH) + called(piece("bash", '{"a": 1}')) + CALLED + DONE,
            called(piece("bash", '{"a": 1}')) + called(BASH) + CALLED + DONE,
            called(BASH) + called(BASH) + CALLED + DONE,
            called(piece("bash", '{"a"', 0, "x"))
            + called(piece(None, ": 1}"))
            + called(piece("bash", '{"a": 1}', 0, "x"))
            + CALLED,
        ),
    ),
    "`arguments` as an object, or as the text of a text": Form(
        Answer(calls=ONE),
        (
            called(piece("bash", {"a": 1})) + CALLED + DONE,
            called(piece("bash", json.dumps('{"a": 1}'))) + CALLED + DONE,
        ),
    ),
    "a call without the level `function`, or not in a list": Form(
        Answer(calls=ONE),
        (
            called({"index": 0, "name": "bash", "arguments": '{"a": 1}'}) + CALLED,
            choice({"tool_calls": BASH}) + CALLED,
        ),
    ),
    "arguments beside `function`, on another level, or under another name": Form(
        Answer(calls=ONE),
        (
            called({"index": 0, "function": {"name": "bash"}, "arguments": '{"a": 1}'}) + CALLED,
            called({"index": 0, "custom": {"name": "bash", "input": '{"a"'}})
            + called({"index": 0, "custom": {"input": ": 1}"}})
            + CALLED,
            called({"index": 0, "function": {"name": "bash", "partial_json": '{"a": 1}'}}) + CALLED,
        ),
    ),
    "two equal calls without an `index`, whose `id` is the name": Form(
        Answer(calls=(("read", {}), ("read", {}))),
        (2 * called(piece("read", "{}", None, "read")) + CALLED,),
    ),
    "nothing, the text `null` or an empty list for no arguments": Form(
        Answer(calls=(("read", {}), ("bash", {"a": 1}))),
        (
            called(piece("read", "null", 0, "x"), piece("bash", '{"a": 1}', 1, "y")) + CALLED,
            called({"id": "x"})
            + called(piece("read", "null", None))
            + called({"id": "y"})
            + called(piece("bash", '{"a": 1}', None))
            + CALLED,
            called({"id": "x"}, piece("read", "", None))
            + called({"id": "y"}, piece("bash", '{"a": 1}', None))
            + CALLED,
            *(
                called(piece("read", nothing, 0, "x"), piece("bash", '{"a": 1}', 1, "y"))
                + called({"index": 1, "function": []})
                + CALLED
                for nothing in ("[]", [])
            ),
        ),
    ),
    "`function_calls`, `tool_call` and the like in place of `tool_calls`, or a text": Form(
        Answer(calls=ONE),
        (
            choice({"function_calls": [BASH]}) + CALLED,
            choice({"tool_call": BASH}) + CALLED,
            choice({"tool_calls": json.dumps([BASH])}) + CALLED,
        ),
    ),
    "`tool_name`, `toolName`, `call_id`, or the text of a `function`": Form(
        Answer(calls=ONE),
        (
            called({"toolCallId": "call_1", "toolName": "bash", "args": {"a": 1}}) + CALLED,
            called(
                {"call_id": "call_1", "function": {"tool_name": "bash", "arguments": '{"a": 1}'}}
            )
            + CALLED,
            called({"id": "call_1", "function": json.dumps(BASH["function"])}) + CALLED,
            called({"id": "call_1", "function": "bash", "arguments": '{"a": 1}'}) + CALLED,
        ),
    ),
    "`function_call`": Form(
        Answer(calls=ONE),
        (
            choice({"function_call": {"name": "bash", "arguments": '{"a"'}})
            + choice({"function_call": {"arguments": ": 1}"}})
            + choice({}, "function_call"),
            2 * choice({"function_call": BASH["function"], "tool_call": [BASH]})
            + choice({}, "function_call"),
        ),
    ),
    # Bytes.
    "one JSON object in place of a stream": Form(
        HEARD,
        (
            Sent(json.dumps(WHOLE).encode(), JSON),
            Sent(b" \n" + json.dumps(WHOLE).encode(), JSON, ends="close"),
            Sent(json.dumps(WHOLE).encode()),
            Sent(json.dumps(WHOLE).encode() + DONE, JSON),
            Sent(json.dumps(WHOLE, indent=1).encode() + b"\n\n" + DONE, JSON),
        ),
    ),
    "an object on each line, or a list of them": Form(
        HEARD,
        (
            Sent(json.dumps([WHOLE]).encode(), JSON),
            Sent(json.dumps([{**WHOLE, "choices": []}, WHOLE], indent=1).encode(), JSON),
            Sent(LINES, "application/x-ndjson"),
            Sent(LINES + b"[DONE]\n", "application/x-ndjson"),
            Sent(LINES + DONE),
            Sent(LINES.replace(b"\n", b"\r\n")),
            Sent(LINES.replace(b"\n", b"")),
        ),
    ),
    "an answer in any other field, in two, with capitals, or as a text": Form(
        HEARD,
        tuple(
            Sent(json.dumps(said).encode(), JSON)
            for said in (
                {"payload": WHOLE},
                {"code": 200, "data": {"result": WHOLE}},
                {"Response": {name.capitalize(): value for name, value in WHOLE.items()}},
                {"data": json.dumps(WHOLE)},
                {"data": WHOLE, "error": {"code": None, "message": ""}},
                {"header": {"code": 0, "message": "Success", "status": 2}, "payload": WHOLE},
            )
        ),
    ),
    "an event that is the text of one, or a list of some": Form(
        HEARD,
        (
            event(json.dumps(WHOLE)) + DONE,
            event(
                [
                    {"choices": [chosen(0, {"content": "Hel"})]},
                    {"choices": [chosen(0, {"content": "lo"}, "stop")]},
                ]
            ),
        ),
    ),
    "choices by their numbers": Form(
        HEARD, (HELLO + event({"choices": {"1": chosen(0, {}, "stop")}}) + DONE,)
    ),
    "an answer in `data`, `result`, `output` or `response`": Form(
        HEARD,
        (
            Sent(json.dumps({"code": 0, "msg": "success", "data": WHOLE}).encode(), JSON),
            Sent(json.dumps({"success": True, "errors": [], "result": WHOLE}).encode(), JSON),
            event({"output": WHOLE, "usage": {"prompt_tokens": 1}}),
            event({"response": WHOLE}) + DONE,
        ),
    ),
    "calls or text beside `delta`, calls as parts of `content`": Form(
        Answer("Hello", calls=ONE),
        (
            event({"choices": [{"delta": {"role": "assistant"}, "text": "Hello"}]})
            + event({"choices": [{"delta": {}, "tool_calls": [BASH]}]})
            + CALLED,
            text(
                [
                    {"type": "text", "text": "Hello"},
                    {"type": "tool_use", "id": "c", "name": "bash", "input": {"a": 1}},
                ]
            )
            + CALLED,
        ),
    ),
    "all arguments so far in every piece, or an empty object first": Form(
        Answer(calls=ONE),
        (
            called(piece("bash", "{", id="c"))
            + called(piece(None, '{"a"'), piece(None, '{"a": 1}'))
            + CALLED,
            called(piece("bash", "{}", id="c"))
            + called(piece(None, '{"a"'), piece(None, ": 1}"))
            + CALLED,
        ),
    ),
    "no blank lines, `data:` twice, `[DONE]` in another spelling": Form(
        HEARD,
        (
            (HELLO + STOP + DONE).replace(b"\n\n", b"\n"),
            (HELLO + STOP).replace(b"data:", b"data: data:") + b"data: [done]\n\n",
            HELLO + STOP + b'data: "[DONE]"\n\ndata: {no json\n\n',
            HELLO + STOP + b"[DONE]\n\n",
            *(HELLO + STOP + b"data: %s\n\n" % end for end in (b"DONE", b"[END]", b"[ DONE ]\0")),
            (HELLO + STOP + DONE).replace(b"data:", b"    data:"),
        ),
    ),
    "`gzip`, `br` or a charset as the coding of what is not compressed": Form(
        HEARD,
        tuple(
            with_coding(coding, HELLO + STOP + DONE)
            for coding in ("gzip", "utf-8", "none", "br", "gzip, br", "chunked")
        ),
    ),
    "a stream that is called JSON, a page, or nothing": Form(
        HEARD,
        tuple(
            Sent(HELLO + STOP + DONE, kind)
            for kind in (
                *(JSON, "text/plain", None, "text/html; charset=UTF-8"),
                *("application/stream+json", "text/event-stream, text/event-stream"),
            )
        ),
    ),
    "gzip twice, or without a word of it": Form(
        HEARD,
        (
            with_coding("gzip, gzip", gzip.compress(gzip.compress(HELLO + STOP + DONE))),
            with_coding("deflate, gzip", gzip.compress(zlib.compress(HELLO + STOP + DONE))),
            Sent(gzip.compress(HELLO + STOP + DONE)),
            *(
                Sent(body, headers=(("content-encoding", "gzip"),) * 2)
                for once in [gzip.compress(HELLO + STOP + DONE)]
                for body in (once, gzip.compress(once))
            ),
        ),
    ),
    "`DATA:`, a space before the colon, a record separator before each object": Form(
        HEARD,
        (
            (HELLO + STOP + DONE).replace(b"data:", b"DATA:"),
            (HELLO + STOP + DONE).replace(b"data:", b"data :"),
            Sent((HELLO + STOP).replace(b"data: ", b"\x1e"), "application/json-seq"),
        ),
    ),
    "gzip or deflate, although nobody asked": Form(
        HEARD,
        (
            *packed(HELLO + STOP + DONE),
            # Without the check at the end of it.
            with_coding("gzip", gzip.compress(HELLO + STOP + DONE)[:-8]),
            with_coding("gzip", gzip.compress(text("Hel") + STOP + text("lo") + DONE[:-1])[:-8]),
        ),
    ),
    "comments, other events, empty data, spaces, a byte order mark, CR": Form(
        HEARD,
        (
            b": hi\n\n" + HELLO + b"event: ping\ndata: {}\n\ndata:\n\ndata: null\n\n" + STOP + DONE,
            b"event: ping\ndata: 2020-12-22 15:33:27.46\n\ndata: [PING]\n\n" + HELLO + STOP + DONE,
            b"\xef\xbb\xbf" + HELLO + STOP + DONE,
            (HELLO + STOP + DONE).replace(b"\n", b"\r"),
            HELLO + STOP + b"data:  [DONE] \n\n",
        ),
    ),
    # Ends.
    "a finish reason, without `[DONE]`": Form(
        HEARD,
        (HELLO + STOP, Sent(HELLO + STOP, ends="close"), Sent(HELLO + STOP, ends="reset")),
    ),
    "a finish reason, `[DONE]`, and a connection that breaks": Form(
        HEARD, (Sent(HELLO + STOP + DONE, ends="reset"),)
    ),
    "text behind a finish reason, and `[DONE]`": Form(
        HEARD,
        (
            choice({"content": "Hel"}, "stop") + choice({"content": "lo"}, "stop") + DONE,
            text("Hel") + STOP + text("lo") + DONE,
            text("Hel") + STOP + text("lo") + b"event: done\ndata: {}\n\n",
        ),
    ),
    "a last event without its blank line": Form(
        HEARD,
        (HELLO + STOP + DONE.rstrip(), HELLO + STOP.rstrip(), HELLO + STOP.rstrip() + b"\n"),
    ),
    "anything after `[DONE]`": Form(
        HEARD,
        (
            HELLO + STOP + DONE + text("No"),
            HELLO + STOP + DONE + event({"error": {"message": "late"}}) + b"data: {no json\n\n",
            *(
                HELLO + STOP + b"data: %s%s%s\n" % (done, between, behind)
                for done in (b"[DONE]", b"[END]", b'"done"')
                for between in (b"\n", b"\n\n")
                for behind in (b"<html>502</html>", b'{"cost": 1}', b"[1]", b"Internal Error", b"}")
            ),
            HELLO + STOP + b"event: done\ndata: {}\n\n<html>502</html>\n",
        ),
    ),
    "EOS in place of a finish reason, where a prompt is continued": Form(
        HEARD,
        (
            event({"choices": [{"text": f"Hello{EOS}"}]}) + DONE,
            event({"choices": [{"text": "Hello"}]}) + event({"choices": [{"text": EOS}]}),
        ),
        route="completions",
    ),
    "a name in another case (`toolCalls`, `finishReason`)": Form(
        Answer(calls=ONE),
        (
            event({"choices": [{"delta": {"toolCalls": [BASH]}, "finishReason": "tool_calls"}]}),
            choice({"toolCalls": [BASH]}) + CALLED,
        ),
    ),
    "`STOP`, `COMPLETE` as a finish reason": Form(
        HEARD, tuple(HELLO + choice({}, word) for word in ("STOP", "COMPLETE"))
    ),
    "a reason in the delta or beside the choices, or as `stop_reason` or `done_reason` alone": Form(
        HEARD,
        tuple(
            HELLO + event({"choices": [{"index": 0, "delta": {}} | last], **beside})
            for last, beside in (
                ({"delta": {"finish_reason": "stop"}}, {}),
                ({}, {"finish_reason": "stop"}),
                ({"stop_reason": "end_turn"}, {}),
                ({"done_reason": "stop"}, {}),
            )
        ),
    ),
    "counts by other names (`inputTokens`, `usageMetadata`, `eval_count`)": Form(
        HEARD,
        tuple(
            HELLO + STOP + event({"choices": [], **counts}) + DONE
            for counts in (
                {"usage": {"inputTokens": 3, "outputTokens": 2}},
                {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}},
                {"prompt_eval_count": 3, "eval_count": 2},
            )
        ),
    ),
    "a finish reason, and then nothing for two seconds": Form(
        HEARD, (Sent(HELLO + STOP, ends="hang"),)
    ),
    # Failures.
    "`error` in an event": Form(
        Failure("out of memory"),
        (
            HELLO + event({"error": {"message": "out of memory"}}) + DONE,
            HELLO + event({"error": "out of memory"}) + DONE,
            HELLO + STOP + event({"error": {"msg": "out of memory"}}) + DONE,
            called(BASH) + CALLED + event({"error": {"detail": "out of memory"}}) + DONE,
            HELLO + event({"type": "error", "error": {"message": "out of memory"}}),
        ),
    ),
    "an event that is named `error`, `exception`, `failed` or `abort`": Form(
        Failure("out of memory"),
        tuple(
            called(BASH) + CALLED + b"event: " + name + b"\ndata: " + data + b"\n\n" + DONE
            for name in (b"error", b"Exception", b"response.failed", b"abort")
            for data in (
                b'{"message": "out of memory"}',
                b'{"error": {"message": "out of memory"}}',
                b'{"choices": [], "message": "out of memory"}',
                b'"out of memory"',
                b"out of memory",
            )
        ),
    ),
    "a field `error` in place of `data`": Form(
        Failure("out of memory"),
        (
            HELLO + b'error: {"code": 500, "message": "out of memory"}\n\n' + STOP + DONE,
            HELLO + b"error: out of memory\n\n",
        ),
    ),
    "an event that is an error, or was cancelled, by its `object`, `type`, `event`, "
    "`status` or `success`": Form(
        Failure("out of memory"),
        (
            HELLO + event({"object": "error", "message": "out of memory", "code": 500}) + DONE,
            HELLO + event({"type": "error", "message": "out of memory"}) + DONE,
            HELLO + event(FAILED) + STOP + DONE,
            HELLO + event({"status": "error", "why": "out of memory"}) + STOP + DONE,
            HELLO + event({"status": 500, "title": "out of memory"}) + STOP + DONE,
            HELLO + STOP + event({"text": "out of memory", "error_code": 50001}) + DONE,
            HELLO
            + event({"object": "error", "why": "out of memory", "choices": [chosen(0, {}, "stop")]})
            + DONE,
            HELLO + event({"success": False, "why": "out of memory"}) + STOP + DONE,
            HELLO + event({"data": {"success": False, "why": "out of memory"}}) + STOP + DONE,
            *(
                HELLO + event({**says, "why": "out of memory"}) + STOP + DONE
                for says in (
                    *({"event": "error"}, {"object": "exception"}, {"event": "abort"}),
                    *({"status": "cancelled"}, {"status": "canceled"}, {"status": "interrupted"}),
                )
            ),
        ),
    ),
    "an error in a wrapping, as `data`, `response` or `header`": Form(
        Failure("out of memory"),
        tuple(
            HELLO + event(said) + STOP + DONE
            for said in (
                {"data": {"object": "error", "message": "out of memory", "code": None}},
                {"response": {"code": 500, "message": "out of memory"}},
                {"data": {"detail": "out of memory"}},
                {"data": {"errors": [{"message": "out of memory"}]}},
                {"data": {"type": "exception", "message": "out of memory"}},
                {"data": json.dumps({"code": 500, "message": "out of memory"})},
                {"result": {"output": {"code": 500, "message": "out of memory"}}},
                {"event": "error", "data": {"message": "out of memory"}},
                {"ResponseMetadata": {"Error": {"Code": "Gone", "Message": "out of memory"}}},
                {"header": {"code": 10013, "message": "out of memory", "status": 2}},
            )
        ),
    ),
    "an event without `choices`, with `message`, `detail`, `code`, `msg`, `failure`, "
    "`interrupted`, or any `error` or `exception`": Form(
        Failure("out of memory"),
        (
            HELLO + event({"message": "out of memory"}) + DONE,
            HELLO + event({"detail": "out of memory"}) + DONE,
            HELLO + event({"detail": [{"loc": [], "msg": "out of memory"}]}) + DONE,
            HELLO + event({"choices": None, "code": "out of memory"}) + DONE,
            HELLO + event({"success": False, "msg": "out of memory"}) + DONE,
            HELLO + event({"errors": ["out of memory"]}) + STOP + DONE,
            HELLO + event({"error_code": 1, "error_msg": "out of memory"}) + STOP + DONE,
            HELLO + event({"Error": {"Message": "out of memory"}}) + STOP + DONE,
            HELLO + event({"fault": {"faultstring": "out of memory"}}) + STOP + DONE,
            HELLO + event({"error": {}, "why": "out of memory"}) + STOP + DONE,
            *(
                HELLO + event(said) + STOP + DONE
                for said in (
                    {"failure": "out of memory"},
                    {"failed": True, "why": "out of memory"},
                    {"interrupted": True, "why": "out of memory"},
                    {"aborted": True, "why": "out of memory"},
                    *(
                        {f"{name}Exception": {"message": "out of memory"}}
                        for name in (
                            *("internalServer", "modelStreamError", "throttling", "validation"),
                            "serviceUnavailable",
                        )
                    ),
                )
            ),
            HELLO + STOP + event({"choices": [], "message": "out of memory"}) + DONE,
        ),
    ),
    "an event that is no object": Form(
        Failure("out of memory"), (HELLO + event("out of memory") + STOP + DONE,)
    ),
    "an error, whole, with the status 200": Form(
        Failure("out of memory"),
        tuple(
            Sent(json.dumps(said).encode(), kind)
            for kind in (JSON, "text/event-stream")
            for said in (
                {"error": {"message": "out of memory"}},
                {"detail": "out of memory"},
                {"object": "error", "message": "out of memory"},
            )
        ),
    ),
    "`choices` with an error in them": Form(
        Failure("out of memory"),
        (
            HELLO + choice({}, "error", error={"message": "out of memory"}) + DONE,
            HELLO + choice({}, "stop", error={"message": "out of memory"}) + DONE,
            HELLO + choice({}, error="out of memory") + STOP + DONE,
            HELLO + STOP + event({"choices": [{}], "x_groq": {"error": "out of memory"}}) + DONE,
            *(
                HELLO + STOP + event({"choices": choices, "base_resp": status}) + DONE
                for choices in ([chosen(0, {"content": ""}, "stop")], None)
                for status in [{"status_code": 1027, "status_msg": "out of memory"}]
            ),
            HELLO + choice({"content": "", "error": {"msg": "out of memory"}}) + STOP + DONE,
            HELLO + choice({"type": "error", "message": "out of memory"}, "stop") + DONE,
        ),
    ),
    "a finish reason that is no end": Form(
        Failure("gave up"), (HELLO + choice({}, "error") + DONE, HELLO + choice({}, "abort"))
    ),
    "a finish reason beside a `success`, `status`, `code`, `type`, `event` or `errors` "
    "that says that it failed": Form(
        Failure("out of memory"),
        tuple(
            HELLO + event({"choices": [chosen(0, {}, "stop")], "message": "out of memory"} | how)
            for how in (
                *({"success": False}, {"status": 500}, {"code": "Internal"}, {"type": "error"}),
                *({"errors": ["out of memory"]}, {"event": "error"}, {"status": "cancelled"}),
            )
        ),
    ),
    "`[DONE]` without a finish reason": Form(
        Failure("without a finish reason"),
        (
            HELLO + DONE,
            called(BASH) + DONE,
            HELLO + event({"usage": {}, "choices": []}) + DONE,
        ),
    ),
    "an end without a finish reason": Form(
        Failure("the backend"),
        (
            HELLO,
            called(BASH),
            b"",
            Sent(HELLO, ends="reset"),
            Sent(HELLO, ends="close"),
            Sent(HELLO + STOP[:30], ends="close"),
            Sent(json.dumps(WHOLE).encode()[:-9], JSON, ends="close"),
        ),
    ),
    "text behind a finish reason, without `[DONE]`": Form(
        Failure("the backend broke off"),
        tuple(
            Sent(said, ends=ends)
            for ends in ("reset", "close", "whole")
            for said in (
                choice({"content": "Hel"}, "stop") + choice({"content": "lo"}, "stop"),
                STOP + HELLO,
            )
        ),
    ),
    "arguments that are no JSON, or that belong to no call": Form(
        Failure("the backend"),
        (
            called(piece("bash", '{"a": NaN}')) + CALLED,
            called(piece("bash", '{"a": 1}}')) + CALLED,
            *(
                called({"index": 0, "function": {"name": "bash", "payload": payload}}) + CALLED
                for payload in ({"a": 1}, json.dumps('{"a": 1}'))
            ),
            called({"index": 0, "function": {"name": "bash", "payload": '{"a"'}})
            + called({"index": 0, "function": {"payload": ": 1}"}})
            + CALLED,
            called(piece(None, '{"a": 1}', 0, "x")) + CALLED,
            called(BASH) + called(piece("read", '{"a', 1, "y")) + CALLED,
            called(piece("bash", "", 0, "x"), piece("read", "", 1, "y"))
            + called(piece(None, '{"a"', 0), piece(None, "{}", 2), piece(None, "{}", 1))
            + called(piece(None, ": 1}", 0))
            + CALLED,
        ),
    ),
    "a finish reason that speaks of calls, and no call that can be read": Form(
        Failure("no call can be read"),
        (
            HELLO + CALLED + DONE,
            HELLO + choice({}, "function_call"),
            HELLO + called({"index": 0}) + CALLED,
            HELLO + choice({"x_calls": [BASH]}) + STOP + DONE,
        ),
    ),
    "more calls in a field that nobody knows than in those that are known": Form(
        Failure("more of its calls than can be read"),
        (
            choice({"tool_calls": [BASH], "x_calls": [BASH, piece("read", "{}", 1)]}) + CALLED,
            choice({"tool_calls": [piece("bash", "", 0, "x")], "x_calls": [BASH]}) + CALLED,
        ),
    ),
    "an answer in fields that nobody knows": Form(
        Failure("fields that are not known"),
        (
            choice({"answer": "Hello"}) + STOP,
            choice({"reasoning": "Hm.", "x": "Hi"}) + STOP,
            event({"content": "Hello"}) + STOP,
            event({"response": "Hello"}) + STOP + DONE,
            choice({"audio": {"id": "a", "transcript": "Hel"}})
            + choice({"audio": {"transcript": "lo"}})
            + STOP,
            event({"choices": [{"index": 0, "messages": [{"delta": {"content": "Hello"}}]}]})
            + STOP
            + DONE,
            event({"choices": [{"index": 0, "messages": [{"role": "a", "content": "Hello"}]}]})
            + STOP,
            event({"choices": [chosen(0, {}, "stop")], "items": [{"parts": [{"text": "Hello"}]}]}),
        ),
    ),
    "half of a character at the end of a text": Form(
        Failure("half of a character"),
        (
            (HELLO + text("#") + STOP + DONE).replace(b"#", HALF),
            event(WHOLE).replace(b"Hello", b"Hello" + HALF),
        ),
    ),
    "text beside the choices that no delta has": Form(
        Failure("fields that are not known"),
        (
            HELLO + event({"text": " more", "choices": []}) + STOP + DONE,
            HELLO + event({"text": [" more"], "choices": []}) + STOP + DONE,
            text("Hel") + event({"output_text": "lo"}) + STOP,
            HELLO + event({"type": "text_delta", "delta": {"text": " more"}}) + STOP,
            choice({"audio": {"transcript": "Hello"}}) + called(BASH) + CALLED,
        ),
    ),
    "another text in another choice, or in a last message": Form(
        Failure("the backend"),
        (
            HELLO + event({"choices": [chosen(1, {"content": "No"})]}) + STOP + DONE,
            text("No") + event(WHOLE) + DONE,
            called(BASH)
            + event({"choices": [chosen(1, {"tool_calls": [piece("bash", "", id="call_1")]})]})
            + CALLED,
        ),
    ),
    "all text so far in every piece": Form(
        Failure("once more in every piece"),
        (
            text("H") + text("He") + text("Hell") + text("Hello") + STOP + DONE,
            text("")
            + b"".join(
                event({"choices": [chosen(1, {"content": "Hello"[:n]})]}) for n in range(1, 6)
            )
            + STOP
            + DONE,
        ),
    ),
    "text that is no JSON or no event, another type, another coding": Form(
        Failure("the backend"),
        (
            HELLO + b"data: {no json\n\n" + STOP + DONE,
            Sent(b"<html>", "text/html"),
            Sent(b"<html>"),
            HELLO + b"<html>Gateway Timeout</html>\n\n" + STOP + DONE,
            HELLO + b'{"error": {"message": "out of memory"}}\n' + STOP + DONE,
            Sent(b'[{"choices": [}]', JSON),
            Sent(HELLO + STOP, "image/png"),
            with_coding("br", b"\x0b\x02\x80"),
            with_coding("deflate", HELLO + STOP + DONE),
        ),
    ),
    "a line that is no field: several words, `Error:`, the end of an object": Form(
        Failure("something else than events"),
        tuple(
            HELLO + line + b"\n" + STOP + DONE
            for line in (
                *(b"Internal Server Error", b"Error: boom", b'o"}, "finish_reason": null}]}'),
                b"Traceback (most recent call last):\n  File x, line 1\nKeyError: 1",
                b"upstream connect error or disconnect/reset before headers\n",
            )
        ),
    ),
    "`content` of any other form": Form(
        Failure("of a delta"),
        (
            text({"a": "Hello"}) + STOP,
            text([{"type": "image_url"}]) + STOP,
            text(5) + STOP,
            choice({"tool_calls": "bash"}) + CALLED,
        ),
    ),
    "`delta` or `message`, where a prompt is continued": Form(
        Failure("of another form"), (HELLO + STOP + DONE, event(WHOLE)), route="completions"
    ),
    "a load that is told in the stream": Form(
        Failure("busy", 429),
        tuple(
            event({"error": {**said, "message": "busy"}})
            for said in (
                {"code": 429},
                {"code": "429"},
                {"status": 429},
                {"type": "rate_limit_error"},
                {"code": "rate_limit_exceeded"},
            )
        ),
    ),
}


class RawServer:
    """A server of any route that sends what it is told to, byte for byte."""

    def __init__(self) -> None:
        self.sent = Sent(b"")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head)
                if length is None:
                    models = b'{"data": [{"id": "deepseek-v4"}]}'
                    await self._send(writer, Sent(models, JSON))
                else:
                    await reader.readexactly(int(length[1]))
                    await self._send(writer, self.sent)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, sent: Sent) -> None:
        headers = [*sent.headers, *([("content-type", sent.kind)] if sent.kind else [])]
        if sent.ends != "close":
            headers.append(("transfer-encoding", "chunked"))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        writer.write(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode())
        for body in (
            re.findall(rb".*?\n\n", sent.body, re.DOTALL) if sent.in_packets else [sent.body]
        ):
            if sent.ends != "close" and body:
                body = b"%x\r\n%s\r\n" % (len(body), body)
            writer.write(body)
            await writer.drain()
            await asyncio.sleep(0.002 if sent.in_packets else 0)
        writer.write(b"0\r\n\r\n" if sent.ends == "whole" else b"")
        await writer.drain()
        if sent.ends == "hang":
            await asyncio.sleep(60)
        if sent.ends == "reset":
            await asyncio.sleep(0.02)  # what was sent is read before the reset is seen
            writer.transport.abort()
        if sent.ends != "whole":
            raise ConnectionError


def answer_of(path: str, body: Any) -> Answer:
    """What a whole answer says, in any protocol."""
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": []}
    if path == "/v1/chat/completions":
        message = body["choices"][0]["message"]
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        found["content"] = message.get("content") or ""
        found["reasoning"] = message.get("reasoning_content") or ""
        found["calls"] = [(call["name"], json.loads(call["arguments"])) for call in calls]
        ids = [call["id"] for call in message.get("tool_calls") or ()]
    elif path == "/v1/messages":
        for block in body["content"]:
            found["content"] += block.get("text", "")
            found["reasoning"] += block.get("thinking", "")
        blocks = [block for block in body["content"] if block["type"] == "tool_use"]
        found["calls"] = [(block["name"], block["input"]) for block in blocks]
        ids = [block["id"] for block in blocks]
    else:
        for item in body["output"]:
            name = "content" if item["type"] == "message" else "reasoning"
            found[name] += "".join(part["text"] for part in item.get("content") or ())
        items = [item for item in body["output"] if item["type"] == "function_call"]
        found["calls"] = [(item["name"], json.loads(item["arguments"])) for item in items]
        ids = [item["call_id"] for item in items]
    assert len(set(ids)) == len(ids), ids
    return Answer(found["content"], found["reasoning"], tuple(found["calls"]))


async def streamed(g: Gateway, path: str, body: Any) -> tuple[int, str, bool]:
    """Status and text of a stream, and whether it came to its end."""
    received = bytearray()
    data = json.dumps({**body, "stream": True})
    async with g.client.post(g.url + path, data=data) as response:
        try:
            async for chunk in response.content.iter_any():
                received.extend(chunk)
        except aiohttp.ClientPayloadError:
            return response.status, received.decode(), False
    return response.status, received.decode(), True


async def check_failure(g: Gateway, path: str, body: Any, expected: Failure) -> None:
    status, _, told = await g.post(path, body)
    assert status == expected.status, told
    assert expected.words in told["error"]["message"], told
    status, shown, is_whole = await streamed(g, path, body)
    assert expected.words in shown, shown
    if status != 200:
        assert status == expected.status
        return
    assert not is_whole
    assert not [end for end in ENDS if end in shown], shown
    assert "bash" not in shown.partition('"tools"')[0].partition("call")[2], shown


async def check_answer(g: Gateway, path: str, body: Any, expected: Answer) -> None:
    status, _, whole = await g.post(path, body)
    assert status == 200, whole
    assert answer_of(path, whole) == expected
    status, shown, is_whole = await streamed(g, path, body)
    assert (status, is_whole) == (200, True), shown
    assert [end for end in ENDS if end in shown], shown
    assert streamed_texts(events_of(shown)) == (expected.content, expected.reasoning)


def streamed_texts(events: list[Any]) -> tuple[str, str]:
    """The content and the reasoning of a stream, in any protocol."""
    content = reasoning = ""
    for said in events:
        if not isinstance(said, dict):
            continue
        delta = said.get("delta") or {}
        if said.get("type") == "response.output_text.delta":
            content += delta
        elif said.get("type") == "response.reasoning_text.delta":
            reasoning += delta
        elif said.get("type") == "content_block_delta":
            content += delta.get("text", "")
            reasoning += delta.get("thinking", "")
        for each in said.get("choices") or ():
            content += each["delta"].get("content") or ""
            reasoning += each["delta"].get("reasoning_content") or ""
    return content, reasoning


async def check(g: Gateway, server: RawServer, form: Form, sent: Sent | bytes) -> None:
    server.sent = sent if isinstance(sent, Sent) else Sent(sent)
    for path, body in BODIES.items():
        if form.route == "completions":
            thinking: Any = (
                {"reasoning": {"effort": "none"}}
                if "responses" in path
                else {"thinking": {"type": "disabled"}}
            )
            body = {**body, **thinking}
        if isinstance(form.expected, Failure):
            await check_failure(g, path, body, form.expected)
        else:
            await check_answer(g, path, body, form.expected)


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_every_form_is_read_for_what_it_is_and_everything_else_is_a_failure(route: str) -> None:
    rows = [
        (f"{name}, example {n}", form, sent)
        for name, form in FORMS.items()
        if form.route == route
        for n, sent in enumerate(part(form.sent, 3))
    ]

    async def scenario() -> None:
        server = RawServer()
        async with server.running() as url:
            given = {"settings_backend": route, "upstream": url, "dialect": "v4"}
            failed = []
            async with gateway(**given) as g:
                for id, form, sent in rows:
                    g.server.healer.habits = UpstreamHabits()  # each is the first answer
                    try:
                        await check(g, server, form, sent)
                    except AssertionError as error:
                        failed.append(f"{id}: {error}")
            assert not failed, "\n\n".join(failed)

    run(scenario(), 300)


@pytest.mark.parametrize("name", ["object", "type", "status", "event"])
@pytest.mark.parametrize("word", ["exception", "abort", "canceled", "run.cancelled", "interrupted"])
def test_one_word_is_enough_for_a_failure(name: str, word: str) -> None:
    with pytest.raises(BackendError, match=word):
        AnswerReader().feed(event({name: word}))
    if name != "object":  # which every event has, so that reading it would cost
        with pytest.raises(BackendError, match=word):
            AnswerReader().feed(event({name: word, "choices": [chosen(0, {}, "stop")]}))


def test_the_key_is_in_no_line_that_is_quoted() -> None:
    reader = AnswerReader("sk-secret")
    with pytest.raises(BackendError) as caught:
        reader.feed(b"data: null\n\nError: the key sk-secret is wrong\n")
    assert "the key … is wrong" in client_error(caught.value).message


def test_text_that_grows_is_refused_where_each_piece_has_a_packet_of_its_own() -> None:
    """Such pieces are passed on without being read as JSON."""
    growing = b"".join(text("Hello there"[:n]) for n in range(1, 12)) + STOP + DONE
    expected = Failure("once more in every piece")

    async def scenario() -> None:
        server = RawServer()
        server.sent = Sent(growing, in_packets=True)
        async with server.running() as url, gateway(**chat_server(url)) as g:
            g.server.healer.habits = UpstreamHabits("never")  # so nothing is held back
            for path, body in BODIES.items():
                await check_failure(g, path, body, expected)

    run(scenario())


@pytest.mark.parametrize("cut", ["length", "content_filter"])
def test_of_two_finish_reasons_the_one_of_a_cut_counts(cut: str) -> None:
    ends = (choice({}, cut) + STOP + DONE, STOP + choice({}, cut) + DONE)

    async def scenario() -> None:
        server = RawServer()
        async with server.running() as url, gateway(**chat_server(url)) as g:
            for path, end in product(BODIES, ends):
                server.sent = Sent(HELLO + end)
                _, _, answer = await g.post(path, BODIES[path])
                assert told_finish(path, answer) not in ("stop", "end_turn", "completed")

    run(scenario())


@pytest.mark.parametrize("cut", ["length", "content_filter"])
def test_a_call_that_was_cut_before_its_arguments_is_none(cut: str) -> None:
    async def scenario() -> None:
        server = RawServer()
        async with server.running() as url, gateway(**chat_server(url)) as g:
            server.sent = Sent(called(piece("bash", "", 0, "x")) + choice({}, cut) + DONE)
            for path, body in BODIES.items():
                _, _, answer = await g.post(path, body)
                assert told_finish(path, answer) not in ("tool_calls", "tool_use", "completed")
                items = answer.get("output") or ()  # Responses has a place for what was cut
                assert all(item["status"] == "incomplete" for item in items)
                if not items:
                    assert answer_of(path, answer) == Answer()

    run(scenario())


def chat_server(url: str) -> dict[str, Any]:
    return {"settings_backend": "chat", "upstream": url, "dialect": "v4"}


def told_finish(path: str, answer: Any) -> str:
    if path == "/v1/chat/completions":
        return str(answer["choices"][0]["finish_reason"])
    return str(answer.get("stop_reason") or answer["status"])


def test_the_table_of_the_documentation_has_the_same_rows() -> None:
    page = SERVING.read_text("utf-8")
    table = page.partition("| form | sent by | read as |")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert rows == list(FORMS)


def test_the_gateways_own_key_is_in_no_quotation() -> None:
    with pytest.raises(BackendError, match="not JSON") as caught:
        AnswerReader("secret-key").feed(b'data: {"key": secret-key}\n\n')
    assert "secret-key" not in str(caught.value)
    assert '{"key": …}' in str(caught.value)
