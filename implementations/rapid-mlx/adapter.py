"""rapid-mlx: its `apply_chat_template`, which all its routes call, for DeepSeek-V4-Flash-0731, and
the parsers that its server composes. It takes no effort, so its prompts are April's too."""

from importlib import import_module
from types import SimpleNamespace

from conform_lines import Unsupported, answer, called, open_request, seen, stand_ins

stand_ins("mlx", "mlx_lm", "mlx_vlm", "rapid_mlx.api")
MODEL = "deepseek-ai/DeepSeek-V4-Flash-0731"
render = import_module("rapid_mlx.utils.chat_template").apply_chat_template
REASONING = import_module("rapid_mlx.reasoning.deepseek_v4_parser").DeepSeekV4ReasoningParser
TOOLS = import_module(
    "rapid_mlx.tool_parsers.deepseek_v4_0731_tool_parser"
).DeepSeekV40731ToolParser


def encode(request):
    if request.get("reasoning_effort") or request.get("drop_thinking") is False:
        raise Unsupported("an effort, or reasoning that stays")
    messages, tools = open_request(request)
    thinks = request["thinking_mode"] == "thinking"
    tokenizer = SimpleNamespace(all_special_tokens=[], apply_chat_template=None)
    return render(tokenizer, messages, tools, enable_thinking=thinks, model_name=MODEL)


def parse(request):
    thinks = request["thinking_mode"] == "thinking"
    reasoning, content = REASONING().extract_reasoning(seen(request["text"]), thinks)
    read = TOOLS().extract_tool_calls(content or "", request)
    calls = [(call["name"], call["arguments"]) for call in read.tool_calls]
    return called(calls, read.content or "", reasoning or "")


answer(["v4", "v4-0731"], encode, parse)
