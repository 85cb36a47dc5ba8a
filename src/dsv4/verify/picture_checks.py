"""Checks of how a server counts pictures: five sizes that tell apart how they are scaled."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dsv4._images.image_grid import image_grid
from dsv4.verify.answers import counted_tokens
from dsv4.verify.server_findings import CHAT, Post, ServerFinding, check_finding

# The EXIF orientation of a picture that is shown turned by a quarter.
TURNED = 6


@dataclass(frozen=True)
class Picture:
    """A picture to send: its size in the file, and the orientation in which it is shown."""

    width: int
    height: int
    orientation: int = 1

    @property
    def tokens(self) -> int:
        """Its tokens in V4.1."""
        return image_grid(*self.upright_size).tokens

    @property
    def upright_size(self) -> tuple[int, int]:
        turned = self.orientation == TURNED
        return (self.height, self.width) if turned else (self.width, self.height)


PICTURES: Mapping[str, Picture] = {
    "image-1x1": Picture(1, 1),
    "image-screen": Picture(1920, 1080),
    "image-turned": Picture(1920, 1080, TURNED),
    "image-sliver": Picture(353, 6),
    "image-photo": Picture(4032, 3024),
}
# The most tokens between a picture and the text after it.
MOST_BETWEEN = 3


def picture_request(picture: Picture) -> dict[str, Any]:
    """A question with a picture before it."""
    url = f"data:image/png;base64,{b64encode(png(picture)).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Hi"}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 1, "temperature": 0}


def png(picture: Picture) -> bytes:
    """A white picture, with one bit for each pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", picture.width, picture.height, 1, 0, 0, 0, 0)
    row = b"\0" + b"\xff" * ((picture.width + 7) // 8)
    exif = b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, picture.orientation, 0, 0)
    parts = [chunk(b"IHDR", header)]
    parts += [chunk(b"eXIf", exif)] if picture.orientation != 1 else []
    parts += [chunk(b"IDAT", zlib.compress(row * picture.height, 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def picture_findings(post: Post, plain: Sequence[int]) -> Iterator[ServerFinding]:
    """The finding on pictures, by what each adds to the `plain` counts of the bare question."""
    counts: dict[str, int] = {}
    for name, picture in PICTURES.items():
        reply = post(CHAT, picture_request(picture))
        count = counted_tokens(reply)
        if reply.refused and not counts:
            yield check_finding("images-none")
            return
        if count is not None and plain:
            counts[name] = count - plain[0]
    if len(counts) < len(PICTURES):
        yield check_finding("images-uncounted", counted=len(counts), pictures=len(PICTURES))
        return
    yield _judged(counts)


def _judged(counts: Mapping[str, int]) -> ServerFinding:
    """The finding of five counts; cases are tried in the order in which they can be told apart."""
    if len(set(counts.values())) == 1:
        return _finding("unseen", counts)
    between = counts["image-1x1"] - PICTURES["image-1x1"].tokens
    wrong = [n for n, each in PICTURES.items() if counts[n] - between != each.tokens]
    if not 0 <= between <= MOST_BETWEEN or "image-1x1" in wrong:
        wrong = list(PICTURES)
    if not wrong:
        return _finding("right", counts)
    if wrong == ["image-turned"] and counts["image-turned"] == counts["image-screen"]:
        return _finding("orientation", counts)
    if wrong == ["image-sliver"]:
        return _finding("recipe-rounding", counts)
    if "image-photo" in wrong and "image-sliver" not in wrong and len(wrong) < len(PICTURES):
        return _finding("limits", counts)
    return _finding("not-explained", counts, wrong[0])


def _finding(name: str, counts: Mapping[str, int], probe: str = "") -> ServerFinding:
    counts_text = ", ".join(f"{each:,}" for each in counts.values())
    right = ", ".join(f"{each.tokens:,}" for each in PICTURES.values())
    finding = check_finding(
        f"images-{name}",
        probe=probe,
        expected="" if name == "right" else right,
        seen=counts_text,
        each=counts["image-1x1"],
    )
    return replace(finding, shown_by=tuple(counts))
