"""The parts that turns share in every layout: content, tools, reasoning, calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsv4._encode.fragments import (
    BETWEEN_CALLS,
    BETWEEN_ITEMS,
    BETWEEN_MODEL_ITEMS,
    CALL_NAME_END,
    IMAGE,
    MODEL_IMAGE,
    RESPONSE_FORMAT_START,
    DialectFragments,
    fragments_of,
)
from dsv4._encode.inputs import (
    IMAGE_TYPES,
    MessageFields,
    RawTurn,
    image_record,
    is_nonempty,
    maybe_dict,
    maybe_list,
    read_block,
    text_of,
    type_of,
)
from dsv4._encode.omissions import Omission
from dsv4._encode.tools import (
    ParametersWriter,
    PrewrittenText,
    json_at,
    parameters_writer,
    qualified_call_name,
    schemas_text,
)
from dsv4._encode.turn_rules import Conventions
from dsv4._format.dialects import NAMESPACE_END, Dialect
from dsv4.errors import EncodeError, Location, OptionError, short_repr


class TurnWriter:
    """Writes parts of turns to `flat`, and the images among them to `images`.

    Indices are those of the caller's messages.
    """

    # Few conversations have these, so they are only set where there are some.
    images: list[MessageFields] | None = None
    # What a tokenizer places as it was sampled, by message.
    sampled: dict[int, RawTurn] | None = None
    # The calls that results may answer.
    _last_calls: Sequence[Any] | None = None
    # What calls are written with, looked up for the first of them.
    _for_calls: tuple[DialectFragments, ParametersWriter] | None = None

    def __init__(
        self, messages: Sequence[MessageFields], dialect: Dialect, rules: Conventions
    ) -> None:
        self.messages = messages
        self.dialect = dialect
        self.rules = rules
        self.flat: list[str] = []

    def omissions(self) -> tuple[Omission, ...]:
        """What was left out of the prompt."""
        raise NotImplementedError

    def _add_image(self, block: MessageFields, location: Location) -> None:
        if self.images is None:
            self.images = []
        self.images.append(image_record(block, location))

    def _add_sampled(self, index: int, turn: RawTurn) -> None:
        if turn.sampled.ids is not None:
            self.sampled = self.sampled or {}
            self.sampled[index] = turn

    def _extras(self, message: MessageFields, location: Location) -> None:
        """Tools and response format of a message, or of the request."""
        tools, response_format = message.get("tools"), message.get("response_format")
        if is_nonempty(tools) and self.rules.shows_tools:
            words, rules = fragments_of(self.dialect), self.rules
            place = (*location, "tools")
            schemas = schemas_text(tools, rules.named_tools, self.dialect.namespaces, place)
            self.flat += words.tools_start, schemas, words.tools_end
        if is_nonempty(response_format):
            if type(response_format) is PrewrittenText:
                schema = str.__str__(response_format)
            else:
                schema = json_at(response_format, (*location, "response_format"))
            self.flat += RESPONSE_FORMAT_START, schema

    def _content(self, content: object, index: int, between: str = BETWEEN_ITEMS) -> None:
        """Content that may be a list: texts, and images where the dialect has them, joined."""
        location = ("messages", index, "content")
        listed = maybe_list(content) if self.dialect.lists_are_blocks else None
        if listed is None:
            self.flat.append(text_of(content, location))
            return
        image = MODEL_IMAGE if between is BETWEEN_MODEL_ITEMS else IMAGE
        is_first = True
        for n, item in enumerate(listed):
            block = maybe_dict(item) or {}
            kind = type_of(block)
            if kind in IMAGE_TYPES:
                self._add_image(block, (*location, n))
                written: str = image
            elif kind == "text":
                written = read_block(block, (*location, n)).content
            elif item.__class__ is UnseenImage:
                self._add_image(item.image, (*location, n))
                continue
            elif item.__class__ is TextBesideBlocks:
                written = str.__str__(item)
            else:
                continue
            if not is_first:
                self.flat.append(between)
            self.flat.append(written)
            is_first = False

    def _reasoning(self, message: MessageFields, index: int) -> str:
        field, other = self.rules.reasoning_fields
        text = message.get(field)
        if type(text) is str and text:
            return text
        if not is_nonempty(text):
            field, text = other, message.get(other)
        return text if type(text) is str else text_of(text, ("messages", index, field))

    def _calls(self, calls: object, index: int) -> None:
        listed = calls if type(calls) is list else _call_list(calls, index)
        if not listed:
            return
        self._last_calls = listed
        words, writer = self._for_calls or self._look_up_for_calls()
        flat, opening, namespaces = self.flat, words.block_open, self.dialect.namespaces
        for n, call in enumerate(listed):
            if call.__class__ is not dict or call.get("function").__class__ is not dict:
                call = _plain_call(call, ("messages", index, "tool_calls", n))
            function = call["function"]
            name = function.get("name")
            if name.__class__ is not str:
                name = _exact_name(name, ("messages", index, "tool_calls", n, "function", "name"))
            if namespaces and (
                NAMESPACE_END in name or "namespace" in call or "namespace" in function
            ):
                name = qualified_call_name(call, function, ("messages", index, "tool_calls", n))
            arguments = function.get("arguments")
            known = writer.cache.recent.get(arguments) if arguments.__class__ is str else None
            parameters = self._parameters(writer, function, index, n) if known is None else known
            flat += opening, words.invoke_open, name, CALL_NAME_END, parameters, words.invoke_close
            opening = BETWEEN_CALLS
        flat.append(words.block_close)

    def _parameters(
        self, writer: ParametersWriter, function: MessageFields, index: int, n: int
    ) -> str:
        if "arguments" not in function:
            return ""
        try:
            return writer.write(function["arguments"])
        except (EncodeError, OptionError) as error:
            place = ("messages", index, "tool_calls", n, "function", "arguments", *error.location)
            raise EncodeError(place, error.problem) from None

    def _look_up_for_calls(self) -> tuple[DialectFragments, ParametersWriter]:
        rule = self.rules.arguments or self.dialect.arguments
        self._for_calls = fragments_of(self.dialect), parameters_writer(self.dialect.tags, rule)
        return self._for_calls


class TextBesideBlocks(str):
    """The text of a message that has blocks as well."""

    __slots__ = ()


class UnseenImage:
    """An image that is returned, though the text of its message is written instead of it."""

    def __init__(self, image: MessageFields) -> None:
        self.image = image


def _call_list(calls: object, index: int) -> Sequence[Any]:
    listed = () if calls is None else maybe_list(calls)
    if listed is None:
        problem = f"found {short_repr(calls)}, expected a list of calls"
        raise EncodeError(("messages", index, "tool_calls"), problem)
    return listed


def _plain_call(call: object, location: Location) -> MessageFields:
    """A call and its function object as dicts."""
    fields = maybe_dict(call)
    if fields is None:
        raise EncodeError(location, f"found {short_repr(call)}, expected a call object")
    function = maybe_dict(fields.get("function"))
    if function is None:
        problem = f"found {short_repr(fields.get('function'))}, expected a function object"
        raise EncodeError((*location, "function"), problem)
    return {**fields, "function": function}


def _exact_name(name: object, location: Location) -> str:
    if not isinstance(name, str):
        raise EncodeError(location, f"found {short_repr(name)}, expected the tool's name")
    return str.__str__(name)
