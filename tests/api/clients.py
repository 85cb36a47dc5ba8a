"""The vendors' own SDKs, as readers of what we write.

Their clients run whole, with a transport that answers from memory: so the decoding of events and
the accumulators are theirs.
"""

from __future__ import annotations

import importlib
from typing import Any

import anthropic
import openai
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

EVENTS = {
    "chat": TypeAdapter(ChatCompletionChunk),
    "responses": TypeAdapter(ResponseStreamEvent),
    "messages": TypeAdapter(RawMessageStreamEvent),
}
WHOLE = {
    "chat": TypeAdapter(ChatCompletion),
    "responses": TypeAdapter(Response),
    "messages": TypeAdapter(AnthropicMessage),
}


def transport_of(sdk: Any) -> Any:
    """A class of the HTTP library that an SDK is built on."""
    name = sdk.DefaultHttpxClient.__mro__[1].__module__.split(".")[0]
    return importlib.import_module(name)


class Answering:
    """A server in memory: every request gets the same answer."""

    def __init__(self) -> None:
        self.body = b""
        self.stream = True
        self.openai = openai.OpenAI(
            api_key="-", http_client=self._client(openai, openai.DefaultHttpxClient)
        )
        self.anthropic = anthropic.Anthropic(
            api_key="-", http_client=self._client(anthropic, anthropic.DefaultHttpxClient)
        )

    def _client(self, sdk: Any, kind: Any) -> Any:
        http = transport_of(sdk)

        def answer(request: Any) -> Any:
            kind = "text/event-stream" if self.stream else "application/json"
            return http.Response(200, content=self.body, headers={"content-type": kind})

        return kind(transport=http.MockTransport(answer))

    def chat(self, frames: bytes) -> Any:
        """The completion that the SDK's stream helper builds."""
        self.body = frames
        messages: Any = [{"role": "user", "content": "Hi"}]
        try:
            with self.openai.chat.completions.stream(model="m", messages=messages) as stream:
                for _ in stream:
                    pass
                return stream.get_final_completion()
        except openai.LengthFinishReasonError as cut:
            return cut.completion

    def responses(self, frames: bytes) -> Any:
        """The response that the SDK's stream helper builds."""
        self.body = frames
        last = None
        with self.openai.responses.stream(model="m", input="Hi") as stream:
            for event in stream:
                last = event
        return last.response  # type: ignore[union-attr]

    def messages(self, frames: bytes) -> Any:
        """The message that the SDK's stream helper builds."""
        self.body = frames
        given: Any = [{"role": "user", "content": "Hi"}]
        with self.anthropic.messages.stream(model="m", messages=given, max_tokens=9) as stream:
            return stream.get_final_message()
