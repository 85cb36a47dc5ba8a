"""Several engines behind one gateway: which of them gets a request, and which takes over.

A conversation goes to the engine that has its prefix in memory, as long as that one is not much
busier than the others, by the load that they report or else by what was sent to each. An engine
that fails gets no requests until it answers again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import takewhile

from dsv4._encode.prompt import Prompt
from dsv4.api.request_fields import JsonObject
from dsv4.serve.asgi import json_bytes
from dsv4.serve.backend import AnyBackend, BackendError, Model
from dsv4.serve.images.sent_images import picture_ids
from dsv4.serve.settings import without_password
from dsv4.serve.upstreams.engine_load import ASK_SECONDS, EngineLoad, LoadProbe

_log = logging.getLogger("dsv4.serve")

# Prefixes are known in steps of so many bytes: 256 tokens, or about as much text.
_STEP = 1024
# The most steps, of all conversations, that are remembered.
_MOST_STEPS = 65_536
# An engine may be busier than the least busy one by a quarter, and by so many streams: computing a
# prefix again costs more than that.
_FACTOR, _SLACK = 1.25, 8
# After so many failures in a row, an engine counts as down until it answers.
_MOST_FAILURES = 2


class PromptPrefix:
    """The identity of a conversation: the digest of every prefix of a prompt, in steps, and that of
    its first messages. `engine` wrote its last turn, if that is known."""

    def __init__(self, data: bytes, head: bytes, engine: str | None = None) -> None:
        self.engine = engine
        self.steps: list[bytes] = []
        running = hashlib.blake2b(digest_size=16)
        for end in range(_STEP, len(data) + 1, _STEP):
            running.update(data[end - _STEP : end])
            self.steps.append(running.copy().digest())
        self.head: bytes = hashlib.blake2b(head, digest_size=16).digest()

    @classmethod
    def of_prompt(
        cls, prompt: Prompt, ids: list[int] | None, engine: str | None = None
    ) -> PromptPrefix:
        data = _bytes(prompt.text)
        if ids is not None:
            data = array("I", picture_ids(prompt, ids)).tobytes()
        # Everything up to the model's first turn.
        first = takewhile(lambda piece: piece.origin != "model", prompt.pieces)
        return cls(data, _bytes("".join(piece.text for piece in first)), engine)

    @classmethod
    def of_messages(cls, body: JsonObject) -> PromptPrefix:
        """The same for a chat server's request, because that server makes its prompts itself."""
        messages = body.get("messages")
        history = messages if isinstance(messages, list) else []
        roles = [message.get("role") for message in history if isinstance(message, dict)]
        first = roles.index("assistant") if "assistant" in roles else len(history)
        return cls(json_bytes(history), json_bytes(history[:first]))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Engine:
    """One engine: its address, its backend, and its state."""

    def __init__(self, address: str, backend: AnyBackend, probe: LoadProbe | None = None) -> None:
        """`probe` asks the engine for its load, where that is possible."""
        self.address = address
        self.url: str = without_password(address)  # its name in logs and metrics
        self.backend = backend
        self.running = 0
        self._probe = probe
        self._running_then = 0  # the streams when it last reported its load
        self.is_up = True
        self.is_draining = False
        self._failures = 0
        self._last_failure: BackendError | None = None
        # Called when its state or the number of its streams has changed.
        self.on_change: Callable[[Engine], None] = lambda engine: None

    @property
    def takes_requests(self) -> bool:
        return self.is_up and not self.is_draining

    @property
    def load(self) -> EngineLoad | None:
        """The load that it reports; None where it reports none, or has not for a while."""
        return None if self._probe is None else self._probe.load

    @property
    def reported_weight(self) -> int | None:
        """The load that it reports, with the streams that were sent to it since."""
        load = self.load
        return None if load is None else load.weight + self.running - self._running_then

    async def ask_load(self) -> None:
        if self._probe is not None and await self._probe.ask():
            self._running_then = self.running

    async def aclose(self) -> None:
        await self.backend.aclose()
        if self._probe is not None:
            await self._probe.aclose()

    def count_streams(self, more: int) -> None:
        self.running += more
        self.on_change(self)

    def count_failure(self, error: BackendError) -> None:
        """Counts a failure, only once where several choices of a request end with the same."""
        if error is self._last_failure:
            return
        self._last_failure = error
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self.set_up(False, error.summary)

    def succeeded(self) -> None:
        self._failures = 0
        self.set_up(True, "it answers")

    def set_up(self, is_up: bool, why: str) -> None:
        if is_up != self.is_up:
            level = logging.INFO if is_up else logging.WARNING
            _log.log(level, "engine %s is %s: %s", self.url, "up" if is_up else "down", why)
        self.is_up = is_up
        self._failures = 0 if is_up else self._failures
        self.on_change(self)

    def drain(self, is_draining: bool) -> None:
        """Lets it take no more requests, or take them again."""
        if self.is_draining != is_draining:
            _log.info("engine %s %s", self.url, "drains" if is_draining else "takes requests again")
        self.is_draining = is_draining
        self.on_change(self)


class EnginePool:
    """The engines of a gateway. All serve the same model."""

    def __init__(
        self, engines: Sequence[Engine], on_change: Callable[[Engine], None] = lambda engine: None
    ) -> None:
        """`on_change` is called with an engine whose state or number of streams has changed."""
        self._on_change = on_change
        self.engines: list[Engine] = []
        self._url_of_step: OrderedDict[bytes, str] = OrderedDict()
        self._leaving: list[Engine] = []
        self.replace(engines)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(engine.address for engine in self.engines)

    @property
    def first(self) -> Engine:
        return self.engines[0]

    @property
    def able(self) -> Engine:
        """An engine for requests without a prompt: the first that takes requests."""
        return next((engine for engine in self.engines if engine.takes_requests), self.first)

    @property
    def chooses(self) -> bool:
        """Whether there is more than one to choose from."""
        return len(self.engines) > 1

    @property
    def is_ready(self) -> bool:
        return any(engine.takes_requests for engine in self.engines)

    async def models(self) -> list[Model]:
        """The models of the first engine that answers. Raises the `BackendError` of the last."""
        for engine in self.engines[:-1]:
            with suppress(BackendError):
                return await engine.backend.models()
        return await self.engines[-1].backend.models()

    # Choosing.

    def choose(
        self, prefix: PromptPrefix | None, attempts: Collection[Engine] = ()
    ) -> Engine | None:
        """The engine for a request; None where all that could take it were tried."""
        if prefix is None:
            return None if attempts else self.first
        others = [engine for engine in self.engines if engine not in attempts]
        able = [engine for engine in others if engine.takes_requests]
        if not able and not attempts:  # one of them may be back already
            able = [engine for engine in others if not engine.is_draining] or others
        if not able:
            return None
        preferred = self._with_prefix(prefix, able) or _by_hash(prefix, able)
        weights = _weights(able)
        least = min(able, key=lambda engine: weights[engine])
        is_busy = weights[preferred] > weights[least] * _FACTOR + _SLACK
        return least if is_busy else preferred

    def _with_prefix(self, prefix: PromptPrefix, able: list[Engine]) -> Engine | None:
        """The engine that has most of a prompt cached: the one that wrote its last turn, whichever
        worker passed it on, else the one that this worker sent most of the prompt to."""
        by_url = {engine.url: engine for engine in able}
        if prefix.engine in by_url:
            return by_url[prefix.engine]
        for step in reversed(prefix.steps):
            if (engine := by_url.get(self._url_of_step.get(step, ""))) is not None:
                return engine
        return None

    def note(self, prefix: PromptPrefix, engine: Engine) -> None:
        """Remembers that an engine has a prompt in its cache."""
        for step in prefix.steps:
            self._url_of_step[step] = engine.url
            self._url_of_step.move_to_end(step)
        while len(self._url_of_step) > _MOST_STEPS:
            self._url_of_step.popitem(last=False)

    # Changing.

    def drain(self, url: str, is_draining: bool) -> bool:
        """Lets an engine take no more requests, or take them again. False where none has the
        address."""
        engines = [engine for engine in self.engines if engine.url == url]
        for engine in engines:
            engine.drain(is_draining)
        return bool(engines)

    def replace(self, engines: Sequence[Engine]) -> None:
        """Changes the engines. Streams of removed engines end normally."""
        self._leaving += [engine for engine in self.engines if engine not in engines]
        self.engines = list(engines)
        for engine in self.engines:
            engine.on_change = self._on_change

    # Monitoring.

    async def probe(self, expected: Model, seconds: float) -> None:
        """Asks every engine whether it answers, and whether it still serves the same model."""
        await asyncio.gather(*(self._probe(engine, expected, seconds) for engine in self.engines))
        await self._close_left()

    async def _probe(self, engine: Engine, expected: Model, seconds: float) -> None:
        try:
            models = await asyncio.wait_for(engine.backend.models(), seconds)
        except (BackendError, asyncio.TimeoutError) as error:
            engine.set_up(False, getattr(error, "summary", "") or f"no answer within {seconds:g} s")
        else:
            names = [model.name for model in models]
            is_same = expected.name in names
            engine.set_up(is_same, "it answers" if is_same else f"it serves {', '.join(names)}")

    async def watch_loads(self) -> None:
        """Asks the engines for their load continuously, where there are several."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            if self.chooses:
                await asyncio.gather(*(engine.ask_load() for engine in self.engines))

    async def _close_left(self) -> None:
        for engine in [each for each in self._leaving if not each.running]:
            self._leaving.remove(engine)
            with suppress(Exception):
                await engine.aclose()

    async def aclose(self) -> None:
        for engine in [*self.engines, *self._leaving]:
            await engine.aclose()


def _weights(engines: list[Engine]) -> dict[Engine, int]:
    """The load of each engine: as reported where all report it, because that counts more than what
    this process has sent them; else their streams."""
    words = {engine: engine.reported_weight for engine in engines}
    weights = {engine: weight for engine, weight in words.items() if weight is not None}
    all_speak = len(weights) == len(engines)
    return weights if all_speak else {engine: engine.running for engine in engines}


def _by_hash(prefix: PromptPrefix, able: list[Engine]) -> Engine:
    """The same engine for the same first messages, in every worker. When an engine is removed, only
    its own conversations move (rendezvous hashing)."""

    def weight(engine: Engine) -> bytes:
        return hashlib.blake2b(engine.url.encode(), key=prefix.head, digest_size=16).digest()

    return max(able, key=weight)


class EngineLease:
    """The engine of one choice of a request, and the next one if that fails before it has sent
    anything."""

    def __init__(self, pool: EnginePool, prefix: PromptPrefix | None) -> None:
        self._pool = pool
        self._prefix = prefix
        self._attempts: list[Engine] = []
        self.engine = pool.choose(prefix) or pool.first
        self.engine.count_streams(1)

    def moved_on(self, error: BackendError) -> bool:
        """Whether another engine takes over after a failure."""
        if error.status in (400, 404):  # a wrong request is wrong for every engine
            return False
        self.engine.count_failure(error)
        self._attempts.append(self.engine)
        other = self._pool.choose(self._prefix, self._attempts)
        if other is None:  # a later try may use any of them
            self._attempts = []
            self._use(self._pool.choose(self._prefix) or self.engine)
            return False
        self._use(other)
        return True

    def _use(self, engine: Engine) -> None:
        self.engine.count_streams(-1)
        self.engine = engine
        engine.count_streams(1)

    def close(self, has_answered: bool, failure: BackendError | None) -> None:
        """Ends the lease. `has_answered` says that the engine has sent something, `failure` that it
        broke off after that."""
        if has_answered and failure is not None:
            self.engine.count_failure(failure)
        elif has_answered:
            self.engine.succeeded()
            if self._prefix is not None:
                self._pool.note(self._prefix, self.engine)
        self.engine.count_streams(-1)
