"""tinker-cookbook: its renderers of V4.1 (September), which write and read ids."""

from importlib import import_module

import conform_lines as lines

TOKENIZER = lines.v4_tokenizer()
lines.stand_ins("torch")  # which only training needs
BASE, V41 = (import_module(f"tinker_cookbook.renderers.{n}") for n in ("base", "deepseek_v4_1"))
KINDS = {"chat": "DisableThinking", "low": "LowReasoning", "max": "MaxReasoning"}


def renderer(request):
    mode, effort = request["thinking_mode"], request.get("reasoning_effort")
    name = f"DeepSeekV4_1{KINDS.get(effort if mode == 'thinking' else mode, '')}Renderer"
    return getattr(V41, name)(TOKENIZER, request.get("drop_thinking", True))


def message_of(role, content=None, reasoning_content=None, tool_calls=(), **rest):
    parts = [("thinking", reasoning_content), ("text", content or "")] if reasoning_content else []
    content = [{"type": kind, kind: text} for kind, text in parts] or content or ""
    calls = {"tool_calls": [BASE.ToolCall(**call) for call in tool_calls]} if tool_calls else {}
    return {"role": role, "content": content, **calls, **rest}


def encode(request):
    made, (messages, tools) = renderer(request), lines.open_request(request)
    system, tools = (messages.pop(0).get("content"), tools) if tools else ("", [])
    functions = [tool["function"] for tool in tools]
    head = made.create_conversation_prefix_with_tools(functions, system or "") if tools else []
    prompt = made.build_generation_prompt([*head, *(message_of(**m) for m in messages)])
    return TOKENIZER.decode(prompt.to_ints(), clean_up_tokenization_spaces=False)


def parse(request):
    made, ids = renderer(request), TOKENIZER.encode(request["text"], add_special_tokens=False)
    return lines.read_message(made.to_openai_message(made.parse_response(ids)[0]))


lines.answer(["v4.1"], encode, parse)
