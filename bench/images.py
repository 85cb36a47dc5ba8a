"""How long it takes to read a picture's size, beside Pillow. bench/README.md has the results."""

from __future__ import annotations

import io
import os
from statistics import median
from timeit import Timer

from PIL import Image, ImageOps

import dsv4

# Noise, because nothing else makes a file this large: a JPEG of about ten megabytes.
SIZE = (3000, 2250)
FORMATS = {"JPEG": {"quality": 97}, "PNG": {}, "WEBP": {"quality": 90}, "TIFF": {}, "BMP": {}}
ROUNDS, CALLS = 15, 20


def picture(format: str, options: dict[str, int]) -> bytes:
    turned = Image.Exif()
    turned[0x112] = 6
    noise = Image.frombytes("RGB", SIZE, os.urandom(SIZE[0] * SIZE[1] * 3))
    file = io.BytesIO()
    noise.save(file, format, exif=turned, **options)
    return file.getvalue()


def by_pillow(data: bytes) -> tuple[int, int]:
    """What is quickest there: the file is opened, and the orientation read; nothing is decoded."""
    opened = Image.open(io.BytesIO(data))
    sides = opened.size
    return sides[::-1] if opened.getexif().get(0x112, 1) > 4 else sides


def milliseconds(run: Timer) -> float:
    return median(run.repeat(ROUNDS, CALLS)) / CALLS * 1000


def main() -> None:
    print("| file | MB | dsv4.image_size, ms | Pillow's open, ms |")
    print("|---|---|---|---|")
    for format, options in FORMATS.items():
        data = picture(format, options)
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size
        assert dsv4.image_size(data) == expected
        ours = milliseconds(Timer(lambda data=data: dsv4.image_size(data)))
        theirs = milliseconds(Timer(lambda data=data: by_pillow(data)))
        print(f"| {format} | {len(data) / 1e6:.1f} | {ours:.3f} | {theirs:.3f} |")


if __name__ == "__main__":
    main()
