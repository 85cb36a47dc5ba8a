"""Pictures as programs have them, as blocks of content."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import dsv4

PIL = pytest.importorskip("PIL")
from PIL import Image  # noqa: E402


def file_of(format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (3, 4)).save(file, format, **options)
    return file.getvalue()


def held(block: dict[str, Any]) -> tuple[str, bytes]:
    """The type and the bytes in a block's address."""
    head, _, data = block["image_url"]["url"].partition(";base64,")
    return head, base64.b64decode(data)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"])
def test_bytes_and_paths(format: str, tmp_path: Path) -> None:
    data, path = file_of(format), tmp_path / "picture"
    path.write_bytes(data)
    expected = (f"data:image/{format.lower()}", data)
    assert held(dsv4.image_block(data)) == held(dsv4.image_block(path)) == expected


def test_an_image_of_pillows() -> None:
    kind, data = held(dsv4.image_block(Image.new("RGB", (3, 4))))
    assert (kind, dsv4.image_size(data)) == ("data:image/png", (3, 4))


def test_detail_is_kept() -> None:
    assert dsv4.image_block(file_of("PNG"), detail="low")["image_url"]["detail"] == "low"
    assert "detail" not in dsv4.image_block(file_of("PNG"))["image_url"]


def test_the_block_is_one_of_content() -> None:
    block = dsv4.image_block(file_of("PNG"))
    prompt = dsv4.encode([{"role": "user", "content": [block]}], dialect="v4.1")
    assert prompt.images == [{"type": "image", "url": block["image_url"]["url"]}]


@pytest.mark.parametrize("picture", ["/etc/passwd", "photo.png", None, 4])
def test_a_text_is_never_a_path(picture: Any) -> None:
    with pytest.raises(dsv4.OptionError, match=r"picture: found .*, expected the bytes"):
        dsv4.image_block(picture)


def test_what_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(dsv4.ImageError, match="expected one of PNG"):
        dsv4.image_block(b"text")
    with pytest.raises(FileNotFoundError):
        dsv4.image_block(tmp_path / "missing.png")


class TestAvif:
    """Read by Pillow, where it is installed."""

    def test_its_size_as_it_is_shown(self) -> None:
        turned = Image.Exif()
        turned[0x112] = 6
        assert dsv4.image_size(file_of("AVIF")) == (3, 4)
        assert dsv4.image_size(file_of("AVIF", exif=turned)) == (4, 3)

    def test_a_broken_one(self) -> None:
        with pytest.raises(dsv4.ImageError, match="found a file that Pillow cannot read"):
            dsv4.image_size(file_of("AVIF")[:60])

    def test_without_pillow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = file_of("AVIF")
        monkeypatch.setitem(sys.modules, "PIL", None)
        with pytest.raises(dsv4.ImageError, match="found an AVIF file, which needs the package"):
            dsv4.image_size(data)
