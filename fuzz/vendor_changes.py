"""Further forms of answers, as known vendors, routers and proxies write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from upstream_plans import (
    NOTHING,
    PIECE,
    Change,
    JsonObject,
    Piece,
    Plan,
    call_pieces,
    choices,
    choices_of,
    deltas,
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
            piece["id"] = int.from_bytes(piece["id"].encode()[-6:], "big")


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
    with_calls[-1]["content"] = [*parts_of(with_calls[-1]), *parts]


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
            role = {"role": "assistant", "content": None}
            choice |= {"text": delta["content"], plan.delta_name: role}


@on_events("reasoning as a part of the content", "reasoning", has_reasoning)
def thinking_parts(plan: Plan) -> None:
    """As Mistral writes it."""
    for delta in deltas(plan):
        thought = delta.pop("reasoning_content", None)
        if isinstance(thought, str) and thought:
            part = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
            delta["content"] = [part, *parts_of(delta)]


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
        at = next(n for n, e in enumerate(plan.events) if has_reason(e))
        plan.events.insert(at, plan.events.pop())


@on_events("usage beside an empty choice", "usage", streams)
def usage_with_choice(plan: Plan) -> None:
    """As OpenRouter ends."""
    if plan.usage is not None and not plan.events[-1]["choices"]:
        empty = {"role": "assistant", "content": ""}
        plan.events[-1]["choices"] = plan.event(empty)["choices"]


# Forms of one vendor each.


@on_events("the text in two places", "content", has_content)
def text_twice(plan: Plan) -> None:
    """As Together writes it, with the number of the token."""
    for choice in choices(plan):
        delta = choice.get("delta") or {}
        if "delta" in choice and isinstance(delta.get("content") or "", str):
            choice |= {"text": delta.get("content") or "", "seed": 5}
            delta["token_id"] = 76


@on_events("all so far in a message beside every delta", "message", streams)
def growing_message(plan: Plan) -> None:
    """As Perplexity writes it."""
    said = ""
    for event in plan.events:
        for choice in choices_of(event):
            piece = (choice.get(plan.delta_name) or {}).get("content")
            said += piece if isinstance(piece, str) else ""
            choice["message"] = {"role": "assistant", "content": said}


@on_events("counts that grow in every event", "usage", streams)
def growing_usage(plan: Plan) -> None:
    """As SiliconFlow and xAI write them."""
    if plan.usage is None:
        return
    for n, event in enumerate(plan.events):
        is_last = event is plan.events[-1]
        completion = plan.usage["completion_tokens"] if is_last else n
        event["usage"] = {**plan.usage, "completion_tokens": completion}


@on_events("counts twice", "usage", streams)
def usage_twice(plan: Plan) -> None:
    if plan.usage is not None and not plan.events[-1]["choices"]:
        plan.events.append(json.loads(json.dumps(plan.events[-1])))


@on_events("reasoning as a summary in a part of the content", "reasoning", has_reasoning)
def summary_parts(plan: Plan) -> None:
    """As Databricks writes that of Claude."""
    for delta in deltas(plan):
        thought = delta.pop("reasoning_content", None)
        if isinstance(thought, str) and thought:
            summary = [{"type": "summary_text", "text": thought, "signature": ""}]
            delta["content"] = [{"type": "reasoning", "summary": summary}, *parts_of(delta)]


@on_events("reasoning as a summary in details", "reasoning", has_reasoning)
def summary_details(plan: Plan) -> None:
    """As OpenRouter writes that of OpenAI, in both fields."""
    for delta in deltas(plan):
        thought = delta.pop("reasoning_content", None)
        if isinstance(thought, str) and thought:
            detail = {"type": "reasoning.summary", "summary": thought, "id": None, "index": 0}
            delta |= {"reasoning": thought, "reasoning_details": [detail]}


@on_events("an encrypted thought", "encrypted", streams)
def encrypted(plan: Plan) -> None:
    """As OpenRouter, Copilot and proxies before Bedrock add it."""
    detail = {"type": "reasoning.encrypted", "data": "Zm9v", "id": "rs_1", "index": 0}
    block = {"type": "thinking", "thinking": "", "signature": "Zm9v"}
    forms: tuple[JsonObject, ...] = (
        {"reasoning": None, "reasoning_details": [detail]},
        {"reasoning_details": [{"type": "reasoning.text", "text": None, "signature": "Zm9v"}]},
        {"thinking_blocks": [block], "reasoning_content": ""},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "Zm9v"}]},
        {"reasoning_opaque": "Zm9v"},
        {"signature": "Zm9v"},
    )
    at = next(n for n, e in enumerate(plan.events) if has_reason(e))
    plan.events.insert(at, plan.event(plan.rng.choice(forms)))


@on_events("a channel in every delta", "empty fields")
def channels(plan: Plan) -> None:
    """As Groq writes that of harmony."""
    for delta in deltas(plan):
        delta["channel"] = "analysis" if "reasoning_content" in delta else "final"


@on_events("names of speakers, and sounds", "empty fields")
def speakers(plan: Plan) -> None:
    """As MiniMax writes them."""
    for delta in deltas(plan):
        delta |= {"name": "MiniMax AI", "audio_content": ""}


@on_events("no role in deltas", "roles", streams)
def null_roles(plan: Plan) -> None:
    for delta in deltas(plan):
        delta["role"] = plan.rng.choice([None, ""])


@on_events("the text as a list beside it", "content", has_content)
def content_list(plan: Plan) -> None:
    """As Snowflake writes it."""
    for delta in deltas(plan):
        text = delta.get("content")
        if isinstance(text, str) and text:
            parts = [{"type": "text", "text": text}]
            delta |= {"type": "text", "content_list": parts, "text": text}


@on_events("parts of the content without a type", "content", has_content)
def bare_parts(plan: Plan) -> None:
    """As Bedrock has them."""
    for delta in deltas(plan):
        if isinstance(delta.get("content"), str) and delta["content"]:
            delta["content"] = [{"text": delta["content"]}]


@on_events("padding in every event", "heads")
def padding(plan: Plan) -> None:
    """As OpenAI and Mistral add it, against who listens."""
    for event in plan.events:
        event |= {"obfuscation": "aZ3" * plan.rng.randrange(5), "p": "abcd", "usage_type": None}


@on_events("numbers of the engine in events", "heads")
def engine_numbers(plan: Plan) -> None:
    """As llama.cpp, LM Studio, Cerebras and Fireworks add them."""
    progress = {"total": 10, "cache": 0, "processed": 5, "time_ms": 7}
    if not plan.whole:
        plan.events.insert(1, {**plan.event({"content": None}), "prompt_progress": progress})
    timings = {"prompt_n": 5, "predicted_per_second": 7.5}
    more = {"timings": timings, "stats": {}, "model_info": {"arch": "x"}, "time_info": timings}
    plan.events[-1] |= {
        **more,
        "perf_metrics": timings,
        "__verbose": {"content": "x", "stop": True},
    }
    for choice in choices_of(plan.events[-1]):
        choice |= {"raw_output": {"completion": "x"}, "token_ids": [1], "stop_reason": None}


@on_events("a name of the request in x_groq", "heads")
def x_groq(plan: Plan) -> None:
    for event in plan.events:
        event.setdefault("x_groq", plan.rng.choice([None, {"id": "req_1"}, {"usage": None}]))


@on_events("citations and searches", "heads")
def citations(plan: Plan) -> None:
    """As Perplexity, Qianfan and litellm add them."""
    found = [{"url": "https://example.com", "title": "A", "index": 0}]
    for event in plan.events:
        event |= {"citations": ["https://example.com"], "search_results": found, "is_end": False}
    for delta in deltas(plan):
        delta["annotations"] = [{"type": "url_citation", "url_citation": found[0]}]
        delta["citations"] = None


@on_events("a reason in the delta too", "finish", streams)
def reason_in_delta(plan: Plan) -> None:
    for choice in choices(plan):
        if choice.get("finish_reason") and isinstance(choice.get("delta"), dict):
            choice["delta"]["finish_reason"] = choice["finish_reason"]


@on_pieces("whole calls without a number and an id", "call pieces")
def gemini_calls(plan: Plan) -> None:
    """As Gemini's route for OpenAI's clients wrote them."""
    others = [piece for piece in plan.pieces if piece.kind != "call"]
    calls = [Piece("call", c.arguments, n, "", c.name) for n, c in enumerate(plan.good.calls)]
    plan.pieces, plan.knows_ids = others + calls, False
    plan.call_number = lambda piece, count: NOTHING


@on_events("more in every call", "call more", has_calls)
def more_in_calls(plan: Plan) -> None:
    """As Gemini, Kimi and Mistral add it."""
    signed = {"google": {"thought_signature": "Zm9v"}}
    for piece in call_pieces(plan):
        piece |= {"extra_content": signed, "provider_specific_fields": None}
        if piece.get("type"):
            piece["type"] = plan.rng.choice(["function", "builtin_function", "tool"])


@on_pieces("white space around the arguments", "call space")
def spaced_arguments(plan: Plan) -> None:
    for n in range(len(plan.good.calls)):
        own = [p for p in plan.pieces if p.kind == "call" and p.call == n and p.text]
        if own and own[0] is not own[-1]:
            own[0].text, own[-1].text = " " + own[0].text, own[-1].text + "\n"


@on_body("blank lines before a whole message", "blank start")
def blank_start(plan: Plan) -> None:
    """As the official API and OpenRouter write while a request waits."""
    plan.body = b"\n" * plan.rng.randrange(1, 9) + plan.body


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
    text_twice,
    growing_message,
    growing_usage,
    usage_twice,
    summary_parts,
    summary_details,
    encrypted,
    channels,
    speakers,
    null_roles,
    content_list,
    bare_parts,
    padding,
    engine_numbers,
    x_groq,
    citations,
    reason_in_delta,
    gemini_calls,
    more_in_calls,
    spaced_arguments,
    blank_start,
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
    setting("a head that says to go on", "early", early=b"HTTP/1.1 100 Continue\r\n\r\n"),
    setting("data:[DONE]", "done", done="data:[DONE]\n\n"),
    setting("[DONE] without a blank line", "done", done="data: [DONE]\n"),
    setting("an event named end", "done", done="event: end\ndata: [DONE]\n\n"),
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


@on_events("an error beside a piece of an answer", "damage")
def error_beside(plan: Plan) -> None:
    """As OpenRouter ends what it cannot go on with."""
    event = plan.rng.choice(plan.events)
    event["error"] = plan.rng.choice(
        [{"code": "server_error", "message": "out"}, "out", {"code": 5}]
    )


# What vendors write where a text was cut, and where there was none to be had.
CUT_WORDS = ("length", "max_tokens", "model_length", "content_filter", "refusal")
FAILED_WORDS = (
    *("network_error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "timeout"),
    *("cancelled", "engine_error", "sensitive", "SAFETY", "RECITATION", "unknown", "other"),
)


@on_events("a reason that says that it failed", "damage")
def failed_reason(plan: Plan) -> None:
    word = plan.rng.choice(FAILED_WORDS)
    for choice in choices(plan):
        if choice["finish_reason"]:
            choice["finish_reason"] = word


@on_events("cut where the length ends", "damage")
def cut_by_length(plan: Plan) -> None:
    word = plan.rng.choice(CUT_WORDS)
    found = [n for n, event in enumerate(plan.events) if PIECE in event]
    if found and "message" not in str(plan.on_events):
        del plan.events[plan.rng.choice(found) : found[-1] + 1]
    for choice in choices(plan):
        if choice["finish_reason"]:
            choice["finish_reason"] = word
    plan.is_cut = True


@on_events("the first piece of a call is lost", "damage", streams_calls)
def lost_start(plan: Plan) -> None:
    starts = [
        n
        for n, event in enumerate(plan.events)
        if PIECE in event and event[PIECE].kind == "call" and event[PIECE].name
    ]
    *others, last = [call.arguments for call in plan.good.calls]
    # Equal arguments are those of the call before, once more, and some begin with an empty object.
    is_told = len(starts) == len(plan.good.calls) and last not in others and others[-1:] != ["{}"]
    if not is_told or plan.events[starts[-1]][PIECE].text:
        return
    if len(choices_of(plan.events[starts[-1]])) > 1:  # with what follows
        del plan.events[starts[-1]]["choices"][0]
    else:
        del plan.events[starts[-1]]


@on_events("the last piece of arguments is lost", "damage", streams_calls)
def lost_end(plan: Plan) -> None:
    found = [n for n, e in enumerate(plan.events) if PIECE in e and e[PIECE].kind == "call"]
    own = [n for n in found if plan.events[n][PIECE].call == plan.events[found[-1]][PIECE].call]
    said = [n for n in own if plan.events[n][PIECE].text.strip() not in ("", "{}")]
    if len(said) > 1 and said[-1] == own[-1]:
        del plan.events[own[-1]]


VENDOR_DAMAGING: tuple[Change, ...] = (
    error_beside,
    failed_reason,
    cut_by_length,
    lost_start,
    lost_end,
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
    {"content: the text in two places", "text grouping"},
    # What follows a reason may be cut itself.
    {"message: a message that is longer than its deltas", "finish: the reason twice"},
    {"message: calls only in a last message", "finish: the reason twice"},
    # Each piece would have other white space.
    {"call space", "call pieces: every piece has all arguments so far"},
    # Nothing is left of such a call.
    {"call ids: no ids", "damage: a call loses its name"},
    {"call pieces: whole calls without a number and an id", "damage: a call loses its name"},
    # Nothing else tells such calls apart.
    {"call pieces: whole calls without a number and an id", "call numbers"},
    {"call pieces: whole calls without a number and an id", "call ids"},
    {"call pieces: whole calls without a number and an id", "call id form"},
    {"call pieces: whole calls without a number and an id", "call repeats"},
    {"call pieces: whole calls without a number and an id", "call grouping"},
    {"done: an event named done", "noise: the whole stream once more behind its end"},
    # The name would stand before another event.
    {"done: an event named done", "noise: events of other names between"},
)
