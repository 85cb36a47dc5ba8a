"""Normalises callers' values: messages to dicts, content to text and blocks.

Dicts and lists are used as they are, without a copy. Objects that convert themselves (pydantic
models, pandas rows, NumPy arrays, mappings) are converted once and never changed. Text that comes
out is always exactly a `str`: a subclass could be mistaken for the format's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

from dsv4._encode import types
from dsv4._encode.prompt import BLANK_LINE
from dsv4._format.dialects import DIALECTS, ROLES
from dsv4.errors import EncodeError, Location, OptionError, mismatch, refusal, short_repr

MessageFields: TypeAlias = dict[str, Any]

_DICT = frozenset({dict})
# Methods by which an object turns itself into a dict, the first that it has: `openai` and pandas;
# pydantic.
_DICT_METHODS = ("to_dict", "model_dump")


class SampledMessage(dict[str, Any]):
    """A message's fields, together with the turn as the model wrote it."""

    sampled: types.Sampled


def maybe_dict(value: object) -> dict[str, Any] | None:
    """The value as a dict, None if it is not one and cannot turn itself into one."""
    if type(value) is dict:
        return value
    if isinstance(value, type):
        return None
    # Whatever goes wrong here is the object's own fault: then it does not count as a dict.
    try:
        if isinstance(value, Mapping):
            return dict(value)
    except Exception:
        return None
    for name in _DICT_METHODS:
        try:
            fields = getattr(value, name)()
        except Exception:
            continue
        if isinstance(fields, dict):
            return dict(fields)
    return None


def maybe_list(value: object) -> list[Any] | tuple[Any, ...] | None:
    """The value as a list, None if it is not one: texts and mappings are not."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping, type)):
        return None
    try:
        listed = list(value) if isinstance(value, Sequence) else _tolist(value)
    except Exception:
        return None
    return listed if isinstance(listed, list) else None


def _tolist(value: object) -> object:
    """The elements of an array, as NumPy and others give them."""
    return getattr(value, "tolist", lambda: None)()


def type_of(value: object) -> str:
    """The `type` of a block, a choice or a format: empty if it is missing or not text."""
    kind = (maybe_dict(value) or {}).get("type")
    return kind if isinstance(kind, str) else ""


def is_nonempty(value: object) -> bool:
    """Whether a value has elements: the truth value of an array does not tell."""
    try:
        return bool(value)
    except Exception:
        return True


def as_list(value: object, location: Location, expected: str) -> Sequence[Any]:
    """A caller's list, which may be any iterable."""
    if type(value) is list or type(value) is tuple:
        return value
    if not isinstance(value, (str, bytes, bytearray, Mapping)) and isinstance(value, Iterable):
        try:
            return list(value)
        except TypeError:  # an array without a dimension
            pass
    raise refusal(location, mismatch(value, expected))


def as_messages(messages: Sequence[Any], name: str) -> Sequence[MessageFields]:
    """The messages as dicts. `name` is the caller's name for the list."""
    if _DICT.issuperset(map(type, messages)):
        return messages
    return [as_message(message, (name, n)) for n, message in enumerate(messages)]


def as_inputs(messages: Sequence[MessageFields]) -> Sequence[types.MessageInput]:
    """Messages that are dicts already, for a `Request`.

    A type checker does not know that a `dict[str, Any]` is a message.
    """
    return cast("Sequence[types.MessageInput]", messages)


def check_roles(messages: Sequence[MessageFields], name: str, known_only: bool) -> None:
    """Raises if a message has no role, or with `known_only` a role that no release has."""
    for n, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or (known_only and role not in ROLES):
            raise unknown_role(role, (name, n, "role"))


def as_message(message: object, location: Location) -> MessageFields:
    """One message as a dict."""
    if _is_sampled(message):
        return _as_sampled_message(message, location)
    fields = message if type(message) is SampledMessage else maybe_dict(message)
    if fields is None:
        raise EncodeError(location, mismatch(message, 'a message: a dict with a "role"'))
    return fields


def fields_of(message: object) -> MessageFields:
    """The fields of a message in any form; an empty dict for anything that is not a message."""
    return maybe_dict(message.message if _is_sampled(message) else message) or {}


def _is_sampled(message: object) -> TypeGuard[types.Sampled]:
    # Callers that pass dicts, as most do, do not need the types.
    return type(message) is not dict and type(message) is types.Sampled


def _as_sampled_message(sampled: types.Sampled, location: Location) -> SampledMessage:
    message = SampledMessage(as_message(sampled.message, location))
    if message.get("role") != "assistant":
        role = short_repr(message.get("role"))
        problem = f'found {role}, expected "assistant" for what was sampled'
        raise EncodeError((*location, "role"), problem)
    message.sampled = sampled
    return message


def unknown_role(
    role: object, location: Location, roles: tuple[str, ...] = ROLES
) -> OptionError | EncodeError:
    return refusal(location, mismatch(role, f"one of {', '.join(roles)}"))


# Content: a string, nothing, or a list of blocks.


# The types of blocks that are images, if the dialect has images.
IMAGE_TYPES = ("image_url", "image")
DIALECTS_WITH_IMAGES = " or ".join(
    dialect.name for dialect in DIALECTS.values() if dialect.image_token is not None
)
# Fields that may hold the source of a block of type "image", in the order of its record.
_IMAGE_SOURCES = ("source", "url", "data")


def text_of(content: object, location: Location) -> str:
    """The text of any content: a string as it is, null as nothing, text blocks joined."""
    if isinstance(content, str):
        return str.__str__(content)
    if content is None:
        return ""
    listed = maybe_list(content)
    if listed is None:
        raise refusal(location, mismatch(content, "text, null or a list of text blocks"))
    return BLANK_LINE.join(_block_text(block, (*location, n)) for n, block in enumerate(listed))


def _block_text(block: object, location: Location) -> str:
    """The text of one block of a list in which there are only texts."""
    read = read_block(block, location)
    if read.kind != "text":
        problem = f'found a block of type {short_repr(read.kind)}, expected type "text"'
        if read.kind in IMAGE_TYPES:
            problem += f": images need the dialect {DIALECTS_WITH_IMAGES}"
        raise refusal(location, problem)
    return str(read.content)


class ContentBlock:
    """One block of a content list: its type, and its content.

    The content of a text is the text, of a result the tool's output, of others the block itself.
    `call_id` says which call a result answers.
    """

    __slots__ = ("call_id", "content", "kind")

    def __init__(self, kind: str, content: Any, call_id: Any = None) -> None:
        self.kind = kind
        self.content = content
        self.call_id = call_id


def read_block(block: object, location: Location) -> ContentBlock:
    """An item of a content list. A text by itself is a block too."""
    if isinstance(block, str):
        return ContentBlock("text", str.__str__(block))
    fields = maybe_dict(block)
    if fields is None:
        raise refusal(location, mismatch(block, 'a block such as {"type": "text"}'))
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise refusal((*location, "type"), mismatch(kind, 'a name such as "text"'))
    if kind == "text":
        return ContentBlock("text", _text_field(fields, location))
    if kind == "tool_result":
        return ContentBlock("tool_result", fields.get("content"), fields.get("tool_use_id"))
    return ContentBlock(str.__str__(kind), fields)


def _text_field(fields: MessageFields, location: Location) -> str:
    text = fields.get("text")
    if text is not None and not isinstance(text, str):
        raise refusal((*location, "text"), mismatch(text, "text"))
    return str.__str__(text) if text else ""


def image_record(block: MessageFields, location: Location) -> MessageFields:
    """The record of an image in `Prompt.images` (docs/format.md, section 12.2)."""
    if block["type"] == "image_url":
        source = block.get("image_url")
        inside = maybe_dict(source)
        url = source if inside is None else inside.get("url")
        record = {"type": "image", "url": url}
        place, expected = "image_url", 'an image such as {"url": "https://…"}'
    else:
        record = {
            "type": "image",
            **{name: block[name] for name in _IMAGE_SOURCES if name in block},
        }
        place, expected = "source", f"one of {', '.join(_IMAGE_SOURCES)}"
    if not any(is_nonempty(value) for name, value in record.items() if name != "type"):
        words = short_repr(block.get(place))
        raise EncodeError((*location, place), f"found {words}, expected {expected}")
    return record


# Texts that spell the image token, which would pass for images (docs/format.md, section 12.3).


# A list, a result block in it, the result's list, a text block in that: text that is nested deeper
# is never written.
_CONTENT_DEPTH = 4


def refuse_image_text(
    image: str, messages: Sequence[MessageFields], name: str, reasoning_fields: Sequence[str]
) -> None:
    """Raises if a text of the messages spells the token. `name` is the caller's for the list."""
    fields = ("content", "content_blocks", *reasoning_fields)
    for index, message in enumerate(messages):
        for field in fields:
            if field not in message:
                continue
            content = message[field]
            is_spelled = (
                image in content if type(content) is str else _contains_image_text(image, content)
            )
            if is_spelled:
                problem = f"found {image} in a text, expected it only where an image stands"
                raise EncodeError((name, index, field), problem)


def _contains_image_text(image: str, content: object) -> bool:
    return any(image in text for text in _written_texts(content))


def _written_texts(content: object, depth: int = _CONTENT_DEPTH) -> Iterator[str]:
    """Every text of a content that is written, in whatever form the content is given."""
    if isinstance(content, str):
        yield str.__str__(content)
    elif content is None or not depth:
        return
    elif (listed := maybe_list(content)) is not None:
        for item in listed:
            yield from _written_texts(item, depth - 1)
    elif (block := maybe_dict(content)) is not None:
        kind = type_of(block)
        if kind == "text":
            yield from _written_texts(block.get("text"), depth - 1)
        elif kind == "tool_result":
            yield from _written_texts(block.get("content"), depth - 1)
