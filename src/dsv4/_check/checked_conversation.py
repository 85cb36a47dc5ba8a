"""A conversation that can be encoded, with what the rules of the check ask about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from dsv4._encode.fragments import Piece
from dsv4._encode.inputs import fields_of, maybe_dict, maybe_list
from dsv4._encode.prompt import Prompt
from dsv4._encode.turn_rules import NATIVE
from dsv4._format import tokens
from dsv4._inputs.request_bodies import role_of
from dsv4.errors import Location
from dsv4.request import Request


class CheckedCall(NamedTuple):
    """A call of a message: the message's index, its place among the calls, and what it says."""

    message: int
    n: int
    id: str
    name: str
    arguments: object

    @property
    def location(self) -> Location:
        return ("messages", self.message, "tool_calls", self.n)


class CheckedTool(NamedTuple):
    """A tool that is declared, and where."""

    location: Location
    name: str
    parameters: object


class CheckedConversation:
    """A request that can be encoded, and its prompt. `body` is what it was read from."""

    def __init__(self, request: Request, prompt: Prompt, body: object) -> None:
        self.request = request
        self.prompt = prompt
        self.body = body
        self.messages: Sequence[dict[str, Any]] = list(map(fields_of, request.messages))

    def of_role(self, *roles: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, message in enumerate(self.messages):
            if role_of(message) in roles:
                yield index, message

    def role(self, index: int) -> object:
        """The role of a message; None before the first and after the last."""
        return role_of(self.messages[index]) if 0 <= index < len(self.messages) else None

    @property
    def last(self) -> int:
        return len(self.messages) - 1

    @property
    def opens_as_developer(self) -> bool:
        """Whether the system prompt is given as OpenAI has it, under the role `developer`."""
        return self.role(0) == "developer" and self.last > 0

    # Calls and tools.

    @cached_property
    def calls(self) -> list[CheckedCall]:
        return [call for index, _ in self.of_role("assistant") for call in self.calls_of(index)]

    def calls_of(self, index: int) -> Iterator[CheckedCall]:
        for n, call in enumerate(maybe_list(self.messages[index].get("tool_calls")) or ()):
            fields = maybe_dict(call) or {}
            function = maybe_dict(fields.get("function")) or fields
            id, name = fields.get("id"), function.get("name")
            yield CheckedCall(index, n, str(id or ""), str(name), function.get("arguments"))

    @cached_property
    def tools(self) -> list[CheckedTool]:
        listed = list(_tools(self.request.tools, ("tools",)))
        for index, message in enumerate(self.messages):
            listed += _tools(message.get("tools"), ("messages", index, "tools"))
        return listed

    # The prompt.

    @cached_property
    def written(self) -> set[tuple[int | None, str]]:
        """The fields of messages that are in the prompt with some text of their own."""
        return {
            (piece.message, piece.field)
            for piece in self.prompt.pieces
            if not piece.special or piece.field in ("task", "header")
        }

    @cached_property
    def opened(self) -> set[int | None]:
        """The messages that the assistant's token opens."""
        return {
            piece.message
            for piece in self.prompt.pieces
            if piece.field == "header" and piece.text == tokens.ASSISTANT
        }

    @cached_property
    def present(self) -> set[int | None]:
        """The messages that are in the prompt at all."""
        return {piece.message for piece in self.prompt.pieces}

    def reasoning_field(self, index: int) -> str | None:
        """The field that a message has its reasoning in, if it has any."""
        fields = (name for name in NATIVE.reasoning_fields if self.messages[index].get(name))
        return next(fields, None)

    def location_of(self, piece: Piece) -> Location:
        """Where the text of a piece stands in the conversation."""
        field = _FIELDS.get(piece.field, piece.field)
        if piece.message is None:
            return (field,)
        if field == "reasoning":
            field = self.reasoning_field(piece.message) or field
        return ("messages", piece.message, field)


# Parts of a prompt that are parts of a field.
_FIELDS = {"tool_result": "content", "separator": "content", "image": "content"}


def _tools(tools: object, place: Location) -> Iterator[CheckedTool]:
    for n, tool in enumerate(maybe_list(tools) or ()):
        fields = maybe_dict(tool) or {}
        function = maybe_dict(fields.get("function")) or fields
        if isinstance(function.get("name"), str):
            yield CheckedTool((*place, n), function["name"], function.get("parameters"))
