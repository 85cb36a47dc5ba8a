"""A chat server whose answers leak, made right in every protocol; what was right stays so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from gateway import TOOLS, Gateway, gateway_before, run
from standins import ChatServer

from dsv4._completion.events import ContentDelta, ReasoningDelta
from dsv4._completion.message import Message, assemble
from dsv4._format.tokens import DSML, THINK_END, THINK_START
from dsv4.api import chat
from dsv4.serve.backend import BackendError, Chunk
from dsv4.serve.heal.chat_delta import MessageSoFar
from dsv4.serve.heal.healing_reader import HealingReader
from dsv4.serve.heal.upstream_habits import UpstreamHabits
from dsv4.tokens import Tokenizer

MARKUP = (
    f'<{DSML}tool_calls>\n<{DSML}invoke name="bash">\n'
    f'<{DSML}parameter name="command" string="true">echo hi</{DSML}parameter>\n'
    f"</{DSML}invoke>\n</{DSML}tool_calls>"
)
USAGE = {
    "prompt_tokens": 41,
    "completion_tokens": 17,
    "total_tokens": 58,
    "prompt_tokens_details": {"cached_tokens": 32},
    "completion_tokens_details": {"reasoning_tokens": 9},
}
USER = {"role": "user", "content": "Hi"}
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
streamed_or_whole = pytest.mark.parametrize("stream", [True, False])


def answer(*deltas: dict[str, Any], finish: str = "stop") -> str:
    """The upstream's answer: chunks of these deltas."""
    head = {"id": "chatcmpl-upstream", "object": "chat.completion.chunk", "model": "leaky"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [{**head, "choices": [choice]} for choice in choices]
    return json.dumps([*chunks, {**head, "choices": [], "usage": USAGE}])


def in_pieces(field: str, text: str, size: int) -> list[dict[str, Any]]:
    return [{field: text[n : n + size]} for n in range(0, len(text), size)]


def body_for(path: str, **more: Any) -> dict[str, Any]:
    function = TOOLS[0]["function"]
    said = [{"role": "user", "content": "Hi"}]
    if path == "/v1/messages":
        tools: Any = [{"name": "bash", "input_schema": function["parameters"]}]
        return {"messages": said, "tools": tools, "max_tokens": 500, **more}
    if path == "/v1/responses":
        return {"input": "Hi", "tools": [{"type": "function", **function}], **more}
    return {"messages": said, "tools": TOOLS, **more}


class Told(NamedTuple):
    """What a client is told, in one form for all protocols; and by which, and how, to say it where
    it is wrong."""

    path: str
    stream: bool
    reasoning: str
    content: str
    calls: list[tuple[str, str]]
    ids: list[str]
    finish: str


def told(
    completion: str, tokenizer: Tokenizer, streamed: Sequence[bool] = (True, False)
) -> list[Told]:
    """What clients of each protocol are told, streamed and whole."""

    async def scenario() -> list[Told]:
        upstream = ChatServer(tokenizer, completion)
        async with gateway_before(upstream.running()) as g:
            return [await asked(g, path, stream) for path in PATHS for stream in streamed]

    found: list[Told] = run(scenario())
    return found


async def asked(g: Gateway, path: str, stream: bool) -> Told:
    if stream:
        return Told(path, stream, **folded(path, await g.stream(path, body_for(path))))
    return Told(path, stream, **whole(path, (await g.post(path, body_for(path)))[2]))


def whole(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    if path == "/v1/chat/completions":
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls", [])
        return {
            "reasoning": message.get("reasoning_content", ""),
            "content": message["content"] or "",
            "calls": [(c["function"]["name"], c["function"]["arguments"]) for c in calls],
            "ids": [c["id"] for c in calls],
            "finish": answer["choices"][0]["finish_reason"],
        }
    if path == "/v1/messages":
        blocks = answer["content"]
        calls = [b for b in blocks if b["type"] == "tool_use"]
        return {
            "reasoning": "".join(b["thinking"] for b in blocks if b["type"] == "thinking"),
            "content": "".join(b["text"] for b in blocks if b["type"] == "text"),
            "calls": [(b["name"], json.dumps(b["input"])) for b in calls],
            "ids": [b["id"] for b in calls],
            "finish": answer["stop_reason"],
        }
    items = answer["output"]
    calls = [i for i in items if i["type"] == "function_call"]
    return {
        "reasoning": "".join(i["content"][0]["text"] for i in items if i["type"] == "reasoning"),
        "content": "".join(i["content"][0]["text"] for i in items if i["type"] == "message"),
        "calls": [(i["name"], i["arguments"]) for i in calls],
        "ids": [i["call_id"] for i in calls],
        "finish": answer["status"],
    }


def folded(path: str, events: list[Any]) -> dict[str, Any]:
    from dsv4.api.chat import fold as fold_chat
    from dsv4.api.messages import fold as fold_messages
    from dsv4.api.responses import fold as fold_responses

    folds = dict(zip(PATHS, (fold_chat, fold_messages, fold_responses), strict=True))
    return whole(path, folds[path]([e for e in events if e != "[DONE]" and e != {"type": "ping"}]))


FINISHED = {
    "/v1/chat/completions": ("stop", "tool_calls"),
    "/v1/messages": ("end_turn", "tool_use"),
    "/v1/responses": ("completed", "completed"),
}
LEAKS = {
    "markup in the content": ({"reasoning_content": "Hm."}, {"content": f"I do.\n\n{MARKUP}"}),
    "markup in the content, in pieces": (
        {"reasoning_content": "Hm."},
        *in_pieces("content", f"I do.\n\n{MARKUP}", 3),
    ),
    "markup in the reasoning": ({"reasoning_content": f"Hm.\n\n{MARKUP}"}, {"content": ""}),
    "markup in the reasoning, in pieces": (*in_pieces("reasoning", f"Hm.\n\n{MARKUP}", 5),),
    "markup beside an empty call": (
        {"reasoning_content": "Hm.", "content": "I do.\n\n"},
        *in_pieces("content", MARKUP, 7),
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "", "arguments": ""}}]},
    ),
    "everything in the reasoning": ({"reasoning_content": f"Hm.{THINK_END}I do.\n\n{MARKUP}"},),
    "everything in the content, with both tags": (
        *in_pieces("content", f"{THINK_START}Hm.{THINK_END}I do.\n\n{MARKUP}", 4),
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_markup_that_leaked_becomes_a_call(leak: str, tokenizer: Tokenizer) -> None:
    content = "" if leak.startswith("markup in the reasoning") else "I do."
    for found in told(answer(*LEAKS[leak]), tokenizer):
        assert found.reasoning == "Hm.", found
        assert found.content == content, found
        assert found.calls == [("bash", '{"command": "echo hi"}')], found
        assert found.finish == FINISHED[found.path][1], found


def test_a_tag_that_leaked_is_not_shown(tokenizer: Tokenizer) -> None:
    deltas = ({"reasoning_content": "Hm."}, {"content": f"{THINK_END}Yes,"}, {"content": " it is."})
    for found in told(answer(*deltas), tokenizer):
        assert (found.reasoning, found.content) == ("Hm.", "Yes, it is."), found
        assert found.finish == FINISHED[found.path][0], found


def test_what_the_upstream_got_right_passes_unchanged(tokenizer: Tokenizer) -> None:
    calls = [
        {"tool_calls": [{"index": n, "id": f"id-{n}", "type": "function", "function": function}]}
        for n, function in enumerate(
            ({"name": "bash", "arguments": ""}, {"name": "other", "arguments": '{"a":  [1, 2]}'})
        )
    ]
    rest = {"tool_calls": [{"index": 0, "function": {"arguments": '{"command":"ls <b> </b>"}'}}]}
    deltas = ({"reasoning_content": "\nHm <i>.  "}, {"content": "Both: a < b,\n\n - x"}, *calls)
    for found in told(answer(*deltas, rest, finish="tool_calls"), tokenizer):
        text = found.reasoning, found.content
        assert text == ("\nHm <i>.  ", "Both: a < b,\n\n - x"), found
        assert found.ids == ["id-0", "id-1"], found
        assert [(name, json.loads(arguments)) for name, arguments in found.calls] == [
            ("bash", {"command": "ls <b> </b>"}),
            ("other", {"a": [1, 2]}),
        ], found
        if found.path != "/v1/messages":  # which has objects, not texts
            assert found.calls[1][1] == '{"a":  [1, 2]}', found
        assert found.finish == FINISHED[found.path][1], found


def test_ids_and_usage_are_the_upstreams(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"content": "Hi."}))
        async with gateway_before(upstream.running()) as g:
            _, _, body = await g.post(PATHS[0], body_for(PATHS[0]))
            assert body["id"] == "chatcmpl-upstream"
            assert body["usage"].items() >= USAGE.items()
            chunks = await g.stream(PATHS[0], body_for(PATHS[0]))
            assert {chunk["id"] for chunk in chunks[:-1]} == {"chatcmpl-upstream"}
            assert chunks[-2]["usage"].items() >= USAGE.items()
            _, _, body = await g.post(PATHS[1], body_for(PATHS[1]))
            assert body["usage"]["input_tokens"] == 41 - 32
            assert body["usage"]["output_tokens"] == 17

    run(scenario())


def test_a_cut_passes_as_a_cut_and_half_a_call_does_not_pass(tokenizer: Tokenizer) -> None:
    function = {"name": "bash", "arguments": '{"command": "rm -rf /ho'}
    cut = {"tool_calls": [{"index": 0, "id": "id-0", "type": "function", "function": function}]}
    for deltas in (
        ({"content": "So"}, cut),
        ({"content": f"So\n\n{MARKUP[: MARKUP.index('hi')]}"},),
    ):
        for found in told(answer(*deltas, finish="length"), tokenizer, [True]):
            assert found.content == "So", found
            assert found.finish in ("length", "max_tokens", "incomplete"), found
            if found.path != "/v1/responses":  # which has items that are not complete
                assert found.calls == [], found


OBJECT = '{"command": "ls"}'
UPSTREAM_ARGUMENTS = {
    OBJECT: OBJECT,
    "": "{}",
    "null": "{}",
    json.dumps(OBJECT): OBJECT,
}


@pytest.mark.parametrize("written", UPSTREAM_ARGUMENTS)
def test_a_call_passes_if_its_arguments_are_an_object(written: str, tokenizer: Tokenizer) -> None:
    function = {"name": "bash", "arguments": written}
    made = {"tool_calls": [{"index": 0, "id": "id-0", "type": "function", "function": function}]}
    expected = UPSTREAM_ARGUMENTS[written]
    for found in told(answer(made, finish="tool_calls"), tokenizer):
        assert found.calls == [("bash", expected)], found
        assert found.finish == FINISHED[found.path][True], found


def test_calls_without_numbers_or_with_objects_are_understood(tokenizer: Tokenizer) -> None:
    deltas = [
        {"id": "a", "function": {"name": "bash", "arguments": '{"command": '}},
        {"index": None, "function": {"arguments": '"ls"}'}},
        {"id": "b", "function": {"name": "bash", "arguments": {"command": "pwd"}}},
    ]
    upstream = answer(*({"tool_calls": [delta]} for delta in deltas), finish="tool_calls")
    calls = [("bash", '{"command": "ls"}'), ("bash", '{"command": "pwd"}')]
    for found in told(upstream, tokenizer, [True]):
        assert found.calls == calls, found


def test_a_refusal_and_a_call_of_old_are_not_lost(tokenizer: Tokenizer) -> None:
    for refused in told(answer({"refusal": "I will not."}), tokenizer):
        assert refused.content == "I will not.", refused
    old = [
        {"function_call": {"name": "bash", "arguments": '{"command": '}},
        {"function_call": {"arguments": '"ls"}'}},
    ]
    for called in told(answer(*old, finish="function_call"), tokenizer):
        assert called.calls == [("bash", '{"command": "ls"}')], called


def test_a_call_that_is_leaked_and_sent_runs_once(tokenizer: Tokenizer) -> None:
    def sent(command: str) -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        return {"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}

    deltas = ({"content": MARKUP}, sent("echo hi"))
    one = ("bash", '{"command": "echo hi"}')
    for twice in told(answer(*deltas, finish="tool_calls"), tokenizer):
        assert twice.calls == [one], twice
    deltas = ({"content": MARKUP}, sent("echo ho"))
    for two in told(answer(*deltas, finish="tool_calls"), tokenizer):
        assert two.calls == [one, ("bash", '{"command": "echo ho"}')], two


@pytest.mark.parametrize("dialect", ["v4", "v4.1"])
@streamed_or_whole
def test_custom_tools_and_namespaces_are_functions_to_the_upstream(
    dialect: str, stream: bool, tokenizer: Tokenizer
) -> None:
    inner = {"type": "function", "name": "close", "description": "Close.", "parameters": {}}
    space = {"type": "namespace", "name": "agents", "description": "Agents.", "tools": [inner]}
    patch = {"type": "custom", "name": "patch", "description": "Patch."}
    history = [
        {"role": "user", "content": "Hi"},
        {
            "type": "function_call",
            "call_id": "c1",
            "namespace": "agents",
            "name": "close",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "closed"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "a\nb"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "patched"},
    ]
    made = [
        {"index": 0, "id": "d1", "function": {"name": "agents__close", "arguments": "{}"}},
        {"index": 1, "id": "d2", "function": {"name": "patch", "arguments": '{"input": "x"}'}},
    ]

    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"tool_calls": made}, finish="tool_calls"))
        async with gateway_before(upstream.running(), dialect=dialect) as g:
            body = {"input": history, "tools": [space, patch]}
            if stream:
                answered = (await g.stream("/v1/responses", body))[-1]["response"]
            else:
                answered = (await g.post("/v1/responses", body))[2]
        first, second = answered["output"][-2:]
        assert (first["namespace"], first["name"], first["call_id"]) == ("agents", "close", "d1")
        assert (second["type"], second["input"]) == ("custom_tool_call", "x")
        (sent,) = upstream.requests
        tools = [tool["function"] for tool in sent["tools"]]
        assert [tool["name"] for tool in tools] == ["agents__close", "patch"]
        assert tools[0]["description"] == "Agents.\nClose."
        assert tools[1]["parameters"]["required"] == ["input"]
        calls = [c["function"] for m in sent["messages"] for c in m.get("tool_calls", ())]
        assert [c["name"] for c in calls] == ["agents__close", "patch"]
        assert json.loads(calls[1]["arguments"]) == {"input": "a\nb"}

    run(scenario())


def test_what_a_filter_ended_does_not_look_whole(tokenizer: Tokenizer) -> None:
    half = {"content": f"So\n\n{MARKUP[: MARKUP.index('hi')]}"}
    for found in told(answer(half, finish="content_filter"), tokenizer):
        assert found.content == "So", found
        assert found.finish in ("content_filter", "refusal", "incomplete"), found


@pytest.mark.parametrize(
    "reason", ["abort", "error", "insufficient_system_resource", "timeout", "cancelled", 5]
)
def test_an_upstream_that_gives_up_has_failed(reason: Any, tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"content": "Half an"}, finish=reason))
        async with gateway_before(upstream.running()) as g:
            for path in PATHS:
                status, _, body = await g.post(path, body_for(path))
                assert status == 502, path
                assert str(reason) in body["error"]["message"], path

    run(scenario())


@pytest.mark.parametrize(
    ("stop", "finish", "calls"),
    [
        (None, "stop", 1),
        ("&&", "stop", 0),  # which may have ended it: the upstream was sent it
        ("&&", "tool_calls", 1),
        (None, "max_tokens", 0),
    ],
)
def test_a_leaked_call_without_its_close_counts_if_the_model_ended_it(
    stop: str | None, finish: str, calls: int, tokenizer: Tokenizer
) -> None:
    async def scenario() -> None:
        half = {"content": MARKUP[: MARKUP.index("hi") + 2]}
        upstream = ChatServer(tokenizer, answer(half, finish=finish))
        async with gateway_before(upstream.running()) as g:
            body = body_for("/v1/chat/completions", stop=stop)
            _, _, found = await g.post("/v1/chat/completions", body)
            assert len(found["choices"][0]["message"].get("tool_calls", ())) == calls

    run(scenario())


def test_an_upstream_that_ends_without_a_word_has_failed(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async def ends(request: Any, number: int) -> Any:
            from aiohttp import web

            data = 'data: {"choices": [{"index": 0, "delta": {"content": "Half an"}}]}\n\n'
            return web.Response(text=data, content_type="text/event-stream")

        upstream = ChatServer(tokenizer, "[]")
        upstream.fault = ends
        async with gateway_before(upstream.running()) as g:
            for path in PATHS:
                status, _, body = await g.post(path, body_for(path))
                assert status == 502, path
                assert "broke off" in body["error"]["message"], path

    run(scenario())


def test_each_choice_is_a_request_of_its_own_for_a_model_that_is_there(
    tokenizer: Tokenizer,
) -> None:
    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"content": "One"}), answer({"content": "Two"}))
        async with gateway_before(upstream.running()) as g:
            _, _, body = await g.post(PATHS[0], body_for(PATHS[0], n=2, model="claude-x"))
            said = sorted(choice["message"]["content"] for choice in body["choices"])
            assert said == ["One", "Two"]
            assert body["model"] == "claude-x"
            assert [sent.get("n") for sent in upstream.requests] == [None, None]
            assert {sent["model"] for sent in upstream.requests} == {"leaky"}

    run(scenario())


def test_an_answer_at_the_end_is_for_the_upstream_to_decide(tokenizer: Tokenizer) -> None:
    """Servers continue it, close it or repeat it, and vLLM has a field of its own for that."""
    ended = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
        ],
        "continue_final_message": True,
    }

    async def scenario() -> None:
        upstream = ChatServer(tokenizer, answer({"content": " there."}))
        async with gateway_before(upstream.running()) as g:
            status, _, body = await g.post(PATHS[0], ended)
            assert (status, body["choices"][0]["message"]["content"]) == (200, " there.")
            (sent,) = upstream.requests
            assert ended.items() <= sent.items()

    run(scenario())


PROSE = """\
Two things: `a < b` holds, and x > y too. See https://example.com/?a=1&b=2 (or <b>bold</b>).

```python
if a < b and c[0] <= d: print("<ok>")  # 100 %
```
- 表 | é 🙂 — done: [link](x), "quoted" ${var} {braces} | pipes || <
"""


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_nothing_is_held_back_that_cannot_be_markup(field: str) -> None:
    """After every delta, all that has come is out, but for what may yet become a tag."""
    call = chat.read({"messages": [USER], "tools": TOOLS, "stream": True})
    reader = HealingReader(call, habits=UpstreamHabits("never"))
    out, held = "", 0
    for n, character in enumerate(PROSE, 1):
        for event in reader.feed(Chunk(delta={field: character})):
            assert isinstance(event, (ContentDelta, ReasoningDelta))
            out += event.text
        waiting = PROSE[len(out) : n]
        assert PROSE.startswith(out)
        # A bracket, or white space that would go if a call came after it.
        assert waiting.lstrip().startswith("<") or not waiting.strip(), waiting
        held += bool(waiting.strip())
    # The brackets themselves, and what stands in them as long as it could be the name of a tag.
    assert held <= 2 * PROSE.count("<") + PROSE.count("/b")


def said(*deltas: dict[str, Any], stream: bool = True) -> Message:
    asked = {"messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    # Nothing is held back: this server's content never begins with reasoning.
    reader = HealingReader(chat.read(asked), habits=UpstreamHabits("never"))
    for delta in deltas:
        reader.feed(Chunk(delta=delta))
    reader.feed(Chunk(finish="stop"))
    reader.end()
    return assemble(reader.events)


TWO_PIECES = ("The file", " is here.")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_all_text_once_more_at_its_end_is_said_once(field: str, stream: bool) -> None:
    """As proxies write that pass on the event of Responses which ends a text."""
    text = "".join(TWO_PIECES)
    deltas = [{field: piece} for piece in (*TWO_PIECES, text)]
    message = said(*deltas, {"content": "Yes."} if field != "content" else {}, stream=stream)
    assert (message.reasoning or message.content) == text


@pytest.mark.parametrize("end", ["\n", "\n\n", " <", "\n```\n"])
def test_it_is_known_though_the_parser_holds_its_end_back(end: str) -> None:
    pieces = (*TWO_PIECES, end)
    deltas = [{"content": piece} for piece in (*pieces, "".join(pieces))]
    assert said(*deltas).content == said(*deltas[:-1]).content


def test_what_a_short_text_repeats_is_said_again() -> None:
    assert said(*({"content": text} for text in ("ha", " ", "ha "))).content == "ha ha "
    lines = [{"content": "The file is here.\n"}] * 2
    assert said(*lines).content == 2 * "The file is here.\n"


def test_text_behind_a_text_that_was_repeated_is_a_failure() -> None:
    """Nobody can know whether the model said it twice."""
    pieces = (*TWO_PIECES, "".join(TWO_PIECES), " So.")
    with pytest.raises(BackendError, match="had said twice"):
        said(*({"content": piece} for piece in pieces))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Hello."] * 3, "Hello."),
        (["Hello", "Hello you", "Hello you."], "Hello you."),
        # The parser holds a line break back, and a bracket.
        (["Hello\n", "Hello\nyou", "Hello\nyou <", "Hello\nyou < me"], "Hello\nyou < me"),
        (["ha", "haha"], "hahaha"),  # as pieces
    ],
)
def test_messages_in_place_of_deltas_may_have_all_so_far(texts: list[str], expected: str) -> None:
    assert said(*(MessageSoFar(content=text) for text in texts)).content == expected


def test_a_server_whose_messages_repeat_the_reasoning_repeats_the_text() -> None:
    messages = [MessageSoFar(reasoning_content="Think.", content=text) for text in ("Hi", "Hi you")]
    assert said(*messages).content == "Hi you"
