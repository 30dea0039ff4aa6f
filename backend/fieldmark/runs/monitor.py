"""Watches the row of a run for the worker that has it: whether the run is still that worker's, and what was decided."""

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
    """`wait_seconds` is how long a CLI stays for a person's decision."""

    def __init__(self, context: RunContext, wait_seconds: float, pool: CliPool) -> None:
        self._context = context
        self._wait_seconds = wait_seconds
        self._pool = pool
        self._refreshed = asyncio.Event()
        self._status = RunStatus.RUNNING
        self._stops = False
        self._deadline: asyncio.Timeout | None = None

    async def run_while_owned(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Do the work. Break it off and raise Fenced as soon as the run has ended or is another worker's."""
        async with self._context.database.listen(WORK_CHANNEL, about=str(self._context.run_id)) as news:
            working = asyncio.create_task(work())
            next_news: asyncio.Future[str | None] | None = None
            try:
                while not working.done():
                    # Asked before each silence: the news may have come before anyone listened.
                    await self._refresh()
                    next_news = next_news or asyncio.ensure_future(anext(news))
                    await asyncio.wait({working, next_news}, return_when=asyncio.FIRST_COMPLETED)
                    if next_news.done():
                        next_news = None
                return working.result()
            finally:
                if next_news is not None:
                    next_news.cancel()
                working.cancel()
                await _wait_until_ended(working)

    @contextlib.asynccontextmanager
    async def deadline(self, seconds: float) -> AsyncGenerator[None]:
        """Raise TimeoutError after so many seconds in the block. Those in which a person decides do not count."""
        async with asyncio.timeout(seconds) as self._deadline:
            yield

    def stop_waiting(self) -> None:
        """Wait for no decision any longer."""
        self._stops = True
        self._refreshed.set()

    async def wait_for_decision(self) -> bool:
        """Keep the CLI until a person has decided, others need its slot, or time is up; return whether one has."""
        if self._wait_seconds <= 0 or not await self._has_room():
            return False
        with self._paused_deadline():
            until = time.monotonic() + self._wait_seconds
            await self._refresh()
            while self._status is RunStatus.AWAITING_APPROVAL and await self._has_room():
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
        began = time.monotonic()
        deadline.reschedule(None)
        try:
            yield
        finally:
            deadline.reschedule(until + time.monotonic() - began)

    async def _refresh(self) -> None:
        async with self._context.database.as_user(self._context.scope) as conn:
            status = await runs.look(conn, self._context.run_id, self._context.fencing_token)
        if status is None or status.is_final:
            raise Fenced("The run has ended or was taken up by another worker.")
        self._status = status
        self._refreshed.set()

    async def _has_room(self) -> bool:
        """Whether the CLI takes no other run's slot by waiting."""
        if self._stops:
            return False
        if self._pool.has_room:
            return True
        async with self._context.database.as_service() as conn:
            return not await runs.others_wait(conn)


async def _wait_until_ended(task: asyncio.Task[Any]) -> None:
    """Wait for a cancelled task however often this one is cancelled meanwhile: left alone it would leave its CLI. What
    it failed with is not news: something else has ended the run by now."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if not task.cancelled():
        task.exception()  # or asyncio would complain that no one asked for it
    if cancelled:
        raise asyncio.CancelledError
