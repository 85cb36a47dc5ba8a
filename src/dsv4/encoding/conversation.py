"""The whole of encoding, in the order of docs/format.md: merge, sort, drop, render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4.encoding.conventions import Conventions
from dsv4.encoding.door import Message, as_messages, check_roles
from dsv4.encoding.image_text import refuse_image_text
from dsv4.encoding.render import NOWHERE, Renderer
from dsv4.encoding.turns import (
    any_tools,
    first_staying,
    last_asking,
    last_calls,
    last_task,
    passed_over,
)
from dsv4.errors import OptionError, shown
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
) -> Renderer:
    """Everything that follows `context`, in a renderer that holds the pieces and the images.

    `effort` is the text for it. `preamble` holds the request's own tools and response format, where
    no system message can take them.
    """
    messages = as_messages(messages, "messages")
    if context:
        context = as_messages(context, "context")
        check_roles(context, "context", rules.known_roles_only)
    try:
        return _render(
            messages, context, dialect, rules, thinking, drop_thinking, bos, effort, preamble
        )
    except KeyError:  # the one field that is taken for granted
        check_roles(messages, "messages", rules.known_roles_only)
        raise


def _render(
    messages: Sequence[Message],
    context: Sequence[Message],
    dialect: Dialect,
    rules: Conventions,
    thinking: bool,
    drop_thinking: bool,
    bos: bool,
    effort: str,
    preamble: Message | None,
) -> Renderer:
    image = dialect.image_token
    if image is not None and dialect.image_text_refused:
        refuse_image_text(image, messages, "messages", rules.reasoning_fields)
        refuse_image_text(image, context, "context", rules.reasoning_fields)
    last = -1
    if thinking and drop_thinking and not _keeps_all(messages, context, dialect, rules, preamble):
        last = last_asking(messages, dialect, first=not context and preamble is None)
    shown_from = last if thinking else NOWHERE
    if context:
        return _after(context, messages, dialect, rules, shown_from, last)
    first = None if preamble is not None else 0
    if last > 0 and first == 0 and dialect.system_token is not None:
        first = first_staying(messages, last)
    renderer = Renderer(messages, dialect, rules, shown_from, last, first)
    renderer.start(bos, effort if thinking else "", preamble)
    renderer.render()
    return renderer


def _keeps_all(
    messages: Sequence[Message],
    context: Sequence[Message],
    dialect: Dialect,
    rules: Conventions,
    preamble: Message | None,
) -> bool:
    """Whether tools keep old reasoning from being dropped (section 3, step 3)."""
    if not rules.shows_tools:
        return False
    if preamble is not None and "tools" in preamble:
        return True
    if any_tools(messages, dialect.users_keep_tools):
        return True
    return bool(context) and any_tools(context, dialect.users_keep_tools)


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
    if dialect.false_efforts_are_none and _is_false(effort):
        return dialect.efforts[None]
    problem = f"found {shown(effort)}, expected {dialect.efforts_described} ({dialect})"
    raise OptionError(rules.effort_option, problem)


def _is_false(value: Any) -> bool:
    try:
        return not value
    except Exception:  # the object's own fault
        return False
