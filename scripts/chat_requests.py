"""Asks a server on this machine for chat completions.

Runs in the environments of other implementations, which dsv4 is not installed in.
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import Any

SECONDS = 60


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def post_chat(url: str, body: Any) -> bytes:
    """What a server answers. Raises a `ValueError` for what it refuses."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise ValueError(error.read().decode("utf-8", "replace")) from None
