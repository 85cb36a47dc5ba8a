"""The content of an image's record: the bytes of a picture, or an address; and so its size."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from dsv4._images.image_size import image_size
from dsv4.errors import ImageError, mismatch, short_repr


def is_data_url(address: str) -> bool:
    """Whether an address holds the data itself."""
    return address[:5].lower() == "data:"


def image_bytes(record: Mapping[str, Any]) -> bytes | None:
    """The bytes of a picture, from its record; None if the record has only an address.

    A record is an item of `Prompt.images`: it has `url`, `source` (as Anthropic writes it) or
    `data`. Raises an `ImageError` for data that is not base64.
    """
    source = record.get("source")
    if isinstance(source, Mapping):
        return image_bytes({name: source[name] for name in ("data", "url") if name in source})
    for name in ("data", "source", "url"):
        value = record.get(name)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, str) and value:
            if is_data_url(value):
                return _decoded_url(value)
            return _decoded(value) if name == "data" else None
    return None


def _decoded_url(url: str) -> bytes:
    head, _, data = url.partition(",")
    if not head.lower().endswith(";base64"):
        raise ImageError(mismatch(url, "data:image/…;base64,…"))
    return _decoded(data)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ImageError(mismatch(text, "a picture in base64")) from None


def maybe_address(record: Mapping[str, Any]) -> str | None:
    """The address of a picture whose bytes are elsewhere."""
    source = record.get("source")
    inside = source.get("url") if isinstance(source, Mapping) else source
    for value in (inside, record.get("url")):
        if isinstance(value, str) and value and not is_data_url(value):
            return value
    return None


def maybe_size(record: Mapping[str, Any]) -> tuple[int, int] | None:
    """The size of an image as it is shown; None if its bytes are missing or unreadable."""
    try:
        data = image_bytes(record)
        return None if data is None else image_size(data)
    except ImageError:
        return None


def why_no_size(record: Mapping[str, Any]) -> str:
    """The message about an image whose size is unknown."""
    try:
        data = image_bytes(record)
        if data is not None:
            image_size(data)
    except ImageError as error:
        return str(error)
    address = maybe_address(record)
    problem = "found no bytes of it" if address is None else f"found only {short_repr(address)}"
    return f"{problem}, expected its bytes, from which its size is read"


def identity(record: Mapping[str, Any]) -> str:
    """A text that identifies a picture: the hash of its bytes, or its address."""
    try:
        data = image_bytes(record)
    except ImageError:
        data = None
    if data is not None:
        from hashlib import sha256  # takes a while to load

        return f"sha256:{sha256(data).hexdigest()}"
    return maybe_address(record) or repr(sorted(record.items(), key=str))
