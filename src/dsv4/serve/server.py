"""What the routes of one app share: settings, backend, tokenizer, keys, limits, memory."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from dsv4._encode.prompt import Prompt
from dsv4._format.dialects import Dialect, dialect_for, dialect_named
from dsv4.api import Settings as ApiSettings
from dsv4.errors import UnknownModel
from dsv4.serve.backend import AnyBackend, BackendError, Model, is_chat
from dsv4.serve.conversations import Conversations
from dsv4.serve.inspector import Begins, inspector_for
from dsv4.serve.keys import Keyring, read_keys
from dsv4.serve.limits import Gate
from dsv4.serve.metrics import Metrics
from dsv4.serve.prefix import Prefixes
from dsv4.serve.recorder import Recorder
from dsv4.serve.replay.recall import Memory
from dsv4.serve.replay.seal import read_seal
from dsv4.serve.replay.stores import store_for
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.threads import Threads
from dsv4.tokens import Tokenizer, VocabularyError

# Where neither the settings nor the backend say.
DEFAULT_CONTEXT = 131_072


class Server:
    """One app's state."""

    def __init__(
        self, settings: Settings, backend: AnyBackend, tokenizer: Tokenizer | None
    ) -> None:
        if not (settings.is_loopback or settings.api_key_file or settings.no_auth):
            problem = (
                f"found none while listening on {settings.host}: expected a file of keys, "
                "or --no-auth to let everybody in"
            )
            raise SettingError("api_key_file", problem)
        self.settings = settings
        self.backend = backend
        self.tokenizer = tokenizer
        self.keys = read_keys(settings.api_key_file) if settings.api_key_file else Keyring()
        self.metrics = Metrics()
        self.gate = Gate(settings.streams, settings.queue, self.metrics.count_places)
        self.prefixes = Prefixes()
        self.recorder = Recorder(settings.record) if settings.record else None
        self.inspector = inspector_for(settings)
        seal = read_seal(settings.seal_key_file) if settings.seal_key_file else None
        self.memory = Memory(store_for(settings), seal)
        self.conversations = Conversations(self.memory.store)
        self.threads = Threads(self.memory.store)
        self.model = Model(settings.model or "deepseek-v4", settings.context)
        self.dialect: Dialect = dialect_named(settings.dialect or "v4")
        self.api_settings = self._api_settings()
        self._knows_backend = False

    def _api_settings(self) -> ApiSettings:
        settings = self.settings
        return ApiSettings(
            thinking=settings.thinking,
            effort=settings.effort,
            later_system=settings.systems,
            # No backend here is sent pictures.
            read_images=False,
            unsupported_images=settings.images,
            grammars=self.backend.grammar_form is not None,
            reasoning_field=settings.reasoning_field,
            calls=settings.calls,
            model=self.model.name,
        )

    @property
    def context(self) -> int:
        return self.model.context or DEFAULT_CONTEXT

    def ids_of(self, prompt: Prompt) -> list[int] | None:
        """The ids of a prompt, where there is a tokenizer. Raises a `VocabularyError` for one that
        does not fit the dialect, unless they would only be counted."""
        if self.tokenizer is None or (is_chat(self.backend) and self.misfit):
            return None
        return self.tokenizer.encode(prompt)

    @property
    def misfit(self) -> str:
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
        models = await self.backend.models()
        found = models[0] if models else Model("default")
        settings = self.settings
        self.model = Model(settings.model or found.name, settings.context or found.context)
        if settings.dialect is None:
            # Where the name says nothing the default stands.
            with suppress(UnknownModel):
                self.dialect = dialect_for(found.name)
        self.api_settings = replace(self.api_settings, model=self.model.name)
        self._knows_backend = True

    def inspected(
        self, owner: str, protocol: str, data: bytes
    ) -> AbstractContextManager[Begins | None]:
        """Shows a request to the inspector, where there is one: from its arrival to its end."""
        if self.inspector is None:
            return nullcontext()
        return self.inspector.watched(owner, protocol, data)

    async def is_ready(self) -> bool:
        """Whether the backend answers."""
        try:
            await asyncio.wait_for(self.backend.models(), self.settings.connect_timeout)
        except (BackendError, asyncio.TimeoutError):
            return False
        return True

    async def aclose(self) -> None:
        await self.backend.aclose()
        if self.memory.store is not None:
            await self.memory.store.aclose()
        if self.recorder is not None:
            self.recorder.close()
