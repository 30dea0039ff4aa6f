"""Runs long computations in threads, a fair share for each organisation."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from fieldmark.errors import TooManyAtOnce

THREADS: Final = 2
"""Organisations whose computations run at the same time in a process. More threads would compete with each other and
the event loop for the interpreter lock."""

MAX_QUEUED: Final = 32
"""Computations of one organisation that may run or wait."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _OrgQueue:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    queued: int = 0


@dataclass(slots=True)
class _LoopState:
    slots: asyncio.Semaphore
    queues: dict[UUID, _OrgQueue] = field(default_factory=dict[UUID, _OrgQueue])


class FairLimiter:
    """Limits how much of one kind of work runs at the same time. Each organisation has at most one slot."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        # A service has one event loop; a test session has many, and locks belong to one of them.
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = WeakKeyDictionary()

    @asynccontextmanager
    async def slot(self, org_id: UUID, max_queued: int | None = None) -> AsyncGenerator[None]:
        """Wait for a slot and hold it. Wait without a connection. Raise TooManyAtOnce if the organisation has
        `max_queued` entries already."""
        state = self._states.setdefault(asyncio.get_running_loop(), _LoopState(asyncio.Semaphore(self._slots)))
        queue = state.queues.setdefault(org_id, _OrgQueue())
        if max_queued is not None and queue.queued >= max_queued:
            raise TooManyAtOnce(
                f"{queue.queued} computations of this organisation are running or waiting. Retry later, or send fewer "
                "requests at the same time."
            )
        queue.queued += 1
        try:
            async with queue.lock, state.slots:
                yield
        finally:
            queue.queued -= 1
            if not queue.queued:
                del state.queues[org_id]


PAGE_RENDERING: Final = FairLimiter(2)
"""Limits the rendering of pages, which runs in processes of its own."""

_limiter: Final = FairLimiter(THREADS)

# Own pools, so that long computations never block file access. A computation keeps its thread if its caller is
# cancelled.
_queued_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="queued")
_unqueued_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="unqueued")


async def run_queued(org_id: UUID, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a computation in a thread, round-robin across organisations. Call it without a connection. Raise
    TooManyAtOnce if the organisation's queue is full."""
    async with _limiter.slot(org_id, MAX_QUEUED):
        return await _run(_queued_threads, partial(compute, *args, **kwargs))


async def run_queued_unbounded(org_id: UUID, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `run_queued`, but never refuse: for the response to a write that is already committed."""
    async with _limiter.slot(org_id):
        return await _run(_queued_threads, partial(compute, *args, **kwargs))


async def run_unqueued(compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a computation in a thread, bypassing its organisation's queue. For use inside a transaction, or before the
    organisation is known."""
    return await _run(_unqueued_threads, partial(compute, *args, **kwargs))


async def _run(threads: ThreadPoolExecutor, compute: Callable[[], T]) -> T:
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, partial(context.run, compute))
