"""A run's events as they come: what is there already, then what follows, from any number on, on any machine."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.domain.events import EventBase
from fieldmark.domain.statuses import RunStatus
from fieldmark.errors import NotFound, Unauthenticated
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.deltas import DeltaAssembler, follows
from fieldmark.stores import runs
from fieldmark.stores.channels import EVENTS_CHANNEL
from fieldmark.stores.runs import RunRow, StoredEvent

ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.AWAITING_APPROVAL})
"""Where a reader has all there is, for the time being."""
BATCH = 500
POLL_SECONDS = 5
"""How long a reader trusts silence. Notifications carry the news; this mends the loss of one."""
DELTA = 0
"""Stands where an event has its number: a delta is no event, and is not kept."""


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
    """(number, flat object as JSON text) of every event behind `after`, until the run has ended. None now and then
    while nothing happens, for a sign of life. Raises NotFound, Unauthenticated once the scope has expired.

    With `deltas` also (DELTA, flat object) of what the model is saying, as far as it is heard: it belongs to the event
    that comes next. With `progress` also (DELTA, flat object) of what the run waits for: how far its document is read,
    which run it comes behind.

    No connection is held while the reader is slow or waits."""
    channels = [EVENTS_CHANNEL]
    if deltas:
        async with database.as_user(scope) as conn:
            channels.append(await runs.delta_channel(conn))
    async with database.listen(*channels, about=str(run_id)) as news:
        waiting: asyncio.Task[str | None] | None = None
        said = time.monotonic()
        looked = -math.inf
        heard: list[str | None] = [None]
        reading = DeltaAssembler()
        told: list[EventBase] = []
        try:
            while True:
                pieces = [word for word in heard if word is not None and " " in word]
                is_fresh = time.monotonic() - looked < poll_seconds
                # What belongs behind the last event comes before those that were heard of together with it.
                early = [piece for piece in pieces if is_fresh and follows(piece) <= after]
                late = [piece for piece in pieces if not is_fresh or follows(piece) > after]
                for body in reading.passing(early, after):
                    yield DELTA, body
                    said = time.monotonic()
                # Whatever else was heard is a reason to look. So is a while of pieces alone: the right to hear them may
                # have been lost. So is a piece that has overtaken the news of the events that it comes behind.
                if len(pieces) < len(heard) or late or not is_fresh:
                    looked = time.monotonic()
                    looking = asyncio.ensure_future(_look(database, scope, run_id, after, progress=progress))
                    _looks.add(looking)
                    looking.add_done_callback(_looks.discard)
                    # A reader that is cut off in the middle of a statement would cost the connection: it is let finish.
                    found = await asyncio.shield(looking)
                    if scope.expires_at is not None and scope.expires_at <= datetime.now(UTC):
                        raise Unauthenticated("The token or key has expired: follow the run with another one.")
                    if found is None:
                        raise NotFound("There is no such run.")
                    status, events, now = found
                    for event in events:
                        after = event.number
                        yield after, event.body
                        said = time.monotonic()
                    for progressed in now:
                        if progressed not in told:
                            yield DELTA, json.dumps(progressed.flat())
                            said = time.monotonic()
                    told = now
                    if len(events) == BATCH:
                        heard = [None]
                        continue
                    if status in ENDED:
                        return
                for body in reading.passing(late, after):
                    yield DELTA, body
                    said = time.monotonic()
                if waiting is None:
                    waiting = asyncio.ensure_future(anext(news))
                done, _ = await asyncio.wait({waiting}, timeout=poll_seconds)
                heard = [None]
                if done:
                    heard = [waiting.result(), *news.rest()]
                    waiting = None
                if time.monotonic() - said >= poll_seconds:
                    yield None
                    said = time.monotonic()
        finally:
            if waiting is not None:
                waiting.cancel()


_looks: set[asyncio.Future[Any]] = set()


async def _look(
    database: Database, scope: Scope, run_id: UUID, after: int, *, progress: bool
) -> tuple[RunStatus, list[StoredEvent], list[EventBase]] | None:
    async with database.as_user(scope) as conn:
        found = await runs.news(conn, run_id, after, BATCH)
        if found is None:
            return None
        waits = progress and found[0] is RunStatus.QUEUED
        return *found, await runs.progress_of(conn, run_id) if waits else []


async def end_of(database: Database, scope: Scope, run_id: UUID) -> RunRow:
    """Wait until a run has ended and answer its row."""
    async for _ in follow(database, scope, run_id, after=2**31 - 2):
        pass
    async with database.as_user(scope) as conn:
        return await runs.find(conn, run_id)
