"""The conversations found in a session file of an agent, the notes on them, and the interface of
the readers in each agent's module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from dsv4._inputs.session_entries import Entry
from dsv4.api.own_bodies import is_of_model

Body: TypeAlias = dict[str, Any]


class LossNote(NamedTuple):
    """A part of a session that is left out or not trained on: the kind of reason, and the agent's
    name for the part if that is needed."""

    kind: Literal["cut", "undone", "client", "unread"]
    name: str = ""


CUT = LossNote("cut")
UNDONE = LossNote("undone")


class AgentConversation(NamedTuple):
    """One conversation of a session file.

    `agent` is the program that wrote the file, `session` its id there, `branch` the origin of the
    conversation ("main", "branch", "sub-agent", "compacted"), and `body` the request that continues
    it, in the protocol that is nearest to the file. `unread` are the lines of the file that are not
    entries: their content is missing in some conversation. The same is true of entries that look
    like turns, but are of an unknown kind: `unknown` has the kind of each. `notes` name all other
    parts of a session that are in none of its conversations, or not trained on; its last
    conversation has them.
    """

    agent: str
    session: str
    branch: str
    body: Body
    unread: tuple[bytes, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[LossNote, ...] = ()

    def requests(self) -> Iterator[Body]:
        """The requests that led to its answers, as far as the file tells: the conversation up to
        each turn of the model."""
        name = "input" if "input" in self.body else "messages"
        items = self.body[name]
        is_model = [is_of_model(item) for item in items]
        for n in range(1, len(items)):
            if is_model[n] and not is_model[n - 1]:
                body = {field: value for field, value in self.body.items() if field != "weight"}
                yield {**body, name: items[:n]}


class AgentReader(NamedTuple):
    """The reader of a program's file, and a function that tells whether an entry is understood: its
    turn is read, or it is known to have none, or a copy."""

    read: Callable[[Sequence[Entry]], list[AgentConversation]]
    is_read: Callable[[Entry], bool]


def with_weights(field: str, items: Sequence[Entry]) -> Body:
    """Messages or items with their weights in a list beside them, because neither has a field for
    a weight."""
    weights = [int(is_of_model(item) and item.get("weight") != 0) for item in items]
    bare = [{name: v for name, v in item.items() if name != "weight"} for item in items]
    return {field: bare, **({"weight": weights} if bare != items else {})}


def with_notes(
    found: list[AgentConversation], notes: Iterable[LossNote]
) -> list[AgentConversation]:
    """The conversations of a session, the last of them with its notes."""
    return [*found[:-1], *(one._replace(notes=tuple(notes)) for one in found[-1:])]
