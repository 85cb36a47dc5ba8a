"""What the routes of one app share: settings, backend, tokenizer, keys, limits, stored turns,
prefixes seen.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect, dialect_named
from dsv4.api import ApiError
from dsv4.api.api_request import ApiSettings, ProtocolName
from dsv4.serve.access import (
    Key,
    KeyMeter,
    Keyring,
    SharedUsageTable,
    StreamGate,
    UsageTable,
    WrongKeys,
    read_keys,
    refuse_open_file,
)
from dsv4.serve.asgi import Drain, Scope, headers_of
from dsv4.serve.backend import AnyBackend, BackendError, Model, ProbedBackend, is_chat
from dsv4.serve.backends import engine_of
from dsv4.serve.heal.adaptations import check_ids
from dsv4.serve.heal.request_adapter import RequestAdapter, adapter_for
from dsv4.serve.observe.inspector import OnBegin, common_prefix_length, inspector_for
from dsv4.serve.observe.logs import RequestReport, log_fields
from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.observe.records import Recorder
from dsv4.serve.observe.tracing import tracing_for
from dsv4.serve.served_model import (
    default_context,
    dialect_of_model,
    dialect_problem,
    model_asked_for,
    prompt_facts,
)
from dsv4.serve.sessions import session_store_for
from dsv4.serve.sessions.session_calls import Sessions
from dsv4.serve.settings import SettingError, Settings, upstreams_in
from dsv4.serve.storage import store_for
from dsv4.serve.storage.stored_conversations import StoredResponses, StoredThreads
from dsv4.serve.storage.stored_turns import SampledTurns, read_seal
from dsv4.serve.upstreams.engine_pool import Engine, EnginePool
from dsv4.serve.worker_threads import WorkerThreads
from dsv4.tokens import Tokenizer, VocabularyError

_OWNERS = 256
_PER_OWNER = 8


class SeenPrefixes:
    """The last token sequences of each owner, prompts with what was sampled after them: how much
    of a new prompt they share is what a prefix cache saves."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, deque[bytes]] = OrderedDict()

    def shared(self, owner: str, ids: Sequence[int]) -> int:
        """How many tokens a prompt shares with the best of the owner's last sequences."""
        packed = _packed_ids(ids)
        return max(
            (common_prefix_length(packed, k, _WIDTH) for k in self._last.get(owner, ())), default=0
        )

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence; one that it continues goes."""
        known = self._last.setdefault(owner, deque(maxlen=_PER_OWNER))
        self._last.move_to_end(owner)
        packed = _packed_ids(ids)
        for earlier in [k for k in known if packed.startswith(k)]:
            known.remove(earlier)
        known.append(packed)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)


def _packed_ids(ids: Sequence[int]) -> bytes:
    return array("I", ids).tobytes()


_WIDTH = array("I").itemsize


_GRAMMAR_NOTES = {
    "server": "the backend applies grammars after the reasoning: it has a reasoning parser",
    None: "the backend applies no grammars: forms of answers are asked for, but not enforced",
}


# For so many seconds it is not asked again whether the backend answers.
_READY_FOR = 1.0


def _usage_table(folder: Path | None) -> UsageTable | SharedUsageTable:
    return UsageTable() if folder is None else SharedUsageTable(folder)


class GatewayState:
    """The state of one app, which its routes share."""

    def __init__(
        self, settings: Settings, engines: Sequence[Engine], tokenizer: Tokenizer | None
    ) -> None:
        if not (settings.is_loopback or settings.api_key_file or settings.no_auth):
            problem = (
                f"found none while listening on {settings.host}: expected a file of keys, "
                "or --no-auth to let everybody in"
            )
            raise SettingError("api_key_file", problem)
        for name in ("api_key_file", "seal_key_file", "upstream_key_file", "tls_key"):
            if path := getattr(settings, name):
                refuse_open_file(name, path, settings)
        self.settings = settings
        self.upstreams = settings.upstream
        self.follows_file = bool(settings.config) and settings.upstream == upstreams_in(
            settings.config or ""
        )
        self.tokenizer = tokenizer
        self.keys = read_keys(settings.api_key_file) if settings.api_key_file else Keyring()
        self.metrics = Metrics(heals=is_chat(engines[0].backend))
        self.engines = EnginePool(engines, self.metrics.note_engine)
        self.meter = KeyMeter(_usage_table(self.metrics.shared_folder))
        self.wrong_keys = WrongKeys()
        self.tracing = tracing_for(settings)
        self._ready_until = 0.0
        self.drain = Drain()
        self.gate = StreamGate(settings.streams, settings.queue, self.metrics.count_places)
        self.workers = WorkerThreads(self.gate)
        self.prefixes = SeenPrefixes()
        self.recorder = Recorder(settings.record) if settings.record else None
        self.inspector = inspector_for(settings)
        seal = read_seal(settings.seal_key_file) if settings.seal_key_file else None
        self.sampled_turns = SampledTurns(store_for(settings), seal)
        self.sessions = Sessions(session_store_for(settings), self.backend, self.metrics)
        self.stored_responses = StoredResponses(self.sampled_turns.store)
        self.threads = StoredThreads(self.sampled_turns.store)
        self.model = Model(settings.model or "deepseek-v4", settings.context)
        self.dialect: Dialect = dialect_named(settings.dialect or "v4")
        self.dialect_problem = ""  # why it is a guess, where it is one
        self.prompt_facts = prompt_facts(self.dialect, settings)
        self.api_settings = self._api_settings()
        check_ids(settings.skip_adaptations)
        self.adapter = self._adapter(())
        self.engine_model = self.model  # as the engines call it
        self._knows_backend = False
        self.grammar_note = ""  # what users should know of the backend's grammars

    @property
    def backend(self) -> AnyBackend:
        """The backend: that of the first engine, where there are several. All are alike."""
        return self.engines.first.backend

    def new_engine(self, url: str) -> Engine:
        """An engine at another address, with the same settings."""
        return engine_of(replace(self.settings, upstream=(url,)), self.tokenizer)

    async def authenticated(self, scope: Scope) -> Key:
        """Whose request it is. Raises an `ApiError`; a wrong key takes longer each time."""
        key = self.keys.owner(headers_of(scope))
        if key is None:
            await self.wrong_keys.slow_down((scope.get("client") or ("",))[0])
            raise ApiError("The API key is missing or not known here.", status=401)
        if key.has_expired:
            raise ApiError("The API key has expired.", status=401)
        return key

    def _api_settings(self) -> ApiSettings:
        settings = self.settings
        return ApiSettings(
            thinking=settings.thinking,
            effort=settings.effort,
            later_system=settings.systems,
            # No backend here is sent pictures.
            read_images=False,
            unsupported_images=settings.images,
            # What a backend cannot enforce after the reasoning is begun for it.
            grammars=True,
            reasoning_field=settings.reasoning_field,
            calls=settings.calls,
            strip_markup=settings.strip_markup,
            model=self.model.name,
        )

    def _adapter(self, models: Sequence[Model]) -> RequestAdapter | None:
        """What adapts requests to a chat server, of which these models are known."""
        if not is_chat(self.backend):
            return None
        return adapter_for(self.settings, self.dialect, models, self.sampled_turns)

    @property
    def context(self) -> int:
        return self.model.context or default_context(self.dialect)

    def ids_of(self, prompt: Prompt) -> list[int] | None:
        """The ids of a prompt, where there is a tokenizer. Raises a `VocabularyError` for one that
        does not fit the dialect, unless they would only be counted."""
        if self.tokenizer is None or (is_chat(self.backend) and self.vocabulary_problem):
            return None
        return self.tokenizer.encode(prompt)

    @property
    def vocabulary_problem(self) -> str:
        """Why the vocabulary does not fit the dialect; empty where it does."""
        try:
            if self.tokenizer is not None:
                self.tokenizer.vocabulary.check(self.dialect.special_tokens, str(self.dialect))
        except VocabularyError as error:
            return f"{error}; --tokenizer names another"
        return ""

    async def meet_backend(self) -> None:
        """Asks the backend for its model, as far as the settings leave it open."""
        if self._knows_backend:
            return
        settings = self.settings
        models = await self.engines.models()
        found = model_asked_for(models, settings.upstream_model)
        self.model = Model(settings.model or found.name, settings.context or found.context)
        self.engine_model = found
        if settings.dialect is None:
            told = dialect_of_model(found, settings.model)
            self.dialect = told or self.dialect
            self.dialect_problem = dialect_problem(found, settings) if told is None else ""
            self.prompt_facts = prompt_facts(self.dialect, settings)
        self.api_settings = replace(self.api_settings, model=self.model.name)
        self.adapter = self._adapter(models)
        self._knows_backend = True
        await self._check_grammars()

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

    def inspected_request(
        self, owner: str, protocol: ProtocolName, data: bytes, session: str | None, client: str
    ) -> AbstractContextManager[OnBegin | None]:
        """Shows a request to the inspector, where there is one: from its arrival to its end."""
        if self.inspector is None:
            return nullcontext()
        return self.inspector.watched(owner, protocol, data, session, client)

    @property
    def guesses_dialect(self) -> bool:
        """Whether prompts would be made for a release that nobody named."""
        return bool(self.dialect_problem) and not is_chat(self.backend)

    def note_end(self, report: RequestReport) -> None:
        """Counts and logs a request that has ended."""
        key, usage = report.key, report.usage
        self.metrics.requests.labels(report.protocol, str(report.status)).inc()
        if key is not None and self.keys.asks:
            self.metrics.count_key(key.name, report.status, usage)
        if key is not None and usage is not None:
            self.meter.count_tokens(key.name, key.limits, usage.prompt + usage.completion)
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
            if self.engines.chooses and self._knows_backend:
                await self.engines.probe(self.engine_model, self.settings.connect_timeout)

    async def summarize(self) -> None:
        """Logs what this process is doing, and what was counted where nobody else does."""
        doing = {"running": self.gate.running, "waiting": self.gate.waiting}
        log_fields(logging.INFO, f"process {os.getpid()}", doing)
        if not self.metrics.counts_for_all:
            self.metrics.log_summary()

    async def aclose(self) -> None:
        if self.metrics.heals and not self.metrics.counts_for_all:
            self.metrics.log_summary()
        self.workers.close()
        await self.sessions.aclose()
        await self.engines.aclose()
        if self.sampled_turns.store is not None:
            await self.sampled_turns.store.aclose()
        if self.recorder is not None:
            self.recorder.close()
