"""Prompts of deepseek-recipe: python recipe_requests.py DIALECT < requests

It runs in an environment that has the package. Requests are lines of JSON; of each comes its prompt
as a line of JSON, or null where it is refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MODELS = {"v4": "DeepSeek-V4-Pro", "v4.1": "DeepSeek-V4.1-Flash"}


def main(dialect: str, *_: str) -> None:
    import deepseek_recipe as recipe

    encoding: Any = recipe.DeepseekV4Encoding() if dialect == "v4" else recipe.DeepseekV41Encoding()
    for line in sys.stdin:
        body = json.dumps({**json.loads(line), "model": MODELS[dialect]}, ensure_ascii=False)
        try:
            request = recipe.ChatCompletionRequest(body).convert(recipe.ConversionOptions())
            prompt = encoding.render_conversation(request.conversation).prompt
        except Exception:  # whatever it says no with
            prompt = None
        print(json.dumps(prompt), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
