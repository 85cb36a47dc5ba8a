"""Finds out about the engines behind the gateway: model, grammars, images, whether they answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import suppress

from dsv4._encode.inputs import DIALECTS_WITH_IMAGES
from dsv4._format.dialects import Dialect
from dsv4.serve.backend import BackendError, ImageBackend, ImageSupport, ProbedBackend, is_chat
from dsv4.serve.heal.healer import Healer
from dsv4.serve.served_model import ServedModel
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.engine_pool import Engine, EnginePool
from dsv4.tokens import Tokenizer


def no_images(dialect: Dialect, tokenizer: Tokenizer | None) -> ImageSupport | None:
    """The reason why no engine can be sent images; None where the engines must be asked."""
    if dialect.image_token is None:
        return ImageSupport(False, f"{dialect} has none: {DIALECTS_WITH_IMAGES} has")
    if tokenizer is None:
        return ImageSupport(False, "they need prompts as ids: install the extra `tokens`")
    return None


# The treatment of images that are only an address, by setting.
_ADDRESSES = {
    "refuse": "addresses are refused (--image-urls)",
    "pass": "the engine fetches addresses",
    "fetch": "the gateway fetches addresses, from public ones only",
}
_UNREAD = {"replace": "replaced by a text", "refuse": "refused"}


def images_in_words(dialect: Dialect, settings: Settings, support: ImageSupport) -> str:
    """The text about images for the start; empty where the dialect has none."""
    if dialect.image_token is None:
        return ""
    if support.reads:
        return f"sent to the engine; {_ADDRESSES[settings.image_urls]}"
    return f"{_UNREAD[settings.images]}: {support.why}"


async def asked_support(engine: Engine, seconds: float) -> ImageSupport | None:
    """An engine's answer; None where it does not answer."""
    backend = engine.backend
    if not isinstance(backend, ImageBackend):
        return ImageSupport(False, "a backend of this kind takes none")
    try:
        return await asyncio.wait_for(backend.check_images(), seconds)
    except (BackendError, asyncio.TimeoutError):
        return None


def common_support(answers: Sequence[ImageSupport | None]) -> ImageSupport | None:
    """The support that all engines have that answered; None where none has answered."""
    supports = [support for support in answers if support is not None]
    refusal = next((support for support in supports if not support.reads), None)
    if refusal is not None or not supports:
        return refusal
    return ImageSupport(True, by_address=all(support.by_address for support in supports))


_GRAMMAR_NOTES = {
    "server": "the backend applies grammars after the reasoning: it has a reasoning parser",
    None: "the backend applies no grammars: forms of answers are asked for, but not enforced",
}
# The backend's readiness is checked again after so many seconds.
_READY_FOR = 1.0
# An engine that did not answer about images is asked again after so many seconds.
_ASK_AGAIN_AFTER = 30.0


class BackendWatch:
    """Asks the engines about themselves, and tells the model and the healer."""

    def __init__(
        self, settings: Settings, engines: EnginePool, model: ServedModel, healer: Healer
    ) -> None:
        self._settings = settings
        self._engines = engines
        self._model = model
        self._healer = healer
        self._healer.meet(model.dialect, ())
        self._ready_until = 0.0
        self.grammar_note = ""  # a remark on the backend's grammars, for users
        self.image_support = ImageSupport(False, "the backend has not answered yet")
        # A chat server gets images unchanged.
        self._ask_for_images_at = math.inf if is_chat(engines.first.backend) else 0.0

    async def meet(self) -> None:
        """Asks for the model and everything else that must be known, unless it has answered
        before."""
        if not self._model.is_known:
            models = await self._engines.models()
            self._model.note(models)
            self._healer.meet(self._model.dialect, models)
            await self._check_grammars()
        if time.monotonic() >= self._ask_for_images_at:
            await self.check_images()

    async def _check_grammars(self) -> None:
        """Asks a backend that must be asked. If it takes long, it is asked again when a request
        needs the answer."""
        for engine in self._engines.engines:
            backend = engine.backend
            if isinstance(backend, ProbedBackend):
                seconds = self._settings.connect_timeout
                with suppress(BackendError, asyncio.TimeoutError):
                    scope = await asyncio.wait_for(backend.check_grammars(), seconds)
                    self.grammar_note = _GRAMMAR_NOTES.get(scope, "")

    async def check_images(self) -> None:
        """Asks every engine whether it takes images: all must, because any may get a request. An
        engine that was asked is asked again only if it may have been restarted; one that is down is
        not asked."""
        self._ask_for_images_at = time.monotonic() + _ASK_AGAIN_AFTER
        support = no_images(self._model.dialect, self._model.tokenizer)
        if support is None:
            seconds = self._settings.connect_timeout
            up = [engine for engine in self._engines.engines if engine.is_up]
            answers = [asked_support(engine, seconds) for engine in up]
            support = common_support(await asyncio.gather(*answers))
        if support is not None:
            self._ask_for_images_at = math.inf
            self.image_support = support
            self._model.note_images(support)

    async def is_ready(self) -> bool:
        """Whether the backend answers: any of the engines, which are asked continuously."""
        if self._engines.chooses:
            return self._engines.is_ready
        now = time.monotonic()
        if now > self._ready_until:
            models = self._engines.first.backend.models()
            try:
                await asyncio.wait_for(models, self._settings.connect_timeout)
            except (BackendError, asyncio.TimeoutError):
                return False
            self._ready_until = now + _READY_FOR
        return True

    async def look_after(self) -> None:
        """Asks several engines continuously whether they answer."""
        while True:
            await asyncio.sleep(self._settings.probe_interval)
            if self._engines.chooses and self._model.is_known:
                expected, seconds = self._model.engine_model, self._settings.connect_timeout
                await self._engines.probe(expected, seconds)
