"""The gate: so many at once, so many waiting, in order, and nothing lost when one goes away."""

from __future__ import annotations

import asyncio

import pytest

from dsv4.serve.limits import Busy, Gate


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_no_more_than_the_streams_run_at_once() -> None:
    async def scenario() -> None:
        gate, most = Gate(2, 10), 0

        async def work() -> None:
            nonlocal most
            async with gate.entered():
                most = max(most, gate.running)
                await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(10)))
        assert most == 2
        assert (gate.running, gate.waiting) == (0, 0)

    asyncio.run(scenario())


def test_first_come_first_served_and_no_more_than_the_queue() -> None:
    async def scenario() -> None:
        gate, order, doors = Gate(1, 2), [], [asyncio.Event() for _ in range(3)]

        async def work(n: int) -> None:
            async with gate.entered():
                order.append(n)
                await doors[n].wait()

        tasks = [asyncio.create_task(work(n)) for n in range(3)]
        await settle()
        assert (gate.running, gate.waiting) == (1, 2)
        with pytest.raises(Busy):
            async with gate.entered():
                pass
        for door in doors:
            door.set()
        await asyncio.gather(*tasks)
        assert order == [0, 1, 2]

    asyncio.run(scenario())


@pytest.mark.parametrize("before_its_turn", [True, False])
def test_one_who_goes_away_takes_no_stream_along(before_its_turn: bool) -> None:
    async def scenario() -> None:
        gate, door = Gate(1, 5), asyncio.Event()

        async def work() -> None:
            async with gate.entered():
                await door.wait()

        first = asyncio.create_task(work())
        await settle()
        second = asyncio.create_task(work())
        await settle()
        if before_its_turn:
            second.cancel()
            await settle()
            door.set()
        else:
            door.set()
            first.cancel()
            await asyncio.sleep(0)  # the first has left; the second has its turn, and goes
            second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (gate.running, gate.waiting) == (0, 0)
        async with gate.entered():
            assert gate.running == 1

    asyncio.run(scenario())
