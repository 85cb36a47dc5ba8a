"""A proxy that hands each Chat request to litellm, as litellm's own proxy does.

Run by a Python that has litellm: `litellm_proxy.py PROVIDER UPSTREAM`. It prints its port.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched from the internet

import litellm  # type: ignore[import-not-found]

PROVIDER, UPSTREAM = sys.argv[1:]
litellm.suppress_debug_info = True


class Proxy(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/v1/chat/completions"):
            self.answer(404, {"error": "no such route"})
            return
        body["model"] = f"{PROVIDER}/{body['model']}"
        try:
            found = litellm.completion(**body, api_base=UPSTREAM, api_key="none", num_retries=0)
            if body.get("stream"):
                self.stream(found)
            else:
                self.answer(200, found.model_dump())
        except Exception as error:
            self.answer(getattr(error, "status_code", 500), {"error": {"message": str(error)}})

    def stream(self, chunks: Any) -> None:
        lines = [f"data: {json.dumps(chunk.model_dump(), default=str)}\n\n" for chunk in chunks]
        self.send("text/event-stream", 200, "".join([*lines, "data: [DONE]\n\n"]))

    def answer(self, status: int, value: object) -> None:
        self.send("application/json", status, json.dumps(value, default=str))

    def send(self, kind: str, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(server.server_port, flush=True)
server.serve_forever()
