"""What keys have used, counted by one process, by workers, by many machines: what limits come to,
also while the Redis is away that counts for all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from gateway import gateway, run
from standins import THINK_END, Scripted, free_port, redis_server

from dsv4.serve import Chunk
from dsv4.serve.access import redis_usage
from dsv4.serve.access.key_usage import (
    KeyLimitReached,
    KeyLimits,
    KeyMeter,
    KeyUsage,
    MachineUsage,
    ProcessUsage,
)
from dsv4.serve.access.redis_usage import RedisUsage
from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.storage import turn_stores

# What gives the meter of another process.
MakeMeter: TypeAlias = Callable[[], KeyMeter]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that has failed is asked again at once."""
    monkeypatch.setattr(turn_stores, "RETRY_SECONDS", 0.0)


@pytest.fixture(params=["process", "machine", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> MakeMeter:
    if request.param == "process":
        table = ProcessUsage()
        return lambda: KeyMeter(table)
    if request.param == "machine":
        return lambda: KeyMeter(MachineUsage(tmp_path))
    url = request.getfixturevalue("redis_url")
    return lambda: KeyMeter(RedisUsage(url, prefix=f"{tmp_path}:"))


async def admit(meter: KeyMeter, limits: KeyLimits, name: str = "ann") -> None:
    async with meter.admitted(name, limits):
        pass


async def closed(*meters: KeyMeter) -> None:
    for meter in meters:
        await meter.table.aclose()


def test_no_more_streams_at_once_than_allowed(make: MakeMeter) -> None:
    async def scenario() -> None:
        limits, one, other = KeyLimits(streams=2), make(), make()
        async with one.admitted("ann", limits), other.admitted("ann", limits):
            for meter in (one, other):
                with pytest.raises(KeyLimitReached, match="2 streams"):
                    await admit(meter, limits)
                await admit(meter, limits, "bob")
        await admit(one, limits)
        await closed(one, other)

    run(scenario())


def test_requests_and_tokens_count_by_the_minute(make: MakeMeter) -> None:
    async def scenario() -> None:
        limits, one, other = KeyLimits(requests=2, tokens=100), make(), make()
        await admit(one, limits)
        await admit(other, limits)
        with pytest.raises(KeyLimitReached, match="2 requests") as caught:
            await admit(one, limits)
        assert 58 < caught.value.retry_after <= 60
        await aged(one, "since", 61)
        async with one.admitted("ann", limits):
            await one.count_tokens("ann", limits, 150)
        with pytest.raises(KeyLimitReached, match="100 tokens"):
            await admit(other, limits)
        await closed(one, other)

    run(scenario())


def test_tokens_of_a_day_are_counted_beside_those_of_a_minute(make: MakeMeter) -> None:
    async def scenario() -> None:
        limits, one, other = KeyLimits(day_tokens=100, tokens=80), make(), make()
        await one.count_tokens("ann", limits, 70)
        await aged(one, "since", 61)
        async with one.admitted("ann", limits):
            await other.count_tokens("ann", limits, 30)
        with pytest.raises(KeyLimitReached, match="100 tokens a day"):
            await admit(one, limits)
        await aged(one, "day", 1)
        await admit(other, limits)
        await closed(one, other)

    run(scenario())


async def aged(meter: KeyMeter, field: str, by: int) -> None:
    def age(usage: KeyUsage, now: float) -> None:
        setattr(usage, field, getattr(usage, field) - by)

    await meter.table.change("ann", age)


def test_what_many_do_at_once_is_all_counted(make: MakeMeter) -> None:
    async def scenario() -> None:
        limits, meters = KeyLimits(tokens=10**6, streams=10**6), [make() for _ in range(4)]

        async def request(meter: KeyMeter) -> None:
            async with meter.admitted("ann", limits):
                await meter.count_tokens("ann", limits, 7)

        await asyncio.gather(*(request(meter) for meter in meters for _ in range(10)))
        seen: list[KeyUsage] = []
        await meters[0].table.change("ann", lambda usage, now: seen.append(usage))
        assert (seen[0].requests, seen[0].tokens) == (40, 280)
        assert sum(seen[0].streams.values()) == 0
        await closed(*meters)

    run(scenario())


def test_a_request_that_is_cancelled_leaves(make: MakeMeter) -> None:
    async def scenario() -> None:
        limits, meter, begun = KeyLimits(streams=1), make(), asyncio.Event()

        async def request() -> None:
            async with meter.admitted("ann", limits):
                begun.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(request())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await admit(meter, limits)
        await closed(meter)

    run(scenario())


def test_streams_of_a_worker_that_died_do_not_count(tmp_path: Path) -> None:
    async def scenario() -> None:
        table = MachineUsage(tmp_path)
        await table.change("ann", lambda usage, now: usage.streams.update({"999999999": 5}))
        await admit(KeyMeter(table), KeyLimits(streams=1))

    run(scenario())


def test_streams_of_a_machine_that_died_do_not_count_for_long(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        limits = KeyLimits(streams=2)
        dead, alive, other = (KeyMeter(RedisUsage(redis_url, prefix="dead:")) for _ in range(3))
        monkeypatch.setattr(redis_usage, "_LEASE", 1.5)
        renewing = asyncio.create_task(alive.table.look_after())
        async with dead.admitted("ann", limits), alive.admitted("ann", limits):
            with pytest.raises(KeyLimitReached):
                await admit(other, limits)
            # One of them is heard of no more; the other says that its stream still runs.
            while True:
                with suppress(KeyLimitReached):
                    async with other.admitted("ann", limits):
                        with pytest.raises(KeyLimitReached):
                            await admit(other, limits)
                    break
                await asyncio.sleep(0.05)
        renewing.cancel()
        await closed(dead, alive, other)

    run(scenario())


def test_while_redis_is_away_each_process_counts_alone_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = KeyLimits(streams=2, day_tokens=100)
    changes: list[bool] = []

    async def scenario() -> None:
        port = free_port()
        with redis_server(tmp_path, port) as url:
            one, other = KeyMeter(RedisUsage(url, changes.append)), KeyMeter(RedisUsage(url))
            running = one.admitted("ann", limits)
            await running.__aenter__()
            await other.count_tokens("ann", limits, 40)
            async with other.admitted("ann", limits):
                with pytest.raises(KeyLimitReached):
                    await admit(one, limits)
        # What was known last still holds: a stream of its own, and 40 tokens of the day.
        async with one.admitted("ann", limits):
            with pytest.raises(KeyLimitReached, match="2 streams"):
                await admit(one, limits)
            assert one.table.failure is not None
            await one.count_tokens("ann", limits, 61)
        with pytest.raises(KeyLimitReached, match="100 tokens a day"):
            await admit(one, limits)
        assert (changes[0], changes[-1]) == (True, False)
        with redis_server(tmp_path, port):
            # What was used meanwhile is brought, and the stream that still runs is told again.
            await one.table.change("ann", lambda usage, now: None)
            assert one.table.failure is None
            with pytest.raises(KeyLimitReached, match="100 tokens a day"):
                await admit(other, limits)
            async with other.admitted("ann", KeyLimits(streams=2)):
                with pytest.raises(KeyLimitReached, match="2 streams"):
                    await admit(other, KeyLimits(streams=2))
            await running.__aexit__(None, None, None)
            await closed(one, other)

    with caplog.at_level(logging.WARNING, "dsv4.serve"):
        run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    away = "; until it is back, each process counts what keys use for itself"
    assert any("limits (redis://127.0.0.1" in line and line.endswith(away) for line in lines)
    assert any(line.endswith("can be used again") for line in lines)


def test_two_gateways_with_one_redis_share_limits(redis_url: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("ann:a requests=3\nbob:b day_tokens=5\n")
    body = {"messages": [{"role": "user", "content": "Hi"}]}

    async def scenario() -> None:
        answer = (f"Hm.{THINK_END}", Chunk(text="Hello.", finish="eos"))
        given: dict[str, Any] = {"api_key_file": str(file), "limits": redis_url}
        async with (
            gateway(Scripted(*answer), **given) as one,
            gateway(Scripted(*answer), **given) as two,
        ):

            async def status(g: Any, key: str) -> int:
                return int((await g.post("/v1/chat/completions", body, **{"x-api-key": key}))[0])

            turns = (one, two, one, two, one)
            assert [await status(g, "a") for g in turns] == [200, 200, 200, 429, 429]
            assert await status(one, "b") == 200
            counted: list[KeyUsage] = []
            while not counted or not counted[-1].day_tokens:  # which a client does not wait for
                table = one.server.access.meter.table
                await table.change("bob", lambda usage, now: counted.append(usage))
            assert await status(two, "b") == 429
            _, ready = await one.get("/ready")
            assert "stores" not in ready

    run(scenario())


def test_a_gateway_whose_redis_is_away_serves_and_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("ann:a requests=2\n")

    async def scenario() -> None:
        answer = (f"Hm.{THINK_END}", Chunk(text="Hello.", finish="eos"))
        url = f"redis://127.0.0.1:{free_port()}"
        async with gateway(Scripted(*answer), api_key_file=str(file), limits=url) as g:
            body, key = {"messages": [{"role": "user", "content": "Hi"}]}, {"x-api-key": "a"}
            found = [(await g.post("/v1/chat/completions", body, **key))[0] for _ in range(3)]
            assert found == [200, 200, 429]
            _, ready = await g.get("/ready")
            assert ready["stores"]["limits"].startswith("unavailable: ")
            _, metrics = await g.get("/metrics", **key)
            assert "dsv4_limits_shared 0.0" in metrics

    run(scenario())


def test_the_redis_of_replay_counts_unless_another_is_named() -> None:
    assert Settings().limits_redis is None
    assert Settings(replay="redis://a").limits_redis == "redis://a"
    assert Settings(replay="redis://a", limits="rediss://b").limits_redis == "rediss://b"
    with pytest.raises(SettingError, match="limits: found 'localhost:6379', expected redis://"):
        Settings(limits="localhost:6379")


@pytest.mark.parametrize(
    "damaged", ["{", "[]", '{"usage": {"later": 1}}', '{"usage": {"tokens": "x"}}', "5"]
)
def test_a_damaged_value_in_redis_is_begun_anew(redis_url: str, damaged: str) -> None:
    async def scenario() -> None:
        table = RedisUsage(redis_url, prefix="damaged:")
        await table._client.set("damaged:ann", damaged)
        used: list[int] = []
        await table.change("ann", lambda usage, now: used.append(usage.requests))
        await table.change("ann", lambda usage, now: used.append(usage.requests))
        await table.aclose()
        assert used[-1] == 0

    asyncio.run(scenario())
