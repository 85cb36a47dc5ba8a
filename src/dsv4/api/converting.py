"""A request of one protocol, written as a request of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from dsv4.api.asked import Asked
from dsv4.api.bodies import body_of
from dsv4.api.chat.reading import asked_in as asked_in_chat
from dsv4.api.chat.saying import say as say_in_chat
from dsv4.api.errors import ApiError, wrong
from dsv4.api.flattening import flat
from dsv4.api.messages.reading import asked_in as asked_in_messages
from dsv4.api.messages.saying import say as say_in_messages
from dsv4.api.responses.reading import asked_in as asked_in_responses
from dsv4.api.responses.saying import say as say_in_responses
from dsv4.api.turns import check_end

Protocol: TypeAlias = Literal["chat", "responses", "messages"]

READ: dict[str, Callable[[dict[str, Any]], Asked]] = {
    "chat": asked_in_chat,
    "responses": asked_in_responses,
    "messages": asked_in_messages,
}
SAY: dict[str, Callable[[Asked], dict[str, Any]]] = {
    "chat": say_in_chat,
    "responses": say_in_responses,
    "messages": say_in_messages,
}


def for_chat_server(body: dict[str, Any], source: Protocol) -> dict[str, Any]:
    """A request in Chat Completions, with functions in the place of all other tools."""
    if source == "chat":
        return body
    asked = READ[source](body)
    check_end(asked)
    return say_in_chat(flat(asked))


def convert(body: Any, source: Protocol, target: Protocol) -> dict[str, Any]:
    """A request, written in another protocol.

    `body` is bytes of JSON, or what they say, which is not changed; `source` is the protocol it is
    in, `target` the one to write: `"chat"`, `"responses"` or `"messages"`. Read in its own
    protocol, the result gives the same prompt. Raises `ApiError` for a body that cannot be read,
    and where the prompt depends on something that the other protocol cannot say.
    """
    for name, protocol in (("source", source), ("target", target)):
        if protocol not in READ:
            raise wrong(protocol, f"one of {', '.join(READ)}", name)
    try:
        asked = READ[source](body_of(body))
    except RecursionError:
        raise ApiError("nested too deep", path="body") from None
    check_end(asked)
    return SAY[target](asked)
