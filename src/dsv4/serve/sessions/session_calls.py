"""The sessions of a gateway: the session of each call, the changes that a session makes to its
calls, and the records of them.

A call is in a session by its address, `/sessions/{id}/…`, or by a header. A client gets its answer
even if the record of it cannot be written: that is logged and counted, and the session is marked as
incomplete.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dsv4._completion.message import assemble
from dsv4._encode.prompt import Prompt
from dsv4._images.image_source import identity, image_bytes
from dsv4.api import ApiError, ApiRequest
from dsv4.errors import short_repr
from dsv4.serve.access.api_keys import Key
from dsv4.serve.asgi import Scope
from dsv4.serve.backend import AnyBackend, Chunk, Chunks, Options, is_chat
from dsv4.serve.choice_reader import ChoiceReader
from dsv4.serve.observe.metrics import Metrics
from dsv4.serve.prepared_request import PreparedRequest, new_turn_ids
from dsv4.serve.sessions import SessionStore
from dsv4.serve.storage.turn_stores import StoreFailure
from dsv4.tokens import Tokenizer
from dsv4.trajectories.recorded_calls import (
    CallState,
    RecordedCall,
    RecordedPicture,
    TokenArrivals,
    TokenRun,
    WeightsVersion,
    picture_id,
)
from dsv4.trajectories.routed_experts import NO_EXPERTS, RoutedExperts
from dsv4.trajectories.session_file import SessionRecord, SessionRefused

SESSION_HEADER = "x-dsv4-session"
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)

_log = logging.getLogger("dsv4.serve")


def checked_session_id(id: object, path: str | None = None) -> str:
    """The id of a session that a client gave. Raises an `ApiError` for an invalid one."""
    if not isinstance(id, str) or not _ID.fullmatch(id) or id in (".", ".."):
        expected = "1 to 128 letters, digits, dots, underscores and hyphens"
        raise ApiError(f"found {short_repr(id)}, expected a session's id: {expected}", path=path)
    return id


def session_error(refusal: SessionRefused) -> ApiError:
    """A session that cannot be used, as an error that a protocol can write."""
    message, status = _REFUSALS[refusal.why]
    return ApiError(message, status=status)


_REFUSALS = {
    "unknown": ("There is no such session.", 404),
    "closed": ("The session is closed: it takes no more calls.", 409),
    "exists": ("There is a session with this id already.", 409),
    "full": ("There is no room for more sessions.", 507),
}


@dataclass(slots=True, eq=False)
class Sessions:
    """The sessions of one app. Without a store there are none."""

    store: SessionStore | None
    backend: AnyBackend
    metrics: Metrics
    tokenizer: Callable[[], Tokenizer | None]
    _pending: set[asyncio.Task[None]] = field(default_factory=set)
    # Sessions with a lost record that are not marked as incomplete yet, because the store failed.
    _lacking: set[str] = field(default_factory=set)

    def session_id(self, scope: Scope, headers: Mapping[str, str]) -> str | None:
        """The session that a request names; None if it names none."""
        by_path = scope.get("path_params", {}).get("session")
        by_header = headers.get(SESSION_HEADER)
        if by_path is None and by_header is None:
            return None
        if by_path is not None and by_header is not None and by_path != by_header:
            message = f"found {short_repr(by_header)} beside another session in the address"
            raise ApiError(f"{message}, expected the same or none", path=SESSION_HEADER)
        if self.store is None:
            message = "found a session, expected none: this server was started without"
            raise ApiError(f"{message} `--trajectories`", path=SESSION_HEADER)
        return checked_session_id(by_path if by_path is not None else by_header)

    @asynccontextmanager
    async def entered(
        self, name: str | None, key: Key, choices: int
    ) -> AsyncIterator[SessionEntry | None]:
        """Enters a request with so many choices into its session, from the time when it is read to
        its end. Yields None if it is in none. Raises an `ApiError` for a session that it may not
        use."""
        if name is None:
            yield None
            return
        entry = await self._entry(name, key, choices)
        try:
            yield entry
        finally:
            if not entry.has_begun:
                self.later(name, lambda store: store.abandon(name, entry.call_ids))

    async def _entry(self, name: str, key: Key, choices: int) -> SessionEntry:
        assert self.store is not None
        ids = new_turn_ids(choices)
        began = time.time()  # before the weights are read, so that no change is missed
        try:
            record, weights = await self.store.enter(name, key.name, ids)
        except (SessionRefused, StoreFailure) as problem:
            if isinstance(problem, SessionRefused) and problem.why != "full":
                raise session_error(problem) from None
            is_full = isinstance(problem, SessionRefused)
            self.note_loss(name, "the store is full" if is_full else str(problem))
            record = SessionRecord(name, key.name)
            return SessionEntry(self, record, ids, None, began, is_recorded=False)
        if name in self._lacking:
            self._lacking.discard(name)
            self.later(name, lambda store: store.incomplete(name))
        return SessionEntry(self, record, ids, weights, began)

    def note_loss(self, name: str, why: str) -> None:
        """Logs and counts that a record of a session was lost."""
        self.metrics.count("session_records_lost")
        self._lacking.add(name)
        _log.warning("session %s: a call was not recorded: %s", hashed(name), why)

    async def do(self, name: str, work: Callable[[SessionStore], Awaitable[None]]) -> None:
        """Does some work with the store; a failure is noted as a loss."""
        assert self.store is not None
        try:
            await work(self.store)
        except SessionRefused:
            return  # the session was deleted meanwhile
        except StoreFailure as failure:
            self.note_loss(name, str(failure))

    def later(self, name: str, work: Callable[[SessionStore], Awaitable[None]]) -> None:
        """The same, in the background."""
        task = asyncio.get_running_loop().create_task(self.do(name, work))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def aclose(self) -> None:
        if self.store is not None:
            await asyncio.gather(*self._pending, return_exceptions=True)
            await self.store.aclose()


def hashed(name: str) -> str:
    """The form of a session's id in logs."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


@dataclass(slots=True, eq=False)
class SessionEntry:
    """One request in a session: its calls, one for each choice."""

    sessions: Sessions
    record: SessionRecord
    call_ids: tuple[str, ...]
    weights: WeightsVersion
    started: float
    is_recorded: bool = True
    has_begun: bool = False
    has_ended: bool = False

    # Changes by the session.

    @property
    def sampling(self) -> dict[str, Any]:
        """The session's own sampling options, which override the client's."""
        return self.record.options.get("sampling") or {}

    def applied(self, call: ApiRequest) -> ApiRequest:
        """The request with the session's options."""
        own = {name: value for name, value in self.sampling.items() if name != "max_tokens"}
        dropping = self.record.options.get("drop_thinking", call.request.drop_thinking)
        return replace(
            call,
            request=replace(call.request, drop_thinking=dropping),
            sampling=replace(call.sampling, **own),
            max_tokens=self.sampling.get("max_tokens", call.max_tokens),
        )

    @property
    def tokens_left(self) -> int | None:
        """The number of tokens that may still be sampled; None without a limit."""
        limits: dict[str, int] = self.record.options.get("limits") or {}
        if limits.get("turns") is not None and self.record.turns >= limits["turns"]:
            return 0
        if limits.get("tokens") is None:
            return None
        return max(limits["tokens"] - self.record.sampled, 0)

    def options(self, options: Options) -> Options:
        """The options of a generation within the session's limits, with the log-probabilities of
        the sampled tokens only."""
        tokens = self.tokens_left
        most = options.max_tokens if tokens is None else max(min(options.max_tokens, tokens), 1)
        logprobs = 0 if options.logprobs is None else options.logprobs
        return replace(
            options, max_tokens=most, logprobs=logprobs, routed_experts=self.wants_experts
        )

    @property
    def wants_experts(self) -> bool | int:
        """Whether the experts of tokens are recorded; a number is how many a token takes."""
        experts: bool | int = self.record.options.get("routed_experts", False)
        return experts

    async def ended_stream(self) -> Chunks:
        """The stream of a backend that may not generate anything more."""
        yield Chunk(ids=(), finish="length")

    # Records.

    def begin(self, readers: Sequence[ChoiceReader]) -> None:
        """Notes that generation begins. From now on, the arrival of tokens is timed."""
        self.has_begun = True
        for reader in readers:
            reader.arrivals = array("d")

    async def finish(self, prepared: PreparedRequest, readers: Sequence[ChoiceReader]) -> None:
        """Records completions that have ended, before the client has all of them."""
        name, write, store = self.record.id, self._writing(prepared, readers), self.sessions.store
        if store is not None and store.waits:
            await self.sessions.do(name, write)
        else:
            self.sessions.later(name, write)

    def broke_off(
        self, prepared: PreparedRequest, readers: Sequence[ChoiceReader], state: CallState
    ) -> None:
        """Records completions that did not end, in the background: no client waits for them."""
        self.sessions.later(self.record.id, self._writing(prepared, readers, state))

    def _writing(
        self,
        prepared: PreparedRequest,
        readers: Sequence[ChoiceReader],
        state: CallState | None = None,
    ) -> Callable[[SessionStore], Awaitable[None]]:
        self.has_ended = True
        calls = [
            self._recorded_call(choice, reader, prepared, state)
            for choice, reader in enumerate(readers)
        ]
        for call in calls:
            self.sessions.metrics.count("session_calls", call.state)

        async def write(store: SessionStore) -> None:
            if self.is_recorded:
                await store.finish(self.record.id, calls)

        return write

    def undelivered(self) -> None:
        """Notes that the client disconnected before it had everything."""
        if self.is_recorded:
            name, ids = self.record.id, self.call_ids
            self.sessions.later(name, lambda store: store.undelivered(name, ids))

    def _recorded_call(
        self, choice: int, reader: ChoiceReader, prepared: PreparedRequest, state: CallState | None
    ) -> RecordedCall:
        message = assemble(reader.events)
        end: CallState = "cut" if message.finish == "length" else "finished"
        ids, runs, problem = recorded_ids(reader, prepared, self.sessions.backend)
        prompt, tokenizer = prepared.encoded.prompt, self.sessions.tokenizer()
        pictures = recorded_pictures(prompt, tokenizer) if ids else ()
        if pictures:
            ids, unclear = with_pictures(ids, pictures)
            problem = problem or unclear
        experts = None
        if self.wants_experts and pictures:
            experts = NO_EXPERTS  # engines count all tokens of a picture
        elif self.wants_experts:
            experts = recorded_experts(reader, len(ids) + sum(len(run.ids) for run in runs))
        first = reader.first_at
        began = time.time() - time.monotonic()
        return RecordedCall(
            *(self.call_ids[choice], 0, ids, runs),
            pictures=pictures,
            state=state or end,
            delivered=state is None,
            problem=problem,
            weights=(self.weights, self.weights),
            spans=reader.weights,
            arrivals=TokenArrivals(self.started, reader.arrivals or ()),
            experts=experts,
            details={
                "choice": choice,
                "protocol": prepared.call.protocol,
                "model": prepared.call.model,
                "sampling": sampling_sent(prepared),
                "finish": reader.finish,
                "stop": message.finish,
                "started": round(self.started, 3),
                "first": None if first is None else round(began + first, 3),
                "ended": round(time.time(), 3),
                "logprobs": getattr(self.sessions.backend, "logprobs_mode", None),
                "repairs": [asdict(diagnostic) for diagnostic in message.diagnostics],
                "message": message.to_dict(),
            },
        )


def sampling_sent(prepared: PreparedRequest) -> dict[str, Any]:
    """The sampling options that the engine was sent."""
    options = prepared.options
    values = {name: getattr(options, name) for name in _SAMPLING_OPTIONS}
    fields = {name: value for name, value in values.items() if value is not None}
    return {**fields, "grammar": True} if options.grammar is not None else fields


_SAMPLING_OPTIONS = (
    *("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed"),
    *("presence_penalty", "frequency_penalty"),
)

NO_PROMPT = "the backend makes its own prompts: which ids the model was given is not known"
NO_TOKENIZER = "there is no tokenizer: which ids the model was given is not known"
NO_IDS = "the backend gave no ids: which tokens were sampled is not known"
NO_LOGPROBS = "the backend gave no log-probabilities"
SAMPLED_IMAGE = "the model wrote the token of an image, of which the prompt has others"
NO_SIZE = (
    "the prompt has an image of unknown size: how many tokens the model was given is not known"
)


def recorded_experts(reader: ChoiceReader, tokens: int) -> RoutedExperts:
    """The experts of all tokens of a sequence but the last. None of them if some are missing,
    because the backend broke off, or was not started to report them."""
    experts = reader.experts
    if experts is None or experts.end < tokens - 1:
        return NO_EXPERTS
    return experts.between(0, tokens - 1)


def recorded_ids(
    reader: ChoiceReader, prepared: PreparedRequest, backend: AnyBackend
) -> tuple[Sequence[int], tuple[TokenRun, ...], str]:
    """The prompt's ids, the runs of tokens after them, and the reason if some are unknown: unknown
    values are never made up."""
    if is_chat(backend):
        return (), (), NO_PROMPT
    ids = prepared.encoded.ids
    if ids is None:
        return (), (), NO_TOKENIZER
    if not reader.has_ids:
        return (), (), NO_IDS if reader.sampled_text else ""
    sampled, logprobs = array("I", reader.sampled_ids), reader.token_logprobs
    problem = ""
    if len(logprobs) != len(sampled):
        some = f"{len(logprobs)} log-probabilities for {len(sampled)} tokens"
        problem = f"the backend gave {some}" if logprobs else NO_LOGPROBS
    values = None if problem else logprobs
    end, prompt = len(ids) - prepared.opening_size, array("I", ids)
    runs = (TokenRun(prompt[end:], False),) if prepared.opening_size else ()
    return prompt[:end], (*runs, TokenRun(sampled, True, values)), problem


def recorded_pictures(prompt: Prompt, tokenizer: Tokenizer | None) -> tuple[RecordedPicture, ...]:
    """The pictures in a prompt, in its order."""
    token = prompt.dialect.image_token
    if not prompt.images or token is None or tokenizer is None:
        return ()
    placeholder = tokenizer.special_id(token)
    counts = tokenizer.image_tokens(prompt)
    pictures: list[RecordedPicture] = []
    for record, grid, tokens in zip(prompt.images, prompt.image_grids, counts, strict=True):
        width, height = (None, None) if grid is None else (grid.width, grid.height)
        data = image_bytes(record)
        pictures.append(RecordedPicture(identity(record), placeholder, width, height, tokens, data))
    return tuple(pictures)


def with_pictures(
    ids: Sequence[int], pictures: Sequence[RecordedPicture]
) -> tuple[Sequence[int], str]:
    """The ids of a prompt, with its pictures' own ids in place of their placeholders; and the
    reason if the model's input is not known exactly."""
    placeholder = pictures[0].placeholder
    if sum(id == placeholder for id in ids) != len(pictures):
        return ids, SAMPLED_IMAGE
    names = [picture_id(picture.name) for picture in reversed(pictures)]
    unknown = any(picture.tokens is None for picture in pictures)
    whole = array("I", (names.pop() if id == placeholder else id for id in ids))
    return whole, NO_SIZE if unknown else ""
