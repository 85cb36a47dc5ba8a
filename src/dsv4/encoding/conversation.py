"""The whole of encoding, in the order of docs/format.md: merge, sort, drop, render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4.encoding.conventions import Conventions
from dsv4.encoding.door import Message, as_messages, check_roles, holds
from dsv4.encoding.image_text import refuse_image_text
from dsv4.encoding.render import NOWHERE, Renderer
from dsv4.encoding.render_v32 import RendererV32
from dsv4.encoding.turns import (
    any_tools,
    are_plain,
    first_staying,
    last_asking,
    last_calls,
    last_task,
    passed_over,
)
from dsv4.encoding.writer import TurnWriter
from dsv4.errors import Error, OptionError, shown
from dsv4.format.dialects import Dialect


def render_conversation(
    messages: Sequence[Any],
    context: Sequence[Any],
    dialect: Dialect,
    rules: Conventions,
    thinking: bool,
    drop_thinking: bool,
    bos: bool,
    effort: str,
    preamble: Message | None = None,
) -> TurnWriter:
    """Everything that follows `context`, in a renderer that holds the pieces and the images.

    `effort` is the text for it. `preamble` holds the request's own tools and response format, where
    no system message can take them.
    """
    is_plain = not context and are_plain(messages)
    if not is_plain:
        messages = as_messages(messages, "messages")
        context = as_messages(context, "context")
        check_roles(context, "context", rules.known_roles_only)
    try:
        if dialect.layout == "v3.2":
            dropping = thinking and drop_thinking
            renderer_v32 = RendererV32(messages, context, dialect, rules, thinking, dropping)
            renderer_v32.start(bos and not context, preamble)
            renderer_v32.render()
            return renderer_v32
        if dialect.image_text_refused:
            _refuse_image_text(messages, context, dialect, rules)
        last = -1
        if thinking and drop_thinking:
            if is_plain and preamble is None:
                last = last_asking(messages, dialect, first=True)
            else:
                last = _last(messages, context, dialect, rules, preamble)
        shown_from = last if thinking else NOWHERE
        if context:
            return _after(context, messages, dialect, rules, shown_from, last)
        first = 0 if preamble is None else None
        if last > 0 and dialect.system_token is not None and preamble is None:
            first = first_staying(messages, last)
        renderer = Renderer(messages, dialect, rules, shown_from, last, first)
        renderer.start(bos, effort if thinking else "", preamble)
        renderer.render()
        return renderer
    except Error:
        raise
    except Exception:  # the role is the one field that is taken for granted
        check_roles(messages, "messages", rules.known_roles_only)
        raise


def _refuse_image_text(
    messages: Sequence[Message], context: Sequence[Message], dialect: Dialect, rules: Conventions
) -> None:
    image = dialect.image_token
    if image is not None:
        refuse_image_text(image, messages, "messages", rules.reasoning_fields)
        refuse_image_text(image, context, "context", rules.reasoning_fields)


def _last(
    messages: Sequence[Message],
    context: Sequence[Message],
    dialect: Dialect,
    rules: Conventions,
    preamble: Message | None,
) -> int:
    """The last user turn, before which reasoning is dropped (section 3, step 3).

    -1 where nothing is dropped: with tools, or where it is in the context.
    """
    if rules.shows_tools and (
        any_tools(messages, dialect.users_keep_tools)
        or (preamble is not None and "tools" in preamble)
        or (context and any_tools(context, dialect.users_keep_tools))
    ):
        return -1
    return last_asking(messages, dialect, first=not context and preamble is None)


def _after(
    context: Sequence[Message],
    messages: Sequence[Message],
    dialect: Dialect,
    rules: Conventions,
    shown_from: float,
    last: int,
) -> Renderer:
    """The messages after turns that are in the prompt already."""
    start = 0
    if rules.context_dropped_alone and last >= 0:
        # The released function's quirk: some messages count as context, and are not rendered.
        start = passed_over(messages, context, dialect)
        context = [*context, *messages[:start]]
    renderer = Renderer(
        messages,
        dialect,
        rules,
        shown_from,
        last,
        first=None,
        calls_before=last_calls(context),
        task_before=last_task(context, dropped=last >= 0),
    )
    renderer.render(start)
    return renderer


def effort_text(effort: Any, dialect: Dialect, rules: Conventions) -> str:
    """docs/format.md, section 6. What is no effort of the dialect is an error in both modes."""
    if effort is None:
        return dialect.efforts[None]
    # By exact type, because True would find 1.
    if effort.__class__ is str or effort.__class__ is int:
        text = dialect.efforts.get(effort)
        if text is not None:
            return text
    if dialect.false_efforts_are_none and not holds(effort):
        return dialect.efforts[None]
    problem = f"found {shown(effort)}, expected {dialect.efforts_described} ({dialect})"
    raise OptionError(rules.effort_option, problem)
