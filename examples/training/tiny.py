"""A tokenizer with the real V4 vocabulary, and a model that is small enough for a laptop.

The model is made on the spot and knows nothing. Put your own checkpoint in its place:
`AutoTokenizer.from_pretrained(…)`, `AutoModelForCausalLM.from_pretrained(…)`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments

from dsv4.compat import hf
from dsv4.tokens import Tokenizer

HERE = Path(__file__).parent
# A tiny model has memory to spare. `transformers` 5.23 has another name for this.
_NEW_NAME = "activation_checkpointing"
_NAMES = [field.name for field in fields(TrainingArguments)]
# What trainers need on a CPU, and to be quiet and the same every time.
ON_A_CPU: dict[str, Any] = {
    **{"save_strategy": "no", "report_to": "none", "use_cpu": True, "bf16": False, "seed": 0},
    _NEW_NAME if _NEW_NAME in _NAMES else "gradient_checkpointing": False,
}
TRAINED = HERE.parent.parent / "build" / "training"


def new_tokenizer() -> Any:
    """A tokenizer of `transformers` whose prompts and answers are dsv4's."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=Tokenizer.load().vocabulary.name,
        eos_token="<｜end▁of▁sentence｜>",
        pad_token="<｜▁pad▁｜>",
    )
    # In training a turn must stay what it was when it was sampled, whatever follows it.
    return hf.install(tokenizer, drop_thinking=False)


def trained_model() -> Any:
    """The model that sft.py trained, for programs that go on from it."""
    if not (TRAINED / "sft" / "config.json").exists():
        sys.exit("examples/training/sft.py comes first: it trains the model that this goes on from")
    return LlamaForCausalLM.from_pretrained(TRAINED / "sft")


def new_model(tokenizer: Any, width: int = 128) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def conversations() -> list[dict[str, Any]]:
    """`conversations.jsonl`: one conversation a line, with its tools."""
    lines = (HERE / "conversations.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]
