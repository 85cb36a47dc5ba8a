"""What a request asks for, in no protocol's words.

Every protocol is read into this value and can be written from it: so a request is translated
without being understood any further. Whatever depends on the dialect or on the server's settings
comes later (`resolving.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

Message: TypeAlias = dict[str, Any]
# The namespace, if any, and the name by which the client knows a tool.
ToolKey: TypeAlias = tuple["str | None", str]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are picked, where the request says so."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


UNSAID = Sampling()


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool. `path` is where the request has it."""

    name: str
    path: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    namespace: str | None = None
    namespace_description: str | None = None
    # A custom tool takes one text, which may have to follow a grammar.
    kind: Literal["function", "custom"] = "function"
    format: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def key(self) -> ToolKey:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The tools of a request, and the names of those that nobody here can run."""

    tools: tuple[Tool, ...] = ()
    ignored: tuple[str, ...] = ()


NO_TOOLS = Declared()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a request says about calls. `allowed` narrows the declared tools, None does not."""

    mode: Literal["auto", "none", "required", "tool"] = "auto"
    tool: ToolKey | None = None
    allowed: frozenset[ToolKey] | None = None
    # Where the request says it.
    path: str = "tool_choice"


AUTO = Choice()


@dataclass(frozen=True, slots=True)
class Format:
    """The form of an answer: a JSON object, or one that follows a schema."""

    schema: dict[str, Any] | None = None
    name: str | None = None
    strict: bool | None = None


class Asked:
    """What a request asks for. None is what it does not say.

    `messages` are the format's own (docs/format.md, section 2), one for each message, item or run
    of blocks: nothing is merged or moved yet. A call may have a `namespace`, an assistant message
    `marks`: what the client gives back of ours. A list as content holds text and images alone.
    """

    messages: list[Message]
    model: str | None = None
    declared: Declared = NO_TOOLS
    choice: Choice = AUTO
    format: Format | None = None
    thinking: bool | None = None
    effort: str | int | None = None
    effort_path: str = "effort"
    # Whether the request itself wants thinking, not only a default.
    wants_thinking: bool = False
    # Whether a last assistant message is continued though it does not say so.
    continues: bool = True
    sampling: Sampling = UNSAID
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    parallel: bool | None = None
    user: str | None = None
    cache_key: str | None = None
    # Where the request has its messages, and how many it has: for errors.
    path: str = "messages"
    given: int = 0
    echo: Mapping[str, Any] = MappingProxyType({})

    @property
    def last_path(self) -> str:
        """Where the last message stands."""
        return f"{self.path}[{self.given - 1}]"

    def __init__(self, said: dict[str, Any]) -> None:
        # What a request does not say is the class's own. Most say little, and a constructor that
        # sets every field takes longer than reading a short conversation.
        self.__dict__ = said
