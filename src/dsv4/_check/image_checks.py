"""Rules on images that cannot be read, that engines do not accept, or that lose detail."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from dsv4._check.findings import CheckedConversation, RuleFinding, quoted_json
from dsv4._images.image_grid import image_grid
from dsv4._images.image_size import is_heif, read_image
from dsv4._images.image_source import image_bytes, maybe_address
from dsv4.errors import ImageError, Location

# Formats that every engine and API accepts.
_TAKEN = ("PNG", "JPEG", "GIF", "WebP")
# An image whose sides are scaled to less than this part of themselves loses small details.
_READABLE_PART = 1 / 3


def image_faults(conversation: CheckedConversation) -> Iterator[RuleFinding]:
    if not conversation.prompt.images:
        return
    places = (
        conversation.location_of(piece)
        for piece in conversation.prompt.pieces
        if piece.special and piece.field == "image"
    )
    for place, record in zip(places, conversation.prompt.images, strict=True):
        yield from _faults_of(record, place, conversation)


def _faults_of(
    record: dict[str, Any], place: Location, conversation: CheckedConversation
) -> Iterator[RuleFinding]:
    try:
        data = image_bytes(record)
        if data is None:
            yield from _address_faults(maybe_address(record), place)
            return
        if is_heif(data):
            yield RuleFinding("image_type", place, _type_problem("AVIF or HEIC"))
            return
        file = read_image(data)
    except ImageError as error:
        yield RuleFinding("broken_image", place, str(error))
        return
    if file.format not in _TAKEN:
        yield RuleFinding("image_type", place, _type_problem(file.format))
    rule = conversation.prompt.dialect.image_rule
    if rule is None:
        return
    grid = image_grid(file.width, file.height, dialect=conversation.prompt.dialect)
    width, height = grid.pixels
    if min(width / file.width, height / file.height) < _READABLE_PART:
        sizes = f"{file.width} × {file.height} pixels, which engines scale to {width} × {height}"
        problem = f"an image of {sizes}: small text in it cannot be read; send parts of it"
        yield RuleFinding("image_scaled_down", place, problem)


def _type_problem(format: str) -> str:
    return f"an image of type {format}, which not every engine takes: expected {_listed()}"


def _listed() -> str:
    return ", ".join(_TAKEN[:-1]) + f" or {_TAKEN[-1]}"


def _address_faults(address: str | None, place: Location) -> Iterator[RuleFinding]:
    if address is not None and _is_reachable(address):
        return
    expected = "expected http, https or data:, at an address that engines can reach"
    whose = "without a picture" if address is None else f"at {quoted_json(address)}"
    problem = f"an image {whose}, {expected}"
    yield RuleFinding("image_address", place, problem)


def _is_reachable(address: str) -> bool:
    """Whether an engine on another machine may be able to fetch an address."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host:
        return False
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return False
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:  # a name, not an IP address
        return True


IMAGE_RULES = (image_faults,)
