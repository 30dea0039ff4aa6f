"""A run's events into rows, in the order they are said."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from fieldmark.domain.events import Event
from fieldmark.errors import FieldmarkError
from fieldmark.runs.events.deltas import DeltaBuffer
from fieldmark.stores import runs
from fieldmark.tools.context import RunContext

GATHER_SECONDS = 0.08
"""How long words are gathered at least before readers are told again: each time costs a transaction."""
BACKGROUND_SECONDS = 0.5
"""How long the events of a run are gathered that is part of a batch, so that hardly anybody watches it."""


class EventWriter:
    """Writes a run's events in the order they are said, several to a transaction when they come faster than it takes.
    In between it sends the words of the `draft` to readers, in the same order, and keeps none of them.

    Raises Fenced from `flush` and on leaving if another worker has taken the run. What was said is written however
    the block ends.
    """

    def __init__(self, context: RunContext, draft: DeltaBuffer | None = None) -> None:
        self._context = context
        self._draft = draft or DeltaBuffer(context.fencing_token)
        self._draft.has_words = self._gather
        self._gathering: asyncio.TimerHandle | None = None
        self._told_at = -GATHER_SECONDS
        self._pause = BACKGROUND_SECONDS if context.run.background else 0
        self._waiting: list[Event] = []
        self._writing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._passing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        self._draft.pass_over()
        self._writer.cancel()
        await asyncio.gather(self._writer, *filter(None, [self._passing]), return_exceptions=True)
        try:
            await self.flush()
        except Exception:
            if kind is None:  # else what ended the run says more
                raise

    def say(self, event: Event) -> None:
        """Put an event at the end of the run's events. Raises what the writing of earlier ones failed with."""
        if self._writer is not None and self._writer.done() and not self._writer.cancelled():
            self._writer.result()
        self._draft.pass_over(event)
        self._waiting.append(event)
        self._wanted.set()

    def _gather(self) -> None:
        if self._gathering is None:
            loop = asyncio.get_running_loop()
            at = max(loop.time(), self._told_at + GATHER_SECONDS)
            self._gathering = loop.call_at(at, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._wanted.set()

    async def flush(self) -> None:
        """Write what waits. Called before a tool's transaction too, so that its own events come after these."""
        async with self._writing:
            if not self._waiting:
                return
            batch = list(self._waiting)
            async with self._context.database.as_user(self._context.scope) as conn:
                await runs.append_events(conn, self._context.run_id, self._context.fencing_token, batch)
            del self._waiting[: len(batch)]

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            await asyncio.sleep(self._pause)
            self._wanted.clear()
            self._passing = asyncio.create_task(self.pass_on())
            await asyncio.shield(self._passing)

    async def pass_on(self) -> None:
        """Write what waits, then send readers what is in the draft."""
        await self.flush()
        async with self._writing:
            if self._waiting or not (pieces := self._draft.take()):
                return
            self._told_at = asyncio.get_running_loop().time()
            try:
                async with self._context.database.as_user(self._context.scope) as conn:
                    await runs.notify_deltas(conn, self._context.run_id, self._context.fencing_token, pieces)
            except FieldmarkError:
                pass  # lost words cost nothing: the whole block follows, and finds out what the matter is
