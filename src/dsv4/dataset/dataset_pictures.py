"""Pictures that a line names as files, which must be below the folder of the input."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dsv4._images.image_source import image_bytes, maybe_address, why_no_size
from dsv4._inputs.image_inputs import image_block, image_size
from dsv4._inputs.input_files import os_error_reason
from dsv4.errors import ImageError, mismatch, short_repr


@lru_cache
def picture_folder(input: str) -> str | None:
    """The folder whose files the lines of an input may name; None for standard input."""
    return None if input == "-" else os.path.realpath(os.path.dirname(input) or ".")


def picture_size(record: Mapping[str, Any], folder: str | None) -> tuple[int, int] | None:
    """The size of a picture that is a file; None if its record does not name one.

    Raises an `ImageError` for a file that is missing, or not below the folder.
    """
    path = _maybe_path(record, folder)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return image_size(file.read())
    except OSError as error:
        address = short_repr(maybe_address(record))
        raise ImageError(f"found {address}: {os_error_reason(error)}") from None


def picture_address(record: Mapping[str, Any], folder: str | None) -> str:
    """An address at which a trainer finds a picture from any directory: the whole path of a file,
    or a `data:` address, labelled with the type of its bytes."""
    path, data = _maybe_path(record, folder), image_bytes(record)
    if path is not None:
        return path
    if data is None:
        raise ImageError(why_no_size(record))
    return str(image_block(data)["image_url"]["url"])


def _maybe_path(record: Mapping[str, Any], folder: str | None) -> str | None:
    """The path of a picture that is a file. Raises if it is not below the folder."""
    address = maybe_address(record)
    if folder is None or address is None or "://" in address:
        return None
    path = os.path.realpath(os.path.join(folder, address))
    if os.path.commonpath((folder, path)) != folder:
        raise ImageError(mismatch(address, f"a picture below {folder}"))
    return path
