"""Chat Completions, Responses and Messages in a FastAPI app, over any engine.

    pip install dsv4 fastapi uvicorn
    uvicorn --app-dir examples/servers fastapi_app:app

`generate` below stands for your engine: it gets the prompt and gives pieces of text.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from dsv4.api import ApiRequest, Usage, chat, messages, responses

Generate = Callable[[str, ApiRequest], AsyncIterator[str]]
ROUTES = {"/v1/chat/completions": chat, "/v1/responses": responses, "/v1/messages": messages}


def make_app(generate: Generate) -> FastAPI:
    """An app that answers with what `generate` writes for a prompt."""
    app = FastAPI()
    for path, protocol in ROUTES.items():
        app.post(path)(route(protocol, generate))
    return app


def route(protocol: Any, generate: Generate) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            call = protocol.read(await request.body())
            prompt = call.request.encode()
        except Exception as error:
            status, body = protocol.error(error)
            return JSONResponse(body, status)
        parser, pieces = call.parser(prompt), generate(str(prompt), call)
        if call.stream:
            frames = stream(protocol, call, parser, pieces)
            return StreamingResponse(frames, media_type="text/event-stream")
        events = [event async for piece in pieces for event in parser.feed(piece)]
        return JSONResponse(protocol.whole(call, [*events, *parser.finish()], usage=Usage()))

    return answer


async def stream(
    protocol: Any, call: ApiRequest, parser: Any, pieces: AsyncIterator[str]
) -> AsyncIterator[bytes]:
    writer = protocol.Writer(call)
    yield protocol.frames(writer.start())
    try:
        async for piece in pieces:
            if frames := writer.frames(parser.feed(piece)):
                yield frames
            if writer.done:
                break
    except Exception as error:
        # The error's own form and then no clean end: clients take that for an answer.
        yield protocol.frames(writer.fail(error))
        raise
    yield writer.frames(parser.finish()) + protocol.frames(writer.finish(usage=Usage()))


async def generate(prompt: str, call: ApiRequest) -> AsyncIterator[str]:
    """An engine that says how long the prompt is."""
    if call.request.thinking:
        yield "I count.</think>"
    for word in f"The prompt has {len(prompt)} characters.".split(" "):
        yield word + " "


app = make_app(generate)
