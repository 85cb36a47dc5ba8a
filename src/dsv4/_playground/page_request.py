"""The page's input (JSON text, a protocol, switches), and the `Request` in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from dsv4._format.dialects import DIALECTS
from dsv4._inputs.text_origins import MessageOrigins, place_in_own_body
from dsv4._playground.page_problem import (
    PageProblem,
    choice_field,
    flag_field,
    message_and_location,
    text_field,
    turn_field,
)
from dsv4._playground.pasted_text import recognised, source_of
from dsv4._playground.provenance import JsonSource
from dsv4._why.pasted_kinds import PastedSession
from dsv4.api import ApiError, ApiRequest, Settings, convert, read
from dsv4.api.api_request import ProtocolName, chosen_dialect
from dsv4.api.body_reader import recognise
from dsv4.api.ignored_fields import server_fields
from dsv4.errors import Error, Location, mismatch
from dsv4.profiles import PROFILES, Profile
from dsv4.request import Request
from dsv4.types import DialectName

if TYPE_CHECKING:
    from dsv4.tokens import Tokenizer


@dataclass(frozen=True, slots=True)
class PlaygroundContext:
    """The server's own values for the functions, besides the input of the page.

    - `tokenizer`: counts and ids; None if the extra `tokens` is not installed.
    - `dialect`: the dialect of requests that do not name one.
    - `serves`: whether there is a server, with a model to call.
    - `model`: the name of the model behind the server, empty if there is none.
    - `inspects`: whether the server keeps the last requests for inspection.
    - `asks_for_key`: whether calls need a key.
    - `saved`: servers that `dsv4 verify --save` wrote to files, by the names of the files.
    """

    tokenizer: Tokenizer | None = None
    dialect: str = "v4"
    serves: bool = True
    model: str = ""
    inspects: bool = False
    asks_for_key: bool = False
    saved: Mapping[str, Profile] = field(default_factory=dict)

    @property
    def servers(self) -> dict[str, Profile]:
        """The servers whose prompts can be shown, by their names."""
        return {**PROFILES, **self.saved}

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the prompts that can be shown: of dsv4, of a dialect, of a server."""
        own = ("dsv4", *(f"dialect:{name}" for name in DIALECTS))
        return (*own, *(f"profile:{name}" for name in self.servers))


SourceProtocol: TypeAlias = Literal["file", "chat", "responses", "messages"]
"""The way to read a value: as a server reads a request of one of the protocols, or ("file") as the
released encoder reads messages, with dsv4's own options."""
SOURCE_PROTOCOLS: tuple[SourceProtocol, ...] = ("file", "chat", "responses", "messages")


_PROTOCOL_CHOICES: tuple[SourceProtocol | Literal["auto"], ...] = ("auto", *SOURCE_PROTOCOLS)


@dataclass(frozen=True)
class Switches:
    """The switches of the page. If one is None, the request decides."""

    dialect: str | None = None
    thinking: bool | None = None
    effort: str | None = None
    drop_thinking: bool | None = None
    tool_choice: str | None = None

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Switches:
        """The switches that the page sent. Raises a `PageProblem` for a wrong one."""
        choice = body.get("tool_choice")
        if choice is not None and not isinstance(choice, str):
            problem = mismatch(choice, "a mode or the name of a tool")
            raise PageProblem(problem, location=("tool_choice",))
        efforts = {e for d in DIALECTS.values() for e in d.efforts if isinstance(e, str)}
        return cls(
            dialect=choice_field(body, "dialect", tuple(DIALECTS), None),
            thinking=flag_field(body, "thinking"),
            effort=choice_field(body, "effort", tuple(sorted(efforts)), None),
            drop_thinking=flag_field(body, "drop_thinking"),
            tool_choice=choice,
        )

    def on(self, request: Request) -> Request:
        """A request with all switches that are set, except the dialect."""
        options = {name: value for name, value in vars(self).items() if value is not None}
        options.pop("dialect", None)
        return replace(request, **options) if options else request


def call_from(
    value: object, protocol: SourceProtocol, switches: Switches, context: PlaygroundContext
) -> ApiRequest:
    """The request in a value. Of the switches, only the dialect is applied.

    Raises an `ApiError` as a gateway would, or an error that names the place in the value.
    """
    if not isinstance(value, (dict, list)):
        raise ApiError(mismatch(value, "a list of messages or a request"))
    dialect = cast("DialectName | None", switches.dialect or default_dialect(value, context))
    if protocol == "file":
        return read(value, rules="released", dialect=dialect)
    return read(value, protocol=protocol, rules="body", dialect=dialect, settings=_SETTINGS)


# The page shows answered conversations too.
_SETTINGS = Settings(last_answer="keep")


def default_dialect(value: object, context: PlaygroundContext) -> str | None:
    """The dialect of a request without a switch for it: the server's, if there is a model behind
    it or the request does not tell its dialect. None if the request tells it."""
    fields = value if isinstance(value, dict) else {}
    if context.model or not (fields.get("dialect") or fields.get("model")):
        return context.dialect
    is_known = fields.get("dialect") or not chosen_dialect(None, fields.get("model"))[1]
    return None if is_known else context.dialect


def location_in_source(location: Location, value: object) -> Location:
    """The place of an error in the value itself: a bare list has no field `messages`."""
    if isinstance(value, list) and location[:1] == ("messages",):
        return location[1:]
    return place_in_own_body(location, value)


PROTOCOL_PATHS: dict[ProtocolName, str] = {
    "chat": "v1/chat/completions",
    "responses": "v1/responses",
    "messages": "v1/messages",
}
_LIVE_EFFORTS = ("none", "low", "high", "max")


def live_request(body: Mapping[str, Any], context: PlaygroundContext) -> dict[str, Any]:
    """The request that the Live view sends for a conversation, and the path it is sent to.

    `body` has the `messages` and `tools` of a conversation as Chat Completions has them, the
    `protocol` to use, and the `effort` ("none" turns thinking off; the server's own if not given).
    Raises a `PageProblem`, or the errors of `convert`.
    """
    protocol: ProtocolName = choice_field(body, "protocol", tuple(PROTOCOL_PATHS), "chat")
    effort = choice_field(body, "effort", _LIVE_EFFORTS, None)
    messages, tools = body.get("messages"), body.get("tools")
    if not isinstance(messages, list) or not messages:
        raise PageProblem("found no messages, expected some", location=("messages",))
    if tools is not None and not isinstance(tools, list):
        raise PageProblem("found something else, expected a list of tools", location=("tools",))
    chat_body: dict[str, Any] = {"model": context.model, "messages": messages, "stream": True}
    if tools:
        chat_body["tools"] = tools
    if effort == "none":
        chat_body["thinking"] = {"type": "disabled"}
    elif effort is not None:
        chat_body["thinking"] = {"type": "enabled"}
        chat_body["reasoning_effort"] = effort
    sent = chat_body if protocol == "chat" else convert(chat_body, "chat", protocol)
    return {"path": PROTOCOL_PATHS[protocol], "body": sent}


@dataclass(frozen=True)
class PageRequest:
    """The request on the page: its source, and the way to read it. In a session, `stop` is the
    number of messages that it has."""

    source: JsonSource
    protocol: SourceProtocol
    switches: Switches
    context: PlaygroundContext
    stop: int | None = None

    @classmethod
    def from_body(cls, body: Mapping[str, Any], context: PlaygroundContext) -> PageRequest:
        """Reads the input of the page. Raises a `PageProblem` if something is missing."""
        switches = Switches.from_body(body)
        wanted: SourceProtocol | Literal["auto"] = choice_field(
            body, "protocol", _PROTOCOL_CHOICES, "auto"
        )
        text, turn = _source_in(body), turn_field(body)
        source = source_of(text, pictures_in(body), turn)
        _check_size(source)
        protocol = _recognised(source.value) if wanted == "auto" else wanted
        is_session = turn is not None and isinstance(recognised(text), PastedSession)
        return cls(source, protocol, switches, context, turn if is_session else None)

    @property
    def dialect(self) -> str:
        """The dialect that the request is written in."""
        return str(self.request(self.source.value).dialect)

    def request(self, value: object) -> Request:
        """The request in a value, read in the same way as this one."""
        call = call_from(value, self.protocol, self.switches, self.context)
        request = self.switches.on(call.request)
        if self.stop is None:
            return request
        return replace(request, messages=list(request.messages)[: self.stop])

    @property
    def unread(self) -> list[str]:
        """The fields that the prompt does not depend on."""
        value = self.source.value
        call = call_from(value, self.protocol, self.switches, self.context)
        return [*call.ignored, *server_fields(value)]

    def problem(self, error: Error, origins: MessageOrigins | None = None) -> PageProblem:
        """An error at its line of the source."""
        if isinstance(error, PageProblem):
            return error
        message, location = message_and_location(error)
        if origins is not None and location[:1] == ("messages",) and len(location) > 1:
            index = location[1]
            origin = origins.message(index) if isinstance(index, int) else None
            location = (*origin, *location[2:]) if origin is not None else location
        else:
            location = location_in_source(location, self.source.value)
        return self.source.problem(message, location)


def _recognised(value: object) -> SourceProtocol:
    shape = recognise(value)
    return shape.protocol if shape.rules == "body" else "file"


# Conversations with more messages are refused.
MAX_MESSAGES = 20_000


def _check_size(source: JsonSource) -> None:
    value = source.value
    listed: list[Any] = [value]
    if isinstance(value, dict):
        listed = [value.get(name) for name in ("messages", "input", "conversations")]
    for each in listed:
        if isinstance(each, list) and len(each) > MAX_MESSAGES:
            raise PageProblem(f"found {len(each):,} messages, expected at most {MAX_MESSAGES:,}")


def pictures_in(body: Mapping[str, Any]) -> dict[str, str]:
    """The pictures that are kept beside the JSON text: `data:` addresses by name."""
    pictures = body.get("pictures") or {}
    if not isinstance(pictures, dict) or not all(isinstance(url, str) for url in pictures.values()):
        raise PageProblem(
            "found something else, expected addresses by name", location=("pictures",)
        )
    return pictures


def _source_in(body: Mapping[str, Any]) -> str:
    """The JSON text of the page; scripts may send the request itself instead."""
    if "request" in body and "source" not in body:
        return json.dumps(body["request"], ensure_ascii=False)
    return text_field(body, "source")
