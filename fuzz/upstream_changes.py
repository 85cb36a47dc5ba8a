"""The ways in which servers and proxies write a good answer.

Those of `KEEPING` leave the meaning as it was, so that a client must get exactly the answer; those
of `DAMAGING` do not, so that it may get a failure in its place, and never less told as complete.
`upstream_plans.py` has the answers, `vendor_changes.py` further forms of known vendors,
`further_changes.py` what stands at other places or says itself twice, and `rarer_changes.py` what
few servers do, and how HTTP cuts it.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from further_changes import FURTHER_CLASHES, FURTHER_DAMAGING, FURTHER_KEEPING
from rarer_changes import RARER_CLASHES, RARER_DAMAGING, RARER_KEEPING
from upstream_plans import (
    NOTHING,
    PIECE,
    Change,
    Good,
    JsonObject,
    Piece,
    Plan,
    choices,
    choices_of,
    cut_anywhere,
    deltas,
    first_delta,
    good_answer,
    has_calls,
    has_content,
    has_reasoning,
    on_body,
    on_events,
    on_pieces,
    setting,
    streams,
    streams_calls,
    streams_one_call,
)
from vendor_changes import VENDOR_CLASHES, VENDOR_DAMAGING, VENDOR_KEEPING

# Calls.


@on_pieces("a call comes in one piece", "call pieces")
def whole_calls(plan: Plan) -> None:
    others = [piece for piece in plan.pieces if piece.kind != "call"]
    plan.pieces = others + [
        Piece("call", c.arguments, n, c.id, c.name) for n, c in enumerate(plan.good.calls)
    ]


@on_pieces("arguments come with the name", "call pieces")
def arguments_with_name(plan: Plan) -> None:
    for before, piece in zip(plan.pieces, list(plan.pieces)[1:], strict=False):
        if before.kind == "call" and before.name and piece.kind == "call":
            before.text, piece.text = piece.text, ""


@on_pieces("empty pieces of arguments", "call pieces")
def empty_arguments(plan: Plan) -> None:
    plan.pieces = [
        each
        for piece in plan.pieces
        for each in ([piece, Piece("call", "", piece.call)] if piece.kind == "call" else [piece])
    ]


@on_pieces("calls are written side by side", "call order")
def side_by_side(plan: Plan) -> None:
    rest = [piece for piece in plan.pieces if piece.kind != "call"]
    rows = [
        [p for p in plan.pieces if p.kind == "call" and p.call == n]
        for n in range(len(plan.good.calls))
    ]
    mixed = [row.pop(0) for row in rows]
    while any(rows):
        mixed.append(plan.rng.choice([row for row in rows if row]).pop(0))
    plan.pieces = rest + mixed


@on_pieces("calls come before the text", "call order")
def calls_first(plan: Plan) -> None:
    plan.pieces.sort(key=lambda piece: piece.kind != "call")


@on_pieces("calls come between the texts", "call order")
def calls_between(plan: Plan) -> None:
    plan.pieces.sort(key=lambda piece: ("reasoning", "call", "content").index(piece.kind))


@on_pieces("the id stands in every piece", "call ids")
def id_everywhere(plan: Plan) -> None:
    for piece in plan.pieces:
        if piece.kind == "call":
            piece.id = plan.good.calls[piece.call].id


@on_pieces("no ids", "call ids")
def no_ids(plan: Plan) -> None:
    plan.knows_ids = False
    for piece in plan.pieces:
        piece.id = None


@on_pieces("ids are empty behind the first piece", "call ids")
def empty_ids(plan: Plan) -> None:
    for piece in plan.pieces:
        if piece.kind == "call":
            piece.id = piece.id or ""


@on_pieces("the name stands in every piece", "call names")
def name_everywhere(plan: Plan) -> None:
    for piece in plan.pieces:
        if piece.kind == "call":
            piece.name = plan.good.calls[piece.call].name


@on_pieces("names are empty behind the first piece", "call names")
def empty_names(plan: Plan) -> None:
    for piece in plan.pieces:
        if piece.kind == "call":
            piece.name = piece.name or ""


@on_pieces("a name comes in two pieces", "call names")
def names_in_pieces(plan: Plan) -> None:
    result = []
    for piece in plan.pieces:
        if piece.kind == "call" and piece.name:
            result += [
                replace(piece, name=piece.name[:2], text=""),
                Piece("call", piece.text, piece.call, None, piece.name[2:]),
            ]
        else:
            result.append(piece)
    plan.pieces = result


@on_pieces("all arguments once more behind the pieces", "call repeats")
def arguments_again(plan: Plan) -> None:
    for n, call in enumerate(plan.good.calls):
        at = max(k for k, p in enumerate(plan.pieces) if p.kind == "call" and p.call == n)
        plan.pieces.insert(at + 1, Piece("call", call.arguments, n))


@on_pieces("a call once more, with its id", "call repeats")
def calls_again(plan: Plan) -> None:
    for n, call in enumerate(plan.good.calls):
        at = max(k for k, p in enumerate(plan.pieces) if p.kind == "call" and p.call == n)
        plan.pieces.insert(at + 1, Piece("call", call.arguments, n, call.id, call.name))


def in_order(plan: Plan) -> bool:
    """Whether each call is complete before the next begins, and is told by more than its number."""
    order = [p.call for p in plan.pieces if p.kind == "call"]
    return streams_calls(plan) and order == sorted(order)


def has_ids(plan: Plan) -> bool:
    return in_order(plan) and any(piece.id for piece in plan.pieces)


def growing(piece: Piece, count: int) -> Any:
    return count


@on_events("whole calls in one delta", "call grouping", streams_calls)
def grouped_calls(plan: Plan) -> None:
    """Pieces of calls that follow each other stand in one delta."""
    result: list[JsonObject] = []
    for event in plan.events:
        own, last = (first_delta(plan, each) for each in (event, result[-1] if result else {}))
        if "tool_calls" in own and "tool_calls" in last:
            last["tool_calls"] += own["tool_calls"]
        else:
            result.append(event)
    plan.events = result


@on_events("the list of calls is one call", "call grouping", streams_calls)
def calls_without_list(plan: Plan) -> None:
    for delta in deltas(plan):
        if len(delta.get("tool_calls") or ()) == 1:
            delta["tool_calls"] = delta["tool_calls"][0]


@on_events("the calls are numbered by their keys", "call grouping", streams_calls)
def calls_by_key(plan: Plan) -> None:
    for delta in deltas(plan):
        if "tool_calls" in delta:
            delta["tool_calls"] = {str(c.get("index", 0)): c for c in delta["tool_calls"]}


@on_events("function_call in place of tool_calls", "call grouping", streams_one_call)
def old_calls(plan: Plan) -> None:
    plan.knows_ids = False
    for delta in deltas(plan):
        for call in delta.pop("tool_calls", ()):
            delta["function_call"] = {
                name: value
                for name, value in (call.get("function") or call).items()
                if name in ("name", "arguments")
            }
    for choice in choices(plan):
        if choice["finish_reason"] == "tool_calls":
            choice["finish_reason"] = "function_call"


# Texts.


def part_of(text: str) -> Any:
    return [{"type": "text", "text": text}]


@on_events("content and reasoning in one delta", "text grouping", streams)
def both_in_one(plan: Plan) -> None:
    result: list[JsonObject] = []
    for event in plan.events:
        delta, before = (first_delta(plan, each) for each in (event, result[-1] if result else {}))
        has_calls = any("tool_calls" in each for each in (delta, before))
        if "content" in delta and before and "content" not in before and not has_calls:
            before.update(delta)
            continue
        result.append(event)
    plan.events = result


@on_events("empty fields in every delta", "empty fields")
def empty_fields(plan: Plan) -> None:
    for delta in deltas(plan):
        empty = {"content": None, "reasoning_content": None, "refusal": None, "audio": None}
        lists = {"tool_calls": None, "function_call": None, "annotations": []}
        for name, value in {**empty, **lists}.items():
            if name not in plan.reasoning_fields:
                delta.setdefault(name, value)


@on_events("empty texts and lists in every delta", "empty fields")
def empty_texts(plan: Plan) -> None:
    for delta in deltas(plan):
        delta.setdefault("content", "")
        delta.setdefault("tool_calls", [])
        delta.setdefault("refusal", "")


@on_events("fields that nobody knows", "empty fields")
def unknown_fields(plan: Plan) -> None:
    for delta in deltas(plan):
        delta["provider_specific_fields"] = {"stop_sequence": None}
    for choice in choices(plan):
        choice |= {"native_finish_reason": None, "matched_stop": 1, "token_ids": [1, 2]}
    for event in plan.events:
        event |= {"system_fingerprint": "fp", "service_tier": None, "provider": "x"}
        event.setdefault("error", None)


@on_events("the role in every delta", "roles", streams)
def roles(plan: Plan) -> None:
    for delta in deltas(plan):
        delta["role"] = "assistant"


@on_events("no first delta with a role", "roles", streams)
def no_role(plan: Plan) -> None:
    if PIECE not in plan.events[0] and "role" in first_delta(plan, plan.events[0]):
        del plan.events[0]


# Choices.


@on_events("text and calls in two choices", "choices", has_calls)
def two_choices(plan: Plan) -> None:
    for choice in choices(plan):
        message = choice.get("delta") or choice.get("message") or {}
        if plan.whole or "tool_calls" in message:
            choice["index"] = 1 if not plan.whole else 0
    if plan.whole:
        [choice] = plan.events[0]["choices"]
        calls = {"role": "assistant", "tool_calls": choice["message"].pop("tool_calls", [])}
        plan.events[0]["choices"].append({**choice, "index": 1, "message": calls})


@on_events("each call in a choice of its own", "choices", has_calls)
def choice_for_each_call(plan: Plan) -> None:
    if plan.whole:
        [choice] = plan.events[0]["choices"]
        for n, call in enumerate(choice["message"].pop("tool_calls", ()), 1):
            own = {"role": "assistant", "content": None, "tool_calls": [call]}
            plan.events[0]["choices"].append({**choice, "index": n, "message": own})
        return
    for event in plan.events:
        if PIECE in event and event[PIECE].kind == "call":
            event["choices"][0]["index"] = event[PIECE].call + 1


@on_events("two entries of one index", "choices", streams)
def two_entries(plan: Plan) -> None:
    """Events are put together in pairs."""
    result: list[JsonObject] = []
    for event in plan.events:
        if result and len(result[-1]["choices"]) == 1 and event["choices"]:
            both = result[-1]["choices"] + event["choices"]
            usage = event.get("usage") or result[-1].get("usage")
            result[-1] |= {"choices": both, **({"usage": usage} if usage else {})}
        else:
            result.append(event)
    plan.events = result


@on_events("the index of the choice is null", "choices")
def null_choice(plan: Plan) -> None:
    for choice in choices(plan):
        choice["index"] = None


@on_events("the index of the choice is text", "choices")
def text_choice(plan: Plan) -> None:
    for choice in choices(plan):
        choice["index"] = "0"


@on_events("the choice is number 1", "choices")
def choice_one(plan: Plan) -> None:
    for choice in choices(plan):
        choice["index"] = 1


@on_events("no index of the choice", "choices")
def no_choice_index(plan: Plan) -> None:
    for choice in choices(plan):
        del choice["index"]


@on_events("the answer in two equal choices", "choices")
def twin_choices(plan: Plan) -> None:
    for event in plan.events:
        twins = [{**json.loads(json.dumps(c)), "index": 1} for c in event["choices"]]
        event["choices"] += twins


@on_events("the second of two equal choices first", "choices")
def second_choice_first(plan: Plan) -> None:
    for event in plan.events:
        twins = [{**json.loads(json.dumps(c)), "index": 1} for c in event["choices"]]
        event["choices"] = twins + event["choices"]


@on_events("choices is one object", "choice form")
def choice_object(plan: Plan) -> None:
    for event in plan.events:
        if len(choices_of(event)) == 1:
            event["choices"] = event["choices"][0]


# A message behind the deltas, or in their place.


@on_events("all of it once more in a last message", "message", streams)
def message_behind(plan: Plan) -> None:
    last = next(c for c in reversed(choices(plan)) if c["finish_reason"])
    last["message"] = plan.message()


@on_events("all of it once more in a message, in an event of its own", "message", streams)
def message_event(plan: Plan) -> None:
    at = next(n for n, e in enumerate(plan.events) if _finish_of(e))
    own = plan.event({})
    del own["choices"][0][plan.delta_name]
    own["choices"][0]["message"] = plan.message()
    plan.events.insert(at, own)


@on_events("calls only in a last message", "message", streams_calls)
def calls_in_message(plan: Plan) -> None:
    plan.events = [e for e in plan.events if "tool_calls" not in first_delta(plan, e)]
    last = next(c for c in reversed(choices(plan)) if c["finish_reason"])
    last["message"] = plan.message()


@on_events("a message that is longer than its deltas", "message", streams)
def longer_message(plan: Plan) -> None:
    kept = [n for n, e in enumerate(plan.events) if PIECE in e and e[PIECE].kind == "content"]
    if not kept:
        return
    del plan.events[kept[-1]]
    last = next(c for c in reversed(choices(plan)) if c["finish_reason"])
    last["message"] = plan.message()


@on_events("nothing but a message", "message", streams)
def only_message(plan: Plan) -> None:
    event = plan.event({}, plan.finish)
    event["choices"][0]["message"] = plan.message()
    del event["choices"][0][plan.delta_name]
    plan.events = [event, *[e for e in plan.events if not e["choices"]]]


# Ends and counts.


@on_events("the reason stands with the last piece", "finish", streams)
def finish_with_last(plan: Plan) -> None:
    at = next(n for n, e in enumerate(plan.events) if _finish_of(e))
    has_message = any("message" in choice for choice in choices_of(plan.events[at]))
    if at and choices_of(plan.events[at - 1]) and not has_message:
        plan.events[at - 1]["choices"][-1]["finish_reason"] = _finish_of(plan.events[at])
        del plan.events[at]


def _finish_of(event: JsonObject) -> Any:
    return next((c["finish_reason"] for c in choices_of(event) if c.get("finish_reason")), None)


@on_events("the reason twice", "finish", streams)
def finish_twice(plan: Plan) -> None:
    at = next(n for n, e in enumerate(plan.events) if _finish_of(e))
    plan.events.insert(at, json.loads(json.dumps(plan.event({}, plan.finish))))


@on_events("empty reasons before the last", "finish", streams)
def empty_reasons(plan: Plan) -> None:
    for choice in choices(plan):
        choice["finish_reason"] = choice["finish_reason"] or ""


@on_events("finishReason and toolCalls", "names")
def other_case(plan: Plan) -> None:
    for choice in choices(plan):
        choice["finishReason"] = choice.pop("finish_reason", None)
    for delta in deltas(plan):
        for name, other in (("tool_calls", "toolCalls"), ("reasoning_content", "reasoningContent")):
            if name in delta:
                delta[other] = delta.pop(name)


def with_finish(*words: str) -> Callable[[Plan], None]:
    def apply(plan: Plan) -> None:
        plan.finish = plan.rng.choice(words)

    return apply


def is_text_alone(plan: Plan) -> bool:
    return not plan.good.calls


@on_events("usage in every event", "usage", streams)
def usage_everywhere(plan: Plan) -> None:
    for event in plan.events:
        event["usage"] = plan.usage


@on_events("usage null in every event but the last", "usage", streams)
def usage_null(plan: Plan) -> None:
    for event in plan.events:
        event.setdefault("usage", None)


@on_events("usage with the reason", "usage", streams)
def usage_with_reason(plan: Plan) -> None:
    if not plan.events[-1]["choices"]:
        plan.events.pop()
        plan.events[-1]["usage"] = plan.usage


@on_events("usage in fractions", "usage")
def usage_in_fractions(plan: Plan) -> None:
    for event in plan.events:
        if event.get("usage"):
            usage = {k: float(v) for k, v in event["usage"].items() if isinstance(v, int)}
            event["usage"] = {**event["usage"], **usage}


@on_events("usage as text", "usage")
def usage_as_text(plan: Plan) -> None:
    for event in plan.events:
        if event.get("usage"):
            usage = {k: str(v) for k, v in event["usage"].items() if isinstance(v, int)}
            event["usage"] = {**event["usage"], **usage}


def unknown_usage(name: str, usage: Any) -> Change:
    def apply(plan: Plan) -> None:
        plan.knows_usage = False
        plan.usage = usage

    return Change(name, "usage", apply)


@on_events("usage comes first", "usage", streams)
def usage_first(plan: Plan) -> None:
    if not plan.events[-1]["choices"]:
        plan.events.insert(0, plan.events.pop())


# Bytes.


def other_line_ends(line_end: bytes) -> Callable[[Plan], None]:
    def apply(plan: Plan) -> None:
        plan.body = plan.body.replace(b"\n", line_end)

    return apply


@on_body("a byte order mark", "mark")
def mark(plan: Plan) -> None:
    plan.body = b"\xef\xbb\xbf" + plan.body


@on_body("a byte order mark before every event", "mark", streams)
def marks(plan: Plan) -> None:
    plan.body = plan.body.replace(b"data: {", b"\xef\xbb\xbfdata: {")


@on_body("comments and other fields", "noise")
def comments(plan: Plan) -> None:
    if plan.kind != "application/json":
        noise = b": keep-alive\n\nid: 5\nretry: 10\nevent: message\n"
        plan.body = b": hi\n\n" + plan.body.replace(b"data: {", noise + b"data: {")


@on_body("blank lines", "noise")
def blank_lines(plan: Plan) -> None:
    plan.body = b"\n\n" + plan.body.replace(b"\n\n", b"\n\n\n\n")


@on_body("signs of life", "noise", streams)
def signs_of_life(plan: Plan) -> None:
    plan.body = plan.body.replace(b"data: {", b"data: {}\n\ndata: null\n\ndata:\n\ndata: {", 1)


@on_body("the whole stream once more behind its end", "noise", streams)
def stream_again(plan: Plan) -> None:
    plan.body += plan.body


@on_body("no last blank line", "last line", streams)
def no_last_line(plan: Plan) -> None:
    plan.body = plan.body.rstrip(b"\r\n")


def packed(coding: str, pack: Callable[[Plan, bytes], bytes]) -> Callable[[Plan], None]:
    def apply(plan: Plan) -> None:
        plan.headers.append(("content-encoding", coding))
        plan.body = pack(plan, plan.body)

    return apply


def members(plan: Plan, data: bytes) -> bytes:
    return b"".join(map(gzip.compress, cut_anywhere(plan.rng, data, 5)))


def raw_deflate(plan: Plan, data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def flushed(plan: Plan, data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    pieces = cut_anywhere(plan.rng, data, 9)
    parts = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return b"".join(parts) + packer.flush()


def coding(name: str, header: str, pack: Callable[[Plan, bytes], bytes]) -> Change:
    return on_body(name, "coding")(packed(header, pack))


def multi_line(text: str) -> str:
    lines = json.dumps(json.loads(text), ensure_ascii=text.isascii(), indent=1).split("\n")
    return "".join(f"data: {line}\n" for line in lines) + "\n"


def halves(plan: Plan) -> None:
    """Every character beyond the first 65,536 comes as halves of a pair, in two events."""
    plan.ascii = True
    result = []
    for piece in plan.pieces:
        at = piece.text.find("\U0001f389")
        if piece.kind != "call" and at >= 0:
            cut = [piece.text[:at] + "\ud83c", "\udf89" + piece.text[at + 1 :]]
            result += [replace(piece, text=text) for text in cut]
        else:
            result.append(piece)
    plan.pieces = result


def in_one_piece(name: str, form: Callable[[str], Any]) -> Change:
    """Whole calls, whose arguments have another form."""

    def apply(plan: Plan) -> None:
        whole_calls.apply(plan)
        plan.arguments_form = form

    return Change(name, "call pieces", apply, has_calls)


KEEPING: tuple[Change, ...] = (
    whole_calls,
    arguments_with_name,
    empty_arguments,
    side_by_side,
    calls_first,
    calls_between,
    id_everywhere,
    no_ids,
    empty_ids,
    name_everywhere,
    empty_names,
    names_in_pieces,
    arguments_again,
    calls_again,
    setting(
        "the number grows with every piece",
        "call numbers",
        needs=in_order,
        call_number=lambda piece, count: count,
    ),
    setting(
        "numbers as text",
        "call numbers",
        needs=has_calls,
        call_number=lambda piece, count: str(piece.call),
    ),
    setting(
        "numbers from 1 on",
        "call numbers",
        needs=has_calls,
        call_number=lambda piece, count: piece.call + 1,
    ),
    setting(
        "every call is number 0", "call numbers", needs=has_ids, call_number=lambda piece, count: 0
    ),
    setting(
        "the number is null", "call numbers", needs=has_ids, call_number=lambda piece, count: None
    ),
    setting("no numbers", "call numbers", needs=has_ids, call_number=lambda piece, count: NOTHING),
    setting(
        "a number in the first piece alone",
        "call numbers",
        needs=has_ids,
        call_number=lambda piece, count: piece.call if piece.name else NOTHING,
    ),
    setting(
        "numbers in fractions",
        "call numbers",
        needs=has_calls,
        call_number=lambda piece, count: float(piece.call),
    ),
    grouped_calls,
    calls_without_list,
    calls_by_key,
    old_calls,
    setting("no level `function`", "call level", needs=has_calls, function_level=False),
    in_one_piece("arguments as an object", json.loads),
    in_one_piece("arguments as the text of a text", json.dumps),
    *(
        setting(f"reasoning as {names}", "reasoning", needs=has_reasoning, reasoning_fields=names)
        for names in (
            ("reasoning",),
            ("thinking",),
            ("reasoning_text",),
            ("thought",),
            ("reasoning_details",),
            ("thinking_blocks",),
            ("reasoning", "reasoning_details"),
            ("reasoning_content", "reasoning"),
            ("reasoning_content", "thinking_blocks"),
        )
    ),
    setting("content as a list of parts", "content", needs=has_content, content_form=part_of),
    setting(
        "content as a list of texts", "content", needs=has_content, content_form=lambda text: [text]
    ),
    Change("characters in halves", "content", halves, streams),
    both_in_one,
    empty_fields,
    empty_texts,
    unknown_fields,
    roles,
    no_role,
    two_choices,
    choice_for_each_call,
    two_entries,
    null_choice,
    text_choice,
    choice_one,
    no_choice_index,
    twin_choices,
    second_choice_first,
    choice_object,
    setting("message in place of delta in every event", "message", delta_name="message"),
    message_behind,
    message_event,
    calls_in_message,
    longer_message,
    only_message,
    finish_with_last,
    finish_twice,
    empty_reasons,
    other_case,
    Change(
        "another word for the end",
        "finish word",
        with_finish("stop", "STOP", "COMPLETE", "end_turn", "eos", "eos_token"),
        is_text_alone,
    ),
    Change(
        "another word for calls",
        "finish word",
        with_finish("stop", "function_call", "tool_use", "end_turn"),
        has_calls,
    ),
    usage_everywhere,
    usage_null,
    usage_with_reason,
    usage_in_fractions,
    usage_as_text,
    usage_first,
    unknown_usage("no usage", None),
    unknown_usage("negative counts", {"prompt_tokens": -5, "completion_tokens": -1}),
    unknown_usage(
        "more cached than there was",
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50}},
    ),
    unknown_usage("huge counts", {"prompt_tokens": 1e308 * 10, "completion_tokens": 10**30}),
    unknown_usage("counts that are no numbers", {"prompt_tokens": [], "completion_tokens": "many"}),
    unknown_usage("usage as a list", [{"prompt_tokens": 5}]),
    on_body("CRLF", "line ends")(other_line_ends(b"\r\n")),
    on_body("CR", "line ends")(other_line_ends(b"\r")),
    mark,
    marks,
    comments,
    blank_lines,
    signs_of_life,
    stream_again,
    no_last_line,
    coding("gzip", "gzip", lambda plan, data: gzip.compress(data)),
    coding("gzip in members", "gzip", members),
    coding("gzip, flushed now and then", "GZIP", flushed),
    coding("deflate", "deflate", lambda plan, data: zlib.compress(data)),
    coding("deflate without a head", "deflate", raw_deflate),
    setting("data without a space", "frame", frame=lambda text: f"data:{text}\n\n"),
    setting("data with many spaces", "frame", frame=lambda text: f"data:   {text}  \n\n"),
    setting("data on many lines", "frame", frame=multi_line),
    setting("JSON in ASCII", "ascii", ascii=True),
    setting("[DONE] with spaces", "done", done="data:   [DONE]  \n\n"),
    setting("[DONE] twice", "done", done="data: [DONE]\n\ndata: [DONE]\n\n"),
    setting("no [DONE]", "done", done=""),
    setting("a whole message in place of a stream", "whole", whole=True, kind="application/json"),
    setting(
        "a whole message on many lines", "whole", whole=True, kind="application/json", pretty=True
    ),
    setting("a whole message in an event", "whole", whole=True),
    setting("no type", "type", needs=streams, kind=None),
    setting("a stream that is called JSON", "type", needs=streams, kind="application/json"),
    setting("the type in capitals", "type", needs=streams, kind="Text/Event-Stream; Charset=UTF-8"),
    setting(
        "byte by byte", "cuts", cuts=lambda plan, data: [data[n : n + 1] for n in range(len(data))]
    ),
    setting("in one piece", "cuts", cuts=lambda plan, data: [data]),
    setting("with a length", "ends", ends="length"),
    setting("up to the end of the connection", "ends", ends="close"),
    *VENDOR_KEEPING,
    *FURTHER_KEEPING,
    *RARER_KEEPING,
)


# Damage.


def drop_event(plan: Plan, wanted: Callable[[JsonObject], bool]) -> None:
    found = [n for n, event in enumerate(plan.events) if wanted(event)]
    if found:
        del plan.events[plan.rng.choice(found)]


@on_events("no reason", "damage")
def no_reason(plan: Plan) -> None:
    for choice in choices(plan):
        choice["finish_reason"] = None


@on_events("a reason that is none", "damage")
def bad_reason(plan: Plan) -> None:
    for choice in choices(plan):
        if choice["finish_reason"]:
            choice["finish_reason"] = plan.rng.choice(
                ["error", "abort", "whatever", 5, [], {"a": 1}]
            )


@on_events("tool_calls, and the calls are gone", "damage", has_calls)
def no_calls(plan: Plan) -> None:
    for delta in deltas(plan):
        delta.pop("tool_calls", None)


@on_events("tool_calls without a call", "damage", is_text_alone)
def reason_alone(plan: Plan) -> None:
    for choice in choices(plan):
        if choice["finish_reason"]:
            choice["finish_reason"] = plan.rng.choice(["tool_calls", "function_call", "tool_use"])


@on_events("calls under a name that nobody knows", "damage", has_calls)
def unknown_calls(plan: Plan) -> None:
    for delta in deltas(plan):
        if "tool_calls" in delta:
            delta["x_invocations"] = delta.pop("tool_calls")


@on_events("content under a name that nobody knows", "damage", is_text_alone)
def unknown_content(plan: Plan) -> None:
    for delta in deltas(plan):
        if delta.get("content"):
            delta[plan.rng.choice(["answer", "x_text"])] = delta.pop("content")


def call_events(plan: Plan) -> list[JsonObject]:
    return [
        call
        for delta in deltas(plan)
        for call in (delta.get("tool_calls") or ())
        if isinstance(call, dict) and not isinstance(call.get("function"), str)
    ]


@on_events("a call loses its name", "damage", has_calls)
def nameless(plan: Plan) -> None:
    for call in call_events(plan):
        function = call.get("function") or call
        if function.get("name"):
            function["name"] = plan.rng.choice([None, "", 5])
            return


@on_events("a piece of arguments is lost", "damage", streams_calls)
def lost_piece(plan: Plan) -> None:
    calls = [c for c in call_events(plan) if (c.get("function") or c).get("arguments")]
    if calls:
        (plan.rng.choice(calls).get("function") or {})["arguments"] = "\x00"


@on_events("arguments that are no JSON", "damage", has_calls)
def bad_arguments(plan: Plan) -> None:
    for call in call_events(plan):
        function = call.get("function") or call
        if function.get("arguments"):
            function["arguments"] = plan.rng.choice(
                ["{NaN", "}", "[1]", "{'a': 1}", '{"a": NaN}', "5"]
            )
            return


@on_events("a call that is no object", "damage", has_calls)
def odd_call(plan: Plan) -> None:
    for delta in deltas(plan):
        if delta.get("tool_calls"):
            delta["tool_calls"] = plan.rng.choice([["bash"], [5], "bash", 7, [None]])
            return


@on_events("content that is no text", "damage", has_content)
def odd_content(plan: Plan) -> None:
    for delta in deltas(plan):
        if delta.get("content"):
            delta["content"] = plan.rng.choice([5, {"a": 1}, [5], [{"type": "image"}], True])
            return


@on_events("another text in another choice", "damage", has_content)
def other_choice(plan: Plan) -> None:
    other = {"index": 9, "delta": {"content": "No"}, "finish_reason": None}
    plan.events[0]["choices"].append(other)


@on_events("the pieces alternate between choices", "damage", streams)
def alternating(plan: Plan) -> None:
    for n, choice in enumerate(choices(plan)):
        choice["index"] = n % 2


@on_events("a message that says something else", "damage", has_content)
def other_message(plan: Plan) -> None:
    last = next((c for c in reversed(choices(plan)) if c["finish_reason"]), None)
    if last is not None and "message" not in last:
        last["message"] = {"role": "assistant", "content": "Something else altogether"}


@on_events("an error in the middle", "damage")
def error_event(plan: Plan) -> None:
    at = plan.rng.randrange(len(plan.events))
    plan.events.insert(at, {"error": {"message": "out of memory", "code": 500}})


@on_events("an error in a choice", "damage")
def error_choice(plan: Plan) -> None:
    plan.rng.choice(choices(plan) or [{}])["error"] = {"message": "out of memory"}


@on_events("choices that are no list", "damage")
def odd_choices(plan: Plan) -> None:
    plan.events[0]["choices"] = plan.rng.choice(["x", 5, [5], [None], ["x"]])


@on_events("a delta that is no object", "damage", streams)
def odd_delta(plan: Plan) -> None:
    choice = plan.rng.choice(choices(plan) or [{}])
    choice["delta"] = plan.rng.choice(["x", 5, [1], [["a", 1]]])


@on_body("cut anywhere", "damaged bytes")
def cut(plan: Plan) -> None:
    plan.body = plan.body[: plan.rng.randrange(len(plan.body))]


@on_body("cut anywhere, and a length that says so", "damaged bytes")
def short(plan: Plan) -> None:
    plan.ends = "length" if plan.ends == "chunked" else plan.ends
    plan.body = plan.body[: plan.rng.randrange(len(plan.body))]


@on_body("the connection breaks", "damaged bytes")
def reset(plan: Plan) -> None:
    plan.ends = "reset"
    plan.body = plan.body[: plan.rng.randrange(len(plan.body))]


JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@on_body("a byte changes", "damaged bytes")
def changed_byte(plan: Plan) -> None:
    # Of the JSON itself: a changed letter of a text is another text, which nobody can know.
    bare = JSON_TEXT.sub(lambda text: b'"' + b"x" * (len(text[0]) - 2) + b'"', plan.body)
    at = plan.rng.choice([n for n, byte in enumerate(bare) if byte in b'{}[]":,'] or [0])
    plan.body = plan.body[:at] + plan.rng.choice([b"\x00", b"\xff", b"<"]) + plan.body[at + 1 :]


@on_body("a page in the middle", "damaged bytes", streams)
def page(plan: Plan) -> None:
    at = plan.body.find(b"\n\n", plan.rng.randrange(len(plan.body))) + 2
    plan.body = plan.body[:at] + b"<html>Bad gateway</html>\n\n" + plan.body[at:]


@on_body("an end in the middle", "damaged bytes", streams)
def early_end(plan: Plan) -> None:
    at = plan.body.find(b"data: {", plan.rng.randrange(len(plan.body)))
    if at >= 0:
        plan.body = plan.body[:at] + b"data: [DONE]\n\n" + plan.body[at:]


DAMAGING: tuple[Change, ...] = (
    no_reason,
    bad_reason,
    no_calls,
    reason_alone,
    unknown_calls,
    unknown_content,
    nameless,
    lost_piece,
    bad_arguments,
    odd_call,
    odd_content,
    other_choice,
    alternating,
    other_message,
    error_event,
    error_choice,
    odd_choices,
    odd_delta,
    cut,
    short,
    reset,
    changed_byte,
    page,
    early_end,
    *VENDOR_DAMAGING,
    *FURTHER_DAMAGING,
    *RARER_DAMAGING,
)

# What is decided first: what others depend on.
ORDER = (
    *("whole", "call pieces", "call order", "call ids", "call names", "call repeats", "reasoning"),
    *("content", "message", "call id form", "call nulls", "call rest", "call space"),
    *("text order", "call heads", "own fields"),
    *("arguments name", "call more", "encrypted", "references"),
    *("call grouping", "text grouping", "roles", "finish", "usage", "usage names"),
    *("choices", "call place", "damage", "empty fields", "empty reasons", "first event", "beside"),
    *("last delta", "no choices", "progress", "heads", "names", "choice form", "keys", "wrapping"),
    *(
        "frame",
        "blank start",
        "slashes",
        "noise",
        "line ends",
        "mark",
        "last line",
        "coding",
        "damaged bytes",
    ),
)
# Pairs of groups and changes that leave nothing to tell calls apart by, or that undo each other.
CLASHES = (
    {"call names: a name comes in two pieces", "call pieces"},
    {"call names: a name comes in two pieces", "call order: calls are written side by side"},
    {
        "call numbers: the number grows with every piece",
        "call order: calls are written side by side",
    },
    {
        "call numbers: the number grows with every piece",
        "call grouping: the calls are numbered by their keys",
    },
    {"call numbers: the number grows with every piece", "call repeats"},
    {"call numbers: every call is number 0", "call order: calls are written side by side"},
    {"call numbers: every call is number 0", "call ids: no ids"},
    {"call numbers: the number is null", "call order: calls are written side by side"},
    {"call numbers: the number is null", "call ids: no ids"},
    {"call numbers: no numbers", "call order: calls are written side by side"},
    {"call numbers: no numbers", "call ids: no ids"},
    {"call numbers: no numbers", "call grouping: the calls are numbered by their keys"},
    {"call numbers: the number is null", "call grouping: the calls are numbered by their keys"},
    {
        "call numbers: a number in the first piece alone",
        "call order: calls are written side by side",
    },
    {"call numbers: a number in the first piece alone", "call ids: no ids"},
    {
        "call numbers: a number in the first piece alone",
        "call grouping: the calls are numbered by their keys",
    },
    {"call grouping: function_call in place of tool_calls", "finish word"},
    {
        "call repeats: all arguments once more behind the pieces",
        "call pieces: arguments as an object",
    },
    {"call grouping: the list of calls is one call", "call repeats"},
    {"call grouping: the calls are numbered by their keys", "call repeats"},
    {"call grouping: function_call in place of tool_calls", "call repeats"},
    {"call ids: no ids", "call repeats: a call once more, with its id"},
    {
        "call names: the name stands in every piece",
        "call numbers: the number grows with every piece",
    },
    {"message: nothing but a message", "finish: the reason twice"},
    # Nothing tells that there were calls.
    {"finish word: another word for calls", "damage: tool_calls, and the calls are gone"},
    {"finish word: another word for calls", "damage: a piece of arguments is lost"},
    {"finish word: another word for calls", "damage: the last piece of arguments is lost"},
    # What is left of a name is a name.
    {"call names: a name comes in two pieces", "damage: a call loses its name"},
    {
        "call names: a name comes in two pieces",
        "damage: the pieces alternate between choices",
    },
    {"choices: each call in a choice of its own", "call grouping"},
    {"choices: each call in a choice of its own", "finish: the reason stands with the last piece"},
    {"done: no [DONE]", "noise: the whole stream once more behind its end"},
    {"last line: no last blank line", "noise: the whole stream once more behind its end"},
    {"content: characters in halves", "mark"},
    {"frame: data on many lines", "content: characters in halves"},
    *VENDOR_CLASHES,
    *FURTHER_CLASHES,
    *RARER_CLASHES,
)


def clashes(chosen: list[Change], change: Change) -> bool:
    names = {
        name for each in (*chosen, change) for name in (each.group, f"{each.group}: {each.name}")
    }
    return any(change.group == each.group for each in chosen) or any(
        len(pair) == 2 and pair <= names for pair in CLASHES
    )


@dataclass(frozen=True)
class Changed:
    """A good answer, how it was changed, and what goes over the wire."""

    good: Good
    changes: tuple[str, ...]
    is_damaged: bool
    wire: tuple[bytes, ...]
    ends: str
    knows_ids: bool
    knows_usage: bool
    is_cut: bool


def changed_answer(seed: object, only: Change | None = None) -> Changed:
    """The changed answer of a seed; with one change alone, where that is given."""
    rng = random.Random(f"{seed}")
    good = good_answer(rng)
    wanted = [only] if only else rng.sample(KEEPING, rng.choice([0, 1, 2, 3, 5, 8]))
    if only is None and rng.random() < 0.3:
        wanted.append(rng.choice(DAMAGING))
    order = {group: n for n, group in enumerate(ORDER)}
    wanted.sort(key=lambda change: order.get(change.group, len(ORDER)))
    plan = Plan(rng, good)
    chosen: list[Change] = []
    for change in wanted:
        if not clashes(chosen, change) and change.needs(plan):
            change.apply(plan)
            chosen.append(change)
    wire = tuple(plan.wire())
    return Changed(
        plan.told or good,
        tuple(change.name for change in chosen),
        any(change in DAMAGING for change in chosen),
        wire,
        plan.ends,
        plan.knows_ids and not plan.whole,
        plan.knows_usage,
        plan.is_cut,
    )
