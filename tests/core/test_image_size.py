"""The size of a picture from the headers of its file, held against Pillow."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

import dsv4
from dsv4._images import image_size as headers
from parts import ALL, fewer
from rows import each_row

PIL = pytest.importorskip("PIL")
from PIL import Image, ImageOps  # noqa: E402
from PIL.PngImagePlugin import PngInfo  # noqa: E402

ORIENTATIONS = range(10)  # of which 1 to 8 mean something


def shown(data: bytes) -> tuple[int, int]:
    """The size as engines see it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size


def saved(
    format: str, size: tuple[int, int] = (30, 20), mode: str = "RGB", **options: Any
) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, format, **options)
    return file.getvalue()


def exif(orientation: int, order: str = "<", **others: Any) -> bytes:
    made = Image.Exif()
    made.endian = order
    made[0x112] = orientation
    for tag, value in others.items():
        made[int(tag[1:])] = value
    return made.tobytes()


def xmp(orientation: int) -> bytes:
    return f'<rdf:Description tiff:Orientation="{orientation}"/>'.encode()


def png_text(name: str, text: str, packed: bool = False) -> dict[str, Any]:
    made = PngInfo()
    made.add_itxt(name, text, zip=packed)
    return {"pnginfo": made}


def by_orientation(n: int) -> Iterator[tuple[str, bytes]]:
    """Files of every format that say how they are turned, in every way that they can."""
    for order in "<>":
        for format in ("PNG", "JPEG", "WEBP", "TIFF"):
            yield f"{format} {order}", saved(format, exif=exif(n, order))
    yield "WebP, lossless", saved("WEBP", exif=exif(n), lossless=True)
    yield "BigTIFF", saved("TIFF", exif=exif(n), big_tiff=True)
    for format in ("JPEG", "WEBP"):
        yield f"{format}, XMP", saved(format, xmp=xmp(n))
        yield f"{format}, EXIF before XMP", saved(format, exif=exif(1), xmp=xmp(n))
        yield f"{format}, EXIF of other things", saved(format, exif=exif(n, x271="a"), xmp=xmp(6))
    for packed in (False, True):
        yield "PNG, XMP", saved("PNG", **png_text("XML:com.adobe.xmp", xmp(n).decode(), packed))
        raw = f"\nexif\n{len(exif(n)):8}\n{exif(n).hex()}\n"
        yield "PNG, raw", saved("PNG", **png_text("Raw profile type exif", raw, packed))
    yield "TIFF, XMP", saved("TIFF", tiffinfo={700: xmp(n)})
    yield "PNG, EXIF behind the pixels", with_chunk(saved("PNG"), b"eXIf", exif(n)[6:])


def with_chunk(png: bytes, kind: bytes, data: bytes) -> bytes:
    """A PNG file with one more chunk, before its end."""
    return png[:-12] + chunk_of(kind, data) + png[-12:]


def chunk_of(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


@each_row(
    "data",
    [
        pytest.param(data, id=f"{name}, {n}")
        for n in ORIENTATIONS
        for name, data in by_orientation(n)
    ],
)
def test_orientation(data: bytes) -> None:
    assert dsv4.image_size(data) == shown(data)


# A whole photograph takes most of a second to write.
SIZES = ((1, 1), (300, 7), (17, 513), *([(4032, 3024)] if ALL else [(4032, 5), (5, 3024)]))


def ways_to_save() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A format, a mode and options."""
    for format in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        for mode in ("L", "RGB"):
            yield format, mode, {}
    yield "JPEG", "RGB", {"progressive": True}
    yield "WEBP", "RGB", {"lossless": True}
    yield "WEBP", "RGBA", {}


@pytest.mark.parametrize("size", SIZES)
@each_row("format, mode, options", ways_to_save())
def test_sizes(size: tuple[int, int], format: str, mode: str, options: dict[str, Any]) -> None:
    data = saved(format, size, mode, **options)
    assert dsv4.image_size(data) == shown(data) == size


def segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def jpeg_traps() -> Iterator[tuple[str, bytes]]:
    plain = saved("JPEG")
    thumbnail = segment(0xE1, b"Other\0" + saved("JPEG", (5, 5)))
    yield "a thumbnail in a segment", plain[:2] + thumbnail + plain[2:]
    yield "bytes that fill up", plain[:2] + b"\xff" * 9 + plain[2:]
    yield "bytes of no segment", plain[:20] + b"\0\x01junk\xff\0" + plain[20:]
    half = len(exif(6)) // 2
    halves = segment(0xE1, exif(6)[:half]) + segment(0xE1, b"Exif\0\0" + exif(6)[half:])
    yield "EXIF in two segments", plain[:2] + halves + plain[2:]
    tables = plain.index(b"\xff\xdb")
    yield "EXIF behind the tables", plain[:tables] + segment(0xE1, exif(6)) + plain[tables:]
    yield "EXIF that is none", plain[:2] + segment(0xE1, b"Exif\0\0XX*\0abcdef") + plain[2:]
    cut = exif(6, x271="a long name of a maker")
    yield "EXIF that is cut", plain[:2] + segment(0xE1, cut[:-12]) + plain[2:]


def bmp(width: int, height: int) -> bytes:
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 3000, 0, 0, 54) + info + bytes(3000)


def gif_with_a_large_frame() -> bytes:
    """The frame stands out of the screen, on both sides."""
    data = bytearray(saved("GIF", (30, 20), "P"))
    at = data.index(b",", 13 + 3 * 256 if data[10] & 0x80 and data[10] & 7 == 7 else 13)
    data[at + 1 : at + 9] = struct.pack("<HHHH", 5, 6, 30, 20)
    return bytes(data)


def traps() -> Iterator[tuple[str, bytes]]:
    yield from jpeg_traps()
    yield "a BMP from top to bottom", bmp(30, -20)
    os2 = b"BM" + struct.pack("<IHHI", 2000, 0, 0, 26) + struct.pack("<IHHHH", 12, 30, 20, 1, 24)
    yield "a BMP of OS/2", os2 + bytes(1920)
    yield "a GIF whose frame is larger than its screen", gif_with_a_large_frame()
    frames = [Image.new("P", (30, 20), n) for n in range(3)]
    yield "a moving GIF", saved("GIF", mode="P", save_all=True, append_images=frames)
    yield "a moving WebP", saved("WEBP", save_all=True, append_images=frames)
    for order in "<>":
        yield f"a TIFF with SHORTs, {order}", short_tiff(order)
        for kind, value in ODD_ORIENTATIONS.items():
            data = odd_exif(order, *value)
            yield f"PNG, {kind}, {order}", with_chunk(saved("PNG"), b"eXIf", data)
    png = saved("PNG")
    yield "a PNG with something before its header", png[:8] + chunk_of(b"tEXt", b"a\0b") + png[8:]
    longer = chunk_of(b"IHDR", png[16:29] + b"more")
    yield "a PNG with a longer header", png[:8] + longer + png[33:]
    yield "a JPEG with bytes behind its end", saved("JPEG") + bytes(99)
    yield "a JPEG with zeros for its end", saved("JPEG")[:-2] + bytes(99)


# Type, number of values, what stands in the field, and behind the directory: as none should be
# written, and as Pillow reads them.
ODD_ORIENTATIONS = {
    "two values": (3, 2, "HH", (6, 1), ()),
    "a byte with a sign": (6, 1, "b3x", (6,), ()),
    "a fraction": (5, 1, "I", (26,), (12, 2)),
    "a fraction with a sign": (10, 1, "I", (26,), (8, 1)),
    "a fraction that is no number": (5, 1, "I", (26,), (6, 4)),
    "a fraction of nothing": (5, 1, "I", (26,), (6, 0)),
    "a float": (11, 1, "f", (6.0,), ()),
    "a float that is no number": (11, 1, "f", (float("nan"),), ()),
}


def odd_exif(order: str, kind: int, count: int, form: str, value: Any, behind: Any) -> bytes:
    """EXIF data whose only entry says how the picture is turned, in its own way."""
    magic = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
    entry = struct.pack(f"{order}HHHI{form}", 1, 0x112, kind, count, *value).ljust(14, b"\0")
    return magic + entry + bytes(4) + struct.pack(f"{order}{len(behind)}I", *behind)


def short_tiff(order: str) -> bytes:
    """A TIFF whose directory stands behind its pixels, with numbers of two bytes."""
    tags = {256: 30, 257: 20, 258: 8, 259: 1, 262: 1, 273: 8, 274: 6, 277: 1, 278: 20, 279: 600}
    entries = [struct.pack(f"{order}HHIHH", tag, 3, 1, n, 0) for tag, n in tags.items()]
    magic = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 608)
    counted = struct.pack(f"{order}H", len(entries)) + b"".join(entries)
    return magic + bytes(600) + counted + bytes(4)


@each_row("data", [pytest.param(data, id=name) for name, data in traps()])
def test_traps(data: bytes) -> None:
    assert dsv4.image_size(data) == shown(data)


def no_height() -> bytes:
    data = bytearray(saved("JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 7] = b"\0\0"
    return bytes(data)


def huge_tiff() -> bytes:
    entries = struct.pack("<HHQQ", 256, 16, 1, 2**40) + struct.pack("<HHQQ", 257, 16, 1, 3)
    return b"II" + struct.pack("<HHHQQ", 43, 8, 0, 16, 2) + entries + bytes(8)


@each_row(
    "data, problem",
    [
        (b"", "found no bytes, expected one of PNG, JPEG, GIF, WebP, BMP, TIFF"),
        (b"<svg/>", "found a file that begins with b'<svg/>', expected one of"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "found an AVIF file, which needs the package pillow"),
        *((saved(f)[:14], "cut short: expected at least") for f in ("PNG", "GIF", "WEBP", "BMP")),
        (saved("PNG")[:-1], "found a PNG file of 79 bytes, which is cut short"),
        (saved("WEBP")[:-1], "a WebP file of .* bytes, which is cut short"),
        (saved("JPEG")[:100], "a JPEG file of 100 bytes, which is cut short"),
        (saved("JPEG")[:-1], "a JPEG file of .* bytes, which is cut short"),
        (saved("PNG")[:8] + saved("PNG")[33:], "without its header IHDR"),
        (bmp(30, 20)[:40], "cut short: expected at least 54"),
        (huge_tiff(), "found a TIFF file of 1099511627776 × 3 pixels"),
        (saved("TIFF")[:20], "whose first directory is cut short, or has no width"),
        (saved("PNG").replace(b"\0\0\0\x1e", b"\0\0\0\x1f"), "header IHDR is damaged"),
        (no_height(), "gives its height behind its pixels"),
        (bmp(-30, 20), "whose width is -30"),
        (bmp(0, 20), "found a BMP file of 0 × 20 pixels"),
        (b"\xff\xd8\xff\xd9", "is cut short"),
        (b"RIFF\x10\0\0\0WEBPVP9 " + bytes(10), "begins with b'VP9 ', expected VP8, VP8L or VP8X"),
        (b"GIF89a\x01\0\x01\0\0\0\0;", "without a frame"),
    ],
)
def test_files_that_are_cut_or_lie(data: bytes, problem: str) -> None:
    with pytest.raises(dsv4.ImageError, match=problem):
        headers.image_size(data)


@pytest.mark.parametrize("value", ["photo.png", None, 4, ["a"]])
def test_a_text_is_no_picture(value: Any) -> None:
    with pytest.raises(dsv4.OptionError, match=r"data: found .*, expected the bytes of a picture"):
        dsv4.image_size(value)


@each_row(
    "data",
    [
        b"\xff\xd8\xff" + b"\xe0\0\x02\xff" * (headers.MOST_PARTS + 9),
        b"\x89PNG\r\n\x1a\n" + saved("PNG")[8:33] + (bytes(4) + b"aaaa" + bytes(4)) * 100_001,
        b"GIF89a\x01\0\x01\0\0\0\0" + b"\0" * 100_002,
    ],
)
def test_files_of_endless_parts(data: bytes) -> None:
    with pytest.raises(dsv4.ImageError, match="of more than 100,000 parts"):
        dsv4.image_size(data)


def test_nothing_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only metadata is unpacked, and of that no more than it may have."""
    bomb = zlib.compress(bytes(50_000_000))
    text = b"XML:com.adobe.xmp\0\x01\0\0\0" + bomb
    found = []
    unpack = headers._unpacked
    monkeypatch.setattr(headers, "_unpacked", lambda data: found.append(unpack(data)) or found[-1])
    assert dsv4.image_size(with_chunk(saved("PNG"), b"iTXt", text)) == (30, 20)
    assert [len(data) for data in found] == [1 << 20]


class Damage(random.Random):
    def __call__(self, data: bytes) -> bytes:
        """The file with a few bytes of its headers changed, added or missing."""
        made = bytearray(data)
        for _ in range(self.randint(1, 4)):
            at = self.randrange(min(len(made), 120)) if self.random() < 0.7 else len(made) // 2
            end = at + self.choice((0, 1, 1, 4, 8))
            made[at:end] = self.choice((b"", b"\0", b"\xff" * 4, bytes(4), self.randbytes(3)))
        return bytes(made[: self.choice((None, None, self.randrange(len(made) + 1)))])


def test_damaged_headers_raise_nothing_else() -> None:
    damage = Damage(5)
    files = [data for n in (1, 6) for _, data in by_orientation(n)] + [d for _, d in traps()]
    readable = 0
    for _ in range(fewer(200_000, 20)):
        try:
            width, height = dsv4.image_size(damage(damage.choice(files)))
            assert width > 0 < height
            readable += 1
        except dsv4.ImageError:
            pass
    assert readable


def test_a_file_of_fill_bytes_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    pattern = headers._JPEG_MARKER

    class Counted:
        def search(self, data: bytes, at: int) -> object:
            searches.append(at)
            return pattern.search(data, at)

    monkeypatch.setattr(headers, "_JPEG_MARKER", Counted())
    with pytest.raises(dsv4.ImageError):
        dsv4.image_size(b"\xff\xd8" + b"\xff" * 2**20)
    assert len(searches) == 1
