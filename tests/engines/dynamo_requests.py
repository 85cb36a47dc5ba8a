"""Prompts of Dynamo's own frontend: python dynamo_requests.py DIALECT TOKENIZER < requests

It runs in Dynamo's environment, in front of a worker without a model. Requests are lines of JSON;
of each comes its prompt as a line of JSON, or null where it is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from dynamo_frontend import DynamoFrontend


def main(dialect: str, vocabulary: str) -> None:
    frontend = DynamoFrontend(Path(vocabulary))
    for line in sys.stdin:
        try:
            answer = json.dumps(frontend.prompt(dialect, json.loads(line)))
        except ValueError as error:  # whatever it says no with
            print(repr(error)[:300], file=sys.stderr)
            answer = "null"
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
