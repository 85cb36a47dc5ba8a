"""The request that encodes to a prompt of a server."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from dsv4._decode import Decoded, decode
from dsv4._format.dialects import Dialect
from dsv4.profiles.text_shields import unshielded_value
from dsv4.types import MessageInput, ToolInput


def decoded_prompt(prompt: str, dialect: Dialect) -> Decoded:
    """The request that a prompt decodes to. Marks in special tokens that callers spelled are
    removed afterwards, so that none of these is read as a token."""
    decoded = decode(prompt, dialect=dialect)
    request = replace(
        decoded.request,
        messages=cast("list[MessageInput]", unshielded_value(list(decoded.request.messages))),
        tools=cast("list[ToolInput] | None", unshielded_value(decoded.request.tools)),
    )
    return decoded._replace(request=request)
