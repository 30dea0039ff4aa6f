"""A run's events as they come: what is there already, then what follows, from any number on, on any machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from fieldmark.db.pool import Database
from fieldmark.runs.absent import absent
from fieldmark.scope import Scope
from fieldmark.stores import runs

ENDED = frozenset({"completed", "failed", "cancelled", "awaiting_approval"})
BATCH = 500
POLL_SECONDS = 5
"""How long a reader trusts silence. Notifications carry the news; this mends the loss of one."""


async def follow(
    database: Database, scope: Scope, run_id: UUID, after: int = 0, *, poll_seconds: float = POLL_SECONDS
) -> AsyncIterator[tuple[int, str] | None]:
    """(number, flat object as JSON text) of every event behind `after`, until the run has ended. None now and then
    while nothing happens, for a sign of life. Raises NotFound or Gone.

    No connection is held while the reader is slow or waits."""
    async with database.listen(runs.EVENTS_CHANNEL, str(run_id)) as news:
        heard = aiter(news)
        waiting: asyncio.Task[str | None] | None = None
        said = time.monotonic()
        try:
            while True:
                looking = asyncio.ensure_future(_look(database, scope, run_id, after))
                _looks.add(looking)
                looking.add_done_callback(_looks.discard)
                # A reader that is cut off in the middle of a statement would cost the connection: it is let finish.
                run, events = await asyncio.shield(looking)
                if run is None:
                    async with database.as_user(scope) as conn:
                        raise await absent(conn, scope, run_id)
                for event in events:
                    after = event["number"]
                    yield after, event["body"]
                    said = time.monotonic()
                if len(events) == BATCH:
                    continue
                if run["status"] in ENDED:
                    return
                if waiting is None:
                    waiting = asyncio.ensure_future(anext(heard))
                done, _ = await asyncio.wait({waiting}, timeout=poll_seconds)
                if done:
                    waiting = None
                if time.monotonic() - said >= poll_seconds:
                    yield None
                    said = time.monotonic()
        finally:
            if waiting is not None:
                waiting.cancel()


_looks: set[asyncio.Future[Any]] = set()


async def _look(
    database: Database, scope: Scope, run_id: UUID, after: int
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    async with database.as_user(scope) as conn:
        # The status first: if it says that the run has ended, no event comes after those read here.
        return await runs.get(conn, run_id), await runs.events_after(conn, run_id, after, BATCH)


async def end_of(database: Database, scope: Scope, run_id: UUID) -> dict[str, Any]:
    """Wait until a run has ended and answer its row."""
    async for _ in follow(database, scope, run_id, after=2**31 - 2):
        pass
    async with database.as_user(scope) as conn:
        run = await runs.get(conn, run_id)
        if run is None:
            raise await absent(conn, scope, run_id)
    return run
