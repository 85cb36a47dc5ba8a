"""Encoding from start to end.

Checks the options, attaches the request's tools and response format to the first system message,
decides which parts are dropped, runs the renderer of the layout, and opens the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from dsv4._encode import types
from dsv4._encode.inputs import (
    MessageFields,
    as_list,
    as_message,
    as_messages,
    check_roles,
    is_nonempty,
    maybe_dict,
    maybe_list,
    refuse_image_text,
    type_of,
)
from dsv4._encode.prompt import ANSWER, Prompt, ending_of, forced_call, prefix_entries
from dsv4._encode.render_v4 import NEVER_SHOWN, RendererV4, maybe_plain_chat, plain_chat_omissions
from dsv4._encode.tools import (
    PrewrittenText,
    function_of,
    json_at,
    qualified_function,
    read_json,
    schemas_text,
)
from dsv4._encode.turns import (
    NATIVE,
    NATIVE_WITHOUT_TOOLS,
    Conventions,
    TurnWriter,
    any_tools,
    are_plain,
    count_skipped_by_release,
    first_surviving_index,
    last_asking_index,
    last_calls,
    last_task,
)
from dsv4._format.dialects import Dialect, dialect_named
from dsv4.errors import EncodeError, Error, Location, OptionError, mismatch, short_repr


def render_conversation(
    messages: Sequence[Any],
    context: Sequence[Any],
    dialect: Dialect,
    rules: Conventions,
    thinking: bool,
    drop_thinking: bool,
    bos: bool,
    effort: str,
    preamble: MessageFields | None = None,
) -> TurnWriter:
    """The renderer of the text after `context`, which holds its pieces and images.

    `effort` is the text for the effort. `preamble` holds the request's own tools and response
    format, if no system message can take them.
    """
    is_plain = not context and are_plain(messages)
    if not is_plain:
        messages = as_messages(messages, "messages")
        context = as_messages(context, "context")
        check_roles(context, "context", rules.known_roles_only)
    try:
        if dialect.layout == "v3.2":
            from dsv4._encode.render_v32 import RendererV32  # few write it

            dropping = thinking and drop_thinking
            renderer_v32 = RendererV32(messages, context, dialect, rules, thinking, dropping)
            renderer_v32.start(bos and not context, preamble)
            renderer_v32.render()
            return renderer_v32
        if dialect.image_text_refused:
            _check_image_text(messages, context, dialect, rules)
        last = -1
        if thinking and drop_thinking:
            if is_plain and preamble is None:
                last = last_asking_index(messages, dialect, first=True)
            else:
                last = _last_user_turn(messages, context, dialect, rules, preamble)
        shown_from = last if thinking else NEVER_SHOWN
        if context:
            return _render_after_context(context, messages, dialect, rules, shown_from, last)
        first = 0 if preamble is None else None
        if last > 0 and dialect.system_token is not None and preamble is None:
            first = first_surviving_index(messages, last)
        renderer = RendererV4(messages, dialect, rules, shown_from, last, first)
        renderer.start(bos, effort if thinking else "", preamble)
        renderer.render()
        return renderer
    except Error:
        raise
    except Exception:  # the role is the only field whose presence is not checked
        check_roles(messages, "messages", rules.known_roles_only)
        raise


def _check_image_text(
    messages: Sequence[MessageFields],
    context: Sequence[MessageFields],
    dialect: Dialect,
    rules: Conventions,
) -> None:
    image = dialect.image_token
    if image is not None:
        refuse_image_text(image, messages, "messages", rules.reasoning_fields)
        refuse_image_text(image, context, "context", rules.reasoning_fields)


def _last_user_turn(
    messages: Sequence[MessageFields],
    context: Sequence[MessageFields],
    dialect: Dialect,
    rules: Conventions,
    preamble: MessageFields | None,
) -> int:
    """The last user turn, before which reasoning is dropped (section 3, step 3).

    -1 if nothing is dropped: with tools, or if that turn is in the context.
    """
    if rules.shows_tools and (
        any_tools(messages, dialect.users_keep_tools)
        or (preamble is not None and "tools" in preamble)
        or (context and any_tools(context, dialect.users_keep_tools))
    ):
        return -1
    return last_asking_index(messages, dialect, first=not context and preamble is None)


def _render_after_context(
    context: Sequence[MessageFields],
    messages: Sequence[MessageFields],
    dialect: Dialect,
    rules: Conventions,
    shown_from: float,
    last: int,
) -> RendererV4:
    """The messages after turns that are in the prompt already."""
    start = 0
    if rules.context_dropped_alone and last >= 0:
        # The released function's quirk: some messages count as context, and are not rendered.
        start = count_skipped_by_release(messages, context, dialect, last)
        context = [*context, *messages[:start]]
    renderer = RendererV4(
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


def effort_text(effort: object, dialect: Dialect, rules: Conventions) -> str:
    """The text of an effort (docs/format.md, section 6). One that the dialect does not have is an
    error in both modes."""
    if effort is None:
        return dialect.efforts[None]
    # By exact type, because True would find 1.
    if type(effort) is str or type(effort) is int:
        text = dialect.efforts.get(effort)
        if text is not None:
            return text
    if dialect.false_efforts_are_none and not is_nonempty(effort):
        return dialect.efforts[None]
    problem = mismatch(effort, f"{dialect.efforts_described} ({dialect})")
    raise OptionError(rules.effort_option, problem)


# The options of a request, checked and put in the places that the format has for them.


TOOL_CHOICES = ("auto", "none", "required")
# Choices with which the prompt opens no call.
_UNFORCED = ("auto", "none")
_AUTO_CHOICE = ("auto", None)


def encode(
    messages: Iterable[types.MessageInput],
    *,
    tools: Iterable[types.ToolInput] | None = None,
    tool_choice: types.ToolChoice = "auto",
    response_format: types.ResponseFormatParam | None = None,
    thinking: bool = True,
    effort: types.Effort | None = None,
    drop_thinking: bool = True,
    bos: bool = True,
    context: Iterable[types.MessageInput] = (),
    dialect: types.DialectName | Dialect = "v4",
    prefix: str = "",
) -> Prompt:
    """The exact prompt of a conversation: the short way for `Request(messages, …).encode()`.

    - `messages`: OpenAI-style dicts, objects that can turn themselves into one, or `Sampled` turns.
    - `tools`: OpenAI tools or bare function objects, for the first system message.
    - `tool_choice`: "auto", "none", "required", or a tool by name or as OpenAI's object.
    - `response_format`: a JSON schema, or OpenAI's object around one.
    - `thinking`: whether the model thinks before it answers.
    - `effort`: how hard it thinks, by the names or numbers of the dialect.
    - `drop_thinking`: whether reasoning before the last user turn is left out.
    - `bos`: whether the prompt begins with BOS.
    - `context`: messages that are in the prompt already; only the text after them is written.
    - `dialect`: the release of the format, by name or as a `Dialect`.
    - `prefix`: the start of the answer, written after the header as the model's own text.

    Returns a `Prompt`. Raises an `OptionError` for an option with a wrong type or value, and an
    `EncodeError` for a message that the format cannot express.
    """
    if not thinking.__class__ is drop_thinking.__class__ is bos.__class__ is bool:
        raise _flag_error(thinking=thinking, drop_thinking=drop_thinking, bos=bos)
    release = dialect if type(dialect) is Dialect else dialect_named(dialect)
    effort_words = release.efforts[None] if effort is None else effort_text(effort, release, NATIVE)
    new: Sequence[Any] = messages if type(messages) is list else _message_list(messages, "messages")
    before: Sequence[Any] = context if type(context) is tuple else _message_list(context, "context")
    if not new:
        raise EncodeError(("messages",), "found none, expected at least one message")
    mode, tool = (
        _AUTO_CHOICE
        if tool_choice.__class__ is str and tool_choice == "auto"
        else read_tool_choice(tool_choice)
    )
    extras_given = tools is not None or response_format is not None
    if mode == "auto" and not (extras_given or before or prefix.__class__ is not str or prefix):
        chat = (
            maybe_plain_chat(new, release, thinking, bos, effort_words) if drop_thinking else None
        )
        if chat is not None:
            return Prompt(
                chat, release, None, partial(plain_chat_omissions, new, release, thinking)
            )
    options = (thinking, drop_thinking, bos, effort_words)
    extras = (tools, response_format) if extras_given else None
    return _encode_with_options(new, before, release, (mode, tool), extras, options, prefix)


def _encode_with_options(
    new: Sequence[Any],
    before: Sequence[Any],
    release: Dialect,
    choice: tuple[str, str | None],
    extras: tuple[Iterable[types.ToolInput] | None, types.ResponseFormatParam | None] | None,
    options: tuple[bool, bool, bool, str],
    prefix: str,
) -> Prompt:
    """The prompt of any request. `extras` are its tools and its response format, `options` those
    of `render_conversation`."""
    mode, tool = choice
    rules = NATIVE_WITHOUT_TOOLS if mode == "none" else NATIVE
    preamble = None
    listed: Sequence[Any] = ()
    if extras is not None:
        tools, response_format = extras
        listed = tools if type(tools) is list else _tool_list(tools)
        sections = _request_extras(() if mode == "none" else listed, response_format, release)
        if sections:
            new, before, preamble = _with_extras(sections, new, before, release)
    forced = mode not in _UNFORCED
    if forced:
        tool = chosen_tool(tool, listed, before, new, release)
    rendered = render_conversation(new, before, release, rules, *options, preamble)
    if prefix.__class__ is not str or prefix or forced:
        _open_answer(rendered.flat, prefix, forced, tool, release)
    return Prompt(rendered.flat, release, rendered.images, rendered.omissions, rendered.sampled)


def _tool_list(tools: Iterable[types.ToolInput] | None) -> Sequence[Any]:
    return as_list(() if tools is None else tools, ("tools",), "a list of tools")


def _message_list(messages: Iterable[types.MessageInput] | None, name: str) -> Sequence[Any]:
    listed = () if messages is None and name == "context" else messages
    return as_list(listed, (name,), "a list of messages")


# Options.


def check_options(
    tools: object,
    tool_choice: object,
    response_format: object,
    thinking: object,
    effort: object,
    drop_thinking: object,
    bos: object,
    dialect: str | Dialect,
    stop: object,
    prefix: object,
) -> None:
    """Raises an `OptionError` for an option that is wrong whatever the messages are."""
    if not thinking.__class__ is drop_thinking.__class__ is bos.__class__ is bool:
        raise _flag_error(thinking=thinking, drop_thinking=drop_thinking, bos=bos)
    effort_text(effort, dialect_named(dialect), NATIVE)
    if tools is not None:
        as_list(tools, ("tools",), "a list of tools")
    maybe_response_schema(response_format)
    forced = read_tool_choice(tool_choice)[0] not in _UNFORCED
    _check_stop(stop)
    _check_prefix(prefix, forced and not thinking)


def _flag_error(**flags: object) -> OptionError:
    name, value = next((n, short_repr(f)) for n, f in flags.items() if f.__class__ is not bool)
    return OptionError(name, f"found {value}, expected True or False")


def _check_stop(stop: object) -> None:
    if isinstance(stop, str):
        return
    for n, text in enumerate(as_list(stop, ("stop",), "a text or a list of texts")):
        if not isinstance(text, str) or not text:
            raise OptionError(("stop", n), mismatch(text, "a text"))


def _check_prefix(prefix: object, forced: bool) -> None:
    if not isinstance(prefix, str):
        raise OptionError("prefix", mismatch(prefix, "text"))
    if prefix and forced:
        problem = f"found {short_repr(prefix)} and a call that must be made, expected one of them"
        raise OptionError("prefix", problem)


def read_tool_choice(tool_choice: object) -> tuple[str, str | None]:
    """A choice of tools: "auto", "none" or "required"; or "tool", and the name of the tool.

    The name may be given as OpenAI does: `{"type": "function", "function": {"name": …}}`. A tool
    that has the name of a mode must be given in this way.
    """
    if isinstance(tool_choice, str) and tool_choice:
        word = str.__str__(tool_choice)
        return (word, None) if word in TOOL_CHOICES else ("tool", word)
    fields = maybe_dict(tool_choice)
    if fields is not None and type_of(fields) == "function":
        name = (maybe_dict(fields.get("function")) or {}).get("name")
        if isinstance(name, str) and name:
            return "tool", str.__str__(name)
        raise OptionError(("tool_choice", "function", "name"), mismatch(name, "the tool's name"))
    expected = (
        f'{", ".join(TOOL_CHOICES)}, a tool\'s name, or {{"type": "function", "function": …}}'
    )
    raise OptionError("tool_choice", mismatch(tool_choice, expected))


# Tools and the response format.


def _request_extras(
    tools: Sequence[Any], response_format: object, dialect: Dialect
) -> dict[str, PrewrittenText]:
    """The texts that the request adds to the system message, by field."""
    extras: dict[str, PrewrittenText] = {}
    if tools:
        schemas = schemas_text(tools, NATIVE.named_tools, dialect.namespace_end, ("tools",))
        extras["tools"] = PrewrittenText(schemas)
    schema = maybe_response_schema(response_format)
    if schema is not None and schema[0]:
        extras["response_format"] = PrewrittenText(json_at(*schema))
    return extras


def maybe_response_schema(response_format: object) -> tuple[dict[str, Any], Location] | None:
    """The JSON schema in OpenAI's `response_format`, or given by itself, and its location."""
    location: Location = ("response_format",)
    if response_format is None:
        return None
    fields = maybe_dict(response_format)
    if fields is None:
        words = short_repr(response_format)
        raise OptionError(location, f"found {words}, expected a JSON schema")
    kind = type_of(fields)
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}, location
    if kind != "json_schema":
        return fields, location
    location = (*location, "json_schema", "schema")
    value = (maybe_dict(fields.get("json_schema")) or {}).get("schema")
    schema = maybe_dict(value)
    if schema is None:
        raise OptionError(location, mismatch(value, "a JSON schema"))
    return schema, location


def _with_extras(
    extras: dict[str, PrewrittenText],
    messages: Sequence[Any],
    context: Sequence[Any],
    dialect: Dialect,
) -> tuple[Sequence[Any], Sequence[Any], MessageFields | None]:
    """The lists with the extras on the first system message; without one, the extras by themselves.

    If system messages have a token, a later one cannot take the extras: they would follow the first
    turns. Then the extras are a system turn of their own, as in deepseek-recipe.
    """
    for name, index, fields in _systems(context, messages, dialect):
        listed = context if name == "context" else messages
        added = _added_extras(extras, fields, (name, index), dialect)
        changed = [*listed[:index], {**fields, **added}, *listed[index + 1 :]]
        return (messages, changed, None) if name == "context" else (changed, context, None)
    if context:
        problem = f"found no system message to carry {' and '.join(extras)}, expected one"
        raise EncodeError(("context",), problem)
    return messages, context, dict(extras)


def _systems(
    context: Sequence[Any], messages: Sequence[Any], dialect: Dialect
) -> Iterator[tuple[str, int, MessageFields]]:
    """The system messages that can carry extras, each with its list and index."""
    for name, listed in (("context", context), ("messages", messages)):
        for index, message in enumerate(listed):
            fields = message if message.__class__ is dict else as_message(message, (name, index))
            if isinstance(fields.get("role"), str) and fields["role"] == "system":
                yield name, index, fields
            if dialect.system_token is not None:
                return


def _added_extras(
    extras: dict[str, PrewrittenText], message: MessageFields, location: Location, dialect: Dialect
) -> dict[str, PrewrittenText]:
    """The extras for a system message, with the tools that it has itself."""
    if is_nonempty(message.get("response_format")) and "response_format" in extras:
        problem = "found response_format here and on the request, expected one of them"
        raise EncodeError((*location, "response_format"), problem)
    if "tools" not in extras or not is_nonempty(message.get("tools")):
        return extras
    place = (*location, "tools")
    lines = extras["tools"].split("\n")
    names = {read_json(line)["name"] for line in lines}
    own = schemas_text(message["tools"], NATIVE.named_tools, dialect.namespace_end, place)
    for n, line in enumerate(own.split("\n")):
        name = read_json(line)["name"]
        if name in names and line not in lines:
            problem = f"found another tool with the name {name!r} of the request, expected the same"
            raise EncodeError((*place, n), problem)
        lines += [line] if name not in names else []
    return {**extras, "tools": PrewrittenText("\n".join(lines))}


# The start of the answer.


def chosen_tool(
    name: str | None,
    tools: Iterable[Any],
    context: Sequence[Any],
    messages: Sequence[Any],
    dialect: Dialect,
) -> str | None:
    """The tool that must be called, named as the model sees it; None if any tool will do.

    Raises an `OptionError` if there is no such tool.
    """
    tools_there = [*tools, *(tool for _, tool in visible_tools(context, messages))]
    if name is None:
        if tools_there:
            return None
        raise OptionError("tool_choice", "found 'required', expected it with tools")
    names = dict(pair for tool in tools_there for pair in _tool_names(tool, dialect))
    if name not in names:
        expected = f"one of the tools: {', '.join(names)}" if names else "it with tools"
        raise OptionError("tool_choice", mismatch(name, expected))
    return names[name]


def visible_tools(
    context: Iterable[Any], messages: Iterable[Any]
) -> Iterator[tuple[Location, Any]]:
    """The tools that messages bring and the prompt shows, with their locations."""
    for name, listed in (("context", context), ("messages", messages)):
        for index, item in enumerate(listed):
            message = item if item.__class__ is dict else as_message(item, (name, index))
            if "tools" in message and _may_show_tools(message.get("role")):
                for n, tool in enumerate(maybe_list(message["tools"]) or ()):
                    yield (name, index, "tools", n), tool


def _may_show_tools(role: object) -> bool:
    return isinstance(role, str) and role in ("system", "developer")


def _tool_names(tool: object, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """The names by which a declared tool may be chosen, each with its name as the model sees it.

    A tool that is wrong has none: writing it raises the error.
    """
    try:
        fields, function = function_of(tool, True, ("tools",))
        if end := dialect.namespace_end:
            qualified = qualified_function(fields, function, ("tools",), end)["name"]
            yield qualified, qualified
            yield function["name"], qualified
        else:
            yield function["name"], function["name"]
    except (OptionError, EncodeError):
        return


def _open_answer(
    flat: list[str], prefix: str, forced: bool, tool: str | None, dialect: Dialect
) -> None:
    """Writes the part of the answer that the request gives: a prefix, or the opening of a call."""
    ending = ending_of(flat)
    forced = forced and ending.kind == "answer"
    _check_prefix(prefix, forced)
    if prefix:
        if ending.kind not in ("think", "answer"):
            raise OptionError("prefix", mismatch(prefix, "it only where an answer is asked for"))
        flat += prefix_entries(prefix, ending.thinking, dialect)
    elif forced:
        flat += ANSWER[None], forced_call(dialect, tool)
