"""A stand-in for vLLM's chat route: it writes the prompts that vLLM writes for what a client sends
back, answers as the demo model does, and says the ids of both, as `return_token_ids` asks for.

    python chat_server.py PORT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from aiohttp import web

import dsv4
from dsv4.profiles import render
from dsv4.serve.backends.demo_model import answer_to, read_prompt, write_answer
from dsv4.serve.markup_ids import markup_ids
from dsv4.tokens import Tokenizer

MODEL = "deepseek-v4"
Body = dict[str, Any]


class ChatServer:
    """The server, with the tokenizer of the model."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.load()

    def chunks(self, body: Body) -> Iterator[Body]:
        """The answer to a request, as it is streamed."""
        options = {"chat_template_kwargs": {"thinking": True}, **body}
        read = dsv4.decode(render(options, "vllm-0.32"), dialect="v4-0731").request
        prompt = read.encode()
        ids = self._tokenizer.encode(prompt)
        asked = read_prompt(prompt)
        text = write_answer(answer_to(asked, len(ids)), asked)
        message = dsv4.parse(text, ending=prompt.ending, tools=body.get("tools"), dialect="v4-0731")
        head = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
        choice: Body = {"index": 0, "delta": _delta(message), "finish_reason": None}
        choice["token_ids"] = markup_ids(self._tokenizer, text)
        last = "tool_calls" if message.tool_calls else "stop"
        yield {**head, "prompt_token_ids": ids, "choices": [choice]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": last}]}
        counts = {"prompt_tokens": len(ids), "completion_tokens": len(choice["token_ids"])}
        yield {**head, "choices": [], "usage": {**counts, "total_tokens": sum(counts.values())}}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", _models)
        app.router.add_get("/health", _healthy)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        chunks = list(self.chunks(body))
        if not body.get("stream"):
            return web.json_response(_whole(chunks))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _delta(message: dsv4.Message) -> Body:
    calls = [
        {
            "index": n,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for n, call in enumerate(message.tool_calls)
    ]
    said: Body = {"role": "assistant", "content": message.content}
    said["reasoning_content"] = message.reasoning
    return {**said, "tool_calls": calls} if calls else said


def _whole(chunks: list[Body]) -> Body:
    """The same answer to a request that did not ask for a stream."""
    first, last, counts = chunks
    choice = {**first["choices"][0], "finish_reason": last["choices"][0]["finish_reason"]}
    choice["message"] = choice.pop("delta")
    return {**first, "object": "chat.completion", "choices": [choice], "usage": counts["usage"]}


async def _models(request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})


async def _healthy(request: web.Request) -> web.Response:
    return web.json_response({})


if __name__ == "__main__":
    web.run_app(ChatServer().app(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
