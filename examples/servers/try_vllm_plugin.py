"""Drives the plugin through vLLM's own classes, without a GPU: python try_vllm_plugin.py

Needs vLLM 0.32 to be importable. Its parsers are composed as its server does it, a tokenizer that
knows two ids stands for the model's, and each completion is read whole and in pieces of several
sizes: those that are as they should be, and some that are not.
"""

import json
from types import SimpleNamespace
from typing import Any

import vllm
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

import dsv4
from encoding_dsv4 import thinking_end_token, thinking_start_token

PLUGIN = "dsv4.compat.vllm_plugin"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
MESSAGES: list[dict[str, Any]] = [
    {"reasoning": "A question.", "content": "Hello, wörld!"},
    {"reasoning": "Look.", "content": "", "tool_calls": [("weather", {"city": "Paris\n<b>"})]},
    {"content": "Both:", "tool_calls": [("weather", {"city": "A"}), ("weather", {"city": "B"})]},
]
# The tool parser's name, and the release of the format that its model writes.
PARSERS = {"dsv4": "v4", "dsv4-v4.1": "v4.1"}
THINK_IDS = {thinking_start_token: 1, thinking_end_token: 2}


def completion(message: dict[str, Any], dialect: str) -> str:
    """What the model would have written."""
    calls = [{"function": {"name": n, "arguments": a}} for n, a in message.get("tool_calls", ())]
    turn = {"role": "assistant", "content": message["content"], "tool_calls": calls}
    turn["reasoning_content"] = message.get("reasoning", "")
    before = dsv4.encode([{"role": "user", "content": "Hi"}], tools=TOOLS, dialect=dialect)
    after = dsv4.encode([{"role": "user", "content": "Hi"}, turn], tools=TOOLS, dialect=dialect)
    return str(after)[len(str(before)) :]


def new_parser(name: str) -> Any:
    parsers = ParserManager.get_parser(
        tool_parser_name=name,
        reasoning_parser_name="dsv4",
        enable_auto_tools=True,
        model_name="deepseek-v4",
    )
    tokenizer = SimpleNamespace(get_vocab=lambda: THINK_IDS, vocab=THINK_IDS)
    tools = request().tools
    return parsers(tokenizer, tools, chat_template_kwargs={"thinking": True})


def request() -> ChatCompletionRequest:
    question = [{"role": "user", "content": "Hi"}]
    return ChatCompletionRequest(model="m", messages=question, tools=TOOLS, stream=True)


def read_whole(name: str, text: str) -> tuple[str, str, list[Any]]:
    reasoning, content, calls = new_parser(name).parse(text, request(), enable_auto_tools=True)
    made = [(call.name, json.loads(call.arguments)) for call in calls or ()]
    return reasoning or "", content or "", made


def read_by_dsv4(text: str, dialect: str) -> tuple[str, str, list[Any]]:
    message = dsv4.parse(text, tools=TOOLS, dialect=dialect)
    made = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    return message.reasoning, message.content, made


def read_in_pieces(name: str, text: str, size: int) -> tuple[str, str, list[Any]]:
    parser, asked = new_parser(name), request()
    pieces = [text[n : n + size] for n in range(0, len(text), size)]
    reasoning, content, calls = "", "", {}
    for n, piece in enumerate(pieces):
        ids = [2] if thinking_end_token in piece else [9]
        last = n == len(pieces) - 1
        delta = parser.parse_delta(piece, ids, asked, prompt_token_ids=[1], finished=last)
        if delta is None:
            continue
        reasoning += delta.reasoning or ""
        content += delta.content or ""
        for call in delta.tool_calls:
            called, arguments = calls.get(call.index, ("", ""))
            function = call.function
            calls[call.index] = (
                called + (function.name or ""),
                arguments + (function.arguments or ""),
            )
    return reasoning, content, [(called, json.loads(args)) for called, args in calls.values()]


def main() -> None:
    ToolParserManager.import_tool_parser(PLUGIN)
    ReasoningParserManager.import_reasoning_parser(PLUGIN)
    for name, dialect in PARSERS.items():
        try_parser(name, dialect)
    known = f"{len(MESSAGES)} completions of {' and '.join(PARSERS.values())}"
    print(f"vLLM {vllm.__version__}: {known} read, whole and in pieces")


def try_parser(name: str, dialect: str) -> None:
    for message in MESSAGES:
        text = completion(message, dialect)
        expected = (message.get("reasoning", ""), message["content"], message.get("tool_calls", []))
        pieces = [read_in_pieces(name, text, size) for size in (1, 3, 7, 1000)]
        for found in (read_whole(name, text), *pieces):
            assert found == expected, (found, expected)
    text = completion(MESSAGES[1], dialect)
    end = thinking_end_token
    calls = text.partition(end)[2]
    malformed = {
        "half a call": text[: text.index("Paris")],
        "reasoning that does not end": text.replace(end, ""),
        "an example in reasoning": f"So:\n```{calls.lstrip()}\n```\n{end}Done.",
        "reasoning in two spans": f"A{end}b{thinking_start_token}c{end}d{calls}",
    }
    for text in malformed.values():
        expected = read_by_dsv4(text, dialect)
        pieces = [read_in_pieces(name, text, size) for size in (1, 5, 1000)]
        for found in (read_whole(name, text), *pieces):
            assert found == expected, (found, expected)


if __name__ == "__main__":
    main()
