"""Reads completions with deepseek-recipe: python recipe_parsers.py < rows > readings

Rows and readings are those of `sglang_parsers.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from conform_lines import pairs_of, read_deltas

Row = dict[str, Any]


def reading(row: Row, pieces: Sequence[str]) -> Row | None:
    import deepseek_recipe as recipe

    body = {
        "model": "DeepSeek-V4-Pro",
        "messages": [{"role": "user", "content": "Hi"}],
        "thinking": {"type": "enabled" if row["thinking"] else "disabled"},
        **({"tools": row["tools"]} if row["tools"] else {}),
    }
    try:
        read = recipe.ChatCompletionRequest(json.dumps(body)).convert(recipe.ConversionOptions())
        chunks = recipe.ChatCompletionRequest.chunk_generator(read, "id", "m")
        processor = recipe.StreamProcessor(chunks, read.parsing_options)
        processor.push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage()))
        said = [recipe.InferenceChunk.text(piece, 1) for piece in pieces if piece]
        events = [event for each in said for event in processor.push(each)]
        events += processor.finish()
    except Exception as error:  # whatever it says no with
        print(f"{row['name']}: {error!r}", file=sys.stderr)
        return None
    return pairs_of(read_deltas([json.loads(event.to_json()) for event in events]))


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps([reading(asked, [asked["text"]]), reading(asked, asked["pieces"])]))
