"""Calls that are sent as they come, and completions that are cut at every place of them: in all
three protocols, whole and streamed, as the vendors' own clients read them."""

from __future__ import annotations

import json
from functools import cache
from itertools import cycle
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from dsv4._completion.events import Event
from dsv4._format.tokens import DSML, EOS, THINK_END
from dsv4.api import chat, messages, responses
from dsv4.api.api_request import ApiSettings

FUNCTION = {
    "name": "bash",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
USER = {"role": "user", "content": "Hi"}
PROTOCOLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "chat": (
        chat,
        {"messages": [USER], "tools": [{"type": "function", "function": FUNCTION}]},
    ),
    "messages": (
        messages,
        {
            "max_tokens": 99,
            "messages": [USER],
            "tools": [{"name": "bash", "input_schema": FUNCTION["parameters"]}],
        },
    ),
    "responses": (responses, {"input": "Hi", "tools": [{"type": "function", **FUNCTION}]}),
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def invoked(command: str) -> str:
    value = f'<{DSML}parameter name="command" string="true">{command}</{DSML}parameter>'
    return f'<{DSML}invoke name="bash">\n{value}\n</{DSML}invoke>\n'


COMPLETION = (
    f"Hm.{THINK_END}So.\n\n<{DSML}tool_calls>\n"
    f"{invoked('ls')}{invoked('rm -rf x')}</{DSML}tool_calls>{EOS}"
)
# How completions end that are cut: by a limit, by a filter, or without a word.
REASONS = ("length", "content_filter", None)


class Cut:
    """A completion of which so much came, as a server with `--calls streamed` answers."""

    def __init__(self, protocol: str, size: int, reason: str | None) -> None:
        self.api, body = PROTOCOLS[protocol]
        settings = ApiSettings(calls="streamed")
        self.call = self.api.read({**body, "model": "m", "stream": True}, settings=settings)
        self.is_cut = size < len(COMPLETION)
        self.reason = reason if self.is_cut else "eos"
        parser = self.call.parser(self.call.request.encode())
        self.events: list[Event] = []
        for n in range(0, size, 7):
            self.events += parser.feed(COMPLETION[n : min(n + 7, size)])
        self.events += parser.finish(self.reason)

    def whole(self) -> Any:
        return self.api.whole(self.call, self.events, reason=self.reason)

    def streamed(self) -> list[Any]:
        writer = self.api.Writer(self.call)
        written = writer.start(input_tokens=1)
        for event in self.events:
            written += writer.write(event)
        return [*written, *writer.finish(reason=self.reason)]

    def frames(self) -> bytes:
        writer = self.api.Writer(self.call)
        data = self.api.frames(writer.start(input_tokens=1))
        for event in self.events:
            data += writer.frames([event])
        done = b"data: [DONE]\n\n" if self.api is chat else b""
        return data + self.api.frames(writer.finish(reason=self.reason)) + done


@cache
def all_cuts(protocol: str) -> list[tuple[str, Cut]]:
    """The completion cut at every place, in turn by each of the reasons, and whole."""
    sizes = range(COMPLETION.index(THINK_END), len(COMPLETION) + 1)
    made = zip(sizes, cycle(REASONS))
    return [(f"{why} after {COMPLETION[:n][-20:]!r}", Cut(protocol, n, why)) for n, why in made]


def calls_of_whole(protocol: str, body: Any) -> list[Any]:
    """The complete calls of an answer: those that a client runs."""
    if protocol == "chat":
        calls = body["choices"][0]["message"].get("tool_calls") or ()
        return [json.loads(call["function"]["arguments"]) for call in calls]
    if protocol == "messages":
        return [block["input"] for block in body["content"] if block["type"] == "tool_use"]
    items = [item for item in body["output"] if item["type"] == "function_call"]
    return [json.loads(item["arguments"]) for item in items if item["status"] == "completed"]


@every_protocol
def test_no_whole_answer_has_a_call_that_was_cut(protocol: str) -> None:
    for name, cut in all_cuts(protocol):
        body = cut.whole()
        calls = calls_of_whole(protocol, body)
        assert calls == [{"command": "ls"}, {"command": "rm -rf x"}][: len(calls)], name
        if protocol == "chat":
            assert (body["choices"][0]["finish_reason"] == "tool_calls") == bool(calls), name
        elif protocol == "messages":
            assert (body["stop_reason"] == "tool_use") == bool(calls), name
        else:
            assert body["status"] == "completed" or not calls, name


def shown_calls(protocol: str, events: list[Any]) -> tuple[int, bool]:
    """How many calls a stream has shown, and whether it ends as if all were to be run."""
    if protocol == "chat":
        deltas = [c["delta"] for event in events for c in event["choices"]]
        shown = {call["index"] for delta in deltas for call in delta.get("tool_calls") or ()}
        reasons = [c["finish_reason"] for event in events for c in event["choices"]]
        return len(shown), "tool_calls" in reasons
    if protocol == "messages":
        starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
        (end,) = (e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta")
        return sum(block["type"] == "tool_use" for block in starts), end == "tool_use"
    added = [e["item"] for e in events if e["type"] == "response.output_item.added"]
    is_complete = events[-1]["type"] == "response.completed"
    return sum(item["type"] == "function_call" for item in added), is_complete


@every_protocol
def test_a_stream_that_has_shown_a_part_of_a_call_never_ends_as_if_it_were_whole(
    protocol: str,
) -> None:
    for name, cut in all_cuts(protocol):
        shown, runs = shown_calls(protocol, cut.streamed())
        complete = len(calls_of_whole(protocol, cut.whole()))
        assert shown >= complete, name
        if shown > complete:
            assert not runs, name
        elif complete:
            assert runs, name


@every_protocol
def test_every_item_and_block_that_begins_also_ends(protocol: str) -> None:
    begins, ends = {
        "chat": ("", ""),
        "messages": ("content_block_start", "content_block_stop"),
        "responses": ("response.output_item.added", "response.output_item.done"),
    }[protocol]
    place = "index" if protocol == "messages" else "output_index"
    for name, cut in all_cuts(protocol):
        events = cut.streamed()
        begun = [event[place] for event in events if event.get("type") == begins]
        assert begun == list(range(len(begun))), name
        assert [event[place] for event in events if event.get("type") == ends] == begun, name


# Their clients take a hundredth of a second for a stream.
SOME = 4


def answering(http: Any, frames: bytes) -> Any:
    """A client of `httpx`, or of the library in its place, whose server sends these bytes."""
    headers = {"content-type": "text/event-stream"}
    answer = lambda _: http.Response(200, content=frames, headers=headers)  # noqa: E731
    return http.Client(transport=http.MockTransport(answer))


def test_the_helpers_of_openai_read_every_stream_of_chat() -> None:
    for name, cut in all_cuts("chat")[::SOME]:
        with (
            answering(httpx, cut.frames()) as http,
            openai.OpenAI(api_key="x", base_url="http://x", http_client=http) as client,
            client.chat.completions.stream(model="m", messages=[], tools=[]) as stream,
        ):
            try:
                for _ in stream:
                    pass
                reason = stream.get_final_completion().choices[0].finish_reason
            except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
                reason = "length"  # which is how it tells of every cut
        _, runs = shown_calls("chat", cut.streamed())
        assert (reason == "tool_calls") == runs, name


def test_the_helpers_of_openai_read_every_stream_of_responses() -> None:
    for name, cut in all_cuts("responses")[::SOME]:
        with (
            answering(httpx, cut.frames()) as http,
            openai.OpenAI(api_key="x", base_url="http://x", http_client=http) as client,
            client.responses.stream(model="m", input="Hi", tools=[]) as stream,
        ):
            last = [event.type for event in stream][-1]
        assert last == cut.streamed()[-1]["type"], name


def test_the_helpers_of_anthropic_read_every_stream_of_messages() -> None:
    for name, cut in all_cuts("messages")[::SOME]:
        with (
            answering(httpx2, cut.frames()) as http,
            anthropic.Anthropic(api_key="x", base_url="http://x", http_client=http) as client,
            client.messages.stream(model="m", max_tokens=9, messages=[]) as stream,
        ):
            message = stream.get_final_message()
        _, runs = shown_calls("messages", cut.streamed())
        assert (message.stop_reason == "tool_use") == runs, name
