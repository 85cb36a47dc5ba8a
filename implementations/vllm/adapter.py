"""vLLM: its encoders of V4 (0731) and of V4.1 (September's, with three of October's changes), and
its parsers as its server composes them."""

import conform_lines as lines

TOKENIZER = lines.v4_tokenizer()
lines.stand_ins("torch", "xgrammar", "aiohttp", "mistral_common")
SERVER = "config distributed model_executor multimodal platforms renderers sampling_params v1"
lines.stand_ins("vllm.tokenizers", *(f"vllm.{name}" for name in SERVER.split()))

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest  # noqa: E402
from vllm.parser.parser_manager import ParserManager  # noqa: E402
from vllm.renderers.chat_utils import make_tool_call_id  # noqa: E402

make_tool_call_id.return_value = "call_0"
NAMES = {"v4": "deepseek_v4", "v4-0731": "deepseek_v4"}
NAMES |= {"v4.1": "deepseek_v41", "v4.1-1017": "deepseek_v41"}


def encode(request):
    request = lines.flat(request)  # its tokenizer joins lists of texts before
    options = lines.options_of(request)
    module = lines.module_in("vllm", f"tokenizers/{NAMES[request['dialect']]}_encoding.py")
    return module.encode_messages(request["messages"], request["thinking_mode"], **options)


def parse(request):
    name, text = NAMES[request["dialect"]], lines.seen(request["text"])
    body = ChatCompletionRequest(model="m", **lines.parsed_body(request))
    made = ParserManager.get_parser(name, name, enable_auto_tools=True, model_name="deepseek-v4")
    parser = made(TOKENIZER, body.tools, chat_template_kwargs=body.chat_template_kwargs)
    options = {"model_output_token_ids": TOKENIZER.encode(text, add_special_tokens=False)}
    reasoning, content, calls = parser.parse(text, body, enable_auto_tools=True, **options)
    made = [(call.name, call.arguments) for call in calls or ()]
    return lines.called(made, content or "", reasoning or "")


lines.answer(NAMES, encode, parse, encoded=("v4-0731", "v4.1", "v4.1-1017"))
