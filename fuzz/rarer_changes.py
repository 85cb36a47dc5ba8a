"""Rarer forms of answers: as few servers write them, and as HTTP may cut them.

Two forms are left out, because nobody could tell them from a good answer: an event that a proxy
sends twice is a text that says a word twice, and an answer that a router begins anew, under another
id, is a text that repeats itself, of a server that makes up an id for each event.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count, groupby
from typing import Any

from further_changes import BARE
from upstream_plans import (
    PIECE,
    Change,
    JsonObject,
    Piece,
    Plan,
    call_pieces,
    choices,
    choices_of,
    cut_anywhere,
    deltas,
    first_delta,
    has_calls,
    has_content,
    has_reason,
    has_reasoning,
    on_body,
    on_events,
    on_pieces,
    parts_of,
    setting,
    streams,
    streams_calls,
)
from vendor_changes import no_arguments_as, not_packed

# Calls.


@on_pieces("the heads of all calls first", "call order")
def heads_first(plan: Plan) -> None:
    calls = [piece for piece in plan.pieces if piece.kind == "call"]
    others = [piece for piece in plan.pieces if piece.kind != "call"]
    plan.pieces = others + sorted(calls, key=lambda piece: not piece.name)


@on_pieces("the head of a call twice", "call repeats")
def heads_twice(plan: Plan) -> None:
    plan.pieces = [
        each
        for piece in plan.pieces
        for each in ([piece, replace(piece)] if piece.name and not piece.text else [piece])
    ]


@on_pieces("the id comes behind the name", "call ids")
def ids_behind(plan: Plan) -> None:
    result: list[Piece] = []
    for piece in plan.pieces:
        if piece.kind == "call" and piece.id and not piece.text:
            result += [replace(piece, id=None), Piece("call", "", piece.call, piece.id)]
        else:
            result.append(piece)
    plan.pieces = result


@on_events("no arguments in the first piece", "call heads", streams_calls)
def bare_heads(plan: Plan) -> None:
    """As Azure and Vertex begin."""
    for piece in call_pieces(plan):
        for fields in (piece, piece.get("function")):
            if isinstance(fields, dict) and fields.get("arguments") == "":
                del fields["arguments"]


@on_events("a reason behind each call", "finish", streams_calls)
def reason_for_each(plan: Plan) -> None:
    """As routes to Gemini write that send one call at a time."""
    last = {e[PIECE].call: e for e in plan.events if PIECE in e and e[PIECE].kind == "call"}
    for event in last.values():
        for choice in choices_of(event):
            choice["finish_reason"] = plan.finish


# Texts.


@on_events("references between the texts", "references", streams)
def references(plan: Plan) -> None:
    """As Mistral writes them."""
    at = next(n for n, e in enumerate(plan.events) if has_reason(e))
    parts = [{"type": "reference", "reference_ids": [1]}]
    plan.events.insert(at, plan.event({"content": parts}))


def reasoning_parts(name: str, part: Callable[[str], Any]) -> Change:
    @on_events(f"reasoning in the content, {name}", "reasoning", has_reasoning)
    def change(plan: Plan) -> None:
        for delta in deltas(plan):
            thought = delta.pop("reasoning_content", None)
            if isinstance(thought, str) and thought:
                delta["content"] = [part(thought), *parts_of(delta)]

    return change


@on_events("reasoning again in fields of the proxy", "own fields", has_reasoning)
def proxy_fields(plan: Plan) -> None:
    """As litellm passes on what it translated."""
    for delta in deltas(plan):
        if isinstance(thought := delta.get("reasoning_content"), str) and thought:
            block = {"type": "thinking", "thinking": thought, "signature": ""}
            own = {"reasoning_content": thought, "thinking_blocks": [block]}
            delta["provider_specific_fields"] = own


def streams_both(plan: Plan) -> bool:
    return bool(plan.good.reasoning and plan.good.content) and not plan.whole


@on_pieces("reasoning behind the content", "text order", streams_both)
def late_reasoning(plan: Plan) -> None:
    plan.pieces.sort(key=lambda piece: ("content", "reasoning", "call").index(piece.kind))


@on_pieces("reasoning between the texts", "text order", streams_both)
def mixed_reasoning(plan: Plan) -> None:
    """As models write that think more than once in a turn: each thought is a line of its own."""
    own = {kind: [p for p in plan.pieces if p.kind == kind] for kind in ("reasoning", "content")}
    mixed: list[Piece] = []
    while any(own.values()):
        mixed.append(plan.rng.choice([pieces for pieces in own.values() if pieces]).pop(0))
    plan.pieces = mixed + [piece for piece in plan.pieces if piece.kind == "call"]
    told = ""
    for kind, pieces in groupby(mixed, lambda piece: piece.kind):
        if kind == "reasoning":
            told += ("\n" if told.strip() else "") + "".join(piece.text for piece in pieces)
    plan.told = replace(plan.good, reasoning=told)


def thinks_aloud(opening: str, name: str) -> Change:
    """Servers without a parser for reasoning, whose prompt ends in the opening tag or does not."""

    @on_pieces(f"reasoning in the content, {name}", "reasoning", streams_both)
    def change(plan: Plan) -> None:
        thoughts = [piece for piece in plan.pieces if piece.kind == "reasoning"]
        thoughts[0].text = opening + thoughts[0].text
        thoughts[-1].text += "</think>"
        for piece in thoughts:
            piece.kind = "content"

    return change


def content_as(name: str, form: Callable[[str], Any]) -> Change:
    return setting(name, "content", has_content, content_form=form)


def rich_part(text: str) -> Any:
    more = {"annotations": [], "logprobs": None, "cache_control": None}
    return [{"type": "output_text", "text": text, **more}]


def with_empty_parts(text: str) -> Any:
    return [{"type": "text", "text": None}, {"type": "text", "text": text}, ""]


# Messages behind deltas, or beside them.


def last_message(plan: Plan) -> JsonObject:
    """The message of the last choice, which is written here."""
    choice = next(c for c in reversed(choices(plan)) if c["finish_reason"])
    message: JsonObject = choice.setdefault("message", plan.message())
    return message


@on_events("a last message with other ids", "message", streams_calls)
def message_with_ids(plan: Plan) -> None:
    """As litellm makes up ids for what has come, and again for the whole."""
    for call in last_message(plan).get("tool_calls") or ():
        call["id"] = "call_" + call.get("id", "")[::-1]


@on_events("a last message with the calls alone", "message", streams_calls)
def message_of_calls(plan: Plan) -> None:
    message = last_message(plan)
    for name in [name for name in message if name != "tool_calls"]:
        message[name] = None


def only_in_message(name: str, *fields: str) -> Change:
    @on_events(f"{name} only in a last message", "message", streams)
    def change(plan: Plan) -> None:
        last_message(plan)
        for delta in deltas(plan):
            if delta is not last_message(plan):
                for field in fields:
                    delta.pop(field, None)

    return change


@on_events("arguments only in a last message", "message", streams_calls)
def arguments_in_message(plan: Plan) -> None:
    last_message(plan)
    plan.events = [e for e in plan.events if PIECE not in e or not is_rest_of_call(e[PIECE])]


def is_rest_of_call(piece: Piece) -> bool:
    return piece.kind == "call" and bool(piece.text) and not (piece.id or piece.name)


@on_events(
    "each delta again as a message", "message", lambda plan: streams(plan) and not plan.good.calls
)
def deltas_as_messages(plan: Plan) -> None:
    for choice in choices(plan):
        if choice.get(plan.delta_name):
            choice["message"] = dict(choice[plan.delta_name])


@on_events("an empty message beside every delta", "message", streams)
def empty_messages(plan: Plan) -> None:
    for choice in choices(plan):
        choice["message"] = plan.rng.choice([None, {}, {"role": "assistant", "content": ""}])


# Choices and what is around them.


@on_events("choices with nothing in them", "first event", streams)
def empty_choices(plan: Plan) -> None:
    for at in (len(plan.events) // 2, 0):
        plan.events.insert(at, {**plan.event({}), "choices": [{}]})


@on_events("words on the progress before the answer", "progress", streams)
def progress(plan: Plan) -> None:
    words: tuple[JsonObject, ...] = (
        {"status": "queued", "position": 3},
        {"type": "progress", "percent": 5},
        {"object": "chat.completion.queued", "id": "1"},
    )
    plan.events.insert(0, dict(plan.rng.choice(words)))


@on_events("nothing of another type in place of the last delta", "last delta", streams)
def odd_last_delta(plan: Plan) -> None:
    for choice in choices(plan):
        if choice.get("finish_reason") and not choice.get(plan.delta_name):
            choice[plan.delta_name] = plan.rng.choice([None, "", []])


@on_events("null in every other place of an answer", "beside")
def other_nulls(plan: Plan) -> None:
    for choice in choices(plan):
        for name in ("message", "delta", "text", "tool_calls", "content", "error"):
            choice.setdefault(name, None)


@on_events("no field for a reason before there is one", "empty reasons", streams)
def no_reason_yet(plan: Plan) -> None:
    for choice in choices(plan):
        if choice["finish_reason"] is None:
            del choice["finish_reason"]


@on_events("an id for every event", "heads", streams)
def ids_of_events(plan: Plan) -> None:
    for n, event in enumerate(plan.events):
        event |= {"id": f"chatcmpl-{n // 2}", "created": n // 3}


@on_events("numbers beyond all bounds", "heads")
def huge_numbers(plan: Plan) -> None:
    for event in plan.events:
        event |= {"created": 10**30, "score": plan.rng.choice([math.nan, -math.inf, 1e300])}
    for choice in choices(plan):
        token = {"token": "a", "logprob": -math.inf, "top_logprobs": []}
        choice.setdefault("logprobs", {"content": [token]})


@on_events("errors whose fields are all empty", "heads")
def hollow_errors(plan: Plan) -> None:
    for event in plan.events:
        if event.get("choices"):
            event["error"] = plan.rng.choice(
                [{"code": None, "message": None}, {"message": ""}, {"type": None, "param": None}]
            )


# Ends and counts.


@on_events("the counts in two events", "usage", streams)
def halved_usage(plan: Plan) -> None:
    """As proxies write that take over what Messages say of counts at both ends."""
    if plan.usage is not None and not plan.events[-1]["choices"]:
        names = ("completion_tokens", "total_tokens")
        plan.events[0]["usage"] = {n: c for n, c in plan.usage.items() if n not in names}
        plan.events[-1]["usage"] = {"completion_tokens": plan.usage["completion_tokens"]}


@on_events("no choices beside the counts", "no choices", streams)
def usage_alone(plan: Plan) -> None:
    for event in plan.events:
        if event.get("usage") and not event.get("choices"):
            event.pop("choices", None)


@on_events("null among the counts", "usage")
def null_counts(plan: Plan) -> None:
    for event in plan.events:
        if event.get("usage"):
            more = {"completion_tokens_details": {"reasoning_tokens": None}, "queue_time": 0.1}
            event["usage"] = {**event["usage"], **more, "prompt_tokens_details": None}


@on_events("the reason once more beside the counts", "usage", streams)
def reason_beside_usage(plan: Plan) -> None:
    if not plan.events[-1]["choices"]:
        plan.events[-1]["choices"] = plan.event({}, plan.finish)["choices"]


@on_events("zeros before the counts", "usage", streams)
def zeros_first(plan: Plan) -> None:
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    for event in plan.events:
        event.setdefault("usage", zeros)


@on_events("zeros behind the counts", "usage", streams)
def zeros_behind(plan: Plan) -> None:
    if plan.usage is not None and not plan.events[-1]["choices"]:
        zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        plan.events.append({**plan.events[-1], "usage": zeros})


# Events.


@on_body("comments and fields behind the data", "noise", streams)
def fields_behind(plan: Plan) -> None:
    # Not behind an empty object, whose event has a name already, as `done`.
    plan.body = re.sub(rb"(?<!\{)\}\n\n", b"}\n: alive\nid: 7\nevent: chunk\n\n", plan.body)


@on_body("fields without a colon, and bare colons", "noise", streams)
def bare_fields(plan: Plan) -> None:
    plan.body = plan.body.replace(b"data: {", b":\n\nretry\nid\n\ndata\n\nevent\ndata: {")


@on_body("a whole message that is called a stream", "type")
def mislabelled(plan: Plan) -> None:
    if plan.whole:
        plan.kind = "text/event-stream"


# HTTP.


def named_gzip(plan: Plan) -> None:
    plan.headers.append(("content-encoding", "x-gzip"))
    data = gzip.compress(plan.body)
    # A head with the name of a file.
    plan.body = data[:3] + b"\x08" + data[4:10] + b"answer.json\0" + data[10:]


def odd_size(piece: bytes) -> bytes:
    return b"00%X;name=value\r\n%s\r\n" % (len(piece), piece)


def odd_field(name: str, value: str) -> str:
    return f"{name.upper()}:\t {value} \r\n"


def in_bytes(plan: Plan, wire: bytes) -> list[bytes]:
    return [wire[n : n + 1] for n in range(len(wire))]


@on_events("signatures in parts of their own", "encrypted", streams)
def signatures(plan: Plan) -> None:
    """As OpenRouter and proxies to Bedrock write them behind a thought."""
    signed = {"type": "reasoning.text", "signature": "Zm9v", "format": "unknown", "index": 0}
    at = next(n for n, e in enumerate(plan.events) if has_reason(e))
    plan.events.insert(at, plan.event({"reasoning_details": [signed]}))


@on_events("arguments beside the level `function`", "arguments name", has_calls)
def arguments_beside(plan: Plan) -> None:
    for piece in call_pieces(plan):
        if isinstance(function := piece.get("function"), dict) and "arguments" in function:
            piece["arguments"] = function.pop("arguments")


@on_events("calls on the level of another tool", "arguments name", has_calls)
def custom_level(plan: Plan) -> None:
    for piece in call_pieces(plan):
        if "function" in piece:
            piece["custom"] = piece.pop("function")


@on_events("a word that all is well behind the answer", "heads", streams)
def well(plan: Plan) -> None:
    """As iFlytek and many gateways end."""
    plan.events.append({"code": 0, "message": "Success", "sid": "1"})


@on_body("the time as a sign of life", "noise", streams)
def times(plan: Plan) -> None:
    """As older versions of a library for events sent it."""
    ping = b"\n\nevent: ping\ndata: 2020-12-22 15:33:27.463789\n\ndata: [PING]"
    plan.body = plan.body.replace(b"\n\ndata: {", ping + b"\n\ndata: {")


@on_body("spaces before every field", "last line", streams)
def indented(plan: Plan) -> None:
    """As texts in the middle of a program are written."""
    plan.body = plan.body.replace(b"data: {", b"    data: {")


def statuses(plan: Plan) -> None:
    plan.status = plan.rng.choice(["200 ", "200 Fine", "201 Created", "203 Changed"])


# What others call all this.


@on_events("the reason in another place", "choice form")
def other_place(plan: Plan) -> None:
    """In the delta or beside the choices, or under a name of Messages or Ollama."""
    name = plan.rng.choice(["", "event", "stop_reason", "done_reason"])
    for event in plan.events:
        for choice in choices_of(event):
            reason = choice.pop("finish_reason", None)
            holder = choice.get("delta") or choice.get("message")
            if name == "" and isinstance(holder, dict):
                holder["finish_reason"] = reason
            elif reason:
                place = choice if name.endswith("_reason") else event
                place[name if name.endswith("_reason") else "finish_reason"] = reason


def flagged(name: str, **flags: Any) -> Change:
    @on_events(
        f"content that says that it is reasoning, by {name}",
        "reasoning",
        lambda plan: has_reasoning(plan) and streams(plan),
    )
    def change(plan: Plan) -> None:
        for delta in deltas(plan):
            if delta.get("reasoning_content"):
                delta |= {"content": delta.pop("reasoning_content"), **flags}

    return change


@on_events("content under another name of its own", "content", has_content)
def content_elsewhere(plan: Plan) -> None:
    name = plan.rng.choice(["delta_content", "output_text", "generated_text", "responseText"])
    for delta in deltas(plan):
        if delta.get("content"):
            delta[name] = delta.pop("content")


@on_events("calls under another name of their own", "call place", has_calls)
def calls_elsewhere(plan: Plan) -> None:
    name = plan.rng.choice(["function_calls", "tool_call", "toolCallChunks", "tool_uses"])
    for delta in deltas(plan):
        if delta.get("tool_calls"):
            delta[name] = delta.pop("tool_calls")


@on_events("the list of calls is a text", "call place", has_calls)
def calls_as_text(plan: Plan) -> None:
    """As gateways write that know no lists in the fields of their own."""
    for delta in deltas(plan):
        if delta.get("tool_calls"):
            delta["tool_calls"] = json.dumps(delta["tool_calls"])


@on_events("calls in the words of others", "arguments name", has_calls)
def other_words(plan: Plan) -> None:
    """As libraries for agents call the parts of a call."""
    how = plan.rng.randrange(4)
    for piece in call_pieces(plan):
        function = piece.get("function")
        if not isinstance(function, dict):
            continue
        if how == 0:
            piece["function"] = json.dumps(function)
        elif how == 1:
            names = {"name": "tool_name", "arguments": "args"}
            piece["function"] = {names.get(name, name): function[name] for name in function}
        elif how == 2 and piece.get("id"):
            piece["call_id"] = piece.pop("id")
        elif how == 3:
            names = {"name": "toolName", "arguments": "args"}
            del piece["function"]
            piece |= {names.get(name, name): function[name] for name in function}
            if piece.get("id"):
                piece["toolCallId"] = piece.pop("id")


@on_events("counts in the words of others", "usage names")
def other_counts(plan: Plan) -> None:
    """As libraries in TypeScript, Gemini and Ollama call them."""
    names = plan.rng.choice(
        [
            ("usage", "promptTokens", "completionTokens"),
            ("usage", "inputTokens", "outputTokens"),
            ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
            ("token_usage", "prompt_tokens", "completion_tokens"),
            ("", "prompt_eval_count", "eval_count"),
        ]
    )
    for event in plan.events:
        usage = event.get("usage")
        if isinstance(usage, dict) and {"prompt_tokens", "completion_tokens"} <= usage.keys():
            counts = {names[1]: usage["prompt_tokens"], names[2]: usage["completion_tokens"]}
            del event["usage"]
            event |= {names[0]: counts} if names[0] else counts


@on_events("choices by their numbers", "choice form")
def choices_by_number(plan: Plan) -> None:
    """As PHP writes a list with a gap."""
    for event in plan.events:
        if choices_of(event):
            event["choices"] = {str(n): choice for n, choice in enumerate(event["choices"])}


@on_events("an event wrapped as a text", "wrapping")
def wrapped_text(plan: Plan) -> None:
    for n, event in enumerate(plan.events):
        event.pop(PIECE, None)
        plan.events[n] = {"event": "message", "data": json.dumps(event)}


@on_events("the names of Tencent's own route", "wrapping")
def capitals(plan: Plan) -> None:
    for n, event in enumerate(plan.events):
        event.pop(PIECE, None)
        plan.events[n] = {"Response": {name.capitalize(): event[name] for name in event}}


@on_body("gzip, twice", "coding")
def packed_twice(plan: Plan) -> None:
    """As a cache compresses what its server had compressed."""
    plan.body = gzip.compress(gzip.compress(plan.body))
    each = plan.rng.choice([["gzip, gzip"], ["gzip", "gzip"]])
    plan.headers += [("content-encoding", value) for value in each]


@on_body("gzip, and nothing says so", "coding")
def packed_in_silence(plan: Plan) -> None:
    plan.body = gzip.compress(plan.body)


# What programs print, and the end of an event that was cut in two.
PLAIN_LINES = (
    b"Internal Server Error",
    b"Traceback (most recent call last):\n  File x, line 1",
    b"Error: boom",
    b"ValueError: boom",
    b"upstream connect error or disconnect/reset before headers",
    b'o"}, "finish_reason": null}]}',
    b"]}",
)


@on_events("a claim to have ended beside what failed", "damage", streams)
def failed_beside(plan: Plan) -> None:
    """As gateways fill in what their clients ask for."""
    how = plan.rng.choice(
        [
            {"success": False, "msg": "gone"},
            {"status": 500, "message": "gone"},
            {"code": "DataInspectionFailed", "message": "gone"},
            {"type": "error", "message": "gone"},
            {"errors": [{"message": "gone"}]},
            {"error_message": "gone"},
        ]
    )
    found = [n for n, event in enumerate(plan.events) if PIECE in event]
    n = plan.rng.choice(found) if found else 1
    plan.events[n:] = [{**plan.event({}, plan.finish), **how}]


@on_body("something else behind the end", "last line", streams)
def rubbish_behind(plan: Plan) -> None:
    """As a proxy writes down what went wrong for it, or what it cost, when all was said."""
    said = plan.body.rstrip()
    if plan.done and said.endswith(plan.done.rstrip().encode()):
        line = plan.rng.choice([*PLAIN_LINES, b"<html>502</html>", b'{"cost": 1}', b"[1]"])
        plan.body = said + plan.rng.choice([b"\n", b"\n\n"]) + line + b"\n"


RARER_KEEPING: tuple[Change, ...] = (
    other_place,
    *(
        setting(
            f"{field} in place of reasoning", "reasoning", has_reasoning, reasoning_fields=(field,)
        )
        for field in ("thoughts", "thinkingContent", "reasoning_output", "cot")
    ),
    flagged("a flag", reasoning=True),
    flagged("its type", type="thinking"),
    flagged("Google's", extra_content={"google": {"thought": True}}),
    content_elsewhere,
    content_as("content as a value", lambda text: [{"type": "text", "text": {"value": text}}]),
    content_as("content as a piece of a text", lambda text: [{"type": "text_delta", "text": text}]),
    content_as("content as Gemini's parts", lambda text: {"parts": [{"text": text}]}),
    calls_elsewhere,
    calls_as_text,
    other_words,
    other_counts,
    choices_by_number,
    wrapped_text,
    capitals,
    rubbish_behind,
    packed_twice,
    packed_in_silence,
    setting("DATA: in capitals", "frame", streams, frame=lambda text: f"DATA: {text}\n\n"),
    setting("a space before the colon", "frame", streams, frame=lambda text: f"data : {text}\n\n"),
    setting(
        "the text of an event", "frame", streams, frame=lambda text: f"data: {json.dumps(text)}\n\n"
    ),
    setting("a list of one event", "frame", streams, frame=lambda text: f"data: [{text}]\n\n"),
    setting("[EOS] in place of [DONE]", "done", streams, done="data: [EOS]\n\n"),
    heads_first,
    heads_twice,
    ids_behind,
    bare_heads,
    reason_for_each,
    setting(
        "numbers with gaps",
        "call numbers",
        needs=has_calls,
        call_number=lambda piece, count: 2 * piece.call + 1,
    ),
    references,
    reasoning_parts("as Responses has it", lambda text: {"type": "reasoning_text", "text": text}),
    reasoning_parts(
        "as Bedrock has it",
        lambda text: {"reasoningContent": {"reasoningText": {"text": text, "signature": "Zm9v"}}},
    ),
    proxy_fields,
    late_reasoning,
    mixed_reasoning,
    thinks_aloud("<think>", "between its tags"),
    thinks_aloud("", "up to the end of thinking"),
    only_in_message("reasoning", "reasoning_content"),
    only_in_message("content", "content"),
    arguments_in_message,
    deltas_as_messages,
    progress,
    content_as("content as a part with more fields", rich_part),
    content_as("empty parts beside the content", with_empty_parts),
    message_with_ids,
    message_of_calls,
    empty_messages,
    empty_choices,
    odd_last_delta,
    other_nulls,
    no_reason_yet,
    ids_of_events,
    huge_numbers,
    hollow_errors,
    halved_usage,
    usage_alone,
    null_counts,
    reason_beside_usage,
    zeros_first,
    zeros_behind,
    fields_behind,
    bare_fields,
    mislabelled,
    signatures,
    arguments_beside,
    custom_level,
    no_arguments_as("an empty list", "[]"),
    well,
    times,
    indented,
    setting("DONE", "done", done="data: DONE\n\n"),
    setting("the type of a page", "type", streams, kind="text/html; charset=utf-8"),
    setting("the type twice", "type", streams, kind="text/event-stream, text/event-stream"),
    not_packed("a coding that is not there, of another kind", "br"),
    setting("[DONE] with a number and a name", "done", done="id: 9\nevent: done\ndata: [DONE]\n\n"),
    setting("a comment behind [DONE]", "done", done="data: [DONE]\n\n: bye\n\n"),
    on_body("gzip with a name", "coding")(named_gzip),
    setting("sizes of chunks with zeros and more", "chunks", chunk=odd_size),
    setting("fields of the head in capitals", "head", head_form=odd_field),
    Change("another status", "status", statuses),
    setting(
        "packets that end anywhere",
        "packets",
        packets=lambda plan, wire: cut_anywhere(plan.rng, wire, 30),
    ),
    setting("one packet for all of it", "packets", packets=lambda plan, wire: [wire]),
    setting("a packet for every byte", "packets", packets=in_bytes),
)

# Damage.


@on_body("the line end between two events is lost", "damaged bytes", streams)
def lost_line_end(plan: Plan) -> None:
    at = plan.body.find(b"}\n\ndata: {", plan.rng.randrange(len(plan.body)))
    if at >= 0:
        plan.body = plan.body[: at + 1] + plan.body[at + 3 :]


@on_body("a line that is no field in place of an event", "damaged bytes", streams)
def plain_line(plan: Plan) -> None:
    ends = [match.end() for match in re.finditer(rb"\n\n", plan.body)]
    if len(ends) > 1:
        n = plan.rng.randrange(len(ends) - 1)
        line = plan.rng.choice(PLAIN_LINES) + b"\n"
        plan.body = plan.body[: ends[n]] + line + plan.body[ends[n + 1] :]


@on_body("gzip whose check at the end is another", "damaged bytes")
def bad_check(plan: Plan) -> None:
    plan.headers = [("content-encoding", "gzip")]
    plan.body = gzip.compress(plan.body)[:-8] + b"\x55" * 8


def bad_chunk(plan: Plan) -> None:
    """The size of one chunk is another."""
    wanted, sizes = plan.rng.randrange(4), count()

    def chunk(piece: bytes) -> bytes:
        size = len(piece) + (plan.rng.choice([1, 5, 1000]) if next(sizes) == wanted else 0)
        return b"%x\r\n%s\r\n" % (size, piece)

    plan.chunk, plan.ends = chunk, "chunked"


@on_events("a wrapping that says that it failed", "damage")
def failed_wrapping(plan: Plan) -> None:
    for event in plan.events:
        event.pop(PIECE, None)
    at = plan.rng.randrange(len(plan.events))
    plan.events[at] = {"success": False, "result": plan.events[at], "errors": []}


def inserted(name: str, errors: tuple[JsonObject, ...]) -> Change:
    """An error of one of several forms in place of the last pieces, before an end as always."""

    @on_events(name, "damage")
    def change(plan: Plan) -> None:
        found = [n for n, event in enumerate(plan.events) if PIECE in event]
        start = plan.rng.choice(found) if found else 0
        plan.events[start : found[-1] + 1 if found else 0] = [dict(plan.rng.choice(errors))]

    return change


WRAPPED_ERRORS: tuple[JsonObject, ...] = (
    {"data": {"object": "error", "message": "boom", "code": None}},
    {"response": {"code": 500, "message": "x"}},
    {"data": {"detail": "x"}},
    {"data": {"errors": [{"message": "x"}]}},
    {"result": {"type": "exception", "message": "x"}},
    {"event": "error", "data": {"message": "x"}},
    {"ResponseMetadata": {"RequestId": "1", "Error": {"Code": "x", "Message": "y"}}},  # Volcengine
    {"header": {"code": 10013, "message": "x", "sid": "1", "status": 2}},  # iFlytek
)
BARE_ERRORS: tuple[JsonObject, ...] = (
    *(
        {f"{name}Exception": {"message": "x"}}  # Bedrock
        for name in ("internalServer", "modelStreamError", "throttling", "validation")
    ),
    {"failure": "x"},
    {"type": "abort"},
    {"status": "cancelled"},
    {"interrupted": True},
)


@on_events("a status beside the answer that says that it failed", "damage")
def failed_status(plan: Plan) -> None:
    """As MiniMax ends what its filter stops, and Groq what it gives up."""
    failures: tuple[JsonObject, ...] = (
        {"object": "error", "message": "out of memory"},
        {"base_resp": {"status_code": 1027, "status_msg": "output sensitive"}},
        {"x_groq": {"id": "req_1", "error": "over capacity"}},
    )
    plan.events[-1] |= plan.rng.choice(failures)


def texts_of(plan: Plan) -> list[str]:
    """The texts of the content, piece by piece."""
    found = [first_delta(plan, event).get("content") for event in plan.events]
    return [text for text in found if isinstance(text, str) and text]


@on_events("the content as a transcript of what is heard", "damage", has_content)
def transcripts(plan: Plan) -> None:
    if plan.good.content.strip() in plan.good.reasoning:
        return  # the words of the thought may be there to be heard as well
    for delta in deltas(plan):
        if isinstance(delta.get("content"), str):
            delta["audio"] = {"id": "audio_1", "transcript": delta.pop("content")}


@on_events("arguments under a name that says nothing", "damage", has_calls)
def payloads(plan: Plan) -> None:
    for piece in call_pieces(plan):
        if isinstance(function := piece.get("function"), dict) and "arguments" in function:
            function["payload"] = function.pop("arguments")


@on_events("half of a character behind the text", "damage", streams)
def last_half(plan: Plan) -> None:
    plan.ascii = True
    at = next(n for n, event in enumerate(plan.events) if has_reason(event))
    delta = first_delta(plan, plan.events[at])
    if isinstance(delta.get("content"), str):
        delta["content"] += "\ud83c"
    else:
        plan.events.insert(at, plan.event({"content": "\ud83c"}))


@on_events("one text beside the choices", "damage", streams)
def text_outside(plan: Plan) -> None:
    said = [event for event in plan.events if first_delta(plan, event).get("content")]
    is_thought = plan.good.content.strip() in plan.good.reasoning  # and may be there once more
    if said and not is_thought and "message" not in str(plan.on_events):
        event = plan.rng.choice(said)
        event["choices"], event["text"] = [], first_delta(plan, event)["content"]


@on_events("deltas in a list of messages", "damage", has_content)
def lists_of_messages(plan: Plan) -> None:
    """As Azure streams what it answers from documents."""
    for choice in choices(plan):
        for name in ("delta", "message"):
            if name in choice:
                choice["messages"] = [{"index": 0, name: choice.pop(name)}]


def other_route(name: str, events_of: Callable[[list[str]], list[JsonObject]]) -> Change:
    @on_events(f"an answer as {name} streams it", "damage", streams)
    def change(plan: Plan) -> None:
        plan.events = events_of(texts_of(plan))

    return change


def of_messages(texts: list[str]) -> list[JsonObject]:
    deltas = [{"type": "text_delta", "text": text} for text in texts]
    return [
        {"type": "message_start", "message": {"id": "msg_1", "content": []}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]


def of_responses(texts: list[str]) -> list[JsonObject]:
    return [
        *({"type": "response.output_text.delta", "delta": text} for text in texts),
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]


def of_ollama(texts: list[str]) -> list[JsonObject]:
    said = [{"message": {"role": "assistant", "content": text}, "done": False} for text in texts]
    return [*said, {"message": {"content": ""}, "done": True, "done_reason": "stop"}]


def of_gemini(texts: list[str]) -> list[JsonObject]:
    parts = [{"content": {"parts": [{"text": text}]}} for text in texts]
    ends = [{"finishReason": "STOP"}]
    return [{"candidates": [each]} for each in (*parts, *ends)]


RARER_DAMAGING: tuple[Change, ...] = (
    failed_beside,
    inserted("an error in a wrapping, and then an end", WRAPPED_ERRORS),
    inserted("an error in a word or under a name of its own, and then an end", BARE_ERRORS),
    plain_line,
    lost_line_end,
    bad_check,
    Change("a chunk of another size than it says", "damaged bytes", bad_chunk),
    failed_wrapping,
    failed_status,
    transcripts,
    text_outside,
    last_half,
    payloads,
    lists_of_messages,
    other_route("Messages", of_messages),
    other_route("Responses", of_responses),
    other_route("Ollama", of_ollama),
    other_route("Gemini", of_gemini),
)
_REASONS = "finish: a reason behind each call"
RARER_CLASHES: tuple[set[str], ...] = (
    # Only a blank line says that the time is no more of the event before.
    {"noise: the time as a sign of life", "frame: one line end behind an event"},
    # There is no level, or other names in it.
    *(
        {f"arguments name: {name}", other}
        for name in (
            "arguments beside the level `function`",
            "calls on the level of another tool",
        )
        for other in ("call level", "call grouping: each call in both forms")
    ),
    # Then nothing but the end says that this is all.
    {_REASONS, "damaged bytes"},
    {_REASONS, "coding: gzip without its end"},
    {_REASONS, "done: no [DONE]"},
    # The half would stand before the text, and be told there as what nobody can read.
    {_REASONS, "damage: half of a character behind the text"},
    *({_REASONS, f"frame: {frame}"} for frame in BARE),
    # What is read as a thought stands in the content.
    *(
        {f"reasoning: reasoning in the content, {name}", other}
        for name in ("between its tags", "up to the end of thinking")
        for other in (*("message", "text order", "damage: cut where the length ends"),)
    ),
    # The deltas are needed to know the messages for what they are.
    *(
        {"message: each delta again as a message", f"choice form: {deltas} that nobody knows"}
        for deltas in ("deltas under a name", "one delta under a name")
    ),
    # The two go by the same name, and nothing is left.
    {"message", "damage: deltas in a list of messages"},
    # What ended with the length says that it has not.
    {"empty reasons: a reason in every event", "damage: cut where the length ends"},
    # In one list, as in a last message, all would have one key.
    {
        "call grouping: the calls are numbered by their keys",
        "call numbers: every call is number 0",
    },
    # What comes once more is to have come before.
    {"call repeats: a call once more, with its id", "message: arguments only in a last message"},
    # The beginning of a name, twice, is that of two calls.
    {"call names: a name comes in two pieces", "call repeats: the head of a call twice"},
    # A word with no answer beside it is taken for an error's.
    {"progress", "wrapping"},
    {"progress", "heads: errors that are none"},
    # Such bytes have no check: another byte is another text, and nothing tells that it is.
    {"coding: deflate without a head", "damaged bytes: a byte changes"},
    {"coding: gzip without its end", "damaged bytes: a byte changes"},
    # The mark of a thought would stand in a list of messages, and its text outside of it.
    {"content: content beside the delta", "damage: deltas in a list of messages"},
    # The halves would stand in two thoughts.
    {"content: characters in halves", "text order: reasoning between the texts"},
    # Brotli may begin with a capital, and with no letter of a field that is written as usual.
    {"frame: DATA: in capitals", "coding: a coding that is not there, of another kind"},
    # Both write a type into the delta.
    {
        "reasoning: content that says that it is reasoning, by its type",
        "content: the text as a list beside it",
    },
    # A refusal is content, and so is a text beside the delta, whatever the delta says.
    *(
        {f"reasoning: content that says that it is reasoning, by {name}", f"content: {other}"}
        for name in ("a flag", "its type", "Google's")
        for other in ("the text of a refusal", "the text in two places")
    ),
    # Both make parts of the content.
    {"reasoning: reasoning as a part of the content", "content: content as Gemini's parts"},
    # One says that all is well, and the other that it is not, under one name.
    {
        "heads: a status that says that all is well",
        "damage: a claim to have ended beside what failed",
    },
    # The halves of one character would stand in two choices.
    {"content: characters in halves", "choice form: choices by their numbers"},
    # That message has the texts without what is beside them.
    *(
        {f"reasoning: content that says that it is reasoning, by {name}", "message"}
        for name in ("a flag", "its type", "Google's")
    ),
    # Both make up ids.
    {"message: a last message with other ids", "call id form"},
    # A message has all its reasoning in one.
    *(
        {"text order: reasoning between the texts", f"message: {message}"}
        for message in (
            *("nothing but a message", "a message that is longer than its deltas"),
            *("content only in a last message", "reasoning only in a last message"),
        )
    ),
)
