"""What vLLM's own classes make of requests for ids: python vllm_generate.py < bodies

It runs in vLLM's environment, without a model, also from the Python files of a wheel that has no
build for a CPU. Bodies of `/inference/v1/generate` are lines of JSON; of each comes, as a line of
JSON, what `GenerateRequest` read, or why it refuses; the last line is a stream of its own response
classes.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def read(body: Any, protocol: Any) -> Any:
    try:
        request = protocol.GenerateRequest.model_validate(body)
    except Exception as error:  # whatever it says no with
        return {"refused": repr(error)[:300]}
    sampling = request.sampling_params
    return {
        "ids": request.token_ids,
        "parts": request.content_parts,
        "stream": request.stream,
        "sampling": {
            name: getattr(sampling, name)
            for name in ("max_tokens", "skip_special_tokens", "min_p", "extra_args", "seed")
        },
        "salt": request.cache_salt,
    }


def stream(protocol: Any, usage: Any) -> list[str]:
    """The chunks of an answer of two tokens to a prompt of five that became nine."""
    chunk, choice = protocol.GenerateTokensStreamResponse, protocol.GenerateTokensStreamChoice
    where = protocol.PlaceholderRangeInfo(offset=1, length=5)
    first = chunk(
        request_id="r",
        choices=[choice(index=0, token_ids=[20])],
        prompt_token_ids=list(range(9)),
        mm_placeholders={"image": [where]},
    )
    second = chunk(request_id="r", choices=[choice(index=0, token_ids=[1], finish_reason="stop")])
    counted = usage(prompt_tokens=9, completion_tokens=2, total_tokens=11)
    last = chunk(request_id="r", choices=[], usage=counted)
    return [each.model_dump_json() for each in (first, second, last)]


def main() -> None:
    from vllm.entrypoints.scale_out.token_in_token_out import protocol
    from vllm.entrypoints.serve.engine.protocol import UsageInfo

    for line in sys.stdin:
        print(json.dumps(read(json.loads(line), protocol)))
    print(json.dumps(stream(protocol, UsageInfo)))


if __name__ == "__main__":
    main()
