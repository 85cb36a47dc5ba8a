"""A tiny model for llama.cpp, as a GGUF file: the real V4 vocabulary, and weights that are a table.

    python tests/serve/tiny_model.py FILE

Attention and the feed-forward part are zero, so the logits depend only on the last token. Each
token of a chain has a direction of its own in the embedding, and the output row of its successor
points there: after that token the model always writes its successor. What is in no chain is
followed by one of a few favourites.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from dsv4._format.tokens import DSML, EOS, THINK_END, THINK_START, Special, markup
from dsv4.tokens import Tokenizer

# After a prompt in thinking mode: reasoning, an answer, the end. The second character of the answer
# is made of several tokens.
ANSWER = f"{THINK_START}Hmm{THINK_END}Hello 🛰!{EOS}"
# A prefix that ends with this word goes on without end.
ENDLESS = "loop loop"
# What a model that is held to a grammar needs, to come to an end: a block of calls is opened after
# a blank line, and values are closed as soon as they are open.
USUAL = (("\n\n", "<"), ("<", DSML), ("</", DSML), (DSML, "parameter"), ('">', "</"), (">", "</"))
# What follows anything else, the likeliest first, as far as the grammar allows it.
FAVOURITES = ("\n\n", '"', "</", "}", "]", EOS)

WIDTH = 64
SURE, LIKELY = 12.0, 4.0


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text in which special tokens are spelled."""
    ids: list[int] = []
    for part in markup(text).parts:
        if isinstance(part, Special):
            ids.append(tokenizer.special_id(part))
        else:
            ids += tokenizer.encode_text(part)
    return ids


def successors(tokenizer: Tokenizer) -> dict[int, int]:
    """What follows each token of the chains."""
    answer, endless = ids_of(tokenizer, ANSWER), ids_of(tokenizer, ENDLESS)
    table = dict(pairwise(answer))
    assert len(table) == len(answer) - 1, "a token occurs twice: what follows it is not clear"
    table[endless[-1]] = endless[-1]
    return table | {_one(tokenizer, text): _one(tokenizer, next) for text, next in USUAL}


def _one(tokenizer: Tokenizer, text: str) -> int:
    (id,) = ids_of(tokenizer, text)
    return id


def write(path: Path, tokenizer: Tokenizer) -> None:
    """Writes the model."""
    import gguf
    import numpy

    vocabulary = json.loads(tokenizer.vocabulary.text)
    pieces, kinds = _pieces(vocabulary)
    count = len(pieces)

    # Dimension 0 is the direction of every token that is in no chain.
    embedding = numpy.zeros((count, WIDTH), numpy.float16)
    output = numpy.zeros((count, WIDTH), numpy.float16)
    embedding[:, 0] = 1
    for rank, text in enumerate(FAVOURITES):
        output[_one(tokenizer, text), :] = LIKELY - rank * 0.5
    for dimension, (token, successor) in enumerate(successors(tokenizer).items(), 1):
        embedding[token, 0], embedding[token, dimension] = 0, 1
        output[successor, dimension] = SURE

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-deepseek-v4")
    writer.add_context_length(32768)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(count)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("deepseek-v3")
    writer.add_token_list(pieces)
    writer.add_token_types(kinds)
    writer.add_token_merges(list(_merges(vocabulary)))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(True)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", numpy.ones(WIDTH, numpy.float32))
    for name, shape in _ZERO.items():
        writer.add_tensor(f"blk.0.{name}.weight", numpy.zeros(shape, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


_ZERO = {
    **{f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
    "ffn_gate": (32, WIDTH),
    "ffn_up": (32, WIDTH),
    "ffn_down": (WIDTH, 32),
}


def _pieces(vocabulary: Any) -> tuple[list[str], list[int]]:
    """Every token with its kind, as GGUF numbers them. What looks like a control token is one, as
    in the files that people convert: its text is empty unless the server is told otherwise."""
    normal, control, user_defined = 1, 3, 4
    pieces = {id: (text, normal) for text, id in vocabulary["model"]["vocab"].items()}
    for token in vocabulary["added_tokens"]:
        text = token["content"]
        is_control = token["special"] or (text.startswith("<｜") and text.endswith("｜>"))
        pieces[token["id"]] = (text, control if is_control else user_defined)
    ordered = [pieces[id] for id in range(len(pieces))]
    return [text for text, _ in ordered], [kind for _, kind in ordered]


def _merges(vocabulary: Any) -> Iterator[str]:
    for merge in vocabulary["model"]["merges"]:
        yield merge if isinstance(merge, str) else " ".join(merge)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Tokenizer.load())
