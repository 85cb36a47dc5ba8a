"""The kinds of pasted text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dsv4.api.api_request import ProtocolName


@dataclass(frozen=True)
class PastedRequest:
    """A request or a conversation, of any form. `url` is the address it is sent to, if known, and
    `form` describes the form in which it was written."""

    body: Any
    url: str = ""
    form: str = "a request"


@dataclass(frozen=True)
class PastedAnswer:
    """The output of a model. `text` is the output as the model writes it, which begins in reasoning
    if `thinking` says so. If a server sent it, there are also the `protocol`, the server's
    `message`, the `finish` reason (empty if there was none) and the `response` itself. `unread` is
    the number of events of a stream that could not be read."""

    text: str
    thinking: bool
    dialect: str | None
    notes: tuple[str, ...] = ()
    form: str = "the text of an answer"
    protocol: ProtocolName | None = None
    message: Mapping[str, Any] = field(default_factory=dict)
    finish: str = ""
    response: Any = None
    is_streamed: bool = False
    unread: int = 0


@dataclass(frozen=True)
class PastedPrompt:
    """A prompt, and the number of characters before it."""

    text: str
    before: int = 0


@dataclass(frozen=True)
class PastedError:
    """The error text of a server, a proxy or a program."""

    text: str
    status: int | None = None
    form: str = "an error"


@dataclass(frozen=True)
class PastedExchange:
    """A request and its reply, either of which may be unknown: from a HAR file, or a log's line."""

    request: PastedRequest | None
    reply: PastedAnswer | PastedError | None
    place: str


@dataclass(frozen=True)
class PastedExchanges:
    """Several exchanges."""

    exchanges: tuple[PastedExchange, ...]
    form: str


@dataclass(frozen=True)
class PastedRecords:
    """Lines of `dsv4 serve --record`."""

    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class PastedSession:
    """A conversation of an agent's session file as the body of a request, and the number of its
    turns; the agent, if known, the number of conversations in the file, and sentences on the parts
    that are in none."""

    body: Any
    turns: int
    agent: str = ""
    conversations: int = 1
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class PastedLines:
    """JSON lines, of which each may be a conversation."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class PastedSentence:
    """A plain text, such as a message to a model."""

    text: str


@dataclass(frozen=True)
class BrokenJson:
    """JSON with a mistake at a place."""

    text: str
    problem: str
    at: int
    line: int
    column: int


@dataclass(frozen=True)
class NotUnderstood:
    """Something else: a description of it, and a hint."""

    what: str
    hint: str = ""


Pasted: TypeAlias = (
    PastedRequest
    | PastedAnswer
    | PastedPrompt
    | PastedError
    | PastedExchanges
    | PastedRecords
    | PastedSession
    | PastedLines
    | PastedSentence
    | BrokenJson
    | NotUnderstood
)
