"""Prompts of SGLang's own request handling: python sglang_requests.py SPEC TOKENIZER < requests

It runs in SGLang's environment, without a GPU. Requests are lines of JSON; of each comes its prompt
as a line of JSON, or null where it is refused. SPEC is SGLang's name of the format: dsv4, dsv41.

Chat requests go through `_validate_request` and `_process_messages` of `OpenAIServingChat`. They
need no model, but their module imports much that does: those packages are stand-ins, of which
nothing is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

# Models, kernels and what runs them.
UNUSED = (
    *("managers", "configs", "layers", "multimodal", "model_loader", "models", "disaggregation"),
    *("mem_cache", "distributed", "observability"),
    *("utils.hf_transformers", "utils.hf_transformers_utils"),
)
PARSERS = {"reasoning_parser": "deepseek-v4", "tool_call_parser": "deepseekv4"}


class _StandIn(ModuleType):
    """A package of which any class and function can be imported."""

    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else MagicMock(name=name)


class _StandIns(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        unused = (f"sglang.srt.{name}" for name in UNUSED)
        found = any(fullname == name or fullname.startswith(f"{name}.") for name in unused)
        return ModuleSpec(fullname, self, is_package=True) if found else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Settings(SimpleNamespace):
    """Those of a server that was started without options: what is not set is None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def serving(spec: str, tokenizer: object) -> Any:
    """The handler of chat requests, as a server of this format makes it."""
    sys.meta_path.insert(0, _StandIns())
    from sglang.srt import runtime_context
    from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat

    context: Any = type(runtime_context._CONTEXT)
    context.config_bag = lambda self, name: _Settings(**PARSERS)
    handler: Any = OpenAIServingChat
    handler._resolve_chat_encoding_spec = lambda self: spec
    manager = MagicMock(tokenizer=tokenizer)
    manager.config_value.side_effect = lambda name, *_: PARSERS.get(name)
    manager.model_config.hf_config = SimpleNamespace(
        architectures=["DeepseekV4ForCausalLM"], model_type="deepseek_v4"
    )
    manager.model_config.get_default_sampling_params.return_value = {}
    template = MagicMock(chat_template_name=None, force_reasoning=False)
    return handler(manager, template)


def main(spec: str, vocabulary: str) -> None:
    from transformers import PreTrainedTokenizerFast

    from dsv4 import DIALECTS

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=vocabulary)
    tokens = [str(token) for token in DIALECTS["v4.1"].special_tokens]
    tokenizer.add_tokens(tokens, special_tokens=True)
    handler = serving(spec, tokenizer)
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest

    for line in sys.stdin:
        try:
            request = ChatCompletionRequest(**{"model": "m", **json.loads(line)})
            refusal = handler._validate_request(request)
            if refusal is not None:
                raise ValueError(refusal)
            ids = handler._process_messages(request, False).prompt_ids
        except Exception:  # whatever it says no with
            print("null")
        else:
            print(json.dumps(tokenizer.decode(ids, clean_up_tokenization_spaces=False)))


if __name__ == "__main__":
    main(*sys.argv[1:])
