"""A request of any protocol, understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from dsv4._encode.prompt import Prompt
from dsv4._parse.parser import StreamParser
from dsv4._parse.parser_options import new_id
from dsv4.api.asked import UNSAID, Sampling
from dsv4.api.settings import DEFAULTS, Settings
from dsv4.api.tools import ToolName
from dsv4.request import Request

# What an id of a call begins with. The parser's own ids begin as the first.
CALL_IDS = {"chat": "call_", "responses": "call_", "messages": "toolu_"}


@dataclass(frozen=True)
class ApiRequest:
    """A request of any protocol, understood: the prompt's side of it, and the server's.

    - `request`: conversation and options; `request.encode()` is the prompt.
    - `protocol`: `"chat"`, `"responses"` or `"messages"`; `model`: the name to echo.
    - `max_tokens`: the most tokens to generate, `sampling` how to pick them.
    - `stream`, `include_usage`, `n`, `logprobs`, `top_logprobs`: what is wanted back, in what form.
    - `parallel`: False where generation must end after the first call.
    - `user`: whom the client says it is for; `cache_key`: what it says belongs together.
    - `names`: the client's name of each tool, by the name in the prompt.
    - `ignored`: the tools that were left out because nobody here can run them.
    - `echo`: what a response repeats of the request.
    - `marks`: by the index of an assistant turn in `request.messages`, the signatures and encrypted
      reasoning that came back with it.
    - `settings`: those it was read with.
    """

    request: Request
    protocol: Literal["chat", "responses", "messages"]
    model: str
    max_tokens: int
    sampling: Sampling = UNSAID
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    parallel: bool = True
    user: str | None = None
    cache_key: str | None = None
    names: Mapping[str, ToolName] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    settings: Settings = DEFAULTS

    def parser(self, prompt: Prompt | None = None) -> StreamParser:
        """The parser of what the model writes: it fits the prompt, and its ids the protocol.

        `prompt` is what `request.encode()` gave; without it the prompt is made once more. Calls
        come as they are written, also those that are cut short: the writer holds them back.
        """
        ending = None if prompt is None else prompt.ending
        return self.request.parser(ending=ending, new_id=_NEW_IDS[self.protocol])


_NEW_IDS = {protocol: partial(new_id, prefix) for protocol, prefix in CALL_IDS.items()}
