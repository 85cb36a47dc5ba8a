"""Reads completions with Dynamo's frontend: python dynamo_parsers.py TOKENIZER < rows > readings

It runs in Dynamo's environment, in front of a worker that says what a row has, token by token. Rows
and readings are those of `sglang_parsers.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from conform_lines import pairs_of, read_deltas, read_message
from dynamo_frontend import DynamoFrontend

Row = dict[str, Any]


def reading(frontend: DynamoFrontend, row: Row, *, stream: bool) -> Row | None:
    body: Row = {
        "messages": [{"role": "user", "content": "Hi"}],
        "chat_template_kwargs": {"thinking": row["thinking"]},
        **({"tools": row["tools"]} if row["tools"] else {}),
    }
    try:
        if stream:
            return pairs_of(read_deltas(frontend.chunks("v4", row["text"], body)))
        return pairs_of(read_message(frontend.message("v4", row["text"], body)))
    except ValueError as error:  # whatever it says no with
        print(f"{row['name']}: {error!r}", file=sys.stderr)
        return None


def main(vocabulary: str) -> None:
    frontend = DynamoFrontend(Path(vocabulary))
    for line in sys.stdin:
        row = json.loads(line)
        both = [reading(frontend, row, stream=stream) for stream in (False, True)]
        print(json.dumps(both), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
