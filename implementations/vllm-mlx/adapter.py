"""vllm-mlx: its encoder of V4 (April and 0731), and the two parsers that its server composes."""

import sys
from importlib import import_module
from types import SimpleNamespace

from conform_lines import answer, bare_packages, called, options_of, seen

bare_packages("vllm_mlx", "utils")  # which fetches models
sys.modules["transformers"] = SimpleNamespace(PreTrainedTokenizerBase=object)
ENCODING = import_module("vllm_mlx.utils.deepseek_v4_encoding")
REASONING = import_module("vllm_mlx.reasoning.deepseek_v4_parser").DeepSeekV4ReasoningParser
TOOLS = import_module("vllm_mlx.tool_parsers.deepseek_v4_tool_parser").DeepSeekV4ToolParser
# Its names for the effort texts of April and of 31 July; it goes by the model's name.
EFFORTS = {"v4": "preview", "v4-0731": "official"}


def encode(request):
    return ENCODING.encode_messages(
        request["messages"],
        request["thinking_mode"],
        **options_of(request),
        reasoning_effort_profile=EFFORTS[request["dialect"]],
    )


def parse(request):
    reasoning, content = None, seen(request["text"])
    if request["thinking_mode"] == "thinking":
        reasoning, content = REASONING().extract_reasoning(content)
    read = TOOLS().extract_tool_calls(content or "", request)
    calls = [(call["name"], call["arguments"]) for call in read.tool_calls]
    return called(calls, read.content or "", reasoning or "")


answer(EFFORTS, encode, parse)
