"""SGLang: its parsers. Its prompts are deepseek-recipe's."""

import conform_lines as lines

lines.stand_ins("torch", "triton", "xgrammar")  # which only the server needs, as it does these:
lines.stand_ins("sglang.lang", "sglang.srt.layers", "sglang.srt.utils")

from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest  # noqa: E402
from sglang.srt.function_call.function_call_parser import FunctionCallParser  # noqa: E402
from sglang.srt.parser.reasoning_parser import ReasoningParser  # noqa: E402

NAMES = {"v4": "deepseekv4", "v4.1": "deepseekv41"}


def parse(request):
    body = ChatCompletionRequest(model="m", **lines.parsed_body(request))
    reader = ReasoningParser(
        model_type="deepseek-v4",
        stream_reasoning=True,
        force_reasoning=body.chat_template_kwargs["thinking"],
        request=body,
        tool_call_parser_active=True,
    )
    reasoning, content = reader.parse_non_stream(lines.seen(request["text"]))
    caller = FunctionCallParser(body.tools, NAMES[request["dialect"]], tool_choice=body.tool_choice)
    calls = []
    if caller.has_tool_call(content or ""):
        content, calls = caller.parse_non_stream(content or "")
    return lines.called([(c.name, c.parameters) for c in calls], content or "", reasoning or "")


lines.answer(NAMES, parse=parse)
