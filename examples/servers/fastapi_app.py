"""Chat Completions, Responses and Messages in a FastAPI app, over any engine.

    pip install dsv4 fastapi uvicorn
    uvicorn --app-dir examples/servers fastapi_app:app

`generate` below stands for your engine: it gets the prompt and gives pieces of text, and at the end
why it ended and how many tokens there were.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from dsv4.api import ApiRequest, Usage, chat, messages, responses


class Ended(NamedTuple):
    """The end of a generation: its reason in the engine's word, and its tokens."""

    reason: str | None = None
    usage: Usage = Usage()


Pieces = AsyncIterator[str | Ended]
Generate = Callable[[str, ApiRequest], Pieces]
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
            # What fails before the first piece is answered with a status of its own.
            pieces = await begun(generate(str(prompt), call))
            if not call.stream:
                return JSONResponse(await whole(protocol, call, call.parser(prompt), pieces))
        except Exception as error:
            status, body = protocol.error(error)
            return JSONResponse(body, status)
        frames = stream(protocol, call, call.parser(prompt), pieces)
        return StreamingResponse(frames, media_type="text/event-stream")

    return answer


async def begun(pieces: Pieces) -> Pieces:
    """The same pieces, once the first of them is here."""
    first = await anext(pieces, Ended())

    async def all_of_them() -> Pieces:
        yield first
        async for piece in pieces:
            yield piece

    return all_of_them()


async def whole(protocol: Any, call: ApiRequest, parser: Any, pieces: Pieces) -> dict[str, Any]:
    events, ended = [], Ended()
    async for piece in pieces:
        if isinstance(piece, Ended):
            ended = piece
        else:
            events += parser.feed(piece)
    answer: dict[str, Any] = protocol.whole(
        call, [*events, *parser.finish(ended.reason)], usage=ended.usage
    )
    return answer


async def stream(
    protocol: Any, call: ApiRequest, parser: Any, pieces: Pieces
) -> AsyncIterator[bytes]:
    writer, ended = protocol.Writer(call), Ended()
    yield protocol.frames(writer.start())
    try:
        async for piece in pieces:
            if isinstance(piece, Ended):
                ended = piece
            elif frames := writer.frames(parser.feed(piece)):
                yield frames
            if writer.done:
                break
    except Exception as error:
        # The error's own form and then no clean end: clients take that for an answer.
        yield protocol.frames(writer.fail(error))
        raise
    yield writer.frames(parser.finish(ended.reason))
    yield protocol.frames(writer.finish(usage=ended.usage))


async def generate(prompt: str, call: ApiRequest) -> Pieces:
    """An engine that says how long the prompt is."""
    if call.request.thinking:
        yield "I count.</think>"
    for word in f"The prompt has {len(prompt)} characters.".split(" "):
        yield word + " "
    yield Ended("eos", Usage(prompt=len(prompt.split()), completion=5))


app = make_app(generate)
