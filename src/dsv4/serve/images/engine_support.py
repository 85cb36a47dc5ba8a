"""Whether the engines behind a gateway are sent images."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dsv4._encode.inputs import DIALECTS_WITH_IMAGES
from dsv4._format.dialects import Dialect
from dsv4.serve.backend import BackendError, ImageBackend, ImageSupport
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.engine_pool import Engine
from dsv4.tokens import Tokenizer


def no_images(dialect: Dialect, tokenizer: Tokenizer | None) -> ImageSupport | None:
    """Why no engine is sent any, whatever it can; None where it can be asked."""
    if dialect.image_token is None:
        return ImageSupport(False, f"{dialect} has none: {DIALECTS_WITH_IMAGES} has")
    if tokenizer is None:
        return ImageSupport(False, "they need prompts as ids: install the extra `tokens`")
    return None


# What is done with images that are only an address.
_ADDRESSES = {
    "refuse": "addresses are refused (--image-urls)",
    "pass": "the engine fetches addresses",
    "fetch": "the gateway fetches addresses, from public ones only",
}
_UNREAD = {"replace": "replaced by a text", "refuse": "refused"}


def images_in_words(dialect: Dialect, settings: Settings, support: ImageSupport) -> str:
    """What is said of images at the start; nothing where the dialect has none."""
    if dialect.image_token is None:
        return ""
    if support.reads:
        return f"sent to the engine; {_ADDRESSES[settings.image_urls]}"
    return f"{_UNREAD[settings.images]}: {support.why}"


async def asked_support(engine: Engine, seconds: float) -> ImageSupport | None:
    """What an engine says; None where it does not answer."""
    backend = engine.backend
    if not isinstance(backend, ImageBackend):
        return ImageSupport(False, "a backend of this kind takes none")
    try:
        return await asyncio.wait_for(backend.check_images(), seconds)
    except (BackendError, asyncio.TimeoutError):
        return None


def common_support(answers: Sequence[ImageSupport | None]) -> ImageSupport | None:
    """What holds for all engines that answered; None where none has."""
    supports = [support for support in answers if support is not None]
    refusal = next((support for support in supports if not support.reads), None)
    if refusal is not None or not supports:
        return refusal
    return ImageSupport(True, by_address=all(support.by_address for support in supports))
