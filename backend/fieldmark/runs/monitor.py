"""Watches the row of a run during an attempt: whether this worker still owns it, and whether a person decided."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, TypeVar

from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import Fenced
from fieldmark.runs.engine.pool import CliPool
from fieldmark.stores import runs
from fieldmark.stores.channels import WORK_CHANNEL
from fieldmark.tools.context import RunContext

Result = TypeVar("Result")


class RunMonitor:
    """Watches one run. `wait_seconds` is how long the CLI is kept while a person decides."""

    def __init__(self, context: RunContext, wait_seconds: float, pool: CliPool) -> None:
        self._context = context
        self._wait_seconds = wait_seconds
        self._pool = pool
        self._refreshed = asyncio.Event()
        self._status = RunStatus.RUNNING
        self._is_stopping = False
        self._deadline: asyncio.Timeout | None = None

    async def run_while_owned(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run `work` and return its result. Cancel it and raise Fenced once the run has ended or another worker owns
        it."""
        async with self._context.database.listen(WORK_CHANNEL, about=str(self._context.run_id)) as changes:
            working = asyncio.create_task(work())
            next_change: asyncio.Future[str | None] | None = None
            try:
                while not working.done():
                    # Before each wait: the row may have changed before this process listened.
                    await self._refresh()
                    next_change = next_change or asyncio.ensure_future(anext(changes))
                    await asyncio.wait({working, next_change}, return_when=asyncio.FIRST_COMPLETED)
                    if next_change.done():
                        next_change = None
                return working.result()
            finally:
                if next_change is not None:
                    next_change.cancel()
                working.cancel()
                await _wait_until_ended(working)

    @contextlib.asynccontextmanager
    async def deadline(self, seconds: float) -> AsyncGenerator[None]:
        """Raise TimeoutError if the block takes longer. Time spent waiting for a person's decision is not counted."""
        async with asyncio.timeout(seconds) as self._deadline:
            yield

    def stop_waiting(self) -> None:
        """End the current wait for a decision, and prevent further ones."""
        self._is_stopping = True
        self._refreshed.set()

    async def wait_for_decision(self) -> bool:
        """Keep the CLI until a person has decided, another run needs the slot, or the time is up. Return whether a
        person has decided."""
        if self._wait_seconds <= 0 or not await self._has_free_slot():
            return False
        with self._paused_deadline():
            until = time.monotonic() + self._wait_seconds
            await self._refresh()
            while self._status is RunStatus.AWAITING_APPROVAL and await self._has_free_slot():
                left = until - time.monotonic()
                if left <= 0:
                    break
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, 0.5)):
                        await self._refreshed.wait()
                self._refreshed.clear()
            await self._refresh()
        return self._status is RunStatus.RUNNING

    @contextlib.contextmanager
    def _paused_deadline(self) -> Generator[None]:
        deadline = self._deadline
        until = None if deadline is None else deadline.when()
        if deadline is None or until is None:
            yield
            return
        started = time.monotonic()
        deadline.reschedule(None)
        try:
            yield
        finally:
            deadline.reschedule(until + time.monotonic() - started)

    async def _refresh(self) -> None:
        async with self._context.database.as_user(self._context.scope) as conn:
            status = await runs.status_if_held(conn, self._context.run_id, self._context.fencing_token)
        if status is None or status.is_final:
            raise Fenced("The run has ended, or another worker has claimed it.")
        self._status = status
        self._refreshed.set()

    async def _has_free_slot(self) -> bool:
        if self._is_stopping:
            return False
        if self._pool.has_free_slot:
            return True
        return not await self._context.database.once(runs.are_runs_queued)


async def _wait_until_ended(task: asyncio.Task[Any]) -> None:
    """Wait for a cancelled task, even if the caller is cancelled meanwhile: the task has to end its CLI. Its exception
    is ignored, because the run has already ended for another reason."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled():
        task.exception()  # otherwise asyncio logs an exception that was never retrieved
    if cancelled:
        raise asyncio.CancelledError
