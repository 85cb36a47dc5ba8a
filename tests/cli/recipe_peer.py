"""deepseek-recipe as `dsv4 conform` asks for it: prompts without thinking, which it writes as the
released encoder does. It has a request of its own for all else."""

from __future__ import annotations

import json
import sys
from typing import Any

import deepseek_recipe as recipe

MODELS = {"v4-0731": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
FIELDS = {"id", "do", "dialect", "messages", "thinking_mode"}


def supports(request: dict[str, Any]) -> bool:
    messages = request["messages"] if request["do"] == "encode" else []
    roles = [message["role"] for message in messages]
    return (
        request["dialect"] in MODELS
        and request.get("thinking_mode") == "chat"
        and not request.keys() - FIELDS
        and bool(messages)
        and "system" not in roles[1:]
        and set(roles) <= {"system", "user", "assistant"}
        and all(m.keys() <= {"role", "content", "reasoning_content"} for m in messages)
        # It leaves out empty ones, and has parts of its own.
        and all(m.get("content") and isinstance(m["content"], str) for m in messages)
    )


def answer(request: dict[str, Any]) -> dict[str, Any]:
    if not supports(request):
        return {"unsupported": "not by this adapter"}
    dialect = request["dialect"]
    encoding = recipe.DeepseekV41Encoding() if dialect == "v4.1" else recipe.DeepseekV4Encoding()
    body = {
        "model": MODELS[dialect],
        "messages": request["messages"],
        "thinking": {"type": "disabled"},
    }
    text = json.dumps(body, ensure_ascii=False)
    asked = recipe.ChatCompletionRequest(text).convert(recipe.ConversionOptions())
    return {"prompt": encoding.render_conversation(asked.conversation).prompt}


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], **answer(asked)}), flush=True)
