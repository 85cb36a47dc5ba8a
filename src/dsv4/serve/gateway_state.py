"""What the routes of one app share: settings, engines, the model, keys and limits, what is kept,
what is observed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from dsv4._encode.prompt import Prompt
from dsv4.api.api_request import ProtocolName
from dsv4.serve.access.access_control import AccessControl
from dsv4.serve.access.stream_gate import StreamGate
from dsv4.serve.asgi import Drain
from dsv4.serve.backend import (
    AnyBackend,
    BackendError,
    ImageSupport,
    ProbedBackend,
    is_chat,
)
from dsv4.serve.backends import engine_of
from dsv4.serve.heal.healer import Healer
from dsv4.serve.images.engine_support import asked_support, common_support, no_images
from dsv4.serve.images.request_images import RequestImages
from dsv4.serve.images.sent_images import picture_ids
from dsv4.serve.observe.inspector import OnBegin, inspector_for
from dsv4.serve.observe.logs import RequestReport, log_fields
from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.observe.records import Recorder
from dsv4.serve.observe.tracing import tracing_for
from dsv4.serve.seen_prefixes import SeenPrefixes
from dsv4.serve.served_model import ServedModel
from dsv4.serve.sessions import session_store_for
from dsv4.serve.sessions.session_calls import Sessions
from dsv4.serve.settings import Settings, upstreams_in
from dsv4.serve.storage import ConversationStorage
from dsv4.serve.upstreams.engine_pool import Engine, EnginePool
from dsv4.serve.worker_threads import WorkerThreads
from dsv4.tokens import Tokenizer

_GRAMMAR_NOTES = {
    "server": "the backend applies grammars after the reasoning: it has a reasoning parser",
    None: "the backend applies no grammars: forms of answers are asked for, but not enforced",
}
# For so many seconds it is not asked again whether the backend answers.
_READY_FOR = 1.0


class GatewayState:
    """The state of one app, which its routes share."""

    def __init__(
        self, settings: Settings, engines: Sequence[Engine], tokenizer: Tokenizer | None
    ) -> None:
        self.settings = settings
        self.heals = is_chat(engines[0].backend)
        self.metrics = Metrics(heals=self.heals)
        self.tracing = tracing_for(settings)
        self.recorder = Recorder(settings.record) if settings.record else None
        self.inspector = inspector_for(settings)
        self.access = AccessControl(settings, self.metrics.shared_folder, self.metrics.note_limits)
        self.engines = EnginePool(engines, self.metrics.note_engine)
        self.upstreams = settings.upstream
        self.follows_file = bool(settings.config) and settings.upstream == upstreams_in(
            settings.config or ""
        )
        self.drain = Drain()
        self.gate = StreamGate(settings.streams, settings.queue, self.metrics.count_places)
        self.workers = WorkerThreads(self.gate)
        self.prefixes = SeenPrefixes()
        self.storage = ConversationStorage(settings, self.metrics.note_store)
        self.sessions = Sessions(
            session_store_for(settings), self.backend, self.metrics, lambda: self.tokenizer
        )
        self.model = ServedModel(settings, tokenizer, makes_prompts=not self.heals)
        self.healer = Healer(settings, self.storage.turns)
        self.healer.meet(self.model.dialect, ())
        self.grammar_note = ""  # what users should know of the backend's grammars
        self.images = RequestImages(settings)
        self.image_support = ImageSupport(False, "the backend has not answered yet")
        self._has_asked_for_images = self.heals  # a chat server gets them as they are
        self._ready_until = 0.0

    @property
    def tokenizer(self) -> Tokenizer | None:
        """With the names that the model's dialect has for special tokens."""
        return self.model.tokenizer

    @property
    def backend(self) -> AnyBackend:
        """The backend: that of the first engine, where there are several. All are alike."""
        return self.engines.first.backend

    def new_engine(self, url: str) -> Engine:
        """An engine at another address, with the same settings."""
        return engine_of(replace(self.settings, upstream=(url,)), self.tokenizer)

    async def meet_backend(self) -> None:
        """Asks the backend for its model, unless it has answered before."""
        if not self.model.is_known:
            models = await self.engines.models()
            self.model.note(models)
            self.healer.meet(self.model.dialect, models)
            await self._check_grammars()
        if not self._has_asked_for_images:
            await self.check_images()

    async def _check_grammars(self) -> None:
        """Asks a backend that must be asked. One that takes long is asked again when a request
        needs to know."""
        for engine in self.engines.engines:
            backend = engine.backend
            if isinstance(backend, ProbedBackend):
                seconds = self.settings.connect_timeout
                with suppress(BackendError, asyncio.TimeoutError):
                    scope = await asyncio.wait_for(backend.check_grammars(), seconds)
                    self.grammar_note = _GRAMMAR_NOTES.get(scope, "")

    async def check_images(self) -> None:
        """Asks every engine whether it takes images: all must, because any may get a request. One
        that was asked before is asked again only if it may have been restarted."""
        support = no_images(self.model.dialect, self.tokenizer)
        if support is None:
            seconds = self.settings.connect_timeout
            asked = [asked_support(engine, seconds) for engine in self.engines.engines]
            support = common_support(await asyncio.gather(*asked))
        if support is not None:
            self._has_asked_for_images = True
            self.image_support = support
            self.model.note_images(support)

    def shared_tokens(self, owner: str, prompt: Prompt, ids: list[int] | None) -> int | None:
        """How many tokens of a prompt an earlier one of the same owner had; None without ids."""
        return None if ids is None else self.prefixes.shared(owner, picture_ids(prompt, ids))

    def inspected_request(
        self, owner: str, protocol: ProtocolName, data: bytes, session: str | None, client: str
    ) -> AbstractContextManager[OnBegin | None]:
        """Shows a request to the inspector, where there is one: from its arrival to its end."""
        if self.inspector is None:
            return nullcontext()
        return self.inspector.watched(owner, protocol, data, session, client)

    async def note_end(self, report: RequestReport) -> None:
        """Counts and logs a request that has ended."""
        key, usage = report.key, report.usage
        self.metrics.requests.labels(report.protocol, str(report.status)).inc()
        if key is not None and self.access.keys.asks:
            self.metrics.count_key(key.name, report.status, usage)
        if key is not None and usage is not None:
            tokens = usage.prompt + usage.completion
            await self.access.meter.count_tokens(key.name, key.limits, tokens)
        report.log()

    async def is_ready(self) -> bool:
        """Whether the backend answers: any of the engines, which are asked all the time."""
        if self.engines.chooses:
            return self.engines.is_ready
        now = time.monotonic()
        if now > self._ready_until:
            try:
                await asyncio.wait_for(self.backend.models(), self.settings.connect_timeout)
            except (BackendError, asyncio.TimeoutError):
                return False
            self._ready_until = now + _READY_FOR
        return True

    async def look_after_engines(self) -> None:
        """Asks several engines again and again whether they are there."""
        while True:
            await asyncio.sleep(self.settings.probe_interval)
            if self.engines.chooses and self.model.is_known:
                await self.engines.probe(self.model.engine_model, self.settings.connect_timeout)

    async def summarize(self) -> None:
        """Logs what this process is doing, and what was counted where nobody else does."""
        doing = {"running": self.gate.running, "waiting": self.gate.waiting}
        log_fields(logging.INFO, f"process {os.getpid()}", doing)
        if not self.metrics.counts_for_all:
            self.metrics.log_summary()

    async def aclose(self) -> None:
        if self.heals and not self.metrics.counts_for_all:
            self.metrics.log_summary()
        self.workers.close()
        self.images.close()
        await self.access.meter.table.aclose()
        await self.sessions.aclose()
        await self.engines.aclose()
        await self.storage.aclose()
        if self.recorder is not None:
            self.recorder.close()
