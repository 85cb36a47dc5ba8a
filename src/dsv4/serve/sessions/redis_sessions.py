"""Sessions in Redis: recorded by the workers of many machines."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dsv4.serve.sessions.session_store import SWEEP_SECONDS
from dsv4.serve.storage.redis_store import redis_at, redis_failures, scripts_in
from dsv4.trajectories.recorded_calls import (
    PackedCall,
    RecordedCall,
    WeightsChange,
    WeightsVersion,
    pack_call,
    seal_of,
    unpack_call,
)
from dsv4.trajectories.session_file import (
    ENDS_AT_ONCE,
    SESSION_BYTES,
    CallEnd,
    Retention,
    SessionRecord,
    SessionRefused,
    call_after_base,
    description_of,
    session_of,
)

# Each script is one step for the server, so that two workers never see half of a change. A session
# is a hash; its calls are another, with the fields `n:ID` (its number), `w:ID` (the weights at its
# start), `v:ID` and `e:ID` (the whole call and its place among the ends, once it has ended) and
# `d:ID` if the client did not get it.
_SCRIPTS = Path(__file__).with_name("redis_scripts")
# Keys for all sessions together; others contain a session's id, or the name of a group.
_SHARED = ("index", "index:touched", "index:closed", "facts", "weights")
_NUMBERS = ("number", "turns", "calls", "sampled", "size", "complete")
_TIMES = ("created", "touched")
_LENGTHS = struct.Struct("<II")
T = TypeVar("T")


class RedisSessionStore:
    """A Redis server. Its configuration decides how safe a written record is."""

    waits = True

    def __init__(self, url: str, keep: Retention, prefix: str = "dsv4:sessions:") -> None:
        self._client = redis_at(url, "trajectories", 5)
        self._keep = keep
        self._prefix = prefix
        self._next_sweep = time.monotonic() + SWEEP_SECONDS
        self._scripts = scripts_in(_SCRIPTS, self._client)

    # Keys.

    def _key(self, kind: str, id: str = "") -> str:
        """A session's key of a kind, or one for all sessions together."""
        return f"{self._prefix}{kind}" if kind in _SHARED else f"{self._prefix}{kind}:{id}"

    def _keys(self, id: str, *kinds: str) -> list[str]:
        return [self._key(kind, id) for kind in kinds]

    async def _answer(self, answer: Awaitable[T]) -> T:
        with redis_failures():
            return await answer

    async def _run(self, name: str, keys: list[str], *args: Any) -> Any:
        return await self._answer(self._scripts[name](keys=keys, args=args))

    # Calls.

    async def enter(
        self, id: str, owner: str, calls: Sequence[str]
    ) -> tuple[SessionRecord, WeightsVersion]:
        if time.monotonic() > self._next_sweep:
            self._next_sweep = time.monotonic() + SWEEP_SECONDS
            await self.sweep()
        answer = await self._entered(id, owner, calls)
        if answer == b"unknown" and await self.session(id) is None:
            with suppress(SessionRefused):  # another worker has created it first
                await self.create(SessionRecord(id, owner))
            answer = await self._entered(id, owner, calls)
        if answer == b"full" and await self._make_room():
            answer = await self._entered(id, owner, calls)
        if isinstance(answer, bytes):
            raise SessionRefused(answer.decode())  # type: ignore[arg-type]
        weights, fields = answer
        pairs = iter(fields)
        return _record(dict(zip(pairs, pairs, strict=True))), json.loads(weights)

    async def _entered(self, id: str, owner: str, calls: Sequence[str]) -> Any:
        keys = self._keys(id, "session", "calls", "index", "facts")
        limits = (time.time(), self._keep.idle, self._keep.size)
        return await self._run("enter", keys, owner, *limits, *calls)

    async def abandon(self, id: str, calls: Sequence[str]) -> None:
        await self._run("abandon", self._keys(id, "session", "calls"), *calls)

    async def finish(self, id: str, calls: Sequence[RecordedCall]) -> None:
        for call in calls:
            if call.arrivals is not None:
                call = call.with_changes(await self._changes_since(call.arrivals.began))
            await self._finish(id, call)

    async def _finish(self, id: str, call: RecordedCall) -> None:
        ends: list[CallEnd] = []
        entry, new = _after_one_of(ends, call)
        # The longest ends that fit, a page at a time, until the prompt begins with one of them.
        while entry.base is None:
            key, longest = self._key("ends", id), len(call.prompt)
            find = partial(self._client.zrevrangebyscore, start=len(ends), num=ENDS_AT_ONCE)
            page = await self._answer(find(key, longest, 0))
            if not page:
                break
            ends += [CallEnd(int(n), *rest) for n, *rest in (p.decode().split() for p in page)]
            entry, new = _after_one_of(ends, call)
        members = [part for end in new for part in (end.length, " ".join(map(str, end)))]
        keys = self._keys(id, "session", "calls", "ends", "facts", "index:touched")
        value = _joined(pack_call(entry))
        facts = (call.id, value, call.sampled, time.time())
        state = await self._run("finish", keys, *facts, *members)
        if not state:
            raise SessionRefused("unknown")
        if state > 1:  # the call was running when the session was closed
            await self._seal(id)
        for name, *_, data in entry.pictures:
            if data is not None:
                await self._keep_picture(id, name, data)

    async def _keep_picture(self, id: str, name: str, data: bytes) -> None:
        session, pictures = self._keys(id, "session", "pictures")
        if await self._answer(self._client.hsetnx(pictures, name, data)):
            await self._answer(self._client.hincrby(session, "size", len(data)))
            await self._answer(self._client.hincrby(self._key("facts"), "size", len(data)))

    async def picture(self, id: str, name: str) -> bytes | None:
        value = self._client.hget(self._key("pictures", id), name)
        data: bytes | None = await self._answer(value)
        return data

    async def undelivered(self, id: str, calls: Sequence[str]) -> None:
        key = self._key("calls", id)
        await self._answer(self._client.hset(key, mapping={f"d:{call}": 1 for call in calls}))

    async def incomplete(self, id: str) -> None:
        key = self._key("session", id)
        if await self._answer(self._client.exists(key)):
            await self._answer(self._client.hset(key, "complete", 0))

    async def calls(self, id: str) -> list[RecordedCall]:
        fields = await self._answer(self._client.hgetall(self._key("calls", id)))
        listing = sorted((int(n), f[2:].decode()) for f, n in fields.items() if f.startswith(b"n:"))
        return [_recorded(fields, call, number) for number, call in listing]

    # Sessions.

    async def create(self, record: SessionRecord) -> SessionRecord:
        text = json.dumps(description_of(record), ensure_ascii=False)
        group = record.group or ""
        keys = self._keys(record.id, "session", "index", "facts")
        values = (record.id, record.owner, group, text, time.time(), SESSION_BYTES + len(text))
        if not await self._run("create", [*keys, self._key("group", group)], *values):
            raise SessionRefused("exists")
        return await self._existing_record(record.id)

    async def session(self, id: str) -> SessionRecord | None:
        fields = await self._answer(self._client.hgetall(self._key("session", id)))
        return _record(fields) if fields else None

    async def _existing_record(self, id: str) -> SessionRecord:
        record = await self.session(id)
        if record is None:
            raise SessionRefused("unknown")
        return record

    async def sessions(
        self, *, group: str | None, closed: bool | None, after: int, limit: int
    ) -> list[SessionRecord]:
        key = self._key("index") if group is None else self._key("group", group)
        records: list[SessionRecord] = []
        while len(records) < limit:
            page = await self._answer(
                self._client.zrangebyscore(
                    key, f"({after}", "+inf", start=0, num=limit, withscores=True
                )
            )
            for id, number in page:
                after = int(number)
                record = await self.session(id.decode())
                if record is not None and closed in (None, record.is_closed):
                    records.append(record)
                    if len(records) == limit:
                        break
            if len(page) < limit:
                break
        return records

    async def update(self, id: str, change: Callable[[SessionRecord], dict[str, Any]]) -> None:
        key = self._key("session", id)

        async def do(pipe: Any) -> None:
            fields = await pipe.hgetall(key)
            if not fields:
                raise SessionRefused("unknown")
            record = _record(fields)
            pipe.multi()
            pipe.hset(key, "said", json.dumps(description_of(replace(record, **change(record)))))

        await self._answer(self._client.transaction(do, key))

    async def close_session(self, id: str) -> SessionRecord:
        keys = self._keys(id, "session", "index:closed")
        if not await self._run("close", keys, id, time.time()):
            raise SessionRefused("unknown")
        await self._seal(id)
        return await self._existing_record(id)

    async def _seal(self, id: str) -> None:
        calls = await self.calls(id)
        ended = sum(call.end_number is not None for call in calls)
        await self._run("seal", self._keys(id, "session"), ended, json.dumps(seal_of(calls)))

    async def delete(self, id: str) -> bool:
        keys = self._keys(id, "session", "calls", "ends", "index", "facts", "pictures")
        return bool(await self._run("delete", keys, id, self._key("group")))

    async def _changes_since(self, began: float) -> list[WeightsChange]:
        rows = await self._answer(
            self._client.zrangebyscore(self._key("weights"), f"({began}", "+inf")
        )
        return [WeightsChange(*json.loads(row)) for row in rows]

    async def set_weights(self, version: WeightsVersion) -> None:
        now = time.time()
        both = self._client.pipeline(transaction=True)
        both.hset(self._key("facts"), "weights", json.dumps(version))
        both.zadd(self._key("weights"), {json.dumps([now, version]): now})
        await self._answer(both.execute())

    # Bounds.

    async def sweep(self) -> None:
        """Closes idle sessions, and deletes those that are too old or exceed the size."""
        now, find = time.time(), self._client.zrangebyscore
        for id in await self._answer(find(self._key("index:touched"), 0, now - self._keep.idle)):
            await self.close_session(id.decode())
        for id in await self._answer(find(self._key("index:closed"), 0, now - self._keep.seconds)):
            await self.delete(id.decode())
        await self._make_room()

    async def _make_room(self) -> bool:
        while True:
            size = await self._answer(self._client.hget(self._key("facts"), "size"))
            if int(size or 0) <= self._keep.size:
                return True
            oldest = await self._answer(self._client.zrange(self._key("index:closed"), 0, 0))
            if not oldest:
                return False
            await self.delete(oldest[0].decode())

    async def aclose(self) -> None:
        await self._client.aclose()


def _after_one_of(ends: list[CallEnd], call: RecordedCall) -> tuple[RecordedCall, list[CallEnd]]:
    return call_after_base(call, lambda _, after: ends[after:])


def _record(fields: Mapping[bytes, bytes]) -> SessionRecord:
    row: dict[str, Any] = {name.decode(): value.decode() for name, value in fields.items()}
    row |= {name: int(row[name]) for name in _NUMBERS}
    row |= {name: float(row[name]) for name in _TIMES}
    row["closed"] = float(row["closed"]) if "closed" in row else None
    row["grouped"] = row["grouped"] or None
    return session_of(row)


def _recorded(fields: Mapping[bytes, bytes], id: str, number: int) -> RecordedCall:
    value = fields.get(f"v:{id}".encode())
    if value is None:
        weights = json.loads(fields[f"w:{id}".encode()])
        return RecordedCall.begun(id, number, weights, float(fields[f"t:{id}".encode()]))
    ended = fields.get(f"e:{id}".encode())
    call = unpack_call(id, number, _split(value), None if ended is None else int(ended))
    return replace(call, delivered=False) if f"d:{id}".encode() in fields else call


def _joined(packed: PackedCall) -> bytes:
    head = packed.head.encode("utf-8", "surrogatepass")
    return _LENGTHS.pack(len(head), len(packed.ids)) + head + packed.ids + packed.numbers


def _split(value: bytes) -> PackedCall:
    head, ids = _LENGTHS.unpack_from(value)
    at = _LENGTHS.size
    text = value[at : at + head].decode("utf-8", "surrogatepass")
    return PackedCall(text, value[at + head : at + head + ids], value[at + head + ids :])
