"""transformers: dsv4's own template of V4 (April), because the checkpoint has none. What it
refuses is the template's refusal. Tools go beside the messages."""

import contextlib
import json
import sys
from pathlib import Path

from conform_lines import Unsupported, answer, with_tools_apart
from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATE = Path(sys.argv[1]).read_text("utf-8")


def as_object(call):
    function = dict(call["function"])
    with contextlib.suppress(ValueError, TypeError, KeyError):
        function["arguments"] = json.loads(function["arguments"])
    return {**call, "function": function}


def encode(request):
    if request.get("context") or request.get("add_default_bos_token") is False:
        raise Unsupported("an option of the released encoder")
    messages, tools = with_tools_apart(request)
    for message in messages:
        message["tool_calls"] = [as_object(call) for call in message.pop("tool_calls", None) or ()]
    prompts, _ = render_jinja_template(
        [messages],
        tools=tools,
        chat_template=TEMPLATE,
        add_generation_prompt=bool(messages) and messages[-1]["role"] != "assistant",
        thinking=request["thinking_mode"] == "thinking",
        drop_thinking=request.get("drop_thinking", True),
        reasoning_effort=request.get("reasoning_effort"),
    )
    return prompts[0]


answer(["v4"], encode)
