"""Rules on the schemas of tools."""

from __future__ import annotations

from collections.abc import Iterator

from dsv4.checking.conversation import Conversation
from dsv4.checking.findings import Found
from dsv4.checking.schemas import invalid_schema


def invalid_schemas(conversation: Conversation) -> Iterator[Found]:
    for tool in conversation.tools:
        problem = None if tool.parameters is None else invalid_schema(tool.parameters)
        if problem:
            yield Found("invalid_schema", tool.location, f"parameters: {problem}")


RULES = (invalid_schemas,)
