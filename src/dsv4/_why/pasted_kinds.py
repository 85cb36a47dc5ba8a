"""What a pasted text can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dsv4.api.api_request import ProtocolName


@dataclass(frozen=True)
class PastedRequest:
    """A request or a conversation, of any form. `url` is where it is sent, where that is known, and
    `form` is how it was written, in words."""

    body: Any
    url: str = ""
    form: str = "a request"


@dataclass(frozen=True)
class PastedAnswer:
    """What a model wrote. Where a server sent it, `protocol`, the `message` that the server made of
    it, its `finish` reason (empty where none came) and the `response` itself. `text` is it as the
    model writes it, which begins in reasoning if `thinking` says so. Of a stream, `unread` events
    could not be read."""

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
    """A prompt, and how many characters stood before it."""

    text: str
    before: int = 0


@dataclass(frozen=True)
class PastedError:
    """What a server, a proxy or a program said when it failed."""

    text: str
    status: int | None = None
    form: str = "an error"


@dataclass(frozen=True)
class PastedExchange:
    """A request with what came back, where both are known: of a HAR file, or a line of a log."""

    request: PastedRequest | None
    reply: PastedAnswer | PastedError | None
    place: str


@dataclass(frozen=True)
class PastedExchanges:
    """Several of these."""

    exchanges: tuple[PastedExchange, ...]
    form: str


@dataclass(frozen=True)
class PastedRecords:
    """Lines of `dsv4 serve --record`."""

    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class PastedSession:
    """A conversation of an agent's session file, as a request has it, and how many turns it has;
    the agent, where it is known, how many conversations the file has, and what is in none."""

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
    """A plain text: what somebody would say to a model."""

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
    """Something else: what it is, as far as that can be said."""

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
