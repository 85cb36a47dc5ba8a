"""Turns -> flat pieces (format.md, section 4): one method for each kind of turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from dsv4.encoding.calls import parameters_writer
from dsv4.encoding.content import block_kind, block_text, text_of
from dsv4.encoding.conventions import Conventions
from dsv4.encoding.fragments import (
    ANSWER,
    ANSWER_END,
    ASK_ANSWER,
    ASK_TASK,
    ASK_THINKING,
    BETWEEN,
    CALL_BETWEEN,
    CALL_NAME_END,
    IMAGE,
    LATER_SYSTEM,
    REASONING,
    REASONING_END,
    REMINDER,
    RESPONSE_FORMAT_START,
    RESULT_END,
    RESULT_START,
    SYSTEM,
    SYSTEM_OPENING,
    TEXT,
    UNSUPPORTED_END,
    UNSUPPORTED_START,
    URL,
    USER,
    USER_TURN,
    DialectFragments,
    effort_fragment,
    fragments_of,
)
from dsv4.encoding.json_text import json_at
from dsv4.encoding.prompt import Fragment, at
from dsv4.encoding.tools import schemas_text
from dsv4.encoding.turns import (
    ROLES,
    Message,
    call_order,
    in_call_order,
    lasts,
    merged_stop,
    unknown_role,
)
from dsv4.errors import EncodeError, shown
from dsv4.format.dialects import Dialect

# A part of a user turn: its type, content, the id of the call it answers, its message's index.
_Block: TypeAlias = tuple[str, Any, Any, int]


# As a renderer's `shown_from`: behind every message.
NOWHERE = float("inf")


class Renderer:
    """Writes messages to `flat`, and the images among them to `images`.

    What it must know beforehand, section 3 decides. Few conversations differ from the defaults
    here in more than a field or two. Indices are those of the caller's messages.
    """

    dialect: Dialect
    rules: Conventions
    messages: Sequence[Message]
    flat: list[str]
    images: list[Any]
    # What the first message is counted as; below 0 it is not the caller's.
    first_index: int
    # The first turn of the whole conversation; None where that is in the context.
    first: int | None
    # Turns at or behind this index think aloud.
    shown_from: float = -1
    # Messages before this index go if their role does not last.
    vanishing_before: int = -1
    # The calls that results may answer, before any here.
    last_calls: Any = None
    # The task of the turn before the first one here. Its question is in the prompt already.
    task_before: Any = None
    # What calls are written with, looked up for the first of them.
    _for_calls: tuple[DialectFragments, Callable[[Any], str]] | None = None

    def start(self, effort: str) -> None:
        """What stands before the first turn of the whole conversation, behind BOS."""
        if not self.messages or self.first is None:
            return
        if self.dialect.system_token is not None:
            if self.messages[self.first - self.first_index]["role"] == "system":
                self.flat += at(self.first), SYSTEM_OPENING
            elif effort:
                self.flat.append(SYSTEM_OPENING)
        if effort:
            self.flat += at(-1), effort_fragment(effort)
        self.flat.append(at(self.first_index - 1))

    def render(self, ends_asking: bool = True) -> None:
        """Every turn, and what comes between turns.

        This loop is the hot path. Plain text of the system, users and assistants is written here,
        everything else by the methods below. Appending twice takes less time than adding a pair,
        and counting less than `enumerate`.

        What a turn leaves for the next is in `asks`, `task`, `merges`. `ends_asking` says whether
        the last turn's transition is written: it is not before a turn that answers nothing.
        """
        flat, shown_from = self.flat, self.shown_from
        asks: Fragment | None = None  # what the turn before asks for, if an answer follows
        task = self.task_before  # the turn before carries this task …
        tasked: int | None = None  # … of this message; None where the context has asked already
        merges = False  # whether the turn before is a user's
        index = self.first_index - 1
        walk = iter(self.messages)
        for message in walk:
            index += 1
            role = message["role"]
            content = message.get("content")
            if role == "user" or role == "tool":
                joins = merges and (task is None or role == "tool")
                if not joins:
                    merges, task = True, None
                    if "task" in message and role == "user":
                        task, tasked = message["task"], index
                if content.__class__ is str and not joins and role == "user":
                    flat.append(USER)
                    flat.append(content)
                else:
                    taken = self._blocks(index, joins, task is not None)
                    while taken:
                        next(walk)
                        index += 1
                        taken -= 1
                asks = ASK_THINKING if index >= shown_from else ASK_ANSWER
            elif role == "assistant":
                if content.__class__ is not str:
                    content = text_of(content, f"messages[{index}].content")
                if task is not None:
                    self._task(task, tasked, index)
                elif asks is not None:
                    flat.append(asks)
                if index > shown_from and task is None:
                    flat += REASONING, self._reasoning(message, index), REASONING_END
                else:
                    flat.append(ANSWER)
                flat.append(content)
                if "tool_calls" in message:
                    self._calls(message["tool_calls"], index)
                if ("wo_eos" not in message and "prefix" not in message) or self._closes(message):
                    flat.append(ANSWER_END)
                merges, asks, task = False, None, None
                if "task" in message:
                    task, tasked = message["task"], index
            elif role == "system":
                if content.__class__ is not str:
                    content = text_of(content, f"messages[{index}].content")
                merges, asks, task = False, None, None
                if self.dialect.system_token is None or index == self.first:
                    flat.append(SYSTEM)
                else:
                    flat.append(LATER_SYSTEM)
                    asks = ASK_THINKING if index >= shown_from else ASK_ANSWER
                flat.append(content)
                if "tools" in message or "response_format" in message:
                    self._extras(message, index)
                if "task" in message:
                    task, tasked = message["task"], index
            else:
                merges = False
                if index < self.vanishing_before and self._vanishes(message, index):
                    continue
                if role == "latest_reminder":
                    if task is not None:
                        self._task(task, tasked, index)
                    elif asks is not None:
                        flat.append(asks)
                asks = self._other(role, content, message, index)
                task, tasked = message.get("task"), index
        if ends_asking:
            if task is not None:
                self._task(task, tasked, None)
            elif asks is not None:
                flat.append(asks)

    # Turns of developers, reminders, and of roles that the format does not know.

    def _vanishes(self, message: Message, index: int) -> bool:
        """Whether a message before *last* is dropped as a whole."""
        role = message["role"]
        if self.rules.known_roles_only and role not in ROLES:
            raise unknown_role(role, f"messages[{index}].role")
        if lasts(message):
            return False
        self.flat.append(at(index))
        return True

    def _other(self, role: str, content: Any, message: Message, index: int) -> Fragment | None:
        """Writes such a turn. Returns what it asks for, if it asks."""
        if content.__class__ is not str:
            content = text_of(content, f"messages[{index}].content")
        if role == "latest_reminder":
            self.flat += REMINDER, content
            return None
        if role != "developer":
            raise unknown_role(role, f"messages[{index}].role")
        if not content:
            path = f"messages[{index}].content"
            raise EncodeError(path, "found nothing, expected the text of a developer turn")
        self.flat += USER, content
        self._extras(message, index)
        return ASK_THINKING if index >= self.shown_from else ASK_ANSWER

    def _extras(self, message: Message, index: int) -> None:
        if message.get("tools"):
            words, path = fragments_of(self.dialect), f"messages[{index}].tools"
            schemas = schemas_text(message["tools"], self.rules.named_tools, path)
            self.flat += words.tools_start, schemas, words.tools_end
        if message.get("response_format"):
            schema = json_at(message["response_format"], f"messages[{index}].response_format")
            self.flat += RESPONSE_FORMAT_START, schema

    # Tasks.

    def _task(self, task: Any, tasked: int | None, index: int | None) -> None:
        """What a task of the message `tasked` asks (section 7). `index` is the message after it."""
        if tasked is None:
            return
        token = ASK_TASK.get(task) if isinstance(task, str) else None
        if token is None:
            path, expected = f"messages[{tasked}].task", ", ".join(ASK_TASK)
            raise EncodeError(path, f"found {shown(task)}, expected one of {expected}")
        if task == "action":
            self.flat.append(ASK_ANSWER if self.shown_from == NOWHERE else ASK_THINKING)
        self.flat.append(at(tasked))
        if task == "read_url" and self.rules.url_field is not None:
            self._url(tasked, self.rules.url_field)
        self.flat.append(token)
        if index is not None:
            self.flat.append(at(index - 1))

    def _url(self, index: int, field: str) -> None:
        url = self.messages[index - self.first_index].get(field)
        if url is None:
            return
        if not isinstance(url, str) or not url:
            path = f"messages[{index}].{field}"
            raise EncodeError(path, f"found {shown(url)}, expected the URL as text")
        self.flat += URL, str.__str__(url)

    # User turns.

    def _blocks(self, index: int, joins: bool, tasked: bool) -> int:
        """A user turn from the message `index` on. Returns how many messages more it took."""
        here = index - self.first_index
        stop = merged_stop(self.messages, here + 1, tasked)
        message = self.messages[here]
        content = message.get("content")
        if content.__class__ is str and stop == here + 1 and not joins:  # an agent's usual turn
            self.flat += USER, RESULT_START, content, RESULT_END
            return 0
        if not joins:
            self.flat += at(index), USER_TURN
        for block in self._sorted([b for n in range(here, stop) for b in self._blocks_of(n)]):
            self.flat += at(block[3]), BETWEEN if joins else TEXT
            joins = True
            self._block(block)
        self.flat.append(at(stop - 1 + self.first_index))
        return stop - here - 1

    def _blocks_of(self, here: int) -> Iterator[_Block]:
        message, index = self.messages[here], here + self.first_index
        content = message.get("content")
        if message["role"] == "tool":
            yield "tool_result", content, message.get("tool_call_id"), index
        elif not isinstance(content, (list, tuple)) or not self.dialect.lists_are_blocks:
            yield "text", content, None, index
        else:
            for n, item in enumerate(content):
                yield _listed_block(item, index, f"messages[{index}].content[{n}]")

    def _sorted(self, blocks: list[_Block]) -> list[_Block]:
        """Section 3, step 2."""
        order = call_order(self.last_calls) if sum(map(_is_result, blocks)) > 1 else None
        return in_call_order(blocks, order, _is_result, itemgetter(2)) if order else blocks

    def _block(self, block: _Block) -> None:
        kind, content, _, index = block
        if kind == "text":
            self.flat.append(text_of(content, f"messages[{index}].content"))
        elif kind == "tool_result":
            self.flat.append(RESULT_START)
            self._result(content, index)
            self.flat.append(RESULT_END)
        else:
            self._other_block(kind, content)

    def _result(self, content: Any, index: int) -> None:
        path = f"messages[{index}].content"
        if not isinstance(content, (list, tuple)):
            self.flat.append(text_of(content, path))
            return
        for n, item in enumerate(content):
            if n:
                self.flat.append(BETWEEN)
            kind, content, _, _ = _listed_block(item, index, f"{path}[{n}]")
            if kind == "text":
                self.flat.append(content)
            else:
                self._other_block(kind, item)

    def _other_block(self, kind: str, block: Message) -> None:
        if kind == "image_url" and self.dialect.image_token is not None:
            self.flat.append(IMAGE)
            self.images.append(block.get("image_url"))
        else:
            self.flat += UNSUPPORTED_START, kind, UNSUPPORTED_END

    # Parts of assistant turns.

    def _reasoning(self, message: Message, index: int) -> str:
        field, other = self.rules.reasoning_fields
        text = message.get(field)
        if not text:
            field, text = other, message.get(other)
        return text if text.__class__ is str else text_of(text, f"messages[{index}].{field}")

    def _closes(self, message: Message) -> bool:
        """Whether an assistant turn ends with EOS."""
        return not any(message.get(field) for field in self.rules.open_turn_fields)

    def _calls(self, calls: Any, index: int) -> None:
        if not calls:
            return
        if not isinstance(calls, (list, tuple)):
            path = f"messages[{index}].tool_calls"
            raise EncodeError(path, f"found {shown(calls)}, expected a list of calls")
        self.last_calls = calls
        words, parameters_of = self._for_calls or self._look_up_for_calls()
        flat, opening = self.flat, words.block_open
        for n, call in enumerate(calls):
            try:
                function = call["function"]
                name = function["name"]
                parameters = parameters_of(function.get("arguments"))
            except (KeyError, TypeError, AttributeError):
                name = None
            except EncodeError as error:
                path = f"messages[{index}].tool_calls[{n}].function.arguments{error.path}"
                raise EncodeError(path, error.problem) from None
            if name.__class__ is not str:
                name = _name_of(call, f"messages[{index}].tool_calls[{n}]")
            flat += opening, words.invoke_open, name, CALL_NAME_END, parameters, words.invoke_close
            opening = CALL_BETWEEN
        flat.append(words.block_close)

    def _look_up_for_calls(self) -> tuple[DialectFragments, Callable[[Any], str]]:
        parameters_of = parameters_writer(self.dialect.tags, self.rules.raw_arguments)
        self._for_calls = fragments_of(self.dialect), parameters_of
        return self._for_calls


def _is_result(block: _Block) -> bool:
    return block[0] == "tool_result"


def _listed_block(item: Any, index: int, path: str) -> _Block:
    """One item of a content list."""
    kind = "text" if isinstance(item, str) else block_kind(item, path)
    if kind == "text":
        return kind, block_text(item, path), None, index
    if kind == "tool_result":
        return kind, item.get("content"), item.get("tool_use_id"), index
    return kind, item, None, index


def _name_of(call: Any, path: str) -> str:
    if not isinstance(call, dict):
        raise EncodeError(path, f"found {shown(call)}, expected a call object")
    function = call.get("function")
    if not isinstance(function, dict):
        raise EncodeError(
            f"{path}.function", f"found {shown(function)}, expected a function object"
        )
    name = function.get("name")
    if not isinstance(name, str):
        raise EncodeError(f"{path}.function.name", f"found {shown(name)}, expected the tool's name")
    return str.__str__(name)
