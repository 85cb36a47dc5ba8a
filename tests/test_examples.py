"""The agent of the examples: with its scripted model, and with a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from loading import loaded


@pytest.fixture
def agent() -> Any:
    return loaded("examples/agent.py")


CONVERSATION = [
    "user: Which weekday?",
    "assistant: add_days(day='2026-11-15', days=100)",
    "tool: 2027-02-23",
    "assistant: weekday(day='2027-02-23')",
    "tool: Tuesday",
    "assistant: It is a Tuesday.",
]


def test_a_scripted_model(agent: Any) -> None:
    lines = [agent.line_of(message) for message in agent.answer("Which weekday?", agent.scripted())]
    assert lines == CONVERSATION


@pytest.fixture
def server(agent: Any) -> Iterator[Any]:
    """The scripted model behind HTTP. It keeps the prompts that it was given."""
    model, prompts = agent.scripted(), []

    class Completions(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompts.append(body["prompt"])
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for text in model(body["prompt"]):
                event = json.dumps({"choices": [{"text": text}]})
                self.wfile.write(f"data: {event}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    httpd.prompts = prompts  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_served_model(agent: Any, server: Any) -> None:
    model = agent.served(f"http://127.0.0.1:{server.server_port}/v1/completions", "any")
    lines = [agent.line_of(message) for message in agent.answer("Which weekday?", model)]
    assert lines == CONVERSATION
    first, second, third = server.prompts
    # Each prompt goes on where the model left off: what it wrote is in the next one, mended.
    assert first.endswith("<｜User｜>Which weekday?<｜Assistant｜><think>")
    assert second.startswith(first + "First the date.</think>")
    assert third.startswith(second + "Now the weekday.</think>")
    assert "<tool_result>Tuesday</tool_result>" in third


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("climate", "{}", "error: there is no tool 'climate', only weekday, add_days"),
        ("weekday", '{"day": "today"}', "error: Invalid isoformat string: 'today'"),
        ("weekday", '{"date": "today"}', None),
    ],
)
def test_what_goes_wrong_is_for_the_model_to_read(
    agent: Any, name: str, arguments: str, content: str | None
) -> None:
    call = {"id": "1", "function": {"name": name, "arguments": arguments}}
    result = agent.result_of(call)
    assert result["tool_call_id"] == "1"
    assert result["content"].startswith("error: ")
    assert content is None or result["content"] == content


CALL = """</think>

<｜DSML｜tool_calls>
<｜DSML｜invoke name="weekday">

</｜DSML｜invoke>
</｜DSML｜tool_calls>"""


def test_a_call_that_is_cut_short_is_not_run(agent: Any) -> None:
    cut = CALL[: CALL.index("</｜DSML｜invoke>")] + "<｜DSML｜parameter name="
    with pytest.raises(SystemExit, match="cut short in a call of weekday"):
        list(agent.answer("Which weekday?", lambda prompt: [cut]))


def test_an_agent_that_goes_in_circles_is_stopped(agent: Any) -> None:
    with pytest.raises(SystemExit, match="no answer after 8 rounds"):
        list(agent.answer("Which weekday?", lambda prompt: [CALL]))
