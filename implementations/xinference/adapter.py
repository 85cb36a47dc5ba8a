"""xinference: its tool parsers of V4 and V4.1; prompts are written by the engines below it."""

import json

from conform_lines import answer, bare_packages, called, classes_of, seen

bare_packages("xinference", "model", "model.llm")
PARSERS = classes_of(
    "xinference.model.llm.tool_parsers",
    v4=("deepseek_v4_tool_parser", "DeepseekV4ToolParser"),
    v4_1=("deepseek_v4_1_tool_parser", "DeepseekV41ToolParser"),
)


def parse(request):
    text, reasoning = seen(request["text"]), ""
    if request["thinking_mode"] == "thinking":  # its server splits before it parses
        reasoning, _, text = text.rpartition("</think>")
    texts, calls = [], []
    for content, name, arguments in PARSERS[request["dialect"]]().extract_tool_calls(text):
        if name:
            calls.append((name, json.dumps(arguments, ensure_ascii=False)))
        else:
            texts.append(content or "")
    return called(calls, "".join(texts), reasoning)


answer(PARSERS, parse=parse)
