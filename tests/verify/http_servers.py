"""Servers over real HTTP on loopback: well-behaved ones, and those that do whatever they like."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dsv4.verify import Reply, ServerClient


@contextmanager
def served(client: ServerClient, keys: set[str] | None = None) -> Iterator[str]:
    """The address at which a stand-in answers over HTTP, streams included. `keys` are those that
    come with requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(Reply(200, body={"object": "list", "data": [{"id": "deepseek-v4"}]}))

        def do_POST(self) -> None:
            if keys is not None:
                keys.add(self.headers.get("authorization", ""))
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._answer(client.post(self.path.removeprefix("/v1"), body))

        def _answer(self, reply: Reply) -> None:
            kind = "text/event-stream" if reply.events else "application/json"
            data = json.dumps(reply.body)
            if reply.events:
                data = "".join(f"data: {json.dumps(event)}\n\n" for event in reply.events)
                data += "data: [DONE]\n\n"
            self.send_response(reply.status)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


class Connections:
    """The address of a server that does whatever it likes, and what it received."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.received: list[bytes] = []
        self.sent = 0


def _request(connection: socket.socket) -> bytes:
    """A whole request: what is left unread would reset the connection."""
    data = connection.recv(100_000)
    if not data.startswith(b"POST"):
        return data
    while b"\r\n\r\n" not in data and (more := connection.recv(100_000)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.I)
    while length and len(body) < int(length[1]) and (more := connection.recv(100_000)):
        data, body = data + more, body + more
    return data


@contextmanager
def behaving(behaviour: Callable[[Callable[[bytes], None]], None]) -> Iterator[Connections]:
    """A socket that reads each request and then hands a way to send to `behaviour`."""
    listening = socket.create_server(("127.0.0.1", 0))
    seen = Connections(listening.getsockname()[1])

    def answer(connection: socket.socket) -> None:
        def send(data: bytes) -> None:
            connection.sendall(data)
            seen.sent += len(data)

        with connection, suppress(OSError):
            seen.received.append(_request(connection))
            behaviour(send)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=[connection], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield seen
    finally:
        listening.shutdown(socket.SHUT_RDWR)  # closing alone leaves `accept` waiting
        listening.close()
