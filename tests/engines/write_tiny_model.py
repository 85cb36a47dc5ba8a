"""Writes a random model of two layers with the V4 vocabulary.

    python write_tiny_model.py TOKENIZER OUT

It runs in vLLM's environment, which has PyTorch. TOKENIZER is a folder with `tokenizer.json`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    vocabulary, out = map(Path, sys.argv[1:3])
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64}
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    limits = {"vocab_size": 129_280, "max_position_embeddings": 16_384}
    config = LlamaConfig(**limits, **sizes, **heads, **ends, tie_word_embeddings=False)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(vocabulary / name, out / name)
    (out / "generation_config.json").write_text(json.dumps(ends), "utf-8")


main()
