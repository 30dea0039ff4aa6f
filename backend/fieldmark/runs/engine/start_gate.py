"""How many CLIs start at the same time: each start takes about a second of one processor."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID


class StartRank(IntEnum):
    """Who goes first when several wait for a place."""

    INTERACTIVE = 0
    BACKGROUND = 1
    SPARE = 2


@dataclass(eq=False, frozen=True, slots=True)
class _Waiting:
    rank: StartRank
    org_id: UUID | None
    arrival: int
    turn: asyncio.Future[None]


class StartGate:
    """Lets so many start at a time: by their rank, then the organisations in turn, each in the order of its runs."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[_Waiting] = []
        self._count = itertools.count(1)
        self._last_turn: dict[UUID | None, int] = {}  # of each organisation, while anybody waits

    @asynccontextmanager
    async def place(self, rank: StartRank, org_id: UUID | None = None) -> AsyncGenerator[None]:
        """Wait for a place, and hold it while the block lasts."""
        await self._enter(rank, org_id)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, rank: StartRank, org_id: UUID | None) -> None:
        self._last_turn.setdefault(org_id, 0)
        if self._free:
            self._free -= 1
            self._last_turn[org_id] = next(self._count)
            return
        one = _Waiting(rank, org_id, next(self._count), asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        try:
            await one.turn
        except asyncio.CancelledError:
            if one.turn.done() and not one.turn.cancelled():  # it was given the place in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        self._waiting = [one for one in self._waiting if not one.turn.done()]
        if not self._waiting:
            self._free += 1
            self._last_turn.clear()
            return
        first = min(self._waiting, key=lambda one: (one.rank, self._last_turn[one.org_id], one.arrival))
        self._last_turn[first.org_id] = next(self._count)
        first.turn.set_result(None)
