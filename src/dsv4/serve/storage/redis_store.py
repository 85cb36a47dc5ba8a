"""Turns in Redis: shared by the workers of many machines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import asyncio as redis_client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from dsv4.errors import short_repr
from dsv4.serve.settings import SettingError
from dsv4.serve.storage.turn_stores import StoreFailure, TurnStore

# Values that are not read for a week are deleted, whatever the bounds.
_SECONDS = 7 * 24 * 3600

_SCRIPTS = Path(__file__).with_name("redis_scripts")


class RedisTurnStore(TurnStore):
    """A Redis server."""

    def __init__(self, url: str, entries: int, size: int, prefix: str = "dsv4:") -> None:
        self._client = redis_at(url, "replay")
        self._most = entries
        self._most_bytes = size
        self._prefix = prefix
        self._turns = scripts_in(_SCRIPTS, self._client)["turns"]

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        own = self._key(owner, "turn", names[0])
        leads = [self._key(owner, "name", name) for name in names]
        size = len(value) + sum(map(len, leads))
        bounds = (self._most, self._most_bytes, _SECONDS, f"{self._prefix}clock")
        with redis_failures():
            keys = [*self._shared(), own]
            await self._turns(keys=keys, args=(value, json.dumps(leads), size, *bounds))

    async def get(self, owner: str, name: str) -> bytes | None:
        with redis_failures():
            own = await self._client.get(self._key(owner, "name", name))
            value = None if own is None else await self._client.hget(own, "value")
        return value if value is None else bytes(value)

    async def delete(self, owner: str, name: str) -> bool:
        with redis_failures():
            keys = [*self._shared(), self._key(owner, "name", name)]
            return bool(await self._turns(keys=keys))

    async def size(self) -> int:
        """The number of bytes in the store. It fails if another program uses the same names for
        other values."""
        index, sizes, total = self._shared()
        with redis_failures():
            await self._client.zcard(index)
            await self._client.hlen(sizes)
            return int(await self._client.get(total) or 0)

    def _key(self, owner: str, kind: str, name: str) -> str:
        # The length separates an owner's name from the text after it.
        return f"{self._prefix}{len(owner)}:{owner}:{kind}:{name}"

    def _shared(self) -> list[str]:
        return [self._prefix + name for name in ("index", "sizes", "total")]

    async def aclose(self) -> None:
        await self._client.aclose()


def redis_at(url: str, setting: str, seconds: float = 1) -> Any:
    """The client of the Redis server that a setting names, which has so many seconds to answer.
    Raises a `SettingError` for an invalid URL.

    A restarted server has closed its earlier connections, so each may fail once. A server that does
    not answer is not asked twice, because a request waits for it.
    """
    limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds}
    try:
        again = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
        return redis_client.from_url(url, **limits, retry=again)
    except ValueError as error:
        raise SettingError(setting, f"found {short_repr(url)}: {error}") from None


def scripts_in(folder: Path, client: Any) -> dict[str, Any]:
    """The scripts of a folder, by the names of their files."""
    files = sorted(folder.glob("*.lua"))
    return {file.stem: client.register_script(file.read_text("utf-8")) for file in files}


@contextmanager
def redis_failures() -> Iterator[None]:
    """Raises a `StoreFailure` for any exception of the client."""
    try:
        yield
    except (RedisError, OSError, asyncio.TimeoutError) as error:
        raise StoreFailure(str(error) or type(error).__name__) from None
