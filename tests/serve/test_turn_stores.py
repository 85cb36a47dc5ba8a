"""Stores of turns: memory, a SQLite file, a real Redis server."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from standins import redis_server

from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.storage import store_for
from dsv4.serve.storage.redis_store import RedisTurnStore
from dsv4.serve.storage.stored_turns import MemoryTurnStore, SqliteTurnStore, TurnStore

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


def test_a_file_that_is_locked_remembers_nothing_and_harms_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "turns")
        store = SqliteTurnStore(path, 10, 10_000)
        await store._run(lambda: store._db.execute("PRAGMA busy_timeout = 1"), None)
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN EXCLUSIVE")
            await store.put("ann", ["name"], b"1")
            assert not await store.delete("ann", "name")
        assert await store.get("ann", "name") is None
        await store.put("ann", ["name"], b"2")
        assert await store.get("ann", "name") == b"2"
        await store.aclose()

    asyncio.run(scenario())


def test_a_url_that_is_none_is_said() -> None:
    with pytest.raises(SettingError, match="replay: found 'redis://\\[::bad'"):
        store_for(Settings(replay="redis://[::bad"))


def test_redis_that_is_away_remembers_nothing_and_harms_nobody() -> None:
    async def scenario() -> None:
        store = RedisTurnStore("redis://127.0.0.1:1", 1, 1)
        await store.put("ann", ["turn"], b"value")
        assert await store.get("ann", "turn") is None
        assert not await store.delete("ann", "turn")
        await store.aclose()

    asyncio.run(scenario())
