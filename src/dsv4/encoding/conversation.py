"""The whole of encoding, in the order of format.md: merge, sort, drop, render."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dsv4.encoding.conventions import Conventions
from dsv4.encoding.fragments import BOS
from dsv4.encoding.render import NOWHERE, Renderer
from dsv4.encoding.turns import (
    ROLES,
    Message,
    any_tools,
    as_dicts,
    first_staying,
    last_asking,
    last_calls,
    last_task,
    passed_over,
    unknown_role,
)
from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import Dialect


def render_conversation(
    messages: Sequence[Any],
    context: Sequence[Any],
    dialect: Dialect,
    rules: Conventions,
    thinking: bool,
    drop_thinking: bool,
    bos: bool,
    effort: Any,
    first_index: int = 0,
) -> Renderer:
    """Everything that follows `context`, in a renderer that holds the pieces and the images.

    `first_index` is what the caller counts the first message as; below 0 it is not the caller's.
    """
    prefix = effort_prefix(effort, dialect, rules)
    try:
        if context:
            _check_roles(context, rules)
        image = dialect.image_token
        if image is not None:
            _refuse_spelling(image, rules, messages, "messages", first_index)
            if context:
                _refuse_spelling(image, rules, context, "context")
        renderer = Renderer()
        renderer.dialect = dialect
        renderer.rules = rules
        renderer.messages = messages
        renderer.images = []
        renderer.flat = [BOS] if bos and not context else []
        renderer.first = renderer.first_index = first_index
        if not thinking:
            renderer.shown_from = NOWHERE
            prefix = ""
        elif drop_thinking:
            _drop(renderer, messages, context, dialect)
        if context:
            _follow(renderer, context)
        elif prefix or dialect.system_token is not None:
            renderer.start(prefix)
        renderer.render()
        return renderer
    except (AttributeError, KeyError, TypeError):
        # Perhaps some messages are objects, or none at all. To look at every one beforehand would
        # cost those who give dicts.
        dicts, before = as_dicts(messages, "messages", first_index), as_dicts(context, "context")
        if dicts == messages and before == context:
            raise
    return render_conversation(
        dicts, before, dialect, rules, thinking, drop_thinking, bos, effort, first_index
    )


def _drop(
    renderer: Renderer, messages: Sequence[Message], context: Sequence[Message], dialect: Dialect
) -> None:
    """Section 3, step 3."""
    if any_tools(messages, dialect.users_keep_tools):
        return
    if context and any_tools(context, dialect.users_keep_tools):
        return
    asking_system = None if dialect.system_token is None else 0 if context else 1
    last = last_asking(messages, asking_system)
    if last < 0:  # it is in the context, and so is all that goes
        return
    renderer.shown_from = renderer.vanishing_before = last + renderer.first_index
    if asking_system == 1:
        renderer.first = renderer.first_index + first_staying(messages, last)


def _follow(renderer: Renderer, context: Sequence[Message]) -> None:
    """What must be known of the turns that are in the prompt already."""
    if renderer.rules.context_dropped_alone and renderer.vanishing_before >= 0:
        context = _pass_over(renderer, context)
    renderer.first = None
    renderer.last_calls = last_calls(context)
    renderer.task_before = last_task(context, dropped=renderer.vanishing_before >= 0)


def _pass_over(renderer: Renderer, context: Sequence[Message]) -> Sequence[Message]:
    """The released function's quirk: some messages count as context, and are not rendered."""
    passed = passed_over(renderer.messages, context, renderer.dialect)
    context = [*context, *renderer.messages[:passed]]
    renderer.messages = renderer.messages[passed:]
    renderer.first_index += passed
    return context


def effort_prefix(effort: Any, dialect: Dialect, rules: Conventions) -> str:
    """format.md, section 6. What is no effort of the dialect is an error in both modes."""
    if effort is None:
        return dialect.efforts[None]
    # By exact type, because True would find 1.
    if effort.__class__ is str or effort.__class__ is int:
        prefix = dialect.efforts.get(effort)
        if prefix is not None:
            return prefix
    problem = f"found {shown(effort)}, expected {dialect.efforts_described} ({dialect})"
    raise EncodeError(rules.effort_option, problem)


def _check_roles(context: Sequence[Message], rules: Conventions) -> None:
    for index, message in enumerate(context):
        role = message["role"]
        if role not in ROLES and (rules.known_roles_only or not isinstance(role, str)):
            raise unknown_role(role, f"context[{index}].role")


# A list, a result block in it, the result's list, a text block in that, its text: what is nested
# deeper is never written.
_TEXT_DEPTH = 4


def _refuse_spelling(
    image: str, rules: Conventions, messages: Sequence[Message], name: str, first_index: int = 0
) -> None:
    """Section 9: a text that spells the image token would pass for an image."""
    fields = ("content", *rules.reasoning_fields)
    for index, message in enumerate(messages, first_index):
        for field in fields:
            if field in message and _spells(image, message[field]):
                problem = f"found {image} in a text, expected it only where an image stands"
                raise EncodeError(f"{name}[{index}].{field}", problem)


def _spells(image: str, content: Any) -> bool:
    if content.__class__ is str:
        return image in content
    return any(image in text for text in _texts(content))


def _texts(content: Any, depth: int = _TEXT_DEPTH) -> Iterator[str]:
    """Every text in a content, however it is given."""
    if isinstance(content, str):
        yield str.__str__(content)
    elif not depth:
        return
    elif isinstance(content, (list, tuple)):
        for item in content:
            yield from _texts(item, depth - 1)
    elif isinstance(content, dict):
        yield from _texts(content.get("text"), depth - 1)
        yield from _texts(content.get("content"), depth - 1)
