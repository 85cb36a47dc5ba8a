"""Turns in Redis: shared by the workers of many machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis import asyncio as redis_client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from dsv4.serve.storage.stored_turns import StoreFailure, TurnStore

# What nobody asks for goes after a week, whatever the bounds.
_SECONDS = 7 * 24 * 3600

# One step for the server, so that two workers never see half of a change. Names are kept beside
# the value to be removed with it; the index, by time, says what is oldest.
_PUT = """
local index, sizes, total = KEYS[1], KEYS[2], KEYS[3]
local value, names, own, size = ARGV[1], cjson.decode(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local most, most_bytes, seconds, prefix = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
local function forget(key)
  local listed = redis.call('HGET', key, 'names')
  if listed then
    for _, name in ipairs(cjson.decode(listed)) do
      if redis.call('GET', name) == key then redis.call('DEL', name) end
    end
  end
  redis.call('DEL', key)
  redis.call('ZREM', index, key)
  local was = redis.call('HGET', sizes, key)
  if was then redis.call('DECRBY', total, was); redis.call('HDEL', sizes, key) end
end
forget(own)
if size > most_bytes then return end  -- all others would have to go for it
redis.call('HSET', own, 'value', value, 'names', ARGV[2])
redis.call('EXPIRE', own, seconds)
for _, name in ipairs(names) do redis.call('SET', name, own, 'EX', seconds) end
local now = redis.call('INCR', prefix .. 'clock')
redis.call('ZADD', index, now, own)
redis.call('HSET', sizes, own, size)
redis.call('INCRBY', total, size)
while redis.call('ZCARD', index) > most or tonumber(redis.call('GET', total)) > most_bytes do
  local oldest = redis.call('ZRANGE', index, 0, 0)[1]
  if not oldest then break end
  forget(oldest)
end
"""
_DELETE = """
local own = redis.call('GET', KEYS[1])
if not own then return 0 end
local listed = redis.call('HGET', own, 'names')
if listed then
  for _, name in ipairs(cjson.decode(listed)) do
    if redis.call('GET', name) == own then redis.call('DEL', name) end
  end
end
redis.call('DEL', own)
redis.call('ZREM', KEYS[2], own)
local was = redis.call('HGET', KEYS[3], own)
if was then redis.call('DECRBY', KEYS[4], was); redis.call('HDEL', KEYS[3], own) end
return 1
"""


class RedisTurnStore(TurnStore):
    """A Redis server."""

    def __init__(self, url: str, entries: int, size: int, prefix: str = "dsv4:") -> None:
        self._client = redis_at(url)
        self._most = entries
        self._most_bytes = size
        self._prefix = prefix
        self._put = self._client.register_script(_PUT)
        self._delete = self._client.register_script(_DELETE)

    async def put(self, owner: str, names: Sequence[str], value: bytes) -> None:
        own = self._key(owner, "turn", names[0])
        named = [self._key(owner, "name", name) for name in names]
        size = len(value) + sum(map(len, named))
        arguments = (value, json.dumps(named), own, size, self._most, self._most_bytes)
        with redis_failures():
            await self._put(keys=self._shared(), args=(*arguments, _SECONDS, self._prefix))

    async def get(self, owner: str, name: str) -> bytes | None:
        with redis_failures():
            own = await self._client.get(self._key(owner, "name", name))
            value = None if own is None else await self._client.hget(own, "value")
        return value if value is None else bytes(value)

    async def delete(self, owner: str, name: str) -> bool:
        with redis_failures():
            keys = [self._key(owner, "name", name), *self._shared()]
            return bool(await self._delete(keys=keys))

    async def size(self) -> int:
        """How many bytes it holds. What another program keeps under our names is found here."""
        index, sizes, total = self._shared()
        with redis_failures():
            await self._client.zcard(index)
            await self._client.hlen(sizes)
            return int(await self._client.get(total) or 0)

    def _key(self, owner: str, kind: str, name: str) -> str:
        # The length keeps an owner's name from running into what follows it.
        return f"{self._prefix}{len(owner)}:{owner}:{kind}:{name}"

    def _shared(self) -> list[str]:
        return [self._prefix + name for name in ("index", "sizes", "total")]

    async def aclose(self) -> None:
        await self._client.aclose()


def redis_at(url: str) -> Any:
    """The client of a Redis server. Raises a `ValueError` for what is no URL of one.

    A server that was restarted has closed the connections of before, so each may fail once.
    """
    again = Retry(NoBackoff(), 1)
    return redis_client.from_url(url, socket_timeout=2, socket_connect_timeout=2, retry=again)


@contextmanager
def redis_failures() -> Iterator[None]:
    """Says of whatever the client raises that the store has failed."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise StoreFailure(str(error) or type(error).__name__) from None
