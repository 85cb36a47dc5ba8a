"""ms-swift: its templates, with stand-ins in place of PyTorch, and the parsers of its agents."""

from unittest.mock import Mock

import conform_lines as lines

lines.stand_ins("torch", "transformers", "accelerate", "datasets", "modelscope", "peft", "trl")
import transformers  # noqa: E402

transformers.PreTrainedTokenizerBase = transformers.ProcessorMixin = lines.CodePoints
from swift.agent_template import agent_template_map  # noqa: E402
from swift.template import get_template  # noqa: E402

NAMES = {"v4": "deepseek_v4", "v4.1": "deepseek_v41"}


def encode(request):
    if not request.get("drop_thinking", True):
        raise lines.Unsupported("drop_thinking")
    messages, tools = lines.open_request(lines.flat(request))
    lines.put_reasoning_into_contents(messages)
    lines.set_variable("REASONING_EFFORT", request.get("reasoning_effort"))
    kind, tokenizer = NAMES[request["dialect"]], lines.CodePoints()
    tokenizer.model_info = Mock(model_dir="/", max_model_len=1 << 20, task_type="causal_lm")
    tokenizer.model_meta = Mock(is_multimodal=False)
    thinking = {"enable_thinking": request["thinking_mode"] == "thinking"}
    template = get_template(tokenizer, template_type=kind, **thinking)
    template.set_mode("vllm")
    ids = template.encode({"messages": messages, "tools": tools})["input_ids"]
    return "".join(map(chr, ids))


def parse(request):
    calls = agent_template_map[NAMES[request["dialect"]]]().get_toolcall(
        lines.seen(request["text"])
    )
    return lines.called([(call.name, call.arguments) for call in calls], None)


lines.answer(NAMES, encode, parse)
