"""What programs read of a model before its weights: vocabulary, kind and sizes, in a folder.

Runs in the environments of other implementations, which dsv4 is not installed in.
"""

from __future__ import annotations

import json
from pathlib import Path

# The model's name, and its kind, by which programs choose how they write prompts; so are their
# parsers named.
MODELS = {
    "v4": ("DeepSeek-V4-Pro", "deepseek_v4"),
    "v4.1": ("DeepSeek-V4.1-Flash", "deepseek_v41"),
}
_ARCHITECTURES = {"v4": ["DeepseekV4ForCausalLM"], "v4.1": ["DeepseekV41ForCausalLM"]}
# What V4.1 calls reserved tokens of V4's vocabulary.
_RENAMED = {128799: "<｜System｜>", 129264: "<｜deepseek_image｜>"}


def vocabulary_text(dialect: str, vocabulary: Path) -> str:
    """The vocabulary of a dialect, made of V4's, as `tokenizer.json` has it."""
    written = json.loads(vocabulary.read_text("utf-8"))
    if dialect == "v4.1":
        for token in written["added_tokens"]:
            token["content"] = _RENAMED.get(token["id"], token["content"])
    return json.dumps(written)


def write_model(folder: Path, dialect: str, vocabulary: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(vocabulary_text(dialect, vocabulary), "utf-8")
    ends = {"bos_token_id": 0, "eos_token_id": 1}
    (folder / "generation_config.json").write_text(json.dumps(ends), "utf-8")
    kind = {"architectures": _ARCHITECTURES[dialect], "model_type": MODELS[dialect][1]}
    sizes = {"vocab_size": 129280, "max_position_embeddings": 1_048_576}
    (folder / "config.json").write_text(json.dumps({**kind, **sizes, **ends}), "utf-8")
    options = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")
