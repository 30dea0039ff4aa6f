"""Few CLIs start at the same time, and interactive runs first."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from fieldmark.runs.engine.start_gate import StartGate, StartRank

pytestmark = pytest.mark.anyio


async def test_concurrent_starts_are_limited_and_ordered_by_rank():
    gate, started, max_running, running = StartGate(2), [], 0, 0

    async def start(name: str, rank: StartRank) -> None:
        nonlocal max_running, running
        async with gate.slot(rank):
            running += 1
            max_running = max(max_running, running)
            started.append(name)
            await asyncio.sleep(0.01)
            running -= 1

    requests = [("a", StartRank.SPARE), ("b", StartRank.SPARE), ("c", StartRank.SPARE), ("d", StartRank.BACKGROUND)]
    requests += [("e", StartRank.INTERACTIVE), ("f", StartRank.INTERACTIVE)]
    await asyncio.gather(*(start(*one) for one in requests))
    assert (started, max_running) == (["a", "b", "e", "f", "d", "c"], 2)


async def test_starts_are_round_robin_per_organisation():
    gate, started, (first, second, third) = StartGate(1), list[UUID](), (uuid4() for _ in range(3))

    async def start(org_id: UUID) -> None:
        async with gate.slot(StartRank.INTERACTIVE, org_id):
            started.append(org_id)
            await asyncio.sleep(0)

    await asyncio.gather(*(start(org_id) for org_id in [*[first] * 3, *[second] * 3, third]))
    assert started == [first, second, third, first, second, first, second]


async def test_cancelled_wait_does_not_lose_a_slot():
    gate = StartGate(1)
    async with gate.slot(StartRank.SPARE):
        waiting = [asyncio.create_task(_enter(gate)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()  # it has just received the slot
    await asyncio.wait_for(waiting[2], 10)
    async with asyncio.timeout(10), gate.slot(StartRank.SPARE):
        pass


async def _enter(gate: StartGate) -> None:
    async with gate.slot(StartRank.INTERACTIVE):
        pass
