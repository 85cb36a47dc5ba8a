"""Prompts of vLLM's own request handling: python vllm_requests.py DIALECT TOKENIZER < requests

It runs in vLLM's environment, without a model: a release that has no build for a CPU can be run so,
from the Python files of its wheel. Requests are lines of JSON; of each comes its prompt as a line
of JSON, or null where it is refused.

A request becomes a `ChatCompletionRequest`, its options those of `build_chat_params`, its messages
go through the renderer of the dialect, as `OnlineRenderer.render_chat` has it.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

MODULES = {"v4": "deepseek_v4", "v4.1": "deepseek_v41"}


def renderer_of(dialect: str, tokenizer: Any) -> Any:
    """The renderer that a server of this dialect has, around a tokenizer of the vocabulary."""
    module = MODULES[dialect]
    wrap = getattr(import_module(f"vllm.tokenizers.{module}"), f"get_{module}_tokenizer")
    renderers: Any = import_module("vllm.renderers.deepseek_v4")
    made = renderers.DeepseekV4Renderer
    if dialect == "v4.1":
        made = getattr(renderers, "DeepseekV41Renderer", made)
    renderer = made.__new__(made)
    renderer.tokenizer = wrap(tokenizer)
    renderer.model_config = MagicMock(
        multimodal_config=None, hf_config=SimpleNamespace(model_type="deepseek_v4")
    )
    return renderer


def prompt_of(body: Any, renderer: Any) -> str:
    """The prompt of a request. Raises whatever vLLM refuses it with."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.renderers.params import merge_kwargs

    request = ChatCompletionRequest.model_validate({"model": "m", **body})
    tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
    options = request.build_chat_params(None, "auto")
    options = options.with_defaults(merge_kwargs({}, {"tools": tools, "tokenize": False}))
    prompt: str = renderer.render_messages(request.messages, options)[1]["prompt"]
    return prompt


def main(dialect: str, vocabulary: str) -> None:
    from transformers import PreTrainedTokenizerFast

    renderer = renderer_of(dialect, PreTrainedTokenizerFast(tokenizer_file=vocabulary))
    for line in sys.stdin:
        try:
            answer = json.dumps(prompt_of(json.loads(line), renderer))
        except Exception as error:  # whatever it says no with
            print(repr(error)[:300].replace("\n", " "), file=sys.stderr)
            answer = "null"
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
