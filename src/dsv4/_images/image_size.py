"""The size of a picture, from the headers of its file. No pixel is decoded.

The size is that of the picture as it is shown: engines turn it by its orientation first, as
Pillow's `exif_transpose` does. So metadata is searched wherever it may be, which is often at the
end.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from dsv4.errors import ImageError, OptionError, mismatch

# No valid file has more pixels on a side.
LONGEST_SIDE = 2**32 - 1
# A file with more parts than this was made to take long.
MOST_PARTS = 100_000
# Orientations that turn the picture by a quarter, so that its sides are swapped.
_TURNED = frozenset(range(5, 9))
_EXIF = b"Exif\0\0"
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


class ImageFile(NamedTuple):
    """A picture in a file: its format, as in `image/png`, and its size as it is shown."""

    format: str
    width: int
    height: int


def image_size(data: bytes) -> tuple[int, int]:
    """The width and height of a picture as it is shown, from the bytes of its file.

    Reads PNG, JPEG, GIF, WebP, BMP and TIFF by their headers. Raises an `ImageError` for any other
    file, and for one that is cut short or contradicts itself.
    """
    size = read_image(data)
    return size.width, size.height


def read_image(data: bytes) -> ImageFile:
    """The format and size of a picture. Raises the errors of `image_size`."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise OptionError("data", mismatch(data, "the bytes of a picture"))
    file = _Bytes(bytes(data))
    for format, (start, read) in _FORMATS.items():
        if start.match(file.data):
            width, height, orientation = read(file.named(format))
            if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
                raise ImageError(f"found a {format} file of {width} × {height} pixels")
            swapped = orientation in _TURNED
            return ImageFile(format, *((height, width) if swapped else (width, height)))
    raise ImageError(f"{_first_bytes(file.data)}, expected one of {', '.join(_FORMATS)}")


def _first_bytes(data: bytes) -> str:
    if not data:
        return "found no bytes"
    brand = data[8:12].decode("latin-1") if data[4:8] == b"ftyp" else ""
    if brand in _HEIF:
        return f"found {_HEIF[brand]} file, which needs the package pillow"
    return f"found a file that begins with {data[:12]!r}"


# The brands of files that only an image library can read.
_HEIF = {
    **dict.fromkeys(("avif", "avis"), "an AVIF"),
    **dict.fromkeys(("heic", "heix", "hevc", "hevx", "heim", "heis", "mif1", "msf1"), "a HEIC"),
}


def is_heif(data: bytes) -> bool:
    """Whether a file is AVIF or HEIC."""
    return data[4:8] == b"ftyp" and bytes(data[8:12]).decode("latin-1") in _HEIF


class _Bytes:
    """The bytes of a file. Reading beyond their end raises the error that the file is cut short."""

    def __init__(self, data: bytes, format: str = "") -> None:
        self.data = data
        self.format = format

    def named(self, format: str) -> _Bytes:
        return _Bytes(self.data, format)

    def slice(self, start: int, length: int) -> bytes:
        part = self.data[start : start + length]
        if len(part) < length:
            raise self.cut(start + length)
        return part

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        return struct.unpack(form, self.slice(at, struct.calcsize(form)))

    def cut(self, needed: int) -> ImageError:
        problem = f"found a {self.format} file of {len(self.data):,} bytes"
        return ImageError(f"{problem}, which is cut short: expected at least {needed:,}")

    def broken(self, problem: str) -> ImageError:
        return ImageError(f"found a {self.format} file {problem}")

    def parts(self) -> Iterator[int]:
        """As many numbers as a file may have parts; then raises an error."""
        yield from range(MOST_PARTS)
        raise self.broken(f"of more than {MOST_PARTS:,} parts")


# Width, height, orientation.
_SizeFields = tuple[int, int, int]


# PNG: chunks, each with its length. Metadata may come after the pixels.


def _read_png(file: _Bytes) -> _SizeFields:
    size: tuple[int, int] | None = None
    exif: bytes | None = None
    raw: bytes | None = None
    xmp = b""
    at = 8
    for _ in file.parts():
        length, kind = file.unpack(">I4s", at)
        if at + 12 + length > len(file.data):
            raise file.cut(at + 12 + length)
        if kind == b"IHDR":
            size = _png_size(file, at, length)
        elif kind == b"eXIf":
            exif = file.slice(at + 8, length)
        elif kind in _PNG_TEXTS:
            name, text = _PNG_TEXTS[kind](file.slice(at + 8, length))
            raw = text if name == b"Raw profile type exif" else raw
            xmp = text if name == b"XML:com.adobe.xmp" else xmp
        elif kind == b"IEND":
            break
        at += 12 + length
    if size is None:
        raise file.broken("without its header IHDR")
    if exif is None and raw is not None:
        exif = _from_hex(raw, file)
    return *size, _orientation(exif, xmp, file)


def _png_size(file: _Bytes, at: int, length: int) -> tuple[int, int]:
    """The size in the header, which is nearly always the first chunk."""
    (checksum,) = file.unpack(">I", at + 8 + length)
    if length < 13 or checksum != zlib.crc32(file.slice(at + 4, 4 + length)):
        raise file.broken("whose header IHDR is damaged: its checksum is another")
    width, height = file.unpack(">II", at + 8)
    return width, height


def _from_hex(raw: bytes, file: _Bytes) -> bytes:
    """Metadata as ImageMagick writes it: three lines, then hexadecimal digits."""
    try:
        return bytes.fromhex("".join(raw.decode("latin-1").split("\n")[3:]))
    except ValueError:
        raise file.broken("whose EXIF data is not hexadecimal") from None


def _plain_text(data: bytes) -> tuple[bytes, bytes]:
    name, _, text = data.partition(b"\0")
    return name, text


def _packed_text(data: bytes) -> tuple[bytes, bytes]:
    name, _, rest = data.partition(b"\0")
    return name, _unpacked(rest[1:])


def _international_text(data: bytes) -> tuple[bytes, bytes]:
    name, _, rest = data.partition(b"\0")
    packed, method = rest[:1], rest[1:2]
    text = rest[2:].split(b"\0", 2)[-1]
    return name, text if packed in (b"", b"\0") else _unpacked(text) if method == b"\0" else b""


# The greatest length of a metadata text; Pillow refuses longer ones.
_LONGEST_TEXT = 1 << 20


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _LONGEST_TEXT)
    except zlib.error:
        return b""


_PNG_TEXTS: dict[bytes, Callable[[bytes], tuple[bytes, bytes]]] = {
    b"tEXt": _plain_text,
    b"zTXt": _packed_text,
    b"iTXt": _international_text,
}


# JPEG: segments, each with its length, up to the first scan. The frame's size may come last, and
# thumbnails inside of segments have sizes of their own. The end marker cannot occur between pixels,
# so a file without it is cut short; padding with zeros is accepted instead.

_FRAMES = frozenset((*range(0xC0, 0xD0),)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset((0x01, *range(0xD0, 0xDA)))
_SCAN = 0xDA
_JPEG_END = b"\xff\xd9"
# Any number of 0xFF bytes may precede a marker; 0xFF followed by a zero is not a marker.
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)
_JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"


def _read_jpeg(file: _Bytes) -> _SizeFields:
    size: tuple[int, ...] | None = None
    exif, xmp = b"", b""
    at = 2
    for _ in file.parts():
        at, marker = _marker(file, at)
        if marker in _BARE:
            continue
        (length,) = file.unpack(">H", at)
        if length < 2:
            raise file.broken(f"with a segment of {length} bytes, expected at least 2")
        if marker == _SCAN:
            if not file.data.endswith(b"\0\0") and file.data.rfind(_JPEG_END, at) < 0:
                raise file.cut(len(file.data) + len(_JPEG_END))
            break
        if marker in _FRAMES:
            size = file.unpack(">HH", at + 3)
        elif marker == 0xE1:
            data = file.slice(at + 2, length - 2)
            if data.startswith(_EXIF):  # long metadata is split into several segments
                exif += data[len(_EXIF) :] if exif else data
            elif data.startswith(_JPEG_XMP):
                xmp = data[len(_JPEG_XMP) :]
        at += length
    if size is None:
        raise file.broken("without the header of a frame")
    height, width = size
    if not height:
        raise file.broken("that gives its height behind its pixels, which engines do not read")
    return width, height, _orientation(exif or None, xmp, file)


def _marker(file: _Bytes, at: int) -> tuple[int, int]:
    """The position after the next marker from `at` on, where its segment begins, and the marker.
    Padding is skipped in one search: a file may consist of it."""
    match = _JPEG_MARKER.search(file.data, at)
    if match is None:
        raise file.cut(len(file.data) + 1)
    return match.end(), file.data[match.end() - 1]


# GIF: the size of the screen, or of a first frame that is larger.


def _read_gif(file: _Bytes) -> _SizeFields:
    width, height, flags = file.unpack("<HHB", 6)
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    for _ in file.parts():
        (kind,) = file.slice(at, 1)
        if kind == 0x2C:
            left, top, wide, high = file.unpack("<HHHH", at + 1)
            return max(width, left + wide), max(height, top + high), 1
        if kind == 0x3B:
            raise file.broken("without a frame")
        at = _after_blocks(file, at + 2) if kind == 0x21 else at + 1
    raise AssertionError  # `parts` raises before


def _after_blocks(file: _Bytes, at: int) -> int:
    for _ in file.parts():
        (length,) = file.slice(at, 1)
        at += 1 + length
        if not length:
            break
    return at


# WebP: the size is in the header of one of three kinds of pictures.


def _read_webp(file: _Bytes) -> _SizeFields:
    length, kind = file.unpack("<I4x4s", 4)
    if length + 8 > len(file.data):
        raise file.cut(length + 8)
    if kind == b"VP8 ":
        if file.slice(23, 3) != b"\x9d\x01\x2a" or file.slice(20, 1)[0] & 1:
            raise file.broken("whose frame does not begin as a VP8 frame does")
        width, height = file.unpack("<HH", 26)
        return width & 0x3FFF, height & 0x3FFF, 1
    if kind == b"VP8L":
        signature, bits = file.unpack("<BI", 20)
        if signature != 0x2F:
            raise file.broken("whose frame does not begin as a VP8L frame does")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, 1
    if kind != b"VP8X":
        raise file.broken(f"that begins with {kind!r}, expected VP8, VP8L or VP8X")
    width, height = (int.from_bytes(file.slice(at, 3), "little") + 1 for at in (24, 27))
    exif, xmp = _webp_metadata(file, length + 8)
    return width, height, _orientation(exif, xmp, file)


def _webp_metadata(file: _Bytes, end: int) -> tuple[bytes | None, bytes]:
    (flags,) = file.slice(20, 1)
    exif: bytes | None = None
    xmp = b""
    at = 12
    for _ in file.parts():
        if at + 8 > end:
            break
        kind, length = file.unpack("<4sI", at)
        if kind == b"EXIF" and flags & 8 and exif is None:
            exif = file.slice(at + 8, length)
        elif kind == b"XMP " and flags & 4 and not xmp:
            xmp = file.slice(at + 8, length)
        at += 8 + length + length % 2
    return exif, xmp


# BMP: a negative height means that rows are stored from top to bottom.

_BMP_HEADERS = (40, 52, 56, 64, 108, 124)


def _read_bmp(file: _Bytes) -> _SizeFields:
    (size,) = file.unpack("<I", 14)
    if size == 12:
        width, height = file.unpack("<HH", 18)
    elif size in _BMP_HEADERS:
        width, height = file.unpack("<ii", 18)
    else:
        lengths = ", ".join(map(str, (12, *_BMP_HEADERS)))
        raise file.broken(f"with a header of {size} bytes, expected one of {lengths}")
    file.slice(14, size)
    if width < 0:
        raise file.broken(f"whose width is {width}")
    return width, abs(height), 1


# TIFF, which is also the form of EXIF data: a directory of entries that may be anywhere.

_WIDTH, _HEIGHT, _XMP, _ORIENTATION = 256, 257, 700, 274
_WANTED = (_WIDTH, _HEIGHT, _XMP, _ORIENTATION)
# By the number of an entry's type: the bytes of a value, and the format of a number.
_UNITS = dict(enumerate((1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4), 1)) | {16: 8, 17: 8, 18: 8}
_NUMBERS = {3: "H", 4: "I", 8: "h", 9: "i", 11: "f", 12: "d", 13: "I", 16: "Q", 17: "q", 18: "Q"}
_NUMBERS |= {5: "II", 6: "b", 10: "ii"}  # fractions, and a byte with a sign


def _read_tiff(file: _Bytes) -> _SizeFields:
    tags = _directory(file, file.data)
    width, height = (tags.get(tag) for tag in (_WIDTH, _HEIGHT))
    if not isinstance(width, int) or not isinstance(height, int) or min(width, height) < 0:
        raise file.broken("whose first directory is cut short, or has no width and height")
    xmp = tags.get(_XMP)
    orientation = tags.get(_ORIENTATION)
    if orientation is None and isinstance(xmp, bytes):
        orientation = _orientation_in_xmp(xmp)
    return width, height, orientation if isinstance(orientation, int) else 1


def _directory(file: _Bytes, data: bytes) -> dict[int, int | bytes]:
    """The wanted tags of the first directory, as far as it can be read."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2], "<")
    version = struct.unpack(f"{order}H", data[2:4])[0] if len(data) >= 8 else 0
    if data[:2] not in (b"II", b"MM") or version not in (42, 43):
        raise file.broken(f"whose directory begins with {data[:4]!r}, expected II or MM and 42")
    inside = _Bytes(data, file.format)
    tags: dict[int, int | bytes] = {}
    with suppress(ImageError):  # nothing is read after a value that is cut short
        for tag, kind, field in _entries(inside, order, version == 43):
            if tag in _WANTED:
                tags.setdefault(tag, _value(order, kind, field))
    return tags


def _entries(file: _Bytes, order: str, is_big: bool) -> Iterator[tuple[int, int, bytes]]:
    """The entries of the first directory: tag, type, and the bytes of the values."""
    counting, entry, offset = ("Q", "HHQ8s", "Q") if is_big else ("H", "HHI4s", "I")
    length = struct.calcsize(order + entry)
    (at,) = file.unpack(order + offset, 8 if is_big else 4)
    (count,) = file.unpack(order + counting, at)
    at += struct.calcsize(order + counting)
    for n in file.parts():
        if n == count:
            return
        tag, kind, values, inline = struct.unpack(
            order + entry, file.slice(at + n * length, length)
        )
        size = values * _UNITS.get(kind, 0)
        if not size or size > len(file.data):
            continue
        (place,) = struct.unpack(order + offset, inline)
        yield tag, kind, inline[:size] if size <= len(inline) else file.slice(place, size)


def _value(order: str, kind: int, field: bytes) -> int | bytes:
    """The first number of a field, or the bytes of a text."""
    if kind not in _NUMBERS:
        return field
    number, divisor = (*struct.unpack_from(order + _NUMBERS[kind], field), 1)[:2]
    return int(number // divisor) if divisor and number % divisor == 0 else field


def _orientation(exif: bytes | None, xmp: bytes, file: _Bytes) -> int:
    """The orientation of a picture: that of EXIF, or of XMP if EXIF has none."""
    while exif is not None and exif.startswith(_EXIF):
        exif = exif[len(_EXIF) :]
    try:
        entry = _directory(file, exif).get(_ORIENTATION) if exif else None
    except ImageError:  # unreadable EXIF has no orientation, but is no reason to read XMP
        return 1
    if entry is None:
        return _orientation_in_xmp(xmp)
    return entry if isinstance(entry, int) else 1


def _orientation_in_xmp(xmp: bytes) -> int:
    match = _XMP_ORIENTATION.search(xmp)
    return int(match[1]) if match else 1


_FORMATS: dict[str, tuple[re.Pattern[bytes], Callable[[_Bytes], _SizeFields]]] = {
    "PNG": (re.compile(rb"\x89PNG\r\n\x1a\n"), _read_png),
    "JPEG": (re.compile(rb"\xff\xd8\xff"), _read_jpeg),
    "GIF": (re.compile(rb"GIF8[79]a"), _read_gif),
    "WebP": (re.compile(rb"RIFF....WEBP", re.DOTALL), _read_webp),
    "BMP": (re.compile(rb"BM"), _read_bmp),
    "TIFF": (re.compile(rb"II[*+]\0|MM\0[*+]"), _read_tiff),
}
