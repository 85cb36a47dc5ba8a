"""A call that was cut cannot be taken for a complete one, shown with OpenAI's own client.

The events become the chunks of a Chat Completions stream, and the client puts them together.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsv4
from completions import BASH, BLOCK, COMMAND, PARAMETER_END, TIMEOUT, TOOLS, block, calling

openai = pytest.importorskip("openai")

CUT = [
    f"{BLOCK}\n{BASH}\n{COMMAND}rm -rf /tmp/x",
    f"{BLOCK}\n{BASH}\n{COMMAND}rm -rf /tmp/x{PARAMETER_END}\n",
    f"{BLOCK}\n{BASH}\n{COMMAND}rm -rf /tmp/x{PARAMETER_END}\n{TIMEOUT}1",
    f"{BLOCK}\n{BASH}\n",
    f'{BLOCK}\n{BASH}\n{{"command": "rm',
]


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "deepseek-v4",
        "choices": [choice],
    }


def chunks(events: list[dsv4.Event]) -> list[dict[str, Any]]:
    """The stream of a completion. Nothing is sent for what is only a diagnosis, or an abortion."""
    sent = [chunk({"role": "assistant", "content": ""})]
    for event in events:
        if isinstance(event, dsv4.ContentDelta):
            sent.append(chunk({"content": event.text}))
        elif isinstance(event, dsv4.ToolCallStart):
            function = {"name": event.name, "arguments": ""}
            call = {"index": event.index, "id": event.id, "type": "function", "function": function}
            sent.append(chunk({"tool_calls": [call]}))
        elif isinstance(event, dsv4.ArgumentsDelta):
            call = {"index": event.index, "function": {"arguments": event.text}}
            sent.append(chunk({"tool_calls": [call]}))
        elif isinstance(event, dsv4.End):
            sent.append(chunk({}, event.finish))
    return sent


def accumulated(events: list[dsv4.Event]) -> Any:
    """What OpenAI's client makes of the stream."""
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state: Any = ChatCompletionStreamState(input_tools=TOOLS)
    for sent in chunks(events):
        state.handle_chunk(ChatCompletionChunk.model_validate(sent))
    return state


def read(text: str, **options: Any) -> list[dsv4.Event]:
    parser = dsv4.StreamParser(thinking=False, tools=TOOLS, **options)
    return [*(event for character in text for event in parser.feed(character)), *parser.finish()]


def test_a_complete_call_is_one() -> None:
    state = accumulated(read(block(calling("bash", command="ls", timeout=5))))
    choice = state.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert call.id.startswith("call_")
    assert json.loads(call.function.arguments) == {"command": "ls", "timeout": 5}


@pytest.mark.parametrize("text", CUT)
def test_a_call_that_was_cut_is_none(text: str) -> None:
    """Its arguments are no JSON, and the client refuses to finish a turn that was cut."""
    state = accumulated(read(text))
    choice = state.current_completion_snapshot.choices[0]
    assert choice.finish_reason == "length"
    for call in choice.message.tool_calls or ():
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.function.arguments)
    strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    state._input_tools = strict  # whose arguments the client reads itself
    with pytest.raises(openai.LengthFinishReasonError):
        state.get_final_completion()


@pytest.mark.parametrize("text", CUT)
def test_whole_calls_are_not_even_seen(text: str) -> None:
    state = accumulated(read(text, calls="whole"))
    choice = state.current_completion_snapshot.choices[0]
    assert choice.finish_reason == "length"
    assert not choice.message.tool_calls


def test_a_call_that_could_not_be_read_is_no_json_either() -> None:
    parameter = COMMAND.replace(' name="command"', "")
    text = f"{BLOCK}\n{BASH}\n{TIMEOUT}5{PARAMETER_END}\n{parameter}x{PARAMETER_END}\n"
    events = read(text + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>")
    (aborted,) = (event for event in events if isinstance(event, dsv4.ToolCallAborted))
    assert (aborted.reason, aborted.closing) == ("unreadable", "}")
    choice = accumulated(events).current_completion_snapshot.choices[0]
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice.message.tool_calls[0].function.arguments)
    message = dsv4.assemble(events)
    assert (message.tool_calls, len(message.incomplete)) == ((), 1)
    assert message.dropped
