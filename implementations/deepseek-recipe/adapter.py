"""deepseek-recipe: Chat requests, as the official API takes them; tools go beside the messages."""

import json

import deepseek_recipe as recipe
from conform_lines import Unsupported, answer, with_tools_apart

MODELS = {"v4-0731": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}
ENCODINGS = {"v4-0731": recipe.DeepseekV4Encoding(), "v4.1": recipe.DeepseekV41Encoding()}


def encode(request):
    if request.get("context") or request.get("add_default_bos_token") is False:
        raise Unsupported("an option of the released encoder")
    messages, tools = with_tools_apart(request)
    lists = (m["content"] for m in messages if isinstance(m.get("content"), list))
    if any(part.get("type") not in ("text", "image_url") for parts in lists for part in parts):
        raise Unsupported("parts that Chat requests do not have")
    thinking = "enabled" if request["thinking_mode"] == "thinking" else "disabled"
    effort = request.get("reasoning_effort")
    if effort is None and request["dialect"] == "v4-0731":
        effort = "low"  # which writes nothing; without one it is high here
    body = {
        **{"model": MODELS[request["dialect"]], "messages": messages},
        **({"tools": tools} if tools else {}),
        **{"thinking": {"type": thinking}, "reasoning_effort": effort},
    }
    read = recipe.ChatCompletionRequest(json.dumps(body)).convert(recipe.ConversionOptions())
    return ENCODINGS[request["dialect"]].render_conversation(read.conversation).prompt


answer(MODELS, encode)
