"""OpenAI's older protocol, Completions, as far as it is served: the functions that the modules of
`dsv4.api` have. Its chunks are those of Chat Completions, with a text in place of a delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dsv4._format.dialects import Dialect
from dsv4.api import ApiRequest, chat
from dsv4.api.api_request import ApiSettings
from dsv4.api.errors import wrong
from dsv4.api.event_writer import Events, ProtocolEvent, WholeResponse
from dsv4.api.request_fields import Body, json_body
from dsv4.types import DialectName

# As OpenAI's.
_DEFAULT_TOKENS = 16
# What both protocols of OpenAI call by the same names.
_SHARED = (
    *("model", "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop"),
    *("max_tokens", "stream", "stream_options", "user"),
)
# What is not served, and what it may be all the same.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None, 0),
}


def read(
    body: Body, *, dialect: DialectName | Dialect | None = None, settings: ApiSettings | None = None
) -> ApiRequest:
    """The fields that it shares with Chat Completions, read as there."""
    fields = json_body(body)
    for name, values in _UNSUPPORTED.items():
        if fields.get(name) not in values:
            raise wrong(fields[name], f"nothing else than {values[-1]!r}, or nothing", name)
    common = {name: fields[name] for name in _SHARED if fields.get(name) is not None}
    nobody = {"messages": [{"role": "user", "content": ""}]}
    return chat.read(
        {"max_tokens": _DEFAULT_TOKENS, **common, **nobody}, dialect=dialect, settings=settings
    )


class TextWriter(chat.ChatWriter):
    """The chunks of a completion."""

    id_prefix = "cmpl-"

    def start(self, input_tokens: int = 0, cached: int | None = None) -> Events:
        super().start(input_tokens, cached)
        return []

    def _head(self) -> ProtocolEvent:
        return {**super()._head(), "object": "text_completion"}

    def _chunk(
        self,
        delta: dict[str, Any],
        choice: int,
        logprobs: dict[str, Any] | None = None,
        finish: str | None = None,
    ) -> ProtocolEvent:
        text = {"text": delta.get("content", ""), "logprobs": logprobs, "finish_reason": finish}
        return {**self._head(), "choices": [{"index": choice, **text}]}


def fold(events: Iterable[ProtocolEvent]) -> dict[str, Any]:
    """The response that the chunks of a stream make."""
    chunks = list(events)
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    text = "".join(choice["text"] for choice in choices)
    return {**chunks[-1], "choices": [{**choices[-1], "text": text}]}


Writer = TextWriter
error, frames = chat.error, chat.frames
whole: WholeResponse = WholeResponse(TextWriter, fold)
