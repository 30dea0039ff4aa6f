"""How many CLIs start at the same time: each start takes about a second of one processor."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import IntEnum


class StartRank(IntEnum):
    """Who goes first when several wait for a place."""

    INTERACTIVE = 0
    BACKGROUND = 1
    SPARE = 2


class StartGate:
    """Lets so many start at a time, by their rank and then in the order in which they came."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[StartRank, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def place(self, rank: StartRank) -> AsyncGenerator[None]:
        """Wait for a place, and hold it while the block lasts."""
        await self._enter(rank)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, rank: StartRank) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given the place in the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
