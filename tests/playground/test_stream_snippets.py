"""What the Stream and Live views copy runs as it is, and says what they show."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from copied import run_cases, sent_by

import dsv4
from dsv4._playground.page_examples import COMPLETION_TOOLS, EXAMPLE_COMPLETIONS
from dsv4._playground.page_functions import PAGE_FUNCTIONS
from dsv4._playground.page_problem import PageProblem
from dsv4._playground.page_request import PlaygroundContext
from dsv4.tokens import Tokenizer

BENCH = PlaygroundContext(tokenizer=Tokenizer.load(), model="deepseek-v4")
HOSTILE = "'\"\\ \x00\x1b[31m\u202e ''' \"\"\" {x} $HOME `id` \ud800 \u2028\r\n</think>"
TALK = [
    {"role": "user", "content": "It's 5 o'clock: `date` $(date)?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "I ask.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "date"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Noon"},
]


def call(name: str, **body: Any) -> Any:
    return PAGE_FUNCTIONS[name](body, BENCH)


def streams() -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = [
        {"text": e.text, "thinking": e.thinking, "tools": COMPLETION_TOOLS, "cut": cut, "seed": 3}
        for n, e in enumerate(EXAMPLE_COMPLETIONS)
        for cut in (("character", "random", "token")[n % 3],)
    ]
    return [
        *bodies,
        {"text": HOSTILE, "stop": ["x'", "\n"], "reason": "length", "cut": "character"},
        {
            "text": EXAMPLE_COMPLETIONS[0].text,
            "tools": [],
            "dialect": "v3.2",
            "cut": "random",
            "seed": 0,
        },
        {"text": EXAMPLE_COMPLETIONS[0].text, "tools": None, "calls": "whole", "cut": "character"},
    ]


def test_cases_pass_and_fail_where_something_else_is_read(tmp_path: Path) -> None:
    cases = [call("copy", form="pytest", view="stream", **body)["text"] for body in streams()]
    for protocol in ("chat", "responses", "messages"):
        body = {"protocol": protocol, "messages": TALK, "tools": COMPLETION_TOOLS, "effort": "max"}
        cases.append(call("copy", form="pytest", view="live", **body)["text"])
    body = {"text": EXAMPLE_COMPLETIONS[3].text, "tools": COMPLETION_TOOLS, "cut": "character"}
    text = call("copy", form="pytest", view="stream", **body)["text"]
    talk = call("copy", form="pytest", view="live", messages=TALK, tools=COMPLETION_TOOLS)["text"]
    wrong = [text.replace("umbrella", "coat", 1), text.replace("missing_wrapper", "limit")]
    wrong += [talk.replace("'content': 'Noon'", "'content': 'Now'")]
    told = run_cases([*wrong, *cases], tmp_path)
    assert f"3 failed, {len(cases)} passed" in told
    assert all(f"FAILED test_copied_{n}.py" in told for n in range(3))


def test_python_prints_events_and_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, body in enumerate(streams()):
        file = tmp_path / f"copied_{number}.py"
        file.write_text(call("copy", form="python", view="stream", **body)["text"], "utf-8")
        found = runpy.run_path(str(file))
        traced = call("trace", **body)
        assert found["message"].to_dict() == {
            name: value
            for name, value in traced["message"].items()
            if name not in ("finish", "incomplete")
        }
        # The last of them come at the end, which is not among those that pieces bring.
        assert len(found["events"]) <= traced["events"]
        assert isinstance(found["message"], dsv4.Message)
    capsys.readouterr()


@pytest.mark.parametrize("body", streams()[-4:])
def test_curl_asks_for_the_same_trace(body: dict[str, Any]) -> None:
    text = call("copy", form="curl", view="stream", url="http://127.0.0.1:1", **body)["text"]
    assert "http://127.0.0.1:1/playground/api/trace" in text
    assert PAGE_FUNCTIONS["trace"](sent_by(text), BENCH) == call("trace", **body)


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_curl_sends_the_conversation(protocol: str) -> None:
    body = {"protocol": protocol, "messages": TALK, "tools": COMPLETION_TOOLS, "effort": "none"}
    made = call("live", **body)
    text = call("copy", form="curl", view="live", url="http://127.0.0.1:1", **body)["text"]
    assert f"http://127.0.0.1:1/{made['path']}" in text
    assert sent_by(text) == made["body"]
    assert made["body"]["stream"] is True


def test_keys_are_asked_for_and_not_written() -> None:
    bench = PlaygroundContext(asks_for_key=True)
    for form in ("curl", "python"):
        body = {"form": form, "view": "live", "messages": TALK}
        assert "Bearer KEY" in PAGE_FUNCTIONS["copy"](body, bench)["text"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": TALK, "tools": {}}, "tools"),
        ({"messages": TALK, "protocol": "soap"}, "protocol"),
        ({"messages": TALK, "effort": 5}, "effort"),
    ],
)
def test_a_conversation_that_cannot_be_sent(body: dict[str, Any], path: str) -> None:
    with pytest.raises(PageProblem) as caught:
        call("live", **body)
    assert caught.value.location == (path,)
