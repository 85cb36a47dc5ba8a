"""The backend of bench/serve.py: an engine that generates for all streams in one step.

It speaks `/v1/completions` as vLLM does (ids and log-probabilities where they are asked for) and
`/v1/chat/completions`, always with the same tokens at the same pace. When each was sent stands in
a file that the measuring process shares: by stream, which a request names with its `seed`, and by
token.

    python bench/serve_backend.py PORT FILE STREAMS TOKENS PER_SECOND STEPS

STEPS: into how many groups of streams a tick is divided. With 1 all streams get their next token
at the same moment, as from one engine; with more they are spread evenly over the tick.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import sys
import time
from typing import Any

import uvloop
from serve_load import MODEL, answer_pieces, answer_tokens


def frame(value: Any) -> bytes:
    data = b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


END = b"%x\r\n%s\r\n0\r\n\r\n" % (len(b"data: [DONE]\n\n"), b"data: [DONE]\n\n")
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n"
)


def completions(count: int, *, with_ids: bool = False, with_logprobs: bool = False) -> list[bytes]:
    """The frames of `/v1/completions`."""
    frames = []
    for n, (text, ids) in enumerate(answer_tokens(count)):
        last = n == count - 1
        choice: dict[str, Any] = {
            "index": 0,
            "text": text,
            "logprobs": None,
            "finish_reason": "stop" if last else None,
            "stop_reason": None,
        }
        if with_ids:
            choice["token_ids"] = ids
        if with_logprobs:
            names = [f"token_id:{id}" for id in ids]
            choice["logprobs"] = {
                "tokens": names,
                "token_logprobs": [-0.125] * len(ids),
                "top_logprobs": [{name: -0.125} for name in names],
                "text_offset": [0] * len(ids),
            }
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL}
        frames.append(frame({**head, "choices": [choice], "usage": None}))
    return [*frames, frame({**head, "choices": [], "usage": usage(count)})]


def chat(count: int) -> list[bytes]:
    """The frames of `/v1/chat/completions`: its server has split the reasoning off already."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    frames = []
    for n, (field, text) in enumerate(answer_pieces(count)):
        choice = {
            "index": 0,
            "delta": {field: text} if text else {},
            "logprobs": None,
            "finish_reason": "stop" if n == count - 1 else None,
        }
        frames.append(frame({**head, "choices": [choice]}))
    return [*frames, frame({**head, "choices": [], "usage": usage(count)})]


def usage(count: int) -> dict[str, int]:
    return {"prompt_tokens": 100, "completion_tokens": count, "total_tokens": 100 + count}


class Engine:
    """Writes the next token of every stream, `per_second` times a second."""

    def __init__(self, path: str, streams: int, tokens: int, per_second: float, steps: int) -> None:
        self.frames = {
            "logprobs": completions(tokens, with_ids=True, with_logprobs=True),
            "ids": completions(tokens, with_ids=True),
            "text": completions(tokens),
            "chat": chat(tokens),
        }
        self._tokens = tokens
        with open(path, "r+b") as file:
            self._sent = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
        self._tick = 1 / per_second / steps
        self._groups: list[dict[int, Stream]] = [{} for _ in range(steps)]

    def add(self, stream: Stream) -> None:
        self._groups[stream.seed % len(self._groups)][stream.seed] = stream

    def drop(self, stream: Stream) -> None:
        group = self._groups[stream.seed % len(self._groups)]
        if group.get(stream.seed) is stream:  # and not the next of that number
            del group[stream.seed]

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock()
        step = 0
        while True:
            due = max(due + self._tick, clock() - 1)
            await asyncio.sleep(max(due - clock(), 0))
            group = self._groups[step % len(self._groups)]
            step += 1
            for stream in list(group.values()):
                self._advance(stream)

    def _advance(self, stream: Stream) -> None:
        self._sent[stream.seed * self._tokens + stream.at] = time.monotonic()
        stream.transport.write(stream.frames[stream.at])
        stream.at += 1
        if stream.at == self._tokens:
            stream.transport.write(stream.frames[-1] + END)
            self.drop(stream)


class Stream:
    """A stream that is being generated."""

    def __init__(self, transport: asyncio.Transport, seed: int, frames: list[bytes]) -> None:
        self.transport = transport
        self.seed = seed
        self.frames = frames
        self.at = 0


class Connection(asyncio.Protocol):
    """One HTTP connection. It reads as much of HTTP as its clients write."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._data = b""
        self._stream: Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._engine.drop(self._stream)  # its client went away

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode().lower().split("\r\n")
        lengths = [int(line.split(":")[1]) for line in lines if line.startswith("content-length")]
        size = lengths[0] if lengths else 0
        if len(rest) >= size:
            self._data = rest[size:]
            self._answer(lines[0].split()[1], rest[:size])

    def _answer(self, path: str, body: bytes) -> None:
        if path.endswith("/models"):
            model = {"id": MODEL, "object": "model", "max_model_len": 131072}
            data = json.dumps({"object": "list", "data": [model]}).encode()
            head = (
                f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
            )
            self._transport.write(head.encode() + b"\r\n\r\n" + data)
            return
        asked = json.loads(body)
        self._transport.write(HEAD)
        frames = self._engine.frames[form_of(asked)]
        self._stream = Stream(self._transport, int(asked["seed"]), frames)
        self._engine.add(self._stream)


def form_of(asked: dict[str, Any]) -> str:
    """The form of the answer that a request asks for."""
    if "messages" in asked:
        return "chat"
    if not asked.get("return_token_ids"):
        return "text"
    return "ids" if asked.get("logprobs") is None else "logprobs"


async def main() -> None:
    port, path, streams, tokens, per_second, steps = sys.argv[1:]
    engine = Engine(path, int(streams), int(tokens), float(per_second), int(steps))
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Connection(engine), "127.0.0.1", int(port), backlog=2048)
    await engine.run()


if __name__ == "__main__":
    uvloop.run(main())
