"""Messages as they come -> the turns of a conversation, as the format takes them."""

from __future__ import annotations

from typing import Any

from dsv4._format.dialects import Dialect
from dsv4.api.asked import Asked, Message
from dsv4.api.content import BLANK_LINE, refuse_images, without_images
from dsv4.api.errors import ApiError
from dsv4.api.settings import Settings
from dsv4.api.tools import prompt_name

REMINDER = "<system-reminder>\n{}\n</system-reminder>"


class Turns:
    """The conversation of a request: `messages` for the format, and the `marks` of its turns."""

    def __init__(self, asked: Asked, dialect: Dialect, settings: Settings) -> None:
        self.messages: list[Message] = []
        self.marks: dict[int, tuple[str, ...]] = {}
        self._path = asked.path
        self._dialect = dialect
        self._settings = settings
        self._reads_images = settings.read_images and dialect.image_token is not None
        self._system: list[str] = []  # texts before the first turn
        self._later = settings.later_system if dialect.system_token is None else "in_place"
        for message in asked.messages:
            self._add(message)
        self._end()
        self._begin()

    def _add(self, message: Message) -> None:
        role = message["role"]
        if role == "assistant":
            self._add_assistant(message)
        elif role == "system":
            self._add_system(message["content"])
        elif message["content"].__class__ is list and not self._reads_images:
            self.messages.append({**message, "content": self._without_images(message["content"])})
        else:
            self.messages.append(message)

    # Assistant messages in a row are one turn, and so is thinking between its other parts.

    def _add_assistant(self, message: Message) -> None:
        if "tool_calls" in message and any("namespace" in c for c in message["tool_calls"]):
            message = {**message, "tool_calls": list(map(self._named, message["tool_calls"]))}
        if self.messages and self.messages[-1]["role"] == "assistant":
            self.messages[-1] = joined_turn(self.messages[-1], message)
        else:
            self.messages.append(message)

    def _named(self, call: dict[str, Any]) -> dict[str, Any]:
        if "namespace" not in call:
            return call
        function = call["function"]
        name = prompt_name((call["namespace"], function["name"]), self._dialect)
        return {"id": call["id"], "type": "function", "function": {**function, "name": name}}

    # System texts before the first turn are one message. Later ones go where the settings say.

    def _add_system(self, text: str) -> None:
        if not self.messages or self._later == "in_front":
            self._system.append(text)
        elif self._later == "reminder":
            self.messages.append(reminder(text))
        else:
            self.messages.append({"role": "system", "content": text})

    def _without_images(self, content: Any) -> str:
        if self._settings.unsupported_images == "refuse":
            refuse_images(content)
        return without_images(content)

    def _end(self) -> None:
        """A prompt must ask for something: a system text at its end does so as a reminder."""
        if not self.messages and self._system:
            self.messages.append(reminder(self._system.pop()))
        elif not self.messages:
            raise ApiError("found no message, expected at least one", path=self._path)
        elif self.messages[-1]["role"] == "system" and self._dialect.system_token is None:
            self.messages[-1] = reminder(self.messages[-1]["content"])

    def _begin(self) -> None:
        if self._system:
            first = {"role": "system", "content": BLANK_LINE.join(self._system)}
            self.messages.insert(0, first)
        for index, message in enumerate(self.messages):
            if "marks" in message:
                self.marks[index] = message["marks"]
                self.messages[index] = {k: v for k, v in message.items() if k != "marks"}


def reminder(text: str) -> Message:
    """A system text as a part of the user's turn."""
    return {"role": "user", "content": REMINDER.format(text)}


def joined_turn(first: Message, second: Message) -> Message:
    """Two assistant messages as one: their reasoning, then their texts, then their calls."""
    turn: Message = {"role": "assistant"}
    for field in ("reasoning_content", "content"):
        texts = [text for text in (first.get(field), second.get(field)) if text]
        turn[field] = BLANK_LINE.join(texts)
    for field in ("tool_calls", "marks"):
        if field in first or field in second:
            turn[field] = (*first.get(field, ()), *second.get(field, ()))
    if second.get("prefix"):
        turn["prefix"] = True
    return turn


def check_end(asked: Asked) -> None:
    """Raises where the messages end with a turn that nobody is asked to go on with."""
    last = asked.messages[-1] if asked.messages else None
    if last is None or last["role"] != "assistant":
        return
    if not (asked.continues or last.get("prefix")):
        expected = 'a message of the user or a tool, or "prefix": true to continue this one'
        message = f"found an assistant message at the end, expected {expected}"
        raise ApiError(message, path=asked.last_path)
    turn = len(asked.messages)
    while turn and asked.messages[turn - 1]["role"] == "assistant":
        turn -= 1
    if any(message.get("tool_calls") for message in asked.messages[turn:]):
        raise ApiError("found calls at the end, expected their results", path=asked.last_path)
    if not any(message["role"] in ("user", "tool") for message in asked.messages[:turn]):
        raise ApiError("found nobody to answer, expected a user message", path=asked.last_path)


def continued(messages: list[Message], asked: Asked, thinking: bool) -> tuple[list[Message], str]:
    """The messages, and the text that the model goes on with where they leave it no other way.

    A last assistant turn is left open. Reasoning alone cannot be: it is given as text.
    """
    check_end(asked)
    last = messages[-1]
    if last["role"] != "assistant":
        return messages, ""
    if last.get("content"):
        return [*messages[:-1], {**last, "prefix": True}], ""
    return messages[:-1], (last.get("reasoning_content") or "") if thinking else ""
