"""A stand-in for DeepSeek's official API: it refuses what that API refuses, writes the prompt that
it writes, and answers as the demo model does.

Its rules are those of docs/official-api.md; `dsv4 serve --as deepseek-api` has them too. This one
answers with turns that are hard to send back as they were.

It keeps every prompt, beside the one that a perfect client would have caused: one that sends each
turn back as it was sampled.

    python official_api.py PORT        # prints what it has seen when it is stopped
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from dsv4 import EncodeError, dialect_for
from dsv4.profiles import render
from dsv4.profiles.official_api import words
from dsv4.profiles.profile import profile_named
from dsv4.serve.backends.demo_model import DemoAnswer, DemoPrompt, answer_to, asked_again

MODELS = ("deepseek-v4-flash-0731", "deepseek-v4-pro-0813")
MISSING = words("reasoning")
Body = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A request, its prompt, and that of a perfect client."""

    body: Body
    prompt: str
    perfect: str


class Refused(Exception):
    """What the API answers with a 400."""


class OfficialApi:
    """The API. `dialect` is the model's, as profiles name it; servers that copy the API do not
    always give ids to calls."""

    def __init__(self, dialect: str = "v4", *, gives_ids: bool = True) -> None:
        self.dialect = dialect
        self._gives_ids = gives_ids
        self.seen: list[Seen] = []
        self.refused: list[str] = []
        self._sampled: dict[str, Body] = {}  # by the numbers of calls, and by content

    # Requests.

    def read(self, body: Body) -> Body:
        """The turn that answers a request. Raises `Refused`."""
        try:
            prompt = render(body, "deepseek-api", dialect=self.dialect)
            thinking = profile_named("deepseek-api").mode(body, self.dialect).thinking
        except EncodeError as error:
            raise Refused(error.problem) from None
        perfect = {**body, "messages": [self._as_sampled(m) for m in body["messages"]]}
        self.seen.append(Seen(body, prompt, render(perfect, "recipe-0.2.0", dialect=self.dialect)))
        asked = _asked(body, thinking, self.dialect)
        return self._turn(answer_to(asked, None), thinking, is_json=bool(asked.response_format))

    def _as_sampled(self, message: Body) -> Body:
        """A message as it was sampled, with the ids that the client gives its calls now."""
        if message["role"] != "assistant":
            return message
        calls = message.get("tool_calls") or []
        said = _text(message.get("content")).strip()
        sampled = self._sampled.get(_number_of(calls[0]["id"]) if calls else said)
        if sampled is None or len(sampled.get("tool_calls", ())) != len(calls):
            return message
        exact = dict(sampled)
        if calls:
            exact["tool_calls"] = [
                {**ours, "id": theirs["id"]}
                for ours, theirs in zip(sampled["tool_calls"], calls, strict=True)
            ]
        return exact

    def _turn(self, answer: DemoAnswer, thinking: bool, *, is_json: bool) -> Body:
        number = "" if is_json else f"\n\n{secrets.token_hex(6)}"  # so that no two turns are equal
        said = f"{answer.content}{number}"
        turn: Body = {"role": "assistant", "content": said}
        if thinking:
            turn["reasoning_content"] = f"{answer.reasoning} ({secrets.token_hex(6)})\n“so be it” "
        if answer.calls:
            turn["content"] = "Let me see.\n"
            # Written with two spaces, which no client does.
            turn["tool_calls"] = [
                {
                    "id": f"call_{n:02}_{secrets.token_hex(8)}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps(arguments, separators=(",  ", ":  ")),
                    },
                }
                for n, (name, arguments) in enumerate(answer.calls)
            ]
        for call in turn.get("tool_calls", ()):
            self._sampled[_number_of(call["id"])] = turn
        if not answer.calls:
            self._sampled[said] = turn
        return turn

    @property
    def imperfect(self) -> list[Seen]:
        """Requests whose prompts are not those of a perfect client, the unknown aside."""
        return [
            seen
            for seen in self.seen
            if seen.prompt != seen.perfect and not any(map(_is_stopgap, seen.body["messages"]))
        ]

    @property
    def unknown(self) -> int:
        """How many requests have a turn whose reasoning was not known, though it had some."""
        return sum(any(map(self._is_unknown, seen.body["messages"])) for seen in self.seen)

    def _is_unknown(self, message: Body) -> bool:
        if not _is_stopgap(message):
            return False
        sampled = self._as_sampled(message)
        # Where a call was forced, the model did not think: there is nothing to know.
        return sampled is message or "reasoning_content" in sampled

    # The server.

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**28)
        for prefix in ("", "/v1", "/beta"):
            app.router.add_post(f"{prefix}/chat/completions", self._complete)
            app.router.add_get(f"{prefix}/models", self._models)
        return app

    async def _models(self, request: web.Request) -> web.Response:
        models = [{"id": id, "object": "model", "owned_by": "deepseek"} for id in MODELS]
        return web.json_response({"object": "list", "data": models})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        try:
            turn = self.read(body)
        except Refused as error:
            self.refused.append(str(error))
            return web.json_response({"error": {"message": str(error)}}, status=400)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in _chunks(turn, self.seen[-1].prompt, self._gives_ids):
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _is_stopgap(message: Body) -> bool:
    return message.get("reasoning_content") == " "


def _number_of(id: str) -> str:
    """What is left of an id that was given out, whatever it has been made to begin with."""
    return id.rpartition("_")[2]


def _asked(body: Body, thinking: bool, dialect: str) -> DemoPrompt:
    """What a request asks, as the demo model sees it."""
    messages = body["messages"]
    spoken = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    last = messages[spoken[-1] + 1 if spoken else 0 :]
    results = tuple(_text(m["content"]) for m in last if m["role"] == "tool")
    texts = [_text(m["content"]) for m in last if m["role"] == "user"]
    choice = body.get("tool_choice")
    tools = () if choice == "none" else tuple(tool["function"] for tool in body.get("tools") or ())
    form = body.get("response_format") or {}
    schema = (form.get("json_schema") or {}).get("schema")
    return DemoPrompt(
        text="" if results else "\n".join(texts),
        results=results,
        again=asked_again([{**m, "content": _text(m.get("content"))} for m in messages]),
        tools=tools,
        response_format=schema or ({} if form.get("type") == "json_object" else None),
        thinking=thinking,
        reasons=thinking,
        dialect=dialect_for(MODELS[0]),
        turns=len(messages),
        open_block="a call" if choice == "required" else "",
        tool_name=choice["function"]["name"] if isinstance(choice, dict) else None,
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text", "")) for part in content)
    return content or ""


def _chunks(turn: Body, prompt: str, gives_ids: bool) -> Iterator[Body]:
    """A turn as the API streams it."""
    head = {"id": f"chat-{secrets.token_hex(8)}", "object": "chat.completion.chunk"}

    def chunk(delta: Body, finish: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**head, "created": 1, "model": MODELS[0], "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for field in ("reasoning_content", "content"):
        text = turn.get(field) or ""
        for n in range(0, len(text), 7):
            yield chunk({field: text[n : n + 7]})
    for index, call in enumerate(turn.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        opening["id"] = call["id"] if gives_ids else None
        yield chunk({"tool_calls": [opening]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    yield chunk({}, "tool_calls" if turn.get("tool_calls") else "stop")
    counts = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 9, "total_tokens": 9}
    yield {**head, "choices": [], "usage": counts}


async def _main(port: int) -> None:
    api = OfficialApi()
    runner = web.AppRunner(api.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        await asyncio.Event().wait()
    finally:
        found = {"requests": len(api.seen), "refused": api.refused}
        print(json.dumps({**found, "imperfect": len(api.imperfect)}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
