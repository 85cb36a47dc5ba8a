"""The prompts of verl 0.9.1, which computes ids from messages with an encoder of its own.

verl takes messages, tools and the options of a template, which are in `chat_template_kwargs` here;
it looks at nothing else of a request. Its rules were found from its prompts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from dsv4._encode.tools import to_json
from dsv4._format import tokens
from dsv4._format.dialects import V4
from dsv4._format.texts import RESPONSE_FORMAT
from dsv4.profiles import server_requests as server
from dsv4.profiles.markup_texts import calls_block, tools_section
from dsv4.profiles.server_requests import Object, ThinkingMode

ROLES = ("system", "developer", "user", "assistant", "tool", "latest_reminder")
# Roles of one turn: only its first message has a token.
_JOINED = ("user", "tool")
# The reasoning of answers before the last message of these is dropped.
_ASKING = ("user", "developer", "tool")
# What may follow a task; before others, its token is left out.
_AFTER_TASKS = ("assistant", "latest_reminder", None)
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def render(body: Object, dialect: str) -> str:
    conversation = list(server.messages_of(body))
    tools = server.maybe_list(body.get("tools"), "tools")
    for message, path in conversation:
        server.one_of(message.get("role"), ROLES, f"{path}.role")
        if message.get("task") is not None:
            server.one_of(message["task"], tuple(tokens.TASK_TOKENS), f"{path}.task")
    writer = _PromptWriter(body, conversation, bool(tools))
    front = _tools_section(tools, "tools") if tools else ""
    return "".join([tokens.BOS, mode(body, dialect).effort, front, *writer.turns()])


def mode(body: Object, dialect: str) -> ThinkingMode:
    options = server.maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs")
    effort = options.get("reasoning_effort")
    thinking = bool(options.get("enable_thinking", False)) and effort != "none"
    return ThinkingMode(thinking, V4.efforts["max"] if thinking and effort == "max" else "")


class _PromptWriter:
    """The turns of a conversation. Each answer has a header, also one that follows another."""

    def __init__(
        self, body: Object, conversation: Sequence[tuple[Object, str]], has_tools: bool
    ) -> None:
        options = server.maybe_object(body.get("chat_template_kwargs"), "chat_template_kwargs")
        self._conversation = conversation
        self._thinking = mode(body, "v4").thinking
        keeps = has_tools or any(message.get("tools") for message, _ in conversation)
        self._drops = bool(options.get("drop_thinking", True)) and not keeps
        asking = (n for n, (m, _) in enumerate(conversation) if m["role"] in _ASKING)
        self._last_asking = max(asking, default=-1)

    def turns(self) -> Iterator[str]:
        before: Object = {}
        for index, (message, path) in enumerate(self._conversation):
            if message["role"] == "assistant":
                yield from _answer(message, path, self._shows(index), before)
            else:
                yield from _other_turn(message, path, before)
            if message.get("task") is not None and self._role_at(index + 1) in _AFTER_TASKS:
                yield from _task(message["task"], self._thinking)
            before = message
        if before.get("task") is None:
            yield from _header(self._thinking)

    def _role_at(self, index: int) -> object:
        """The role of a message; None after the last."""
        return self._conversation[index][0]["role"] if index < len(self._conversation) else None

    def _shows(self, index: int) -> bool:
        """Whether an answer is written with its reasoning."""
        return self._thinking and (index > self._last_asking or not self._drops)


def _header(thinking: bool) -> Iterator[str]:
    yield tokens.ASSISTANT
    yield tokens.THINK_START if thinking else tokens.THINK_END


def _task(task: str, thinking: bool) -> Iterator[str]:
    """The token of a task, which takes the place of a header, but for an action's."""
    if task == "action":
        yield from _header(thinking)
    yield tokens.TASK_TOKENS[task]


def _answer(message: Object, path: str, shows: bool, before: Object) -> Iterator[str]:
    if before.get("task") is None:
        yield from _header(shows)
        if shows:
            reasoning = next((message[n] for n in _REASONING_FIELDS if message.get(n)), "")
            yield server.text_at(reasoning, f"{path}.reasoning_content")
            yield tokens.THINK_END
    yield _content(message, path)
    if message.get("tool_calls"):
        yield _calls(message["tool_calls"], f"{path}.tool_calls")
    yield tokens.EOS


def _other_turn(message: Object, path: str, before: Object) -> Iterator[str]:
    role, text = message["role"], _content(message, path)
    if role in _JOINED:
        yield server.BLANK_LINE if before.get("role") in _JOINED else tokens.USER
        yield f"{tokens.RESULT_START}{text}{tokens.RESULT_END}" if role == "tool" else text
        return
    yield {"developer": tokens.USER, "latest_reminder": tokens.LATEST_REMINDER}.get(role, "")
    yield text
    if role != "latest_reminder" and message.get("tools"):
        yield _tools_section(message["tools"], f"{path}.tools")
    if role != "latest_reminder" and message.get("response_format"):
        yield f"{server.BLANK_LINE}{RESPONSE_FORMAT}{to_json(message['response_format'])}"


def _content(message: Object, path: str) -> str:
    """The text of a message. What is no text in a list of contents is left out."""
    content, path = message.get("content"), f"{path}.content"
    if content is None or isinstance(content, str):
        return content or ""
    parts = [
        server.object_at(part, f"{path}[{n}]")
        for n, part in enumerate(server.list_at(content, path))
    ]
    return "".join(
        server.text_at(part.get("text"), f"{path}[{n}].text")
        for n, part in enumerate(parts)
        if part.get("type") == "text"
    )


def _tools_section(tools: Sequence[object], path: str) -> str:
    schemas = []
    for n, tool in enumerate(server.list_at(tools, path)):
        schema = server.object_at(tool, f"{path}[{n}]")
        schemas.append(schema.get("function", schema))
    return server.BLANK_LINE + tools_section(schemas, V4, to_json)


def _calls(calls: object, path: str) -> str:
    listed = []
    for n, item in enumerate(server.list_at(calls, path)):
        call = server.object_at(item, f"{path}[{n}]")
        function = server.object_at(call.get("function", call), f"{path}[{n}].function")
        name = server.text_at(function.get("name"), f"{path}[{n}].function.name")
        listed.append((name, _arguments(function.get("arguments"))))
    return calls_block(listed, V4.tags, to_json)


def _arguments(arguments: object) -> Object:
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}
