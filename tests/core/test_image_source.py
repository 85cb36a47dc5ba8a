"""The bytes, address and identity of an image, from its record."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import dsv4
from dsv4._images.image_source import identity, image_bytes, maybe_address, maybe_size
from rows import each_row

# The smallest GIF: a pixel.
GIF = b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"
TEXT = base64.b64encode(GIF).decode()
URL = f"data:image/gif;base64,{TEXT}"
ADDRESS = "https://example.com/a.gif"


@each_row(
    "record",
    [
        {"url": URL},
        {"url": URL.replace("data:", "DATA:")},
        {"url": f"data:image/png;charset=x;base64,{TEXT}"},
        {"url": f"data:;base64,{TEXT[:8]}\n{TEXT[8:]}"},
        {"data": GIF},
        {"data": bytearray(GIF)},
        {"data": TEXT},
        {"data": URL},
        {"source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
        {"source": URL},
    ],
)
def test_bytes_in_every_form(record: dict[str, Any]) -> None:
    assert image_bytes({"type": "image", **record}) == GIF
    assert maybe_size(record) == (1, 1)
    assert identity(record) == identity({"data": GIF})
    assert maybe_address(record) is None


@each_row("record", [{"url": ADDRESS}, {"source": {"type": "url", "url": ADDRESS}}])
def test_addresses(record: dict[str, Any]) -> None:
    assert image_bytes(record) is None
    assert maybe_size(record) is None
    assert maybe_address(record) == identity(record) == ADDRESS


@each_row("record", [{"url": "data:image/gif,GIF89a"}, {"data": "?"}, {"url": "data:;base64,a"}])
def test_what_is_no_base64(record: dict[str, Any]) -> None:
    with pytest.raises(dsv4.ImageError, match="expected"):
        image_bytes(record)
    assert maybe_size(record) is None
    assert identity(record)


def test_pictures_that_cannot_be_read_have_no_size() -> None:
    assert maybe_size({"data": b"GIF89a"}) is None
