"""ms-swift: its templates, which write ids, and its parsers of calls, both without PyTorch."""

from importlib import import_module
from types import SimpleNamespace

import conform_lines as lines

NAMES = {"v4": "deepseek_v4", "v4-0731": "deepseek_v4_flash", "v4.1": "deepseek_v41"}
TOKENIZERS = {dialect: lines.v4_tokenizer(dialect) for dialect in NAMES}
lines.stand_ins("torch", "datasets", "modelscope", "pandas", "peft", "requests", "urllib3")
import_module("torch").inference_mode.return_value = lambda function: function
from swift.template import get_template  # noqa: E402

MODEL = {"model_dir": "", "max_model_len": 1 << 20, "task_type": "causal_lm", "torch_dtype": None}
TEMPLATES = {}
for dialect, tokenizer in TOKENIZERS.items():
    tokenizer.model_info = SimpleNamespace(config=SimpleNamespace(image_token_id=129264), **MODEL)
    tokenizer.model_meta = SimpleNamespace(is_multimodal=dialect == "v4.1", template=None)
    TEMPLATES[dialect] = get_template(tokenizer, template_type=NAMES[dialect])


def encode(request):
    lines.refuse_encoder_options(request)
    messages, tools = lines.with_tools_apart(request)
    lines.refuse_parts_but(messages, "text")
    template, thinking = TEMPLATES[request["dialect"]], request["thinking_mode"] == "thinking"
    messages = lines.with_reasoning_inside(messages, thinking=thinking)
    options = {"enable_thinking": thinking, "reasoning_effort": request.get("reasoning_effort")}
    options["preserve_thinking"] = not request.get("drop_thinking", True)
    template.set_mode("train" if lines.is_answered(messages) else "transformers")
    row = {"messages": messages, "tools": tools, "chat_template_kwargs": options}
    return template.tokenizer.decode(template.encode(row)["input_ids"])


def parse(request):
    calls = TEMPLATES[request["dialect"]].agent_template.get_toolcall(lines.seen(request["text"]))
    return lines.called([(call.name, call.arguments) for call in calls], None)


lines.answer(NAMES, encode, parse)
