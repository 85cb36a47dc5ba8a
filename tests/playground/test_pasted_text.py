"""Texts that people paste into the page that are no request: prompts, log lines, JSON lines,
commands with curl, answers.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import dsv4
from completions import block, calling
from dsv4._playground.page_functions import answer
from dsv4._playground.page_request import PageRequest, PlaygroundContext
from rows import each_row

MESSAGES = [
    {"role": "system", "content": 'Be "brief".'},
    {"role": "user", "content": "Two\nlines"},
]
PROMPT = str(dsv4.encode(MESSAGES))


CONTEXT = PlaygroundContext()


def call(name: str, **body: Any) -> Any:
    status, data = answer(name, json.dumps(body), CONTEXT)
    assert status == 200, data
    return json.loads(data)


def imported(text: str) -> Any:
    """What a text is; of an answer, what the model wrote."""
    said = call("why", source=text)
    return said if said["answer"] is None else {"kind": "answer", **said["answer"]}


def request_in(text: str, turn: int | None = None) -> Any:
    """The request that a text is, or has in it."""
    return PageRequest.from_body({"source": text, "turn": turn}, CONTEXT).source.value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROMPT, id="as it is"),
        pytest.param(f"{PROMPT}\n", id="with a line end"),
        pytest.param(json.dumps(PROMPT), id="as JSON"),
        pytest.param(json.dumps(PROMPT, ensure_ascii=False), id="as JSON without escapes"),
        pytest.param(repr(PROMPT), id="as Python shows it"),
        pytest.param(f"INFO 11-16 engine.py: prompt: {PROMPT!r}", id="in a line of a log"),
    ],
)
def test_a_prompt_is_decoded_however_it_was_copied(text: str) -> None:
    assert imported(text)["kind"] == "prompt"
    assert request_in(text)["messages"] == MESSAGES


def test_lines_of_json_are_listed() -> None:
    text = '[{"role": "user"}]\r\n\r\n{"messages": []}\r\n'
    assert imported(text)["turns"] == 2
    assert [request_in(text, n) for n in (0, 1)] == [[{"role": "user"}], {"messages": []}]


@pytest.mark.parametrize("text", ["Why is the sky blue?", "\nHello\n", "1\n2", "Hm \U0001f600"])
def test_a_sentence_is_a_message_of_the_user(text: str) -> None:
    said = text.strip("\n")
    assert request_in(text) == [{"role": "user", "content": said}]
    side = call("prompt", source=text)["sides"][0]
    shown = "".join(part[0] for row in side["rows"] for part in row["head"])
    assert said.split("\n")[0] in shown
    # Pointing at it leads to the text, counted as browsers count.
    start = text.index(said)
    units = len(said.encode("utf-16-le")) // 2
    assert [start, start + units] in [place for row in side["places"] for place in row]


@pytest.mark.parametrize("text", ["", "{", '{"one": 1', "5", '{"choices": []}'])
def test_anything_else_has_no_prompt(text: str) -> None:
    status, body = answer("prompt", json.dumps({"source": text}), CONTEXT)
    assert status == 400
    assert json.loads(body)["error"]["line"] == 1


def test_a_turn_that_is_not_there() -> None:
    for turn in (5, -1):
        body = json.dumps({"source": '[{"role": "user"}]\n{"messages": []}', "turn": turn})
        assert b"no such turn" in answer("prompt", body, CONTEXT)[1]
    assert (
        b"expected a whole number" in answer("prompt", '{"source": "x", "turn": "1"}', CONTEXT)[1]
    )


KEY = "sk-abcdefghijklmnop"


def test_keys_are_struck_out_of_what_is_no_conversation() -> None:
    command = f"curl https://x/v1/chat/completions -H 'Authorization: Bearer {KEY}' -d '[]'"
    said = call("why", source=command)
    assert KEY not in json.dumps(said)
    assert "Bearer ***" in said["source"]
    # In a conversation they are what the model saw.
    body = json.dumps({"messages": [{"role": "user", "content": f"My key is {KEY}"}]})
    assert call("why", source=body)["source"] is None


def test_a_file_that_is_no_text_is_named() -> None:
    data = base64.b64encode(b"%PDF-1.7 ...").decode()
    said = call("why", data=data)
    assert ["what", "a PDF"] in said["lines"]
    assert b"no base64" in answer("why", '{"data": "?"}', CONTEXT)[1]


# Answers.

CALL = {"type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
BLOCK = block(calling("read", path="a")).strip()
EOS = "<｜end▁of▁sentence｜>"


def chat(message: Any, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "choices": [choice], **fields}


def messages_answer(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(blocks), **fields}


def responses_answer(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": list(items), **fields}


THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
SAID = {"type": "message", "role": "assistant", "content": "Hi."}
# A response -> what the model wrote, and whether that begins in reasoning.
ANSWERS: list[Any] = [
    pytest.param(chat({"role": "assistant", "content": "Hi."}), f"Hi.{EOS}", False, id="chat"),
    pytest.param(
        chat({"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}),
        f"Hm.</think>Hi.{EOS}",
        True,
        id="chat with reasoning",
    ),
    pytest.param(
        chat({"role": "assistant", "content": "Hi.", "reasoning": "Hm."}),
        f"Hm.</think>Hi.{EOS}",
        True,
        id="chat with reasoning, as vLLM calls it",
    ),
    pytest.param(
        chat({"content": None, "tool_calls": [{"id": "c", **CALL}]}),
        f"\n\n{BLOCK}{EOS}",
        False,
        id="chat with a call and no role",
    ),
    pytest.param(
        chat({"role": "assistant", "content": f"Look.\n\n{BLOCK}", "tool_calls": []}),
        f"Look.\n\n{BLOCK}{EOS}",
        False,
        id="a call that leaked",
    ),
    pytest.param(
        chat({"role": "assistant", "content": "Hm.</think>Hi."}),
        f"Hm.</think>Hi.{EOS}",
        True,
        id="reasoning that leaked",
    ),
    pytest.param(
        messages_answer(
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "text", "text": "Hi."},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}},
            stop_reason="tool_use",
        ),
        f"Hm.</think>Hi.\n\n{BLOCK}{EOS}",
        True,
        id="Messages",
    ),
    pytest.param(
        responses_answer(
            THOUGHT,
            {**SAID, "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"path": "a"}'},
        ),
        f"Hm.</think>Hi.\n\n{BLOCK}{EOS}",
        True,
        id="Responses",
    ),
    pytest.param(
        {"type": "response.completed", "response": responses_answer(SAID)},
        f"Hi.{EOS}",
        False,
        id="the last event of Responses",
    ),
    pytest.param({"role": "assistant", "content": "Hi."}, f"Hi.{EOS}", False, id="a message"),
]


@each_row("value, text, thinking", ANSWERS)
def test_a_response_is_what_the_model_wrote(value: Any, text: str, thinking: bool) -> None:
    found = imported(json.dumps(value))
    assert (found["kind"], found["text"], found["thinking"]) == ("answer", text, thinking)


def test_the_model_of_a_response_names_the_dialect() -> None:
    call = {"content": None, "tool_calls": [{"id": "c", **CALL}]}
    found = imported(json.dumps(chat(call, model="DeepSeek-V4.1-Flash")))
    assert found["dialect"] == "v4.1"
    assert not dsv4.parse(found["text"], thinking=False, dialect="v4.1").diagnostics
    assert imported(json.dumps(chat(call, model="mine")))["dialect"] is None


def test_the_first_of_several_choices() -> None:
    whole = chat({"role": "assistant", "content": "One."})
    found = imported(json.dumps({**whole, "choices": whole["choices"] * 3}))
    assert found["text"] == f"One.{EOS}"


STREAMS: dict[str, list[Any]] = {
    "chat": [
        {
            **{"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"},
            "choices": [{"index": 0, "delta": delta}],
        }
        for delta in (
            {"role": "assistant", "reasoning_content": "H"},
            {"reasoning_content": "m."},
            {"content": "Hi."},
        )
    ],
    "responses": [
        {"type": "response.created", "response": {"object": "response", "output": []}},
        {"type": "response.completed", "response": responses_answer(THOUGHT, SAID)},
    ],
    "messages": [
        {"type": "message_start", "message": {**messages_answer(), "usage": {}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Hm."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi."}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ],
}


@pytest.mark.parametrize("protocol", STREAMS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_of_events(protocol: str, end: str) -> None:
    frames = (f"event: x{end}data: {json.dumps(event)}{end}{end}" for event in STREAMS[protocol])
    found = imported("".join(frames) + f"data: [DONE]{end}{end}")
    assert (found["kind"], found["text"]) == ("answer", f"Hm.</think>Hi.{EOS}")


@pytest.mark.parametrize(
    ("text", "thinking", "dialect"),
    [
        pytest.param(f"Let me look.\n\n{BLOCK}", False, "v4", id="calls that leaked"),
        pytest.param(BLOCK.replace("\n", "\r\n"), False, "v4", id="with Windows' line ends"),
        pytest.param(BLOCK[:60], False, "v4", id="a call that was cut"),
        pytest.param(f"Hm.</think>Look.\n\n{BLOCK}", True, "v4", id="with reasoning"),
        pytest.param("<think>Hm.", True, None, id="reasoning that was cut"),
        pytest.param(f"Hi.{EOS}", False, None, id="with EOS"),
        pytest.param(json.dumps(f"Look.\n\n{BLOCK}"), False, "v4", id="as a JSON string"),
        pytest.param(
            BLOCK.replace("tool_calls", " calls").replace("invoke", " invoke"),
            False,
            "v4.1",
            id="V4.1",
        ),
    ],
)
def test_a_text_with_the_marks_of_an_answer(text: str, thinking: bool, dialect: str | None) -> None:
    found = imported(text)
    whole = json.loads(text) if text.startswith('"') else text
    shown = {"text": whole, "thinking": thinking, "dialect": dialect}
    assert {"kind": "answer", **shown}.items() <= found.items()


@each_row(
    "value",
    [
        pytest.param({"choices": []}, id="no choices"),
        pytest.param({"choices": [None]}, id="an empty choice"),
        pytest.param({"choices": [{"message": "Hi"}]}, id="a text as a message"),
        pytest.param({"choices": {"message": {}}}, id="choices that are no list"),
        pytest.param({"choices": [{"message": {"content": 5}}]}, id="content of another type"),
        pytest.param({"choices": [{"message": {"tool_calls": [5]}}]}, id="calls of another type"),
        pytest.param({"output": [[]]}, id="an item that is a list"),
        pytest.param({"output": [{"type": 5}]}, id="an item of another type"),
        pytest.param({"type": "message", "role": "assistant", "content": [5]}, id="a block"),
        pytest.param({"response": {"response": {"response": 5}}}, id="nested"),
        pytest.param({"error": {"message": "no"}}, id="an error"),
        pytest.param([], id="a list"),
        pytest.param(5, id="a number"),
        pytest.param({}, id="nothing"),
    ],
)
def test_what_is_no_answer_is_unknown(value: Any) -> None:
    assert imported(json.dumps(value))["kind"] in ("unknown", "error")


@pytest.mark.parametrize(
    "text",
    ["data: {", "data: []", 'data: {"type": "message_delta"}', 'data: {"choices": 5}', "data: 5"],
)
def test_a_broken_stream_is_unknown(text: str) -> None:
    assert "text" not in imported(text)


# Commands.

ASKED = {"role": "user", "content": "It's 5 o'clock, \"é\"\n$HOME 100%"}
BODY = {"model": "m", "messages": [ASKED]}
SENT = json.dumps(BODY)
URL = "https://api.deepseek.com/chat/completions"
IN_BASH = SENT.replace("'", "'\\''")
IN_ANSI = SENT.replace("\\", "\\\\").replace("'", "\\'")
IN_CMD = SENT.replace("\\", "\\\\").replace('"', '\\"')
FOR_CMD = "".join(f"^{c}" if c in '"{}\\' else c for c in IN_CMD)
COMMANDS: list[Any] = [
    pytest.param(f"curl {URL} -d '{IN_BASH}'", id="one line"),
    pytest.param(f"$ curl -s {URL} \\\n  -H 'a: b' \\\n  --data '{IN_BASH}'\n", id="several lines"),
    pytest.param(f"curl {URL} \\\r\n --data-raw '{IN_BASH}'", id="Windows' line ends"),
    pytest.param(f"curl {URL} --data-binary='{IN_BASH}'", id="with an equals sign"),
    pytest.param(f"curl {URL} -d'{IN_BASH}'", id="without a space"),
    pytest.param(f"curl {URL} --json '{IN_BASH}' | jq .", id="piped"),
    pytest.param(f"curl '{URL}' --data-raw $'{IN_ANSI}' --compressed", id="as a browser writes it"),
    pytest.param(f"curl {URL} -d @- <<'EOF'\n{SENT}\nEOF\n", id="a document in place"),
    pytest.param(f'curl.exe ^"{URL}^" ^\r\n --data-raw ^"{FOR_CMD}^"', id="as Windows writes it"),
]


@each_row("text", COMMANDS)
def test_a_command_with_curl_is_the_request_that_it_sends(text: str) -> None:
    assert imported(text)["kind"] == "request"
    assert request_in(text) == BODY


def test_json_with_a_mistake_is_shown_as_it_was_sent() -> None:
    found = imported(f"curl {URL} -d '{{\"messages\": [}}'")
    assert (found["kind"], found["place"]) == ("json", "line 1, column 15")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f"curl {URL}", "it has no --data"),
        (f"curl {URL} -d", "it has no --data"),
        (f"curl {URL} -d @body.json", "from body.json: paste that"),
        (f"curl {URL} -d @-", "from -: paste that"),
        (f"curl {URL} -d '{{", "quotation marks of the command do not match"),
    ],
)
def test_what_a_command_does_not_send(text: str, note: str) -> None:
    found = imported(text)
    assert found["kind"] == "unknown"
    assert note in found["because"]


LONG = ["curl " + "'" * 100_001, "curl -d " + "\\" * 99_999, "<" * 100_000, "curl <<A" * 9_999]


@pytest.mark.parametrize("text", LONG, ids=["quotes", "escapes", "brackets", "documents"])
def test_long_texts_that_are_nothing(text: str) -> None:
    assert "text" not in imported(text)
