"""The peer of bench/serve.py: what one writes in an afternoon around DeepSeek's own package.

FastAPI takes the request, deepseek-recipe renders the prompt and reads the completion, httpx brings
it from the engine. No keys, no limits, no time-outs, no cancellation, no replay.

    UPSTREAM=http://127.0.0.1:8001 uvicorn --app-dir bench serve_peer:app
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import deepseek_recipe as recipe
import httpx
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

UPSTREAM = os.environ["UPSTREAM"]
OPTIONS = recipe.ConversionOptions()
ENCODING = recipe.DeepseekV4Encoding()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/v1/chat/completions")
async def chat(request: Request) -> StreamingResponse:
    body = await request.json()
    return StreamingResponse(stream(body), media_type="text/event-stream")


async def stream(body: dict[str, Any]) -> AsyncIterator[str]:
    asked = recipe.ChatCompletionRequest(body)
    converted = asked.convert(OPTIONS)
    generator = recipe.ChatCompletionRequest.chunk_generator(converted, "chatcmpl-1", body["model"])
    processor = recipe.StreamProcessor(generator, converted.parsing_options)
    for event in processor.push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage())):
        yield f"data: {event.to_json()}\n\n"
    async for text in completion(ENCODING.render_conversation(converted.conversation).prompt, body):
        for event in processor.push(recipe.InferenceChunk.text(text, 1)):
            yield f"data: {event.to_json()}\n\n"
    for event in processor.finish():
        yield f"data: {event.to_json()}\n\n"
    yield "data: [DONE]\n\n"


async def completion(prompt: str, body: dict[str, Any]) -> AsyncIterator[str]:
    """The texts that the engine generates."""
    asked = {
        "model": body["model"],
        "prompt": prompt,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 65536,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "seed": body["seed"],
    }
    async with app.state.client.stream("POST", f"{UPSTREAM}/v1/completions", json=asked) as lines:
        async for line in lines.aiter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                for choice in json.loads(line[6:])["choices"]:
                    if choice["text"]:
                        yield choice["text"]
