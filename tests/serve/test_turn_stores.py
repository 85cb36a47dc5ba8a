"""Stores of turns: memory, a SQLite file, a real Redis server."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import asyncio as redis_client
from standins import free_port, redis_server

from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.storage import store_for
from dsv4.serve.storage.redis_store import RedisTurnStore
from dsv4.serve.storage.turn_stores import MemoryTurnStore, SqliteTurnStore, StoreFailure, TurnStore

MakeStore = Callable[..., TurnStore]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of the tests' own."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(params=["memory", "sqlite", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    if request.param == "memory":
        return lambda entries=100, size=10**6: MemoryTurnStore(entries, size)
    if request.param == "sqlite":
        return lambda entries=100, size=10**6: SqliteTurnStore(
            str(tmp_path / "s.db"), entries, size
        )
    url = request.getfixturevalue("redis_url")
    prefix = f"{tmp_path.name}:"
    return lambda entries=100, size=10**6: RedisTurnStore(url, entries, size, prefix)


def test_a_value_is_found_by_each_of_its_names(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make()
        await store.put("ann", ["turn", "call_1", "call_2"], b"value")
        assert [await store.get("ann", name) for name in ("turn", "call_1", "call_2")] == [
            b"value"
        ] * 3
        assert await store.get("ann", "call_3") is None
        await store.aclose()

    asyncio.run(scenario())


def test_one_owner_never_sees_what_another_keeps(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make()
        await store.put("ann", ["turn"], b"hers")
        await store.put("bob", ["turn"], b"his")
        await store.put("a", ["nn:turn"], b"x")  # no run of an owner's name into another's
        assert await store.get("ann", "turn") == b"hers"
        assert await store.get("bob", "turn") == b"his"
        assert await store.get("eve", "turn") is None
        assert not await store.delete("eve", "turn")
        assert await store.get("ann", "turn") == b"hers"
        await store.aclose()

    asyncio.run(scenario())


def test_the_last_value_of_a_name_counts(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make()
        await store.put("ann", ["one", "shared"], b"1")
        await store.put("ann", ["two", "shared"], b"2")
        assert await store.get("ann", "shared") == b"2"
        await store.put("ann", ["one"], b"3")
        assert [await store.get("ann", n) for n in ("one", "shared", "two")] == [b"3", b"2", b"2"]
        await store.aclose()

    asyncio.run(scenario())


def test_a_deleted_value_is_gone_under_all_names(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make()
        await store.put("ann", ["turn", "call"], b"value")
        assert await store.delete("ann", "call")
        assert not await store.delete("ann", "call")
        assert await store.get("ann", "turn") is None
        await store.aclose()

    asyncio.run(scenario())


def test_the_oldest_goes_first_by_number(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make(entries=3)
        for n in range(5):
            await store.put("ann", [f"turn{n}", f"call{n}"], b"v%d" % n)
        kept = [await store.get("ann", f"call{n}") for n in range(5)]
        assert kept == [None, None, b"v2", b"v3", b"v4"]
        await store.aclose()

    asyncio.run(scenario())


def test_the_oldest_goes_first_by_size(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make(size=25_000)
        for n in range(5):
            await store.put("ann", [f"turn{n}"], bytes(10_000))
        kept = [await store.get("ann", f"turn{n}") is not None for n in range(5)]
        assert kept == [False, False, False, True, True]
        await store.put("ann", ["huge"], bytes(30_000))
        assert await store.get("ann", "huge") is None
        await store.aclose()

    asyncio.run(scenario())


def test_what_is_too_large_for_the_store_takes_nothing_away(make: MakeStore) -> None:
    async def scenario() -> None:
        store = make(size=10_000)
        await store.put("ann", ["small"], b"1")
        await store.put("bob", ["large"], b"1" * 20_000)
        assert await store.get("ann", "small") == b"1"
        assert await store.get("bob", "large") is None
        await store.aclose()

    asyncio.run(scenario())


def test_a_file_survives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "turns.db")

    async def write() -> None:
        store = SqliteTurnStore(path, 10, 10**6)
        await store.put("ann", ["turn"], b"value")
        await store.aclose()

    async def read() -> bytes | None:
        store = SqliteTurnStore(path, 10, 10**6)
        try:
            return await store.get("ann", "turn")
        finally:
            await store.aclose()

    asyncio.run(write())
    assert asyncio.run(read()) == b"value"


def test_nobody_else_may_read_a_file(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    asyncio.run(_closed(SqliteTurnStore(str(path), 10, 1000)))
    assert path.stat().st_mode & 0o777 == 0o600


async def _closed(store: TurnStore) -> None:
    await store.aclose()


def test_workers_share_a_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "turns.db")
        stores = [SqliteTurnStore(path, 1000, 10**6) for _ in range(4)]
        await asyncio.gather(
            *(s.put("ann", [f"{n}-{m}"], b"v") for n, s in enumerate(stores) for m in range(25))
        )
        found = [await stores[0].get("ann", f"{n}-{m}") for n in range(4) for m in range(25)]
        assert found == [b"v"] * 100
        for store in stores:
            await store.aclose()

    asyncio.run(scenario())


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"replay: .*no/such"):
        SqliteTurnStore(str(tmp_path / "no" / "such" / "file"), 1, 1)


def test_a_url_that_is_none_is_said() -> None:
    with pytest.raises(SettingError, match="replay: found 'redis://\\[::bad'"):
        store_for(Settings(replay="redis://[::bad"))


def test_what_cannot_be_asked_is_not_said_to_be_missing(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "locked.db"
        locked = SqliteTurnStore(str(path), 10, 10**6)
        away = RedisTurnStore(f"redis://127.0.0.1:{free_port()}", 10, 10**6)
        await locked.put("ann", ["kept"], b"value")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for store in (locked, away):
                with pytest.raises(StoreFailure):
                    await store.put("ann", ["turn"], b"value")
                with pytest.raises(StoreFailure):
                    await store.delete("ann", "kept")
        with pytest.raises(StoreFailure):
            await away.get("ann", "turn")
        assert await locked.get("ann", "kept") == b"value"
        await locked.aclose()
        await away.aclose()

    asyncio.run(scenario())


def test_a_key_of_another_program_is_found(redis_url: str) -> None:
    """A list under the name of our index made a healthy Redis keep nothing, for ever."""

    async def scenario() -> None:
        client = redis_client.from_url(redis_url)
        await client.set("taken:index", "x")
        store = RedisTurnStore(redis_url, 10, 10**6, "taken:")
        with pytest.raises(StoreFailure, match="WRONGTYPE"):
            await store.size()
        with pytest.raises(StoreFailure, match="WRONGTYPE"):
            await store.put("ann", ["turn"], b"value")
        await store.aclose()
        await client.aclose()

    asyncio.run(scenario())


def test_a_server_that_is_full_is_noticed(tmp_path: Path) -> None:
    full = ("--maxmemory", "3mb", "--maxmemory-policy", "noeviction")

    async def scenario(url: str) -> None:
        store = RedisTurnStore(url, 10**6, 10**9)
        await store.put("ann", ["first"], b"x" * 1000)

        async def fill() -> None:
            for n in range(100):
                await store.put("ann", [f"turn {n}"], b"x" * 100_000)

        with pytest.raises(StoreFailure, match="maxmemory"):
            await fill()
        assert await store.get("ann", "first") == b"x" * 1000
        assert await store.delete("ann", "turn 0")
        await store.aclose()

    with redis_server(tmp_path, arguments=full) as url:
        asyncio.run(scenario(url))


def test_a_server_that_hangs_is_not_waited_for_twice() -> None:
    """The system takes the connection, and nobody answers."""

    async def scenario(port: int) -> None:
        store = RedisTurnStore(f"redis://127.0.0.1:{port}", 10, 10**6)
        with pytest.raises(StoreFailure):
            await asyncio.wait_for(store.get("ann", "turn"), 3)
        await store.aclose()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(scenario(silent.getsockname()[1]))
