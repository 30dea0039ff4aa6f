"""Streams a run's events: those that are stored, then new ones, starting after any number."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.domain.events import EventBase
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import NotFound, Unauthenticated
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.deltas import DeltaAssembler, preceding_event
from fieldmark.stores import runs
from fieldmark.stores.channels import EVENTS_CHANNEL
from fieldmark.stores.runs import RunRow, StoredEvent

STREAM_ENDS = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.AWAITING_APPROVAL})
"""Statuses in which no further event is expected for now, so the stream ends."""
BATCH = 500
POLL_SECONDS = 5
"""How often the events are queried without a notification, in case one was lost."""
EPHEMERAL = 0
"""Used as the number of deltas and progress, which are not stored."""


async def follow(
    database: Database,
    scope: Scope,
    run_id: UUID,
    after: int = 0,
    *,
    deltas: bool = False,
    progress: bool = False,
    poll_seconds: float = POLL_SECONDS,
) -> AsyncIterator[tuple[int, str] | None]:
    """Yield (number, flat object as JSON text) for every event after `after`, until the run has ended or awaits
    approval. Yield None every `poll_seconds` without an event, as a keep-alive. Raise NotFound, or Unauthenticated
    once the scope has expired.

    With `deltas`, also yield (EPHEMERAL, flat object) for the text that the model is writing, as far as notifications
    arrive; it belongs to the next event. With `progress`, also yield (EPHEMERAL, flat object) for what a queued run
    waits for: the reading of its document, or another run.

    No database connection is held while the reader is slow or waits."""
    channels = [EVENTS_CHANNEL]
    if deltas:
        async with database.as_user(scope) as conn:
            channels.append(await runs.delta_channel(conn))
    async with database.listen(*channels, about=str(run_id)) as notifications:
        next_notification: asyncio.Task[str | None] | None = None
        last_yield = time.monotonic()
        last_query = -math.inf
        payloads: list[str | None] = [None]
        assembler = DeltaAssembler()
        last_progress: list[EventBase] = []
        try:
            while True:
                chunks = [payload for payload in payloads if payload is not None and " " in payload]
                is_fresh = time.monotonic() - last_query < poll_seconds
                # Chunks that follow the last event come before the new events that were notified with them.
                early = [chunk for chunk in chunks if is_fresh and preceding_event(chunk) <= after]
                late = [chunk for chunk in chunks if not is_fresh or preceding_event(chunk) > after]
                for body in assembler.accept_all(early, after):
                    yield EPHEMERAL, body
                    last_yield = time.monotonic()
                # Query after any other notification, and if a chunk arrived before the event that it follows. Query
                # also every `poll_seconds`: the reader may have lost its access meanwhile.
                if len(chunks) < len(payloads) or late or not is_fresh:
                    last_query = time.monotonic()
                    query = asyncio.ensure_future(_query(database, scope, run_id, after, progress=progress))
                    _queries.add(query)
                    query.add_done_callback(_queries.discard)
                    # Shielded: cancelling a reader during a statement would close the connection.
                    found = await asyncio.shield(query)
                    if scope.deadline is not None and scope.deadline <= time.monotonic():
                        raise Unauthenticated("The token or key has expired. Follow the run with a new one.")
                    if found is None:
                        raise NotFound("The run does not exist, or you may not see it.")
                    status, events, progress_events = found
                    for event in events:
                        after = event.number
                        yield after, event.body
                        last_yield = time.monotonic()
                    for event in progress_events:
                        if event not in last_progress:
                            yield EPHEMERAL, json.dumps(event.flat())
                            last_yield = time.monotonic()
                    last_progress = progress_events
                    if len(events) == BATCH:
                        payloads = [None]
                        continue
                    if status in STREAM_ENDS:
                        return
                for body in assembler.accept_all(late, after):
                    yield EPHEMERAL, body
                    last_yield = time.monotonic()
                if next_notification is None:
                    next_notification = asyncio.ensure_future(anext(notifications))
                done, _ = await asyncio.wait({next_notification}, timeout=poll_seconds)
                payloads = [None]
                if done:
                    payloads = [next_notification.result(), *notifications.rest()]
                    next_notification = None
                if time.monotonic() - last_yield >= poll_seconds:
                    yield None
                    last_yield = time.monotonic()
        finally:
            if next_notification is not None:
                next_notification.cancel()


_queries: set[asyncio.Future[Any]] = set()


async def _query(
    database: Database, scope: Scope, run_id: UUID, after: int, *, progress: bool
) -> tuple[RunStatus, list[StoredEvent], list[EventBase]] | None:
    async with database.as_user(scope) as conn:
        found = await runs.events_after(conn, run_id, after, BATCH)
        if found is None:
            return None
        is_waiting = progress and found[0] is RunStatus.QUEUED
        return *found, await runs.waiting_events(conn, run_id) if is_waiting else []


async def wait_until_ended_or_waiting(database: Database, scope: Scope, run_id: UUID) -> RunRow:
    """Wait until a run has ended or awaits approval."""
    async for _ in follow(database, scope, run_id, after=2**31 - 2):
        pass
    async with database.as_user(scope) as conn:
        return await runs.get(conn, run_id)
