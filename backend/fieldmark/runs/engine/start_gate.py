"""Limits how many CLIs start at the same time: each start takes about a second of processor time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID


class StartRank(IntEnum):
    """Priority of a start. Lower values go first."""

    INTERACTIVE = 0
    BACKGROUND = 1
    SPARE = 2


@dataclass(eq=False, frozen=True, slots=True)
class _WaitingStart:
    rank: StartRank
    org_id: UUID | None
    arrival: int
    granted: asyncio.Future[None]


class StartGate:
    """Limits concurrent starts to `slots`. Waiting starts are ordered by rank, then round-robin per organisation, then
    by arrival."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[_WaitingStart] = []
        self._count = itertools.count(1)
        self._last_served: dict[UUID | None, int] = {}  # per organisation, while any start waits

    @asynccontextmanager
    async def slot(self, rank: StartRank, org_id: UUID | None = None) -> AsyncGenerator[None]:
        """Wait for a slot, and hold it during the block."""
        await self._enter(rank, org_id)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, rank: StartRank, org_id: UUID | None) -> None:
        self._last_served.setdefault(org_id, 0)
        if self._free:
            self._free -= 1
            self._last_served[org_id] = next(self._count)
            return
        start = _WaitingStart(rank, org_id, next(self._count), asyncio.get_running_loop().create_future())
        self._waiting.append(start)
        try:
            await start.granted
        except asyncio.CancelledError:
            if start.granted.done() and not start.granted.cancelled():  # it received the slot at the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        self._waiting = [start for start in self._waiting if not start.granted.done()]
        if not self._waiting:
            self._free += 1
            self._last_served.clear()
            return
        first = min(self._waiting, key=lambda start: (start.rank, self._last_served[start.org_id], start.arrival))
        self._last_served[first.org_id] = next(self._count)
        first.granted.set_result(None)
