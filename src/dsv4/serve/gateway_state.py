"""The state that the routes of one app share: settings, engines, the model, keys and limits,
storage, observers.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial

from dsv4.api import ApiError
from dsv4.serve.access.api_keys import AccessControl
from dsv4.serve.access.stream_gate import StreamGate
from dsv4.serve.asgi import Drain
from dsv4.serve.backend import AnyBackend, is_chat
from dsv4.serve.backend_watch import BackendWatch
from dsv4.serve.heal.healer import Healer
from dsv4.serve.images.request_images import RequestImages
from dsv4.serve.images.sent_images import picture_ids
from dsv4.serve.observe.inspector import inspector_for
from dsv4.serve.observe.logs import log_fields
from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.observe.records import Recorder
from dsv4.serve.observe.tracing import tracing_for
from dsv4.serve.prepared_request import EncodedPrompt
from dsv4.serve.served_model import ServedModel
from dsv4.serve.sessions import session_store_for
from dsv4.serve.sessions.session_calls import Sessions
from dsv4.serve.settings import Settings, upstreams_in
from dsv4.serve.storage import ConversationStorage
from dsv4.serve.upstreams.engine_pool import Engine, EnginePool
from dsv4.serve.worker_threads import WorkerThreads
from dsv4.tokens import Tokenizer
from dsv4.tokens.coder import common_prefix_length

_OWNERS = 256
_PER_OWNER = 8


class SeenPrefixes:
    """The last token sequences of each owner, prompts with the tokens sampled after them. The part
    that a new prompt shares with one is what a prefix cache saves."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, deque[array[int]]] = OrderedDict()

    def shared(self, owner: str, ids: Sequence[int]) -> int:
        """The number of tokens that a prompt shares with the most similar of the owner's last
        sequences."""
        prompt, sequences = array("I", ids), self._last.get(owner, ())
        return max((common_prefix_length(prompt, earlier) for earlier in sequences), default=0)

    def note(self, owner: str, ids: Sequence[int]) -> None:
        """Remembers a sequence, and drops one that it continues."""
        sequences = self._last.setdefault(owner, deque(maxlen=_PER_OWNER))
        self._last.move_to_end(owner)
        new = array("I", ids)
        for earlier in [each for each in sequences if new[: len(each)] == each]:
            sequences.remove(earlier)
        sequences.append(new)
        while len(self._last) > _OWNERS:
            self._last.popitem(last=False)


class GatewayState:
    """The state of one app, which its routes share."""

    def __init__(
        self, settings: Settings, engines: Sequence[Engine], tokenizer: Tokenizer | None
    ) -> None:
        self.settings = settings
        self.heals = is_chat(engines[0].backend)
        self.metrics: Metrics = Metrics(heals=self.heals)
        # Observers of requests.
        self.traced = tracing_for(settings)
        self.recorder: Recorder | None = Recorder(settings.record) if settings.record else None
        self.inspector = inspector_for(settings)
        self.access: AccessControl = AccessControl(
            settings, self.metrics.shared_folder, partial(self.metrics.set, "limits_shared")
        )
        self.engines: EnginePool = EnginePool(engines, self.metrics.note_engine)
        self.follows_file: bool = bool(settings.config) and settings.upstream == upstreams_in(
            settings.config or ""
        )
        self.drain: Drain = Drain()
        self.gate: StreamGate = StreamGate(
            settings.streams, settings.queue, self.metrics.count_places
        )
        self.workers: WorkerThreads = WorkerThreads(self.gate)
        self.prefixes: SeenPrefixes = SeenPrefixes()
        self.storage: ConversationStorage = ConversationStorage(settings, self.metrics.note_store)
        self.sessions: Sessions = Sessions(
            session_store_for(settings), self.backend, self.metrics, lambda: self.tokenizer
        )
        self.model: ServedModel = ServedModel(settings, tokenizer, makes_prompts=not self.heals)
        self.healer: Healer = Healer(settings, self.storage.turns)
        self.behind: BackendWatch = BackendWatch(settings, self.engines, self.model, self.healer)
        self.images: RequestImages = RequestImages(settings)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, with the special tokens' names in the model's dialect."""
        return self.model.tokenizer

    @property
    def needed_tokenizer(self) -> Tokenizer:
        """The tokenizer, for work that needs one. Raises an `ApiError` where there is none."""
        if self.tokenizer is None:
            raise ApiError("Ids need the extra `tokens`, which is not installed.", status=501)
        return self.tokenizer

    @property
    def backend(self) -> AnyBackend:
        """The backend: that of the first engine, where there are several. All are alike."""
        return self.engines.first.backend

    def shared_tokens(self, owner: str, encoded: EncodedPrompt) -> int | None:
        """The number of tokens of a prompt that an earlier one of the same owner had; None without
        ids."""
        prompt, ids, *_ = encoded
        return None if ids is None else self.prefixes.shared(owner, picture_ids(prompt, ids))

    async def summarize(self) -> None:
        """Logs what this process is doing, and its counts unless they are logged for all workers
        together."""
        doing = {"running": self.gate.running, "waiting": self.gate.waiting}
        log_fields(logging.INFO, f"process {os.getpid()}", doing)
        if self.metrics.shared_folder is None:
            self.metrics.log_summary()

    async def aclose(self) -> None:
        if self.heals and self.metrics.shared_folder is None:
            self.metrics.log_summary()
        self.workers.close()
        self.images.close()
        await self.access.meter.table.aclose()
        await self.sessions.aclose()
        await self.engines.aclose()
        await self.storage.aclose()
        if self.recorder is not None:
            self.recorder.close()
