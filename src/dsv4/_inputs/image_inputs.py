"""Blocks of content from pictures in the forms that programs use: bytes, paths, Pillow's images."""

from __future__ import annotations

import base64
import io
import os
from typing import Any, Literal, Protocol, runtime_checkable

from dsv4._images.image_size import image_size as size_by_headers
from dsv4._images.image_size import is_heif, read_image
from dsv4.errors import ImageError, OptionError, mismatch


@runtime_checkable
class PillowImage(Protocol):
    """The interface of Pillow's images."""

    @property
    def size(self) -> tuple[int, int]: ...

    def save(self, fp: Any, format: str) -> None: ...


def image_size(data: bytes) -> tuple[int, int]:
    """The width and height of a picture as it is shown, from the bytes of its file, `data`.

    Reads the headers of PNG, JPEG, GIF, WebP, BMP and TIFF files, and applies their orientation;
    nothing is decoded. AVIF and HEIC are read by Pillow, if it is installed. Raises an
    `ImageError` for any other file, and for one that is cut short or damaged.
    """
    if isinstance(data, (bytes, bytearray, memoryview)) and is_heif(bytes(data[:12])):
        return _size_by_pillow(bytes(data))
    return size_by_headers(data)


def _size_by_pillow(data: bytes) -> tuple[int, int]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return size_by_headers(data)  # raises an error that names the problem
    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = ImageOps.exif_transpose(picture).size
            return width, height
    except Exception as error:  # Pillow passes on any error of its decoders
        raise ImageError(f"found a file that Pillow cannot read: {error}") from None


def image_block(
    picture: bytes | os.PathLike[str] | PillowImage,
    *,
    detail: Literal["low", "high", "auto"] | None = None,
) -> dict[str, Any]:
    """A picture as a block of content, with its bytes in a `data:` address.

    `picture` is the bytes of a file, the path of one as a `pathlib.Path`, or an image of Pillow,
    which is saved as PNG. A text is never taken for a path. `detail` is a field that some servers
    read. Raises an `ImageError` for anything that is not a picture, and an `OSError` for a file
    that cannot be read.
    """
    data = _picture_bytes(picture)
    if is_heif(data[:12]):
        kind = "image/avif" if data[8:11] == b"avi" else "image/heic"
    else:
        kind = f"image/{read_image(data).format.lower()}"
    url = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}


def _picture_bytes(picture: object) -> bytes:
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, os.PathLike):
        with open(picture, "rb") as file:
            return file.read()
    if isinstance(picture, PillowImage):
        saved = io.BytesIO()
        picture.save(saved, format="PNG")
        return saved.getvalue()
    expected = "the bytes of a picture, a pathlib.Path or an image of Pillow's"
    raise OptionError("picture", mismatch(picture, expected))
