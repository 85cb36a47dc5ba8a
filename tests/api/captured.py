"""Requests as real clients send them: agents and SDKs, their texts replaced, all else kept.

Each file of `requests` has the client and its version, the protocol, the path, the headers and the
body. They were recorded from the clients on loopback.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from dsv4.api import chat, messages, responses

PROTOCOLS: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}

REQUESTS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent / "requests").glob("*.json"))
}


def read(name: str, **options: Any) -> Any:
    """A captured request, read in its protocol."""
    request = REQUESTS[name]
    return PROTOCOLS[request["protocol"]].read(request["body"], **options)
