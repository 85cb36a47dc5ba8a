"""lmdeploy: its chat template `deepseek-v4`, which is April's encoder, as its api_server calls it,
with tools beside the messages, and the parsers that its options of the same name choose."""

import sys
from importlib import import_module
from types import SimpleNamespace

import conform_lines as lines

sys.modules["mmengine"] = SimpleNamespace(Registry=lines.Registry)
lines.bare_packages("lmdeploy", "serve", "serve.openai")  # which import their engines
lines.stand_ins(
    "torch", "xgrammar", *(f"lmdeploy.{name}" for name in ("archs", "utils", "messages"))
)
TEMPLATE = import_module("lmdeploy.model").DeepseekV4ChatTemplate()
PARSER = import_module("lmdeploy.serve.parsers.response_parser").BaseResponseParser
PARSER.set_parsers("deepseek-v4", "deepseek-v4")
BODY = import_module("lmdeploy.serve.openai.protocol").ChatCompletionRequest


def encode(request):
    lines.refuse_encoder_options(request)
    messages, tools = lines.with_tools_apart(request)
    options = {n: request[n] for n in ("reasoning_effort", "drop_thinking") if n in request}
    thinks = request["thinking_mode"] == "thinking"
    return TEMPLATE.messages2prompt(messages, thinking=thinks, tools=tools, **options)


def parse(request):
    parser = PARSER(BODY(model="m", **lines.parsed_body(request)))
    content, calls, reasoning = parser.parse_complete(lines.seen(request["text"]))
    made = [(call.function.name, call.function.arguments) for call in calls or ()]
    return lines.called(made, content or "", reasoning or "")


lines.answer(["v4", "v4-0731"], encode, parse)
