"""The shortest way for the commonest conversation: a chat of texts, which asks at its end.

What the renderer would write for it needs none of what the renderer prepares for. A chat is

- a system message or none, then users and assistants in turn, a user last;
- every message a dict with `role` and `content`, which is a text, and of an assistant also
  `reasoning_content`, which is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4.encoding.conventions import NATIVE
from dsv4.encoding.fragments import (
    ANSWER_END,
    ASK_ANSWER,
    ASK_THINKING,
    BOS,
    SYSTEM,
    effort_fragment,
    hot_openings,
)
from dsv4.encoding.omissions import Omission, omissions
from dsv4.encoding.render import NOWHERE
from dsv4.format.dialects import Dialect


def maybe_chat(
    messages: Sequence[Any], dialect: Dialect, thinking: bool, bos: bool, effort: str
) -> list[str] | None:
    """The pieces of a chat whose old reasoning is not shown. None for any other conversation."""
    if (
        dialect.layout != "v4"
        or dialect.systems_ask != "never"
        or dialect.system_token is not None
        or dialect.image_text_refused
    ):
        return None
    users, _, answers = hot_openings(len(messages))
    flat: list[str] = [BOS] if bos else []
    if effort and thinking:
        flat.append(effort_fragment(effort))
    before = None
    try:
        for index, message in enumerate(messages):
            if message.__class__ is not dict:
                return None
            role, content = message["role"], message["content"]
            if content.__class__ is not str:
                return None
            if role == "user":
                if before == role or len(message) != 2:
                    return None
                flat.append(users[index])
                flat.append(content)
            elif role == "assistant":
                if before != "user" or len(message) != 2 + ("reasoning_content" in message):
                    return None
                flat.append(answers[index])
                flat.append(content)
                flat.append(ANSWER_END)
            elif role == "system" and before is None and len(message) == 2:
                flat.append(SYSTEM[index])
                flat.append(content)
            else:
                return None
            before = role
    except Exception:  # no role, no content, or one that cannot be compared: the renderer says so
        return None
    if before != "user":
        return None
    flat.append(ASK_THINKING[None] if thinking else ASK_ANSWER[None])
    return flat


def left_out(messages: Sequence[Any], dialect: Dialect, thinking: bool) -> tuple[Omission, ...]:
    """What the prompt of a chat does not show: reasoning."""
    last = len(messages) - 1
    return omissions(messages, dialect, NATIVE, last if thinking else NOWHERE, last, None)
