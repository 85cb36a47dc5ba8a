"""Our chat layer in front of vLLM's `/v1/completions`, in place of its own.

    vllm serve deepseek-ai/DeepSeek-V4-Flash --port 8001 --enable-prompt-tokens-details
    pip install dsv4 fastapi uvicorn httpx
    VLLM=http://127.0.0.1:8001 uvicorn --app-dir examples/servers vllm_completions:app

vLLM only completes text here: prompts, reasoning and calls are made and read by dsv4, and clients
of all three protocols are answered.
"""

import json
import os
from typing import Any

import httpx
from fastapi_app import Ended, Pieces, make_app

from dsv4.api import ApiError, ApiRequest, ContextOverflow, Usage

VLLM = os.environ.get("VLLM", "http://127.0.0.1:8001")
client = httpx.AsyncClient(base_url=VLLM, timeout=httpx.Timeout(10, read=None))


def options(prompt: str, call: ApiRequest, most: int) -> dict[str, Any]:
    """The body for vLLM. Special tokens are needed in what comes back."""
    sampling = call.sampling
    asked = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": sampling.seed,
    }
    return {
        "model": call.model,
        "prompt": prompt,
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "max_tokens": most,
        "stream": True,
        "stream_options": {"include_usage": True},
        **{name: value for name, value in asked.items() if value is not None},
    }


async def room_for(prompt: str, call: ApiRequest) -> int:
    """How many tokens may be generated: vLLM refuses more than its context leaves."""
    asked = {"model": call.model, "prompt": prompt, "add_special_tokens": False}
    response = await client.post("/tokenize", json=asked)
    await refuse_failure(response)
    counted = response.json()
    tokens, context = counted["count"], counted["max_model_len"]
    if tokens >= context:
        raise ContextOverflow(tokens, context)
    return min(call.max_tokens, context - tokens)


async def refuse_failure(response: httpx.Response) -> None:
    """Passes vLLM's own errors on: the client's with their status, others as a fault of ours."""
    if response.is_success:
        return
    said = (await response.aread()).decode("utf-8", "replace")
    status = response.status_code if response.status_code in (400, 404, 429, 503) else 502
    raise ApiError(f"vLLM answered {response.status_code}: {said[:500]}", status=status)


async def generate(prompt: str, call: ApiRequest) -> Pieces:
    """What vLLM writes after a prompt, in pieces, and how it ended."""
    body = options(prompt, call, await room_for(prompt, call))
    reason, usage = None, Usage()
    async with client.stream("POST", "/v1/completions", json=body) as response:
        await refuse_failure(response)
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line[len("data: ") :])
            if event.get("error"):
                raise ApiError(f"vLLM failed: {event['error']}", status=502)
            for choice in event["choices"]:
                reason = choice.get("finish_reason") or reason
                yield choice["text"]
            usage = usage_of(event.get("usage")) or usage
    # No stop strings are sent, so "stop" is the model's own end.
    yield Ended("eos" if reason == "stop" else reason, usage)


def usage_of(counts: Any) -> Usage | None:
    if not counts:
        return None
    details = counts.get("prompt_tokens_details") or {}
    return Usage(
        prompt=counts["prompt_tokens"],
        cached=details.get("cached_tokens"),
        completion=counts["completion_tokens"],
    )


app = make_app(generate)
