"""Further forms of answers, as known vendors, routers and proxies write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from upstream_plans import (
    PIECE,
    Change,
    JsonObject,
    Piece,
    Plan,
    choices,
    choices_of,
    deltas,
    has_calls,
    has_content,
    has_reasoning,
    on_body,
    on_events,
    on_pieces,
    setting,
    streams,
    streams_calls,
)


def call_pieces(plan: Plan) -> list[JsonObject]:
    return [
        piece
        for delta in deltas(plan)
        if isinstance(delta.get("tool_calls"), list)
        for piece in delta["tool_calls"]
    ]


def in_every_choice(**fields: Any) -> Callable[[Plan], None]:
    def apply(plan: Plan) -> None:
        for choice in choices(plan):
            choice |= fields

    return apply


# Calls.


@on_pieces("the id comes in the last piece alone", "call ids")
def late_ids(plan: Plan) -> None:
    last = {piece.call: piece for piece in plan.pieces if piece.kind == "call"}
    for piece in plan.pieces:
        piece.id = None
    for n, piece in last.items():
        piece.id = plan.good.calls[n].id


@on_events("the id is a number", "call id form", has_calls)
def number_ids(plan: Plan) -> None:
    plan.knows_ids = False
    for piece in call_pieces(plan):
        if piece.get("id"):
            piece["id"] = sum(piece["id"].encode())


@on_events("the id is the name", "call id form", has_calls)
def names_as_ids(plan: Plan) -> None:
    """As Gemini's route for OpenAI's clients had it: two calls of one tool have one id."""
    plan.knows_ids = False
    names = {call.id: call.name for call in plan.good.calls}
    for piece in call_pieces(plan):
        if piece.get("id"):
            piece["id"] = names[piece["id"]]


@on_events("ids as Kimi writes them", "call id form", has_calls)
def ids_of_kimi(plan: Plan) -> None:
    plan.knows_ids = False
    ids = {call.id: f"functions.{call.name}:{n}" for n, call in enumerate(plan.good.calls)}
    for piece in call_pieces(plan):
        if piece.get("id"):
            piece["id"] = ids[piece["id"]]


@on_events("null in every field of a later piece", "call nulls", streams_calls)
def null_pieces(plan: Plan) -> None:
    for piece in call_pieces(plan):
        piece.setdefault("id", None)
        piece.setdefault("type", None)
        if isinstance(piece.get("function"), dict):
            piece["function"].setdefault("name", None)


@on_events("the type in every piece, and empty", "call nulls", streams_calls)
def empty_types(plan: Plan) -> None:
    for piece in call_pieces(plan):
        piece["type"] = piece.get("type") or ""


@on_events("empty pieces of calls at the end", "call rest", streams_calls)
def empty_rest(plan: Plan) -> None:
    found = [n for n, e in enumerate(plan.events) if PIECE in e and e[PIECE].kind == "call"]
    if not found:
        return
    at = found[-1]
    number = plan.events[at][PIECE].call
    for rest in ({"index": number}, {"index": number, "function": {"arguments": None}}, {}):
        plan.events.insert(at + 1, plan.event({"tool_calls": [rest]}))


def arguments_as(name: str) -> Change:
    @on_events(f"arguments as {name}", "arguments name", has_calls)
    def change(plan: Plan) -> None:
        for piece in call_pieces(plan):
            fields = piece.get("function") or piece
            if "arguments" in fields:
                fields[name] = fields.pop("arguments")

    return change


@on_events("calls as Messages has them", "call pieces", has_calls)
def tool_use(plan: Plan) -> None:
    """A proxy that took the list of calls over as it was."""
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in plan.good.calls
    ]
    with_calls = [delta for delta in deltas(plan) if "tool_calls" in delta]
    for delta in with_calls:
        del delta["tool_calls"]
    with_calls[-1]["tool_calls"] = calls


@on_events("calls as parts of the content", "call pieces", has_calls)
def calls_in_content(plan: Plan) -> None:
    """As a proxy before Bedrock passes a whole turn on."""
    parts = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in plan.good.calls
    ]
    with_calls = [delta for delta in deltas(plan) if "tool_calls" in delta]
    for delta in with_calls:
        del delta["tool_calls"]
    text = with_calls[-1].get("content") or []
    text = [{"type": "text", "text": text}] if isinstance(text, str) else text
    with_calls[-1]["content"] = [*text, *parts]


@on_pieces("an empty object before the arguments", "call pieces")
def empty_object_first(plan: Plan) -> None:
    """As routers write that translate Messages, whose blocks begin with `input: {}`."""
    for piece in plan.pieces:
        if piece.kind == "call" and piece.name:
            piece.text = "{}" + piece.text if not piece.text else piece.text


@on_pieces("every piece has all arguments so far", "call pieces")
def growing_arguments(plan: Plan) -> None:
    said: dict[int, str] = {}
    for piece in plan.pieces:
        if piece.kind == "call":
            said[piece.call] = said.get(piece.call, "") + piece.text
            piece.text = said[piece.call]


def no_arguments_as(name: str, value: Any) -> Change:
    """Calls without arguments, which servers write in several ways."""

    def apply(plan: Plan) -> None:
        others = [piece for piece in plan.pieces if piece.kind != "call"]
        plan.pieces = others + [
            Piece("call", c.arguments, n, c.id, c.name) for n, c in enumerate(plan.good.calls)
        ]
        plan.arguments_form = lambda text: value if text == "{}" else text

    def needs(plan: Plan) -> bool:
        return any(call.arguments == "{}" for call in plan.good.calls)

    return Change(f"no arguments as {name}", "call pieces", apply, needs)


@on_events("calls beside the delta", "call place", has_calls)
def calls_beside(plan: Plan) -> None:
    for choice in choices(plan):
        delta = choice.get("message" if plan.whole else plan.delta_name) or {}
        if "tool_calls" in delta:
            choice["tool_calls"] = delta.pop("tool_calls")


@on_events("empty calls of other forms in every delta", "empty fields")
def empty_calls(plan: Plan) -> None:
    for delta in deltas(plan):
        delta.setdefault("tool_calls", plan.rng.choice(["", {}, [], None]))
        delta.setdefault("function_call", plan.rng.choice(["", {}, None]))


# Texts.


@on_events("text in place of a delta", "content", has_content)
def text_alone(plan: Plan) -> None:
    """As servers of completions write that take the route for chats."""
    for choice in choices(plan):
        delta = choice.get("delta") or choice.get("message") or {}
        if isinstance(delta.get("content"), str) and delta["content"] and len(delta) == 1:
            choice["text"] = delta["content"]
            choice.pop("delta", None)


@on_events("text beside a delta with a role", "content", has_content)
def text_beside(plan: Plan) -> None:
    for choice in choices(plan):
        delta = choice.get("delta") or choice.get("message") or {}
        if isinstance(delta.get("content"), str) and delta["content"] and len(delta) == 1:
            choice |= {"text": delta["content"], "delta": {"role": "assistant", "content": None}}


@on_events("reasoning as a part of the content", "reasoning", has_reasoning)
def thinking_parts(plan: Plan) -> None:
    """As Mistral writes it."""
    for delta in deltas(plan):
        thought = delta.pop("reasoning_content", None)
        if isinstance(thought, str) and thought:
            part = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
            text = delta.get("content") or []
            rest = [{"type": "text", "text": text}] if isinstance(text, str) else text
            delta["content"] = [part, *rest]


@on_events("reasoning as a list of parts", "reasoning", has_reasoning)
def reasoning_parts(plan: Plan) -> None:
    for delta in deltas(plan):
        if delta.get("reasoning_content"):
            delta["reasoning_content"] = [{"type": "text", "text": delta["reasoning_content"]}]


# Choices, and what is around them.


def wrapped(name: str, **beside: Any) -> Change:
    @on_events(f"the answer wrapped in {name}", "wrapping")
    def change(plan: Plan) -> None:
        for event in plan.events:
            event.pop(PIECE, None)
        plan.events = [{**beside, name: event} for event in plan.events]

    return change


@on_events("usage beside a wrapped answer", "wrapping")
def usage_beside(plan: Plan) -> None:
    """As Qwen's own route has it."""
    plan.events = [
        {
            "output": {k: v for k, v in event.items() if k not in ("usage", PIECE)},
            "usage": event.get("usage"),
        }
        if event.get("choices")
        else event
        for event in plan.events
    ]


@on_events("an event without choices comes first", "first event", streams)
def filters_first(plan: Plan) -> None:
    """As Azure begins."""
    results = [{"prompt_index": 0, "content_filter_results": {}}]
    first = {**plan.event({}), "choices": [], "prompt_filter_results": results, "id": ""}
    plan.events.insert(0, first)


@on_events("choices that are null", "first event", streams)
def null_choices(plan: Plan) -> None:
    plan.events.insert(0, {**plan.event({}), "choices": None})
    plan.events.append({**plan.event({}), "choices": None})


@on_events("null deltas", "first event", streams)
def null_deltas(plan: Plan) -> None:
    plan.events.insert(0, plan.event(None))  # type: ignore[arg-type]
    plan.events.append(plan.event(None))  # type: ignore[arg-type]


@on_events("results of filters in every choice", "beside")
def filters(plan: Plan) -> None:
    """As Azure writes them, with the error of a filter that did not run."""
    ran = {"hate": {"filtered": False, "severity": "safe"}}
    failed = {"error": {"code": "content_filter_error", "message": "The contents are not filtered"}}
    for choice in choices(plan):
        choice["content_filter_results"] = ran
        choice["content_filter_result"] = failed


@on_events("filters behind the end", "beside", streams)
def filters_behind(plan: Plan) -> None:
    late = {"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 5}}
    plan.events.append({**plan.event({}), "choices": [late]})


@on_events("log-probabilities of another form", "beside")
def odd_logprobs(plan: Plan) -> None:
    forms = ([], {}, {"content": ["x"]}, {"content": [{"token": "a"}]}, {"tokens": ["a"]})
    for choice in choices(plan):
        choice["logprobs"] = plan.rng.choice(forms)


@on_events("heads of other forms", "heads")
def odd_heads(plan: Plan) -> None:
    for event in plan.events:
        event |= {"id": plan.rng.choice([None, 5, ""]), "created": 1.5, "object": ""}
        event.pop("model", None)


@on_events("a status that says that all is well", "heads")
def fine(plan: Plan) -> None:
    """As MiniMax, Zhipu and many gateways write beside the answer."""
    well = {"base_resp": {"status_code": 0, "status_msg": ""}, "code": 0, "msg": "success"}
    for event in plan.events:
        if event.get("choices"):
            event |= well


@on_events("errors that are none", "heads")
def empty_errors(plan: Plan) -> None:
    for event in plan.events:
        event.setdefault("error", plan.rng.choice([None, False, "", {}, [], 0]))


@on_events("keys in another order", "keys")
def turned(plan: Plan) -> None:
    plan.events = list(map(_turned, plan.events))


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(item) for name, item in reversed(value.items())}
    return list(map(_turned, value)) if isinstance(value, list) else value


# Ends and counts.


@on_events("null as a word before the reason", "empty reasons", streams)
def word_null(plan: Plan) -> None:
    word = plan.rng.choice(["null", "None", "none"])
    for choice in choices(plan):
        choice["finish_reason"] = choice["finish_reason"] or word


def usage_elsewhere(name: str, put: Callable[[Plan, JsonObject], None]) -> Change:
    """Counts that stand with the reason, under another name."""

    @on_events(name, "usage")
    def change(plan: Plan) -> None:
        if plan.usage is None:
            return
        for event in plan.events:
            event.pop("usage", None)
        plan.events = [e for e in plan.events if e.get("choices")]
        last = next(e for e in reversed(plan.events) if choices_of(e)[-1].get("finish_reason"))
        put(plan, last)

    return change


def _in_choice(plan: Plan, last: JsonObject) -> None:
    choices_of(last)[-1]["usage"] = plan.usage


def _of_groq(plan: Plan, last: JsonObject) -> None:
    last["x_groq"] = {"id": "req_1", "usage": plan.usage}


@on_events("counts by the names of Messages", "usage names")
def other_names(plan: Plan) -> None:
    for holder in (*plan.events, *choices(plan)):
        usage = holder.get("usage")
        if isinstance(usage, dict) and {"prompt_tokens", "completion_tokens"} <= usage.keys():
            new = {"input_tokens": usage["prompt_tokens"]}
            holder["usage"] = {**new, "output_tokens": usage["completion_tokens"]}


@on_events("counts in the middle", "usage", streams)
def usage_between(plan: Plan) -> None:
    """In an event of its own before the reason."""
    if plan.usage is not None and not plan.events[-1]["choices"]:
        at = next(n for n, e in enumerate(plan.events) if _has_reason(e))
        plan.events.insert(at, plan.events.pop())


def _has_reason(event: JsonObject) -> bool:
    return any(choice.get("finish_reason") for choice in choices_of(event))


@on_events("usage beside an empty choice", "usage", streams)
def usage_with_choice(plan: Plan) -> None:
    """As OpenRouter ends."""
    if plan.usage is not None and not plan.events[-1]["choices"]:
        empty = {"role": "assistant", "content": ""}
        plan.events[-1]["choices"] = plan.event(empty)["choices"]


# Bytes.


def values_of(plan: Plan) -> list[str]:
    return [json.dumps(event, ensure_ascii=plan.ascii) for event in plan.events]


@on_body("an object on each line", "frame", streams)
def json_lines(plan: Plan) -> None:
    plan.kind = plan.rng.choice(["application/x-ndjson", "application/jsonl", plan.kind])
    plan.body = "".join(f"{text}\n" for text in values_of(plan)).encode()


@on_body("a list of objects", "frame", streams)
def json_list(plan: Plan) -> None:
    """As Gemini streams where nobody asks for events."""
    plan.kind = "application/json"
    indent = plan.rng.choice([None, 2])
    texts = [json.dumps(event, ensure_ascii=plan.ascii, indent=indent) for event in plan.events]
    plan.body = ("[" + "\n,".join(texts) + "\n]\n").encode()


@on_body("objects without anything between", "frame", streams)
def json_row(plan: Plan) -> None:
    plan.body = "".join(values_of(plan)).encode()


@on_body("slashes with a backslash", "slashes")
def slashes(plan: Plan) -> None:
    """As PHP writes JSON."""
    plan.body = plan.body.replace(b"/", b"\\/")


@on_body("events of other names between", "noise", streams)
def pings(plan: Plan) -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\nevent: heartbeat\ndata:\n\n'
    plan.body = plan.body.replace(b"data: {", ping + b"event: chunk\ndata: {")


@on_body("line ends of several kinds", "line ends")
def mixed_ends(plan: Plan) -> None:
    lines = plan.body.split(b"\n")
    plan.body = b"".join(line + plan.rng.choice([b"\n", b"\r\n"]) for line in lines[:-1])
    plan.body += lines[-1]


def not_packed(name: str, header: str) -> Change:
    @on_body(name, "coding")
    def change(plan: Plan) -> None:
        plan.headers.append(("content-encoding", header))

    return change


VENDOR_KEEPING: tuple[Change, ...] = (
    late_ids,
    number_ids,
    names_as_ids,
    ids_of_kimi,
    null_pieces,
    empty_types,
    empty_rest,
    arguments_as("input"),
    arguments_as("parameters"),
    tool_use,
    calls_in_content,
    empty_object_first,
    growing_arguments,
    no_arguments_as("nothing", ""),
    no_arguments_as("null", None),
    no_arguments_as("the word null", "null"),
    calls_beside,
    empty_calls,
    text_alone,
    text_beside,
    thinking_parts,
    reasoning_parts,
    wrapped("data", code=0, msg="success"),
    wrapped("result", success=True, errors=[], messages=[]),
    wrapped("response"),
    usage_beside,
    filters_first,
    null_choices,
    null_deltas,
    filters,
    filters_behind,
    odd_logprobs,
    odd_heads,
    fine,
    empty_errors,
    turned,
    word_null,
    usage_elsewhere("usage in the choice", _in_choice),  # Moonshot
    usage_elsewhere("usage in x_groq", _of_groq),
    other_names,
    usage_between,
    usage_with_choice,
    json_lines,
    json_list,
    json_row,
    slashes,
    setting("JSON without spaces", "compact", separators=(",", ":")),
    setting("data twice", "frame", streams, frame=lambda text: f"data: data: {text}\n\n"),
    setting("one line end behind an event", "frame", streams, frame=lambda text: f"data: {text}\n"),
    setting("a name for every event", "frame", frame=lambda t: f"event: chunk\ndata: {t}\n\n"),
    setting("[done]", "done", done="data: [done]\n\n"),
    setting("[DONE] in quotes", "done", done='data: "[DONE]"\n\n'),
    setting("[DONE] without data", "done", done="[DONE]\n\n"),
    setting("an event named done", "done", done="event: done\ndata: {}\n\n"),
    setting("a price behind [DONE]", "done", done='data: [DONE]\n\ndata: {"cost": 0.1}\n\n'),
    pings,
    mixed_ends,
    setting("the type is text", "type", streams, kind="text/plain; charset=utf-8"),
    setting("the type is bytes", "type", streams, kind="application/octet-stream"),
    not_packed("a coding that is none", "none"),
    not_packed("a charset as coding", "UTF-8"),
    not_packed("a coding that is not there", "gzip"),
    setting("an early head", "early", early=b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
    setting("trailers", "trailers", trailers=b"x-cost: 1\r\n"),
    setting("HTTP/1.0", "ends", version="1.0", ends="close"),
)

# Damage.

ERRORS: tuple[JsonObject, ...] = (
    {"error": "overloaded"},
    {"object": "error", "message": "CUDA out of memory", "code": 500},  # vLLM
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},  # Anthropic
    {"code": "InvalidParameter", "message": "bad", "request_id": "1"},  # Qwen
    {"error_code": 336100, "error_msg": "try again", "id": "as"},  # Baidu
    {"success": False, "errors": [{"code": 7000, "message": "No route"}], "result": None},
    {"message": "Too many tokens"},  # Bedrock
    {"detail": [{"loc": ["body"], "msg": "bad"}]},  # FastAPI
    {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}, "choices": None},  # MiniMax
    {"status": 503, "title": "Unavailable"},
    {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}},  # Gemini
    {"error": {"message": None, "code": 502}},
    {"error_type": "overloaded", "error": "Model is overloaded"},  # TGI
)


@on_events("an error of a vendor in the middle", "damage")
def vendor_error(plan: Plan) -> None:
    plan.events.insert(plan.rng.randrange(len(plan.events)), dict(plan.rng.choice(ERRORS)))


@on_body("a list with an error", "damaged bytes")
def listed_error(plan: Plan) -> None:
    """As Gemini refuses."""
    plan.body = b'[{"error": {"code": 400, "message": "API key not valid"}}]\n'


@on_body("an event named error in the middle", "damaged bytes", streams)
def named_error(plan: Plan) -> None:
    at = plan.body.find(b"\n\n", plan.rng.randrange(len(plan.body))) + 2
    if at > 1:
        plan.body = plan.body[:at] + b"event: error\ndata: out of memory\n\n" + plan.body[at:]


def packed_by(name: str) -> Change:
    def apply(plan: Plan) -> None:
        plan.headers.append(("content-encoding", name))

    return Change(f"packed by {name}", "coding", apply)


@on_events("an error of a vendor in place of an answer", "damage")
def error_alone(plan: Plan) -> None:
    plan.events = [dict(plan.rng.choice(ERRORS))]


@on_events("an empty answer of a vendor", "damage")
def nothing(plan: Plan) -> None:
    plan.events = [plan.rng.choice([{"choices": []}, {"choices": None}, {}, {"data": None}])]


@on_body("another page in place of an answer", "damaged bytes")
def other_page(plan: Plan) -> None:
    pages = (b"<!DOCTYPE html><title>502</title>", b"Internal Server Error", b"", b"upstream error")
    plan.body = plan.rng.choice(pages)


VENDOR_DAMAGING: tuple[Change, ...] = (
    vendor_error,
    listed_error,
    named_error,
    packed_by("br"),
    packed_by("zstd"),
    error_alone,
    nothing,
    other_page,
)

_BARE = ("an object on each line", "a list of objects", "objects without anything between")
VENDOR_CLASHES: tuple[set[str], ...] = (
    # Noise is written between events.
    *({f"frame: {frame}", "noise"} for frame in (*_BARE, "data twice")),
    {"frame: data twice", "mark: a byte order mark before every event"},
    {"call rest", "call grouping"},
    {"call pieces: calls as Messages has them", "call grouping"},
    {"call pieces: calls as parts of the content", "call grouping"},
    {"arguments name", "call grouping: function_call in place of tool_calls"},
    # Nothing is left of an answer, and an error.
    {"first event: choices that are null", "heads: errors that are none"},
    # The number alone tells calls apart.
    {"call ids: the id comes in the last piece alone", "call id form: the id is the name"},
    {
        "call pieces: an empty object before the arguments",
        "call numbers: the number grows with every piece",
    },
    # A name behind whole arguments begins another call.
    {
        "call pieces: an empty object before the arguments",
        "call names: the name stands in every piece",
    },
    # The id alone tells calls apart, or nothing does.
    *(
        {f"call numbers: {numbers}", "call id form: the id is the name"}
        for numbers in (
            *("every call is number 0", "the number is null", "no numbers"),
            *("a number in the first piece alone", "the number grows with every piece"),
        )
    ),
    {"usage: usage in x_groq", "choices: two entries of one index"},
    {"content: text in place of a delta", "text grouping"},
    {"content: text beside a delta with a role", "text grouping"},
    {"done: an event named done", "noise: the whole stream once more behind its end"},
)
