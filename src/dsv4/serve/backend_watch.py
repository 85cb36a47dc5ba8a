"""What the gateway finds out about what is behind it: the model, grammars, images, whether it
answers.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress

from dsv4.serve.backend import BackendError, ImageSupport, ProbedBackend, is_chat
from dsv4.serve.heal.healer import Healer
from dsv4.serve.images.engine_support import asked_support, common_support, no_images
from dsv4.serve.served_model import ServedModel
from dsv4.serve.settings import Settings
from dsv4.serve.upstreams.engine_pool import EnginePool

_GRAMMAR_NOTES = {
    "server": "the backend applies grammars after the reasoning: it has a reasoning parser",
    None: "the backend applies no grammars: forms of answers are asked for, but not enforced",
}
# For so many seconds it is not asked again whether the backend answers.
_READY_FOR = 1.0
# After so many seconds an engine is asked about images again that gave no answer.
_ASK_AGAIN_AFTER = 30.0


class BackendWatch:
    """Asks the engines, and tells the model and the healer what they are."""

    def __init__(
        self, settings: Settings, engines: EnginePool, model: ServedModel, healer: Healer
    ) -> None:
        self._settings = settings
        self._engines = engines
        self._model = model
        self._healer = healer
        self._healer.meet(model.dialect, ())
        self._ready_until = 0.0
        self.grammar_note = ""  # what users should know of the backend's grammars
        self.image_support = ImageSupport(False, "the backend has not answered yet")
        # A chat server gets them as they are.
        self._ask_for_images_at = math.inf if is_chat(engines.first.backend) else 0.0

    async def meet(self) -> None:
        """Asks for the model and what else must be known, unless it has answered before."""
        if not self._model.is_known:
            models = await self._engines.models()
            self._model.note(models)
            self._healer.meet(self._model.dialect, models)
            await self._check_grammars()
        if time.monotonic() >= self._ask_for_images_at:
            await self.check_images()

    async def _check_grammars(self) -> None:
        """Asks a backend that must be asked. One that takes long is asked again when a request
        needs to know."""
        for engine in self._engines.engines:
            backend = engine.backend
            if isinstance(backend, ProbedBackend):
                seconds = self._settings.connect_timeout
                with suppress(BackendError, asyncio.TimeoutError):
                    scope = await asyncio.wait_for(backend.check_grammars(), seconds)
                    self.grammar_note = _GRAMMAR_NOTES.get(scope, "")

    async def check_images(self) -> None:
        """Asks every engine whether it takes images: all must, because any may get a request. One
        that was asked before is asked again only if it may have been restarted, and one that is
        down is not asked."""
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
        """Whether the backend answers: any of the engines, which are asked all the time."""
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
        """Asks several engines again and again whether they are there."""
        while True:
            await asyncio.sleep(self._settings.probe_interval)
            if self._engines.chooses and self._model.is_known:
                expected, seconds = self._model.engine_model, self._settings.connect_timeout
                await self._engines.probe(expected, seconds)
