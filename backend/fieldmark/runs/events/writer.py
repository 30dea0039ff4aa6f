"""Writes a run's events to the database, in order, and publishes its deltas."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from fieldmark.domain.events import Event
from fieldmark.errors import FieldmarkError
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.stores import runs
from fieldmark.tools.context import RunContext

PUBLISH_SECONDS = 0.08
"""Minimum time between two publications of deltas: each takes a transaction."""
BACKGROUND_SECONDS = 0.5
"""How long events of a background run are buffered: hardly anyone watches it."""


class EventWriter:
    """Writes a run's events in order, several per transaction if they are created faster than written. In between it
    publishes the `deltas` to readers, without storing them.

    `flush` and the end of the block raise Fenced if another worker owns the run. All events are written, however the
    block ends.
    """

    def __init__(self, context: RunContext, deltas: DeltaBuffer | None = None) -> None:
        self._context = context
        self._deltas = deltas or DeltaBuffer(context.fencing_token)
        self._deltas.on_change = self._schedule_publish
        self._publish_timer: asyncio.TimerHandle | None = None
        self._published_at = -PUBLISH_SECONDS
        self._pause = BACKGROUND_SECONDS if context.run.background else 0
        self._events: list[Event] = []
        self._write_lock = asyncio.Lock()
        self._wake_event = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._publishing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        self._deltas.finish_block()
        self._writer.cancel()
        await asyncio.gather(self._writer, *filter(None, [self._publishing]), return_exceptions=True)
        try:
            await self.flush()
        except Exception:
            if kind is None:  # otherwise the exception from the block is more useful
                raise

    def append(self, event: Event) -> None:
        """Append an event. Raise the exception with which writing earlier events failed."""
        if self._writer is not None and self._writer.done() and not self._writer.cancelled():
            self._writer.result()
        self._deltas.finish_block(event)
        self._events.append(event)
        self._wake_event.set()

    def _schedule_publish(self) -> None:
        if self._publish_timer is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time(), self._published_at + PUBLISH_SECONDS)
            self._publish_timer = loop.call_at(at, self._wake)

    def _wake(self) -> None:
        self._publish_timer = None
        self._wake_event.set()

    async def flush(self) -> None:
        """Write all waiting events. Also called before a tool's transaction, so that the tool's events follow them."""
        async with self._write_lock:
            if not self._events:
                return
            batch = list(self._events)
            async with self._context.database.as_user(self._context.scope) as conn:
                await runs.append_events(conn, self._context.run_id, self._context.fencing_token, batch)
            del self._events[: len(batch)]

    async def _write(self) -> None:
        while True:
            await self._wake_event.wait()
            await asyncio.sleep(self._pause)
            self._wake_event.clear()
            self._publishing = asyncio.create_task(self.flush_and_publish())
            await asyncio.shield(self._publishing)

    async def flush_and_publish(self) -> None:
        """Write all waiting events, then publish the deltas."""
        await self.flush()
        async with self._write_lock:
            if self._events or not (chunks := self._deltas.take_chunks()):
                return
            self._published_at = asyncio.get_running_loop().time()
            try:
                async with self._context.database.as_user(self._context.scope) as conn:
                    await runs.notify_deltas(conn, self._context.run_id, self._context.fencing_token, chunks)
            except FieldmarkError:
                pass  # lost deltas are harmless: writing the complete block reports the error
