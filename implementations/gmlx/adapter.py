"""gmlx: its template for V4.1 (September), and its parser of calls."""

import sys
from pathlib import Path
from types import SimpleNamespace

from conform_lines import answer, called, module_in, open_request, seen
from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = "models/deepseek_v41"
# What installs its functions in MLX.
sys.modules["gmlx.upstream.patching"] = SimpleNamespace(link=None, wrapped_with=None)
TOOLS = module_in("gmlx", f"{FOLDER}/tools.py")
TEMPLATE = Path(TOOLS.__file__).with_name("chat_template.jinja").read_text("utf-8")


def encode(request):
    messages, tools = open_request(request)
    prompts, _ = render_jinja_template(
        [TOOLS.normalize_messages(messages)],
        tools=tools,
        chat_template=TEMPLATE,
        add_generation_prompt=True,
        enable_thinking=request["thinking_mode"] == "thinking",
        reasoning_effort=request.get("reasoning_effort"),
        drop_thinking=request.get("drop_thinking", True),
    )
    return prompts[0]


def parse(request):
    _, begins, block = seen(request["text"]).partition(TOOLS.tool_call_start)
    found = TOOLS.parse_tool_call(block.partition(TOOLS.tool_call_end)[0]) if begins else []
    calls = found if isinstance(found, list) else [found]
    return called([(call["name"], call["arguments"]) for call in calls], None)


answer(["v4.1"], encode, parse)
