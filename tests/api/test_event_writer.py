"""What is written, read by the vendors' own SDKs: their types, and their accumulators."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from clients import EVENTS, WHOLE, Answering
from hypothesis import given, settings
from hypothesis import strategies as st
from request_bodies import PROTOCOLS, body

import dsv4
from completions import block, calling, corpus, declared
from dsv4.api import ApiError, ContextOverflow, Settings, Usage
from parts import fewer, part
from rows import each_row

EVERY = pytest.mark.parametrize("protocol", PROTOCOLS)
EOS = "<｜end▁of▁sentence｜>"
USAGE = Usage(prompt=100, cached=60, completion=20, reasoning=5)
TOOLS = declared(bash={"command": "string", "timeout": "integer"}, ping={})


@pytest.fixture(scope="module")
def sdk() -> Answering:
    return Answering()


def tools_in(protocol: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if protocol == "chat":
        return tools
    if protocol == "responses":
        return [{"type": "function", **tool["function"]} for tool in tools]
    renamed = {"parameters": "input_schema"}
    return [{renamed.get(k, k): v for k, v in tool["function"].items()} for tool in tools]


OFF = {
    "chat": {"thinking": {"type": "disabled"}},
    "messages": {"thinking": {"type": "disabled"}},
    "responses": {"reasoning": {"effort": "none"}},
}


def asked(
    protocol: str,
    tools: list[dict[str, Any]] = TOOLS,
    *,
    thinking: bool = True,
    settings: Settings | None = None,
    **fields: Any,
) -> Any:
    """A request with these tools."""
    fields = {**fields, **({} if thinking else OFF[protocol])}
    request = body(protocol, model="m", tools=tools_in(protocol, tools), **fields)
    return PROTOCOLS[protocol].read(request, settings=settings)


def events_of(call: Any, text: str, cut: int = 5, reason: str | None = None) -> list[Any]:
    """The parser's events for a completion that comes in pieces."""
    parser = call.parser()
    pieces = [text[n : n + cut] for n in range(0, len(text), cut)]
    return [*(event for piece in pieces for event in parser.feed(piece)), *parser.finish(reason)]


def written(protocol: str, call: Any, events: list[Any], reason: Any = None) -> list[Any]:
    """All protocol events, each valid by the vendor's types."""
    writer = PROTOCOLS[protocol].Writer(call, id="id_1", created=5)
    out = writer.start(input_tokens=USAGE.prompt, cached=USAGE.cached)
    for event in events:
        out = [*out, *writer.write(event)]
    out = [*out, *writer.finish(usage=USAGE, reason=reason)]
    for event in out:
        EVENTS[protocol].validate_json(json.dumps(event), strict=True)
    return out


def framed(protocol: str, call: Any, events: list[Any], reason: Any = None) -> bytes:
    """The same as bytes, by the shorter way, which takes events one at a time."""
    module = PROTOCOLS[protocol]
    writer = module.Writer(call, id="id_1", created=5)
    start = module.frames(writer.start(input_tokens=USAGE.prompt, cached=USAGE.cached))
    frames = b"".join(writer.frames([event]) for event in events)
    return start + frames + module.frames(writer.finish(usage=USAGE, reason=reason))


# What an SDK has built, in the words of `dsv4.Message`.


def seen(protocol: str, built: Any) -> dict[str, Any]:
    return {"chat": seen_chat, "responses": seen_response, "messages": seen_message}[protocol](
        built
    )


def seen_chat(completion: Any) -> dict[str, Any]:
    choice = completion.choices[0]
    calls = choice.message.tool_calls or []
    return {
        "content": choice.message.content or "",
        "reasoning": getattr(choice.message, "reasoning_content", None) or "",
        "calls": [(c.id, c.function.name, c.function.arguments) for c in calls],
        "finish": choice.finish_reason,
        "usage": (
            completion.usage.prompt_tokens,
            getattr(completion.usage.prompt_tokens_details, "cached_tokens", None),
            completion.usage.completion_tokens,
            completion.usage.completion_tokens_details.reasoning_tokens,
        ),
    }


def seen_response(response: Any) -> dict[str, Any]:
    calls = [i for i in response.output if i.type == "function_call" and i.status == "completed"]
    thoughts = [i.content[0].text for i in response.output if i.type == "reasoning"]
    details = response.incomplete_details
    finish = "tool_calls" if calls else "stop" if details is None else REASONS[details.reason]
    return {
        "content": response.output_text,
        "reasoning": "".join(thoughts),
        "calls": [(c.call_id, c.name, c.arguments) for c in calls],
        "finish": finish,
        "usage": (
            response.usage.input_tokens,
            response.usage.input_tokens_details.cached_tokens,
            response.usage.output_tokens,
            response.usage.output_tokens_details.reasoning_tokens,
        ),
    }


REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}


def seen_message(message: Any) -> dict[str, Any]:
    blocks = message.content
    usage = message.usage
    return {
        "content": "".join(b.text for b in blocks if b.type == "text"),
        "reasoning": "".join(b.thinking for b in blocks if b.type == "thinking"),
        "calls": [(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"],
        "finish": REASONS[message.stop_reason],
        "usage": (
            usage.input_tokens + (usage.cache_read_input_tokens or 0),
            usage.cache_read_input_tokens,
            usage.output_tokens,
            usage.output_tokens_details.thinking_tokens,
        ),
    }


def expected(protocol: str, message: Any, ids: list[str]) -> dict[str, Any]:
    calls = [
        (c.name, json.loads(c.arguments) if protocol == "messages" else c.arguments)
        for c in message.tool_calls
    ]
    return {
        "content": message.content,
        "reasoning": message.reasoning,
        "calls": [(id, *call) for id, call in zip(ids, calls, strict=True)],
        "finish": "tool_calls" if message.tool_calls else message.finish,
        "usage": (USAGE.prompt, USAGE.cached, USAGE.completion, USAGE.reasoning),
    }


def check(
    sdk: Answering, protocol: str, call: Any, text: str, cut: int = 5, reason: Any = None
) -> None:
    """An SDK rebuilds from the frames exactly what is in the text; so does the whole response."""
    module = PROTOCOLS[protocol]
    events = events_of(call, text, cut, reason)
    message = dsv4.assemble(events)
    out = written(protocol, call, events, reason)
    frames = framed(protocol, call, events, reason)
    assert frames == module.frames(out)
    built = getattr(sdk, protocol)(frames)
    ids = [e.id for e in events if isinstance(e, dsv4.ToolCallStart)]
    complete = [c.id for c in message.tool_calls]
    assert set(complete) <= set(ids)
    assert seen(protocol, built) == expected(protocol, message, complete)
    whole = module.whole(call, events, usage=USAGE, reason=reason, id="id_1", created=5)
    data = json.dumps(whole)
    assert seen(protocol, WHOLE[protocol].validate_json(data, strict=True)) == seen(protocol, built)
    assert whole == module.fold(out)


@EVERY
@each_row("case", [pytest.param(case, id=case["id"]) for case in part(corpus(), 9)])
def test_the_sdks_rebuild_what_is_in_a_completion(sdk: Answering, protocol: str, case: Any) -> None:
    thinking = case["start"] == "reasoning"
    choice = case["tool_choice"] if case["tool_choice"] != "auto" else None
    if choice is not None and protocol == "messages":
        choice = {"type": choice}
    call = asked(protocol, declared(**case["tools"]), thinking=thinking, tool_choice=choice)
    check(sdk, protocol, call, case["text"], cut=20)


values = st.text(max_size=8) | st.sampled_from(["\u2028", "é\n", '"', "\\", "</div>", "\x85"])
calls = st.lists(
    st.builds(lambda c, t: calling("bash", command=c, timeout=t), values, st.integers()), max_size=3
)
turns = st.builds(
    lambda think, content, calls: (
        think + "</think>" + content + (block(*calls) + EOS if calls else EOS)
    ),
    values,
    values,
    calls,
)


@EVERY
@settings(max_examples=fewer(200, 10))
@given(
    text=turns,
    cut=st.integers(1, 9),
    end=st.integers(0, 400),
    reason=st.sampled_from([None, "stop", "length"]),
)
def test_any_turn_cut_anywhere(
    sdk: Answering, protocol: str, text: str, cut: int, end: int, reason: Any
) -> None:
    # An EOS says more than the engine does.
    check(sdk, protocol, asked(protocol), text[:end], cut, None if EOS in text[:end] else reason)


# Sequences.


def kinds(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]


TEXT = f"Hm.</think>Yes.{block(calling('bash', command='MARK'), calling('ping'))}{EOS}"


def opened(name: str) -> dict[str, Any]:
    """A call at its beginning."""
    return {"type": "function", "function": {"name": name, "arguments": ""}}


def test_the_chunks_of_a_completion() -> None:
    call = asked("chat", stream_options={"include_usage": True})
    out = written("chat", call, events_of(call, TEXT, cut=1000))
    deltas = [chunk["choices"][0]["delta"] for chunk in out[:-1]]
    ids = [
        d["tool_calls"][0]["id"] for d in deltas if "tool_calls" in d and "id" in d["tool_calls"][0]
    ]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Hm."},
        {"content": "Yes."},
        {"tool_calls": [{"index": 0, "id": ids[0], **opened("bash")}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"command": "MARK"}'}}]},
        {"tool_calls": [{"index": 1, "id": ids[1], **opened("ping")}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in out[:-1]] == [None] * 7 + [
        "tool_calls"
    ]
    assert out[-1]["choices"] == []
    assert out[-1]["usage"] == out[-2]["usage"]
    assert out[-1]["usage"]["prompt_cache_miss_tokens"] == 40
    from dsv4.api import chat

    assert chat.frames(out).endswith(b"\n\ndata: [DONE]\n\n")
    assert chat.frames(out).count(b"[DONE]") == 1


def test_usage_is_in_the_last_chunk_unasked() -> None:
    call = asked("chat")
    out = written("chat", call, events_of(call, "Hm.</think>Yes."))
    assert out[-1]["choices"][0]["finish_reason"] == "stop"
    assert out[-1]["usage"]["total_tokens"] == 120


def test_the_events_of_a_response() -> None:
    call = asked("responses")
    out = written("responses", call, events_of(call, TEXT, cut=1000))
    text = ["content_part.added", "{}.delta", "{}.done", "content_part.done", "output_item.done"]

    def item(name: str) -> list[str]:
        return ["response.output_item.added", *(f"response.{t.format(name)}" for t in text)]

    arguments = [
        "output_item.added",
        *(f"function_call_arguments.{d}" for d in ("delta", "done")),
        "output_item.done",
    ]
    called = [f"response.{name}" for name in arguments]
    assert kinds(out) == [
        "response.created",
        "response.in_progress",
        *item("reasoning_text"),
        *item("output_text"),
        *called,
        *called,
        "response.completed",
    ]
    assert [event["sequence_number"] for event in out] == list(range(len(out)))
    done = [event["item"] for event in out if event["type"] == "response.output_item.done"]
    assert out[-1]["response"]["output"] == done
    assert all(item["id"] and item["status"] == "completed" for item in done)
    assert done[0]["encrypted_content"].startswith("dsv4.2.")
    assert [e["output_index"] for e in out if e["type"] == "response.output_item.added"] == [
        0,
        1,
        2,
        3,
    ]
    from dsv4.api import responses

    assert b"[DONE]" not in responses.frames(out)


def test_the_events_of_a_message() -> None:
    call = asked("messages")
    out = written("messages", call, events_of(call, TEXT, cut=1000))
    block_events = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds(out) == [
        "message_start",
        *(
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
        ),
        *block_events * 3,
        "message_delta",
        "message_stop",
    ]
    assert out[0]["message"]["usage"]["input_tokens"] == 40
    assert [e["index"] for e in out if e["type"] == "content_block_start"] == [0, 1, 2, 3]
    assert out[3]["delta"]["type"] == "signature_delta"
    assert out[3]["delta"]["signature"].startswith("dsv4.1.")
    assert all(
        e["content_block"]["id"].startswith("toolu_")
        for e in out
        if e.get("content_block", {}).get("type") == "tool_use"
    )
    assert out[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


@EVERY
def test_no_block_for_what_is_not_there(protocol: str) -> None:
    call = asked(protocol)
    whole = PROTOCOLS[protocol].whole(call, events_of(call, f"</think>{EOS}"))
    if protocol == "messages":
        assert whole["content"] == []
    elif protocol == "responses":
        assert whole["output"] == []
    else:
        assert whole["choices"][0]["message"] == {"role": "assistant", "content": ""}


@EVERY
def test_ids_of_calls(protocol: str) -> None:
    call = asked(protocol)
    events = events_of(call, TEXT)
    prefix = "toolu_" if protocol == "messages" else "call_"
    whole = PROTOCOLS[protocol].whole(call, events)
    found = (
        seen(protocol, WHOLE[protocol].validate_python(whole))["calls"]
        if protocol != "responses"
        else [(item["call_id"],) for item in whole["output"] if item["type"] == "function_call"]
    )
    ids = [id for id, *_ in found]
    assert len(set(ids)) == 2
    assert all(
        id.startswith(prefix) and len(id) == len(prefix) + 24 and id[len(prefix) :].isalnum()
        for id in ids
    )


@each_row("number", ["1e999", "-1e999", "1" * 5000])
def test_a_number_that_is_too_large_stays_text_where_input_is_an_object(number: str) -> None:
    call = asked("messages")
    text = f"Hm.</think>{block(calling('ping', n=7).replace('>7<', f'>{number}<'))}"
    whole = PROTOCOLS["messages"].whole(call, events_of(call, text))
    assert whole["content"][-1]["input"] == {"n": number}
    json.dumps(whole, allow_nan=False)


# Ends.

CUT = TEXT[: TEXT.index("MARK") + 4]


@EVERY
@each_row("text", [CUT, f"Hm.</think>Yes.{block(calling('ping'))[:-25]}", "Hm"])
def test_half_a_call_is_never_sent(protocol: str, text: str) -> None:
    for mode in ("streamed", "whole"):
        call = asked(protocol)
        parser = call.request.parser(calls=mode)
        out = written(protocol, call, [*parser.feed(text), *parser.finish()])
        assert "MARK" not in json.dumps(out[:-1])
        if text is CUT:
            assert '"bash"' not in json.dumps(out[3:-1])


def test_a_cut_call_is_an_incomplete_item_of_the_response() -> None:
    call = asked("responses")
    last = written("responses", call, events_of(call, CUT))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    item = last["response"]["output"][-1]
    assert (item["type"], item["status"]) == ("function_call", "incomplete")
    assert json.loads(item["arguments"]) == {"command": "MARK"}


@EVERY
def test_complete_calls_count_more_than_a_cut(protocol: str) -> None:
    text = TEXT[: TEXT.index('invoke name="ping"')]
    call = asked(protocol)
    events = events_of(call, text, reason="length")
    whole = PROTOCOLS[protocol].whole(call, events, reason="length", usage=USAGE)
    result = seen(protocol, WHOLE[protocol].validate_json(json.dumps(whole), strict=True))
    assert result["finish"] == "tool_calls"
    assert [name for _, name, _ in result["calls"]] == ["bash"]
    if protocol == "responses":
        assert [item["status"] for item in whole["output"]] == ["completed"] * 3


@EVERY
@each_row(
    "text, reason, finish",
    [
        ("Hm.</think>Yes.", None, "stop"),
        ("Hm.</think>Yes.", "stop", "stop"),
        ("Hm.</think>Yes.", "length", "length"),
        ("Hm.</think>Yes.", "content_filter", "content_filter"),
        ("Hm.", None, "length"),
        (f"Hm.</think>Yes.{EOS}", "abort", "stop"),
        ("Hm.</think>Yes.", "eos", "stop"),
        ("Hm.</think>Yes.", "max_tokens", "length"),
        ("Hm.</think>Yes.", "model_length", "length"),
        ("Hm.</think>Yes.", "refusal", "content_filter"),
        (TEXT, "length", "tool_calls"),
    ],
)
def test_why_it_ended(protocol: str, text: str, reason: Any, finish: str) -> None:
    call = asked(protocol)
    known = reason if reason in ("stop", "length") else None
    whole = PROTOCOLS[protocol].whole(
        call, events_of(call, text, reason=known), reason=reason, usage=USAGE
    )
    data = WHOLE[protocol].validate_json(json.dumps(whole), strict=True)
    assert seen(protocol, data)["finish"] == finish


def test_a_stop_string_is_named_in_messages() -> None:
    call = asked("messages", stop_sequences=["STOP"])
    out = written("messages", call, events_of(call, "Hm.</think>Yes STOP no"))
    assert out[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "STOP"}
    call = asked("chat", stop="STOP")
    whole = PROTOCOLS["chat"].whole(call, events_of(call, "Hm.</think>Yes STOP no"))
    assert whole["choices"][0]["message"]["content"] == "Yes "
    assert whole["choices"][0]["finish_reason"] == "stop"


@EVERY
def test_one_call_is_enough_where_one_was_wanted(protocol: str) -> None:
    fields: dict[str, Any] = {"parallel_tool_calls": False}
    if protocol == "messages":
        fields = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    call = asked(protocol, **fields)
    events = events_of(call, TEXT + "More.")
    whole = PROTOCOLS[protocol].whole(call, events, usage=USAGE)
    result = seen(protocol, WHOLE[protocol].validate_json(json.dumps(whole), strict=True))
    assert [name for _, name, _ in result["calls"]] == ["bash"]
    assert result["content"] == "Yes."
    writer = PROTOCOLS[protocol].Writer(call)
    done = [(writer.write(event), writer.done)[1] for event in events]
    assert done.index(True) == [type(e).__name__ for e in events].index("ToolCallEnd")
    assert framed(protocol, call, events) == PROTOCOLS[protocol].frames(
        written(protocol, call, events)
    )


# Settings, and what else a server may want.


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("reasoning_content", {"reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("both", {"reasoning_content", "reasoning"}),
    ],
)
def test_the_name_of_reasoning_in_chat(field: Any, names: set[str]) -> None:
    call = asked("chat", settings=Settings(reasoning_field=field))
    events = events_of(call, "Hm.</think>Yes.")
    message = PROTOCOLS["chat"].whole(call, events)["choices"][0]["message"]
    assert {name: message[name] for name in names} == dict.fromkeys(names, "Hm.")
    assert len(message) == 2 + len(names)
    assert framed("chat", call, events) == PROTOCOLS["chat"].frames(written("chat", call, events))


@EVERY
def test_calls_can_be_streamed(sdk: Answering, protocol: str) -> None:
    call = asked(protocol, settings=Settings(calls="streamed"))
    text = f"Hm.</think>Yes.{block(calling('bash', command='x' * 50))}{EOS}"
    check(sdk, protocol, call, text)
    frames = framed(protocol, call, events_of(call, text))
    assert frames.count(b"xxxxx") > 5
    assert b"x" * 20 not in frames or protocol == "responses"
    calls = block(
        calling("bash", command='“\u2028" \\ \n'), calling("bash", command="é", timeout=5)
    )
    check(sdk, protocol, call, f"Hm.</think>{calls}{EOS}", cut=3)


def test_several_choices() -> None:
    from dsv4.api import chat

    call = asked("chat", n=2)
    events = [events_of(call, "A</think>one"), events_of(call, TEXT)]
    whole = chat.whole(call, events, usage=USAGE)
    WHOLE["chat"].validate_json(json.dumps(whole), strict=True)
    assert [c["message"]["content"] for c in whole["choices"]] == ["one", "Yes."]
    assert [c["finish_reason"] for c in whole["choices"]] == ["stop", "tool_calls"]
    writer = chat.Writer(call)
    assert [chunk["choices"][0]["index"] for chunk in writer.start()] == [0, 1]
    assert writer.write(dsv4.ContentDelta("x"), choice=1)[0]["choices"][0]["index"] == 1
    assert b'"index":1' in writer.frames([dsv4.ContentDelta("x")], choice=1)
    finish = writer.finish(usage=USAGE, reason=["length", "stop"])
    assert [chunk["choices"][0]["finish_reason"] for chunk in finish] == ["length", "stop"]
    assert "usage" not in finish[0]


LOGPROBS = [
    {
        "token": "Yé",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "No", "logprob": -1.5, "bytes": [78, 111]}],
    }
]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_logprobs(protocol: str) -> None:
    fields: dict[str, Any] = {"logprobs": True, "top_logprobs": 1}
    if protocol == "responses":
        fields = {"include": ["message.output_text.logprobs"]}
    module = PROTOCOLS[protocol]
    call = asked(protocol, thinking=False, **fields)
    writer = module.Writer(call, id="x", created=1)
    out = [
        *writer.start(),
        *writer.write(dsv4.ContentDelta("Yé"), logprobs=LOGPROBS),
        *writer.finish(usage=USAGE),
    ]
    for event in out:
        EVENTS[protocol].validate_json(json.dumps(event), strict=True)
    whole = module.fold(out)
    WHOLE[protocol].validate_json(json.dumps(whole), strict=True)
    if protocol == "chat":
        assert whole["choices"][0]["logprobs"]["content"] == LOGPROBS
    else:
        top = [{"token": "No", "logprob": -1.5, "bytes": [78, 111]}]
        assert whole["output"][0]["content"][0]["logprobs"] == [
            {"token": "Yé", "logprob": -0.5, "bytes": list("Yé".encode()), "top_logprobs": top}
        ]
        [delta] = [event for event in out if event["type"] == "response.output_text.delta"]
        top = [{"token": "No", "logprob": -1.5}]
        assert delta["logprobs"] == [{"token": "Yé", "logprob": -0.5, "top_logprobs": top}]
    other = module.Writer(call, id="x", created=1)
    frames = module.frames(other.start()) + other.frames(
        [dsv4.ContentDelta("Yé")], logprobs=LOGPROBS
    )
    assert frames + module.frames(other.finish(usage=USAGE)) == module.frames(out)
    unasked = asked(protocol, thinking=False)
    assert "-0.5" not in json.dumps(
        module.Writer(unasked).write(dsv4.ContentDelta("Yé"), logprobs=LOGPROBS)
    )


def test_what_comes_back_with_reasoning_can_be_given() -> None:
    for protocol in ("responses", "messages"):
        call = asked(protocol)
        numbers = count()
        writer = PROTOCOLS[protocol].Writer(
            call, seal=lambda numbers=numbers: f"sealed {next(numbers)}"
        )
        out = [e for event in events_of(call, "Hm.</think>Yes.") for e in writer.write(event)]
        assert json.dumps(out).count("sealed 0") == 1


def test_reasoning_comes_back_from_what_was_written() -> None:
    call = asked("responses")
    whole = PROTOCOLS["responses"].whole(call, events_of(call, TEXT))
    items = [{"role": "user", "content": "Hi"}, *whole["output"]]
    items += [
        {"type": "function_call_output", "call_id": i["call_id"], "output": "ok"}
        for i in items
        if i.get("type") == "function_call"
    ]
    bare = [
        {k: v for k, v in item.items() if k != "content"}
        if item.get("type") == "reasoning"
        else item
        for item in items
    ]
    prompts = [
        str(
            PROTOCOLS["responses"]
            .read({"input": i, "tools": tools_in("responses", TOOLS)})
            .request.encode()
        )
        for i in (items, bare)
    ]
    assert prompts[0] == prompts[1]
    assert "<think>Hm.</think>Yes." in prompts[0]


@pytest.mark.parametrize("dialect", ["v4", "v4.1"])
def test_names_go_back_through_the_declared_tools(dialect: str) -> None:
    space = {
        "type": "namespace",
        "name": "a",
        "tools": [{"type": "function", "name": "b__c"}, {"type": "custom", "name": "d"}],
    }
    flat = {"type": "function", "name": "x__y"}
    call = PROTOCOLS["responses"].read(body("responses", tools=[space, flat]), dialect=dialect)
    tags = dsv4.DIALECTS[dialect].tags
    between = "__" if dialect == "v4" else "::"
    closing = f"{tags.parameter_close}\n{tags.invoke_close[1:]}\n"
    made = "".join(
        f'{tags.invoke_open}{name}">\n{tags.parameter_open}input" string="true">\n{{"z{closing}'
        for name in (f"a{between}b__c", f"a{between}d", "x__y", "u__v")
    )
    text = f"</think>{tags.block_open}{made}{tags.block_close[1:]}"
    whole = PROTOCOLS["responses"].whole(call, events_of(call, text))
    named = [(item["type"], item.get("namespace"), item["name"]) for item in whole["output"]]
    assert named == [
        ("function_call", "a", "b__c"),
        ("custom_tool_call", "a", "d"),
        ("function_call", None, "x__y"),
        ("function_call", None, "u__v"),
    ]
    assert whole["output"][1]["input"] == '\n{"z'
    WHOLE["responses"].validate_json(json.dumps(whole), strict=True)


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_the_text_of_a_custom_tool_is_raw(mode: Any) -> None:
    tool = {"type": "custom", "name": "patch"}
    request = body("responses", tools=[tool])
    call = PROTOCOLS["responses"].read(request, settings=Settings(calls=mode))
    given = '*** "quoted" \\ \n\té\u2028\x01'
    for arguments in ({"input": given}, {"input": given, "more": "x"}, {"other": "x"}, {}):
        events = events_of(call, f"</think>{block(calling('patch', **arguments))}{EOS}", cut=3)
        out = written("responses", call, events)
        deltas = [e["delta"] for e in out if e["type"] == "response.custom_tool_call_input.delta"]
        done = next(e for e in out if e["type"] == "response.custom_tool_call_input.done")
        item = out[-1]["response"]["output"][0]
        assert "".join(deltas) == done["input"] == item["input"]
        if arguments == {"input": given}:
            assert item["input"] == given
            assert (len(deltas) > 3) == (mode == "streamed")
        assert framed("responses", call, events) == PROTOCOLS["responses"].frames(out)


# Keep-alives, failures and frames.


def test_keep_alive() -> None:
    from dsv4.api import chat, messages, responses

    assert chat.frames(chat.Writer(asked("chat")).keep_alive()) == b": keep-alive\n\n"
    assert messages.Writer(asked("messages")).keep_alive() == [{"type": "ping"}]
    writer = responses.Writer(asked("responses"))
    _, second, again = [*writer.start(), *writer.keep_alive()]
    assert (again["type"], again["sequence_number"]) == ("response.in_progress", 2)
    assert again["response"] == second["response"]
    assert writer.write(dsv4.ContentDelta("x"))[0]["sequence_number"] == 3


@EVERY
def test_a_failure_in_a_stream(protocol: str) -> None:
    call = asked(protocol)
    writer = PROTOCOLS[protocol].Writer(call)
    out = [
        *writer.start(),
        *writer.write(dsv4.ContentDelta("x")),
        *writer.fail(RuntimeError("secret")),
    ]
    assert "secret" not in json.dumps(out)
    if protocol == "responses":
        EVENTS[protocol].validate_json(json.dumps(out[-1]), strict=True)
        assert out[-1]["type"] == "response.failed"
        assert out[-1]["response"]["error"]["code"] == "server_error"
        assert out[-1]["sequence_number"] == len(out) - 1
    elif protocol == "messages":
        assert out[-1]["type"] == "error"
        assert out[-1]["error"]["type"] == "api_error"
    else:
        assert set(out[-1]) == {"error"}
    assert b"[DONE]" not in PROTOCOLS[protocol].frames(out)


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "rate_limit_exceeded"), (503, "server_error"), (400, "invalid_prompt")],
)
def test_codes_of_failed_responses(status: int, code: str) -> None:
    (event,) = PROTOCOLS["responses"].Writer(asked("responses")).fail(ApiError("x", status=status))
    assert event["response"]["error"]["code"] == code
    EVENTS["responses"].validate_json(json.dumps(event), strict=True)


def test_an_overflow_is_said_in_the_words_that_clients_know() -> None:
    overflow = ContextOverflow(150_000, 131_072)
    status, chat = PROTOCOLS["chat"].error(overflow)
    assert status == 400
    assert "maximum context length is 131072 tokens" in chat["error"]["message"]
    assert "150000" in chat["error"]["message"]
    assert chat["error"]["code"] == "context_length_exceeded"
    _, message = PROTOCOLS["messages"].error(overflow)
    assert message["error"]["message"] == "prompt is too long: 150000 tokens > 131072 maximum"
    # The one code that the SDK's type does not know and a client acts on.
    (event,) = PROTOCOLS["responses"].Writer(asked("responses")).fail(overflow)
    assert event["response"]["error"]["code"] == "context_length_exceeded"


@EVERY
@each_row(
    "status, kind",
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_have_each_protocols_shape(protocol: str, status: int, kind: str) -> None:
    found, answer = PROTOCOLS[protocol].error(ApiError("bad", status=status, path="a.b"))
    assert found == status
    if protocol == "messages":
        assert answer == {"type": "error", "error": {"type": kind, "message": "a.b: bad"}}
    else:
        assert answer == {
            "error": {"message": "a.b: bad", "type": kind, "param": "a.b", "code": None}
        }


@EVERY
def test_an_error_of_the_encoder_is_the_clients(protocol: str) -> None:
    status, answer = PROTOCOLS[protocol].error(dsv4.EncodeError("messages[0].content", "found 5"))
    assert status == 400
    assert "messages[0].content" in answer["error"]["message"]


@EVERY
@given(text=st.text(max_size=20))
def test_frames_are_lines_of_utf8(protocol: str, text: str) -> None:
    module = PROTOCOLS[protocol]
    writer = module.Writer(asked(protocol), id="x", created=1)
    other = module.Writer(asked(protocol), id="x", created=1)
    events = [dsv4.ContentDelta(text + end) for end in ("!", "\ud83d", "?")]
    frames = b"".join(writer.frames([event]) for event in events)
    assert frames == module.frames([e for event in events for e in other.write(event)])
    lines = frames.decode("utf-8").splitlines()
    assert all(line == "" or line.startswith(("data: {", "event: ")) for line in lines)


@EVERY
def test_the_cost_of_a_chunk_does_not_grow(protocol: str) -> None:
    """Nothing that a delta makes is longer after a long stream than before it."""
    writer = PROTOCOLS[protocol].Writer(asked(protocol), id="x", created=1)
    writer.frames([dsv4.ContentDelta("start")])
    first = len(writer.frames([dsv4.ContentDelta("abcd")]))
    for _ in range(1000):
        writer.frames([dsv4.ContentDelta("abcd")])
    assert len(writer.frames([dsv4.ContentDelta("abcd")])) - first <= 4  # digits of a number


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_said_of_a_cache_that_nobody_knows(protocol: str) -> None:
    """A zero would say that nothing was cached. Responses requires a number."""
    fields = PROTOCOLS[protocol].usage_fields(Usage(prompt=100, completion=20))
    known = PROTOCOLS[protocol].usage_fields(Usage(prompt=100, cached=0, completion=20))
    if protocol == "chat":
        gone = {"prompt_tokens_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens"}
        assert known.keys() - fields.keys() == gone
    elif protocol == "messages":
        assert fields == known | {"cache_read_input_tokens": None}
    else:
        assert fields == known


def test_the_items_and_the_usage_of_a_response() -> None:
    tools = [{"type": "custom", "name": "run"}, {"type": "function", "name": "ping"}]
    call = PROTOCOLS["responses"].read(body("responses", tools=tools))
    events = [
        *(dsv4.ToolCallStart(0, "run", "call_1"), dsv4.ArgumentsDelta(0, '{"input": "x"}')),
        *(dsv4.ToolCallEnd(0), dsv4.ToolCallStart(1, "ping", "call_2")),
        *(dsv4.ArgumentsDelta(1, "{}"), dsv4.ToolCallEnd(1), dsv4.End("tool_calls")),
    ]
    whole = PROTOCOLS["responses"].whole(call, events, usage=USAGE)
    assert [(item["type"], item["id"]) for item in whole["output"]] == [
        ("custom_tool_call", "ctc_1"),
        ("function_call", "fc_2"),
    ]
    assert whole["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }


NOTHING = dict.fromkeys(("content", "reasoning_content", "refusal", "tool_calls", "function_call"))
NO_PIECE = dict.fromkeys(("id", "type", "function"))


def test_what_is_null_or_left_out_in_a_chunk_of_chat_adds_nothing() -> None:
    call, fold = asked("chat"), PROTOCOLS["chat"].fold
    out = written("chat", call, events_of(call, TEXT, 3))
    assert len(out) > 8
    spelled = json.loads(json.dumps(out))
    for event in spelled:
        event.setdefault("usage", None)
        for choice in event["choices"]:
            pieces = choice["delta"].get("tool_calls") or []
            choice["delta"] = {**NOTHING, **choice["delta"]}
            for piece in pieces:
                piece["function"] = {"name": None, "arguments": None, **piece["function"]}
                piece.update({**NO_PIECE, **piece})
            for name in ("logprobs", "finish_reason"):
                if choice[name] is None:
                    del choice[name]
    empty = {**spelled[0], "choices": [{"index": 0, "delta": None}]}
    first = next(n for n, event in enumerate(spelled) if event["choices"][0]["delta"]["tool_calls"])
    opening = json.loads(json.dumps(spelled[first]))  # the same call, of which only the id is known
    opening["choices"][0]["delta"]["tool_calls"][0]["function"] = None
    for ends in ([], [empty], [{**spelled[0], "choices": None}]):
        assert fold([*spelled[:first], opening, *spelled[first:], *ends]) == fold(out)
