"""The images of a prompt in the form for engines: one for each placeholder, in the same order."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dsv4._encode.prompt import Prompt
from dsv4.serve.backend import BackendError, ImageSupport


def image_urls(prompt: Prompt, ids: Sequence[int] | None, support: ImageSupport) -> list[str]:
    """The address, or the bytes in a `data:` address, of each image. Raises a `BackendError` where
    the engine takes none, or where placeholders and images do not match."""
    if not support.reads:
        raise BackendError(f"this backend takes no images: {support.why}", 400, final=True)
    image = prompt.dialect.image_token
    if ids is not None and (image is None or ids.count(image.id) != len(prompt.images)):
        raise BackendError("the prompt has not one image for each placeholder", 400, final=True)
    return [str(record["url"]) for record in prompt.images]


async def large_body(body: dict[str, Any]) -> bytes:
    """The JSON of a body with pictures in it, made in a thread so that no stream waits."""
    return await asyncio.to_thread(
        lambda: json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    )


def picture_ids(prompt: Prompt, ids: list[int]) -> list[int]:
    """The ids of a prompt, with each image's placeholder replaced by a number that depends on the
    image: prefixes are equal only if their pictures are."""
    image = prompt.dialect.image_token
    if not prompt.images or image is None:
        return ids
    numbers = iter([_number(str(record.get("url"))) for record in prompt.images])
    return [next(numbers, id) if id == image.id else id for id in ids]


def _number(url: str) -> int:
    digest = hashlib.blake2b(url.encode("utf-8", "replace"), digest_size=4).digest()
    return int.from_bytes(digest, "little")
