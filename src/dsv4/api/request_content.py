"""The content of messages in the form that all protocols share: text and images, system texts,
tool calls.

A protocol has a table of the blocks it knows. A block that is in no table is named in the prompt
by its type, as the format defines it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias, TypedDict

from dsv4._format.texts import BILLING_HEADER, UNSUPPORTED
from dsv4._images.image_size import is_heif, read_image
from dsv4._images.image_source import image_bytes, is_data_url
from dsv4.api.errors import ApiError, wrong
from dsv4.api.request_fields import (
    JsonObject,
    clean,
    clean_value,
    json_object,
    maybe_json,
    maybe_text_at,
    type_at,
    without_surrogates,
)
from dsv4.errors import ImageError
from dsv4.types import ImageUrlParam, TextPartParam

BLANK_LINE = "\n\n"


class _ImageBlockRequired(TypedDict):
    type: Literal["image_url"]
    image_url: ImageUrlParam
    path: str


class ImageBlock(_ImageBlockRequired, total=False):
    """An image: its address, or its bytes in a `data:` address. `path` is its place in the request,
    `problem` says why the request has neither."""

    problem: str


Content: TypeAlias = "str | list[TextPartParam | ImageBlock]"
# The content of one block: text, an image, several of these, or nothing at all.
BlockContent: TypeAlias = "Content | ImageBlock | None"
# A block as a client sent it, and its path -> its content.
BlockReader: TypeAlias = Callable[[JsonObject, str], BlockContent]


def unsupported_text(kind: str) -> str:
    """The text that replaces content of a `kind` that cannot be read."""
    return kind.join(UNSUPPORTED)


UNSUPPORTED_IMAGE = unsupported_text("Image")
UNSUPPORTED_DOCUMENT = unsupported_text("Document")


def content_of(value: object, path: str, readers: Mapping[str, BlockReader]) -> Content:
    """A content field: text, null, or a list of blocks."""
    if isinstance(value, str):
        return clean(value)
    if value is None:
        return ""
    if not isinstance(value, (list, tuple)):
        raise wrong(value, "text or a list of blocks", path)
    return joined_content(
        [read_block(block, f"{path}[{n}]", readers) for n, block in enumerate(value)]
    )


def read_block(block: object, path: str, readers: Mapping[str, BlockReader]) -> BlockContent:
    if isinstance(block, str):
        return clean(block)
    fields = json_object(block, path)
    kind = type_at(fields, path)
    reader = readers.get(kind)
    return unsupported_text(kind) if reader is None else reader(fields, path)


def joined_content(blocks: Iterable[BlockContent]) -> Content:
    """One text, unless there are images among the blocks."""
    parts: list[str | TextPartParam | ImageBlock] = []
    for block in blocks:
        if isinstance(block, list):
            parts += block
        elif block is not None:
            parts.append(block)
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return BLANK_LINE.join(texts)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def without_images(content: Content) -> str:
    """The content as text, with a placeholder for each image."""
    if isinstance(content, str):
        return content
    return BLANK_LINE.join(
        block["text"] if block["type"] == "text" else UNSUPPORTED_IMAGE for block in content
    )


def image_block(url: str | None, path: str, detail: object = None) -> ImageBlock:
    if not url:
        return missing_image("found no picture, expected one, or the address of one", path)
    source: ImageUrlParam = {"url": url}
    if isinstance(detail, str):
        source["detail"] = detail
    return {"type": "image_url", "image_url": source, "path": path}


def missing_image(problem: str, path: str) -> ImageBlock:
    """An image whose bytes or address the request does not have."""
    return {"type": "image_url", "image_url": {"url": ""}, "path": path, "problem": problem}


NO_FILES = "found the id of a file, expected the picture itself or its address: no files are kept"


def read_openai_image(part: JsonObject, path: str) -> BlockContent:
    """An image as OpenAI's protocols write it: its address, by itself or in an object, or the id of
    a file. The level of detail is beside the address, or beside the object."""
    source = part.get("image_url")
    if source is not None and not isinstance(source, (str, dict)):
        raise wrong(source, "an address, or an object with one", f"{path}.image_url")
    inside = source if isinstance(source, dict) else {"url": source}
    url = maybe_text_at(inside, "url", f"{path}.image_url")
    if not url and part.get("file_id") is not None:
        return missing_image(NO_FILES, path)
    return image_block(url, path, inside.get("detail", part.get("detail")))


def read_anthropic_image(block: JsonObject, path: str) -> BlockContent:
    """An image as Anthropic's protocol writes it, and as dsv4's own messages may have it."""
    source = block.get("source")
    if source is None:
        return image_block(None, path)
    where = f"{path}.source"
    fields = json_object(source, where)
    kind = type_at(fields, where)
    if kind == "url":
        return image_block(maybe_text_at(fields, "url", where), path)
    if kind != "base64":
        problem = f"found {kind!r} as the type of its source, expected 'base64' or 'url'"
        return missing_image(NO_FILES if kind == "file" else problem, path)
    data = maybe_text_at(fields, "data", where)
    media = maybe_text_at(fields, "media_type", where) or ""
    label = media if media.startswith("image/") and "," not in media else "image/png"
    return image_block(f"data:{label};base64,{data}" if data else None, path)


def sayable(content: list[TextPartParam | ImageBlock]) -> list[TextPartParam | ImageBlock]:
    """The blocks for another protocol: a text replaces images that the request does not have."""
    return [block if block["type"] == "text" else maybe_missing(block) for block in content]


def maybe_missing(block: ImageBlock) -> TextPartParam | ImageBlock:
    """An image, or a text that replaces one that the request does not have."""
    return {"type": "text", "text": UNSUPPORTED_IMAGE} if "problem" in block else block


# Images as engines get them.


# Larger images are of no use to a model, or decompression bombs. The limits are Pillow's on pixels,
# and those of the rules for addresses.
MAX_IMAGES = 100
MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_IMAGE_PIXELS = 178_956_970


def checked_image(block: ImageBlock, takes_paths: bool = False) -> ImageBlock:
    """The image, with the type that its bytes really have. Raises `ApiError` if the request has
    bytes that are not a picture that engines can read. The image at a network address, or at a path
    where paths are taken, is left to be checked when it is read."""
    if "problem" in block:
        raise ApiError(block["problem"], path=block["path"])
    url = block["image_url"]["url"]
    if not is_data_url(url):
        if not takes_paths and not url.lower().startswith(("http://", "https://")):
            raise wrong(url, "an address with http, https or data", block["path"])
        return block
    try:
        data = image_bytes({"url": url}) or b""
        if len(data) > MAX_IMAGE_BYTES:
            raise ImageError(f"found {len(data)} bytes, expected at most {MAX_IMAGE_BYTES}")
        if is_heif(data):  # its size is in boxes that only its own library reads
            return block
        picture = read_image(data)
    except ImageError as error:
        raise ApiError(f"an image: {error}", path=block["path"]) from None
    if picture.width * picture.height > MAX_IMAGE_PIXELS:
        size = f"{picture.width} × {picture.height} pixels"
        problem = f"an image: found {size}, expected at most {MAX_IMAGE_PIXELS} in all"
        raise ApiError(problem, path=block["path"])
    label = f"data:image/{picture.format.lower()};base64,"
    if url.startswith(label) and len(url) == len(label) + -(-len(data) // 3) * 4:
        return block
    packed = "".join(url[url.index(",") + 1 :].split())  # not every engine skips spaces
    return {**block, "image_url": {**block["image_url"], "url": label + packed}}


def text_reader(field: str) -> BlockReader:
    """A reader of blocks whose content is the text of one field. Null is empty."""

    def read(block: JsonObject, path: str) -> BlockContent:
        return maybe_text_at(block, field, path) or ""

    return read


read_text_block: BlockReader = text_reader("text")


def no_content(block: JsonObject, path: str) -> BlockContent:
    """The content of a block that is not shown to the model: none."""
    return None


# System texts.


PROMPT_BEGINNING = "You are"


def system_content(value: object, path: str, readers: Mapping[str, BlockReader]) -> Content:
    """The content of a system field or message: its blocks that are not empty."""
    if isinstance(value, str):
        return without_billing(clean(value))
    if value is None:
        return ""
    if not isinstance(value, (list, tuple)):
        raise wrong(value, "text or a list of text blocks", path)
    blocks = [read_block(block, f"{path}[{n}]", readers) for n, block in enumerate(value)]
    parts = [without_billing(part) if isinstance(part, str) else part for part in blocks]
    return joined_content(filter(None, parts))


def without_billing(text: str) -> str:
    """A block without its billing line."""
    if not text.startswith(BILLING_HEADER):
        return text
    line_end, beginning = text.find("\n"), text.find(PROMPT_BEGINNING)
    if beginning >= 0 and (line_end < 0 or beginning < line_end):
        return text[beginning:]
    return text[line_end + 1 :] if line_end >= 0 else ""


# Calls in the history of a request. They never fail: everything that can be read is written.


# The only parameter of arguments that are not an object.
RAW_ARGUMENTS = "arguments"
# Arguments as text, or as the object that the text spells.
Arguments: TypeAlias = str | JsonObject


class HistoryFunction(TypedDict):
    """The function that a call names."""

    name: str
    arguments: Arguments


class _HistoryCallRequired(TypedDict):
    id: str | None
    type: Literal["function"]
    function: HistoryFunction


class HistoryCall(_HistoryCallRequired, total=False):
    """A call as the format takes it."""

    namespace: str


def history_call(
    id: object, name: str, arguments: Arguments, path: str, namespace: str | None = None
) -> HistoryCall:
    """A call. `path` is the place of its id in the request."""
    if id is not None and not isinstance(id, str):
        raise wrong(id, "the id of a call: text", path)
    fields: HistoryCall = {
        "id": None if id is None else clean(id),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if namespace is not None:
        fields["namespace"] = namespace
    return fields


def arguments_of(value: object, path: str) -> Arguments:
    """Arguments that the format can write: the text of an object, or an object."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        if "\\ud" in value or "\\uD" in value:
            return _cleaned_arguments(value)
        return clean(value) if is_object_text(value) else {RAW_ARGUMENTS: clean(value)}
    cleaned = clean_value(value, path)
    return cleaned if isinstance(cleaned, dict) else {RAW_ARGUMENTS: cleaned}


def is_object_text(text: str) -> bool:
    """Whether a text is a JSON object, or a broken one, which the format writes unchanged."""
    return text[:1] == "{" or isinstance(maybe_json(text), dict)


def _cleaned_arguments(text: str) -> Arguments:
    """Arguments whose text has escaped surrogates, without the lone ones."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return clean(text)
    return without_surrogates(value) if isinstance(value, dict) else {RAW_ARGUMENTS: clean(text)}
