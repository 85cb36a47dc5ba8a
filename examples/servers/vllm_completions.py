"""Our chat layer in front of vLLM's `/v1/completions`, in place of its own.

    vllm serve deepseek-ai/DeepSeek-V4-Flash --port 8001
    pip install dsv4 fastapi uvicorn httpx
    VLLM=http://127.0.0.1:8001 uvicorn --app-dir examples/servers vllm_completions:app

vLLM only completes text here: prompts, reasoning and calls are made and read by dsv4, and clients
of all three protocols are answered.
"""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
from fastapi_app import make_app

from dsv4.api import ApiRequest

VLLM = os.environ.get("VLLM", "http://127.0.0.1:8001")
client = httpx.AsyncClient(base_url=VLLM, timeout=httpx.Timeout(10, read=None))


def options(prompt: str, call: ApiRequest) -> dict[str, Any]:
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
        "max_tokens": call.max_tokens,
        "stream": True,
        **{name: value for name, value in asked.items() if value is not None},
    }


async def generate(prompt: str, call: ApiRequest) -> AsyncIterator[str]:
    """What vLLM writes after a prompt, in pieces."""
    body = options(prompt, call)
    async with client.stream("POST", "/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                for choice in json.loads(line[len("data: ") :])["choices"]:
                    yield choice["text"]


app = make_app(generate)
